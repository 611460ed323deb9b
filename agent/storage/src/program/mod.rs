//! Programs of file operations: filesets are laid out, threads carry out their flowops, everything is counted.
//!
//! ```text
//! prepare ─▶ Prepared ── arm(start) ─▶ Running ── join ─▶ Finished
//!   filesets made or found,              read at any time
//!   threads parked
//! ```
//! What Filebench's runtime is known to get wrong is done another way: events come at their instants and not in
//! bursts ([`events`]), a program that ends is timed to its last flowop, a wake-up that comes first is not lost
//! ([`semaphore`]), threads take no lock to count ([`tally`]) or to find a file ([`numbers`]), and a program that can
//! never go on is noticed and named.

mod aio;
mod compiled;
mod events;
mod file_calls;
mod fileset;
mod layout;
mod numbers;
mod place;
mod plan;
mod semaphore;
mod shared;
mod tally;
mod tree;
mod worker_thread;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use iodyno_core::file_account::{FileAccount, FileEnd, FilesetAccount, FlowopAccount};
use iodyno_core::file_program::{FileCall, FileProgram};
use iodyno_core::file_variable::{Value, ValueStream};
use iodyno_core::job::Job;
use iodyno_core::message::ErrorCode;
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{Cancel, LoadError};
use iodyno_sys::lock::locked;
use iodyno_sys::{affinity, clock, limits};

use crate::GRACE;
use compiled::{Compiled, Number};
use events::Events;
use semaphore::Semaphore;
use shared::Shared;
use tally::Tally;
pub use tally::Totals;
use worker_thread::WorkerThread;

/// chosen: stack of a thread: several times what its deepest composites take; only touched pages take memory.
const STACK_BYTES: usize = 512 << 10;
/// chosen: threads are woken this long before the start.
const LEAD: Nanos = Nanos(20_000_000);
/// How often the supervisor looks.
const LOOK: Duration = Duration::from_millis(20);
/// chosen: how long all threads must have waited for each other before that is taken to last for ever.
const STALLED_NS: u64 = 1_000_000_000;
/// Descriptors that the agent needs besides those of a program: sensors, pipes.
const OTHER_DESCRIPTORS: u64 = 512;
/// chosen: threads that wait for each other and are named.
const MOST_NAMED: usize = 6;

/// Lays out the filesets of a job's program and starts its threads, which wait for the start.
///
/// # Errors
/// What is wrong, where and what to try: no room, no right to write, a place that is somebody else's, a limit of the
/// host.
pub fn prepare(job: &Job<FileProgram>, cancel: &Cancel) -> Result<Prepared, LoadError> {
    let program = job.load.clone();
    program.check()?;
    let compiled = Compiled::of(&program);
    let laid = layout::lay_out(&program, cancel)?;
    let (mut filesets, mut accounts) = (Vec::new(), Vec::new());
    for laid in laid {
        filesets.push(laid.live);
        accounts.push(laid.account);
    }
    have_descriptors(&compiled, filesets.iter().map(fileset::LiveFileset::kept_open).sum())?;
    let allowed =
        affinity::allowed().map_err(|error| layout::refused(&error, "read the allowed CPUs", "cpus"))?;
    let cpus = if job.cpus.is_empty() { allowed } else { job.cpus.clone() };
    let stream = |value: &Value, purpose: &str| {
        let variable = program.variables.iter().find(|variable| value.variable() == Some(&variable.name))?;
        Some(ValueStream::new(variable, program.seed, tree::stream_of(purpose)))
    };
    let events = match &program.events_per_s {
        None | Some(Value::Fixed(0)) => None,
        Some(Value::Fixed(per_s)) => Some(Events::even(*per_s)),
        Some(drawn) => stream(drawn, "events").map(Events::varied),
    };
    let calls: Vec<FileCall> = program.placed().iter().map(|at| at.flowop.call).collect();
    let tally = Tally::new(&compiled, &calls, cpus.len(), events.is_some());
    let marks = compiled.semaphores.iter().map(|high_water| {
        Semaphore::new(match high_water {
            Number::Fixed(value) => *value,
            Number::Drawn(variable) => {
                ValueStream::new(&program.variables[*variable], program.seed, tree::stream_of("high water"))
                    .draw()
            }
        })
    });
    let semaphores = marks.collect();
    let load_ns = job.windows.load_ns();
    let shared = Shared::new(program, compiled, filesets, tally, semaphores, events, cpus, load_ns, cancel);
    Crew::start(Arc::new(shared), accounts).map(|crew| Prepared { crew })
}

/// Says what [`prepare`] would refuse on this host, as far as it is known without the filesets.
///
/// # Errors
/// Too few descriptors.
pub fn check(program: &FileProgram) -> Result<(), LoadError> {
    have_descriptors(&Compiled::of(program), 0)
}

