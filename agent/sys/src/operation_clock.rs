//! The clock that operations are timed with: the CPU's time-stamp counter where it can be trusted, else
//! `CLOCK_MONOTONIC`.
//!
//! The counter is trusted where the CPU says that it runs at one rate (`constant_tsc`) and in sleep
//! (`nonstop_tsc`) and the kernel itself keeps time by it, which it only does when the counters of all CPUs
//! agree. A reading then costs no call, and is put on the `CLOCK_MONOTONIC` axis by a multiplication.
//!
//! In a sandbox, whose kernel says nothing of its clocks, somebody outside may know: see [`trust`].

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::OnceLock;

use iodyno_core::message::ClockFacts;
use iodyno_core::units::Nanos;

use crate::clock;

/// chosen: how long the rate is measured at first. Two readings are each good to some 50 ns, so that the
/// rate is good to 5 in a million; clocks that are made later use the longer span since then.
const CALIBRATION: Nanos = Nanos(20_000_000);
/// chosen: how often a clock is put back on the axis, so that what is left of the error in the rate (and
/// what NTP does to the axis meanwhile) stays far below a microsecond.
const ANCHOR_NS: u64 = 1_000_000_000;
/// A step of the axis larger than this (the machine was suspended) is followed at once, backwards too.
const JUMP_NS: u64 = 1_000_000;

#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction, and Linux lets programs execute it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn ticks() -> u64 {
    0
}

/// One instant on both axes.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    ticks: u64,
    ns: u64,
}

impl Anchor {
    /// Reads the counter on both sides of the clock and keeps the closest of a few tries, so that an
    /// interrupt between the readings does not count.
    fn read(clock: fn() -> Nanos) -> Self {
        let mut best = (u64::MAX, Anchor { ticks: 0, ns: 0 });
        for _ in 0..5 {
            let before = ticks();
            let ns = clock().0;
            let span = ticks().saturating_sub(before);
            if span < best.0 {
                best = (span, Anchor { ticks: before + span / 2, ns });
            }
        }
        best.1
    }

    /// Nanoseconds a tick, times 2^32, between `earlier` and this.
    fn rate_since(self, earlier: Anchor) -> Option<u64> {
        let ticks = self.ticks.checked_sub(earlier.ticks).filter(|ticks| *ticks > 0)?;
        let ns = self.ns.checked_sub(earlier.ns).filter(|ns| *ns > 0)?;
        u64::try_from((u128::from(ns) << 32) / u128::from(ticks)).ok()
    }
}

/// chosen: by how much the rate over a long span may differ from the one that was measured at first. That one is good to 5 in
/// a million; while a machine is suspended the counter goes on and the axis does not, and a rate over that is nobody's.
const RATES_AGREE_PPM: u64 = 100;

/// What is known of the counter of this machine.
#[derive(Clone, Copy, Debug)]
struct Calibration {
    first: Anchor,
    rate: u64,
    hz: u64,
}

impl Calibration {
    /// The rate of a clock that is made at `anchor`: over the longest span there is, unless the machine slept in it.
    fn rate_at(&self, anchor: Anchor) -> u64 {
        let longer = anchor.ns.saturating_sub(self.first.ns) > 2 * CALIBRATION.0;
        let most = self.rate / 1_000_000 * RATES_AGREE_PPM;
        let rate = if longer { anchor.rate_since(self.first) } else { None };
        rate.filter(|rate| rate.abs_diff(self.rate) <= most).unwrap_or(self.rate)
    }
}

/// Somebody outside has looked.
static TRUSTED: AtomicBool = AtomicBool::new(false);

/// Takes somebody's word that the counter of this machine can be trusted, where the kernel says nothing of it. To be
/// called before the first clock is made.
pub fn trust() {
    TRUSTED.store(true, Relaxed);
}

