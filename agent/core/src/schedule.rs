//! The instants at which operations are to begin: generated one at a time, in 200 bytes, however long the trial.
//!
//! Constant arrivals and traces keep to the rational mean rate exactly: whole nanoseconds are added and the remainder is
//! carried, so that nothing drifts in a week. Poisson arrivals add exponential times; those are rounded to a
//! nanosecond when they are asked for and not when they are added.

use std::sync::Arc;

use crate::arrivals::{Arrivals, Law};
use crate::random::Random;
use crate::units::Nanos;

/// The arrivals of a job, or of one of its connections, in order. Times count from the start of the load.
#[derive(Clone, Debug)]
pub struct Schedule {
    next: u64,
    passed: u64,
    pace: Pace,
}

#[derive(Clone, Debug)]
enum Pace {
    Constant(Even),
    Poisson {
        at: f64,
        mean: f64,
        random: Random,
    },
    /// Poisson in the time that is on, which `at` counts; `begun` of a cycle had passed at the start.
    OnOff {
        at: f64,
        mean: f64,
        random: Random,
        on: f64,
        off: f64,
        begun: f64,
    },
    /// `cycle` says when the trace begins anew, which is exact; within it, times are `scale` times those given.
    Trace {
        cycle: Even,
        begun: u64,
        gone: u64,
        index: usize,
        gaps: Arc<[Nanos]>,
        scale: f64,
    },
}

/// Multiples of a fraction of nanoseconds, without drift.
#[derive(Clone, Debug)]
struct Even {
    at: u64,
    left: u128,
    step: u64,
    remainder: u128,
    parts: u128,
}

impl Even {
    /// Multiples of `time / parts`, after `at`.
    fn new(time: u128, parts: u128, at: u64) -> Self {
        let step = u64::try_from(time / parts).unwrap_or(u64::MAX);
        Even { at, left: 0, step, remainder: time % parts, parts }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.at = self.at.saturating_add(self.step);
        self.left += self.remainder;
        if self.left >= self.parts {
            self.left -= self.parts;
            self.at = self.at.saturating_add(1);
        }
        self.at
    }
}

impl Schedule {
    /// Arrivals as described; `connection` matters where each has its own: then it says which of the random numbers of
    /// the seed are its own, and constant arrivals, bursts and traces begin anywhere in their cycle, so that the
    /// connections do not all begin at once.
    #[must_use]
    pub fn new(arrivals: &Arrivals, connection: u32) -> Self {
        let stream = if arrivals.per_connection { u64::from(connection) + 1 } else { 0 };
        let mut random = Random::new(arrivals.seed, stream);
        let (period, operations) = (arrivals.period_ns.0, arrivals.operations.max(1));
        let mean = period as f64 / operations as f64;
        let mut shift = |cycle: u64| if arrivals.per_connection { random.below(cycle) } else { 0 };
        let pace = match &arrivals.law {
            Law::Constant { earlier_ns } => {
                // Earlier by part of a gap: the first of these lies in the gap after the start.
                let gap = (mean as u64).max(1);
                let earlier = (shift(gap) + earlier_ns.0) % gap;
                let mut even = Even::new(period.into(), operations.into(), 0);
                even.next();
                even.at = even.at.saturating_sub(earlier);
                let next = even.at;
                return Schedule { next, passed: 0, pace: Pace::Constant(even) };
            }
            Law::Poisson {} => Pace::Poisson { at: 0.0, mean, random },
            Law::OnOff { on_ns, off_ns } => {
                let (on, off) = (on_ns.0.max(1), off_ns.0);
                let begun = shift(on.saturating_add(off));
                let share_on = on as f64 / (on as f64 + off as f64);
                Pace::OnOff {
                    at: begun.min(on) as f64,
                    mean: mean * share_on,
                    random,
                    on: on as f64,
                    off: off as f64,
                    begun: begun as f64,
                }
            }
            Law::Trace { gaps_ns } => {
                let total: u128 = gaps_ns.iter().map(|gap| u128::from(gap.0)).sum();
                let cycle_ns = u128::from(period) * gaps_ns.len() as u128;
                let index = shift(gaps_ns.len() as u64) as usize;
                // In nanoseconds of the trace: what lies before the gap that it begins with.
                let gone: u64 = gaps_ns[..index].iter().map(|gap| gap.0).sum();
                let scale = cycle_ns as f64 / operations as f64 / (total.max(1)) as f64;
                let begun = (gone as f64 * scale) as u64;
                let cycle = Even::new(cycle_ns, operations.into(), 0);
                Pace::Trace { cycle, begun, gone, index, gaps: gaps_ns.as_slice().into(), scale }
            }
        };
        let mut schedule = Schedule { next: 0, passed: 0, pace };
        schedule.next = schedule.draw();
        schedule
    }