/// Whether this process may have as many files open as a program of which `kept` stay open.
fn have_descriptors(compiled: &Compiled, kept: usize) -> Result<(), LoadError> {
    let slots: u64 = compiled.groups.iter().map(|group| (group.slots * group.count()) as u64).sum();
    let wanted = slots + kept as u64 + OTHER_DESCRIPTORS;
    let limit = limits::raise_descriptors(wanted);
    if limit >= wanted {
        return Ok(());
    }
    Err(LoadError {
        code: ErrorCode::Limit,
        what: format!("the program may have {wanted} files open, and the limit is {limit}"),
        place: "files".to_owned(),
        advice: "raise the hard limit of open files (ulimit -Hn), or use fewer threads".to_owned(),
    })
}

/// Whether the filesets of a program can be laid out, asked before any job: nothing is made, written or removed.
///
/// # Errors
/// What [`prepare`] would refuse: no room, no right to write, a place that is somebody else's.
pub fn look(program: &FileProgram) -> Result<(), LoadError> {
    program.check()?;
    layout::look(program)
}

/// Removes the filesets of a program that file programs have made; others stay.
///
/// # Errors
/// What the kernel refused.
pub fn remove(program: &FileProgram) -> Result<(), LoadError> {
    program.check()?;
    layout::remove(program)
}

/// The threads of a program. When dropped, the program is stopped, the threads have ended and the filesets are removed
/// if they are to be.
struct Crew {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    supervisor: Option<JoinHandle<()>>,
    joined: bool,
    filesets: Vec<FilesetAccount>,
    notes: Arc<Mutex<BTreeSet<String>>>,
}

fn builder(name: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES)
}

impl Crew {
    fn start(shared: Arc<Shared>, filesets: Vec<FilesetAccount>) -> Result<Self, LoadError> {
        let notes: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let mut threads = Vec::with_capacity(shared.marks.len());
        let mut failure = None;
        for number in 0..shared.marks.len() {
            let (own, noted) = (Arc::clone(&shared), Arc::clone(&notes));
            match builder("files").spawn(move || work(&own, number, &noted)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    failure = Some(LoadError {
                        code: ErrorCode::Limit,
                        what: format!("cannot start thread {} of {}: {error}", number + 1, shared.marks.len()),
                        place: "files".to_owned(),
                        advice: "raise the limit of threads (ulimit -u, kernel.threads-max, pids.max), or use fewer"
                            .to_owned(),
                    });
                    break;
                }
            }
            if shared.cancel.is_cancelled() {
                break;
            }
        }
        let all = threads.len() == shared.marks.len();
        let own = Arc::clone(&shared);
        let supervisor = if all { builder("supervisor").spawn(move || supervise(&own)).ok() } else { None };
        // From here on, what was started is ended and what was laid out is removed, whatever fails.
        let crew = Crew { shared, threads, supervisor, joined: false, filesets, notes };
        while all && !crew.shared.all_parked() && !crew.shared.cancel.is_cancelled() {
            crew.shared.wait(LOOK, || crew.shared.all_parked());
        }
        let cancelled = crew.shared.cancel.is_cancelled();
        if let Some(error) = failure.or_else(|| crew.shared.failure()) {
            return Err(error);
        }
        if cancelled || crew.supervisor.is_none() {
            let (what, advice) = ("the job was cancelled".to_owned(), "prepare it again".to_owned());
            return Err(LoadError { code: ErrorCode::Transport, what, place: "job".to_owned(), advice });
        }
        Ok(crew)
    }

    fn end(&self) {
        self.shared.stop(FileEnd::Stopped, None);
    }

    /// Waits for the threads' end, and removes what is to be removed; once.
    fn join(&mut self) {
        if std::mem::replace(&mut self.joined, true) {
            return;
        }
        // One that panicked has said so on stderr; the counters stand as they are.
        if let Some(supervisor) = self.supervisor.take() {
            drop(supervisor.join());
        }
        let until = clock::monotonic().plus(GRACE);
        let hang = |threads: &[JoinHandle<()>]| threads.iter().any(|thread| !thread.is_finished());
        while hang(&self.threads) && !self.shared.gave_up() && clock::monotonic() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        if hang(&self.threads) {
            // They are left to themselves, and end with the process; to remove their files would hang as they do.
            return;
        }
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
        let program = &self.shared.program;
        let outcome = if program.remove_after { layout::remove(program) } else { layout::rest(program) };
        if let Err(error) = outcome {
            self.note(error.to_string());
        }
    }

    fn note(&self, text: String) {
        locked(&self.notes).insert(text);
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if !self.joined {
            self.end();
            self.join();
        }
    }
}

