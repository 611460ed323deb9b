//! The sensor where the agent has the kernel-side programs.

use std::sync::Mutex;

use iodyno_core::metric::{Metric, Value};

use super::{APP, ENTRY, EVENTS, HARDIRQ, IDLE, OTHER, SOFTIRQ, SOFTIRQ_COUNT};
use crate::cpu_list;
use crate::exact::account::{self, Account};
use crate::exact::observer::Observer;
use crate::exact::refusal::Refusal;
use crate::missing::Missing;
use crate::sensor::{put, Opened, Roots, SenseError, Sensor, Subject};

/// Programs that no trial uses at the moment.
///
/// To load them takes most of the time of a first trial, so an agent does it once. Between trials they are not
/// attached, and cost nothing.
static SPARE: Mutex<Option<Observer>> = Mutex::new(None);

impl From<Refusal> for SenseError {
    fn from(refusal: Refusal) -> Self {
        SenseError::Unavailable(refusal.to_string())
    }
}

/// A CPU of the trial with its last account.
struct Cpu {
    number: u32,
    last: Option<Account>,
}

struct CpuExact {
    /// Attached programs; absent only while they are handed back.
    observer: Option<Observer>,
    cpus: Vec<Cpu>,
    /// What is not accounted for as long as the trial lasts.
    missing: Option<String>,
}

pub(super) fn open(roots: &Roots, subject: &Subject) -> Opened {
    let numbers = if subject.cpus.is_empty() { cpu_list::online(&roots.sys) } else { subject.cpus.clone() };
    let spare = SPARE.lock().ok().and_then(|mut spare| spare.take());
    let mut observer = match spare {
        Some(observer) => observer,
        None => Observer::load()?,
    };
    let mut missing = Missing::default();
    let attached = observer.attach();
    let mut sensor = CpuExact { observer: Some(observer), cpus: Vec::new(), missing: None };
    attached?;
    let Some(observer) = &mut sensor.observer else { unreachable!() };
    for absent in observer.absent() {
        missing.add(format!("no tracepoint {absent}: its time counts as the time of what it interrupts"));
    }
    for number in numbers {
        match observer.begin(number) {
            Ok(()) => sensor.cpus.push(Cpu { number, last: None }),
            Err(refusal) => missing.add(format!("CPU {number}: {refusal}")),
        }
    }
    sensor.missing = missing.sentence();
    Ok(Box::new(sensor))
}

impl Drop for CpuExact {
    fn drop(&mut self) {
        let Some(mut observer) = self.observer.take() else { return };
        observer.detach();
        if let Ok(mut spare) = SPARE.lock() {
            *spare = Some(observer);
        }
    }
}

impl Sensor for CpuExact {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn metrics(&self) -> &'static [Metric] {
        ENTRY.metrics
    }

    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        missing.add_any(self.missing.clone());
        let Some(observer) = &mut self.observer else { unreachable!() };
        let numbers: Vec<u32> = self.cpus.iter().map(|cpu| cpu.number).collect();
        for (cpu, account) in self.cpus.iter_mut().zip(observer.read(&numbers)?) {
            match account {
                Ok(account) => {
                    if let Some(before) = cpu.last.replace(account.clone()) {
                        report(out, cpu.number, &account.since(&before));
                    }
                }
                Err(refusal) => {
                    cpu.last = None;
                    missing.add(format!("CPU {}: {refusal}", cpu.number));
                }
            }
        }
        Ok(missing.sentence())
    }
}

/// Puts down what a CPU was accounted for.
fn report(out: &mut Vec<Value>, number: u32, grown: &Account) {
    let label = format!("cpu={number}");
    put(out, &APP, &label, grown.ns[account::APP]);
    put(out, &OTHER, &label, grown.ns[account::OTHER]);
    put(out, &IDLE, &label, grown.ns[account::IDLE]);
    put(out, &HARDIRQ, &label, grown.ns[account::HARDIRQ]);
    for (vector, times, ns) in grown.vectors() {
        let label = format!("{label},vector={vector}");
        put(out, &SOFTIRQ, &label, ns);
        put(out, &SOFTIRQ_COUNT, &label, times);
    }
    put(out, &EVENTS, &label, grown.events);
}
