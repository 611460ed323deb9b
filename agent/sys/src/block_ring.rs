//! Blocks over `io_uring`: reads and writes of a few files, each with a slot of the ring's memory.
//!
//! The ring owns the memory, because the kernel uses it until a request is complete: nobody can free it too early, and
//! nobody looks into a slot while its request is in flight.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use io_uring::squeue::Entry;
use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{opcode, IoUring};

use iodyno_core::disk::{Degraded, Uring};
use iodyno_core::units::Nanos;

use crate::block_calls::CallFlags;
use crate::block_memory::BlockMemory;
use crate::clock;
use crate::ring_common::cancel_all;

/// Longest buffer that may be registered as one (`io_uring_register(2)`).
const MOST_REGISTERED_BYTES: usize = 1 << 30;
/// chosen: how long a kernel thread that takes submissions looks for them before it sleeps.
const SQPOLL_IDLE_MS: u32 = 100;

/// A request that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complete {
    /// Its slot.
    pub slot: usize,
    /// Bytes moved, or the error number.
    pub outcome: Result<usize, i32>,
}

/// A ring of one thread.
pub struct BlockRing {
    // In this order: the ring ends before the memory and the files that it uses.
    ring: ManuallyDrop<IoUring>,
    memory: ManuallyDrop<BlockMemory>,
    files: ManuallyDrop<Arc<[File]>>,
    descriptors: Box<[RawFd]>,
    registered_files: bool,
    registered_buffers: bool,
    flags: [CallFlags; 2],
    /// Whether completions come only while somebody asks for them.
    polled: bool,
    busy: Box<[bool]>,
    under_way: usize,
    queued: usize,
}

fn build(depth: u32, options: Uring) -> io::Result<(IoUring, Option<Degraded>)> {
    let mut builder = IoUring::builder();
    builder.setup_clamp().setup_cqsize((2 * depth).next_power_of_two());
    if options.iopoll {
        builder.setup_iopoll();
    }
    if options.sqpoll {
        builder.setup_sqpoll(SQPOLL_IDLE_MS);
        return builder.build(depth).map(|ring| (ring, None));
    }
    let mut modern = builder.clone();
    modern.setup_single_issuer().setup_defer_taskrun();
    match modern.build(depth) {
        Ok(ring) => Ok((ring, None)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            let reason = "this kernel's io_uring runs its work at any time (Linux 6.1)".to_owned();
            let told = Degraded { name: "io_uring.defer_taskrun".to_owned(), reason };
            builder.build(depth).map(|ring| (ring, Some(told)))
        }
        Err(error) => Err(error),
    }
}

