//! System calls that carry many operations of a thread at a time.

use std::sync::atomic::Ordering::Relaxed;

use iodyno_core::block_pattern::Place;
use iodyno_core::disk::Verify;
use iodyno_core::units::Nanos;
use iodyno_sys::block_aio::BlockAio;
use iodyno_sys::block_memory::BlockMemory;
use iodyno_sys::block_ring::{BlockRing, Complete};
use iodyno_sys::errno;

use super::counters::Class;
use super::one_at_a_time::synchronise;
use super::units::Seen;
use super::worker::{Operation, Turn, Worker, LOOK};

/// A queue of operations, each with a slot of its memory.
pub(crate) trait Queue {
    /// Queues an operation; writes take their bytes from slot `source`.
    fn push(&mut self, slot: usize, source: usize, place: &Place, waits: bool) -> Result<(), i32>;
    /// Hands over what is queued, and waits for completions.
    fn wait(&mut self, least: usize, timeout: Option<Nanos>) -> Result<(), i32>;
    /// Takes what is complete.
    fn take(&mut self, each: impl FnMut(Complete));
    /// An operation that was refused by the last wait.
    fn refused(&mut self) -> Option<usize>;
    /// Operations that are not complete.
    fn under_way(&self) -> usize;
    /// Bytes of a slot that is free.
    fn bytes(&mut self, slot: usize) -> &mut [u8];
}

fn number(error: &std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(errno::EINVAL)
}

impl Queue for BlockRing {
    #[inline]
    fn push(&mut self, slot: usize, source: usize, place: &Place, waits: bool) -> Result<(), i32> {
        let target = place.target as usize;
        BlockRing::push(self, slot, source, target, place.write, place.offset, place.length as usize, waits)
            .map_err(|error| number(&error))
    }

    #[inline]
    fn wait(&mut self, least: usize, timeout: Option<Nanos>) -> Result<(), i32> {
        BlockRing::wait(self, least, timeout).map_err(|error| number(&error))
    }

    #[inline]
    fn take(&mut self, each: impl FnMut(Complete)) {
        BlockRing::take(self, each);
    }

    fn refused(&mut self) -> Option<usize> {
        None
    }

    #[inline]
    fn under_way(&self) -> usize {
        BlockRing::under_way(self)
    }

    fn bytes(&mut self, slot: usize) -> &mut [u8] {
        BlockRing::bytes(self, slot)
    }
}

impl Queue for BlockAio {
    #[inline]
    fn push(&mut self, slot: usize, source: usize, place: &Place, _: bool) -> Result<(), i32> {
        let target = place.target as usize;
        BlockAio::push(self, slot, source, target, place.write, place.offset, place.length as usize);
        Ok(())
    }

    #[inline]
    fn wait(&mut self, least: usize, timeout: Option<Nanos>) -> Result<(), i32> {
        BlockAio::wait(self, least, timeout).map_err(|error| number(&error))
    }

    #[inline]
    fn take(&mut self, each: impl FnMut(Complete)) {
        BlockAio::take(self, each);
    }

    fn refused(&mut self) -> Option<usize> {
        self.refuse_first()
    }

    #[inline]
    fn under_way(&self) -> usize {
        BlockAio::under_way(self)
    }

    fn bytes(&mut self, slot: usize) -> &mut [u8] {
        BlockAio::bytes(self, slot)
    }
}

/// Everything is complete at once.
pub(crate) struct NullQueue {
    memory: BlockMemory,
    queued: Vec<(usize, usize)>,
}

impl NullQueue {
    pub(crate) fn new(memory: BlockMemory) -> Self {
        NullQueue { queued: Vec::with_capacity(memory.slots()), memory }
    }
}

impl Queue for NullQueue {
    #[inline]
    fn push(&mut self, slot: usize, _: usize, place: &Place, _: bool) -> Result<(), i32> {
        self.queued.push((slot, place.length as usize));
        Ok(())
    }

    #[inline]
    fn wait(&mut self, _: usize, _: Option<Nanos>) -> Result<(), i32> {
        Ok(())
    }

    #[inline]
    fn take(&mut self, mut each: impl FnMut(Complete)) {
        for (slot, length) in self.queued.drain(..) {
            each(Complete { slot, outcome: Ok(length) });
        }
    }

    fn refused(&mut self) -> Option<usize> {
        None
    }

    #[inline]
    fn under_way(&self) -> usize {
        self.queued.len()
    }

    fn bytes(&mut self, slot: usize) -> &mut [u8] {
        self.memory.bytes(slot)
    }
}

/// What is in flight in a slot.
#[derive(Clone, Copy)]
struct Slot {
    operation: Operation,
    begun: u64,
    seen: Seen,
}

/// What a worker knows of its slots; made before the start.
pub(crate) struct Tables {
    slots: Box<[Slot]>,
    free: Vec<usize>,
    done: Vec<Complete>,
}

impl Tables {
    pub(crate) fn new(depth: usize) -> Self {
        Tables {
            slots: vec![Slot { operation: NOTHING, begun: 0, seen: Seen::default() }; depth]
                .into_boxed_slice(),
            free: (0..depth).rev().collect(),
            done: Vec::with_capacity(2 * depth + 2),
        }
    }
}

/// What keeps a worker from beginning more, until nothing is in flight.
enum Pending {
    Nothing,
    /// A call that makes writes durable.
    Sync,
    /// A pause.
    Think,
    /// The file is to be cut, and this block appended then.
    Cut(Operation),
    /// One operation of a trace that is such a call.
    Traced(Operation),
}

const NOTHING: Operation = Operation {
    class: Class::Read,
    place: Place { target: 0, offset: 0, length: 0, write: false, wrapped: false },
    intended: 0,
};

