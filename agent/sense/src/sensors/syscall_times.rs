//! How long system calls take that move data or make it durable, by what they do, counted in the kernel.
//!
//! Only where it is named: its programs run at the begin and the end of every call of the machine.

use iodyno_core::metric::Metric;

use crate::sensor::{counter, Entry};

const SOURCE: &str = "BPF programs at the begin and the end of system calls";

pub(super) const CALLS: Metric = of_operation(
    "syscall.calls",
    "1",
    "Calls of all processes but the agent that ended, with their times in the histograms: `read`, `write`, `sync`, `receive`, `send` with all of their family; `copy` is sendfile, splice, vmsplice, tee, copy_file_range. Not those of programs of 32 bits.",
);
pub(super) const BYTES: Metric = of_operation(
    "syscall.call_bytes",
    "bytes",
    "Bytes that these calls returned; recvmmsg and sendmmsg tell none.",
);
pub(super) const ERRORS: Metric =
    of_operation("syscall.errors", "1", "Those that failed, also where nothing was there or a signal came.");
pub(super) const LEFT_OUT: Metric = counter(
    "syscall.left_out",
    "1",
    SOURCE,
    "",
    "Calls that are not counted: the kernel had no memory to remember their begin.",
);

const METRICS: [Metric; 4] = [CALLS, BYTES, ERRORS, LEFT_OUT];

pub(crate) const ENTRY: Entry = Entry { name: "syscall_times", metrics: &METRICS, open: sensor::open };

const fn of_operation(name: &'static str, unit: &'static str, help: &'static str) -> Metric {
    counter(name, unit, SOURCE, "operation=read", help)
}

#[cfg(has_bpf)]
mod sensor;

#[cfg(not(has_bpf))]
use super::no_programs as sensor;
