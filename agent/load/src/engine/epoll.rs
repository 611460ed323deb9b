//! One pinned worker a CPU, many connections each, non-blocking calls.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::ops::RangeInclusive;

use iodyno_core::units::Nanos;
use iodyno_sys::affinity;
use iodyno_sys::epoll::{Epoll, Events, Interest};

use crate::connections::Connections;
use crate::error::LoadError;
use crate::transport::Link;
use crate::worker::Worker;
use crate::workload::{Activity, Step};

/// chosen: descriptors that one wait reports. What is ready beyond is reported by the next wait, before those
/// that were visited meanwhile: the kernel keeps them in turn.
const MOST_EVENTS: usize = 256;
/// chosen: connections whose pause is over that have their turn before those that are ready do: more of them must not
/// keep answers waiting, and fewer cost a wait each.
const MOST_RESTED: usize = 64;

/// chosen: how long a worker whose connections all pause does without asking the kernel whether one of them broke. At
/// 200 000 arrivals a second the question would be as costly as a fifth of the CPU.
const UNASKED_NS: u64 = 100_000;

/// chosen: each of a worker's connections has its turn about once in this time, also when each visit goes on for as long as
/// it may.
const ROUND_NS: u64 = 2_000_000_000;
/// chosen: least and most time of a visit. Measured, 1 KiB x 4, Gbit/s: 2.5 where visits last a millisecond or so, 2.9 with
/// six, 3.1 with twenty.
const VISIT_NS: RangeInclusive<u64> = 200_000..=20_000_000;

/// One connection of a worker.
struct Slot<A, L> {
    activity: A,
    link: L,
    connection: usize,
    open: bool,
    /// What the kernel was told to wait for.
    watched: Interest,
    /// End of its pause; 0: it does not pause.
    paused_until: u64,
}

pub(crate) fn drive<A: Activity, L: Link>(
    shared: &Connections,
    number: usize,
    make: impl Fn(usize) -> (A, L),
) {
    let cpu = shared.cpus[number % shared.cpus.len()];
    if let Err(error) = affinity::restrict(&[cpu]) {
        return shared.report(LoadError::refused(&error, &format!("run on CPU {cpu}"), "cpus"));
    }
    let slots: Vec<Slot<A, L>> = shared
        .share_of(number)
        .map(|connection| {
            let (activity, link) = make(connection);
            let watched = activity.interest();
            Slot { activity, link, connection, open: true, watched, paused_until: 0 }
        })
        .collect();
    let waiting = match Waiting::on(&slots) {
        Ok(waiting) => waiting,
        Err(error) => return shared.report(LoadError::refused(&error, "wait on the sockets", "connections")),
    };
    let pauses = BinaryHeap::with_capacity(if A::PAUSES { slots.len() } else { 0 });
    let open = slots.len();
    let Some(worker) = Worker::await_start(shared, number) else { return };
    Round { slots, open, pausing: 0, asked: 0, waiting, pauses, worker, shared }.run();
}

/// How many calls a visit makes at most, and how long it goes on.
#[derive(Clone, Copy)]
struct Turn {
    calls: u32,
    ns: u64,
}

/// Whose turn it is.
struct Waiting {
    /// Absent for a transport that is always ready.
    epoll: Option<Epoll>,
    events: Events,
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
                    epoll.add(descriptor, slot.watched, key)?;
                }
            }
        }
        let events = Events::with_capacity(slots.len().min(MOST_EVENTS));
        Ok(Waiting { epoll, events })
    }

    /// Which slot one of the ready ones is.
    #[inline]
    fn ready(&self, at: usize) -> usize {
        if self.epoll.is_some() {
            self.events.key(at) as usize
        } else {
            at
        }
    }
}

/// A worker's connections while the load is on.
struct Round<'a, A, L> {
    slots: Vec<Slot<A, L>>,
    /// How many of them are open, and how many of these pause.
    open: usize,
    pausing: usize,
    /// When the kernel was asked last.
    asked: u64,
    waiting: Waiting,
    /// End of each pause, and whose it is. An entry whose slot pauses no longer, or longer, means nothing.
    pauses: BinaryHeap<Reverse<(u64, usize)>>,
    worker: Worker<'a>,
    shared: &'a Connections,
}

