//! System calls that carry one operation of a thread at a time.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

use iodyno_core::disk::Sync;
use iodyno_sys::block_calls::{self, CallFlags};
use iodyno_sys::block_map::BlockMap;
use iodyno_sys::block_memory::BlockMemory;
use iodyno_sys::errno;

use super::counters::Class;
use super::shared::Shared;
use super::worker::{Turn, Worker};

/// The slot that reads go to, and the one that writes come from.
const READ: usize = 0;
const WRITE: usize = 1;

/// The calls of one syscalls: bytes moved, or the error number.
pub(crate) trait Calls {
    /// Reads a block. `waits`: also where it would have to.
    fn read(&mut self, target: usize, length: usize, offset: u64, waits: bool) -> Result<usize, i32>;
    /// Writes a block.
    fn write(&mut self, target: usize, length: usize, offset: u64, waits: bool) -> Result<usize, i32>;
    /// Makes what was written durable.
    fn synchronise(&mut self, target: usize) -> Result<(), i32>;
    /// Bytes of a slot.
    fn bytes(&mut self, slot: usize) -> &mut [u8];
}

/// `pread` and `pwrite`.
pub(crate) struct Plain<'a> {
    pub shared: &'a Shared,
    pub memory: BlockMemory,
}

impl Calls for Plain<'_> {
    #[inline]
    fn read(&mut self, target: usize, length: usize, offset: u64, _: bool) -> Result<usize, i32> {
        block_calls::read(self.shared.files[target].as_fd(), &mut self.memory, READ, length, offset)
    }

    #[inline]
    fn write(&mut self, target: usize, length: usize, offset: u64, _: bool) -> Result<usize, i32> {
        block_calls::write(self.shared.files[target].as_fd(), &self.memory, WRITE, length, offset)
    }

    fn synchronise(&mut self, target: usize) -> Result<(), i32> {
        synchronise(self.shared, target)
    }

    fn bytes(&mut self, slot: usize) -> &mut [u8] {
        self.memory.bytes(slot)
    }
}

/// `fsync` or `fdatasync`, as the job has it.
pub(crate) fn synchronise(shared: &Shared, target: usize) -> Result<(), i32> {
    block_calls::synchronise(shared.files[target].as_fd(), shared.disk.sync == Sync::Fdatasync)
}

/// `preadv2` and `pwritev2`.
pub(crate) struct WithFlags<'a> {
    pub plain: Plain<'a>,
    /// Of reads and of writes.
    pub flags: [CallFlags; 2],
}

impl Calls for WithFlags<'_> {
    #[inline]
    fn read(&mut self, target: usize, length: usize, offset: u64, waits: bool) -> Result<usize, i32> {
        let flags = if waits { self.flags[0].waiting() } else { self.flags[0] };
        let file = self.plain.shared.files[target].as_fd();
        block_calls::read_with(file, &mut self.plain.memory, READ, length, offset, flags)
    }

    #[inline]
    fn write(&mut self, target: usize, length: usize, offset: u64, waits: bool) -> Result<usize, i32> {
        let flags = if waits { self.flags[1].waiting() } else { self.flags[1] };
        let file = self.plain.shared.files[target].as_fd();
        block_calls::write_with(file, &self.plain.memory, WRITE, length, offset, flags)
    }

    fn synchronise(&mut self, target: usize) -> Result<(), i32> {
        self.plain.synchronise(target)
    }

    fn bytes(&mut self, slot: usize) -> &mut [u8] {
        self.plain.bytes(slot)
    }
}

/// Mappings of the targets' regions.
pub(crate) struct Mapped {
    pub maps: Vec<BlockMap>,
    pub memory: BlockMemory,
}

impl Calls for Mapped {
    #[inline]
    fn read(&mut self, target: usize, length: usize, offset: u64, _: bool) -> Result<usize, i32> {
        self.maps[target].read(&mut self.memory, READ, length, offset)
    }

    #[inline]
    fn write(&mut self, target: usize, length: usize, offset: u64, _: bool) -> Result<usize, i32> {
        self.maps[target].write(&self.memory, WRITE, length, offset)
    }

    fn synchronise(&mut self, target: usize) -> Result<(), i32> {
        self.maps[target].synchronise()
    }

    fn bytes(&mut self, slot: usize) -> &mut [u8] {
        self.memory.bytes(slot)
    }
}

