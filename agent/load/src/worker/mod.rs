//! A thread that makes load: from being parked over the start to its end.

pub(crate) mod alarm;
pub(crate) mod arrivals;
pub(crate) mod counters;
pub(crate) mod open_loop;
pub(crate) mod rare;
pub(crate) mod shared;

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use iodyno_core::histogram::Recorder;
use iodyno_core::units::Nanos;
use iodyno_sys::buffer::ReceiveScratch;
use iodyno_sys::operation_clock::OperationClock;
use iodyno_sys::{clock, process, realtime};

use alarm::Alarm;
use counters::{Cell, Loss};
use shared::{Shared, State};

/// chosen: how long before the start a worker stops sleeping and spins. Research: waking up under
/// `SCHED_FIFO` is 132 us late at the 99th percentile without, 0.1 us with a spin of this order.
const SPIN: Nanos = Nanos(100_000);
/// chosen: an end of stream that comes less than this before the load was to stop is not early. The two
/// hosts' starts differ by what is left of their clocks' difference, which is milliseconds at worst.
const EARLY_TOLERANCE: Nanos = Nanos(50_000_000);

/// chosen: how often a thread that pauses looks whether the job was stopped.
const LOOK: Nanos = Nanos(50_000_000);

/// A worker while the load is on.
pub(crate) struct Worker<'a> {
    shared: &'a Shared,
    number: usize,
    recorder: &'a Recorder,
    /// Messages of one call, where a call may take several.
    batches: Option<&'a Recorder>,
    scratch: &'a ReceiveScratch,
    clock: OperationClock,
    alarm: Alarm,
    /// The last reading of the clock: the end of the last call and the begin of the next.
    pub now: u64,
    moved_something: bool,
}

impl<'a> Worker<'a> {
    /// Parks the calling thread as worker `number` until the start, and comes back at that instant. `None`:
    /// the job was dropped.
    pub(crate) fn await_start(shared: &'a Shared, number: usize) -> Option<Self> {
        // Without it the wake-up is up to 50 us later, which the spin covers.
        let _ = realtime::sharpen_timers();
        shared.marks[number].thread_id.store(process::thread_id(), Relaxed);
        shared.park();
        if shared.state() != State::Going {
            return None;
        }
        let start = shared.start.load(SeqCst);
        let mut worker = Worker {
            shared,
            number,
            recorder: shared.counters.recorder(number),
            batches: shared.counters.batches(number),
            scratch: shared.scratch(number),
            clock: OperationClock::new(),
            alarm: if shared.may_spin { Alarm::alone() } else { Alarm::none() },
            now: 0,
            moved_something: false,
        };
        if shared.realtime.is_ok() {
            // It worked when the job was prepared; should it fail now, the first operation is late and says so.
            let _ = realtime::raise();
        }
        let spin = if shared.realtime.is_ok() { SPIN } else { Nanos(0) };
        // An absolute sleep fails for a malformed time only, which this is not.
        let _ = clock::sleep_until(Nanos(start).minus(spin));
        worker.tick();
        while worker.now < start && shared.state() == State::Going {
            std::hint::spin_loop();
            worker.tick();
        }
        if shared.busy_wait {
            // Who never sleeps would keep everybody else from its CPU until the first bytes come, and the other end may be
            // one of them.
            worker.give_way();
        }
        (shared.state() == State::Going).then_some(worker)
    }

    /// Reads the clock.
    #[inline]
    pub(crate) fn tick(&mut self) {
        self.now = self.clock.now().0;
    }

