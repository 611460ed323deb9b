//! What happened to datagrams, and how the server got at them: counted by one worker, read by somebody else.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of one worker, away from those of the others.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    pub sent: Count,
    pub received: Count,
    pub lost: Count,
    pub late: Count,
    pub reordered: Count,
    pub duplicates: Count,
    pub foreign: Count,
    pub retries: Count,
    pub polls: Count,
    pub wakeups: Count,
    pub empty: Count,
    pub requests: Count,
}

/// A counter with one writer.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds without a locked instruction, which one writer does not need.
    #[inline]
    pub(crate) fn add(&self, grown: u64) {
        self.0.store(self.0.load(Relaxed) + grown, Relaxed);
    }

    #[inline]
    pub(crate) fn one_more(&self) {
        self.add(1);
    }

    fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Everything counted from the start to a moment, over all workers. Each is explained where it is reported
/// (`agent/cli/src/tallies.rs`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the metrics of these names say it")]
pub struct DatagramTotals {
    pub sent: u64,
    pub received: u64,
    pub lost: u64,
    pub late: u64,
    pub reordered: u64,
    pub duplicates: u64,
    pub foreign: u64,
    pub retries: u64,
    pub polls: u64,
    pub wakeups: u64,
    pub empty: u64,
    pub requests: u64,
}

impl DatagramTotals {
    /// The sum of all `tallies` now.
    pub(crate) fn of<'a>(tallies: impl IntoIterator<Item = &'a Tally>) -> Self {
        let mut sum = DatagramTotals::default();
        for tally in tallies {
            sum.sent += tally.sent.read();
            sum.received += tally.received.read();
            sum.lost += tally.lost.read();
            sum.late += tally.late.read();
            sum.reordered += tally.reordered.read();
            sum.duplicates += tally.duplicates.read();
            sum.foreign += tally.foreign.read();
            sum.retries += tally.retries.read();
            sum.polls += tally.polls.read();
            sum.wakeups += tally.wakeups.read();
            sum.empty += tally.empty.read();
            sum.requests += tally.requests.read();
        }
        sum
    }
}
