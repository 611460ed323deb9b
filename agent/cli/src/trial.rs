//! One job from beginning to end: get ready, start on time, report every interval, account for the whole.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use iodyno_core::histogram::Snapshot;
use iodyno_core::job::Job;
use iodyno_core::message::{ErrorCode, JobResult, LoadCounts, Message, Progress, Ready, Record};
use iodyno_core::metric::Reading;
use iodyno_core::phase::Window;
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{Cancel, LoadError, Quota};
use iodyno_profile::Profiler;
use iodyno_sense::{Panel, Roots, Subject};
use iodyno_storage::classes;
use iodyno_sys::{clock, memory_policy, process, realtime};

use crate::load::{self, Finished, Prepared, Running, Tally};
use crate::parts::Parts;
use crate::stream::Outgoing;
use crate::{arrivals, parts, tallies, targets};

/// An `arm` that leaves less than this is refused: the start would be late or cold.
const LEAST_SLACK: Nanos = Nanos(20 * 1_000_000);
/// The sensors' first reading is taken this long before the start.
const BASELINE_LEAD: Nanos = Nanos(10 * 1_000_000);
/// How long the load may take to come to rest after its stop.
const REST: Nanos = Nanos(6 * 1_000_000_000);
/// How often is looked at a load, and whether a job that waits for its start was dropped.
const LOOK: Nanos = Nanos(20 * 1_000_000);

/// Carries `job` out; its account. `start` brings the armed start.
pub fn carry_out(
    job: &Job,
    start: &Receiver<Nanos>,
    cancel: &Cancel,
    outgoing: &Outgoing,
) -> Result<JobResult, LoadError> {
    let began = clock::monotonic();
    // Where it cannot be forgotten, the peak is that of an earlier job at worst, and larger.
    let _ = process::forget_resident_peak();
    // Made before the connections, so that a refusal costs none; entered after, so that they come up at full speed.
    let mut quota = job.cpu_quota_percent.map(Quota::new).transpose()?;
    // Before anything is taken that the load works on. It ends with this thread, and holds for those that it starts.
    if let Some(node) = job.memory_node {
        memory_policy::bind(node).map_err(|error| LoadError {
            code: ErrorCode::Job,
            what: format!("cannot have memory of NUMA node {node}: {error}"),
            place: "memory_node".to_owned(),
            advice: "allow the agent the memory of that node (cpuset.mems of its control group)".to_owned(),
        })?;
    }
    // Before there is any worker: it may be allowed to sample those only that are started later.
    let mut profiler = Profiler::open(job.profile_hz, &cpus(job));
    let listens = |port| outgoing.send(Message::Listening { trial: job.trial.clone(), port });
    let prepared = load::prepare(job, cancel, listens)?;
    if let Some(quota) = &quota {
        quota.enter()?;
    }
    let (sockets, thread_ids) = prepared
        .as_ref()
        .map_or((Vec::new(), Vec::new()), |prepared| (prepared.sockets(), prepared.thread_ids()));
    let subject = Subject {
        sockets,
        opened: prepared.as_ref().map(Prepared::opened).unwrap_or_default(),
        thread_ids,
        cpus: job.cpus.clone(),
        warm_up: job.windows.warm_up_ns,
        timers: profiler.timers(),
        storage: job.load.is_storage(),
        watched: job.watched.iter().map(|one| (one.role.clone(), one.process_ids.clone())).collect(),
    };
    profiler.count_alike(&subject.alike());
    let own = |name: &str| [arrivals::NAME, parts::NAME, targets::NAME].contains(&name) || tallies::has(name);
    let sensors: Option<Vec<String>> =
        job.sensors.as_ref().map(|names| names.iter().filter(|name| !own(name)).cloned().collect());
    let panel = Panel::new(&Roots::default(), &subject, sensors.as_deref()).map_err(|error| LoadError {
        code: ErrorCode::Job,
        what: error.to_string(),
        place: "sensors".to_owned(),
        advice: "name sensors that this agent has, or none for all of them".to_owned(),
    })?;
    outgoing.send(Message::Ready(Ready {
        trial: job.trial.clone(),
        connections: prepared.as_ref().map_or(0, Prepared::connections),
        workers: prepared.as_ref().map_or(0, Prepared::workers),
        socket: prepared.as_ref().map(Prepared::obtained).unwrap_or_default(),
        setup_ns: clock::monotonic().minus(began),
        foreign_refused: prepared.as_ref().map_or(0, Prepared::foreign_refused),
        cpu_quota: quota.as_ref().map(|quota| quota.obtained().clone()),
    }));

    let start_ns = wait_for_start(start, cancel)?;
    let running = prepared.map(|prepared| prepared.arm(start_ns));
    // The job's own thread must wake on time although the load takes every CPU; it works a few milliseconds
    // in a second. Where it may not, records end later than planned, and say when.
    let realtime = realtime::raise().is_ok();
    outgoing.send(Message::Armed {
        trial: job.trial.clone(),
        slack_ns: start_ns.minus(clock::monotonic()),
        realtime: running.as_ref().map_or(realtime, Running::is_realtime),
    });
    let instruments = Instruments { panel, profiler: &mut profiler, quota: &mut quota };
    let observed = observe(job, start_ns, running.as_ref(), instruments, cancel, outgoing);
    // Refused only where it was refused above, or harmless: the thread is about to end.
    let _ = realtime::lower();
    let finished = running.map(|running| {
        if observed.is_err() {
            running.stop();
        }
        running.join()
    });
    // Before the names of functions are looked up: that takes memory, and is no part of the load.
    let result = account(job, start_ns, &observed?, finished.unwrap_or_default());
    if let Some(profile) = profiler.report(&job.trial) {
        outgoing.send(Message::Profile(Box::new(profile)));
    }
    Ok(result)
}