    /// When the next arrival is.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Nanos {
        Nanos(self.next)
    }

    /// Arrivals before that one.
    #[inline]
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// On to the one after.
    #[inline]
    pub fn advance(&mut self) {
        self.passed += 1;
        // Never back: rounding in a trace must not reorder arrivals.
        self.next = self.draw().max(self.next);
    }

    /// The instant after the last one drawn.
    #[inline]
    fn draw(&mut self) -> u64 {
        match &mut self.pace {
            Pace::Constant(even) => even.next(),
            Pace::Poisson { at, mean, random } => {
                *at += random.exponential(*mean);
                *at as u64
            }
            Pace::OnOff { at, mean, random, on, off, begun } => {
                *at += random.exponential(*mean);
                let whole = (*at / *on).floor();
                (whole * (*on + *off) + (*at - whole * *on) - *begun) as u64
            }
            Pace::Trace { cycle, begun, gone, index, gaps, scale } => {
                *gone += gaps[*index].0;
                *index += 1;
                let mut at = cycle.at + (*gone as f64 * *scale) as u64;
                if *index == gaps.len() {
                    (*index, *gone) = (0, 0);
                    at = cycle.next();
                }
                at.saturating_sub(*begun)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arrivals(law: Law, operations: u64, period_ns: u64) -> Arrivals {
        Arrivals { law, operations, period_ns: Nanos(period_ns), per_connection: false, seed: 1 }
    }

    fn instants(arrivals: &Arrivals, connection: u32, count: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(arrivals, connection);
        let mut take = |number| {
            assert_eq!(schedule.passed(), number as u64);
            let at = schedule.next().0;
            schedule.advance();
            at
        };
        (0..count).map(&mut take).collect()
    }

    #[test]
    fn constant_arrivals_do_not_drift_in_a_week() {
        // 3 a nanosecond and 7 in 10 ns besides: no whole number of nanoseconds apart.
        let mut schedule =
            Schedule::new(&arrivals(Law::Constant { earlier_ns: Nanos(0) }, 7, 10_000_000_000), 0);
        // A week at 7 in 10 s.
        for number in 1..=423_360_u64 {
            assert_eq!(schedule.next().0, number * 10_000_000_000 / 7);
            schedule.advance();
        }
    }

    #[test]
    fn constant_arrivals_of_hosts_with_one_rate_lie_between_each_others() {
        let of = |earlier| arrivals(Law::Constant { earlier_ns: Nanos(earlier) }, 1000, 1_000_000_000);
        let mut all: Vec<u64> = [0, 250_000, 500_000, 750_000]
            .iter()
            .flat_map(|earlier| instants(&of(*earlier), 0, 1000))
            .collect();
        all.sort_unstable();
        assert_eq!(all[0], 250_000);
        assert!(all.windows(2).all(|pair| pair[1] - pair[0] == 250_000));
    }

    /// Kolmogorov's statistic of `values` (sorted here) against a distribution function.
    fn kolmogorov(mut values: Vec<f64>, function: impl Fn(f64) -> f64) -> f64 {
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let distance = |(at, value): (usize, &f64)| {
            let below = function(*value);
            (below - at as f64 / n).abs().max(((at + 1) as f64 / n - below).abs())
        };
        values.iter().enumerate().map(distance).fold(0.0, f64::max)
    }

    #[test]
    fn poisson_arrivals_pass_a_kolmogorov_smirnov_test_at_a_million() {
        const COUNT: usize = 1_000_000;
        for (operations, seed) in [(20_000, 1), (1_000, 7), (200_000, 99)] {
            let planned = Arrivals { seed, ..arrivals(Law::Poisson {}, operations, 1_000_000_000) };
            let at = instants(&planned, 0, COUNT);
            let mean = 1e9 / operations as f64;
            let gaps: Vec<f64> = at.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
            let found = gaps.iter().sum::<f64>() / gaps.len() as f64;
            // Standard error of the mean of a million exponential times: 0.1 %.
            assert!((found / mean - 1.0).abs() < 0.004, "{found} for {mean}");
            // Whole nanoseconds: half of one belongs to the value. 1.95 / sqrt(n): significance 0.1 %.
            let statistic = kolmogorov(gaps, |gap| 1.0 - (-(gap + 0.5) / mean).exp());
            let rounding = 1.0 / mean;
            assert!(statistic < 1.95 / (COUNT as f64).sqrt() + rounding, "{statistic} at {operations}");
        }
    }

    #[test]
    fn bursts_lie_in_the_time_that_is_on_and_keep_the_mean_rate() {
        let (on, off) = (2_000_000, 6_000_000);
        let law = Law::OnOff { on_ns: Nanos(on), off_ns: Nanos(off) };
        let planned = arrivals(law, 10_000, 1_000_000_000);
        let at = instants(&planned, 0, 200_000);
        assert!(at.iter().all(|at| at % (on + off) <= on));
        let rate = at.len() as f64 / (*at.last().unwrap() as f64 / 1e9);
        // 200 000 Poisson arrivals: standard error 0.22 %, five of those.
        assert!((rate / 10_000.0 - 1.0).abs() < 0.011, "{rate}");
        // Within the time that is on, they are spread evenly.
        let places: Vec<f64> = at.iter().map(|at| (at % (on + off)) as f64).collect();
        assert!(kolmogorov(places, |place| place / on as f64) < 1.95 / (at.len() as f64).sqrt());
    }

    #[test]
    fn a_trace_is_repeated_in_its_order_and_stretched_to_the_rate() {
        let gaps_ns = [10, 0, 30, 60].map(Nanos).to_vec();
        // 4 arrivals in 100 ns of the trace; at 1 in 100 ns they take 400 ns.
        let at = instants(&arrivals(Law::Trace { gaps_ns }, 1, 100), 0, 9);
        assert_eq!(at, [40, 40, 160, 400, 440, 440, 560, 800, 840]);
    }

    #[test]
    fn connections_have_arrivals_of_their_own() {
        let laws = [
            Law::Constant { earlier_ns: Nanos(0) },
            Law::Poisson {},
            Law::OnOff { on_ns: Nanos(5_000_000), off_ns: Nanos(5_000_000) },
            Law::Trace { gaps_ns: (1..100).map(|number| Nanos(number * 1000)).collect() },
        ];
        for law in laws {
            let mut planned = arrivals(law, 1_000, 1_000_000_000);
            assert_eq!(instants(&planned, 0, 100), instants(&planned, 1, 100));
            planned.per_connection = true;
            let (one, other) = (instants(&planned, 0, 100), instants(&planned, 1, 100));
            assert_ne!(one, other);
            assert_eq!(one, instants(&planned, 0, 100));
            // All begin within a cycle of their law.
            assert!(one[0] < 12_000_000, "{:?} begins at {}", planned.law, one[0]);
        }
    }

    proptest! {
        #[test]
        fn arrivals_ascend_and_keep_the_mean_rate(
            operations in 1_u64..2_000_000, period in 1_000_000_u64..10_000_000_000, seed in any::<u64>(),
            own in any::<bool>(), which in 0_usize..4
        ) {
            let law = [
                Law::Constant { earlier_ns: Nanos(0) },
                Law::Poisson {},
                Law::OnOff { on_ns: Nanos(3_000_000), off_ns: Nanos(1_000_000) },
                Law::Trace { gaps_ns: vec![Nanos(1), Nanos(70), Nanos(0), Nanos(500)] },
            ][which].clone();
            let planned = Arrivals { seed, per_connection: own, ..arrivals(law, operations, period) };
            let at = instants(&planned, 3, 4_000);
            prop_assert!(at.windows(2).all(|pair| pair[0] <= pair[1]));
            let mean = period as f64 / operations as f64;
            let span = (at[3_999] - at[0]) as f64;
            // Constant and traced ones exactly; of 4000 Poisson ones, six standard errors, and a cycle of the bursts.
            let tolerance = if which % 2 == 1 || which == 2 { 0.1 * 3_999.0 * mean } else { 4.0 * mean + 8.0 };
            let cycle = if which == 2 { 4_000_000.0 } else { 0.0 };
            prop_assert!((span - 3_999.0 * mean).abs() <= tolerance + cycle, "{} for {}", span, 3_999.0 * mean);
        }
    }
}
