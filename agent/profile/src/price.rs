//! What one sample takes away from the code that it interrupts, measured on this machine.
//!
//! A guest pays most of it outside of the kernel's own account: to arm the timer again and to acknowledge its interrupt
//! may leave the guest each time. So it is not looked up but seen, as the kernel's work would see it: a loop reads the
//! clock, and what it misses between two readings somebody else took; of most gaps that is the sampling timer.

use std::sync::OnceLock;

use iodyno_core::units::Nanos;
use iodyno_sys::perf_event::{Event, Scope};
use iodyno_sys::perf_samples::{self, Sampler, Sampling};
use iodyno_sys::{affinity, clock, perf_event};

use crate::fold::Fold;
use crate::profiler::EVENTS;

/// Samples per second while it is measured. Chosen: far more than other interrupts, ticks first of all, so that the
/// median gap is a sample's.
const HZ: u32 = 1999;
/// How long it is measured. Chosen: sixty samples; the first trial of an agent waits for it.
const SPAN: Nanos = Nanos(30 * 1_000_000);
/// What lies between two readings and is longer was taken by somebody else. Chosen: many times what a reading of the
/// clock takes, and less than any interrupt.
const GAP: Nanos = Nanos(500);
/// Pages of the ring, as a power of two.
const RING_ORDER: u32 = 4;
/// Share of a CPU that the timer's samples of a profile may take. Chosen: some of the project's bound for the whole
/// instrument, 2 %; 997 a second stay within it where one takes up to 6 us.
const SHARE_MAX: f64 = 0.006;
/// Rates in steps, so that the trials and hosts of a machine have the same one, though what a sample costs is never seen
/// the same twice. Prime numbers, which fall into step with no timer of the load. The last one is taken however costly a
/// sample is: a thousand of them in a trial of 3 s.
const STEPS: [u32; 3] = [997, 499, 331];

/// Time that a sample of running user code takes from it, in nanoseconds: the median. What it takes from the kernel's code
/// is some microseconds more, for its longer stacks.
///
/// # Errors
/// Why samples cannot be had here, and what to try.
pub fn sample_cost() -> Result<f64, String> {
    // Of its own, because it is bound to one CPU.
    std::thread::spawn(measure).join().unwrap_or_else(|_| Err("the measuring thread panicked".to_owned()))
}

/// As many samples a second as this machine gives for half a percent of a CPU, `hz` at most. What a sample costs is
/// measured once in the life of an agent.
pub(crate) fn affordable(hz: u32, event: Event) -> u32 {
    static COST_NS: OnceLock<Option<f64>> = OnceLock::new();
    // Hardware makes samples without a timer.
    if event != Event::CpuClock || STEPS.last().is_some_and(|least| hz <= *least) {
        return hz;
    }
    COST_NS.get_or_init(|| sample_cost().ok()).map_or(hz, |cost_ns| within_share(hz, cost_ns))
}

/// The same for samples of this cost.
fn within_share(hz: u32, cost_ns: f64) -> u32 {
    let affords = |hz: u32| f64::from(hz) * cost_ns * 1e-9 <= SHARE_MAX;
    if affords(hz) {
        return hz;
    }
    let mut fewer = STEPS.into_iter().filter(|&step| step < hz);
    fewer.clone().find(|&step| affords(step)).or(fewer.next_back()).unwrap_or(hz)
}

fn measure() -> Result<f64, String> {
    let cpus = affinity::allowed().map_err(|error| error.to_string())?;
    let cpu = cpus.last().copied().unwrap_or_default();
    affinity::restrict(&[cpu]).map_err(|error| error.to_string())?;
    let mut sampler = open(cpu)?;
    sampler.enable().map_err(|error| error.to_string())?;
    let mut gaps = gaps(SPAN);
    sampler.disable().map_err(|error| error.to_string())?;
    gaps.sort();
    match drained(&mut sampler) {
        0 => Err("the kernel allows samples, but none came".to_owned()),
        _ => Ok(gaps.get(gaps.len() / 2).map_or(0.0, |gap| gap.0 as f64)),
    }
}

/// The event that profiles take here, on one CPU.
fn open(cpu: u32) -> Result<Sampler, String> {
    let mut last = String::new();
    for event in EVENTS {
        let sampling = Sampling { event, hz: HZ, kernel: true };
        match perf_samples::open(sampling, Scope::Cpu(cpu), RING_ORDER) {
            Ok(sampler) => return Ok(sampler),
            Err(error) => last = perf_event::reason(&error),
        }
    }
    Err(last)
}

/// The times that others took of this CPU in a span.
fn gaps(span: Nanos) -> Vec<Nanos> {
    let begin = clock::monotonic();
    let (mut last, mut taken) = (begin, Vec::new());
    while last.minus(begin) < span {
        let now = clock::monotonic();
        let gap = now.minus(last);
        if gap > GAP {
            taken.push(gap);
        }
        last = now;
    }
    taken
}

fn drained(sampler: &mut Sampler) -> u64 {
    let mut words = Vec::new();
    sampler.drain(&mut words);
    let mut fold = Fold::default();
    fold.add(&words);
    fold.stacks().map(|(_, _, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_thread_takes_of_the_cpu_is_seen() {
        const SHARED: Nanos = Nanos(200 * 1_000_000);
        let cpu = *affinity::allowed().unwrap().last().unwrap();
        let rival = std::thread::spawn(move || {
            affinity::restrict(&[cpu]).unwrap();
            let begin = clock::monotonic();
            while clock::monotonic().minus(begin) < SHARED {
                std::hint::spin_loop();
            }
        });
        affinity::restrict(&[cpu]).unwrap();
        let mut taken = Nanos::default();
        while !rival.is_finished() {
            taken = gaps(Nanos(SHARED.0 / 10)).into_iter().fold(taken, Nanos::plus);
        }
        // Two that never sleep share the CPU: half of the time is the rival's, and a twentieth at the very least.
        assert!(taken > Nanos(SHARED.0 / 20), "{taken:?}");
    }

    #[test]
    fn a_sample_has_a_cost_or_a_reason_why_there_is_none() {
        match sample_cost() {
            Ok(cost_ns) => assert!((GAP.0 as f64..2e6).contains(&cost_ns), "{cost_ns}"),
            Err(why) => assert!(!why.is_empty()),
        }
    }

    #[test]
    fn costly_samples_are_fewer() {
        assert_eq!(within_share(997, 2_000.0), 997, "0.2 % of a CPU");
        assert_eq!(within_share(997, 10_000.0), 499);
        assert_eq!(within_share(997, 15_000.0), 331);
        assert_eq!(within_share(499, 15_000.0), 331, "a step below what was asked for");
        assert_eq!(within_share(997, 80_000.0), 331, "not below the last step");
        assert_eq!(affordable(150, Event::CpuClock), 150, "nobody asked for more");
        assert_eq!(affordable(997, Event::Cycles), 997, "no timer");
    }
}
