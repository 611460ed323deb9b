//! What the load did, counted by its workers and read by somebody else.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use iodyno_core::histogram::{Recorder, Snapshot};
use iodyno_core::units::Nanos;
use iodyno_sys::clock;

use super::open_loop::{OpenLoop, OpenTotals};

use super::rare::{RareEvents, RareTotals};
use crate::datagram::counters::{DatagramTotals, Tally};

/// chosen: more recorders than this add memory and reading time (37 KB each) and no speed, because no more
/// than a few threads run at a time.
pub(super) const MOST_RECORDERS: usize = 64;

/// Counters of one connection, on a cache line of their own. Only its worker writes to them.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Cell {
    bytes: AtomicU64,
    operations: AtomicU64,
    compute_ns: AtomicU64,
    think_ns: AtomicU64,
    lock_wait_ns: AtomicU64,
    sent_bytes: AtomicU64,
    is_lost: AtomicBool,
}

/// Adds without a locked instruction, which one writer does not need.
#[inline]
fn add(counter: &AtomicU64, grown: u64) {
    counter.store(counter.load(Relaxed) + grown, Relaxed);
}

impl Cell {
    #[inline]
    pub(crate) fn add_bytes(&self, bytes: u64) {
        add(&self.bytes, bytes);
    }

    /// Bytes that left a connection whose `bytes` are those that came.
    #[inline]
    pub(crate) fn add_sent(&self, bytes: u64) {
        add(&self.sent_bytes, bytes);
    }

    #[inline]
    pub(crate) fn add_operation(&self) {
        add(&self.operations, 1);
    }

    /// For connections that several workers serve.
    pub(crate) fn add_bytes_by_any(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Likewise.
    pub(crate) fn add_operation_by_any(&self) {
        self.operations.fetch_add(1, Relaxed);
    }

    #[inline]
    pub(crate) fn add_operations(&self, grown: u64) {
        add(&self.operations, grown);
    }

    /// What only the connection's own worker may ask.
    #[inline]
    pub(crate) fn operations(&self) -> u64 {
        self.operations.load(Relaxed)
    }

    pub(crate) fn add_compute(&self, ns: u64) {
        add(&self.compute_ns, ns);
    }

    pub(crate) fn add_think(&self, ns: u64) {
        add(&self.think_ns, ns);
    }

    pub(crate) fn add_lock_wait(&self, ns: u64) {
        add(&self.lock_wait_ns, ns);
    }
}

/// Why a connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The kernel reported an error.
    Broken(i32),
    /// The peer ended before the load was to stop.
    EndedEarly,
    /// It did not come to rest in time after the load was to stop.
    NotDrained,
}

/// Counters of a job.
pub(crate) struct Counters {
    cells: Box<[Cell]>,
    recorders: Box<[Recorder]>,
    /// What all workers add to.
    pub rare: RareEvents,
    /// One a worker of datagrams; none otherwise.
    tallies: Box<[Tally]>,
    /// Messages of one call, where a call may take several.
    batches: Box<[Recorder]>,
    lost: AtomicU32,
    /// The first loss in one word, so that noting it needs no lock: kind (8 bits), error number (24 bits),
    /// connection (32 bits). 0: none.
    first_loss: AtomicU64,
    /// Absent: the loop is closed.
    pub open_loop: Option<OpenLoop>,
}

/// One a worker, for it alone where there are not too many.
fn recorders(workers: usize) -> Box<[Recorder]> {
    let recorders = workers.clamp(1, MOST_RECORDERS);
    (0..recorders).map(|_| Recorder::of(recorders < workers)).collect()
}

impl Counters {
    pub(crate) fn new(connections: usize, workers: usize) -> Self {
        Counters {
            cells: (0..connections).map(|_| Cell::default()).collect(),
            recorders: recorders(workers),
            rare: RareEvents::default(),
            tallies: Box::default(),
            batches: Box::default(),
            lost: AtomicU32::new(0),
            first_loss: AtomicU64::new(0),
            open_loop: None,
        }
    }

    /// Counts datagrams, too.
    pub(crate) fn with_tallies(mut self, workers: usize) -> Self {
        self.tallies = (0..workers).map(|_| Tally::default()).collect();
        self
    }

    /// Counts messages a call, too.
    pub(crate) fn with_batches(mut self, workers: usize) -> Self {
        self.batches = recorders(workers);
        self
    }

    /// That of a worker of datagrams.
    pub(crate) fn tally(&self, worker: usize) -> &Tally {
        &self.tallies[worker]
    }

    /// Where a worker counts messages a call, if the job does that.
    pub(crate) fn batches(&self, worker: usize) -> Option<&Recorder> {
        self.batches.get(worker % self.batches.len().max(1))
    }

    pub(crate) fn cell(&self, connection: usize) -> &Cell {
        &self.cells[connection]
    }

    pub(crate) fn recorder(&self, worker: usize) -> &Recorder {
        &self.recorders[worker % self.recorders.len()]
    }