/// Nothing at all.
pub(crate) struct Null {
    pub memory: BlockMemory,
}

impl Calls for Null {
    #[inline]
    fn read(&mut self, _: usize, length: usize, _: u64, _: bool) -> Result<usize, i32> {
        Ok(length)
    }

    #[inline]
    fn write(&mut self, _: usize, length: usize, _: u64, _: bool) -> Result<usize, i32> {
        Ok(length)
    }

    fn synchronise(&mut self, _: usize) -> Result<(), i32> {
        Ok(())
    }

    fn bytes(&mut self, slot: usize) -> &mut [u8] {
        self.memory.bytes(slot)
    }
}

/// Makes the load, from the start to the stop.
pub(crate) fn drive(worker: &mut Worker<'_>, calls: &mut impl Calls) {
    let units = worker.shared.units.as_ref();
    let checks_reads = units.is_some() && worker.shared.disk.verify == iodyno_core::disk::Verify::Read;
    // How late the generator was with the last operation: it keeps the worker so much longer, and what waits behind it
    // waits for the generator.
    let mut late = 0;
    let mut free_since = worker.now;
    while !worker.is_due() {
        let mut operation = match worker.turn(free_since) {
            Turn::Now(operation) => operation,
            Turn::Later => {
                worker.await_arrival();
                continue;
            }
            Turn::Never => return,
        };
        if operation.intended > 0 {
            late = worker.now.saturating_sub(operation.intended.max(free_since));
        }
        let (target, length) = (operation.place.target as usize, operation.place.length as usize);
        let outcome = match operation.class {
            Class::Read => {
                let begun = worker.now;
                let seen =
                    units.filter(|_| checks_reads).map(|units| (units, units.begin_read(&operation.place)));
                let outcome =
                    again(worker, |waits| calls.read(target, length, operation.place.offset, waits));
                worker.tick();
                worker.ended(&operation, begun, outcome);
                if let (Some((units, seen)), Ok(moved)) = (seen, outcome) {
                    if moved == length {
                        worker.verify(units, &operation.place, calls.bytes(READ), seen);
                        worker.tick();
                    }
                }
                outcome
            }
            Class::Write => {
                if worker.is_cut_due(&operation.place) {
                    worker.cut(&operation.place);
                }
                if let Some(units) = units {
                    while !units.begin_write(&operation.place, calls.bytes(WRITE)) {
                        if let Some(place) = worker.draw_for(units, calls.bytes(WRITE)) {
                            operation.place = place;
                            break;
                        }
                        // Others write nearly every block, or were never told that they had: it is tried until the stop.
                        std::thread::yield_now();
                        worker.tick();
                        if worker.is_due() {
                            return worker.give_back();
                        }
                    }
                    worker.tick();
                }
                let begun = worker.now;
                let (offset, length) = (operation.place.offset, operation.place.length as usize);
                let target = operation.place.target as usize;
                let outcome = again(worker, |waits| calls.write(target, length, offset, waits));
                worker.tick();
                worker.ended(&operation, begun, outcome);
                if let (Some(units), true) = (units, outcome == Ok(length)) {
                    units.end_write(&operation.place);
                }
                if worker.is_sync_due(Class::Write) {
                    for target in 0..worker.shared.files.len() {
                        worker.synchronise(target as u32, || calls.synchronise(target));
                    }
                }
                outcome
            }
            Class::Sync | Class::Truncate => {
                let begun = worker.now;
                let outcome = calls.synchronise(target).map(|()| 0);
                worker.tick();
                worker.ended(&operation, begun, outcome);
                outcome
            }
        };
        if outcome.is_err() {
            worker.tick();
        }
        worker.handed_over();
        worker.think();
        free_since = worker.now.saturating_sub(late);
        worker.began();
    }
}

/// A call until no signal came in between; where it would have had to wait, once more without that flag.
#[inline]
fn again(worker: &Worker<'_>, mut call: impl FnMut(bool) -> Result<usize, i32>) -> Result<usize, i32> {
    let mut waits = false;
    loop {
        match call(waits) {
            Err(errno::EINTR) => {}
            Err(errno::EAGAIN) if !waits => {
                worker.shared.would_block.fetch_add(1, Relaxed);
                waits = true;
            }
            outcome => return outcome,
        }
    }
}
