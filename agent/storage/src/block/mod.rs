//! Blocks of files and devices, read and written at offsets.

pub(crate) mod content;
mod counters;
mod many_at_a_time;
mod one_at_a_time;
mod shared;
mod syscalls;
mod target;
mod units;
mod worker;

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use iodyno_core::arrivals::{Arrivals, Law};
use iodyno_core::block_pattern::{BlockStream, Cursors, Extent};
use iodyno_core::disk::{Disk, DiskAccount, DiskFailure, Pattern, Replay, TargetKind, Verify, VerifyFailure};
use iodyno_core::histogram::Snapshot;
use iodyno_core::job::Job;
use iodyno_core::message::ErrorCode;
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{Cancel, LoadError, OpenLoop, OpenTotals};
use iodyno_sys::lock::locked;
use iodyno_sys::own_files::with_own_files;
use iodyno_sys::{affinity, clock, realtime};

use crate::classes::ClassTotals;
use crate::targets;
use shared::Shared;
use units::{Units, MOST_UNITS};

/// chosen: stack of a worker: several times what its deepest call takes.
const STACK_BYTES: usize = 128 << 10;

pub(crate) fn fault(
    code: ErrorCode,
    what: impl Into<String>,
    place: impl Into<String>,
    advice: impl Into<String>,
) -> LoadError {
    LoadError { code, what: what.into(), place: place.into(), advice: advice.into() }
}

/// A job whose targets are open and whose threads are parked. Dropping it ends them.
pub struct Prepared {
    crew: Crew,
}

struct Crew {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl Crew {
    fn wake(&self) {
        self.workers.iter().for_each(|worker| worker.thread().unpark());
    }

    /// Whether there is nothing more to wait for: every worker has ended, or has been given up.
    fn is_over(&self) -> bool {
        self.shared.all_finished() || self.shared.gave_up()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if !self.shared.all_finished() {
            self.shared.stop();
            self.wake();
        }
        while !self.is_over() {
            thread::sleep(Duration::from_millis(1));
        }
        // One that hangs in the kernel is left to itself; it ends with the process.
        if self.shared.all_finished() {
            self.workers.drain(..).for_each(|worker| drop(worker.join()));
        }
    }
}

/// Says what [`prepare`] would refuse, as far as it is known without the targets: what does not fit into as many bytes as the job gives
/// them, and, unless the job is for another host, what the kernel of this one lacks.
///
/// # Errors
/// The key of the job that is in the way.
pub fn check(disk: &Disk, elsewhere: bool) -> Result<(), LoadError> {
    let told = disk.targets.iter().filter_map(|target| target::told(disk, target));
    let extents = told.collect::<Result<Vec<_>, _>>()?;
    // Where workers have parts, the first one's is the least.
    stream(disk, &extents, 0, &Cursors::new(extents.len()))?;
    units_are_few(disk, &extents)?;
    if elsewhere {
        return Ok(());
    }
    syscalls::kernel_has(disk)
}

/// Opens the targets of `job`, makes its rings and memory, and starts its threads.
///
/// # Errors
/// What cannot be had, where, and what to try.
pub fn prepare(job: &Job<Disk>, cancel: &Cancel) -> Result<Prepared, LoadError> {
    let disk = &job.load;
    let mut opened = Vec::with_capacity(disk.targets.len());
    for target in &disk.targets {
        opened.push(target::open(disk, target, cancel)?);
        if cancel.is_cancelled() {
            return Err(fault(ErrorCode::Transport, "the job was cancelled", "job", "prepare it again"));
        }
    }
    let (mut files, mut extents, mut accounts) = (Vec::new(), Vec::new(), Vec::new());
    for one in opened {
        files.push(one.file);
        extents.push(one.extent);
        accounts.push(one.account);
    }
    let streams = streams(disk, &extents)?;
    let units = units(disk, &extents)?;
    let (disk, degraded) = syscalls::probe(disk, &files, &extents)?;
    let open = arrivals(&disk).map(|arrivals| OpenLoop::new(&arrivals, disk.workers, disk.workers as usize));
    let allowed = affinity::allowed().map_err(|error| {
        fault(ErrorCode::Limit, format!("the allowed CPUs cannot be read: {error}"), "cpus", "see dmesg")
    })?;
    let cpus = if job.cpus.is_empty() { allowed } else { job.cpus.clone() };
    let realtime = if disk.workers as usize <= cpus.len() {
        realtime::available()
    } else {
        Err(format!("{} workers start on {} CPUs; only as many can start at once", disk.workers, cpus.len()))
    };
    let shared =
        Arc::new(Shared::new(job, &disk, files, extents, accounts, open, units, cpus, realtime, degraded));
    start(shared, streams, cancel).map(|crew| Prepared { crew })
}

fn streams(disk: &Disk, extents: &[Extent]) -> Result<Vec<BlockStream>, LoadError> {
    let cursors = Cursors::new(extents.len());
    (0..disk.workers).map(|worker| stream(disk, extents, worker, &cursors)).collect()
}

fn stream(disk: &Disk, extents: &[Extent], worker: u32, cursors: &Cursors) -> Result<BlockStream, LoadError> {
    BlockStream::new(disk, extents, worker, cursors).map_err(|what| {
        let advice = "take a longer region, shorter blocks or fewer workers";
        fault(ErrorCode::Job, what, "disk.region", advice)
    })
}

/// Whether checks of all units can be kept track of.
fn units_are_few(disk: &Disk, extents: &[Extent]) -> Result<(), LoadError> {
    let unit = disk.alignment();
    let count: u64 = extents.iter().map(|extent| extent.length / unit).sum();
    if disk.verify != Verify::None && disk.writes() && count > MOST_UNITS {
        let what = format!("{count} units of {unit} bytes carry a check, and {MOST_UNITS} are the most");
        return Err(fault(
            ErrorCode::Job,
            what,
            "disk.verify",
            "take a smaller region or a larger align_bytes",
        ));
    }
    Ok(())
}

fn units(disk: &Disk, extents: &[Extent]) -> Result<Option<Units>, LoadError> {
    if disk.verify == Verify::None {
        return Ok(None);
    }
    units_are_few(disk, extents)?;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_secs());
    Ok(Some(Units::new(disk.alignment(), disk.seed, now_s & 0xffff_ffff, extents, disk.writes())))
}