/// Makes the load, from the start to the stop, and until what is in flight then has ended.
pub(crate) fn drive<Q: Queue>(worker: &mut Worker<'_>, queue: &mut Q, tables: &mut Tables) {
    let shared = worker.shared;
    let depth = shared.disk.queue_depth as usize;
    let batch = shared.disk.batch as usize;
    let verify = shared.disk.verify;
    let units = shared.units.as_ref();
    let source = |slot: usize| if verify == Verify::None { depth } else { slot };
    let Tables { slots, free, done } = tables;
    let mut free_since = worker.now;
    let mut pending = Pending::Nothing;
    // A write that found no block that nothing else writes.
    let mut held = None;
    let mut never = false;
    let mut broken = false;
    loop {
        let stopping = worker.is_due() || never || broken;
        if stopping && held.take().is_some() {
            worker.give_back();
        }
        let mut later = false;
        while !stopping && matches!(pending, Pending::Nothing) {
            let Some(slot) = free.last().copied() else { break };
            let mut operation = match held.take() {
                Some(operation) => operation,
                None => match worker.turn(free_since) {
                    Turn::Now(operation) => operation,
                    Turn::Later => {
                        later = true;
                        break;
                    }
                    Turn::Never => {
                        never = true;
                        break;
                    }
                },
            };
            if worker.is_cut_due(&operation.place) {
                pending = Pending::Cut(operation);
                break;
            }
            if operation.class == Class::Sync {
                pending = Pending::Traced(operation);
                break;
            }
            let mut seen = Seen::default();
            if let Some(units) = units {
                if operation.class == Class::Read {
                    seen = units.begin_read(&operation.place);
                } else if !units.begin_write(&operation.place, queue.bytes(slot)) {
                    match worker.draw_for(units, queue.bytes(slot)) {
                        Some(place) => operation.place = place,
                        // What is in flight keeps nearly every block: it is tried again when something has ended.
                        None => {
                            held = Some(operation);
                            break;
                        }
                    }
                }
            }
            slots[slot] = Slot { operation, begun: worker.now, seen };
            if let Err(error) = queue.push(slot, source(slot), &operation.place, false) {
                worker.failed(&operation, error);
                broken = true;
                break;
            }
            free.pop();
            worker.handed_over();
            if worker.is_sync_due(operation.class) {
                pending = Pending::Sync;
            } else if worker.is_think_due() {
                pending = Pending::Think;
            }
        }
        if queue.under_way() == 0 {
            match std::mem::replace(&mut pending, Pending::Nothing) {
                Pending::Sync => {
                    for target in 0..shared.files.len() {
                        worker.synchronise(target as u32, || synchronise(shared, target));
                    }
                    worker.think();
                    continue;
                }
                _ if stopping || never || broken => return,
                Pending::Think => worker.think(),
                Pending::Traced(operation) => {
                    let begun = worker.now;
                    let outcome = synchronise(shared, operation.place.target as usize);
                    worker.tick();
                    worker.ended(&operation, begun, outcome.map(|()| 0));
                }
                Pending::Cut(operation) => {
                    worker.cut(&operation.place);
                    let Some(slot) = free.pop() else { return };
                    slots[slot] = Slot { operation, begun: worker.now, seen: Seen::default() };
                    if let Some(units) = units {
                        units.begin_write(&operation.place, queue.bytes(slot));
                    }
                    if let Err(error) = queue.push(slot, source(slot), &operation.place, false) {
                        worker.failed(&operation, error);
                        return;
                    }
                }
                Pending::Nothing if later => worker.await_arrival(),
                Pending::Nothing => worker.tick(),
            }
            if queue.under_way() == 0 {
                worker.began();
                continue;
            }
        }
        let least = if stopping { 1 } else { batch.min(queue.under_way()) };
        let (asked, sleep) = (worker.now, worker.sleep_ns().min(LOOK.0));
        let timeout = match later {
            _ if stopping => Some(LOOK),
            true => Some(Nanos(sleep)),
            false => None,
        };
        if let Err(error) = queue.wait(if later { 1 } else { least }, timeout) {
            match queue.refused() {
                Some(slot) => done.push(Complete { slot, outcome: Err(error) }),
                None => {
                    worker.failed(&slots[0].operation, error);
                    shared.marks[worker.number].given_up.store(queue.under_way() as u64, Relaxed);
                    return;
                }
            }
        }
        worker.tick();
        queue.take(|complete| done.push(complete));
        if later && done.is_empty() {
            worker.woke(asked, sleep);
        }
        if free.is_empty() && !done.is_empty() {
            free_since = worker.now;
        }
        for Complete { slot, outcome } in done.drain(..) {
            let Slot { operation, begun, seen } = slots[slot];
            match outcome {
                Err(errno::EAGAIN | errno::EINTR) => {
                    shared.would_block.fetch_add(1, Relaxed);
                    if queue.push(slot, source(slot), &operation.place, true).is_ok() {
                        continue;
                    }
                    worker.failed(&operation, errno::EAGAIN);
                }
                _ => worker.ended(&operation, begun, outcome),
            }
            if let (Some(units), true) = (units, outcome == Ok(operation.place.length as usize)) {
                if operation.class == Class::Write {
                    units.end_write(&operation.place);
                } else if verify == Verify::Read {
                    worker.verify(units, &operation.place, queue.bytes(slot), seen);
                }
            }
            free.push(slot);
        }
        worker.began();
        if stopping && queue.under_way() > 0 && shared.gave_up() {
            shared.marks[worker.number].given_up.store(queue.under_way() as u64, Relaxed);
            return;
        }
    }
}
