//! Counts of operations by class, as they are read while the load runs.

use iodyno_core::disk::ClassCounts;
use iodyno_core::histogram::Snapshot;
use iodyno_core::units::Bytes;

/// Everything of one class from the start to a moment.
#[derive(Clone, Default)]
pub struct ClassTotals {
    /// `read`, `write`, ...
    pub name: String,
    /// Bytes that the kernel took or gave.
    pub bytes: u64,
    /// Operations that ended well.
    pub operations: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Service time of those that ended well.
    pub service_time: Snapshot,
    /// Their response time; absent in a closed loop.
    pub response_time: Option<Snapshot>,
}

impl ClassTotals {
    /// Adds what was done elsewhere of the same class.
    pub fn add(&mut self, other: &ClassTotals) {
        self.bytes += other.bytes;
        self.operations += other.operations;
        self.errors += other.errors;
        self.service_time.add(&other.service_time);
        if let (Some(times), Some(more)) = (&mut self.response_time, &other.response_time) {
            times.add(more);
        }
    }
}

/// What was done between two moments; lists of the same classes, or an empty one at first.
#[must_use]
pub fn grown(before: &[ClassTotals], now: &[ClassTotals]) -> Vec<ClassCounts> {
    let nothing = ClassTotals::default();
    now.iter()
        .enumerate()
        .map(|(at, class)| {
            let earlier = before.get(at).unwrap_or(&nothing);
            let response = |times: &Snapshot| match &earlier.response_time {
                Some(before) => times.since(before),
                None => times.since(&Snapshot::default()),
            };
            ClassCounts {
                name: class.name.clone(),
                bytes: Bytes(class.bytes - earlier.bytes),
                operations: class.operations - earlier.operations,
                errors: class.errors - earlier.errors,
                service_time: class.service_time.since(&earlier.service_time),
                response_time: class.response_time.as_ref().map(response),
            }
        })
        .collect()
}
