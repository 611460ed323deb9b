//! Being awake on time: sleep until shortly before the instant, then look at the clock until it has come.

/// chosen: most and least time before the instant at which a worker stops sleeping. A sleeper wakes 5 us late on a quiet
/// machine, 50 us and more in a guest or where the CPU sleeps deeply; more than the most is no matter of waking up.
const MOST_EARLY_NS: u64 = 100_000;
const LEAST_EARLY_NS: u64 = 2_000;
/// chosen: the share of wake-ups that should come before the instant, of a worker that has a CPU to itself.
const IN_TIME_PERCENT: u64 = 95;
/// chosen: the same, and the most time before the instant, of a worker beside others: what is spent looking at the clock is the
/// distance from most wake-ups to the late ones, 1 to 3 us here, where 95 % would take 6 to 25.
const MOSTLY_IN_TIME_PERCENT: u64 = 90;
const MOST_EARLY_SHARED_NS: u64 = 40_000;
/// chosen: a shorter sleep is not worth it: to fall asleep and wake up takes a CPU 10 us of work.
const LEAST_SLEEP_NS: u64 = 10_000;
/// chosen: a change is this part of the time; a few dozen wake-ups find it.
const STEP_PART: u64 = 8;

/// How early a worker has to wake up, learnt from how late it did.
pub struct Alarm {
    early_ns: u64,
    most_ns: u64,
    in_time_percent: u64,
    least_sleep_ns: u64,
    /// Whether the CPU is for this worker.
    alone: bool,
}

impl Alarm {
    /// Of a worker that may look at the clock without rest, because nobody else wants its CPU.
    #[must_use]
    pub fn alone() -> Self {
        let (most_ns, in_time_percent) = (MOST_EARLY_NS, IN_TIME_PERCENT);
        Alarm { early_ns: most_ns / 2, most_ns, in_time_percent, least_sleep_ns: 0, alone: true }
    }

    /// Of a worker whose CPU others use at times: a wake-up that is later than waking takes is their doing, and no looking at
    /// the clock mends it.
    #[must_use]
    pub fn beside_others() -> Self {
        let (most_ns, in_time_percent) = (MOST_EARLY_SHARED_NS, MOSTLY_IN_TIME_PERCENT);
        Alarm {
            early_ns: most_ns / 2,
            most_ns,
            in_time_percent,
            least_sleep_ns: LEAST_SLEEP_NS,
            alone: false,
        }
    }

    /// Of a worker that sleeps to the end, because others want its CPU.
    #[must_use]
    pub fn none() -> Self {
        Alarm { early_ns: 0, most_ns: 0, in_time_percent: 0, least_sleep_ns: 0, alone: false }
    }

    /// How long to sleep for `left_ns`; 0: not at all.
    #[inline]
    #[must_use]
    pub fn sleep_ns(&self, left_ns: u64) -> u64 {
        match left_ns.saturating_sub(self.early_ns) {
            short if short < self.least_sleep_ns => 0,
            sleep => sleep,
        }
    }

    /// A sleep ended this much after it was to. A quantile by stochastic approximation (Robbins and Monro 1951): up
    /// and down by steps whose sizes are as the shares that are wanted on each side.
    pub fn woke(&mut self, late_ns: u64) {
        if self.most_ns == 0 {
            return;
        }
        let step = self.early_ns / STEP_PART;
        let changed = if late_ns > self.most_ns && !self.alone {
            self.early_ns - step
        } else if late_ns > self.early_ns {
            self.early_ns + (step * self.in_time_percent / 100).max(1)
        } else {
            self.early_ns - step * (100 - self.in_time_percent) / 100
        };
        self.early_ns = changed.clamp(LEAST_EARLY_NS, self.most_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_learns_how_late_wake_ups_are() {
        let mut alarm = Alarm::alone();
        // One in ten is late by 30 us, the others by 4.
        for number in 0..5_000 {
            alarm.woke(if number % 10 == 0 { 30_000 } else { 4_000 });
        }
        assert!((24_000..40_000).contains(&alarm.early_ns), "{}", alarm.early_ns);
        assert_eq!(alarm.sleep_ns(1_000), 0);
        for _ in 0..5_000 {
            alarm.woke(3_000);
        }
        assert!((2_500..4_500).contains(&alarm.early_ns), "{}", alarm.early_ns);
        for _ in 0..5_000 {
            alarm.woke(4_000_000);
        }
        assert_eq!(alarm.early_ns, MOST_EARLY_NS);
    }

    #[test]
    fn who_shares_a_cpu_sleeps_to_the_end() {
        let mut alarm = Alarm::none();
        alarm.woke(1_000_000);
        assert_eq!(alarm.sleep_ns(77), 77);
    }

    #[test]
    fn what_others_do_with_a_cpu_is_not_waited_for() {
        let mut alarm = Alarm::beside_others();
        for number in 0..5_000 {
            alarm.woke(if number % 10 == 0 { 29_000 } else { 20_000 });
        }
        assert!((19_000..25_000).contains(&alarm.early_ns), "{}", alarm.early_ns);
        for _ in 0..5_000 {
            alarm.woke(4_000_000);
        }
        assert_eq!(alarm.early_ns, LEAST_EARLY_NS);
    }
}
