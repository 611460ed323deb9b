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
use crate::exact::own_cost::Slice;
use crate::exact::refusal::Refusal;
use crate::missing::Missing;
use crate::sensor::{put, Opened, Roots, SenseError, Sensor, Subject};
use iodyno_sys::lock::locked;

/// Observers that no trial uses at the moment, with the programs that they loaded.
///
/// To load them takes most of the time of a first trial, so an agent does it once. Between trials they are not
/// attached, and cost nothing.
static SPARE: Mutex<Vec<Arc<Mutex<Observer>>>> = Mutex::new(Vec::new());

impl From<Refusal> for SenseError {
    fn from(refusal: Refusal) -> Self {
        SenseError::Unavailable(refusal.to_string())
    }
}

/// CPUs whose accounts were written down further apart are read again. chosen: 0.1 % of the shortest window, 0.2 s.
const APART_MOST: Nanos = Nanos(200_000);
/// Times that they are read at most. A machine that takes a CPU away for long is not waited for.
const READINGS_MOST: usize = 3;

/// A CPU of the trial.
struct Cpu {
    number: u32,
    last: Option<Account>,
    /// It went offline, and its account stopped.
    lost: bool,
}

impl Cpu {
    /// Takes what a reading gave: how the account grew, if that is known, or what to say instead. `begin_anew` begins to
    /// account a CPU that is back, and gives what its account begins with, if it could.
    fn follow(
        &mut self,
        read: Result<Account, Refusal>,
        begin_anew: impl FnOnce() -> Option<Account>,
    ) -> Result<Option<Account>, String> {
        match read {
            Ok(_) if self.lost => {
                self.last = begin_anew();
                self.lost = self.last.is_none();
                Err(format!("CPU {} is online again: growth not known", self.number))
            }
            Ok(account) => Ok(self.last.replace(account.clone()).map(|before| account.since(&before))),
            Err(refusal) => {
                self.lost = true;
                Err(format!("CPU {}: {refusal}", self.number))
            }
        }
    }
}

struct CpuExact {
    observer: Arc<Mutex<Observer>>,
    cpus: Vec<Cpu>,
    /// All CPUs of the machine: others may have some of them accounted too.
    online: Vec<u32>,
    /// What is not accounted for as long as the trial lasts.
    missing: Option<String>,
    warm_up: Nanos,
    /// From the first reading on.
    slice: Option<Slice>,
    /// When the accounts of the last reading were written down.
    instant: Option<Nanos>,
}

pub(super) fn open(roots: &Roots, subject: &Subject) -> Opened {
    let numbers = if subject.cpus.is_empty() { cpu_list::online(&roots.sys) } else { subject.cpus.clone() };
    let observer = locked(&SPARE).pop().unwrap_or_default();
    // From here on whatever was attached is taken away again when it is dropped.
    let mut sensor = CpuExact {
        observer,
        cpus: numbers.iter().map(|&number| Cpu { number, last: None, lost: true }).collect(),
        missing: None,
        online: cpu_list::online(&roots.sys),
        warm_up: subject.warm_up,
        slice: None,
        instant: None,
    };
    sensor.begin(preemptible(roots), &subject.timers, &subject.alike())?;
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
    fn begin(
        &mut self,
        caveat: Option<String>,
        timers: &[(u32, RawFd)],
        alike: &[u32],
    ) -> Result<(), Refusal> {
        let mut missing = Missing::default();
        missing.add_any(caveat);
        let mut observer = locked(&self.observer);
        let attached = observer.share()?;
        for absent in attached.absent {
            missing.add(format!("no tracepoint of {absent}: its time is that of what it interrupts"));
        }
        if let Err(refusal) = observer.count_alike(alike) {
            missing.add(format!("agents of hosts that do the same count as other tasks: {refusal}"));
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
        match attached.counters {
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

/// Reads the accounts of CPUs, at one instant as far as that can be had: a CPU is asked after the other, and in between the
/// agent may have to wait for its turn.
fn read_together(observer: &Observer, numbers: &[u32]) -> Result<Vec<Result<Account, Refusal>>, Refusal> {
    let mut read = observer.read(numbers)?;
    for _ in 1..READINGS_MOST {
        if between(&read).is_none_or(|(first, last)| last.minus(first) <= APART_MOST) {
            break;
        }
        read = observer.read(numbers)?;
    }
    Ok(read)
}

/// When the first and the last of these accounts were written down, if any was.
fn between(read: &[Result<Account, Refusal>]) -> Option<(Nanos, Nanos)> {
    let instants = || read.iter().flatten().map(|account| Nanos(account.until_ns));
    instants().min().zip(instants().max())
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
        let slice = self.slice.get_or_insert_with(|| {
            Slice::begin(&self.observer, numbers.clone(), self.online.clone(), self.warm_up)
        });
        let found = slice.found();
        if let Some(why) = found.withdrawn {
            return Err(SenseError::Unavailable(why));
        }
        let mut missing = Missing::default();
        missing.add_any(self.missing.clone());
        missing.add_any(found.missing.clone());
        let mut observer = locked(&self.observer);
        let accounts = read_together(&observer, &numbers)?;
        self.instant = between(&accounts).map(|(first, last)| first.plus(Nanos(last.minus(first).0 / 2)));
        for (cpu, account) in self.cpus.iter_mut().zip(accounts) {
            let number = cpu.number;
            let mut begin_anew = || {
                observer.begin(number).ok()?;
                observer.read(&[number]).ok()?.pop()?.ok()
            };
            match cpu.follow(account, &mut begin_anew) {
                Ok(Some(grown)) => {
                    report(out, number, &grown, found.event_ns);
                    report_counters(out, number, &grown, &observer);
                }
                Ok(None) => {}
                Err(why) => missing.add(why),
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

    fn instant(&self) -> Option<Nanos> {
        self.instant
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

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(ns: u64) -> Account {
        let mut account = Account { until_ns: ns, ..Account::default() };
        account.ns[account::IDLE] = ns;
        account
    }

    #[test]
    fn a_cpu_that_goes_offline_and_comes_back_is_said_and_its_growth_begins_anew() {
        let mut cpu = Cpu { number: 3, last: None, lost: false };
        let never = || panic!("it is accounted already");
        assert_eq!(cpu.follow(Ok(idle(100)), never), Ok(None), "nothing to grow from");
        assert_eq!(cpu.follow(Ok(idle(150)), never), Ok(Some(idle(50))));
        let gone = cpu.follow(Err(Refusal::Offline), never).unwrap_err();
        assert!(gone.starts_with("CPU 3: not online"), "{gone}");
        // Back: what its account holds is from before, and is made anew.
        let back = cpu.follow(Ok(idle(150)), || Some(idle(170))).unwrap_err();
        assert!(back.contains("CPU 3 is online again"), "{back}");
        assert_eq!(cpu.follow(Ok(idle(200)), never), Ok(Some(idle(30))), "since it came back");
    }

    #[test]
    fn a_cpu_that_cannot_be_accounted_again_is_tried_again() {
        let mut cpu = Cpu { number: 0, last: Some(idle(7)), lost: true };
        assert!(cpu.follow(Ok(idle(9)), || None).is_err());
        assert!(cpu.follow(Ok(idle(9)), || Some(idle(9))).is_err());
        assert_eq!(cpu.follow(Ok(idle(14)), || panic!("it is accounted")), Ok(Some(idle(5))));
    }
}
