//! Which calls carry a job's operations: the registry of system calls, and what this host can do of them.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use iodyno_core::block_pattern::{BlockStream, Extent};
use iodyno_core::disk::{Degraded, Disk, DiskSyscalls, TargetKind, Verify};
use iodyno_core::message::ErrorCode;
use iodyno_core::units::Nanos;
use iodyno_load::LoadError;
use iodyno_sys::block_aio::BlockAio;
use iodyno_sys::block_calls::{self, CallFlags};
use iodyno_sys::block_map::BlockMap;
use iodyno_sys::block_memory::BlockMemory;
use iodyno_sys::block_ring::BlockRing;
use iodyno_sys::block_target::page_bytes;
use iodyno_sys::{affinity, errno, stream_ring};

use super::many_at_a_time::{self, NullQueue, Queue};
use super::one_at_a_time::{self, Calls, Mapped, Null, Plain, WithFlags};
use super::shared::Shared;
use super::worker::Worker;
use super::{fault, target};

/// chosen: how long the one read that is tried may take.
const PROBE: Nanos = Nanos(5_000_000_000);

/// Flags of reads and of writes.
fn flags(disk: &Disk) -> [CallFlags; 2] {
    [false, true].map(|write| CallFlags::of(&disk.flags, write))
}

fn is_null(disk: &Disk) -> bool {
    disk.targets[0].kind == TargetKind::Null
}

/// Whether the kernel of this host has the calls of a job.
pub(crate) fn kernel_has(disk: &Disk) -> Result<(), LoadError> {
    if disk.syscalls != DiskSyscalls::IoUring || is_null(disk) {
        return Ok(());
    }
    stream_ring::available()
        .map_err(|why| fault(ErrorCode::Unsupported, why, "disk.syscalls", "take aio or pread on this host"))
}

/// Tries one read in the way that the job asks for; the job as it can be had, with what it does without.
pub(crate) fn probe(
    disk: &Disk,
    files: &[File],
    extents: &[Extent],
) -> Result<(Disk, Vec<Degraded>), LoadError> {
    let mut disk = disk.clone();
    if is_null(&disk) {
        return Ok((disk, Vec::new()));
    }
    match disk.syscalls {
        DiskSyscalls::IoUring => {
            kernel_has(&disk)?;
            let mut degraded = Vec::new();
            match probe_ring(&disk, files, extents[0]) {
                Err(error) if disk.io_uring.iopoll && error.raw_os_error() == Some(errno::EOPNOTSUPP) => {
                    disk.io_uring.iopoll = false;
                    let reason = "the device has no queues that are polled (EOPNOTSUPP)".to_owned();
                    degraded.push(Degraded { name: "io_uring.iopoll".to_owned(), reason });
                    probe_ring(&disk, files, extents[0]).map_err(|error| unusable(&disk, &error))?;
                }
                outcome => outcome.map_err(|error| unusable(&disk, &error))?,
            }
            Ok((disk, degraded))
        }
        DiskSyscalls::Preadv2 => {
            probe_call(&disk, files, extents[0]).map_err(|error| unusable(&disk, &error))?;
            Ok((disk, Vec::new()))
        }
        DiskSyscalls::Pread | DiskSyscalls::Aio | DiskSyscalls::Mmap => Ok((disk, Vec::new())),
    }
}

/// The flags or the ring that the job asks for are not to be had. Errors of the device itself come up in the load.
fn unusable(disk: &Disk, error: &io::Error) -> LoadError {
    let names: Vec<String> = disk.flags.iter().map(|flag| format!("{flag:?}").to_lowercase()).collect();
    let (place, advice) = if names.is_empty() {
        ("disk.io_uring", "leave its options away, or take other syscalls")
    } else {
        ("disk.flags", "leave the flag away that this kernel or file system does not have")
    };
    let what = format!(
        "a read in this way ({}) was refused: {error}",
        if names.is_empty() { "io_uring".to_owned() } else { names.join(", ") }
    );
    fault(ErrorCode::Unsupported, what, place, advice)
}

/// Whether an error says that the way is not possible, rather than that this read failed.
fn is_of_the_way(number: i32) -> bool {
    [errno::EOPNOTSUPP, errno::EINVAL, errno::EPERM, errno::EACCES, errno::ENOMEM].contains(&number)
}

fn probe_length(disk: &Disk) -> usize {
    // As short as may be, so that a slow device is not held up.
    disk.block_bytes.0 as usize
}

fn probe_ring(disk: &Disk, files: &[File], extent: Extent) -> io::Result<()> {
    let one: Arc<[File]> = vec![files[0].try_clone()?].into();
    let memory = BlockMemory::new(1, probe_length(disk))?;
    let (mut ring, _) = BlockRing::new(&one, memory, 1, disk.io_uring, flags(disk))?;
    ring.push(0, 0, 0, false, extent.offset, probe_length(disk), false)?;
    let mut outcome = None;
    let until = iodyno_sys::clock::monotonic().plus(PROBE);
    while outcome.is_none() && iodyno_sys::clock::monotonic() < until {
        ring.wait(1, Some(Nanos(10_000_000)))?;
        ring.take(|complete| outcome = Some(complete.outcome));
    }
    match outcome {
        Some(Err(number)) if is_of_the_way(number) => Err(io::Error::from_raw_os_error(number)),
        _ => Ok(()),
    }
}

