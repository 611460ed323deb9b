//! Bytes and operations of parts of an interval: a reading like that of a sensor, of the load's own counters.
//!
//! Sensors are read once an interval, and a trial of a second has ten. How rates vary within it is known from fifty.

use iodyno_core::job::{Job, Load};
use iodyno_core::metric::{Kind, Metric, Reading, Value};
use iodyno_core::units::Nanos;
use iodyno_load::Totals;

/// Its name in a job's list of sensors.
pub const NAME: &str = "parts";

/// Every metric of the reading.
pub const METRICS: [Metric; 3] = [
    metric("part.end_ns", "ns", "From the begin of the interval to the end of this part of it."),
    metric("part.bytes", "bytes", "The load's bytes from the begin of the interval to that end."),
    metric("part.operations", "1", "The load's operations from the begin of the interval to that end."),
];

/// Parts of a measured window that are worth having (chosen: an interval over so many is hardly wider than over more).
const WORTH: u64 = 50;

/// The shortest part (chosen: some hundred messages of a slow load, and 50 looks a second at a fast one).
const SHORTEST_NS: u64 = 20_000_000;

/// Connections whose counters are not summed up more often than once an interval (chosen: 20 us).
const MOST_CONNECTIONS: u32 = 20_000;

const fn metric(name: &'static str, unit: &'static str, help: &'static str) -> Metric {
    Metric {
        name,
        unit,
        kind: Kind::Gauge,
        source: "the load's own counters",
        label: "number of the part",
        help,
    }
}

/// Whether the load's counters are few enough.
fn few(load: &Load) -> bool {
    match load {
        Load::Network(network) => network.connections <= MOST_CONNECTIONS,
        Load::Script(scripted) => scripted.script.threads() <= u64::from(MOST_CONNECTIONS),
        Load::Idle(_) | Load::Disk(_) | Load::Files(_) => true,
    }
}

/// The parts of one interval so far.
pub struct Parts {
    begin_ns: Nanos,
    step_ns: u64,
    /// Whole parts that fit into the interval.
    count: u64,
    /// Of the part that is being waited for; the last one ends with the interval.
    number: u64,
    before: (u64, u64),
    found: Vec<[u64; 3]>,
}

impl Parts {
    /// Those of an interval of the measured window; `None` where intervals alone are enough.
    pub fn of(job: &Job, begin_ns: Nanos, end_ns: Nanos, before: &Totals) -> Option<Parts> {
        let named = job.sensors.as_ref().is_none_or(|names| names.iter().any(|name| name == NAME));
        let span_ns = end_ns.0.saturating_sub(begin_ns.0);
        let wanted = (WORTH * span_ns).div_ceil(job.windows.measured_ns.0.max(1));
        // An interval begins when the load was counted, some microseconds after the one before should have ended.
        let count = wanted.min((span_ns + SHORTEST_NS / 8) / SHORTEST_NS);
        (named && count > 1 && few(&job.load)).then(|| Parts {
            begin_ns,
            step_ns: span_ns / count,
            count,
            number: 1,
            before: (before.bytes, before.operations),
            found: Vec::with_capacity(count as usize),
        })
    }

    /// When to look next.
    pub fn next_ns(&self) -> Nanos {
        match self.number < self.count {
            true => self.begin_ns.plus(Nanos(self.number * self.step_ns)),
            false => Nanos(u64::MAX),
        }
    }

    /// Counts where a part is over. One that was slept through is joined to the next.
    pub fn look(&mut self, clock: impl Fn() -> Nanos, moved: impl Fn() -> (u64, u64)) {
        if clock() < self.next_ns() {
            return;
        }
        let (bytes, operations) = moved();
        let passed = clock().minus(self.begin_ns).0;
        self.found.push([passed, bytes - self.before.0, operations - self.before.1]);
        self.number = passed / self.step_ns + 1;
    }

    /// What was counted, but for the last part: it ends where the record does.
    pub fn reading(self, read_ns: Nanos) -> Reading {
        let value = |number: usize, which: usize, amount: u64| {
            Value(METRICS[which].name.to_owned(), number.to_string(), amount)
        };
        let values = self.found.iter().enumerate().flat_map(|(number, amounts)| {
            amounts.iter().enumerate().map(move |(which, amount)| value(number, which, *amount))
        });
        Reading {
            sensor: NAME.to_owned(),
            read_ns,
            span_ns: read_ns.minus(self.begin_ns),
            // They were counted with the load.
            cost_ns: Nanos(0),
            values: values.collect(),
            times: Vec::new(),
            missing: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_core::network::Network;
    use iodyno_core::phase::Windows;

    const MS: u64 = 1_000_000;

    fn job(measured: u64, interval: u64) -> Job {
        let windows = Windows {
            measured_ns: Nanos(measured * MS),
            interval_ns: Nanos(interval * MS),
            ..Job::<Load>::default().windows
        };
        Job { windows, ..Job::default() }
    }

    fn parts(job: &Job) -> Option<Parts> {
        let end_ns = Nanos(7).plus(job.windows.interval_ns);
        Parts::of(job, Nanos(7), end_ns, &Totals { bytes: 100, operations: 10, ..Totals::default() })
    }

    #[test]
    fn a_window_has_fifty_parts_none_shorter_than_20_ms() {
        let count = |measured, interval| parts(&job(measured, interval)).map(|parts| parts.count);
        assert_eq!([count(1000, 100), count(2000, 100), count(300, 100)], [Some(5), Some(3), Some(5)]);
        assert_eq!(count(99, 99), Some(5));
        assert_eq!([count(5000, 100), count(1000, 30), count(60_000, 1000)], [None, None, None]);
        let network = Network { connections: 20_001, ..Network::default() };
        let many = Job { load: Load::Network(Box::new(network)), ..job(1000, 100) };
        assert!(parts(&many).is_none());
    }

    #[test]
    fn a_part_that_was_slept_through_is_joined_to_the_next() {
        let mut parts = parts(&job(1000, 100)).unwrap();
        let mut at = |ms: u64, moved| parts.look(|| Nanos(7 + ms * MS), || moved);
        at(19, (110, 11));
        at(21, (120, 12));
        at(22, (130, 13));
        at(65, (160, 16));
        at(99, (190, 19));
        let reading = parts.reading(Nanos(7 + 101 * MS));
        let of = |which: usize| -> Vec<u64> {
            reading
                .values
                .iter()
                .filter(|value| value.0 == METRICS[which].name)
                .map(|value| value.2)
                .collect()
        };
        assert_eq!(of(0), [21 * MS, 65 * MS, 99 * MS]);
        assert_eq!((of(1), of(2)), (vec![20, 60, 90], vec![2, 6, 9]));
        assert_eq!(reading.span_ns, Nanos(101 * MS));
    }
}
