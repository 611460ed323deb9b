//! How long operations of every block device took, by operation and size, counted in the kernel.

use iodyno_core::metric::Metric;

use crate::sensor::{counter, gauge, Entry};

const SOURCE: &str = "BPF programs at tracepoints of the block layer";
const SERIES: &str = "dev=sda,operation=read,size=4KiB";
const PROCESS: &str = "process=fio,id=77";

pub(super) const OPERATIONS: Metric =
    series("block.operations", "1", "Operations that ended, with their times in the histograms; `size` is the largest of a class: up to 4KiB, then by powers of two.");
pub(super) const BYTES: Metric = series("block.operation_bytes", "bytes", "Bytes of these operations.");
pub(super) const ERRORS: Metric = series("block.errors", "1", "Operations of these that failed.");
pub(super) const SLOW: Metric = series(
    "block.slow_operations",
    "1",
    "Operations of these that took more than 20 ms from when they were made to their end.",
);
pub(super) const SLOWEST: Metric = gauge(
    "block.slowest_ns",
    "ns",
    SOURCE,
    "dev=sda,operation=read,sector=2048,bytes=4096,queue_ns=100,ended_ns=5000000",
    "Time of one of them, up to 32 of an interval: the slowest.",
);
pub(super) const LEFT_OUT: Metric = counter(
    "block.left_out",
    "1",
    SOURCE,
    "",
    "Operations that ended and are not counted: more in flight than there is room for, or not seen.",
);
pub(super) const PROCESS_OPERATIONS: Metric = counter(
    "block.process_operations",
    "1",
    SOURCE,
    PROCESS,
    "Operations that a process had begun; of what is written back, a thread of the kernel.",
);
pub(super) const PROCESS_BYTES: Metric =
    counter("block.process_bytes", "bytes", SOURCE, PROCESS, "Bytes of these operations.");
pub(super) const COMPLETION: Metric = gauge(
    "block.completion_cost_ns",
    "ns",
    SOURCE,
    "",
    "CPU time that the programs take for an operation, from its begin to its end, measured in the warm-up.",
);
pub(super) const OBSERVER: Metric = counter(
    "block.observer_ns",
    "ns",
    SOURCE,
    "",
    "What this sensor's programs took: operations times the time of one, measured in the warm-up.",
);

const METRICS: [Metric; 10] = [
    OPERATIONS,
    BYTES,
    ERRORS,
    SLOW,
    SLOWEST,
    LEFT_OUT,
    PROCESS_OPERATIONS,
    PROCESS_BYTES,
    COMPLETION,
    OBSERVER,
];

pub(crate) const ENTRY: Entry = Entry { name: "block_times", metrics: &METRICS, open: sensor::open };

const fn series(name: &'static str, unit: &'static str, help: &'static str) -> Metric {
    counter(name, unit, SOURCE, SERIES, help)
}

#[cfg(has_bpf)]
mod sensor;

#[cfg(not(has_bpf))]
use super::no_programs as sensor;