/// A thread from its begin to its end.
fn work(shared: &Shared, number: usize, notes: &Mutex<BTreeSet<String>>) {
    let groups = shared.compiled.groups.iter().rev();
    let group = groups.filter(|group| group.count() > 0).find(|group| group.first <= number);
    let Some(group) = group else { return };
    let thread = WorkerThread::new(shared, group, number);
    let mut thread = match thread {
        Ok(thread) => thread,
        Err(error) => {
            shared.fail(error);
            shared.park();
            shared.finish();
            return;
        }
    };
    if let Some(refused) = thread.settle() {
        locked(notes).insert(refused);
    }
    shared.park();
    while !shared.is_armed() && !shared.is_over() {
        shared.wait(Duration::from_secs(1), || shared.is_armed() || shared.is_over());
    }
    let start = Nanos(shared.start.load(Relaxed));
    if shared.is_armed() && clock::sleep_until(start.minus(LEAD)).is_ok() && !shared.is_over() {
        thread.run();
    }
    shared.finish();
    thread.close_all();
}

/// Ends what does not end by itself: at the end of the windows, when the job is cancelled, when nobody can go on.
fn supervise(shared: &Shared) {
    let mut stalled: Option<(u64, u64)> = None;
    let mut over_since = None;
    while !shared.all_finished() {
        shared.wait(LOOK, || shared.all_finished());
        let now = clock::monotonic().0;
        if shared.cancel.is_cancelled() {
            shared.stop(FileEnd::Stopped, None);
        } else if shared.is_armed() && now >= shared.due.load(Relaxed) && !shared.is_over() {
            shared.stop(FileEnd::Windows, None);
        }
        if shared.is_over() && now - *over_since.get_or_insert(now) > GRACE.0 {
            return shared.give_up(hanging(shared));
        }
        let (waiting, moves) = shared.waits.state();
        let alive = shared.marks.len() as u64 - shared.finished();
        if shared.is_over() || alive == 0 || waiting < alive {
            stalled = None;
            continue;
        }
        match stalled {
            Some((since, known)) if known == moves => {
                if now - since > STALLED_NS {
                    shared.fail(deadlock(shared));
                }
            }
            _ => stalled = Some((now, moves)),
        }
    }
}

/// Threads are in a call that does not return: of a server that is gone, of a device that does not answer.
fn hanging(shared: &Shared) -> LoadError {
    let ended = |number: &usize| shared.marks[*number].ended_ns.load(Relaxed) > 0;
    let hang: Vec<usize> = (0..shared.marks.len()).filter(|number| !ended(number)).collect();
    let named: Vec<String> = hang.iter().take(MOST_NAMED).map(|thread| shared.thread_name(*thread)).collect();
    layout::failure(
        format!(
            "{} threads have not ended {} s after the program did, and were given up ({})",
            hang.len(),
            GRACE.0 / Nanos::SECOND.0,
            named.join(", ")
        ),
        "files",
        "look at what holds the files: a server that does not answer, a device that hangs (dmesg)",
    )
}

/// Every thread that has not ended waits for another one.
fn deadlock(shared: &Shared) -> LoadError {
    let waits = shared.marks.iter().enumerate().filter_map(|(thread, mark)| {
        let class = (mark.waits_for.load(Relaxed) as usize).checked_sub(1)?;
        Some(format!("{} in {}", shared.thread_name(thread), shared.classes[class]))
    });
    let mut named: Vec<String> = waits.collect();
    let all = named.len();
    if all > MOST_NAMED {
        named.truncate(MOST_NAMED);
        named.push(format!("{} more", all - MOST_NAMED));
    }
    LoadError {
        code: ErrorCode::Job,
        what: format!(
            "the program can never go on: every thread waits for another one ({})",
            named.join(", ")
        ),
        place: "files.processes".to_owned(),
        advice: "see that every block has a wakeup, and every semblock a sempost, in another thread"
            .to_owned(),
    }
}

/// A program whose filesets stand and whose threads wait. Dropping it ends them.
pub struct Prepared {
    crew: Crew,
}

impl Prepared {
    /// Threads of the program.
    #[must_use]
    pub fn workers(&self) -> u32 {
        self.crew.shared.marks.len() as u32
    }

    /// Kernel thread ids of the threads.
    #[must_use]
    pub fn thread_ids(&self) -> Vec<i32> {
        self.crew.shared.marks.iter().map(|mark| mark.thread_id.load(Relaxed)).collect()
    }

    /// Starts the program at `start` on the `CLOCK_MONOTONIC` axis; a start that is past is now.
    #[must_use]
    pub fn arm(self, start: Nanos) -> Running {
        self.crew.shared.arm(start);
        Running { crew: self.crew }
    }
}

/// A program that was armed. Dropping it stops it.
pub struct Running {
    crew: Crew,
}

impl Running {
    /// Reads its counters.
    #[must_use]
    pub fn read(&self) -> Totals {
        read(&self.crew.shared)
    }

