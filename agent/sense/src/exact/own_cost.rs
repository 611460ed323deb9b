//! What the observer itself costs, measured on a short slice of the warm-up window of each trial.
//!
//! In the slice the kernel takes the time of every run of a BPF program (`BPF_ENABLE_STATS`), which gives
//! nanoseconds per event under this very load. The time that this takes by itself stands for the way to the
//! program, which the kernel does not count: side by side, a pair of soft interrupt events took 216 ns by the
//! CPU time of the sender and 209 ns by the kernel's count. Where the observer takes too much, it gives way.

use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use iodyno_core::units::Nanos;
use iodyno_sys::lock::locked;
use iodyno_sys::{clock, realtime};

use super::account::Account;
use super::observer::{Observer, Spent};
use super::refusal::Refusal;
use crate::missing::Missing;

/// From the first reading to the slice. Chosen: the load begins 10 ms after the first reading, and is going
/// after 20 ms more.
const LEAD: Duration = Duration::from_millis(30);
/// Most that the kernel times programs. Chosen: 2000 events at a modest 20 000 a second.
const TIMED_MAX: Duration = Duration::from_millis(100);
/// Most that system calls are counted. Chosen: 200 calls at 10 000 a second, a standard error of 7 %.
const SYSCALLS_MAX: Duration = Duration::from_millis(20);
/// A warm-up window that leaves less than this has no slice. Chosen: some ten scheduling ticks.
const LEAST: Duration = Duration::from_millis(40);
/// Share of a CPU above which the counters are left out, and the rest says so. The project's bound for an
/// observer whose effect need not be looked for in the results.
const SHARE_MAX: f64 = 0.02;
/// Share of a CPU above which the accounting gives up. Chosen: up to here a known disturbance misleads less than
/// the next tier, which misses up to 16 points of a CPU under loads that are locked to the timer.
const ACCOUNTING_MAX: f64 = 0.08;
/// Time of an event on a CPU that no trial has accounted, as a part of that on one that does. Chosen:
/// 55 and 105 ns were measured.
const FOREIGN: f64 = 0.5;

/// What the slice found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Found {
    /// CPU time of one event.
    pub event_ns: Option<f64>,
    /// System calls of the agent per second.
    pub syscalls_per_s: Option<u64>,
    /// Growth of each CPU's account in the slice, in the order of the CPUs; for the counters that were left out after
    /// it. Empty: they were not.
    pub counted: Vec<Account>,
    /// What is missing and why: not measured, or left out for its cost.
    pub missing: Option<String>,
    /// Why the observer has ended altogether.
    pub withdrawn: Option<String>,
}

