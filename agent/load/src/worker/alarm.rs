//! Being awake on time: sleep until shortly before the instant, then look at the clock until it has come.

/// chosen: most and least time before the instant at which a worker stops sleeping. A sleeper wakes 5 us late on a quiet
/// machine, 50 us and more in a guest or where the CPU sleeps deeply; more than the most is no matter of waking up.
const MOST_EARLY_NS: u64 = 100_000;
const LEAST_EARLY_NS: u64 = 2_000;
/// chosen: the share of wake-ups that should come before the instant.
const IN_TIME_PERCENT: u64 = 95;
/// chosen: a change is this part of the time; a few dozen wake-ups find it.
const STEP_PART: u64 = 8;

/// How early a worker has to wake up, learnt from how late it did.
pub(crate) struct Alarm {
    early_ns: u64,
}

impl Alarm {
    /// `alone`: the worker may look at the clock without rest, because nobody else wants its CPU.
    pub(crate) fn new(alone: bool) -> Self {
        Alarm { early_ns: if alone { MOST_EARLY_NS / 2 } else { 0 } }
    }

    /// How long to sleep for `left_ns`; 0: not at all.
    #[inline]
    pub(crate) fn sleep_ns(&self, left_ns: u64) -> u64 {
        left_ns.saturating_sub(self.early_ns)
    }

    /// A sleep ended this much after it was to. A quantile by stochastic approximation (Robbins and Monro 1951): up
    /// and down by steps whose sizes are as the shares that are wanted on each side.
    pub(crate) fn woke(&mut self, late_ns: u64) {
        if self.early_ns == 0 {
            return;
        }
        let step = self.early_ns / STEP_PART;
        let changed = if late_ns > self.early_ns {
            self.early_ns + (step * IN_TIME_PERCENT / 100).max(1)
        } else {
            self.early_ns - step * (100 - IN_TIME_PERCENT) / 100
        };
        self.early_ns = changed.clamp(LEAST_EARLY_NS, MOST_EARLY_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_learns_how_late_wake_ups_are() {
        let mut alarm = Alarm::new(true);
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
        let mut alarm = Alarm::new(false);
        alarm.woke(1_000_000);
        assert_eq!(alarm.sleep_ns(77), 77);
    }
}
