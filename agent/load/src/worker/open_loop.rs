//! What the workers of an open loop have in common: which arrival is whose, and what became of them.
//!
//! No list of arrivals is kept. A connection that is free claims the next one, which may lie ahead: then it waits for
//! it. So an arrival that nobody has claimed when it is due has found no connection free. What nobody has claimed is
//! counted by whoever reads the counters, on a copy of the schedule.
//!
//! Where one call may begin several operations, a connection only reserves: whoever comes first when arrivals are due
//! begins them all with its call. Were those that other free connections wait for left to them, a thread that has many
//! connections and is behind would make a call for each of them, which puts it further behind.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use iodyno_core::arrivals::Arrivals;
use iodyno_core::histogram::{Recorder, Snapshot};
use iodyno_core::schedule::Schedule;
use iodyno_core::units::Nanos;
use iodyno_sys::lock::locked;

use super::counters::MOST_RECORDERS;

/// Arrivals that connections take one after the other: of the whole job, or of one connection.
struct Queue {
    schedule: Schedule,
    /// The arrival that each connection claimed last, counted from the start.
    claimed: Box<[u64]>,
    /// Those of them that are reserved and not begun, in the order in which they are due.
    reserved: VecDeque<Reserved>,
}

/// An arrival that a connection waits for, and any may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reserved {
    since_start: u64,
    connection: usize,
    /// When the connection was free for it, had the generator never been late.
    free: u64,
}

impl Queue {
    /// The next arrival, which is now that of `connection`: its number and its instant, counted from the start.
    #[inline]
    fn claim(&mut self, connection: usize) -> (u64, u64) {
        let (number, since_start) = (self.schedule.passed(), self.schedule.next().0);
        self.schedule.advance();
        let last = self.claimed.len() - 1;
        self.claimed[connection.min(last)] = since_start;
        (number, since_start)
    }
}

/// Times that only an open loop has.
#[derive(Default)]
pub struct OpenTimes {
    /// From when an operation was to begin to its end.
    pub response: Recorder,
    /// From when an arrival was due and a connection free for it to its begin: how late the generator was.
    pub lateness: Recorder,
    /// From when it was due to when a connection was free, of those that had to wait for one.
    pub waiting: Recorder,
}

/// Made once a job.
pub struct OpenLoop {
    /// One of the job, or one a connection.
    queues: Box<[Mutex<Queue>]>,
    /// How far the reader has counted in each.
    counted: Mutex<Box<[Schedule]>>,
    times: Box<[OpenTimes]>,
    /// Time that each worker spent looking at the clock to be on time.
    spun_ns: Box<[AtomicU64]>,
    start: AtomicU64,
    stop: AtomicU64,
}

impl OpenLoop {
    /// Arrivals that so many connections, or whatever else takes them one after the other, claim.
    #[must_use]
    pub fn new(arrivals: &Arrivals, connections: u32, workers: usize) -> Self {
        let queues = if arrivals.per_connection { connections } else { 1 };
        let claims = if arrivals.per_connection { 1 } else { connections as usize };
        let schedules: Box<[Schedule]> = (0..queues).map(|at| Schedule::new(arrivals, at)).collect();
        let queue = |schedule: &Schedule| {
            Mutex::new(Queue {
                schedule: schedule.clone(),
                claimed: vec![0; claims].into_boxed_slice(),
                reserved: VecDeque::with_capacity(claims),
            })
        };
        OpenLoop {
            queues: schedules.iter().map(queue).collect(),
            counted: Mutex::new(schedules),
            times: (0..workers.clamp(1, MOST_RECORDERS)).map(|_| OpenTimes::default()).collect(),
            spun_ns: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            start: AtomicU64::new(u64::MAX),
            stop: AtomicU64::new(u64::MAX),
        }
    }

    /// Says when the load begins and is to stop.
    pub fn arm(&self, start: Nanos, stop: Nanos) {
        self.start.store(start.0, Relaxed);
        self.stop.store(stop.0, Relaxed);
    }

    /// Where worker `number` records.
    pub fn times(&self, number: usize) -> &OpenTimes {
        &self.times[number % self.times.len()]
    }

    /// The instant of the next arrival, which is now that of `connection`.
    #[inline]
    pub fn claim(&self, connection: usize) -> u64 {
        self.claim_numbered(connection).1
    }

