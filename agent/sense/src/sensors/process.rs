//! What the agent itself takes from the machine.

use std::path::PathBuf;

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};
use iodyno_sys::clock;

use crate::auxv::KernelUnits;
use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, gauge, put, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::sensors::memory::keyed_number;
use crate::source::Source;

const STAT: &str = "/proc/self/stat";
const STATUS: &str = "/proc/self/task/*/status";

const CPU: Metric =
    counter("process.cpu_ns", "ns", "clock_gettime", "", "CPU time of the agent, all threads; exact.");
const USER: Metric = counter("process.user_ns", "ns", STAT, "", "Its part in user mode, in ticks of 10 ms.");
const SYSTEM: Metric =
    counter("process.system_ns", "ns", STAT, "", "Its part in the kernel, in ticks of 10 ms.");
const MINOR: Metric = counter("process.minor_faults", "1", STAT, "", "Page faults that needed no disk.");
const MAJOR: Metric = counter("process.major_faults", "1", STAT, "", "Page faults that waited for a disk.");
const VOLUNTARY: Metric = counter(
    "process.voluntary_switches",
    "1",
    STATUS,
    "",
    "Times that a thread of the agent gave up its CPU to wait.",
);
const INVOLUNTARY: Metric = counter(
    "process.involuntary_switches",
    "1",
    STATUS,
    "",
    "Times that a thread of the agent was taken off its CPU.",
);
const THREADS: Metric = gauge("process.threads", "1", STAT, "", "Threads of the agent.");
const RESIDENT: Metric = gauge("process.resident_bytes", "bytes", STAT, "", "Memory of the agent in RAM.");

/// Columns of the counters in `stat`, counted from behind the process name: its state is column 0.
const COUNTERS: [(usize, Metric); 4] = [(7, MINOR), (9, MAJOR), (11, USER), (12, SYSTEM)];
const THREADS_COLUMN: usize = 17;
const RESIDENT_COLUMN: usize = 21;

/// Most threads whose switches are read: each has a file of its own, at some 15 microseconds.
const SWITCHES_THREADS_MAX: u64 = 32;
/// Keys in that file, and their metrics.
const SWITCHES: [(&str, Metric); 2] =
    [("voluntary_ctxt_switches:", VOLUNTARY), ("nonvoluntary_ctxt_switches:", INVOLUNTARY)];

pub(crate) const ENTRY: Entry = Entry {
    name: "process",
    metrics: &[CPU, USER, SYSTEM, MINOR, MAJOR, VOLUNTARY, INVOLUNTARY, THREADS, RESIDENT],
    open,
};

struct Process {
    stat: Source,
    tasks: PathBuf,
    units: KernelUnits,
    growths: Growths<&'static str>,
    switches: Growths<(String, &'static str)>,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    Ok(Box::new(Process {
        stat: Source::open(roots.proc.join("self/stat"))?,
        tasks: roots.proc.join("self/task"),
        units: KernelUnits::of(&roots.proc),
        growths: Growths::default(),
        switches: Growths::default(),
    }))
}

impl Sensor for Process {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let text = self.stat.text()?;
        // The process name stands in parentheses and may hold anything, parentheses too.
        let columns: Vec<u64> = text.rsplit_once(')').map_or_else(Vec::new, |(_, rest)| {
            rest.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect()
        });
        drop(text);
        if columns.len() <= RESIDENT_COLUMN {
            return Err(self.stat.nonsense("has fewer columns than a process has"));
        }
        self.growths.begin();
        let now = clock::process_cpu().0;
        if let Some(grown) = self.growths.since_last(CPU.name, now, Width::Bits64, CPU.name, "the agent") {
            put(out, &CPU, "", grown);
        }
        for (column, metric) in &COUNTERS {
            if let Some(grown) = self.growths.since_last(
                metric.name,
                columns[*column],
                Width::Bits64,
                metric.name,
                "the agent",
            ) {
                let unit = if metric.unit == "ns" { self.units.tick_ns } else { 1 };
                put(out, metric, "", grown.saturating_mul(unit));
            }
        }
        put(out, &THREADS, "", columns[THREADS_COLUMN]);
        put(out, &RESIDENT, "", columns[RESIDENT_COLUMN].saturating_mul(self.units.page_bytes));
        missing.add_any(self.growths.unknown());
        self.read_switches(columns[THREADS_COLUMN], out, &mut missing);
        Ok(missing.sentence())
    }
}

impl Process {
    /// Sums the switches of all threads; those of a thread that ended since the last reading are lost.
    fn read_switches(&mut self, threads: u64, out: &mut Vec<Value>, missing: &mut Missing) {
        if threads > SWITCHES_THREADS_MAX {
            missing.add(format!(
                "switches are read of up to {SWITCHES_THREADS_MAX} threads; there are {threads}"
            ));
            return;
        }
        let Ok(tasks) = std::fs::read_dir(&self.tasks) else {
            missing.add(format!("{}: cannot be read", self.tasks.display()));
            return;
        };
        self.switches.begin();
        let mut sums = [0_u64; SWITCHES.len()];
        for task in tasks.flatten() {
            let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { continue };
            let id = task.file_name().to_string_lossy().into_owned();
            for ((key, metric), sum) in SWITCHES.iter().zip(&mut sums) {
                let Some(now) = keyed_number(&status, key) else { continue };
                let key = (id.clone(), metric.name);
                let grown = self.switches.since_last_or_birth(key, now, Width::Bits64);
                *sum = sum.saturating_add(grown.unwrap_or(0));
            }
        }
        if !self.switches.first() {
            SWITCHES.iter().zip(sums).for_each(|((_, metric), sum)| put(out, metric, "", sum));
        }
    }
}