fn probe_call(disk: &Disk, files: &[File], extent: Extent) -> io::Result<()> {
    let mut memory = BlockMemory::new(1, probe_length(disk))?;
    let length = probe_length(disk);
    match block_calls::read_with(files[0].as_fd(), &mut memory, 0, length, extent.offset, flags(disk)[0]) {
        Err(number) if is_of_the_way(number) => Err(io::Error::from_raw_os_error(number)),
        _ => Ok(()),
    }
}

/// Carries out what worker `number` has to do, from its own thread, to the end.
pub(crate) fn work(shared: &Shared, number: usize, stream: BlockStream) {
    // To the job's CPUs as a set: the scheduler spreads many threads better than a fixed assignment.
    if let Err(error) = affinity::restrict(&shared.cpus) {
        let what = format!("cannot run on the CPUs of the job: {error}");
        return shared.report(fault(ErrorCode::Limit, what, "cpus", "name CPUs that this host has"));
    }
    if let Err(error) = select(shared, number, stream) {
        shared.report(error);
    }
}

fn select(shared: &Shared, number: usize, stream: BlockStream) -> Result<(), LoadError> {
    let disk = &shared.disk;
    let length = disk.block_bytes.0 as usize;
    let depth = disk.queue_depth as usize;
    let memory = |slots: usize| -> Result<BlockMemory, LoadError> {
        let mut memory = BlockMemory::new(slots, length).map_err(|error| {
            let what = format!("{slots} blocks of {length} bytes cannot be had: {error}");
            fault(
                ErrorCode::Limit,
                what,
                "disk.block_bytes",
                "take a smaller queue_depth, fewer workers or smaller blocks",
            )
        })?;
        for slot in 0..slots {
            // Only what is written is looked at by anyone.
            if disk.writes() && (slot + 1 == slots || disk.verify != Verify::None) {
                super::content::fill(memory.bytes(slot), disk, (number * slots + slot) as u64);
            }
        }
        Ok(memory)
    };
    match disk.syscalls {
        DiskSyscalls::IoUring | DiskSyscalls::Aio if is_null(disk) => {
            many(shared, number, stream, NullQueue::new(memory(depth + 1)?));
        }
        _ if is_null(disk) => one(shared, number, stream, Null { memory: memory(2)? }),
        DiskSyscalls::Pread => one(shared, number, stream, Plain { shared, memory: memory(2)? }),
        DiskSyscalls::Preadv2 => {
            let plain = Plain { shared, memory: memory(2)? };
            one(shared, number, stream, WithFlags { plain, flags: flags(disk) });
        }
        DiskSyscalls::Mmap => {
            let page = page_bytes();
            let maps = shared.files.iter().zip(&shared.extents).map(|(file, extent)| {
                // From the begin of a page; blocks are checked to lie in the region anyway.
                let from = extent.offset / page * page;
                let whole = usize::try_from(extent.offset + extent.length - from).unwrap_or(usize::MAX);
                BlockMap::new(file.as_fd(), from, whole, disk.writes())
            });
            let maps = maps.collect::<io::Result<Vec<_>>>();
            let maps = maps.map_err(|error| target::refused(&error, "a mapping of the target"))?;
            one(shared, number, stream, Mapped { maps, memory: memory(2)? });
        }
        DiskSyscalls::IoUring => {
            let made = BlockRing::new(
                &shared.files,
                memory(depth + 1)?,
                disk.queue_depth,
                disk.io_uring,
                flags(disk),
            );
            let (ring, degraded) = made.map_err(|error| {
                let what = format!("a ring for {} requests cannot be had: {error}", disk.queue_depth);
                fault(ErrorCode::Limit, what, "disk.io_uring", "take fewer workers, or raise ulimit -l")
            })?;
            shared.degrade(degraded);
            many(shared, number, stream, ring);
        }
        DiskSyscalls::Aio => {
            let made = BlockAio::new(&shared.files, memory(depth + 1)?, disk.queue_depth);
            let context = made.map_err(|error| {
                let what = format!("a context for {} requests cannot be had: {error}", disk.queue_depth);
                fault(ErrorCode::Limit, what, "disk.syscalls", "take fewer workers, or raise fs.aio-max-nr")
            })?;
            many(shared, number, stream, context);
        }
    }
    Ok(())
}

fn one(shared: &Shared, number: usize, stream: BlockStream, mut calls: impl Calls) {
    if let Some(mut worker) = Worker::await_start(shared, number, stream) {
        shared.marks[number].first_ns.store(worker.now, Relaxed);
        one_at_a_time::drive(&mut worker, &mut calls);
    }
}

fn many(shared: &Shared, number: usize, stream: BlockStream, mut queue: impl Queue) {
    let mut tables = many_at_a_time::Tables::new(shared.disk.queue_depth as usize);
    if let Some(mut worker) = Worker::await_start(shared, number, stream) {
        shared.marks[number].first_ns.store(worker.now, Relaxed);
        many_at_a_time::drive(&mut worker, &mut queue, &mut tables);
    }
}