/// A slice under way; dropped, it ends at once.
pub(crate) struct Slice {
    found: Arc<Mutex<Found>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Slice {
    /// Begins, at the first reading of a trial.
    ///
    /// `cpus` are those of the trial, `online` those of the machine.
    pub fn begin(observer: &Arc<Mutex<Observer>>, cpus: Vec<u32>, online: Vec<u32>, warm_up: Nanos) -> Slice {
        let found = Arc::new(Mutex::new(Found::default()));
        let room = Duration::from_nanos(warm_up.0).saturating_sub(LEAD);
        if room < LEAST {
            let least = (LEAD + LEAST).as_millis();
            let missing = format!("cost of the observer not measured: no warm-up window of {least} ms");
            locked(&found).missing = Some(missing);
            return Slice { found, stop: None, thread: None };
        }
        let (stop, stopped) = channel();
        let (observer, told) = (observer.clone(), found.clone());
        let thread = std::thread::spawn(move || {
            // A reading may wait for this thread: it must not wait for the load.
            let _ = realtime::raise();
            let measured = measure(&observer, &cpus, &online, room, &stopped, &told);
            if let Err(refusal) = measured {
                locked(&told).missing = Some(format!("cost of the observer not measured: {refusal}"));
            }
        });
        Slice { found, stop: Some(stop), thread: Some(thread) }
    }

    /// What was found so far.
    pub fn found(&self) -> Found {
        locked(&self.found).clone()
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sleeps; `false` when the slice is to end.
fn sleep(stopped: &Receiver<()>, time: Duration) -> bool {
    stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
}

fn measure(
    observer: &Mutex<Observer>,
    cpus: &[u32],
    online: &[u32],
    room: Duration,
    stopped: &Receiver<()>,
    told: &Mutex<Found>,
) -> Result<(), Refusal> {
    let begin = clock::monotonic();
    if !sleep(stopped, LEAD) {
        return Ok(());
    }
    // The kernel stops to take times when the descriptor is closed, also by the end of this process.
    let timed = aya::sys::enable_stats(aya::sys::Stats::RunTime).map_err(Refusal::of_call)?;
    let before = look(observer, online)?;
    if !sleep(stopped, TIMED_MAX.min(room * 3 / 4)) {
        return Ok(());
    }
    let after = look(observer, online)?;
    drop(timed);

    let everywhere = after.since(&before);
    let events = everywhere.iter().map(|account| account.events).sum();
    let growth: Vec<Account> = cpus
        .iter()
        .map(|cpu| online.iter().position(|other| other == cpu))
        .map(|place| place.and_then(|place| everywhere.get(place)).cloned().unwrap_or_default())
        .collect();
    let cost = Cost::new(after.spent.since(before.spent), events, &growth);
    locked(told).event_ns = cost.event_ns;
    if let Some((place, share)) = cost.busiest.filter(|(_, share)| share.whole > SHARE_MAX) {
        let cpu = cpus.get(place).copied().unwrap_or_default();
        if share.accounting > ACCOUNTING_MAX {
            locked(observer).detach();
            let why =
                told_share("withdrawn: the accounting would take", share.accounting, cpu, ACCOUNTING_MAX);
            locked(told).withdrawn = Some(why);
            return Ok(());
        }
        locked(observer).detach_counters();
        locked(told).event_ns = cost.accounting_event_ns;
        locked(told).counted = growth;
        let mut missing = Missing::default();
        let left_out = "polls, wake-ups and waits for locks counted in the warm-up only: with them the accounting would take";
        missing.add(told_share(left_out, share.whole, cpu, SHARE_MAX));
        if share.accounting > SHARE_MAX {
            missing.add(told_share("the accounting takes", share.accounting, cpu, SHARE_MAX));
        }
        locked(told).missing = missing.sentence();
    }
    // A thread that woke late leaves the measured window alone.
    let left =
        room.saturating_sub(Duration::from_nanos(clock::monotonic().minus(begin).0).saturating_sub(LEAD));
    match left < SYSCALLS_MAX / 2 {
        true => Ok(()),
        false => count_syscalls(observer, cpus, SYSCALLS_MAX.min(left / 2), stopped, told),
    }
}

/// A sentence about a share that is too large.
fn told_share(what: &str, share: f64, cpu: u32, most: f64) -> String {
    format!("{what} {:.1} % of CPU {cpu}, more than {} %", share * 100.0, most * 100.0)
}

/// Counts system calls for some time.
fn count_syscalls(
    observer: &Mutex<Observer>,
    cpus: &[u32],
    time: Duration,
    stopped: &Receiver<()>,
    told: &Mutex<Found>,
) -> Result<(), Refusal> {
    locked(observer).attach_syscalls()?;
    let before = look(observer, cpus)?;
    let go_on = sleep(stopped, time);
    let after = look(observer, cpus)?;
    locked(observer).detach_syscalls();
    let span_ns = after.at.minus(before.at).0;
    if go_on && span_ns > 0 {
        let calls = after.since(&before).iter().map(|account| account.syscalls).sum::<u64>() as f64;
        locked(told).syscalls_per_s = Some((calls * 1e9 / span_ns as f64).round() as u64);
    }
    Ok(())
}

/// The observer at an instant.
struct Look {
    at: Nanos,
    spent: Spent,
    /// One a CPU, in the order asked for; none of a CPU which is not online.
    accounts: Vec<Option<Account>>,
}

impl Look {
    /// How each account grew; one that is not there at both instants, not at all.
    fn since(&self, before: &Look) -> Vec<Account> {
        let pairs = self.accounts.iter().zip(&before.accounts);
        pairs
            .map(|pair| {
                pair.0.as_ref().zip(pair.1.as_ref()).map(|(now, then)| now.since(then)).unwrap_or_default()
            })
            .collect()
    }
}

fn look(observer: &Mutex<Observer>, cpus: &[u32]) -> Result<Look, Refusal> {
    let observer = locked(observer);
    let accounts = observer.read(cpus)?.into_iter().map(Result::ok).collect();
    Ok(Look { at: clock::monotonic(), spent: observer.spent()?, accounts })
}

/// Share of a CPU's time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Share {
    /// That everything takes.
    whole: f64,
    /// That the accounting takes, without the counters.
    accounting: f64,
}

/// What the slice says about the cost.
#[derive(Debug, PartialEq)]
struct Cost {
    /// Time of one event on a CPU of the trial; `None` when there was none.
    event_ns: Option<f64>,
    /// The same of those events that are left where nothing is counted besides.
    accounting_event_ns: Option<f64>,
    /// The CPU that it took the largest share of, by its place, and the share.
    busiest: Option<(usize, Share)>,
}

impl Cost {
    /// `events` were handled on all CPUs; `growth` is that of the trial's.
    fn new(spent: Spent, events: u64, growth: &[Account]) -> Cost {
        // Runs on CPUs that nobody has accounted return at once, but are among those that the kernel counted.
        let foreign = spent.runs.saturating_sub(events);
        let event_ns = (events > 0).then(|| spent.ns as f64 / (events as f64 + foreign as f64 * FOREIGN));
        let core = 1.0 - spent.counters_ns as f64 / spent.ns.max(1) as f64;
        // Chosen: foreign runs are of either kind alike.
        let core_runs = 1.0 - spent.counters_runs as f64 / spent.runs.max(1) as f64;
        let accounting_event_ns = event_ns.filter(|_| core_runs > 0.0).map(|ns| ns * core / core_runs);
        let share = |account: &Account| {
            let events_ns = event_ns.unwrap_or(0.0) * account.events as f64;
            let (samples_ns, span_ns) = (account.sample_ns as f64, account.until_ns.max(1) as f64);
            Share {
                whole: (events_ns + samples_ns) / span_ns,
                accounting: (events_ns * core + samples_ns) / span_ns,
            }
        };
        let shares = growth.iter().map(share).enumerate();
        let busiest = shares.max_by(|(_, one), (_, other)| one.whole.total_cmp(&other.whole));
        Cost { event_ns, accounting_event_ns, busiest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_on_cpus_of_others_count_half() {
        let account =
            |events| Account { events, sample_ns: 500_000, until_ns: 100_000_000, ..Account::default() };
        let spent = Spent { runs: 30_000, ns: 2_500_000, counters_runs: 10_000, counters_ns: 500_000 };
        let cost = Cost::new(spent, 20_000, &[account(5_000), account(15_000)]);
        assert_eq!(cost.event_ns, Some(100.0), "20 000 own events and 10 000 of others at the half");
        let alone = cost.accounting_event_ns.unwrap();
        assert!((alone - 120.0).abs() < 1e-9, "four fifths of the time in two thirds of the runs: {alone}");
        let (place, share) = cost.busiest.unwrap();
        assert_eq!(place, 1);
        assert!((share.whole - 0.02).abs() < 1e-9, "15 000 of 100 ns and the samples in 100 ms: {share:?}");
        assert!((share.accounting - 0.017).abs() < 1e-9, "a fifth of the programs' time was counters'");
    }

    #[test]
    fn without_events_there_is_no_cost_of_one() {
        let cost = Cost::new(Spent::default(), 0, &[Account::default()]);
        assert_eq!((cost.event_ns, cost.accounting_event_ns), (None, None));
        assert_eq!(cost.busiest, Some((0, Share { whole: 0.0, accounting: 0.0 })));
        assert_eq!(Cost::new(Spent::default(), 0, &[]).busiest, None);
    }

    #[test]
    fn a_share_is_told_with_its_cpu_and_bound() {
        let told = told_share("the accounting takes", 0.0234, 3, SHARE_MAX);
        assert_eq!(told, "the accounting takes 2.3 % of CPU 3, more than 2 %");
    }
}