    /// The instant of the next arrival that nobody waits for. `connection`, which is free since `free` and has reserved no
    /// other, waits for it and begins it with [`OpenLoop::take`], unless another one has begun it by then.
    #[inline]
    pub fn reserve(&self, connection: usize, free: u64) -> u64 {
        let mut queue = self.queue_of(connection);
        let since_start = queue.claim(connection).1;
        queue.reserved.push_back(Reserved { since_start, connection, free });
        self.start.load(Relaxed).saturating_add(since_start)
    }

    /// Whether the arrival that `connection` reserved is still to be begun: it begins it now.
    #[inline]
    pub fn take(&self, connection: usize) -> bool {
        let mut queue = self.queue_of(connection);
        // It is the first one, but for those that workers on other CPUs are about to begin.
        let at = queue.reserved.iter().position(|reserved| reserved.connection == connection);
        at.and_then(|at| queue.reserved.remove(at)).is_some()
    }

    /// The earliest arrival that has come `now` and is not begun, whoever waits for it, and since when a connection was
    /// free for it: `connection`, free since `free`, begins it.
    #[inline]
    pub fn take_due(&self, connection: usize, free: u64, now: u64) -> Option<(u64, u64)> {
        let mut queue = self.queue_of(connection);
        let reserved = queue.reserved.front().copied();
        let (since_start, free) = reserved
            .map_or((queue.schedule.next().0, free), |reserved| (reserved.since_start, reserved.free));
        let due = self.start.load(Relaxed).saturating_add(since_start);
        if due > now {
            return None;
        }
        if queue.reserved.pop_front().is_none() {
            queue.schedule.advance();
        }
        Some((due, free))
    }

    /// The same with the number of arrivals before it.
    #[inline]
    pub fn claim_numbered(&self, connection: usize) -> (u64, u64) {
        let (number, since_start) = self.queue_of(connection).claim(connection);
        (number, self.start.load(Relaxed).saturating_add(since_start))
    }

    /// The instant of the first arrival that nobody has claimed, or has to wait for `connection`.
    #[inline]
    pub fn following(&self, connection: usize) -> Nanos {
        let since_start = self.queue_of(connection).schedule.next();
        Nanos(self.start.load(Relaxed).saturating_add(since_start.0))
    }

    #[inline]
    fn queue_of(&self, connection: usize) -> MutexGuard<'_, Queue> {
        locked(&self.queues[if self.queues.len() > 1 { connection } else { 0 }])
    }

    /// Adds time that worker `number` spent looking at the clock.
    #[inline]
    pub fn spun(&self, number: usize, ns: u64) {
        let spun = &self.spun_ns[number];
        spun.store(spun.load(Relaxed) + ns, Relaxed);
    }

    /// Everything counted up to `clock`'s time.
    pub fn read(&self, clock: fn() -> Nanos) -> OpenTotals {
        let snapshot = |times: fn(&OpenTimes) -> &Recorder| Snapshot::of(self.times.iter().map(times));
        // What has begun was due before: so it is read first.
        let lateness = snapshot(|times| &times.lateness);
        let begun = lateness.count();
        let (due, oldest_wait_ns) = self.count_due(clock());
        let over = clock().0 >= self.stop.load(Relaxed);
        let backlog = due.saturating_sub(begun);
        OpenTotals {
            response_time: snapshot(|times| &times.response),
            lateness,
            waiting: snapshot(|times| &times.waiting),
            due,
            begun,
            missed: if over { backlog } else { 0 },
            backlog: if over { 0 } else { backlog },
            oldest_wait_ns,
            spun_ns: Nanos(self.spun_ns.iter().map(|spun| spun.load(Relaxed)).sum()),
        }
    }

    /// Arrivals that were due by `now` or the stop, and how long the oldest that nobody claimed has waited.
    fn count_due(&self, now: Nanos) -> (u64, Nanos) {
        let start = Nanos(self.start.load(Relaxed));
        let now = now.min(Nanos(self.stop.load(Relaxed)));
        if now <= start {
            return (0, Nanos(0));
        }
        let now = now.minus(start);
        let (mut due, mut oldest) = (0, Nanos(0));
        for (queue, counted) in self.queues.iter().zip(locked(&self.counted).iter_mut()) {
            let ahead = {
                let queue = locked(queue);
                if queue.schedule.passed() > counted.passed() {
                    *counted = queue.schedule.clone();
                }
                oldest = oldest.max(now.minus(queue.schedule.next()));
                queue.claimed.iter().filter(|claimed| **claimed > now.0).count() as u64
            };
            while counted.next() <= now {
                counted.advance();
            }
            due += counted.passed() - ahead;
        }
        (due, oldest)
    }
}

