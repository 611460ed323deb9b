//! What one sample takes away from the code that it interrupts, measured on this machine.
//!
//! A guest pays most of it outside of the kernel's own account: to arm the timer again and to acknowledge its interrupt
//! may leave the guest each time. So it is not looked up but seen, as the kernel's work would see it: a loop reads the
//! clock, and what it misses between two readings somebody else took.

use iodyno_core::units::Nanos;
use iodyno_sys::perf_event::Scope;
use iodyno_sys::perf_samples::{self, Sampler, Sampling};
use iodyno_sys::{affinity, clock, perf_event};

use crate::fold::Fold;
use crate::profiler::EVENTS;

/// Samples per second while it is measured. Chosen: some tens of them in a turn, far apart from each other.
const HZ: u32 = 1999;
/// Turns with samples and turns without, one after the other.
const TURNS: usize = 15;
/// Length of a turn. Chosen: five scheduling ticks.
const TURN: Nanos = Nanos(20 * 1_000_000);
/// What lies between two readings and is longer was taken by somebody else. Chosen: many times what a reading of the
/// clock takes, and less than any interrupt.
const GAP: Nanos = Nanos(500);
/// Pages of the ring, as a power of two.
const RING_ORDER: u32 = 4;

/// Time that a sample of running user code takes from it, in nanoseconds: the median of several turns, less what is
/// taken without samples. What it takes from the kernel's code is some microseconds more, for its longer stacks.
///
/// # Errors
/// Why samples cannot be had here, and what to try.
pub fn sample_cost() -> Result<f64, String> {
    // Of its own, because it is bound to one CPU.
    std::thread::spawn(measure).join().unwrap_or_else(|_| Err("the measuring thread panicked".to_owned()))
}

fn measure() -> Result<f64, String> {
    let cpus = affinity::allowed().map_err(|error| error.to_string())?;
    let cpu = cpus.last().copied().unwrap_or_default();
    affinity::restrict(&[cpu]).map_err(|error| error.to_string())?;
    let mut sampler = open(cpu)?;
    let mut each = Vec::with_capacity(TURNS);
    for _ in 0..TURNS {
        let without = taken_in_a_turn();
        sampler.enable().map_err(|error| error.to_string())?;
        let with = taken_in_a_turn();
        sampler.disable().map_err(|error| error.to_string())?;
        let samples = drained(&mut sampler);
        if samples > 0 {
            each.push((with.0 as f64 - without.0 as f64) / samples as f64);
        }
    }
    if each.is_empty() {
        return Err("the kernel allows samples, but none came".to_owned());
    }
    each.sort_by(f64::total_cmp);
    Ok(each[each.len() / 2])
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

/// Time that others took of this CPU in one turn.
fn taken_in_a_turn() -> Nanos {
    let begin = clock::monotonic();
    let (mut last, mut taken) = (begin, Nanos::default());
    while last.minus(begin) < TURN {
        let now = clock::monotonic();
        let gap = now.minus(last);
        if gap > GAP {
            taken = taken.plus(gap);
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
        let cpu = *affinity::allowed().unwrap().last().unwrap();
        let rival = std::thread::spawn(move || {
            affinity::restrict(&[cpu]).unwrap();
            let begin = clock::monotonic();
            while clock::monotonic().minus(begin) < Nanos(10 * TURN.0) {
                std::hint::spin_loop();
            }
        });
        affinity::restrict(&[cpu]).unwrap();
        let mut taken = Nanos::default();
        while !rival.is_finished() {
            taken = taken.plus(taken_in_a_turn());
        }
        // Two that never sleep share the CPU: half of the time is the rival's, and a twentieth at the very least.
        assert!(taken > Nanos(TURN.0 / 2), "{taken:?}");
    }

    #[test]
    fn a_sample_has_a_cost_or_a_reason_why_there_is_none() {
        match sample_cost() {
            // Others may take more of the turns without samples: of the size only so much is sure.
            Ok(cost_ns) => assert!(cost_ns < 2e6, "{cost_ns}"),
            Err(why) => assert!(!why.is_empty()),
        }
    }
}
