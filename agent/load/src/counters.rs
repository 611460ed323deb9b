//! What workers count, and how it is read while they do.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use iodyno_core::histogram::{Recorder, Snapshot};
use iodyno_core::units::Nanos;

use Ordering::Relaxed;

/// Most histograms that are kept: workers share them by their number, so that a snapshot stays cheap with
/// thousands of workers. Additions are atomic, and so few workers run at a time that they seldom meet.
const RECORDERS: usize = 64;

/// Counts of one connection, on a cache line of its own: only its worker writes to it.
#[derive(Default)]
#[repr(align(64))]
pub struct Connection {
    bytes: AtomicU64,
}

impl Connection {
    /// Counts bytes. A plain load and store: there is one writer.
    #[inline]
    pub fn moved(&self, bytes: usize) {
        self.bytes.store(self.bytes.load(Relaxed) + bytes as u64, Relaxed);
    }
}

/// Everything that the workers of a job write to.
pub struct Counters {
    pub connections: Box<[Connection]>,
    recorders: Box<[Recorder]>,
    /// The sockets were shut on purpose: what fails now is no loss of the network.
    pub stopping: AtomicBool,
    active: AtomicUsize,
    first_operation: AtomicU64,
    last_started: AtomicU64,
    stopped: AtomicU64,
    lost: AtomicU32,
    lost_reason: Mutex<Option<String>>,
}

impl Counters {
    /// Counters of `connections`, carried by `workers`.
    pub fn new(connections: usize, workers: usize) -> Self {
        Counters {
            connections: (0..connections).map(|_| Connection::default()).collect(),
            recorders: (0..workers.clamp(1, RECORDERS)).map(|_| Recorder::default()).collect(),
            stopping: AtomicBool::new(false),
            active: AtomicUsize::new(workers),
            first_operation: AtomicU64::new(u64::MAX),
            last_started: AtomicU64::new(0),
            stopped: AtomicU64::new(0),
            lost: AtomicU32::new(0),
            lost_reason: Mutex::new(None),
        }
    }

    /// The histogram of a worker.
    pub fn recorder(&self, worker: usize) -> &Recorder {
        &self.recorders[worker % self.recorders.len()]
    }

    /// A worker did its first operation at `now`.
    pub fn started(&self, now: Nanos) {
        self.first_operation.fetch_min(now.0, Relaxed);
        self.last_started.fetch_max(now.0, Relaxed);
    }

    /// A worker is done at `now`.
    pub fn ended(&self, now: Nanos) {
        self.stopped.fetch_max(now.0, Relaxed);
        self.active.fetch_sub(1, Ordering::Release);
    }

    /// Whether every worker is done.
    pub fn is_finished(&self) -> bool {
        self.active.load(Ordering::Acquire) == 0
    }

    /// A connection was lost. Only the first reason is kept: the others follow from it. This is not the hot
    /// path, so it may lock and allocate.
    pub fn lost(&self, index: usize, reason: &str) {
        self.lost.fetch_add(1, Relaxed);
        let mut first = self.lost_reason.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| format!("connection {index}: {reason}"));
    }

    /// First operation of any worker, and of the last one.
    pub fn starts(&self) -> Option<(Nanos, Nanos)> {
        let first = self.first_operation.load(Relaxed);
        (first != u64::MAX).then(|| (Nanos(first), Nanos(self.last_started.load(Relaxed))))
    }

    /// When the last worker that is done was done.
    pub fn stopped(&self) -> Option<Nanos> {
        Some(Nanos(self.stopped.load(Relaxed))).filter(|at| at.0 != 0)
    }
}

/// What was counted from the start to a moment.
#[derive(Clone, Default)]
pub struct Totals {
    /// Payload bytes.
    pub bytes: u64,
    /// Operations.
    pub operations: u64,
    /// Their service times.
    pub service_time: Snapshot,
    /// Bytes of each connection.
    pub connection_bytes: Vec<u64>,
    /// Connections lost.
    pub connections_lost: u32,
    /// Why the first of them was lost.
    pub lost_reason: Option<String>,
}

/// Reads the counters of a job while it runs.
#[derive(Clone)]
pub struct Meter(pub(crate) Arc<Counters>);

impl Meter {
    /// The totals now. Costs some 10 ns a connection, and 3 us a histogram.
    #[must_use]
    pub fn read(&self) -> Totals {
        let counters = &self.0;
        let connection_bytes: Vec<u64> = counters.connections.iter().map(|c| c.bytes.load(Relaxed)).collect();
        let service_time = Snapshot::of(counters.recorders.iter());
        Totals {
            bytes: connection_bytes.iter().sum(),
            operations: service_time.count(),
            service_time,
            connection_bytes,
            connections_lost: counters.lost.load(Relaxed),
            lost_reason: counters.lost_reason.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
