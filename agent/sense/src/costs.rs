//! What a reading of each sensor costs on this host.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;

use iodyno_core::units::Nanos;

use crate::panel::Panel;
use crate::sensor::{Roots, Subject};

/// Readings that the cost is the median of.
const READINGS: usize = 21;

/// Thread CPU time of one reading of each sensor that is available here: the median of 21, on the live trees,
/// with this thread as the only worker and one idle loopback connection (both ends) as the flows. The cost
/// of `tcp_info` and `threads` grows with the number of flows and workers.
#[must_use]
pub fn costs() -> Vec<(&'static str, Nanos)> {
    let flows = loopback();
    let subject = Subject {
        sockets: flows.iter().map(AsRawFd::as_raw_fd).collect(),
        thread_ids: this_thread().into_iter().collect(),
        storage: true,
        ..Subject::default()
    };
    let Ok(mut panel) = Panel::new(&Roots::default(), &subject, None) else { return Vec::new() };
    panel.baseline();
    let mut costs: Vec<Vec<Nanos>> = Vec::new();
    for _ in 0..READINGS {
        let readings = panel.read();
        costs.resize_with(readings.len(), Vec::new);
        for (costs, reading) in costs.iter_mut().zip(readings) {
            costs.push(reading.cost_ns);
        }
    }
    let median = |mut costs: Vec<Nanos>| {
        costs.sort_unstable();
        costs.get(costs.len() / 2).copied().unwrap_or_default()
    };
    panel.names().zip(costs.into_iter().map(median)).collect()
}

/// What the sensor `cpu_exact` adds to the beginning and end of one soft interrupt, in CPU time of whoever is
/// interrupted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoftInterruptCost {
    /// What was interrupted: a small datagram over loopback, without the sensor.
    pub send_ns: f64,
    /// Added by empty programs: what the way to any program costs here.
    pub empty_ns: f64,
    /// Added by programs that read the clock and do nothing else: what this machine makes any accounting cost.
    pub least_ns: f64,
    /// Added by the accounting.
    pub accounting_ns: f64,
    /// Added by the accounting with the counters (polls, wake-ups, waits for locks).
    pub counters_ns: f64,
    /// Time inside of two programs that read the clock, by the kernel's statistics, less that of two empty ones.
    pub least_in_programs_ns: f64,
    /// The same of the accounting.
    pub accounting_in_programs_ns: f64,
}

/// Measures [`SoftInterruptCost`] in about five seconds.
///
/// # Errors
/// Why there is no such sensor here.
pub fn soft_interrupt_cost() -> Result<SoftInterruptCost, String> {
    #[cfg(has_bpf)]
    return crate::exact::pair_cost::measure().map_err(|refusal| refusal.to_string());
    #[cfg(not(has_bpf))]
    return Err("built without the programs".to_owned());
}

/// What programs take for an operation of the block layer, from its begin to its end, by the kernel's statistics: time of
/// whoever is interrupted, in nanoseconds, with what the kernel takes to measure it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockOperationCost {
    /// What the programs do.
    pub programs: &'static str,
    /// How many of them run for an operation, on average.
    pub runs: f64,
    /// Median of the turns.
    pub median_ns: f64,
    /// The least of them.
    pub least_ns: f64,
    /// The most of them.
    pub most_ns: f64,
}

/// Measures [`BlockOperationCost`] in some eight seconds, with reads of `file` (or a device) that bypass the page cache: of programs
/// that do one thing each, then of that of the sensor `block_times` which counts an operation at its end, and last of all of
/// the sensor's.
///
/// # Errors
/// Why there is no such sensor here, or why the file cannot be read so.
pub fn block_operation_costs(file: &Path) -> Result<Vec<BlockOperationCost>, String> {
    #[cfg(has_bpf)]
    return crate::blocks::cost::measure(&Roots::default().sys, file).map_err(|refusal| refusal.to_string());
    #[cfg(not(has_bpf))]
    return Err(format!("built without the programs, so {} is not read", file.display()));
}

/// Both ends of a connection; empty where loopback cannot be used.
fn loopback() -> Vec<TcpStream> {
    let ends = || -> std::io::Result<Vec<TcpStream>> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let near = TcpStream::connect(listener.local_addr()?)?;
        Ok(vec![near, listener.accept()?.0])
    };
    ends().unwrap_or_default()
}

/// Kernel id of this thread: the last part of `/proc/thread-self`.
fn this_thread() -> Option<i32> {
    std::fs::read_link("/proc/thread-self").ok()?.file_name()?.to_str()?.parse().ok()
}
