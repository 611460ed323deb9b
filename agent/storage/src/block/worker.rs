//! A thread that makes storage load: what it does next, when, and what became of it.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use iodyno_core::block_pattern::{BlockStream, Place};
use iodyno_core::disk::{Cache, Pattern, Replay, ReplayedKind};
use iodyno_core::units::Nanos;
use iodyno_load::{Alarm, OpenLoop, OpenTimes};
use iodyno_sys::clock::TimersAhead;
use iodyno_sys::operation_clock::OperationClock;
use iodyno_sys::{block_target, clock, process, realtime};

use super::counters::{Class, Lane};
use super::shared::{Failure, Shared};
use super::target::calls_sync;
use super::units::{Seen, Units};

/// chosen: how long before the start a worker stops sleeping and spins; as in the network's load.
const SPIN: Nanos = Nanos(100_000);
/// chosen: how often a worker that waits looks whether the job was stopped.
pub(crate) const LOOK: Nanos = Nanos(50_000_000);
/// chosen: how often another block is drawn where the first is being written; more only where almost all are.
const DRAWS: u32 = 64;

/// What a worker does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub class: Class,
    pub place: Place,
    /// When it was to begin; 0: when it begins.
    pub intended: u64,
}

/// Whether there is something to do.
pub(crate) enum Turn {
    /// This, now.
    Now(Operation),
    /// Nothing before the arrival that was claimed ([`Worker::await_arrival`]).
    Later,
    /// Nothing any more.
    Never,
}

/// An arrival that nobody else will begin.
#[derive(Clone, Copy)]
struct Claim {
    /// Of arrivals before it.
    number: u64,
    due: u64,
    /// When to be awake for it.
    wake: u64,
}

/// A worker while the load is on.
pub(crate) struct Worker<'a> {
    pub shared: &'a Shared,
    pub number: usize,
    pub lane: &'a Lane,
    clock: OperationClock,
    /// The last reading of the clock: the end of the last call and the begin of the next.
    pub now: u64,
    stream: BlockStream,
    replay: Option<&'a Replay>,
    open: Option<(&'a OpenLoop, &'a OpenTimes)>,
    /// Set to the arrival after the one that is waited for.
    ahead: Option<TimersAhead>,
    /// The arrival that was claimed last.
    claimed: Option<Claim>,
    /// The instant of the arrival after it, and when to be awake for it.
    following: (u64, u64),
    alarm: Alarm,
    append: bool,
    /// Whether the page cache is dropped when the pattern is at its begin again.
    drops: bool,
    sync_every: u32,
    since_sync: u32,
    think_ns: u64,
    think_every: u32,
    since_think: u32,
    /// Whether it still has the priority that it was started with.
    raised: bool,
}