/// When operations are to begin: as the job has it, or a trace to be replayed.
fn arrivals(disk: &Disk) -> Option<Arrivals> {
    let Some(Replay { at_ns, .. }) = &disk.replay else { return disk.arrivals.clone() };
    let last = at_ns.last().filter(|last| last.0 > 0)?;
    let mut before = Nanos(0);
    let gaps_ns = at_ns.iter().map(|at| at.minus(std::mem::replace(&mut before, *at))).collect();
    Some(Arrivals {
        law: Law::Trace { gaps_ns },
        // As many in as long a time: nothing is stretched.
        operations: at_ns.len() as u64,
        period_ns: *last,
        per_connection: false,
        seed: 0,
    })
}

fn start(shared: Arc<Shared>, streams: Vec<BlockStream>, cancel: &Cancel) -> Result<Crew, LoadError> {
    let mut crew = Crew { shared, workers: Vec::with_capacity(streams.len()) };
    let count = streams.len();
    for (number, stream) in streams.into_iter().enumerate() {
        let own = Arc::clone(&crew.shared);
        let work = move || {
            with_own_files(&own.files, count, || syscalls::work(&own, number, stream));
            own.finish();
        };
        let spawned = thread::Builder::new().name("load".to_owned()).stack_size(STACK_BYTES).spawn(work);
        match spawned {
            Ok(worker) => crew.workers.push(worker),
            Err(error) => {
                // Those that were not started have nothing to end.
                for _ in number..count {
                    crew.shared.finish();
                }
                let what = format!("thread {} of {count} cannot be started: {error}", number + 1);
                return Err(fault(ErrorCode::Limit, what, "disk.workers", "take fewer, or raise ulimit -u"));
            }
        }
    }
    while !crew.shared.all_parked() {
        if cancel.is_cancelled() {
            return Err(fault(ErrorCode::Transport, "the job was cancelled", "job", "prepare it again"));
        }
        thread::sleep(Duration::from_micros(200));
    }
    let trouble = locked(&crew.shared.trouble).take();
    trouble.map_or(Ok(crew), Err)
}

impl Prepared {
    /// Threads that make the load.
    #[must_use]
    pub fn workers(&self) -> u32 {
        self.crew.shared.disk.workers
    }

    /// Kernel thread ids of the workers.
    #[must_use]
    pub fn thread_ids(&self) -> Vec<i32> {
        self.crew.shared.marks.iter().map(|mark| mark.thread_id.load(Relaxed)).collect()
    }