impl BlockRing {
    /// A ring for `depth` requests on `files`; to be made by the thread that uses it. What it does without is told.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn new(
        files: &Arc<[File]>,
        memory: BlockMemory,
        depth: u32,
        options: Uring,
        flags: [CallFlags; 2],
    ) -> io::Result<(Self, Vec<Degraded>)> {
        let (ring, degraded) = build(depth.max(2), options)?;
        let mut degraded = Vec::from_iter(degraded);
        let descriptors: Box<[RawFd]> = files.iter().map(AsRawFd::as_raw_fd).collect();
        let mut told = |name: &str, error: &io::Error| {
            degraded.push(Degraded { name: format!("io_uring.{name}"), reason: error.to_string() });
        };
        let mut registered = |asked: bool, name: &str, outcome: &dyn Fn() -> io::Result<()>| {
            asked && outcome().map_err(|error| told(name, &error)).is_ok()
        };
        let registered_files = registered(options.registered_files, "registered_files", &|| {
            ring.submitter().register_files(&descriptors)
        });
        let range = memory.range();
        let registered_buffers = registered(options.registered_buffers, "registered_buffers", &|| {
            if range.len() > MOST_REGISTERED_BYTES {
                return Err(io::Error::other("more than 1 GiB of blocks in a worker"));
            }
            let vector = libc::iovec { iov_base: range.start as *mut libc::c_void, iov_len: range.len() };
            // SAFETY: the memory lives until the ring has ended: `BlockRing` drops the ring first.
            unsafe { ring.submitter().register_buffers(&[vector]) }
        });
        let busy = vec![false; memory.slots()].into_boxed_slice();
        let ring = BlockRing {
            ring: ManuallyDrop::new(ring),
            memory: ManuallyDrop::new(memory),
            files: ManuallyDrop::new(Arc::clone(files)),
            descriptors,
            registered_files,
            registered_buffers,
            flags,
            polled: options.iopoll,
            busy,
            under_way: 0,
            queued: 0,
        };
        Ok((ring, degraded))
    }

    /// Requests that are not complete.
    #[inline]
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// The bytes of a slot that no request uses.
    ///
    /// # Panics
    /// A request uses it.
    #[must_use]
    pub fn bytes(&mut self, slot: usize) -> &mut [u8] {
        assert!(!self.busy[slot], "a block that the kernel is using");
        self.memory.bytes(slot)
    }

    /// Queues a read into, or a write from, a slot. `source` is the slot that a write takes its bytes from, which other
    /// writes may use at the same time. `waits`: without `RWF_NOWAIT`.
    ///
    /// # Errors
    /// What the kernel said where the queue was full and had to be handed over.
    ///
    /// # Panics
    /// A request uses the slot.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "what a request is")]
    pub fn push(
        &mut self,
        slot: usize,
        source: usize,
        target: usize,
        write: bool,
        offset: u64,
        length: usize,
        waits: bool,
    ) -> io::Result<()> {
        assert!(!self.busy[slot], "a block that the kernel is using");
        let place = self.memory.place(if write { source } else { slot }, length);
        let length = length as u32;
        let flags = self.flags[usize::from(write)];
        let flags = if waits { flags.waiting() } else { flags }.0.bits() as i32;
        macro_rules! entry {
            ($file:expr) => {
                match (write, self.registered_buffers) {
                    (false, true) => {
                        opcode::ReadFixed::new($file, place, length, 0).offset(offset).rw_flags(flags).build()
                    }
                    (true, true) => opcode::WriteFixed::new($file, place, length, 0)
                        .offset(offset)
                        .rw_flags(flags)
                        .build(),
                    (false, false) => {
                        opcode::Read::new($file, place, length).offset(offset).rw_flags(flags).build()
                    }
                    (true, false) => {
                        opcode::Write::new($file, place, length).offset(offset).rw_flags(flags).build()
                    }
                }
            };
        }
        let entry: Entry = if self.registered_files {
            entry!(Fixed(target as u32))
        } else {
            entry!(Fd(self.descriptors[target]))
        };
        let entry = entry.user_data(slot as u64);
        // SAFETY: the memory of the slot is this ring's, which outlives the request, and nobody touches it before the
        // request is complete: `busy` says so. Bytes that are written are only read.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.ring.submit()?;
        }
        self.busy[slot] = true;
        self.under_way += 1;
        self.queued += 1;
        Ok(())
    }

    /// Hands over what is queued, and waits until `least` requests are complete or `timeout` has passed.
    ///
    /// # Errors
    /// What the kernel said; that the time has passed or a signal came is none.
    #[inline]
    pub fn wait(&mut self, least: usize, timeout: Option<Nanos>) -> io::Result<()> {
        self.queued = 0;
        let outcome = match timeout {
            // The kernel's own loop that asks the device has no end but a completion.
            Some(span) if self.polled => self.poll(least, span),
            None => self.ring.submit_and_wait(least),
            Some(span) => {
                let time = Timespec::new().sec(span.0 / 1_000_000_000).nsec((span.0 % 1_000_000_000) as u32);
                self.ring.submitter().submit_with_args(least, &SubmitArgs::new().timespec(&time))
            }
        };
        match outcome {
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
            Ok(_) => Ok(()),
        }
    }

    /// Asks the device again and again, until `least` requests are complete or `span` has passed.
    fn poll(&mut self, least: usize, span: Nanos) -> io::Result<usize> {
        let until = clock::monotonic().plus(span);
        loop {
            let submitted = self.ring.submit_and_wait(0)?;
            if self.ring.completion().len() >= least || clock::monotonic() >= until {
                return Ok(submitted);
            }
            std::hint::spin_loop();
        }
    }

    /// Requests that were queued and not handed over.
    #[inline]
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Takes every request that is complete.
    #[inline]
    pub fn take(&mut self, mut each: impl FnMut(Complete)) {
        let mut taken = 0;
        for entry in self.ring.completion() {
            let slot = entry.user_data() as usize;
            self.busy[slot] = false;
            taken += 1;
            let result = entry.result();
            each(Complete { slot, outcome: usize::try_from(result).map_err(|_| -result) });
        }
        self.under_way -= taken;
    }
}

impl Drop for BlockRing {
    fn drop(&mut self) {
        let busy = self.busy.iter().enumerate().filter(|(_, busy)| **busy);
        let quiet = self.under_way == 0 || cancel_all(&mut self.ring, busy.map(|(slot, _)| slot as u64));
        // SAFETY: none of them is used after this.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            // Where requests may still be on their way, their memory and files stay.
            if quiet {
                ManuallyDrop::drop(&mut self.memory);
                ManuallyDrop::drop(&mut self.files);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_asks_the_device_ends_with_its_time_and_with_a_completion() {
        let file = File::open("/dev/zero").unwrap();
        let files: Arc<[File]> = Arc::new([file]);
        let memory = BlockMemory::new(2, 4096).unwrap();
        let Ok((mut ring, _)) =
            BlockRing::new(&files, memory, 1, Uring::default(), [CallFlags::of(&[], false); 2])
        else {
            return;
        };
        // As of a device with queues that are polled, which few hosts have.
        ring.polled = true;
        let begun = clock::monotonic();
        ring.wait(1, Some(Nanos(20_000_000))).unwrap();
        assert!(clock::monotonic().minus(begun) >= Nanos(20_000_000));
        ring.push(0, 0, 0, false, 0, 4096, false).unwrap();
        let mut done = Vec::new();
        while done.is_empty() {
            ring.wait(1, Some(Nanos::SECOND)).unwrap();
            ring.take(|complete| done.push(complete));
        }
        assert_eq!(done, [Complete { slot: 0, outcome: Ok(4096) }]);
    }
}