impl<'a> Worker<'a> {
    /// Parks the calling thread until the start, and comes back at that instant, with a priority that [`Worker::began`] gives
    /// up. `None`: the job was dropped.
    pub(crate) fn await_start(shared: &'a Shared, number: usize, stream: BlockStream) -> Option<Self> {
        // Without it a wake-up is up to 50 us later.
        let _ = realtime::sharpen_timers();
        shared.marks[number].thread_id.store(process::thread_id(), Relaxed);
        let clock = OperationClock::new();
        shared.park();
        let start = shared.start.load(SeqCst);
        if shared.is_stopped() || start == 0 {
            return None;
        }
        let disk = &shared.disk;
        let mut worker = Worker {
            shared,
            number,
            lane: shared.counters.lane(number),
            clock,
            now: 0,
            stream,
            replay: disk.replay.as_ref(),
            open: shared.open.as_ref().map(|open| (open, open.times(number))),
            // Without it the load is the same, and costlier.
            ahead: shared.open.as_ref().and_then(|_| TimersAhead::new().ok()),
            claimed: None,
            following: (0, 0),
            alarm: if shared.may_spin() { Alarm::beside_others() } else { Alarm::none() },
            append: disk.pattern == Pattern::Append && disk.replay.is_none(),
            drops: disk.cache == Cache::EachPass,
            sync_every: if calls_sync(disk) { disk.sync_every } else { u32::MAX },
            since_sync: 0,
            think_ns: disk.think_ns.0,
            think_every: if disk.think_ns.0 > 0 { disk.think_every } else { u32::MAX },
            since_think: 0,
            raised: false,
        };
        if shared.realtime.is_ok() {
            // It worked when the job was prepared; should it fail now, the first operation is late and says so.
            worker.raised = realtime::raise().is_ok();
        }
        let spin = if shared.realtime.is_ok() { SPIN } else { Nanos(0) };
        let early = Nanos(start).minus(spin);
        while clock::monotonic() < early && !shared.is_stopped() {
            // An absolute sleep fails for a malformed time only, which this is not.
            let _ = clock::sleep_until(early.min(clock::monotonic().plus(LOOK)));
        }
        worker.tick();
        while worker.now < start && !shared.is_stopped() {
            std::hint::spin_loop();
            worker.tick();
        }
        (!shared.is_stopped()).then_some(worker)
    }

    /// Gives up the priority of the start, once something is begun: of many that start at one instant on few CPUs, the last
    /// would else begin when the others have had their slices of time, tens of milliseconds later.
    #[inline]
    pub(crate) fn began(&mut self) {
        if self.raised {
            self.give_way();
        }
    }

    #[cold]
    fn give_way(&mut self) {
        self.raised = false;
        // The kernel lets every thread give up its priority.
        let _ = realtime::lower();
        self.tick();
    }

    /// Reads the clock.
    #[inline]
    pub(crate) fn tick(&mut self) {
        self.now = self.clock.now().0;
    }