/// Whether the counter can be trusted; see the top of this file.
fn trusted() -> bool {
    if cfg!(target_arch = "x86_64") && TRUSTED.load(Relaxed) {
        return true;
    }
    if cfg!(not(target_arch = "x86_64")) || clock::clocksource().ok().as_deref() != Some("tsc") {
        return false;
    }
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = cpus.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    ["constant_tsc", "nonstop_tsc"].iter().all(|flag| flags.split_whitespace().any(|word| word == *flag))
}

/// Measured once a process, at the first call, which takes [`CALIBRATION`].
fn calibration() -> Option<Calibration> {
    static MEASURED: OnceLock<Option<Calibration>> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        if !trusted() {
            return None;
        }
        let (raw, first) = (Anchor::read(clock::monotonic_raw), Anchor::read(clock::monotonic));
        clock::sleep_until(Nanos(first.ns).plus(CALIBRATION)).ok()?;
        let (raw_end, end) = (Anchor::read(clock::monotonic_raw), Anchor::read(clock::monotonic));
        let raw_rate = raw_end.rate_since(raw)?;
        let hz = (1_000_000_000_u128 << 32) / u128::from(raw_rate.max(1));
        Some(Calibration { first, rate: end.rate_since(first)?, hz: u64::try_from(hz).ok()? })
    })
}

/// Nanoseconds on the `CLOCK_MONOTONIC` axis, cheaply. Each worker has its own; its readings never go
/// backwards except when the axis itself jumps.
#[derive(Clone, Debug)]
pub struct OperationClock {
    /// Absent: every reading is a `clock_gettime`.
    counter: Option<Counter>,
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    anchor: Anchor,
    rate: u64,
    /// The rate that was measured at first.
    calibrated: u64,
    next_anchor: u64,
    anchor_ticks: u64,
    last: u64,
}

impl Default for OperationClock {
    fn default() -> Self {
        OperationClock::new()
    }
}

impl OperationClock {
    /// A clock on the axis. The first one of a process takes 20 ms to calibrate.
    #[must_use]
    pub fn new() -> Self {
        let counter = calibration().map(|measured| {
            let anchor = Anchor::read(clock::monotonic);
            let anchor_ticks = measured.hz / 1_000 * (ANCHOR_NS / 1_000_000);
            Counter {
                anchor,
                rate: measured.rate_at(anchor),
                calibrated: measured.rate,
                next_anchor: anchor.ticks.saturating_add(anchor_ticks),
                anchor_ticks,
                last: anchor.ns,
            }
        });
        OperationClock { counter }
    }

    /// Now, on the `CLOCK_MONOTONIC` axis.
    #[inline]
    pub fn now(&mut self) -> Nanos {
        let Some(counter) = &mut self.counter else { return clock::monotonic() };
        let now = ticks();
        if now >= counter.next_anchor {
            counter.follow_the_axis();
            return Nanos(counter.last);
        }
        counter.last = counter.last.max(counter.on_the_axis(now));
        Nanos(counter.last)
    }
}

impl Counter {
    #[inline]
    fn on_the_axis(&self, now: u64) -> u64 {
        let passed = now.wrapping_sub(self.anchor.ticks) as i64;
        if passed <= 0 {
            return self.anchor.ns;
        }
        self.anchor.ns + ((passed as u64 as u128 * u128::from(self.rate)) >> 32) as u64
    }

    #[cold]
    fn follow_the_axis(&mut self) {
        let anchor = Anchor::read(clock::monotonic);
        let assumed = self.on_the_axis(anchor.ticks);
        if assumed.abs_diff(anchor.ns) > JUMP_NS {
            // Whatever was wrong, the span since the last anchor does not tell the rate.
            (self.last, self.rate) = (anchor.ns, self.calibrated);
        } else if let Some(rate) = anchor.rate_since(self.anchor) {
            self.rate = rate;
        }
        self.last = self.last.max(anchor.ns);
        self.anchor = anchor;
        self.next_anchor = anchor.ticks.saturating_add(self.anchor_ticks);
    }
}