    /// Bytes and operations so far, at a fraction of what all counters take.
    #[must_use]
    pub fn moved(&self) -> (u64, u64) {
        self.crew.shared.tally.moved()
    }

    /// Ends the program now.
    pub fn stop(&self) {
        self.crew.end();
    }

    /// Whether every thread has ended; it may be before the windows are over.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.crew.shared.all_finished() || self.crew.shared.gave_up()
    }

    /// When the last thread so far ended; none has: `None`.
    #[must_use]
    pub fn ended_ns(&self) -> Option<Nanos> {
        let ended = self.crew.shared.marks.iter().map(|mark| mark.ended_ns.load(Relaxed));
        ended.filter(|ended| *ended > 0).max().map(Nanos)
    }

    /// Why the program failed; none: it did not.
    #[must_use]
    pub fn failure(&self) -> Option<LoadError> {
        self.crew.shared.failure()
    }

    /// Waits until every thread has ended, by itself or by [`Running::stop`], and removes the filesets if they are to
    /// be.
    #[must_use]
    pub fn join(mut self) -> Finished {
        self.crew.join();
        let shared = &self.crew.shared;
        let firsts =
            || shared.marks.iter().map(|mark| mark.first_ns.load(Relaxed)).filter(|first| *first > 0);
        let stopped_ns = self.ended_ns();
        Finished {
            first_operation_ns: firsts().min().map(Nanos),
            last_worker_started_ns: firsts().max().map(Nanos),
            stopped_ns,
            totals: read(shared),
            account: account(&self.crew, stopped_ns),
            failure: shared.failure(),
        }
    }
}

/// Everything counted so far.
fn read(shared: &Shared) -> Totals {
    let mut totals = shared.tally.read(&shared.classes);
    let start = shared.start.load(Relaxed);
    if let (Some(open), Some(events), true) = (&mut totals.open_loop, &shared.events, start > 0) {
        let over = shared.all_finished();
        let lasted = clock::monotonic().0.saturating_sub(start).min(shared.load_ns.0);
        // The last instant of the windows is no longer in them.
        let due = events.due(if over { lasted.saturating_sub(1) } else { lasted });
        open.due = due.unwrap_or(open.begun).max(open.begun);
        let left = open.due - open.begun;
        *(if over { &mut open.missed } else { &mut open.backlog }) = left;
    }
    totals
}

/// What a program did.
#[derive(Clone)]
pub struct Finished {
    /// When its first thread began; absent: none did.
    pub first_operation_ns: Option<Nanos>,
    /// When its last thread began.
    pub last_worker_started_ns: Option<Nanos>,
    /// When its last thread ended.
    pub stopped_ns: Option<Nanos>,
    /// Everything counted.
    pub totals: Totals,
    /// What is told of it.
    pub account: FileAccount,
    /// Why it failed, where it did.
    pub failure: Option<LoadError>,
}

fn account(crew: &Crew, stopped_ns: Option<Nanos>) -> FileAccount {
    let shared = &crew.shared;
    let (end, ended_by) = shared.end();
    let flowop = |(class, at): (usize, &iodyno_core::file_program::Placed<'_>)| {
        let sums = shared.tally.sums(class);
        let process = &shared.program.processes[at.process];
        FlowopAccount {
            class: shared.classes[class].clone(),
            process: process.name.clone(),
            thread: process.threads[at.thread].name.clone(),
            name: at.flowop.name.clone(),
            call: at.flowop.call,
            operations: sums.operations,
            errors: sums.errors,
            bytes: Bytes(sums.bytes),
            least_ns: sums.least_ns.map(Nanos),
            greatest_ns: sums.least_ns.map(|_| Nanos(sums.greatest_ns)),
            total_ns: Nanos(sums.total_ns),
            first_error: shared.tally.first_error(Some(class)),
        }
    };
    let placed = shared.program.placed();
    let mut notes: Vec<String> = locked(&crew.notes).iter().cloned().collect();
    if shared.program.processes.iter().map(|process| process.instances).sum::<u32>() > 1 {
        notes.push("processes are groups of threads of one process".to_owned());
    }
    if placed.iter().any(|at| at.flowop.call == FileCall::AioWrite) {
        notes.push(aio::told());
    }
    FileAccount {
        end,
        ended_by,
        elapsed_ns: stopped_ns.unwrap_or_default().minus(Nanos(shared.start.load(Relaxed))),
        processes: shared.program.processes.iter().map(|process| process.instances).sum(),
        threads: shared.marks.len() as u32,
        threads_done: shared.threads_done(),
        flowops: placed.iter().enumerate().map(flowop).collect(),
        first_error: shared.tally.first_error(None),
        filesets: crew.filesets.clone(),
        notes,
    }
}
