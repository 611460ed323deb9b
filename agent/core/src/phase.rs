//! The windows of a trial and the instants at which its interval records end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// Which part of a trial an instant lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// Load is on, nothing counts yet.
    WarmUp,
    /// Load is on and counts.
    Measured,
    /// Load is still on, so that no end sees the other stop inside its measured window; then it stops and
    /// what is in flight is read to its end.
    Drain,
}

/// Lengths of the windows of a trial, from its start, and of the interval records in the measured one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Windows {
    /// Length of the warm-up window; may be 0.
    pub warm_up_ns: Nanos,
    /// Length of the measured window.
    pub measured_ns: Nanos,
    /// How long the load stays on after the measured window.
    pub drain_ns: Nanos,
    /// Length of an interval record; the last one of the measured window may be shorter.
    pub interval_ns: Nanos,
}

impl Windows {
    /// From start to the stop of the load.
    #[must_use]
    pub fn load_ns(&self) -> Nanos {
        self.warm_up_ns.plus(self.measured_ns).plus(self.drain_ns)
    }

    /// The window in which the instant `since_start` lies. The load's stop belongs to the drain window.
    #[must_use]
    pub fn at(&self, since_start: Nanos) -> Window {
        if since_start < self.warm_up_ns {
            Window::WarmUp
        } else if since_start < self.warm_up_ns.plus(self.measured_ns) {
            Window::Measured
        } else {
            Window::Drain
        }
    }

    /// The records of a trial: each with its window and its end, counted from the start. Warm-up and drain
    /// are one record each (none when empty); the measured window is cut into intervals. A remainder shorter
    /// than half an interval is joined to the interval before it.
    #[must_use]
    pub fn records(&self) -> Vec<(Window, Nanos)> {
        let mut records = Vec::new();
        if self.warm_up_ns.0 > 0 {
            records.push((Window::WarmUp, self.warm_up_ns));
        }
        let measured_end = self.warm_up_ns.plus(self.measured_ns);
        let mut end = self.warm_up_ns.plus(self.interval_ns);
        while self.interval_ns.0 > 0 && measured_end.minus(end).0 >= self.interval_ns.0.div_ceil(2) {
            records.push((Window::Measured, end));
            end = end.plus(self.interval_ns);
        }
        records.push((Window::Measured, measured_end));
        if self.drain_ns.0 > 0 {
            records.push((Window::Drain, self.load_ns()));
        }
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn windows(warm_up: u64, measured: u64, drain: u64, interval: u64) -> Windows {
        Windows {
            warm_up_ns: Nanos(warm_up),
            measured_ns: Nanos(measured),
            drain_ns: Nanos(drain),
            interval_ns: Nanos(interval),
        }
    }

    #[test]
    fn a_short_remainder_joins_the_interval_before_it() {
        let ends: Vec<u64> = windows(5, 24, 3, 10).records().iter().map(|r| r.1 .0).collect();
        assert_eq!(ends, [5, 15, 29, 32]);
        let ends: Vec<u64> = windows(5, 26, 3, 10).records().iter().map(|r| r.1 .0).collect();
        assert_eq!(ends, [5, 15, 25, 31, 34]);
    }

    proptest! {
        #[test]
        fn records_ascend_and_cover_every_window_exactly(
            warm_up in 0u64..50, measured in 1u64..200, drain in 0u64..50, interval in 1u64..60
        ) {
            let w = windows(warm_up, measured, drain, interval);
            let records = w.records();
            prop_assert!(records.windows(2).all(|pair| pair[0].1 < pair[1].1));
            prop_assert_eq!(records.last().unwrap().1, w.load_ns());
            let mut begin = Nanos(0);
            for (window, end) in records {
                prop_assert_eq!(w.at(begin), window);
                prop_assert_eq!(w.at(Nanos(end.0 - 1)), window);
                begin = end;
            }
        }
    }
}