    /// Starts the load at `start` on the `CLOCK_MONOTONIC` axis; a start that is past is now.
    #[must_use]
    pub fn arm(self, start: Nanos) -> Running {
        self.crew.shared.arm(start);
        self.crew.wake();
        Running { crew: self.crew }
    }
}

/// Everything counted from the start to a moment.
#[derive(Clone, Default)]
pub struct Totals {
    /// Bytes read and written.
    pub bytes: u64,
    /// Reads and writes that ended well.
    pub operations: u64,
    /// Their service time.
    pub service_time: Snapshot,
    /// By class; with those that move nothing.
    pub classes: Vec<ClassTotals>,
    /// The same of each target, where there are several and not too many.
    pub targets: Vec<Vec<ClassTotals>>,
    /// Bytes of each target.
    pub target_bytes: Vec<u64>,
    /// What only an open loop counts; absent: the loop is closed.
    pub open_loop: Option<OpenTotals>,
}

/// What was counted, of a trace that is replayed: after its last arrival none is due, whatever the schedule goes on with.
fn within(counted: OpenTotals, replay: Option<&Replay>) -> OpenTotals {
    let last = replay.map_or(u64::MAX, |replay| replay.kinds.len() as u64);
    if counted.due <= last {
        return counted;
    }
    let waiting = last.saturating_sub(counted.begun);
    OpenTotals {
        due: last,
        missed: counted.missed.min(waiting),
        backlog: counted.backlog.min(waiting),
        oldest_wait_ns: if waiting > 0 { counted.oldest_wait_ns } else { Nanos(0) },
        ..counted
    }
}

/// A job that was armed. Dropping it stops the load.
pub struct Running {
    crew: Crew,
}

impl Running {
    /// Reads its counters.
    #[must_use]
    pub fn read(&self) -> Totals {
        let shared = &self.crew.shared;
        let service_time = shared.counters.service_time();
        let mut targets = shared.counters.read();
        let mut classes = targets[0].clone();
        for target in &targets[1..] {
            for (class, more) in classes.iter_mut().zip(target) {
                class.add(more);
            }
        }
        if targets.len() == 1 {
            targets.clear();
        }
        let moving = |class: &&ClassTotals| class.name == "read" || class.name == "write";
        Totals {
            bytes: classes.iter().filter(moving).map(|class| class.bytes).sum(),
            operations: classes.iter().filter(moving).map(|class| class.operations).sum(),
            service_time,
            classes,
            targets,
            target_bytes: (0..shared.files.len())
                .map(|at| shared.counters.target_bytes(at).iter().sum())
                .collect(),
            open_loop: shared.open.as_ref().map(|open| OpenTotals {
                // They are counted by class.
                response_time: shared.counters.response_time(),
                ..within(open.read(clock::monotonic), shared.disk.replay.as_ref())
            }),
        }
    }

    /// Bytes and operations so far, at a fraction of what all counters take.
    #[must_use]
    pub fn moved(&self) -> (u64, u64) {
        self.crew.shared.counters.moved()
    }

    /// Whether the workers start under `SCHED_FIFO`.
    ///
    /// # Errors
    /// Why not: not allowed, or more workers than CPUs.
    pub fn realtime(&self) -> Result<(), String> {
        self.crew.shared.realtime.clone()
    }

    /// Ends the load: nothing more is begun, what is in flight ends by itself.
    pub fn stop(&self) {
        self.crew.shared.stop();
        self.crew.wake();
    }