    /// Whether the load is to stop.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.now >= self.shared.due.load(Relaxed)
    }

    /// What comes next, seen at `now`. `free_since`: from when on it could have been begun.
    #[inline]
    pub(crate) fn turn(&mut self, free_since: u64) -> Turn {
        let Some((open, times)) = self.open else { return self.draw(None, 0) };
        let claim = match self.claimed {
            Some(claimed) => claimed,
            None => {
                let (number, due) = open.claim_numbered(self.number);
                // A sleep that ends when the timer ahead does is the cheaper one.
                let wake =
                    if due == self.following.0 { self.following.1 } else { self.wake_for(due, self.now) };
                let next = open.following(self.number).0;
                self.following = (next, self.wake_for(next, due));
                if let (true, true, Some(ahead)) = (wake > self.now, self.following.1 > due, &mut self.ahead)
                {
                    ahead.set(Nanos(self.following.1));
                }
                *self.claimed.insert(Claim { number, due, wake })
            }
        };
        let Claim { number, due, .. } = claim;
        if self.replay.is_some_and(|replay| number >= replay.kinds.len() as u64) {
            // Past the end of a trace nothing is due any more.
            return self.draw(Some(number), due);
        }
        if due > self.now {
            return Turn::Later;
        }
        let in_time = due.max(free_since);
        if in_time > due {
            times.waiting.record(in_time - due);
        }
        times.lateness.record(self.now.saturating_sub(in_time));
        self.claimed = None;
        self.draw(Some(number), due)
    }

    #[inline]
    fn draw(&mut self, number: Option<u64>, intended: u64) -> Turn {
        if let Some(left) = &self.shared.left {
            if left.fetch_sub(1, Relaxed) <= 0 {
                self.shared.complete.store(true, Relaxed);
                return Turn::Never;
            }
        }
        let Some(replay) = self.replay else {
            let place = self.stream.next();
            if self.drops && place.wrapped {
                self.drop_cached(place.target);
            }
            let class = if place.write { Class::Write } else { Class::Read };
            return Turn::Now(Operation { class, place, intended });
        };
        let at = number.unwrap_or_else(|| self.shared.replayed.fetch_add(1, Relaxed)) as usize;
        let Some(kind) = replay.kinds.get(at) else {
            self.shared.complete.store(true, Relaxed);
            return Turn::Never;
        };
        let class = match kind {
            ReplayedKind::Read => Class::Read,
            ReplayedKind::Write => Class::Write,
            ReplayedKind::Fsync => Class::Sync,
        };
        let place = Place {
            target: replay.targets.get(at).copied().unwrap_or(0),
            offset: replay.offsets_bytes[at].0,
            length: replay.lengths_bytes[at].0 as u32,
            write: class == Class::Write,
            wrapped: false,
        };
        Turn::Now(Operation { class, place, intended })
    }

    /// Another block in place of one that is being written; `None`: nearly all are.
    #[cold]
    pub(crate) fn draw_for(&mut self, units: &Units, bytes: &mut [u8]) -> Option<Place> {
        (0..DRAWS).find_map(|_| {
            let place = Place { write: true, ..self.stream.next() };
            units.begin_write(&place, bytes).then_some(place)
        })
    }

    /// The operation that was drawn last is not begun: the stop came before there was a block for it.
    #[cold]
    pub(crate) fn give_back(&self) {
        if let Some(left) = &self.shared.left {
            left.fetch_add(1, Relaxed);
            self.shared.complete.store(false, Relaxed);
        }
    }

    /// When to be awake for an arrival, of a worker that has nothing to do from `since` on; `since`: it does not sleep before.
    #[inline]
    fn wake_for(&self, due: u64, since: u64) -> u64 {
        since + self.alarm.sleep_ns(due.saturating_sub(since))
    }

    /// How long to sleep until the arrival that was claimed; 0: not at all.
    #[inline]
    pub(crate) fn sleep_ns(&self) -> u64 {
        self.claimed.map_or(0, |claim| claim.wake.saturating_sub(self.now))
    }

    /// Waits for the arrival that was claimed, or until shortly after the job was stopped.
    pub(crate) fn await_arrival(&mut self) {
        let Some(Claim { due, wake, .. }) = self.claimed else { return };
        while self.now < due && !self.is_due() {
            let asked = self.now;
            let sleep = wake.saturating_sub(asked).min(LOOK.0);
            if sleep > 0 {
                // An absolute sleep fails for a malformed time only, which this is not.
                let _ = clock::sleep_until(Nanos(asked + sleep));
            } else {
                std::hint::spin_loop();
            }
            self.tick();
            self.woke(asked, sleep);
        }
    }

    /// Nothing happened since `asked` but a sleep of so long, or a look if it was 0; it is `now`.
    #[inline]
    pub(crate) fn woke(&mut self, asked: u64, sleep: u64) {
        let passed = self.now.saturating_sub(asked);
        if sleep > 0 {
            if passed >= sleep {
                self.alarm.woke(passed - sleep);
            }
        } else if let Some((open, _)) = self.open {
            open.spun(self.number, passed);
        }
    }

    /// Sleeps until `until`, or until shortly after the job was stopped.
    pub(crate) fn pause(&mut self, until: u64) {
        while self.now < until && !self.is_due() {
            let end = until.min(self.now + LOOK.0).min(self.shared.due.load(Relaxed).max(self.now));
            // An absolute sleep fails for a malformed time only, which this is not.
            let _ = clock::sleep_until(Nanos(end));
            self.tick();
        }
    }

    /// Counts an operation that began at `begun` and ended at `now`, and moved so many bytes; or failed.
    #[inline]
    pub(crate) fn ended(&mut self, operation: &Operation, begun: u64, outcome: Result<usize, i32>) {
        let place = &operation.place;
        let moved = match outcome {
            Ok(moved) if moved == place.length as usize || operation.class == Class::Sync => moved,
            Ok(moved) if moved > 0 => {
                self.shared.shorts.fetch_add(1, Relaxed);
                moved
            }
            Ok(_) => return self.failed(operation, 0),
            Err(error) => return self.failed(operation, error),
        };
        let intended = if operation.intended > 0 { operation.intended } else { begun };
        let response = self.open.map(|_| self.now.saturating_sub(intended));
        let service = self.now.saturating_sub(begun);
        self.lane.count(operation.class, place.target as usize, moved as u64, service, response);
    }

    #[cold]
    pub(crate) fn failed(&self, operation: &Operation, error: i32) {
        self.lane.count_error(operation.class, operation.place.target as usize);
        self.shared.fail(Failure { class: operation.class, place: operation.place, error });
    }

    /// Looks at a block that was read.
    pub(crate) fn verify(&self, units: &Units, place: &Place, bytes: &[u8], seen: Seen) {
        let count = u64::from(place.length) / self.shared.disk.alignment();
        match units.end_read(place, &bytes[..place.length as usize], seen) {
            Ok(true) => self.shared.verified.fetch_add(count, Relaxed),
            Ok(false) => self.shared.verify_skipped.fetch_add(count, Relaxed),
            Err((expected, wrong)) => {
                self.lane.count_error(Class::Read, place.target as usize);
                self.shared.wrong(expected, wrong);
                0
            }
        };
    }

    /// Whether a write that was handed over is the last one before a call that makes it durable.
    #[inline]
    pub(crate) fn is_sync_due(&mut self, class: Class) -> bool {
        if class != Class::Write || self.sync_every == u32::MAX {
            return false;
        }
        self.since_sync += 1;
        if self.since_sync < self.sync_every {
            return false;
        }
        self.since_sync = 0;
        true
    }

    /// Counts an operation that was handed over, for the pauses.
    #[inline]
    pub(crate) fn handed_over(&mut self) {
        self.since_think = self.since_think.saturating_add(1);
    }

    /// Whether a pause is due before the next operation.
    #[inline]
    pub(crate) fn is_think_due(&self) -> bool {
        self.since_think >= self.think_every
    }

    /// Pauses, where it is due.
    #[inline]
    pub(crate) fn think(&mut self) {
        if self.is_think_due() {
            self.since_think = 0;
            self.pause(self.now + self.think_ns);
        }
    }

    /// Whether the file is to be cut before a block is appended.
    #[inline]
    pub(crate) fn is_cut_due(&self, place: &Place) -> bool {
        self.append && place.wrapped
    }

    /// Cuts the file to the region's begin.
    pub(crate) fn cut(&mut self, place: &Place) {
        let begun = self.now;
        let target = place.target as usize;
        let outcome = self.shared.files[target].set_len(self.shared.extents[target].offset);
        self.tick();
        let operation = Operation {
            class: Class::Truncate,
            place: Place { length: 0, offset: self.shared.extents[target].offset, ..*place },
            intended: 0,
        };
        self.ended(&operation, begun, outcome.map(|()| 0).map_err(|error| error.raw_os_error().unwrap_or(0)));
    }

    /// Drops the worker's part of a target from the page cache.
    #[cold]
    fn drop_cached(&self, target: u32) {
        let (offset, length) = self.stream.part(target);
        // It worked before the start, and what stays is in the account of what came from memory.
        let _ = block_target::drop_cached(self.shared.files[target as usize].as_fd(), offset, length);
    }

    /// Makes what was written durable.
    pub(crate) fn synchronise(&mut self, target: u32, call: impl FnOnce() -> Result<(), i32>) {
        let begun = self.now;
        let outcome = call();
        self.tick();
        let place = Place { target, offset: 0, length: 0, write: true, wrapped: false };
        let operation = Operation { class: Class::Sync, place, intended: 0 };
        self.ended(&operation, begun, outcome.map(|()| 0));
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        self.tick();
        self.shared.marks[self.number].ended_ns.store(self.now, Relaxed);
    }
}
