//! The one histogram layout of iodyno, `ll7`: log-linear with 128 buckets per octave.
//!
//! A value below 256 has a bucket of its own. Above, every octave [2^k, 2^(k+1)) is cut into 128 equal
//! buckets, so that a bucket is at most 1/128 = 0.78 % of its lower bound wide. Values of 2^42 ns (73 min)
//! and more share the last bucket. Histograms of one layout merge by adding counts, exactly; that is why
//! there is one layout and why percentiles are never stored.
//!
//! [`Recorder`] is written by load threads while another thread takes snapshots. Every cell is an atomic that
//! is only ever added to, with relaxed ordering: a snapshot may see an operation in its bucket before it sees
//! it in the sum, and the next snapshot has it in both. The growth between two snapshots is a [`Histogram`].

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// log2 of the buckets per octave.
const SUB_BITS: u32 = 7;
/// log2 of the smallest value that goes to the last bucket.
const TOP_BITS: u32 = 42;
/// Number of buckets.
pub const BUCKETS: usize = (((TOP_BITS - SUB_BITS - 1) as usize) << SUB_BITS) + (2 << SUB_BITS);

/// Index of the bucket that `value` falls into.
#[inline]
#[must_use]
pub const fn bucket_of(value: u64) -> usize {
    let value = if value >> TOP_BITS != 0 { (1 << TOP_BITS) - 1 } else { value };
    let shift = (63 - (value | (1 << SUB_BITS)).leading_zeros()) - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// The half-open range [low, high) of values that bucket `index` holds.
#[must_use]
pub const fn bounds_of(index: usize) -> (u64, u64) {
    if index < (2 << SUB_BITS) {
        return (index as u64, index as u64 + 1);
    }
    let shift = (index >> SUB_BITS) - 1;
    let mantissa = (index - (shift << SUB_BITS)) as u64;
    (mantissa << shift, (mantissa + 1) << shift)
}

/// Counts per bucket, sparse: what is sent and stored. `buckets` ascends and has no empty bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Histogram {
    /// Values recorded.
    pub count: u64,
    /// Exact sum of the values, in nanoseconds.
    pub sum_ns: u64,
    /// Indices of the buckets that hold something, ascending.
    pub buckets: Vec<u32>,
    /// Values in each of `buckets`.
    pub counts: Vec<u64>,
}

/// A histogram that many threads add to while one takes snapshots, or one thread alone.
pub struct Recorder {
    cells: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
    is_shared: bool,
}

/// The state of one or more [`Recorder`]s at a moment.
#[derive(Clone)]
pub struct Snapshot {
    cells: Box<[u64]>,
    sum_ns: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder::of(true)
    }
}

impl Recorder {
    /// For many threads, or, without locked instructions, for one alone.
    #[must_use]
    pub fn of(is_shared: bool) -> Self {
        let cells = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Recorder { cells, sum_ns: AtomicU64::new(0), is_shared }
    }

    /// Counts one value in nanoseconds.
    #[inline]
    pub fn record(&self, value_ns: u64) {
        if !self.is_shared {
            return self.record_alone(value_ns);
        }
        self.cells[bucket_of(value_ns)].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(value_ns, Relaxed);
    }

    /// As [`Recorder::record`] by the only thread that ever does, without locked instructions.
    #[inline]
    pub fn record_alone(&self, value_ns: u64) {
        let cell = &self.cells[bucket_of(value_ns)];
        cell.store(cell.load(Relaxed) + 1, Relaxed);
        self.sum_ns.store(self.sum_ns.load(Relaxed) + value_ns, Relaxed);
    }

    /// Counts one value `times` times: what the operations of one call have in common.
    #[inline]
    pub fn record_times(&self, value_ns: u64, times: u64) {
        self.cells[bucket_of(value_ns)].fetch_add(times, Relaxed);
        self.sum_ns.fetch_add(value_ns * times, Relaxed);
    }
}

impl Default for Snapshot {
    fn default() -> Self {
        Snapshot { cells: vec![0; BUCKETS].into_boxed_slice(), sum_ns: 0 }
    }
}

