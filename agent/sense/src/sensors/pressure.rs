//! Pressure: time in which tasks of the machine waited for a CPU, for memory or for storage
//! (Documentation/accounting/psi.rst).

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};

use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

/// File, what it says of some tasks, what it says of all of them.
const RESOURCES: [(&str, Metric, Metric); 3] = [
    (
        "cpu",
        waited("pressure.cpu_some_ns", "/proc/pressure/cpu", "Time in which some task waited for a CPU."),
        waited("pressure.cpu_full_ns", "/proc/pressure/cpu", "Time in which every task waited for a CPU."),
    ),
    (
        "memory",
        waited(
            "pressure.memory_some_ns",
            "/proc/pressure/memory",
            "Time in which some task waited for memory.",
        ),
        waited(
            "pressure.memory_full_ns",
            "/proc/pressure/memory",
            "Time in which every task waited for memory.",
        ),
    ),
    (
        "io",
        waited("pressure.io_some_ns", "/proc/pressure/io", "Time in which some task waited for storage."),
        waited("pressure.io_full_ns", "/proc/pressure/io", "Time in which every task waited for storage."),
    ),
];

const METRICS: [Metric; 6] =
    [RESOURCES[0].1, RESOURCES[0].2, RESOURCES[1].1, RESOURCES[1].2, RESOURCES[2].1, RESOURCES[2].2];

pub(crate) const ENTRY: Entry = Entry { name: "pressure", metrics: &METRICS, open };

const fn waited(name: &'static str, source: &'static str, help: &'static str) -> Metric {
    counter(name, "ns", source, "", help)
}

struct Pressure {
    files: [Option<Source>; 3],
    growths: Growths<(&'static str, String)>,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    let file = |resource: &str| Source::open(roots.proc.join("pressure").join(resource));
    let cpu = file("cpu")?;
    let files = [Some(cpu), file("memory").ok(), file("io").ok()];
    Ok(Box::new(Pressure { files, growths: Growths::default() }))
}

impl Sensor for Pressure {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let mut totals = Vec::new();
        for (file, (resource, some, full)) in self.files.iter_mut().zip(&RESOURCES) {
            match file.as_mut().map(Source::text) {
                Some(Ok(text)) => {
                    // Kernels before 5.13 do not say when every task waited for a CPU.
                    totals.extend(total_us(&text, "full ").map(|us| (full, us)));
                    match total_us(&text, "some ") {
                        Some(us) => totals.push((some, us)),
                        None => missing.add(format!("the pressure of {resource} has no total")),
                    }
                }
                Some(Err(error)) => missing.add(error.to_string()),
                None => missing.add(format!("the kernel has no pressure of {resource}")),
            }
        }
        if let (true, Some(file)) = (totals.is_empty(), &self.files[0]) {
            return Err(file.nonsense("has no line with total="));
        }
        self.growths.begin();
        for (metric, us) in totals {
            self.growths.put_times(out, metric, "", us, Width::Bits64, 1_000);
        }
        missing.add_any(self.growths.unknown());
        Ok(missing.sentence())
    }
}

/// Microseconds behind `total=` in the line that begins so.
fn total_us(text: &str, begin: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(begin))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("total=")?.parse().ok())
}
