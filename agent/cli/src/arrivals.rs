//! What an open loop did with its arrivals: its times, and a reading like that of a sensor, of the load's own counters.

use iodyno_core::histogram::Snapshot;
use iodyno_core::message::LoadCounts;
use iodyno_core::metric::{Kind, Metric, Reading, Value};
use iodyno_core::units::Nanos;
use iodyno_load::{OpenTotals, Totals};

/// Its name in a job's list of sensors. Every job with an open loop has it.
pub const NAME: &str = "arrivals";

const DUE: Metric =
    counted("arrivals.due", "Arrivals whose instant came; none comes after the stop of the load.");
const BEGUN: Metric = counted("arrivals.begun", "Arrivals whose first operation was begun.");
const MISSED: Metric = counted(
    "arrivals.missed",
    "Arrivals that were due and not begun when the load stopped, and so never were; told at the end of the load.",
);
const BACKLOG: Metric = of_job(
    "arrivals.backlog",
    "1",
    Kind::Gauge,
    "Arrivals due and not begun, at the end of the interval; 0 after the stop, when they count as missed.",
);
const OLDEST: Metric = of_job(
    "arrivals.oldest_wait_ns",
    "ns",
    Kind::Gauge,
    "How long the oldest arrival that found every connection busy has waited, at the end of the interval or the stop.",
);
const SPUN: Metric = of_job(
    "arrivals.spun_ns",
    "ns",
    Kind::Counter,
    "CPU time that workers spent looking at the clock in order to begin on time, over all workers.",
);

/// Every metric of the reading.
pub const METRICS: [Metric; 6] = [DUE, BEGUN, MISSED, BACKLOG, OLDEST, SPUN];

const fn counted(name: &'static str, help: &'static str) -> Metric {
    of_job(name, "1", Kind::Counter, help)
}

const fn of_job(name: &'static str, unit: &'static str, kind: Kind, help: &'static str) -> Metric {
    Metric { name, unit, kind, source: "the load's own counters", label: "", help }
}

/// The times of an interval that only an open loop has; of a closed one there are none.
pub fn times(before: &Totals, now: &Totals) -> LoadCounts {
    let nothing = OpenTotals::default();
    let earlier = before.open_loop.as_ref().unwrap_or(&nothing);
    let grown = |times: fn(&OpenTotals) -> &Snapshot| {
        now.open_loop.as_ref().map(|open| times(open).since(times(earlier)))
    };
    LoadCounts {
        response_time: grown(|open| &open.response_time),
        lateness: grown(|open| &open.lateness),
        waiting: grown(|open| &open.waiting),
        ..LoadCounts::default()
    }
}

/// Growth between two counts, which were taken `span_ns` apart; `None` in a closed loop.
pub fn reading(before: &Totals, now: &Totals, read_ns: Nanos, span_ns: Nanos) -> Option<Reading> {
    let open = now.open_loop.as_ref()?;
    let nothing = OpenTotals::default();
    let earlier = before.open_loop.as_ref().unwrap_or(&nothing);
    let value = |metric: Metric, value: u64| Value(metric.name.to_owned(), String::new(), value);
    let grown = |metric: Metric, counter: fn(&OpenTotals) -> u64| {
        value(metric, counter(open).saturating_sub(counter(earlier)))
    };
    Some(Reading {
        sensor: NAME.to_owned(),
        read_ns,
        span_ns,
        // It was counted with the load.
        cost_ns: Nanos(0),
        values: vec![
            grown(DUE, |open| open.due),
            grown(BEGUN, |open| open.begun),
            grown(MISSED, |open| open.missed),
            value(BACKLOG, open.backlog),
            value(OLDEST, open.oldest_wait_ns.0),
            grown(SPUN, |open| open.spun_ns.0),
        ],
        times: Vec::new(),
        missing: None,
    })
}
