//! What the application around the load took: a reading like that of a sensor, of the load's own counters.

use iodyno_core::job::{Job, Role};
use iodyno_core::metric::{Kind, Metric, Reading, Value};
use iodyno_core::units::Nanos;
use iodyno_load::Totals;

/// Its name in a job's list of sensors.
pub const NAME: &str = "application";

const COMPUTE: Metric =
    of_job("application.compute_ns", "CPU time of the sender's own code before its writes.");
const THINK: Metric = of_job(
    "application.think_ns",
    "Time that connections paused, summed over them; a pause counts at its end.",
);
const LOCK_WAIT: Metric =
    of_job("application.lock_wait_ns", "Time that workers waited for the lock of a serialised job.");

/// Every metric of the reading.
pub const METRICS: [Metric; 3] = [COMPUTE, THINK, LOCK_WAIT];

const fn of_job(name: &'static str, help: &'static str) -> Metric {
    Metric { name, unit: "ns", kind: Kind::Counter, source: "the load's own counters", label: "", help }
}

/// Whether the job wants it: every job with a load that does not name other sensors.
pub fn wanted(job: &Job) -> bool {
    let named = job.sensors.as_ref().is_none_or(|names| names.iter().any(|name| name == NAME));
    job.role != Role::Idle && named
}

/// Growth between two counts, which were taken `span_ns` apart.
pub fn reading(before: &Totals, now: &Totals, read_ns: Nanos, span_ns: Nanos) -> Reading {
    let value = |metric: Metric, counter: fn(&Totals) -> Nanos| {
        Value(metric.name.to_owned(), String::new(), counter(now).minus(counter(before)).0)
    };
    Reading {
        sensor: NAME.to_owned(),
        read_ns,
        span_ns,
        // It was counted with the load.
        cost_ns: Nanos(0),
        values: vec![
            value(COMPUTE, |totals| totals.compute_ns),
            value(THINK, |totals| totals.think_ns),
            value(LOCK_WAIT, |totals| totals.lock_wait_ns),
        ],
        missing: None,
    }
}