impl Snapshot {
    /// The sum of all `recorders` now.
    #[must_use]
    pub fn of<'a>(recorders: impl IntoIterator<Item = &'a Recorder>) -> Self {
        let mut total = Snapshot::default();
        for recorder in recorders {
            for (cell, source) in total.cells.iter_mut().zip(&recorder.cells) {
                *cell += source.load(Relaxed);
            }
            total.sum_ns += recorder.sum_ns.load(Relaxed);
        }
        total
    }

    /// Adds what others recorded.
    pub fn add(&mut self, other: &Snapshot) {
        for (cell, more) in self.cells.iter_mut().zip(&other.cells) {
            *cell += more;
        }
        self.sum_ns += other.sum_ns;
    }

    /// Values recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.cells.iter().sum()
    }

    /// What was recorded after `before` was taken.
    #[must_use]
    pub fn since(&self, before: &Snapshot) -> Histogram {
        let mut grown = Histogram { sum_ns: self.sum_ns - before.sum_ns, ..Histogram::default() };
        for (index, (now, then)) in (0..).zip(self.cells.iter().zip(&before.cells)) {
            if now > then {
                grown.buckets.push(index);
                grown.counts.push(now - then);
                grown.count += now - then;
            }
        }
        grown
    }
}

impl Histogram {
    /// The value that a share `q` (0 to 1) of the recorded values does not exceed: the upper end of its
    /// bucket, or `None` when nothing was recorded. Used where the agent itself prints a quantile; the lab
    /// computes its own from the stored counts.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = ((self.count as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().zip(&self.counts) {
            seen += count;
            if seen >= rank {
                return Some(bounds_of(*bucket as usize).1 - 1);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_join_without_gap_or_overlap() {
        for index in 0..BUCKETS - 1 {
            assert_eq!(bounds_of(index).1, bounds_of(index + 1).0, "between {index} and the next");
        }
        assert_eq!(bounds_of(BUCKETS - 1).1, 1 << TOP_BITS);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket_which_is_at_most_one_percent_wide(value in 0u64..1 << TOP_BITS) {
            let (low, high) = bounds_of(bucket_of(value));
            prop_assert!(low <= value && value < high);
            prop_assert!((high - low - 1) as f64 <= 0.01 * low.max(1) as f64);
        }

        #[test]
        fn quantiles_agree_with_an_independent_histogram(
            values in prop::collection::vec(0u64..1 << 40, 1..300), q in 0.0f64..1.0
        ) {
            let recorder = Recorder::default();
            let mut oracle = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1 << 41, 3).unwrap();
            for value in &values {
                recorder.record(*value);
                oracle.record(*value).unwrap();
            }
            let ours = Snapshot::of([&recorder]).since(&Snapshot::default());
            prop_assert_eq!(ours.sum_ns, values.iter().sum::<u64>());
            let (a, b) = (ours.quantile(q).unwrap() as f64, oracle.value_at_quantile(q) as f64);
            prop_assert!((a - b).abs() <= 0.01 * a.max(b) + 1.0, "{} against {}", a, b);
        }

        #[test]
        fn growth_between_snapshots_adds_up(
            first in prop::collection::vec(any::<u64>(), 0..50).prop_map(|v| v.into_iter().map(|x| x >> 20).collect::<Vec<_>>()),
            second in prop::collection::vec(any::<u64>(), 0..50).prop_map(|v| v.into_iter().map(|x| x >> 20).collect::<Vec<_>>()),
            is_shared in any::<bool>(),
        ) {
            let (a, b) = (Recorder::of(is_shared), Recorder::default());
            first.iter().for_each(|v| a.record(*v));
            let middle = Snapshot::of([&a, &b]);
            second.iter().for_each(|v| b.record(*v));
            let end = Snapshot::of([&a, &b]);
            let start = Snapshot::default();
            prop_assert_eq!(middle.since(&start).count, first.len() as u64);
            prop_assert_eq!(end.since(&middle).count, second.len() as u64);
            prop_assert_eq!(end.since(&middle).sum_ns, second.iter().sum::<u64>());
        }
    }
}
