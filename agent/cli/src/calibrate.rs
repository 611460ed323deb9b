//! What this instrument costs and how finely it sees, measured by itself.
//!
//! Every figure that the load loop adds to an operation is here: a reader can subtract it, and sees when it is
//! no longer small against what is measured.

use std::io::{self, Write};
use std::path::Path;

use iodyno_core::histogram::Recorder;
use iodyno_core::network::Engine;
use iodyno_core::units::Nanos;
use iodyno_load::{null_cost, null_cost_open};
use iodyno_sys::{clock, operation_clock, realtime};
use serde::Serialize;

/// How long each loop is run: long against a scheduling tick, short for a person who waits.
const SPAN: Nanos = Nanos(300 * 1_000_000);
/// Samples a second that a trial takes of each CPU unless its experiment says otherwise.
const PROFILE_HZ: u32 = 997;
/// How often a wake-up is tried.
const WAKE_UPS: u64 = 50;

/// The figures. Times are nanoseconds of CPU, but `wake_up_*`, which are late arrivals on the wall clock.
#[derive(Serialize)]
struct Calibration {
    version: &'static str,
    operations_timed_with: String,
    tsc_hz: Option<u64>,
    clock_step_ns: f64,
    clock_read_ns: f64,
    histogram_record_ns: f64,
    write_overhead_threads_ns: f64,
    write_overhead_epoll_ns: f64,
    /// The same with arrivals: an open loop, response times and lateness.
    arrival_overhead_threads_ns: f64,
    arrival_overhead_epoll_ns: f64,
    wake_up_p50_ns: u64,
    wake_up_p99_ns: u64,
    wake_up_realtime: bool,
    /// What `cpu_exact` adds to one soft interrupt; absent where it is not available.
    soft_interrupt_accounting_ns: Option<f64>,
    /// What empty programs add, and programs that read the clock and do nothing else.
    soft_interrupt_empty_ns: Option<f64>,
    soft_interrupt_least_ns: Option<f64>,
    soft_interrupt_counters_ns: Option<f64>,
    /// Time inside of the programs, by the kernel's statistics, less that of empty ones.
    soft_interrupt_least_in_programs_ns: Option<f64>,
    soft_interrupt_accounting_in_programs_ns: Option<f64>,
    /// What that is added to: a datagram over loopback.
    soft_interrupt_send_ns: Option<f64>,
    /// What a sampled call stack takes from the code that it interrupts; absent where none can be had.
    stack_sample_ns: Option<f64>,
    sensors: Vec<SensorCost>,
}

#[derive(Serialize)]
struct SensorCost {
    sensor: &'static str,
    cost_ns: Nanos,
}

/// Measures and prints, as a table or as JSON.
pub fn print(json: bool) -> io::Result<()> {
    let calibration = measure();
    let mut out = io::stdout();
    if json {
        return writeln!(out, "{}", serde_json::to_string_pretty(&calibration)?);
    }
    let c = &calibration;
    writeln!(out, "iodyno-agent {}", c.version)?;
    writeln!(out, "\nclock of operations       {}", c.operations_timed_with)?;
    if let Some(hz) = c.tsc_hz {
        writeln!(out, "  frequency               {:.3} MHz", hz as f64 / 1e6)?;
    }
    writeln!(out, "  smallest step           {:.1} ns", c.clock_step_ns)?;
    writeln!(out, "  one reading             {:.1} ns", c.clock_read_ns)?;
    writeln!(out, "\nthe agent's own time for one write, on a transport that does nothing")?;
    writeln!(out, "  engine threads          {:.1} ns", c.write_overhead_threads_ns)?;
    writeln!(out, "  engine epoll            {:.1} ns", c.write_overhead_epoll_ns)?;
    writeln!(out, "  threads, with arrivals  {:.1} ns", c.arrival_overhead_threads_ns)?;
    writeln!(out, "  epoll, with arrivals    {:.1} ns", c.arrival_overhead_epoll_ns)?;
    writeln!(out, "  of it the histogram     {:.1} ns", c.histogram_record_ns)?;
    let kind = if c.wake_up_realtime { "SCHED_FIFO" } else { "SCHED_OTHER" };
    writeln!(out, "\nlate at an armed instant ({kind}, without the final spin)")?;
    writeln!(out, "  median                  {:.1} us", c.wake_up_p50_ns as f64 / 1e3)?;
    writeln!(out, "  99th percentile         {:.1} us", c.wake_up_p99_ns as f64 / 1e3)?;
    if let Some(send) = c.soft_interrupt_send_ns {
        writeln!(out, "\nadded by cpu_exact to one soft interrupt (a datagram over loopback: {send:.0} ns)")?;
        let added = [
            ("empty programs", c.soft_interrupt_empty_ns, None),
            ("reading the clock only", c.soft_interrupt_least_ns, c.soft_interrupt_least_in_programs_ns),
            ("accounting", c.soft_interrupt_accounting_ns, c.soft_interrupt_accounting_in_programs_ns),
            ("with counters", c.soft_interrupt_counters_ns, None),
        ];
        for (what, added, inside) in added {
            let inside = inside.map_or_else(String::new, |ns| format!(", {ns:.0} ns of it in the programs"));
            writeln!(out, "  {what:<22}  {:.0} ns{inside}", added.unwrap_or_default())?;
        }
    }
    if let Some(sample) = c.stack_sample_ns {
        let share = sample * f64::from(PROFILE_HZ) / 1e7;
        writeln!(out, "\na sampled call stack, as its CPU misses it")?;
        writeln!(out, "  one sample              {:.1} us", sample / 1e3)?;
        writeln!(out, "  {PROFILE_HZ} a second            {share:.2} % of a CPU")?;
    }
    writeln!(out, "\nCPU time of one reading of each sensor")?;
    for SensorCost { sensor, cost_ns } in &c.sensors {
        writeln!(out, "  {sensor:<22}  {:.1} us", cost_ns.0 as f64 / 1e3)?;
    }
    Ok(())
}