/// CPUs that the job's cost is counted on.
fn cpus(job: &Job) -> Vec<u32> {
    if job.cpus.is_empty() {
        return iodyno_sense::cpus_online(&Roots::default());
    }
    job.cpus.clone()
}

fn dropped() -> LoadError {
    LoadError {
        code: ErrorCode::Transport,
        what: "the job was dropped".to_owned(),
        place: "job".to_owned(),
        advice: String::new(),
    }
}

fn wait_for_start(start: &Receiver<Nanos>, cancel: &Cancel) -> Result<Nanos, LoadError> {
    loop {
        match start.recv_timeout(Duration::from_nanos(LOOK.0)) {
            _ if cancel.is_cancelled() => return Err(dropped()),
            Ok(start_ns) => {
                let slack = start_ns.minus(clock::monotonic());
                if slack >= LEAST_SLACK {
                    return Ok(start_ns);
                }
                return Err(LoadError {
                    code: ErrorCode::Late,
                    what: format!("the start was armed with {} ns left", slack.0),
                    place: "arm".to_owned(),
                    advice: format!("arm at least {} ms ahead", LEAST_SLACK.0 / 1_000_000),
                });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(dropped()),
        }
    }
}

/// The load's counters at a moment.
struct Count {
    at_ns: Nanos,
    tally: Tally,
}

/// What a job is observed and held by.
struct Instruments<'a> {
    panel: Panel,
    profiler: &'a mut Profiler,
    quota: &'a mut Option<Quota>,
}

/// What was seen from start to rest.
struct Observed {
    records: u32,
    /// Bytes that each connection carried in the measured window.
    carried: Vec<u64>,
    agent_cpu_ns: Nanos,
}

