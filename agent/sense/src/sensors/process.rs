//! What the agent itself takes from the machine.

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};
use iodyno_sys::{clock, process};

use crate::auxv::KernelUnits;
use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, gauge, put, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

const STAT: &str = "/proc/self/stat";
const RUSAGE: &str = "getrusage";

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
    RUSAGE,
    "",
    "Times that a thread of the agent gave up its CPU to wait.",
);
const INVOLUNTARY: Metric = counter(
    "process.involuntary_switches",
    "1",
    RUSAGE,
    "",
    "Times that a thread of the agent was taken off its CPU.",
);
const THREADS: Metric = gauge("process.threads", "1", STAT, "", "Threads of the agent.");
const RESIDENT: Metric = gauge("process.resident_bytes", "bytes", STAT, "", "Memory of the agent in RAM.");

const FROM_STORAGE: Metric = counter(
    "process.storage_read_bytes",
    "bytes",
    "/proc/self/io",
    "",
    "Bytes that storage gave to the agent; only of a load on files or devices.",
);

/// Columns of the counters in `stat`, counted from behind the process name: its state is column 0.
const COUNTERS: [(usize, Metric); 4] = [(7, MINOR), (9, MAJOR), (11, USER), (12, SYSTEM)];
const THREADS_COLUMN: usize = 17;
const RESIDENT_COLUMN: usize = 21;

pub(crate) const ENTRY: Entry = Entry {
    name: "process",
    metrics: &[CPU, USER, SYSTEM, MINOR, MAJOR, VOLUNTARY, INVOLUNTARY, THREADS, RESIDENT, FROM_STORAGE],
    open,
};

struct Process {
    stat: Source,
    units: KernelUnits,
    io: Option<Source>,
    growths: Growths<&'static str>,
}

fn open(roots: &Roots, subject: &Subject) -> Opened {
    // Not all kernels have it.
    let io = if subject.storage { Source::open(roots.proc.join("self/io")).ok() } else { None };
    Ok(Box::new(Process {
        stat: Source::open(roots.proc.join("self/stat"))?,
        units: KernelUnits::of(&roots.proc),
        io,
        growths: Growths::default(),
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
        let given = self.io.as_mut().and_then(|file| {
            let text = file.text().ok()?;
            text.lines().find_map(|line| line.strip_prefix("read_bytes:")?.trim().parse().ok())
        });
        if let Some(now) = given {
            let name = FROM_STORAGE.name;
            if let Some(grown) = self.growths.since_last(name, now, Width::Bits64, name, "the agent") {
                put(out, &FROM_STORAGE, "", grown);
            }
        }
        match process::switches() {
            Ok(now) => {
                for (metric, now) in [(&VOLUNTARY, now.voluntary), (&INVOLUNTARY, now.involuntary)] {
                    let grown =
                        self.growths.since_last(metric.name, now, Width::Bits64, metric.name, "the agent");
                    if let Some(grown) = grown {
                        put(out, metric, "", grown);
                    }
                }
            }
            Err(error) => missing.add(format!("switches: {error}")),
        }
        missing.add_any(self.growths.unknown());
        Ok(missing.sentence())
    }
}
