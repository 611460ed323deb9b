//! What the accounting adds to the beginning and end of one soft interrupt, measured on this machine.

use std::net::UdpSocket;

use iodyno_sys::{affinity, clock};

use super::observer::Observer;
use super::refusal::Refusal;
use crate::costs::SoftInterruptCost;

/// Alternations that the cost is the median of. Chosen: even on a busy machine half of them are undisturbed.
const ROUNDS: usize = 15;
/// Sends of one measurement. Chosen: some 40 ms, ten scheduling ticks.
const SENDS: u32 = 15_000;

/// The programs of the accounting at a soft interrupt.
const ACCOUNTING: [&str; 2] = ["softirq_begin", "softirq_end"];

/// Median of what a send over loopback, which raises one soft interrupt, takes in CPU time: without programs, with
/// empty ones, with some that only read the clock, with the accounting, and with the counters too, one after the other
/// in turns. Besides, the time in the programs by the kernel's own statistics, which hardly varies on a busy machine.
pub(crate) fn measure() -> Result<SoftInterruptCost, Refusal> {
    // Of its own, because it is bound to one CPU.
    let measured = std::thread::spawn(|| {
        let cpus = affinity::allowed().map_err(told)?;
        bind(&cpus)?;
        let send = sender()?;
        let mut observer = Observer::load()?;
        let mut without_all = Vec::new();
        let (mut empty, mut least, mut accounting) = (Step::default(), Step::default(), Step::default());
        let mut counters = Vec::new();
        for _ in 0..ROUNDS {
            let without = send();
            for (step, program) in [(&mut empty, "empty"), (&mut least, "least")] {
                observer.attach_yardstick(program)?;
                step.take(&observer, &[program], &send, without)?;
                observer.detach();
            }
            observer.attach()?;
            // Soft interrupts of all CPUs are in the kernel's statistics, so they are all accounted.
            cpus.iter().try_for_each(|&cpu| observer.begin(cpu))?;
            accounting.take(&observer, &ACCOUNTING, &send, without)?;
            observer.attach_counters()?;
            counters.push(send() - without);
            observer.detach();
            without_all.push(without);
        }
        // One of them at the begin of a soft interrupt, one at its end.
        let beyond_empty = |step: &Step| 2.0 * (median(&step.run_ns) - median(&empty.run_ns));
        Ok(SoftInterruptCost {
            send_ns: median(&without_all),
            empty_ns: median(&empty.added_ns),
            least_ns: median(&least.added_ns),
            accounting_ns: median(&accounting.added_ns),
            counters_ns: median(&counters),
            least_in_programs_ns: beyond_empty(&least),
            accounting_in_programs_ns: beyond_empty(&accounting),
        })
    });
    measured.join().unwrap_or(Err(Refusal::Defect("the measuring thread panicked")))
}

/// What was seen with some programs attached.
#[derive(Default)]
struct Step {
    /// CPU time that they add to a send.
    added_ns: Vec<f64>,
    /// Time of one run, what the kernel takes to measure it included.
    run_ns: Vec<f64>,
}

impl Step {
    fn take(
        &mut self,
        observer: &Observer,
        programs: &[&str],
        send: &impl Fn() -> f64,
        without_ns: f64,
    ) -> Result<(), Refusal> {
        self.added_ns.push(send() - without_ns);
        let timed = aya::sys::enable_stats(aya::sys::Stats::RunTime).map_err(Refusal::of_call)?;
        let before = observer.spent_in(programs)?;
        send();
        let spent = observer.spent_in(programs)?.since(before);
        drop(timed);
        self.run_ns.push(spent.ns as f64 / spent.runs.max(1) as f64);
        Ok(())
    }
}

fn told(error: std::io::Error) -> Refusal {
    Refusal::Other(error.to_string())
}

/// Binds the calling thread to the last of the CPUs.
fn bind(cpus: &[u32]) -> Result<(), Refusal> {
    affinity::restrict(&[cpus.last().copied().unwrap_or_default()]).map_err(told)
}

/// A function that sends, and says what one send took.
fn sender() -> Result<impl Fn() -> f64, Refusal> {
    let receiver = UdpSocket::bind(("127.0.0.1", 0)).map_err(told)?;
    let sender = UdpSocket::bind(("127.0.0.1", 0)).map_err(told)?;
    sender.connect(receiver.local_addr().map_err(told)?).map_err(told)?;
    Ok(move || {
        // What does not fit is dropped, and costs the same. Nobody reads.
        let _still_open = &receiver;
        let before = clock::thread_cpu();
        for _ in 0..SENDS {
            let _ = sender.send(b"x");
        }
        clock::thread_cpu().minus(before).0 as f64 / f64::from(SENDS)
    })
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
