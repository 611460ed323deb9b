//! An open loop around a workload: operations begin when they are to, whether or not earlier ones are complete.
//!
//! Each arrival goes to a connection that is free, and waits where none is; its response time counts from the instant at
//! which it was to begin, so that what waits is not left out (coordinated omission). With `burst`, an arrival is a
//! visitor that makes so many operations on its connection, one after the other: a partly open loop (Schroeder,
//! Wierman and Harchol-Balter, "Open versus closed", NSDI 2006). The first counts from the arrival, each other from
//! the end of the one before or of its pause.

use std::collections::VecDeque;

use iodyno_core::histogram::Recorder;
use iodyno_core::network::Network;
use iodyno_sys::epoll::Interest;

use super::{refused, Activity, Step};
use crate::transport::Link;
use crate::worker::counters::Cell;
use crate::worker::open_loop::{OpenLoop, OpenTimes};
use crate::worker::Worker;

/// An activity whose operations begin at arrivals.
///
/// Why an arrival begins late is told apart by the recursion of a queue with one server (Lindley 1952): a generator that
/// is never late begins it when it is due, or when the connection is free if that is later. How much later it really
/// begins is the generator's lateness, and it is handed on: an operation that begins late keeps the connection so much
/// longer, and what waits behind it waits for the generator.
pub(crate) struct Open<'a, A> {
    activity: A,
    arrivals: &'a OpenLoop,
    times: &'a OpenTimes,
    connection: usize,
    burst: u32,
    /// Operations of the arrival in hand that are not complete.
    left: u32,
    /// When the arrival that was claimed last is due; 0: the next is to be claimed.
    due: u64,
    /// When the connection was free for it, had the generator never been late.
    free: u64,
    /// How late the generator was with the last arrival.
    late: u64,
    /// When the operation in hand was to begin; 0: when it begins.
    intended: u64,
    /// The same of those that one call began behind it.
    joined: VecDeque<u64>,
    /// Operations that one call may begin, and how many each began, where that may be more than one.
    most_joined: u32,
    calls: Option<&'a Recorder>,
}

impl<'a, A: Activity> Open<'a, A> {
    /// `connection`: whose activity it is; `number`: of the worker that carries it out; `calls`: where it says how many
    /// operations a call began.
    pub(crate) fn around(
        activity: A,
        load: &Network,
        arrivals: &'a OpenLoop,
        connection: usize,
        number: usize,
        calls: Option<&'a Recorder>,
    ) -> Self {
        let most_joined = activity.most_joined();
        Open {
            activity,
            arrivals,
            times: arrivals.times(number),
            connection,
            burst: load.application().burst,
            left: 0,
            due: 0,
            free: 0,
            late: 0,
            intended: 0,
            joined: VecDeque::with_capacity(most_joined as usize),
            most_joined,
            calls,
        }
    }

    /// The next arrival, when the last one has nothing left to do.
    #[inline]
    fn claim(&mut self) {
        self.due = if self.joins() {
            self.arrivals.reserve(self.connection, self.free)
        } else {
            self.arrivals.claim(self.connection)
        };
    }

    #[inline]
    fn joins(&self) -> bool {
        self.most_joined > 1
    }

    /// The last arrival has nothing left to do `now`; had the generator never been late, that were so before.
    #[inline]
    fn set_free(&mut self, now: u64) {
        self.free = now.saturating_sub(self.late);
    }

    /// Whether the arrival that is due begins with this connection, or has begun with another one.
    #[inline]
    fn begin(&mut self, now: u64) -> bool {
        if self.joins() && !self.arrivals.take(self.connection) {
            return false;
        }
        self.note_begin(self.due, self.free, now);
        (self.intended, self.due, self.left) = (self.due, 0, self.burst);
        if self.joins() {
            self.join(now);
        }
        true
    }

    /// The arrival of `due`, for which a connection was free since `free`, begins `now`.
    #[inline]
    fn note_begin(&mut self, due: u64, free: u64, now: u64) {
        let in_time = due.max(free);
        if in_time > due {
            self.times.waiting.record(in_time - due);
        }
        self.late = now.saturating_sub(in_time);
        self.times.lateness.record(self.late);
    }

    /// Whatever else is due begins with the same call: each counts from its own instant, and none waits for the others.
    #[inline]
    fn join(&mut self, now: u64) {
        while self.left < self.most_joined {
            let Some((due, free)) = self.arrivals.take_due(self.connection, self.free, now) else { break };
            self.note_begin(due, free, now);
            self.joined.push_back(due);
            self.left += 1;
        }
        if self.left > 1 {
            self.activity.join(self.left, now);
        }
        if let Some(calls) = self.calls {
            calls.record(u64::from(self.left));
        }
    }

    /// The connection was ready although nothing was asked of it: it ended or broke.
    #[cold]
    fn look(&self, link: &impl Link, worker: &mut Worker<'_>) -> Step {
        let outcome = link.receive(worker.scratch());
        worker.tick();
        match outcome {
            Ok(0) => Step::Ended,
            Ok(_) => self.rest(worker),
            Err(error) => match refused(&error) {
                Step::Failed(number) => Step::Failed(number),
                _ => self.rest(worker),
            },
        }
    }

    #[inline]
    fn rest(&self, worker: &Worker<'_>) -> Step {
        Step::Pausing(self.due.min(worker.due()))
    }
}

impl<A: Activity> Activity for Open<'_, A> {
    const UNTIL_DUE: bool = A::UNTIL_DUE;
    const PAUSES: bool = true;

    fn interest(&self) -> Interest {
        self.activity.interest()
    }

    fn resting_interest(&self) -> Interest {
        self.activity.resting_interest()
    }

    fn in_hand(&self) -> bool {
        self.activity.in_hand()
    }

    fn calls_per_visit(&self, connections: usize) -> u32 {
        self.activity.calls_per_visit(connections)
    }

    #[inline]
    fn step(&mut self, link: &impl Link, worker: &mut Worker<'_>, cell: &Cell) -> Step {
        if self.left == 0 {
            if worker.is_due() {
                return Step::Waiting;
            }
            if self.due == 0 {
                // After a pause of the application, which held the connection. Who joins is free since its last call, and
                // who has begun nothing was free always.
                if self.intended > 0 && !self.joins() {
                    self.set_free(worker.now);
                }
                self.claim();
                if self.due > worker.now {
                    return self.rest(worker);
                }
            } else if self.due > worker.now {
                return self.look(link, worker);
            }
            if !self.begin(worker.now) {
                self.claim();
                return self.rest(worker);
            }
        } else if self.intended == 0 {
            self.intended = worker.now;
        }
        let operations = cell.operations();
        let step = self.activity.step(link, worker, cell);
        let complete = cell.operations() - operations;
        if complete == 0 {
            return step;
        }
        for _ in 0..complete {
            self.times.response.record(worker.now.saturating_sub(self.intended));
            self.intended = self.joined.pop_front().unwrap_or(self.intended);
        }
        self.left = self.left.saturating_sub(complete as u32);
        if self.left > 0 {
            if self.burst > 1 {
                self.intended = 0;
            }
            return step;
        }
        if !matches!(step, Step::On | Step::Waiting) || worker.is_due() {
            return step;
        }
        self.set_free(worker.now);
        if self.joins() {
            // Whose arrivals went with this call have their turn before it claims another: else it would have all of them
            // whenever it is behind.
            return Step::Pausing(worker.now);
        }
        self.claim();
        // Where it is due already, those of other connections that were due before it have their turn first.
        self.rest(worker)
    }
}
