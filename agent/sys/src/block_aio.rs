//! Blocks over Linux AIO: `io_submit` and `io_getevents` by their numbers.
//!
//! As with the ring, the memory belongs to whoever talks to the kernel.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use iodyno_core::units::Nanos;

use crate::block_memory::BlockMemory;
use crate::block_ring::Complete;

/// From the kernel's `linux/aio_abi.h`.
const IOCB_CMD_PREAD: u16 = 0;
const IOCB_CMD_PWRITE: u16 = 1;

/// `struct iocb` of the kernel, as little-endian machines have it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

/// `struct io_event` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    second: i64,
}

/// A context of one thread.
pub struct BlockAio {
    context: libc::c_ulong,
    memory: ManuallyDrop<BlockMemory>,
    requests: ManuallyDrop<Box<[Request]>>,
    files: ManuallyDrop<Arc<[File]>>,
    descriptors: Box<[RawFd]>,
    /// Requests that were queued and not handed over, as addresses.
    queue: Vec<*mut Request>,
    events: Box<[Event]>,
    came: usize,
    busy: Box<[bool]>,
    under_way: usize,
}

fn checked(outcome: libc::c_long) -> io::Result<usize> {
    usize::try_from(outcome).map_err(|_| io::Error::last_os_error())
}

impl BlockAio {
    /// A context for `depth` requests on `files`.
    ///
    /// # Errors
    /// `EAGAIN` beyond `fs.aio-max-nr`, `ENOSYS` where the kernel has none.
    pub fn new(files: &Arc<[File]>, memory: BlockMemory, depth: u32) -> io::Result<Self> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one word.
        checked(unsafe { libc::syscall(libc::SYS_io_setup, libc::c_long::from(depth), &raw mut context) })?;
        let slots = memory.slots();
        Ok(BlockAio {
            context,
            memory: ManuallyDrop::new(memory),
            requests: ManuallyDrop::new(vec![Request::default(); slots].into_boxed_slice()),
            files: ManuallyDrop::new(Arc::clone(files)),
            descriptors: files.iter().map(AsRawFd::as_raw_fd).collect(),
            queue: Vec::with_capacity(slots),
            events: vec![Event::default(); depth as usize].into_boxed_slice(),
            came: 0,
            busy: vec![false; slots].into_boxed_slice(),
            under_way: 0,
        })
    }

    /// Requests that are not complete.
    #[inline]
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Requests that were queued and not handed over.
    #[inline]
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queue.len()
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

    /// As `BlockRing::push`.
    ///
    /// # Panics
    /// A request uses the slot.
    #[inline]
    pub fn push(
        &mut self,
        slot: usize,
        source: usize,
        target: usize,
        write: bool,
        offset: u64,
        length: usize,
    ) {
        assert!(!self.busy[slot], "a block that the kernel is using");
        let place = self.memory.place(if write { source } else { slot }, length);
        self.requests[slot] = Request {
            data: slot as u64,
            opcode: if write { IOCB_CMD_PWRITE } else { IOCB_CMD_PREAD },
            file: self.descriptors[target] as u32,
            buffer: place as u64,
            bytes: length as u64,
            offset: offset as i64,
            ..Request::default()
        };
        self.queue.push(&raw mut self.requests[slot]);
        self.busy[slot] = true;
        self.under_way += 1;
    }

    /// Hands over what is queued, and waits until `least` requests are complete or `timeout` has passed.
    ///
    /// # Errors
    /// What the kernel said of a request that it did not take; its slot is the first in the queue.
    #[inline]
    pub fn wait(&mut self, least: usize, timeout: Option<Nanos>) -> io::Result<()> {
        let mut handed = 0;
        while handed < self.queue.len() {
            let left = &mut self.queue[handed..];
            // SAFETY: every address is that of a request of this value, which lives until the context has ended; so do
            // its memory and files.
            let outcome = checked(unsafe {
                libc::syscall(
                    libc::SYS_io_submit,
                    self.context,
                    left.len() as libc::c_long,
                    left.as_mut_ptr(),
                )
            });
            match outcome {
                Ok(taken) => handed += taken,
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                // Some must be complete first.
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) && self.under_way > left.len() => {
                    break
                }
                Err(error) => {
                    self.queue.drain(..handed);
                    return Err(error);
                }
            }
        }
        self.queue.drain(..handed);
        let least = least.min(self.under_way - self.queue.len());
        let time = timeout.map(|span| libc::timespec {
            tv_sec: (span.0 / 1_000_000_000) as libc::time_t,
            tv_nsec: (span.0 % 1_000_000_000) as libc::c_long,
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the kernel writes at most as many events as there is room for, and reads the time, if any.
        let outcome = checked(unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                least as libc::c_long,
                self.events.len() as libc::c_long,
                self.events.as_mut_ptr(),
                time,
            )
        });
        self.came = match outcome {
            Ok(came) => came,
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => 0,
            Err(error) => return Err(error),
        };
        Ok(())
    }

    /// Gives up the first request of the queue, which the kernel did not take; its slot.
    pub fn refuse_first(&mut self) -> Option<usize> {
        if self.queue.is_empty() {
            return None;
        }
        let place = self.queue.remove(0) as usize;
        let slot = (place - self.requests.as_ptr() as usize) / size_of::<Request>();
        self.busy[slot] = false;
        self.under_way -= 1;
        Some(slot)
    }

    /// Takes every request that the last wait found complete.
    #[inline]
    pub fn take(&mut self, mut each: impl FnMut(Complete)) {
        for event in &self.events[..self.came] {
            let slot = event.data as usize;
            self.busy[slot] = false;
            self.under_way -= 1;
            let outcome = usize::try_from(event.result).map_err(|_| -event.result as i32);
            each(Complete { slot, outcome });
        }
        self.came = 0;
    }
}

impl Drop for BlockAio {
    fn drop(&mut self) {
        // It waits for what is in flight.
        // SAFETY: the context is this value's and not used after this.
        let ended = unsafe { libc::syscall(libc::SYS_io_destroy, self.context) } == 0;
        if ended {
            // SAFETY: none of them is used after this, also not by the kernel.
            unsafe {
                ManuallyDrop::drop(&mut self.memory);
                ManuallyDrop::drop(&mut self.requests);
                ManuallyDrop::drop(&mut self.files);
            }
        }
    }
}