/// Writes a record at the end of every interval until the load has come to rest.
fn observe(
    job: &Job,
    start_ns: Nanos,
    running: Option<&Running>,
    instruments: Instruments<'_>,
    cancel: &Cancel,
    outgoing: &Outgoing,
) -> Result<Observed, LoadError> {
    let Instruments { mut panel, profiler, quota } = instruments;
    let count = || Count { at_ns: clock::monotonic(), tally: running.map(Running::read).unwrap_or_default() };
    // A recorder goes on for days, and has nothing to look at between its records.
    let look = if running.is_some() || job.profile_hz > 0 { LOOK } else { job.windows.interval_ns };
    sleep_until(start_ns.minus(BASELINE_LEAD), cancel)?;
    let cpu_before = clock::process_cpu();
    panel.baseline();

    // Nothing was counted before the start. A reading here would come after it where the baseline took long, and what the
    // load did by then would be in no record.
    let mut before = Count { at_ns: start_ns, tally: Tally::default() };
    let mut measured_from = None;
    let mut carried = Vec::new();
    let records = job.windows.records();
    let mut sent = 0;
    let measured_end = job.windows.warm_up_ns.plus(job.windows.measured_ns);
    for (index, (window, end)) in (0..).zip(&records) {
        let last_of_window = records.get(index as usize + 1).is_none_or(|(next, _)| next != window);
        if *window == Window::Measured && measured_from.is_none() {
            // Without a warm-up window, the start is still to come.
            sleep_until(start_ns, cancel)?;
            profiler.begin();
        }
        let mut parts = running
            .filter(|_| *window == Window::Measured)
            .and_then(|_| Parts::of(job, before.at_ns, start_ns.plus(*end), &before.tally.totals));
        let due = (start_ns.plus(*end), look);
        let early = wait_for_end(*window, due, running, &mut parts, profiler, cancel)?;
        let mut now = count();
        if let Some(ended) = running.filter(|_| early).and_then(Running::ended_ns) {
            // Seen up to 20 ms later, of a load that may have lasted less.
            now.at_ns = ended.max(before.at_ns.plus(Nanos(1))).min(now.at_ns);
        }
        let measured_over = *end == measured_end || (early && *window != Window::Drain);
        if measured_over {
            profiler.end();
        }
        if *window == Window::Measured {
            let from = measured_from.get_or_insert_with(|| before.tally.totals.connection_bytes.clone());
            carried = grown(from, &now.tally.totals.connection_bytes);
        }
        let readings = match last_of_window || early {
            true => panel.read(),
            false => panel.read_between(job.windows.interval_ns),
        };
        let mut record = record(job, index, *window, &before, &now, readings);
        record.sensors.extend(parts.map(|parts| parts.reading(now.at_ns)));
        let progress = Progress::from(&record);
        outgoing.send_together(vec![Message::Progress(progress), Message::Record(Box::new(record))]);
        sent += 1;
        if measured_over {
            outgoing.send(Message::Drain { trial: job.trial.clone(), at_ns: now.at_ns });
            // It was the measured load's. With it, thousands of connections come to rest too slowly for the other end.
            quota.take();
        }
        before = now;
        if early {
            break;
        }
    }
    come_to_rest(running, start_ns.plus(job.windows.load_ns()), cancel)?;
    let agent_cpu_ns = clock::process_cpu().minus(cpu_before);
    running.and_then(Running::failure).map_or(Ok(()), Err)?;
    Ok(Observed { records: sent, carried, agent_cpu_ns })
}

/// Waits for the end of an interval, and looks that often. The last one, the drain window, ends when the load has come to rest. Whether it
/// ended early, with the script or its operations.
fn wait_for_end(
    window: Window,
    (due, look): (Nanos, Nanos),
    running: Option<&Running>,
    parts: &mut Option<Parts>,
    profiler: &mut Profiler,
    cancel: &Cancel,
) -> Result<bool, LoadError> {
    while clock::monotonic() < due {
        profiler.keep_up();
        if let (Some(parts), Some(running)) = (parts.as_mut(), running) {
            parts.look(clock::monotonic, || running.moved());
        }
        if let Some(running) = running.filter(|running| running.may_end_early() && running.is_finished()) {
            return running.failure().map_or(Ok(true), Err);
        }
        if let Some(running) = running.filter(|running| running.is_finished() && window != Window::Drain) {
            let totals = running.read().totals;
            return Err(LoadError {
                code: ErrorCode::Transport,
                what: format!(
                    "all connections ended before the load was to stop; {} were lost: {}",
                    totals.connections_lost,
                    totals.lost_reason.as_deref().unwrap_or("no reason known")
                ),
                place: "data connections".to_owned(),
                advice: "look at what happened on the other end".to_owned(),
            });
        }
        let next = clock::monotonic().plus(look);
        sleep_until(parts.as_ref().map_or(next, |parts| next.min(parts.next_ns())).min(due), cancel)?;
    }
    if window == Window::Drain {
        come_to_rest(running, due, cancel)?;
    }
    Ok(false)
}