/// What operations are timed with: `tsc` or `clock_monotonic`.
#[must_use]
pub fn name() -> &'static str {
    if calibration().is_some() {
        "tsc"
    } else {
        "clock_monotonic"
    }
}

/// Frequency of the time-stamp counter against `CLOCK_MONOTONIC_RAW`; `None` where it is not trusted.
#[must_use]
pub fn tsc_hz() -> Option<u64> {
    calibration().map(|measured| measured.hz)
}

/// Measures the clocks of this host. Takes some 25 ms at the first call.
#[must_use]
pub fn facts() -> ClockFacts {
    const READINGS: u32 = 20_000;
    let mut clock = OperationClock::new();
    let begin = clock.now().0;
    let (mut last, mut step) = (begin, u64::MAX);
    for _ in 0..READINGS {
        let now = clock.now().0;
        if now > last {
            step = step.min(now - last);
        }
        last = now;
    }
    ClockFacts {
        clocksource: clock::clocksource().ok(),
        operations_timed_with: name().to_owned(),
        tsc_hz: tsc_hz(),
        step_ns: if step == u64::MAX { 0.0 } else { step as f64 },
        read_cost_ns: (last - begin) as f64 / f64::from(READINGS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_lie_between_the_kernels_readings_around_them() {
        let mut clock = OperationClock::new();
        for _ in 0..1_000 {
            let before = clock::monotonic().0;
            let now = clock.now().0;
            let after = clock::monotonic().0;
            // A microsecond on each side: the rate of a fresh calibration is good to a few parts in a million.
            assert!(before <= now + 1_000 && now <= after + 1_000, "{before} {now} {after}");
        }
    }

    #[test]
    fn readings_never_go_backwards_also_over_an_anchor() {
        let mut clock = OperationClock::new();
        if let Some(counter) = &mut clock.counter {
            counter.anchor_ticks = 10_000;
            counter.next_anchor = 0;
        }
        let mut last = clock.now();
        for _ in 0..200_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_machine_that_slept_has_the_rate_that_it_had() {
        const SECOND: u64 = 1_000_000_000;
        let ticks_a_second = 3 * SECOND;
        let first = Anchor { ticks: 7, ns: 5 };
        let rate = ((SECOND as u128) << 32) / u128::from(ticks_a_second);
        let measured = Calibration { first, rate: rate as u64, hz: ticks_a_second };
        let at = |awake: u64, asleep: u64| {
            let ticks = first.ticks + (awake + asleep) * ticks_a_second;
            measured.rate_at(Anchor { ticks, ns: first.ns + awake * SECOND })
        };
        assert_eq!(at(60, 3_600), measured.rate);
        assert!(at(60, 0).abs_diff(measured.rate) <= 1);
        // A longer span is the better one: the first was off by 5 in a million.
        let off = Calibration { rate: measured.rate + measured.rate / 200_000, ..measured };
        let later = Anchor { ticks: first.ticks + 60 * ticks_a_second, ns: first.ns + 60 * SECOND };
        assert!(off.rate_at(later).abs_diff(measured.rate) <= 1);
    }

    #[test]
    fn a_wrong_rate_is_mended_after_a_jump_of_the_axis() {
        let mut clock = OperationClock::new();
        let Some(counter) = &mut clock.counter else { return };
        let right = counter.calibrated;
        (counter.rate, counter.anchor_ticks) = (right / 60, 10_000_000);
        // Half a second before the axis: no error in the rate makes that.
        counter.anchor.ns -= 500_000_000;
        counter.next_anchor = 0;
        clock.now();
        let before = clock::monotonic().0;
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert_eq!(clock.counter.unwrap().rate, right);
        assert!(clock.now().0.abs_diff(clock::monotonic().0) < 1_000_000 && clock.now().0 > before);
    }

    #[test]
    fn the_facts_are_those_of_one_clock() {
        let facts = facts();
        assert_eq!(facts.tsc_hz.is_some(), facts.operations_timed_with == "tsc");
        assert!(facts.step_ns > 0.0 && facts.read_cost_ns > 0.0);
    }
}