    /// Whether the load is to stop.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.now >= self.due()
    }

    /// When the load is to stop; 0 once the job was stopped.
    #[inline]
    pub(crate) fn due(&self) -> u64 {
        self.shared.due.load(Relaxed)
    }

    /// Sleeps until `until`, or until shortly after the job was stopped.
    pub(crate) fn pause(&mut self, until: u64) {
        while self.now < until && self.due() > 0 {
            let (asked, sleep) = (self.now, self.sleep_ns(until).min(LOOK.0));
            if sleep > 0 {
                // An absolute sleep fails for a malformed time only, which this is not.
                let _ = clock::sleep_until(Nanos(asked + sleep));
            } else {
                std::hint::spin_loop();
            }
            self.woke(asked, sleep);
        }
    }

    /// How long to sleep in order to be awake at `until`; 0: not at all.
    #[inline]
    pub(crate) fn sleep_ns(&self, until: u64) -> u64 {
        self.alarm.sleep_ns(until.saturating_sub(self.now))
    }

    /// Nothing happened since `asked` but a sleep of so long, or a look if it was 0. Reads the clock.
    #[inline]
    pub(crate) fn woke(&mut self, asked: u64, sleep: u64) {
        self.tick();
        let passed = self.now.saturating_sub(asked);
        if sleep > 0 {
            if passed >= sleep {
                self.alarm.woke(passed - sleep);
            }
        } else if let Some(open) = &self.shared.counters.open_loop {
            open.spun(self.number, passed);
        }
    }

    /// What is sent: the same bytes in every call.
    #[inline]
    pub(crate) fn source(&self) -> &'a [u8] {
        self.shared.source.bytes()
    }

    /// Where received bytes go.
    #[inline]
    pub(crate) fn scratch(&self) -> &'a ReceiveScratch {
        self.scratch
    }

    /// Counts bytes that moved in a call that began at `begun`.
    #[inline]
    pub(crate) fn moved(&mut self, cell: &Cell, bytes: u64, begun: u64) {
        cell.add_bytes(bytes);
        if !self.moved_something {
            self.note_start(begun);
        }
    }

    /// Counts bytes that left in a call that began at `begun`, on a connection that counts those that come.
    #[inline]
    pub(crate) fn sent_beside(&mut self, cell: &Cell, bytes: u64, begun: u64) {
        cell.add_sent(bytes);
        if !self.moved_something {
            self.note_start(begun);
        }
    }

    /// As [`Worker::moved`], on a connection that several workers serve.
    #[inline]
    pub(crate) fn moved_by_any(&mut self, cell: &Cell, bytes: u64, begun: u64) {
        cell.add_bytes_by_any(bytes);
        if !self.moved_something {
            self.note_start(begun);
        }
    }

    /// As [`Worker::completed`], on a connection that several workers serve.
    #[inline]
    pub(crate) fn completed_by_any(&self, cell: &Cell, begun: u64) {
        cell.add_operation_by_any();
        self.recorder.record(self.now.saturating_sub(begun));
    }

    /// Counts an operation that began at `begun` and ended at `now`.
    #[inline]
    pub(crate) fn completed(&self, cell: &Cell, begun: u64) {
        cell.add_operation();
        self.recorder.record(self.now.saturating_sub(begun));
    }

    /// Counts operations of one call, each of which began at `begun` and ended at `now`.
    #[inline]
    pub(crate) fn completed_together(&self, begun: u64, operations: u64) {
        self.recorder.record_times(self.now.saturating_sub(begun), operations);
    }

    /// Counts a call that begins so many messages.
    #[inline]
    pub(crate) fn handed_over(&self, messages: u32) {
        if let Some(batches) = self.batches {
            batches.record(u64::from(messages));
        }
    }

    /// The first bytes moved: the start is over, and with it the need to run before everybody else.
    #[cold]
    fn note_start(&mut self, begun: u64) {
        self.moved_something = true;
        self.shared.marks[self.number].first_ns.store(begun, Relaxed);
        self.give_way();
    }

    /// Runs no longer before everybody else.
    fn give_way(&self) {
        if self.shared.realtime.is_ok() {
            // The kernel lets every thread give up its priority.
            let _ = realtime::lower();
        }
    }

    /// The load was due to stop, and this end of a connection stopped.
    pub(crate) fn concluded(&self, connection: usize) {
        if self.shared.state() == State::GaveUp {
            self.shared.counters.lose(connection, Loss::NotDrained);
        }
    }

    /// The peer ended a connection.
    pub(crate) fn ended(&self, connection: usize) {
        let early = self.now < self.shared.due.load(Relaxed).saturating_sub(EARLY_TOLERANCE.0);
        if early {
            self.lost(connection, Loss::EndedEarly);
        } else {
            self.concluded(connection);
        }
    }

    /// A connection broke. After the load was due to stop nothing is lost by that: the other end was done first.
    pub(crate) fn failed(&mut self, connection: usize, number: i32) {
        self.tick();
        if self.is_due() {
            self.concluded(connection);
        } else {
            self.lost(connection, Loss::Broken(number));
        }
    }

    /// What breaks while a job is stopped or cancelled was broken on purpose, by this end or the other.
    fn lost(&self, connection: usize, loss: Loss) {
        match self.shared.state() {
            State::Going if !self.shared.cancel.is_cancelled() => self.shared.counters.lose(connection, loss),
            State::GaveUp => self.shared.counters.lose(connection, Loss::NotDrained),
            State::Going | State::Stopped => {}
        }
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        self.tick();
        self.shared.marks[self.number].ended_ns.store(self.now, Relaxed);
    }
}
