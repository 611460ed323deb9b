//! What was done to each target of a storage load that has several: a reading like that of a sensor, of the load's own counters.

use iodyno_core::metric::{Kind, Metric, Reading, Times, Value};
use iodyno_core::units::Nanos;
use iodyno_storage::classes::{grown, ClassTotals};

/// Its name in a job's list of sensors. Every job with several targets, and not too many, has it.
pub const NAME: &str = "targets";

const OPERATIONS: Metric = counted(
    "target.operations",
    "1",
    "Operations of a class that ended well on a target, by its place among the targets; their service times are in the histograms.",
);
const BYTES: Metric = counted("target.bytes", "B", "Bytes that they moved.");
const ERRORS: Metric = counted("target.errors", "1", "Those that failed.");
const TIMES: &str = "target.service_time_ns";

/// Every metric of the reading.
pub const METRICS: [Metric; 3] = [OPERATIONS, BYTES, ERRORS];

const fn counted(name: &'static str, unit: &'static str, help: &'static str) -> Metric {
    let (source, label) = ("the load's own counters", "target=0,operation=read");
    Metric { name, unit, kind: Kind::Counter, source, label, help }
}

/// Growth between two counts of all targets, which were taken `span_ns` apart; `None` where targets are not told apart.
pub fn reading(
    before: &[Vec<ClassTotals>],
    now: &[Vec<ClassTotals>],
    read_ns: Nanos,
    span_ns: Nanos,
) -> Option<Reading> {
    let (mut values, mut times) = (Vec::new(), Vec::new());
    for (target, classes) in now.iter().enumerate() {
        for class in grown(before.get(target).map_or(&[], Vec::as_slice), classes) {
            let label = format!("target={target},operation={}", class.name);
            for (metric, count) in
                [(OPERATIONS, class.operations), (BYTES, class.bytes.0), (ERRORS, class.errors)]
            {
                values.push(Value(metric.name.to_owned(), label.clone(), count));
            }
            times.push(Times { metric: TIMES.to_owned(), label, times: class.service_time });
        }
    }
    // It was counted with the load.
    let cost_ns = Nanos(0);
    (!now.is_empty()).then(|| Reading {
        sensor: NAME.to_owned(),
        read_ns,
        span_ns,
        cost_ns,
        values,
        times,
        missing: None,
    })
}