fn account(job: &Job, start_ns: Nanos, observed: &Observed, finished: Finished) -> JobResult {
    let (carried, totals) = (&observed.carried, finished.totals);
    JobResult {
        trial: job.trial.clone(),
        records: observed.records,
        start_ns,
        first_operation_ns: finished.first_operation_ns,
        last_worker_started_ns: finished.last_worker_started_ns,
        stopped_ns: finished.stopped_ns.unwrap_or_else(clock::monotonic),
        bytes: Bytes(totals.bytes),
        operations: totals.operations,
        connections_carrying: carried.iter().filter(|bytes| **bytes > 0).count() as u32,
        connections_lost: totals.connections_lost,
        lost_reason: totals.lost_reason,
        connection_bytes_min: Bytes(carried.iter().copied().min().unwrap_or(0)),
        connection_bytes_max: Bytes(carried.iter().copied().max().unwrap_or(0)),
        connection_fairness_ppb: fairness_ppb(carried),
        agent_cpu_ns: observed.agent_cpu_ns,
        agent_rss_peak_bytes: process::resident_peak().unwrap_or_default(),
        script: finished.script,
        disk: finished.disk,
        files: finished.files,
    }
}

/// Jain's index in 10^-9, rounded: the square of the sum over n times the sum of the squares (Jain, Chiu and Hawe,
/// DEC-TR-301, 1984).
fn fairness_ppb(carried: &[u64]) -> Option<u64> {
    let sum: f64 = carried.iter().map(|&bytes| bytes as f64).sum();
    let squares: f64 = carried.iter().map(|&bytes| bytes as f64 * bytes as f64).sum();
    (squares > 0.0).then(|| (sum * sum / (carried.len() as f64 * squares) * 1e9).round() as u64)
}

/// Sleeps to `instant`, or until the job is dropped, which is an error.
fn sleep_until(instant: Nanos, cancel: &Cancel) -> Result<(), LoadError> {
    cancel.wait(Some(instant), || false);
    match cancel.is_cancelled() {
        true => Err(dropped()),
        false => Ok(()),
    }
}

/// Waits until every worker is done; after [`REST`] the sockets are shut, which ends those that hang.
fn come_to_rest(running: Option<&Running>, due: Nanos, cancel: &Cancel) -> Result<(), LoadError> {
    let Some(running) = running else { return Ok(()) };
    while !running.is_finished() {
        sleep_until(clock::monotonic().plus(Nanos::MILLISECOND), cancel)?;
        if clock::monotonic() > due.plus(REST) {
            running.stop();
        }
    }
    Ok(())
}

/// Bytes that each connection carried between two counts.
fn grown(before: &[u64], now: &[u64]) -> Vec<u64> {
    now.iter().enumerate().map(|(index, bytes)| bytes - before.get(index).copied().unwrap_or(0)).collect()
}

fn record(
    job: &Job,
    index: u32,
    window: Window,
    before: &Count,
    now: &Count,
    sensors: Vec<Reading>,
) -> Record {
    let moved = grown(&before.tally.totals.connection_bytes, &now.tally.totals.connection_bytes);
    let mut sensors = sensors;
    let span_ns = now.at_ns.minus(before.at_ns);
    sensors.extend(tallies::readings(job, &before.tally.totals, &now.tally.totals, now.at_ns, span_ns));
    let times = arrivals::times(&before.tally.totals, &now.tally.totals);
    sensors.extend(arrivals::reading(&before.tally.totals, &now.tally.totals, now.at_ns, span_ns));
    sensors.extend(targets::reading(&before.tally.targets, &now.tally.targets, now.at_ns, span_ns));
    Record {
        trial: job.trial.clone(),
        index,
        window,
        begin_ns: before.at_ns,
        end_ns: now.at_ns,
        load: LoadCounts {
            bytes: Bytes(now.tally.totals.bytes - before.tally.totals.bytes),
            operations: now.tally.totals.operations - before.tally.totals.operations,
            service_time: now.tally.totals.service_time.since(&before.tally.totals.service_time),
            batch: now.tally.totals.batch.as_ref().map(|batch| match &before.tally.totals.batch {
                Some(before) => batch.since(before),
                None => batch.since(&Snapshot::default()),
            }),
            connections_active: moved.iter().filter(|bytes| **bytes > 0).count() as u32,
            connections_lost: now.tally.totals.connections_lost,
            ..times
        },
        classes: classes::grown(&before.tally.classes, &now.tally.classes),
        sensors,
    }
}
