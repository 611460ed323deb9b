//! The event generator: event number k happens k periods after the start, whoever takes it. So the rate is exact, keeps
//! its fractions, begins without a burst, and costs nothing while nobody asks; whoever takes an event that is still to
//! come waits for its instant.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

use iodyno_core::file_variable::ValueStream;
use iodyno_sys::lock::locked;

/// chosen: how long a rate that is drawn holds: as long as Filebench's generator keeps one.
const HELD_NS: u64 = 1_000_000_000;
const SECOND_NS: u128 = 1_000_000_000;

/// A rate that is drawn again and again.
#[derive(Debug)]
pub(super) struct Varied {
    rates: ValueStream,
    /// When the rate is drawn again, from the start.
    until_ns: u64,
    per_s: u64,
    /// When the last event was, from the start.
    at_ns: f64,
}

impl Varied {
    /// The instant of the last of `count` further events.
    fn take(&mut self, count: u64) -> u64 {
        for _ in 0..count {
            let mut left = 1.0;
            loop {
                let to_change = self.until_ns as f64 - self.at_ns;
                let fits = to_change.max(0.0) * self.per_s as f64 / 1e9;
                if self.per_s > 0 && fits >= left {
                    self.at_ns += left * 1e9 / self.per_s as f64;
                    break;
                }
                left -= fits;
                self.at_ns = self.until_ns as f64;
                self.per_s = self.rates.draw();
                self.until_ns = self.until_ns.saturating_add(HELD_NS);
                // A rate of nothing for a lifetime: events never come.
                if self.until_ns > 1 << 62 {
                    return u64::MAX;
                }
            }
        }
        self.at_ns as u64
    }
}

/// The events of a program.
#[derive(Debug)]
pub(super) enum Events {
    /// A fixed rate; how many were taken.
    Even { per_s: u64, taken: AtomicU64 },
    /// A rate that is drawn.
    Varied(Box<Mutex<Varied>>),
}

impl Events {
    pub(super) fn even(per_s: u64) -> Self {
        Events::Even { per_s, taken: AtomicU64::new(0) }
    }

    pub(super) fn varied(mut rates: ValueStream) -> Self {
        let per_s = rates.draw();
        let varied = Varied { rates, until_ns: HELD_NS, per_s, at_ns: 0.0 };
        Events::Varied(Box::new(Mutex::new(varied)))
    }

    /// Events that are due so long after the start; unknown where the rate is drawn.
    pub(super) fn due(&self, elapsed_ns: u64) -> Option<u64> {
        match self {
            Events::Even { per_s, .. } => {
                let due = u128::from(elapsed_ns) * u128::from(*per_s) / SECOND_NS + 1;
                Some(u64::try_from(due).unwrap_or(u64::MAX))
            }
            Events::Varied(_) => None,
        }
    }

    /// Takes `count` events, at least 1: nanoseconds from the start to the last of them.
    #[inline]
    pub(super) fn take(&self, count: u64) -> u64 {
        match self {
            Events::Even { per_s, taken } => {
                // The first event is at the start.
                let last = taken.fetch_add(count, Relaxed) + count - 1;
                u64::try_from(u128::from(last) * SECOND_NS / u128::from((*per_s).max(1))).unwrap_or(u64::MAX)
            }
            Events::Varied(varied) => {
                let mut varied = locked(varied);
                // chosen: beyond this many at a time no thread ever comes back.
                varied.take(count.min(1_000_000))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_core::file_variable::{Real, ValueLaw, Variable};

    #[test]
    fn a_fixed_rate_keeps_its_fractions() {
        let events = Events::even(3);
        let at: Vec<u64> = (0..7).map(|_| events.take(1)).collect();
        assert_eq!(
            at,
            [0, 333_333_333, 666_666_666, 1_000_000_000, 1_333_333_333, 1_666_666_666, 2_000_000_000]
        );
        assert_eq!(events.take(3), 3_000_000_000);
    }

    #[test]
    fn a_drawn_rate_has_its_mean() {
        let law = ValueLaw::Uniform { least: Real(0.0), greatest: Real(200.0) };
        let variable =
            Variable { name: "r".to_owned(), law, least: None, greatest: None, round: None, seed: None };
        let events = Events::varied(ValueStream::new(&variable, 3, 0));
        let mut last = 0;
        for _ in 0..100_000 {
            let at = events.take(1);
            assert!(at >= last);
            last = at;
        }
        let rate = 100_000.0 / (last as f64 / 1e9);
        // Some 1000 rates of deviation 58: standard error 1.8; five of those.
        assert!((rate - 100.0).abs() < 9.0, "{rate}");
    }

    #[test]
    fn a_rate_that_is_always_nothing_gives_no_event() {
        let law = ValueLaw::Fixed { value: Real(0.0) };
        let variable =
            Variable { name: "r".to_owned(), law, least: None, greatest: None, round: None, seed: None };
        let Events::Varied(varied) = Events::varied(ValueStream::new(&variable, 3, 0)) else { panic!() };
        varied.lock().unwrap().until_ns = (1 << 62) - 3 * HELD_NS;
        assert_eq!(Events::Varied(varied).take(1), u64::MAX);
    }
}