/// Everything that an open loop counted from the start to a moment.
#[derive(Clone, Default)]
pub struct OpenTotals {
    /// From when an operation was to begin to its end.
    pub response_time: Snapshot,
    /// From when an arrival was due and a connection free for it to its begin, of all that were begun: how late the
    /// generator was.
    pub lateness: Snapshot,
    /// From when it was due to when a connection was free, of those that had to wait for one.
    pub waiting: Snapshot,
    /// Arrivals that were due; none is due after the stop of the load.
    pub due: u64,
    /// Arrivals whose first operation was begun.
    pub begun: u64,
    /// Arrivals that were due before the stop of the load and not begun at it: they never are. 0 before the stop.
    pub missed: u64,
    /// Arrivals due and not begun; 0 after the stop.
    pub backlog: u64,
    /// How long the oldest of them has waited.
    pub oldest_wait_ns: Nanos,
    /// Time that workers spent looking at the clock to begin on time, over all workers.
    pub spun_ns: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_core::arrivals::Law;

    fn open_loop(per_connection: bool) -> OpenLoop {
        let arrivals = Arrivals {
            law: Law::Constant { earlier_ns: Nanos(0) },
            operations: 10,
            period_ns: Nanos(1_000),
            per_connection,
            seed: 1,
        };
        let open = OpenLoop::new(&arrivals, 3, 1);
        open.arm(Nanos(5_000), Nanos(7_000));
        open
    }

    #[test]
    fn arrivals_go_to_whoever_asks_and_are_due_in_their_time() {
        let open = open_loop(false);
        assert_eq!([2, 0, 1].map(|connection| open.claim(connection)), [5_100, 5_200, 5_300]);
        // What is claimed may lie ahead: then it is not due.
        assert_eq!(open.count_due(Nanos(5_099)), (0, Nanos(0)));
        assert_eq!(open.count_due(Nanos(5_250)), (2, Nanos(0)));
        assert_eq!(open.count_due(Nanos(5_300)), (3, Nanos(0)));
        // Nobody claims any more: they are due all the same.
        assert_eq!(open.count_due(Nanos(6_450)), (14, Nanos(1_050)));
        assert_eq!(open.claim(1), 5_400);
        assert_eq!(open.count_due(Nanos(6_500)), (15, Nanos(1_000)));
        // None is due after the stop.
        assert_eq!(open.count_due(Nanos(9_000)), (20, Nanos(1_500)));
    }

    #[test]
    fn whoever_comes_first_begins_what_is_due_and_nothing_twice() {
        let open = open_loop(false);
        assert_eq!([2, 0, 1].map(|at| open.reserve(at, at as u64)), [5_100, 5_200, 5_300]);
        assert_eq!(open.take_due(0, 0, 5_099), None);
        // It begins its own, those that others wait for and have been free for, and goes on with what nobody waits for.
        assert!(open.take(2));
        let with_it: Vec<(u64, u64)> = std::iter::from_fn(|| open.take_due(2, 2, 5_450)).collect();
        assert_eq!(with_it, [(5_200, 0), (5_300, 1), (5_400, 2)]);
        assert!(!open.take(0) && !open.take(1));
        assert_eq!([0, 2].map(|at| open.reserve(at, 5_460)), [5_500, 5_600]);
        // What is reserved and not begun is due in its time, like what nobody has reserved.
        assert_eq!(open.count_due(Nanos(5_550)), (5, Nanos(0)));
        assert!(open.take(2) && open.take(0) && !open.take(0));
    }

    #[test]
    fn nobody_begins_an_arrival_of_another_connections_own() {
        let open = open_loop(true);
        let first = open.reserve(0, 0);
        let theirs = std::iter::from_fn(|| open.take_due(1, 0, 6_000)).count();
        assert!((9..=10).contains(&theirs), "{theirs} of 10 in 1000 ns");
        assert!(open.take(0) && !open.take(1));
        assert_eq!(open.reserve(0, 0), first + 100);
    }

    #[test]
    fn connections_with_arrivals_of_their_own_are_counted_together() {
        let open = open_loop(true);
        open.claim(1);
        assert_eq!(open.count_due(Nanos(7_000)).0, 60);
        let totals = open.read(|| Nanos(7_000));
        assert_eq!((totals.due, totals.begun, totals.missed, totals.backlog), (60, 0, 60, 0));
        let totals = open.read(|| Nanos(6_000));
        assert_eq!((totals.begun, totals.missed), (0, 0));
    }
}