    /// Whether every worker has ended, or was given up because it hangs in the kernel.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.crew.is_over()
    }

    /// When the last worker so far ended; none has: `None`.
    #[must_use]
    pub fn ended_ns(&self) -> Option<Nanos> {
        let ended = self.crew.shared.marks.iter().map(|mark| mark.ended_ns.load(Relaxed));
        ended.filter(|ended| *ended > 0).max().map(Nanos)
    }

    /// Why the load failed, where it did: more errors than are allowed.
    #[must_use]
    pub fn failure(&self) -> Option<LoadError> {
        let shared = &self.crew.shared;
        if shared.errors.load(Relaxed) <= shared.disk.errors_allowed {
            return None;
        }
        let path = |target: u32| shared.accounts[target as usize].path.clone();
        if let Some((expected, found)) = shared.first_wrong.get() {
            let what =
                format!("wrong data at offset {} of it: expected {expected}; found {found}", expected.offset);
            let advice =
                "see who else writes there; a job that reads what was written must have the seed of the \
                          one that wrote, and its align_bytes";
            return Some(fault(ErrorCode::Target, what, path(expected.target), advice));
        }
        let failed = failed(shared)?;
        let what = format!(
            "{} of {} bytes at offset {} failed: {}",
            failed.class, failed.length_bytes.0, failed.offset_bytes.0, failed.what
        );
        let reading = target::refused(&std::io::Error::from_raw_os_error(failed.error), "");
        let advice = match failed.error {
            0 => "see who made it shorter while the load was on".to_owned(),
            iodyno_sys::errno::EINVAL if shared.disk.direct => {
                let needed = shared.accounts[failed.target as usize].offset_align_bytes;
                let least = needed.map_or(4096, |bytes| bytes.0);
                format!("without the page cache, take offsets and lengths that are multiples of {least}")
            }
            _ => reading.advice,
        };
        Some(fault(ErrorCode::Target, what, path(failed.target), advice))
    }

    /// Waits until every worker has ended, or was given up.
    #[must_use]
    pub fn join(self) -> Finished {
        while !self.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        let shared = &self.crew.shared;
        let firsts =
            || shared.marks.iter().map(|mark| mark.first_ns.load(Relaxed)).filter(|first| *first > 0);
        Finished {
            first_operation_ns: firsts().min().map(Nanos),
            last_worker_started_ns: firsts().max().map(Nanos),
            stopped_ns: self.ended_ns(),
            account: account(shared),
            failure: self.failure(),
            totals: self.read(),
        }
    }
}

fn failed(shared: &Shared) -> Option<DiskFailure> {
    let failure = shared.first_failure.get()?;
    let what = match failure.error {
        0 => "the target ended before the block did".to_owned(),
        number => std::io::Error::from_raw_os_error(number).to_string(),
    };
    Some(DiskFailure {
        class: failure.class.name(&shared.disk).to_owned(),
        target: failure.place.target,
        offset_bytes: Bytes(failure.place.offset),
        length_bytes: Bytes(failure.place.length.into()),
        error: failure.error,
        what,
    })
}

fn account(shared: &Shared) -> DiskAccount {
    let hanging = shared.marks.len().saturating_sub(shared.finished()) as u64;
    let mut targets = shared.accounts.clone();
    for (at, account) in targets.iter_mut().enumerate() {
        let [read, written] = shared.counters.target_bytes(at);
        (account.read_bytes, account.written_bytes) = (Bytes(read), Bytes(written));
        if account.kind != TargetKind::Null && hanging == 0 {
            if shared.disk.pattern == Pattern::Append {
                targets::rest(&shared.files[at]);
            }
            account.lost = target::lost(&shared.files[at], account);
            target::note_resident(&shared.files[at], shared.extents[at], account, false);
        }
    }
    let given_up: u64 = shared.marks.iter().map(|mark| mark.given_up.load(Relaxed)).sum();
    DiskAccount {
        syscalls: shared.disk.syscalls,
        degraded: locked(&shared.degraded).clone(),
        targets,
        short_operations: shared.shorts.load(Relaxed),
        would_block: shared.would_block.load(Relaxed),
        errors: shared.errors.load(Relaxed),
        first_error: failed(shared),
        verified_units: shared.verified.load(Relaxed),
        verify_skipped_units: shared.verify_skipped.load(Relaxed),
        verify_failures: shared.verify_failures.load(Relaxed),
        first_verify_failure: shared.first_wrong.get().map(|(expected, found)| VerifyFailure {
            target: expected.target,
            offset_bytes: Bytes(expected.offset),
            expected: expected.to_string(),
            found: found.to_string(),
        }),
        complete: shared.complete.load(SeqCst) && shared.all_finished(),
        unfinished_operations: given_up + hanging,
    }
}

/// What a job did.
#[derive(Clone, Default)]
pub struct Finished {
    /// When the first worker began.
    pub first_operation_ns: Option<Nanos>,
    /// When the last one began.
    pub last_worker_started_ns: Option<Nanos>,
    /// When the last worker ended; absent: none began.
    pub stopped_ns: Option<Nanos>,
    /// What was obtained, and what went wrong.
    pub account: DiskAccount,
    /// Why the load failed, where it did.
    pub failure: Option<LoadError>,
    /// Everything counted.
    pub totals: Totals,
}