impl<A: Activity, L: Link> Round<'_, A, L> {
    fn run(mut self) {
        let connections = self.slots.len();
        let turn = Turn {
            calls: self.slots.first().map_or(1, |slot| slot.activity.calls_per_visit(connections)),
            ns: (ROUND_NS / connections.max(1) as u64).clamp(*VISIT_NS.start(), *VISIT_NS.end()),
        };
        while self.open > 0 {
            if A::UNTIL_DUE && self.worker.is_due() && self.finish() {
                return;
            }
            let ready = match self.wait() {
                Ok(ready) => ready,
                Err(error) => return self.fail(&error),
            };
            self.worker.tick();
            for _ in 0..MOST_RESTED {
                let rested = self.rested().filter(|_| !(A::UNTIL_DUE && self.worker.is_due()));
                let Some(at) = rested else { break };
                self.visit(at, turn);
            }
            for event in 0..ready {
                let at = self.waiting.ready(event);
                let slot = &self.slots[at];
                if A::UNTIL_DUE && self.worker.is_due() && !slot.activity.in_hand() {
                    continue;
                }
                if slot.open && (slot.paused_until == 0 || self.is_broken(at, event)) {
                    self.visit(at, turn);
                }
            }
        }
    }

    /// Whether an event of a connection that pauses ends its pause. The kernel reports that it broke, and cannot be told
    /// not to; it reports as an error, too, that it is done with a send, which leaves the pause as long as it is.
    fn is_broken(&self, at: usize, event: usize) -> bool {
        let told = self.waiting.epoll.is_some();
        told && (!self.slots[at].link.tend() || self.waiting.events.hung_up(event))
    }

    /// Ends every connection that has nothing in hand; `true`: none is left.
    #[cold]
    fn finish(&mut self) -> bool {
        for at in 0..self.slots.len() {
            if self.slots[at].open && !self.slots[at].activity.in_hand() {
                self.slots[at].link.finish();
                self.worker.concluded(self.slots[at].connection);
                self.forget(at);
            }
        }
        self.open == 0
    }

    /// Waits until connections are ready, a pause ends or the load is due to stop; gives how many are ready.
    fn wait(&mut self) -> io::Result<usize> {
        // Receivers wait as long as it takes: when a job ends, its sockets are shut, which wakes them. So do
        // those who are past the stop and have something in hand.
        let due = if A::UNTIL_DUE && !self.worker.is_due() { self.worker.due() } else { u64::MAX };
        let until = self.pauses.peek().map_or(due, |Reverse((end, _))| due.min(*end));
        match &self.waiting.epoll {
            Some(epoll) => {
                let asked = self.worker.now;
                let sleep = match self.shared.job.load.busy_wait() {
                    true => Some(0),
                    false => (until < u64::MAX).then(|| self.worker.sleep_ns(until)),
                };
                if self.pausing == self.open && sleep == Some(0) && asked < self.asked + UNASKED_NS {
                    std::hint::spin_loop();
                    self.worker.woke(asked, 0);
                    return Ok(0);
                }
                self.asked = asked;
                epoll.wait(&mut self.waiting.events, sleep.map(Nanos))?;
                let count = self.waiting.events.count();
                if A::PAUSES && count == 0 {
                    self.worker.woke(asked, sleep.unwrap_or(0));
                }
                Ok(count)
            }
            None => {
                if A::PAUSES && self.slots.iter().all(|slot| slot.paused_until > 0) {
                    self.worker.pause(until);
                }
                Ok(self.slots.len())
            }
        }
    }

    /// A connection whose pause is over.
    #[inline]
    fn rested(&mut self) -> Option<usize> {
        while let Some(&Reverse((end, at))) = self.pauses.peek() {
            if end > self.worker.now {
                return None;
            }
            self.pauses.pop();
            if self.slots[at].open && self.slots[at].paused_until == end {
                return Some(at);
            }
        }
        None
    }

    /// Gives one connection its turn.
    #[inline]
    fn visit(&mut self, at: usize, turn: Turn) {
        let slot = &mut self.slots[at];
        self.pausing -= usize::from(slot.paused_until > 0);
        slot.paused_until = 0;
        let cell = self.shared.counters.cell(slot.connection);
        let mut wanted = None;
        // What is in hand when the load is due to stop still comes to its end.
        let stops = if A::UNTIL_DUE && !self.worker.is_due() { self.worker.due() } else { u64::MAX };
        let until = self.worker.now.saturating_add(turn.ns).min(stops);
        for _ in 0..turn.calls {
            if self.worker.now >= until {
                break;
            }
            match slot.activity.step(&slot.link, &mut self.worker, cell) {
                Step::On => {}
                Step::Waiting => break,
                Step::Pausing(until) => {
                    // 0 stands for none.
                    let until = until.max(1);
                    slot.paused_until = until;
                    self.pausing += 1;
                    self.pauses.push(Reverse((until, at)));
                    wanted = Some(slot.activity.resting_interest());
                    break;
                }
                Step::Ended => {
                    self.worker.ended(slot.connection);
                    return self.forget(at);
                }
                Step::Failed(number) => {
                    self.worker.failed(slot.connection, number);
                    return self.forget(at);
                }
            }
        }
        let wanted = wanted.unwrap_or_else(|| slot.activity.interest());
        if wanted != slot.watched {
            slot.watched = wanted;
            if let (Some(epoll), Some(descriptor)) = (&self.waiting.epoll, slot.link.descriptor()) {
                // It was added before and not removed since.
                let _ = epoll.change(descriptor, wanted, at as u64);
            }
        }
    }

    /// Waits no longer for one.
    fn forget(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        if let (Some(epoll), Some(descriptor)) = (&self.waiting.epoll, slot.link.descriptor()) {
            // It was added before and not removed since.
            let _ = epoll.remove(descriptor);
        }
        slot.open = false;
        self.open -= 1;
        self.pausing -= usize::from(slot.paused_until > 0);
        slot.paused_until = 0;
    }

    fn fail(&mut self, error: &io::Error) {
        let number = error.raw_os_error().unwrap_or(0);
        self.slots
            .iter()
            .filter(|slot| slot.open)
            .for_each(|slot| self.worker.failed(slot.connection, number));
    }
}
