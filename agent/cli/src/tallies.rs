//! Readings of the load's own counters, beside those of the sensors: one entry each.

use iodyno_core::job::{Job, Load};
use iodyno_core::metric::{Kind, Metric, Reading, Value};
use iodyno_core::network::{Direction, Engine, Network, Role, Syscalls};
use iodyno_core::units::Nanos;
use iodyno_load::Totals;

/// A group of counters, read like a sensor.
struct Entry {
    /// Its name in a job's list of sensors.
    name: &'static str,
    metrics: &'static [Metric],
    /// In the order of `metrics`.
    counters: &'static [fn(&Totals) -> u64],
    /// Whether a load on connections has anything to count here; none: every load has.
    applies: Option<fn(&Network) -> bool>,
}

const ENTRIES: &[Entry] = &[
    Entry {
        name: "application",
        metrics: &[
            counter("application.compute_ns", "ns", "CPU time of the sender's own code before its writes."),
            counter("application.think_ns", "ns", "Time that connections paused, summed over them; a pause counts at its end."),
            counter("application.lock_wait_ns", "ns", "Time that workers waited for the lock of a serialised job."),
        ],
        counters: &[
            |totals| totals.compute_ns.0,
            |totals| totals.think_ns.0,
            |totals| totals.lock_wait_ns.0,
        ],
        applies: None,
    },
    Entry {
        name: "datagram",
        metrics: &[
            counter("datagram.sent", "1", "Datagrams that the kernel accepted from this end: requests, also those sent again, answers or those of a stream."),
            counter("datagram.received", "1", "Datagrams of the trial that this end got and that counted: requests, awaited answers, or those of a stream, each once."),
            counter("datagram.lost", "1", "Requests without an answer in time, or numbers of a stream that its receiver did not see."),
            counter("datagram.late", "1", "Answers, or datagrams of a stream, that came after they were counted as lost."),
            counter("datagram.reordered", "1", "Datagrams of a stream that came after one with a higher number."),
            counter("datagram.duplicates", "1", "Datagrams that came once more."),
            counter("datagram.foreign", "1", "Datagrams that did not show the trial's token, or were not asked for: ignored."),
            counter("datagram.retries", "1", "Requests that were sent again."),
        ],
        counters: &[
            |totals| totals.datagrams.sent,
            |totals| totals.datagrams.received,
            |totals| totals.datagrams.lost,
            |totals| totals.datagrams.late,
            |totals| totals.datagrams.reordered,
            |totals| totals.datagrams.duplicates,
            |totals| totals.datagrams.foreign,
            |totals| totals.datagrams.retries,
        ],
        applies: Some(|load| load.transport.is_datagram()),
    },
    Entry {
        name: "server",
        metrics: &[
            counter("server.polls", "1", "Times that the server had nothing to take and fell back to waiting."),
            counter("server.wakeups", "1", "Times that something came while it waited, and woke it."),
            counter("server.empty", "1", "Looks that found nothing."),
            counter("server.requests", "1", "Requests, or datagrams of a stream, that the server took."),
        ],
        counters: &[
            |totals| totals.datagrams.polls,
            |totals| totals.datagrams.wakeups,
            |totals| totals.datagrams.empty,
            |totals| totals.datagrams.requests,
        ],
        applies: Some(|load| load.transport.is_datagram() && load.role == Role::Receive),
    },
    Entry {
        name: "connects",
        metrics: &[
            counter("connect.opened", "1", "Connections opened while the load was on."),
            counter(
                "connect.refused",
                "1",
                "Connections that the other end refused; at the receiver: that did not show the token.",
            ),
            counter("connect.failed", "1", "Connections that broke before their answer was there."),
            counter("connect.without_port", "1", "Attempts that found no local port left, and were made again."),
        ],
        counters: &[
            |totals| totals.rare.opened,
            |totals| totals.rare.refused,
            |totals| totals.rare.failed,
            |totals| totals.rare.without_port,
        ],
        applies: Some(Network::connects_anew),
    },
    Entry {
        name: "zerocopy",
        metrics: &[
            counter("zerocopy.completed", "1", "Sends without a copy that the kernel is done with."),
            counter("zerocopy.copied", "1", "Of these, how many the kernel copied after all."),
        ],
        counters: &[|totals| totals.rare.completed, |totals| totals.rare.copied],
        applies: Some(|load| load.syscalls == Syscalls::ZeroCopy && (load.writes_stream() || load.engine == Engine::IoUring)),
    },
    Entry {
        name: "both_ways",
        metrics: &[counter(
            "stream.sent_bytes",
            "B",
            "Payload that this end's kernel accepted on connections that carry both ways; the load's bytes are those read.",
        )],
        counters: &[|totals| totals.sent_bytes],
        applies: Some(|load| load.direction() == Direction::Both),
    },
];

const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Metric {
    Metric { name, unit, kind: Kind::Counter, source: "the load's own counters", label: "", help }
}

/// Name and metrics of every entry.
pub fn catalogue() -> impl Iterator<Item = (&'static str, &'static [Metric])> {
    ENTRIES.iter().map(|entry| (entry.name, entry.metrics))
}

/// Whether a name in a job's list of sensors is one of these.
pub fn has(name: &str) -> bool {
    ENTRIES.iter().any(|entry| entry.name == name)
}

/// What the job counts here: growth between two counts, which were taken `span_ns` apart.
pub fn readings(job: &Job, before: &Totals, now: &Totals, read_ns: Nanos, span_ns: Nanos) -> Vec<Reading> {
    let named =
        |entry: &Entry| job.sensors.as_ref().is_none_or(|names| names.iter().any(|name| name == entry.name));
    let applies = |entry: &Entry| match (&job.load, entry.applies) {
        (Load::Idle(_), _) => false,
        (_, None) => true,
        (Load::Network(network), Some(applies)) => applies(network),
        _ => false,
    };
    ENTRIES
        .iter()
        .filter(|entry| applies(entry) && named(entry))
        .map(|entry| Reading {
            sensor: entry.name.to_owned(),
            read_ns,
            span_ns,
            // It was counted with the load.
            cost_ns: Nanos(0),
            values: entry
                .metrics
                .iter()
                .zip(entry.counters)
                .map(|(metric, of)| Value(metric.name.to_owned(), String::new(), of(now) - of(before)))
                .collect(),
            times: Vec::new(),
            missing: None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use iodyno_core::network::{Stream, Traffic};

    use super::*;

    #[test]
    fn every_metric_has_its_counter() {
        assert!(ENTRIES.iter().all(|entry| entry.metrics.len() == entry.counters.len()));
    }

    #[test]
    fn a_job_counts_what_applies_to_it() {
        let job = |network| Job { load: Load::Network(Box::new(network)), ..Job::default() };
        let none = Totals::default();
        let names = |job| {
            readings(job, &none, &none, Nanos(1), Nanos(1)).into_iter().map(|r| r.sensor).collect::<Vec<_>>()
        };
        let (stream, idle) = (job(Network::default()), Job::default());
        assert_eq!(names(&stream), ["application"]);
        assert!(names(&idle).is_empty());
        let both = Traffic::Stream(Stream { direction: Direction::Both, ..Stream::default() });
        let both = job(Network { traffic: both, ..Network::default() });
        let found =
            readings(&both, &none, &Totals { sent_bytes: 7, ..Totals::default() }, Nanos(1), Nanos(1));
        assert_eq!(found[1].values, [Value("stream.sent_bytes".to_owned(), String::new(), 7)]);
    }
}
