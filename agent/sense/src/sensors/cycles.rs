//! Cycles that each CPU of the trial ran, by its hardware counter.

use iodyno_core::metric::{Metric, Value};
use iodyno_sys::perf_event::{self, reason, Count, Counter, Event, Scope};

use crate::cpu_list;
use crate::missing::Missing;
use crate::sensor::{counter, put, Entry, Opened, Roots, SenseError, Sensor, Subject};

const COUNT: Metric = counter(
    "cycles.count",
    "1",
    "perf_event_open",
    "cpu=0",
    "Cycles not halted, user and kernel, whoever ran; scaled up where the hardware counter was time-shared, which is then said.",
);

pub(crate) const ENTRY: Entry = Entry { name: "cycles", metrics: &[COUNT], open };

/// A CPU with its counter and the last count.
struct Cpu {
    number: u32,
    counter: Counter,
    last: Option<Count>,
}

/// Counters of one event on several CPUs.
pub(crate) struct CpuCounters {
    cpus: Vec<Cpu>,
    /// CPUs that cannot be counted, and why.
    refused: Option<String>,
}

struct Cycles(CpuCounters);

fn open(roots: &Roots, subject: &Subject) -> Opened {
    let numbers = if subject.cpus.is_empty() { cpu_list::online(&roots.sys) } else { subject.cpus.clone() };
    Ok(Box::new(Cycles(CpuCounters::new(Event::Cycles, &numbers)?)))
}

impl CpuCounters {
    /// Opens a counter on each CPU that has one. Errors: no CPU has.
    pub(crate) fn new(event: Event, numbers: &[u32]) -> Result<Self, SenseError> {
        let mut cpus = Vec::with_capacity(numbers.len());
        let mut missing = Missing::default();
        let mut first = None;
        for &number in numbers {
            match perf_event::open(event, Scope::Cpu(number)) {
                Ok(counter) => cpus.push(Cpu { number, counter, last: None }),
                Err(error) => {
                    let why = reason(&error);
                    missing.add(format!("CPU {number}: {why}"));
                    first.get_or_insert(why);
                }
            }
        }
        match cpus.is_empty() {
            true => Err(SenseError::Unavailable(
                first.unwrap_or_else(|| "no CPU is known to be online".to_owned()),
            )),
            false => Ok(CpuCounters { cpus, refused: missing.sentence() }),
        }
    }

    /// Puts down by how much the counter of each CPU has grown.
    pub(crate) fn read(&mut self, metric: &Metric, out: &mut Vec<Value>, missing: &mut Missing) {
        missing.add_any(self.refused.clone());
        for cpu in &mut self.cpus {
            let number = cpu.number;
            let count = match cpu.counter.read() {
                Ok(count) => count,
                Err(error) => {
                    cpu.last = None;
                    missing.add(format!("CPU {number}: {}", reason(&error)));
                    continue;
                }
            };
            let Some(grown) = cpu.last.replace(count).map(|before| count.since(before)) else { continue };
            match grown.scaled() {
                Some(events) => put(out, metric, format!("cpu={number}"), events),
                None => missing.add(format!("CPU {number}: others had the hardware counter all the time")),
            }
            if grown.shared() && grown.running.0 != 0 {
                let percent = u128::from(grown.running.0) * 100 / u128::from(grown.enabled.0.max(1));
                missing.add(format!("CPU {number}: counted {percent} % of the time and scaled up"));
            }
        }
    }
}

impl Sensor for Cycles {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        self.0.read(&COUNT, out, &mut missing);
        Ok(missing.sentence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_counter_works_without_a_hardware_counter() {
        let mut sensor = match CpuCounters::new(Event::CpuClock, &[0, 999_999]) {
            Ok(counters) => Cycles(counters),
            Err(error) => return assert!(error.to_string().contains("not allowed"), "{error}"),
        };
        sensor.read(&mut Vec::new()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let mut out = Vec::new();
        let missing = sensor.read(&mut out).unwrap().unwrap();
        assert_eq!((out.len(), out[0].1.as_str()), (1, "cpu=0"));
        assert!(out[0].2 >= 15_000_000, "nanoseconds of CPU 0: {}", out[0].2);
        assert!(missing.starts_with("CPU 999999: "), "{missing}");
    }

    #[test]
    fn without_a_cpu_there_is_nothing_to_count() {
        assert!(CpuCounters::new(Event::CpuClock, &[]).is_err());
    }
}
