//! One pinned worker a CPU, many connections each, non-blocking calls.

use std::io;

use iodyno_sys::affinity;
use iodyno_sys::epoll::{Epoll, Events};

use crate::error::LoadError;
use crate::transport::Link;
use crate::worker::shared::Shared;
use crate::worker::Worker;
use crate::workload::{Activity, Step};

/// chosen: descriptors that one wait reports. What is ready beyond is reported by the next wait, before those
/// that were visited meanwhile: the kernel keeps them in turn.
const MOST_EVENTS: usize = 256;

/// One connection of a worker.
struct Slot<A, L> {
    activity: A,
    link: L,
    connection: usize,
    open: bool,
}

pub(crate) fn drive<A: Activity, L: Link>(shared: &Shared, number: usize, make: impl Fn(usize) -> (A, L)) {
    let cpu = shared.cpus[number % shared.cpus.len()];
    if let Err(error) = affinity::restrict(&[cpu]) {
        return shared.report(LoadError::refused(&error, &format!("run on CPU {cpu}"), "cpus"));
    }
    let mut slots: Vec<Slot<A, L>> = shared
        .share_of(number)
        .map(|connection| {
            let (activity, link) = make(connection);
            Slot { activity, link, connection, open: true }
        })
        .collect();
    let waiting = match Waiting::on(&slots) {
        Ok(waiting) => waiting,
        Err(error) => return shared.report(LoadError::refused(&error, "wait on the sockets", "connections")),
    };
    let Some(mut worker) = Worker::await_start(shared, number) else { return };
    run(&mut slots, waiting, &mut worker, shared);
}

/// Whose turn it is.
struct Waiting {
    /// Absent for a transport that is always ready.
    epoll: Option<Epoll>,
    events: Events,
    slots: usize,
}

impl Waiting {
    fn on<A: Activity, L: Link>(slots: &[Slot<A, L>]) -> io::Result<Self> {
        let mut epoll = None;
        for (key, slot) in (0..).zip(slots) {
            if let Some(descriptor) = slot.link.descriptor() {
                if epoll.is_none() {
                    epoll = Some(Epoll::new()?);
                }
                if let Some(epoll) = &epoll {
                    epoll.add(descriptor, A::INTEREST, key)?;
                }
            }
        }
        let events = Events::with_capacity(slots.len().min(MOST_EVENTS));
        Ok(Waiting { epoll, events, slots: slots.len() })
    }

    /// Waits; gives how many are ready.
    fn wait(&mut self, timeout_ms: i32) -> io::Result<usize> {
        let Some(epoll) = &self.epoll else { return Ok(self.slots) };
        epoll.wait(&mut self.events, timeout_ms)?;
        Ok(self.events.count())
    }

    /// Which slot one of them is.
    #[inline]
    fn ready(&self, at: usize) -> usize {
        if self.epoll.is_some() {
            self.events.key(at) as usize
        } else {
            at
        }
    }

    /// Waits no longer for one.
    fn forget(&self, link: &impl Link) {
        if let (Some(epoll), Some(descriptor)) = (&self.epoll, link.descriptor()) {
            // It was added before and not removed since.
            let _ = epoll.remove(descriptor);
        }
    }
}

fn run<A: Activity, L: Link>(
    slots: &mut [Slot<A, L>],
    mut waiting: Waiting,
    worker: &mut Worker<'_>,
    shared: &Shared,
) {
    let mut open = slots.len();
    let calls = slots.first().map_or(1, |slot| slot.activity.calls_per_visit(slots.len()));
    while open > 0 {
        if A::UNTIL_DUE && worker.is_due() {
            slots.iter().filter(|slot| slot.open).for_each(|slot| slot.link.finish());
            return;
        }
        // Receivers wait as long as it takes: when a job ends, its sockets are shut, which wakes them.
        let ready = match waiting.wait(if A::UNTIL_DUE { worker.until_due_ms() } else { -1 }) {
            Ok(ready) => ready,
            Err(error) => {
                let number = error.raw_os_error().unwrap_or(0);
                slots.iter().filter(|slot| slot.open).for_each(|slot| worker.failed(slot.connection, number));
                return;
            }
        };
        worker.tick();
        for at in 0..ready {
            if A::UNTIL_DUE && worker.is_due() {
                break;
            }
            let slot = &mut slots[waiting.ready(at)];
            if slot.open && !visit(slot, calls, worker, shared) {
                waiting.forget(&slot.link);
                slot.open = false;
                open -= 1;
            }
        }
    }
}

/// Gives one connection its turn; `false`: it has ended.
#[inline]
fn visit<A: Activity, L: Link>(
    slot: &mut Slot<A, L>,
    calls: u32,
    worker: &mut Worker<'_>,
    shared: &Shared,
) -> bool {
    let cell = shared.counters.cell(slot.connection);
    for _ in 0..calls {
        match slot.activity.step(&slot.link, worker, cell) {
            Step::On => {}
            Step::Waiting => return true,
            Step::Ended => {
                worker.ended(slot.connection);
                return false;
            }
            Step::Failed(number) => {
                worker.failed(slot.connection, number);
                return false;
            }
        }
    }
    true
}
