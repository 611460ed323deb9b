//! What the accounting adds to the beginning and end of one soft interrupt, measured on this machine.

use std::net::UdpSocket;

use iodyno_sys::{affinity, clock};

use super::observer::Observer;
use super::refusal::Refusal;
use crate::costs::SoftInterruptCost;

/// Alternations that the cost is the median of. Chosen: even on a busy machine half of them are undisturbed.
const ROUNDS: usize = 15;
/// Sends of one measurement. Chosen: some 50 ms, a dozen scheduling ticks.
const SENDS: u32 = 20_000;

/// Median of what a send over loopback, which raises one soft interrupt, takes in CPU time: without programs, with
/// programs that only read the clock, with the accounting, and with the counters too, one after the other in turns.
pub(crate) fn measure() -> Result<SoftInterruptCost, Refusal> {
    // Of its own, because it is bound to one CPU.
    let measured = std::thread::spawn(|| {
        let cpu = bind()?;
        let send = sender()?;
        let mut observer = Observer::load()?;
        let (mut least, mut accounting, mut counters) = (Vec::new(), Vec::new(), Vec::new());
        let mut without_all = Vec::new();
        for _ in 0..ROUNDS {
            let without = send();
            observer.attach_least()?;
            let clock_read = send();
            observer.detach();
            observer.attach()?;
            observer.begin(cpu)?;
            let accounted = send();
            observer.attach_counters()?;
            let counted = send();
            observer.detach();
            least.push(clock_read - without);
            accounting.push(accounted - without);
            counters.push(counted - without);
            without_all.push(without);
        }
        Ok(SoftInterruptCost {
            send_ns: median(without_all),
            least_ns: median(least),
            accounting_ns: median(accounting),
            counters_ns: median(counters),
        })
    });
    measured.join().unwrap_or(Err(Refusal::Defect("the measuring thread panicked")))
}

/// Binds the calling thread to one CPU.
fn bind() -> Result<u32, Refusal> {
    let told = |error: std::io::Error| Refusal::Other(error.to_string());
    let cpu = affinity::allowed().map_err(told)?.last().copied().unwrap_or_default();
    affinity::restrict(&[cpu]).map_err(told)?;
    Ok(cpu)
}

/// A function that sends, and says what one send took.
fn sender() -> Result<impl Fn() -> f64, Refusal> {
    let told = |error: std::io::Error| Refusal::Other(error.to_string());
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

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
