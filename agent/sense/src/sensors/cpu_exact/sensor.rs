//! The sensor where the agent has the kernel-side programs.

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};

use iodyno_core::metric::Value;
use iodyno_core::units::Nanos;

use super::{
    APP, APP_USER, CONTENDED, CONTENDED_RATE, CONTENTIONS, EVENTS, FULL_POLLS, FULL_POLLS_RATE, HARDIRQ,
    IDLE, OBSERVER, OTHER, PACKETS, PACKETS_RATE, POLLS, POLLS_RATE, SOFTIRQ, SOFTIRQ_COUNT, SPLIT_SAMPLES,
    SYSCALLS, WAKEUPS, WAKEUPS_RATE,
};
use crate::cpu_list;
use crate::exact::account::{self, Account};
use crate::exact::observer::Observer;
use crate::exact::own_cost::{locked, Slice};
use crate::exact::refusal::Refusal;
use crate::missing::Missing;
use crate::sensor::{put, Opened, Roots, SenseError, Sensor, Subject};

/// Programs that no trial uses at the moment.
///
/// To load them takes most of the time of a first trial, so an agent does it once. Between trials they are not
/// attached, and cost nothing.
static SPARE: Mutex<Vec<Arc<Mutex<Observer>>>> = Mutex::new(Vec::new());

impl From<Refusal> for SenseError {
    fn from(refusal: Refusal) -> Self {
        SenseError::Unavailable(refusal.to_string())
    }
}

/// A CPU of the trial.
struct Cpu {
    number: u32,
    last: Option<Account>,
    /// It went offline, and its account stopped.
    lost: bool,
}

struct CpuExact {
    observer: Arc<Mutex<Observer>>,
    cpus: Vec<Cpu>,
    /// What is not accounted for as long as the trial lasts.
    missing: Option<String>,
    warm_up: Nanos,
    /// From the first reading on.
    slice: Option<Slice>,
}

pub(super) fn open(roots: &Roots, subject: &Subject) -> Opened {
    let numbers = if subject.cpus.is_empty() { cpu_list::online(&roots.sys) } else { subject.cpus.clone() };
    let spare = locked(&SPARE).pop();
    let observer = match spare {
        Some(observer) => observer,
        None => Arc::new(Mutex::new(Observer::load()?)),
    };
    // From here on whatever was attached is taken away again when it is dropped.
    let mut sensor = CpuExact {
        observer,
        cpus: numbers.iter().map(|&number| Cpu { number, last: None, lost: true }).collect(),
        missing: None,
        warm_up: subject.warm_up,
        slice: None,
    };
    sensor.begin(preemptible(roots), &subject.timers)?;
    Ok(Box::new(sensor))
}

/// What to say of a kernel whose soft interrupts can be preempted.
fn preemptible(roots: &Roots) -> Option<String> {
    let realtime = std::fs::read_to_string(roots.sys.join("kernel/realtime")).ok()?;
    (realtime.trim() == "1")
        .then(|| "PREEMPT_RT kernel: a soft interrupt counts as a task from when it is preempted".to_owned())
}