/// Time in programs at the block layer.
#[derive(Serialize)]
struct BlockPrograms {
    programs: &'static str,
    runs_per_operation: f64,
    operation_ns: f64,
    least_ns: f64,
    most_ns: f64,
}

/// Measures and prints what programs at the block layer take for an operation, with reads of a file or device.
pub fn print_block(file: &Path, json: bool) -> io::Result<()> {
    let costs = iodyno_sense::block_operation_costs(file).map_err(io::Error::other)?;
    let rows: Vec<BlockPrograms> = costs
        .into_iter()
        .map(|cost| BlockPrograms {
            programs: cost.programs,
            runs_per_operation: cost.runs,
            operation_ns: cost.median_ns,
            least_ns: cost.least_ns,
            most_ns: cost.most_ns,
        })
        .collect();
    let mut out = io::stdout();
    if json {
        return writeln!(out, "{}", serde_json::to_string_pretty(&rows)?);
    }
    writeln!(out, "time in programs for an operation of the block layer (median of 25 turns, least, most)")?;
    for row in rows {
        let name = row.programs;
        let (runs, median) = (row.runs_per_operation, row.operation_ns);
        writeln!(
            out,
            "  {name:<40}  {runs:.1} runs  {median:.0} ns [{:.0}, {:.0}]",
            row.least_ns, row.most_ns
        )?;
    }
    Ok(())
}

fn measure() -> Calibration {
    let facts = operation_clock::facts();
    let soft_interrupt = iodyno_sense::soft_interrupt_cost().ok();
    let (wake_up_p50_ns, wake_up_p99_ns, wake_up_realtime) = wake_ups();
    Calibration {
        version: crate::VERSION,
        operations_timed_with: facts.operations_timed_with,
        tsc_hz: facts.tsc_hz,
        clock_step_ns: facts.step_ns,
        clock_read_ns: facts.read_cost_ns,
        histogram_record_ns: histogram_cost(),
        write_overhead_threads_ns: null_cost(Engine::Threads, SPAN),
        write_overhead_epoll_ns: null_cost(Engine::Epoll, SPAN),
        arrival_overhead_threads_ns: null_cost_open(Engine::Threads, SPAN),
        arrival_overhead_epoll_ns: null_cost_open(Engine::Epoll, SPAN),
        wake_up_p50_ns,
        wake_up_p99_ns,
        wake_up_realtime,
        soft_interrupt_accounting_ns: soft_interrupt.map(|cost| cost.accounting_ns),
        soft_interrupt_empty_ns: soft_interrupt.map(|cost| cost.empty_ns),
        soft_interrupt_least_in_programs_ns: soft_interrupt.map(|cost| cost.least_in_programs_ns),
        soft_interrupt_accounting_in_programs_ns: soft_interrupt.map(|cost| cost.accounting_in_programs_ns),
        soft_interrupt_least_ns: soft_interrupt.map(|cost| cost.least_ns),
        soft_interrupt_counters_ns: soft_interrupt.map(|cost| cost.counters_ns),
        soft_interrupt_send_ns: soft_interrupt.map(|cost| cost.send_ns),
        stack_sample_ns: iodyno_profile::sample_cost().ok(),
        sensors: iodyno_sense::costs()
            .into_iter()
            .map(|(sensor, cost_ns)| SensorCost { sensor, cost_ns })
            .collect(),
    }
}

/// CPU time of counting one value, over values as spread out as service times are.
fn histogram_cost() -> f64 {
    let recorder = Recorder::default();
    let before = clock::thread_cpu();
    let mut counted = 0u64;
    while clock::thread_cpu().minus(before) < Nanos(50_000_000) {
        for value in 0..10_000u64 {
            recorder.record(std::hint::black_box(value * 37));
        }
        counted += 10_000;
    }
    clock::thread_cpu().minus(before).0 as f64 / counted as f64
}

/// How late a sleeping thread wakes: median, 99th percentile, and whether it could be a real-time thread.
fn wake_ups() -> (u64, u64, bool) {
    let tried = std::thread::spawn(|| {
        let realtime = realtime::raise().is_ok();
        let mut late: Vec<u64> = (0..WAKE_UPS)
            .filter_map(|_| {
                let due = clock::monotonic().plus(Nanos(2_000_000));
                clock::sleep_until(due).ok()?;
                Some(clock::monotonic().minus(due).0)
            })
            .collect();
        late.sort_unstable();
        let at = |share: usize| late.get(late.len() * share / 100).copied().unwrap_or(0);
        (at(50), at(99), realtime)
    });
    tried.join().unwrap_or((0, 0, false))
}