    /// Counts a lost connection. Does not allocate.
    pub(crate) fn lose(&self, connection: usize, loss: Loss) {
        // Where two workers serve one connection, both notice.
        if self.cells[connection].is_lost.swap(true, Relaxed) {
            return;
        }
        let (kind, number) = match loss {
            Loss::Broken(number) => (1, number as u64 & 0xff_ffff),
            Loss::EndedEarly => (2, 0),
            Loss::NotDrained => (3, 0),
        };
        let word = kind << 56 | number << 32 | connection as u64;
        // Fails when another loss was first.
        let _ = self.first_loss.compare_exchange(0, word, Relaxed, Relaxed);
        self.lost.fetch_add(1, Relaxed);
    }

    fn lost_reason(&self) -> Option<String> {
        let word = self.first_loss.load(Relaxed);
        let (number, connection) = ((word >> 32 & 0xff_ffff) as i32, word as u32);
        let reason = match word >> 56 {
            0 => return None,
            1 => io::Error::from_raw_os_error(number).to_string(),
            2 => "the peer ended it before the load was to stop".to_owned(),
            _ => "it did not come to rest in time after the load was to stop".to_owned(),
        };
        Some(format!("connection {connection}: {reason}"))
    }

    /// Bytes and operations so far.
    pub(crate) fn moved(&self) -> (u64, u64) {
        let add = |(bytes, operations), cell: &Cell| {
            (bytes + cell.bytes.load(Relaxed), operations + cell.operations.load(Relaxed))
        };
        self.cells.iter().fold((0, 0), add)
    }

    pub(crate) fn read(&self) -> Totals {
        // The histogram first: an operation that is in it is in the sums, too.
        let service_time = Snapshot::of(self.recorders.iter());
        let sum = |counter: fn(&Cell) -> &AtomicU64| {
            self.cells.iter().map(|cell| counter(cell).load(Relaxed)).sum::<u64>()
        };
        let operations = sum(|cell| &cell.operations);
        let connection_bytes: Vec<u64> = self.cells.iter().map(|cell| cell.bytes.load(Relaxed)).collect();
        Totals {
            bytes: connection_bytes.iter().sum(),
            operations,
            service_time,
            connection_bytes,
            compute_ns: Nanos(sum(|cell| &cell.compute_ns)),
            think_ns: Nanos(sum(|cell| &cell.think_ns)),
            lock_wait_ns: Nanos(sum(|cell| &cell.lock_wait_ns)),
            sent_bytes: sum(|cell| &cell.sent_bytes),
            rare: self.rare.read(),
            connections_lost: self.lost.load(Relaxed),
            lost_reason: self.lost_reason(),
            datagrams: DatagramTotals::of(self.tallies.iter()),
            batch: (!self.batches.is_empty()).then(|| Snapshot::of(self.batches.iter())),
            open_loop: self.open_loop.as_ref().map(|open| open.read(clock::monotonic)),
        }
    }
}

/// Everything counted from the start to a moment.
#[derive(Clone, Default)]
pub struct Totals {
    /// Payload bytes accepted by the kernel (sender) or read (receiver): the sum of `connection_bytes`.
    pub bytes: u64,
    /// Messages accepted whole (sender) or reads that returned data (receiver).
    pub operations: u64,
    /// Service time of those operations. While the load runs it may lag behind `operations` by those that
    /// ended during the reading.
    pub service_time: Snapshot,
    /// Payload bytes of each connection, by its index.
    pub connection_bytes: Vec<u64>,
    /// CPU time that the job's `compute_ns` took, over all connections.
    pub compute_ns: Nanos,
    /// Time that connections paused by the job's `think_ns`; a pause counts at its end.
    pub think_ns: Nanos,
    /// Time that workers waited for the lock of a serialised job.
    pub lock_wait_ns: Nanos,
    /// Payload bytes accepted by the kernel on connections that carry both ways: there, `bytes` are those read.
    pub sent_bytes: u64,
    /// Rare events of the whole job.
    pub rare: RareTotals,
    /// Connections lost.
    pub connections_lost: u32,
    /// Why the first of them was lost.
    pub lost_reason: Option<String>,
    /// What happened to datagrams; all 0 where there are none.
    pub datagrams: DatagramTotals,
    /// Messages of one call, where a call may take several.
    pub batch: Option<Snapshot>,
    /// What only an open loop counts; absent: the loop is closed.
    pub open_loop: Option<OpenTotals>,
}

/// Reads the counters of a job at any time, from any thread, also after its end.
#[derive(Clone)]
pub struct Meter(pub(crate) Arc<Counters>);

impl Meter {
    /// The counters now.
    #[must_use]
    pub fn read(&self) -> Totals {
        self.0.read()
    }

    /// Its bytes and operations now, at a fraction of what all counters take.
    #[must_use]
    pub fn moved(&self) -> (u64, u64) {
        self.0.moved()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_loss_is_the_one_that_is_told() {
        let counters = Counters::new(3, 1);
        assert_eq!(counters.read().lost_reason, None);
        counters.lose(2, Loss::Broken(iodyno_sys::errno::ECONNRESET));
        counters.lose(0, Loss::EndedEarly);
        let totals = counters.read();
        assert_eq!(totals.connections_lost, 2);
        let reason = totals.lost_reason.unwrap();
        assert!(reason.starts_with("connection 2: ") && reason.contains("reset"), "{reason}");
    }
}