impl CpuExact {
    /// Attaches the programs and begins to account the CPUs.
    fn begin(&mut self, caveat: Option<String>, timers: &[(u32, RawFd)]) -> Result<(), Refusal> {
        let mut missing = Missing::default();
        missing.add_any(caveat);
        let mut observer = locked(&self.observer);
        for absent in observer.attach()? {
            missing.add(format!("no tracepoint of {absent}: its time is that of what it interrupts"));
        }
        for cpu in &mut self.cpus {
            match observer.begin(cpu.number) {
                Ok(()) => cpu.lost = false,
                Err(Refusal::Offline) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        if self.cpus.iter().all(|cpu| cpu.lost) {
            return Err(Refusal::Other("no CPU of the trial is online".to_owned()));
        }
        let sampled = self.cpus.iter().filter(|cpu| !cpu.lost);
        let timer = |cpu| timers.iter().find(|(of, _)| *of == cpu).map(|(_, timer)| *timer);
        let sampled: Result<Vec<()>, _> =
            sampled.map(|cpu| observer.attach_samples(cpu.number, timer(cpu.number))).collect();
        if let Err(refusal) = sampled {
            missing.add(format!("user and kernel time of the agent not told apart: {refusal}"));
        }
        match observer.attach_counters() {
            Ok(absent) if absent.is_empty() => {}
            Ok(absent) => missing.add(format!("no tracepoint {}", absent.join(", "))),
            Err(refusal) => {
                missing.add(format!("polls, wake-ups and waits for locks not counted: {refusal}"))
            }
        }
        self.missing = missing.sentence();
        Ok(())
    }
}

impl Drop for CpuExact {
    fn drop(&mut self) {
        // First of all the slice: it uses the programs too.
        self.slice.take();
        let mut observer = locked(&self.observer);
        for cpu in &self.cpus {
            observer.end(cpu.number);
        }
        observer.detach();
        locked(&SPARE).push(self.observer.clone());
    }
}

impl Sensor for CpuExact {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let numbers: Vec<u32> = self.cpus.iter().map(|cpu| cpu.number).collect();
        let slice =
            self.slice.get_or_insert_with(|| Slice::begin(&self.observer, numbers.clone(), self.warm_up));
        let found = slice.found();
        if let Some(why) = found.withdrawn {
            return Err(SenseError::Unavailable(why));
        }
        let mut missing = Missing::default();
        missing.add_any(self.missing.clone());
        missing.add_any(found.missing.clone());
        let mut observer = locked(&self.observer);
        for (cpu, account) in self.cpus.iter_mut().zip(observer.read(&numbers)?) {
            let number = cpu.number;
            match account {
                Ok(_) if cpu.lost => {
                    missing.add(format!("CPU {number} is online again: growth not known"));
                    cpu.lost = observer.begin(number).is_err();
                    cpu.last = Some(Account::default());
                }
                Ok(account) => {
                    if let Some(before) = cpu.last.replace(account.clone()) {
                        let grown = account.since(&before);
                        report(out, number, &grown, found.event_ns);
                        report_counters(out, number, &grown, &observer);
                    }
                }
                Err(refusal) => {
                    cpu.lost = true;
                    missing.add(format!("CPU {number}: {refusal}"));
                }
            }
        }
        for (&number, counted) in numbers.iter().zip(&found.counted) {
            report_rates(out, number, counted);
        }
        if let Some(rate) = found.syscalls_per_s {
            put(out, &SYSCALLS, "", rate);
        }
        Ok(missing.sentence())
    }
}

/// Puts down what a CPU was accounted for.
fn report(out: &mut Vec<Value>, number: u32, grown: &Account, event_ns: Option<f64>) {
    let label = format!("cpu={number}");
    let mut one = |metric, value| put(out, metric, &label, value);
    let app_ns = grown.ns[account::APP];
    one(&APP, app_ns);
    if grown.samples > 0 {
        let user_ns = u128::from(app_ns) * u128::from(grown.user_samples) / u128::from(grown.samples);
        one(&APP_USER, user_ns as u64);
        one(&SPLIT_SAMPLES, grown.samples);
    }
    one(&OTHER, grown.ns[account::OTHER]);
    one(&IDLE, grown.ns[account::IDLE]);
    one(&HARDIRQ, grown.ns[account::HARDIRQ]);
    one(&EVENTS, grown.events);
    if let Some(event_ns) = event_ns {
        one(&OBSERVER, (grown.events as f64 * event_ns) as u64 + grown.sample_ns);
    }
    for (vector, times, ns) in grown.vectors() {
        let label = format!("{label},vector={vector}");
        put(out, &SOFTIRQ, &label, ns);
        put(out, &SOFTIRQ_COUNT, &label, times);
    }
}

/// Puts down what was counted besides, as far as it is counted.
fn report_counters(out: &mut Vec<Value>, number: u32, grown: &Account, observer: &Observer) {
    let counters = [
        ("napi_poll", &POLLS, grown.polls),
        ("napi_poll", &PACKETS, grown.packets),
        ("napi_poll", &FULL_POLLS, grown.full_polls),
        ("sched_wakeup", &WAKEUPS, grown.wakeups),
        ("contention_end", &CONTENTIONS, grown.contentions),
        ("contention_end", &CONTENDED, grown.contended_ns),
    ];
    for (tracepoint, metric, value) in counters {
        if observer.counts(tracepoint) {
            put(out, metric, format!("cpu={number}"), value);
        }
    }
}

/// Puts down what was counted in the warm-up only, per second.
fn report_rates(out: &mut Vec<Value>, number: u32, counted: &Account) {
    let rates = [
        (&POLLS_RATE, counted.polls),
        (&PACKETS_RATE, counted.packets),
        (&FULL_POLLS_RATE, counted.full_polls),
        (&WAKEUPS_RATE, counted.wakeups),
        (&CONTENDED_RATE, counted.contended_ns),
    ];
    for (metric, grown) in rates {
        let per_s = u128::from(grown) * 1_000_000_000 / u128::from(counted.until_ns.max(1));
        put(out, metric, format!("cpu={number}"), per_s as u64);
    }
}
