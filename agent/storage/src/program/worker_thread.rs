//! A thread of a program: its flowops in order, over and over, until the program is over.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::Arc;

use iodyno_core::file_account::FileEnd;
use iodyno_core::file_program::{FileCall, MAX_IO_BYTES};
use iodyno_core::file_variable::ValueStream;
use iodyno_core::message::ErrorCode;
use iodyno_core::random::Random;
use iodyno_core::units::Nanos;
use iodyno_load::LoadError;
use iodyno_sys::io_memory::IoMemory;
use iodyno_sys::operation_clock::OperationClock;
use iodyno_sys::{affinity, clock, errno, priority, process, realtime};

use super::aio::Aio;
use super::compiled::{Compiled, Group, Number, Step};
use super::semaphore::Semaphore;
use super::shared::Shared;

/// chosen: memory of a thread that data is moved through, at most, unless one call moves more: several times what a
/// CPU's own cache holds.
const MOST_MEMORY: u64 = 1 << 20;
/// chosen: how long a pause lasts at most before the thread looks whether the program is over.
const SLICE_NS: u64 = 50_000_000;
/// chosen: flowops in a row that fail, without one that does not, before a thread is taken to do nothing else.
const MOST_FAILURES: u32 = 100_000;
/// Events of `bwlimit` are MiB.
const MIB: u64 = 1 << 20;
/// Stores of a `hog` between two looks at the clock.
const HOG_STRIDE: u64 = 1 << 20;

/// Of errno(3): the descriptor is not open for that.
const EBADF: i32 = 9;

/// What an error means to who wrote the program.
fn meaning(what: &str) -> &'static str {
    let known = [
        (EBADF, "its file is not open for that call (readonly, writeonly)"),
        (errno::EINVAL, "with directio lengths and places are multiples of the device's sectors"),
        (errno::EMFILE, "too many files are open: close what is opened, or raise ulimit -n"),
        (errno::ENOSPC, "the file system is full: a larger one, fewer bytes, or a shorter run"),
    ];
    let number = |number: &i32| what.contains(&format!("(os error {number})"));
    known
        .iter()
        .find(|(known, _)| number(known))
        .map_or("its error says why it fails", |(_, meaning)| meaning)
}

/// An open file.
pub(super) struct Open {
    pub file: Arc<File>,
    pub fileset: usize,
    /// Which one; none: it was removed meanwhile.
    pub entry: Option<u64>,
    /// How long it is by the fileset.
    pub size: u64,
    /// Where the next piece begins.
    pub position: u64,
}

/// What came of a flowop.
pub(super) enum Outcome {
    /// It was done, and moved so many bytes.
    Done(u64),
    /// It was not to be done, or nothing was there to do it to at the moment; it does not count.
    Passed,
    /// No file is left for it.
    NoFile,
    /// The thread is done by its count; whether what it did since it was last asked was one of them.
    Counted { of_work: bool },
    /// The program was stopped meanwhile.
    Stopped,
    /// The kernel refused something.
    Refused(io::Error),
    /// The program asks for what cannot be.
    Wrong(&'static str),
}

/// A thread goes on, or does not.
#[derive(PartialEq)]
enum Next {
    On,
    End,
}

/// A thread of a program while it runs.
pub(super) struct WorkerThread<'a> {
    pub shared: &'a Shared,
    pub group: &'a Group,
    pub number: usize,
    within: usize,
    pub slots: Vec<Option<Open>>,
    /// Fileset and number of the file that was closed last in each place.
    pub closed: Vec<Option<(usize, u64)>>,
    pub rotors: Vec<usize>,
    /// Where the search for the next file of a thread's own rotation begins, by fileset.
    pub places: Vec<u64>,
    streams: Vec<ValueStream>,
    pub memory: IoMemory,
    pub random: Random,
    pub aio: Option<Aio>,
    /// The place of the file that was used last.
    pub last: Option<usize>,
    clock: OperationClock,
    /// The last reading of the clock: the end of a flowop and the begin of the next.
    pub now: u64,
    /// When the flowop in hand was begun.
    pub begun: u64,
    /// How long after its event this pass was begun.
    late_ns: u64,
    /// What limits have charged, by the flowop's number in the thread.
    charged: Vec<u64>,
    failures: u32,
    /// Since the thread was last asked for its end: whether it did something, and whether it passed something over.
    worked: bool,
    passed: bool,
    /// All threads of its instance of its process, itself too.
    peers: Vec<usize>,
}

impl<'a> WorkerThread<'a> {
    /// Of thread `number` of the program; takes the memory that it needs.
    pub(super) fn new(shared: &'a Shared, group: &'a Group, number: usize) -> Result<Self, LoadError> {
        let within = number - group.first;
        let memory = |error: io::Error| LoadError {
            code: ErrorCode::Limit,
            what: format!("cannot get memory for the data of {}: {error}", shared.thread_name(number)),
            place: "memory_bytes".to_owned(),
            advice: "use fewer threads, or less memory or shorter transfers of each".to_owned(),
        };
        let of = &shared.program.processes[group.process].threads[group.thread];
        let variables = &shared.program.variables;
        let streams = variables.iter().enumerate().map(|(index, variable)| {
            let stream = (number as u64) << 20 | index as u64;
            ValueStream::new(variable, shared.program.seed, stream)
        });
        let longest = longest_io(&group.steps, variables);
        let length = of.memory_bytes.0.min(MOST_MEMORY).max(longest.min(MAX_IO_BYTES)).max(4096);
        let aio = has_aio(&group.steps).then(|| Aio::new(longest.min(MAX_IO_BYTES) as usize)).transpose();
        let instance = within / group.threads.max(1) as usize;
        let groups = shared.compiled.groups.iter().filter(|other| other.process == group.process);
        let peers = groups.flat_map(|other| {
            let first = other.first + instance * other.threads as usize;
            first..first + other.threads as usize
        });
        let mut slots = Vec::new();
        slots.resize_with(group.slots, || None);
        Ok(WorkerThread {
            shared,
            group,
            number,
            within,
            slots,
            closed: vec![None; group.slots],
            rotors: vec![0; group.rotors],
            places: vec![0; shared.filesets.len()],
            streams: streams.collect(),
            memory: IoMemory::new(length as usize).map_err(memory)?,
            random: Random::new(shared.program.seed, (number as u64) << 20 | 0xf_ffff),
            aio: aio.map_err(memory)?,
            last: None,
            clock: OperationClock::new(),
            now: 0,
            begun: 0,
            late_ns: 0,
            charged: vec![0; group.classes.len()],
            failures: 0,
            worked: false,
            passed: false,
            peers: peers.collect(),
        })
    }

    /// Settles the calling thread: its CPUs, its priorities. What was refused, to be told.
    pub(super) fn settle(&self) -> Option<String> {
        let mark = &self.shared.marks[self.number];
        mark.thread_id.store(process::thread_id(), Relaxed);
        let _ = affinity::restrict(&self.shared.cpus);
        let _ = realtime::sharpen_timers();
        let of = &self.shared.program.processes[self.group.process];
        let mut refused = None;
        if of.nice != 0 {
            if let Err(error) = priority::set_nice(of.nice) {
                refused = Some(format!("nice {} of process {} was refused: {error}", of.nice, of.name));
            }
        }
        if let Some(level) = of.threads[self.group.thread].io_priority {
            if let Err(error) = priority::set_io_priority(level) {
                refused = Some(format!("I/O priority {level} of process {} was refused: {error}", of.name));
            }
        }
        refused
    }

    /// From the start to the end.
    pub(super) fn run(&mut self) {
        let start = self.shared.start.load(SeqCst);
        self.tick();
        self.pause_until(start);
        let mark = &self.shared.marks[self.number];
        mark.first_ns.store(self.now, Relaxed);
        let group = self.group;
        while !self.is_over() && self.all(&group.steps) == Next::On {
            // A pass may have nothing in it that reads the clock.
            self.tick();
        }
        mark.ended_ns.store(self.now, Relaxed);
    }

    /// Closes every file, after the end: what that takes is nobody's.
    pub(super) fn close_all(&mut self) {
        drop(self.aio.take());
        for slot in 0..self.slots.len() {
            if let Some(open) = self.slots[slot].take() {
                self.forget(&open);
            }
        }
    }

    /// An open file is no longer open here.
    pub(super) fn forget(&self, open: &Open) {
        if let Some(entry) = open.entry {
            self.shared.filesets[open.fileset].release(entry);
        }
    }

    #[inline]
    pub(super) fn tick(&mut self) {
        self.now = self.clock.now().0;
    }

    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.now >= self.shared.due.load(Relaxed)
    }

    /// Sleeps until `until`, or until the program is over; whether it is not.
    fn pause_until(&mut self, until: u64) -> bool {
        while self.now < until && !self.is_over() {
            let due = self.shared.due.load(Relaxed);
            // An absolute sleep fails for a malformed time only, which this is not.
            let _ = clock::sleep_until(Nanos(until.min(due).min(self.now + SLICE_NS)));
            self.tick();
        }
        !self.is_over()
    }

    #[inline]
    pub(super) fn value(&mut self, number: Number) -> u64 {
        match number {
            Number::Fixed(value) => value,
            Number::Drawn(stream) => self.streams[stream].draw(),
        }
    }

    fn all(&mut self, steps: &'a [Step]) -> Next {
        for step in steps {
            let mut left = self.value(step.iterations);
            while left > 0 {
                left -= 1;
                if self.one(step) == Next::End {
                    return Next::End;
                }
            }
        }
        Next::On
    }

    fn one(&mut self, step: &'a Step) -> Next {
        self.begun = self.now;
        if step.call == FileCall::Composite {
            let begun = self.now;
            if self.all(&step.steps) == Next::End {
                return Next::End;
            }
            self.tick();
            self.count(step, begun, 0);
            return if self.is_over() { Next::End } else { Next::On };
        }
        let outcome = self.carry_out(step);
        self.tick();
        match outcome {
            Outcome::Done(bytes) => {
                self.failures = 0;
                self.worked |= step.call.is_operation();
                self.count(step, self.begun, bytes);
            }
            Outcome::Passed => self.passed |= step.call.is_operation(),
            Outcome::NoFile => {
                self.done(step, FileEnd::NoFile);
                return Next::End;
            }
            Outcome::Counted { of_work } => {
                if of_work {
                    self.count(step, self.begun, 0);
                }
                self.done(step, FileEnd::Count);
                return Next::End;
            }
            Outcome::Stopped => return Next::End,
            Outcome::Refused(error) => return self.failed(step, &error.to_string()),
            Outcome::Wrong(what) => return self.failed(step, what),
        }
        if self.is_over() {
            Next::End
        } else {
            Next::On
        }
    }

    #[inline]
    fn count(&mut self, step: &Step, begun: u64, bytes: u64) {
        let time = self.now.saturating_sub(begun);
        self.shared.tally.completed(self.number, (step.class, step.local), time, bytes, self.late_ns);
    }

    fn done(&self, step: &Step, end: FileEnd) {
        let by = || {
            format!("{}, flowop {}", self.shared.thread_name(self.number), self.shared.classes[step.class])
        };
        self.shared.thread_done(end, by);
    }

    #[cold]
    fn failed(&mut self, step: &Step, what: &str) -> Next {
        let name = &self.shared.classes[step.class];
        let call = step.call.name();
        let say = || format!("{}, flowop {name} ({call}): {what}", self.shared.thread_name(self.number));
        self.failures += 1;
        if self.failures == MOST_FAILURES {
            self.shared.fail(LoadError {
                // It would be the same the next time.
                code: ErrorCode::Job,
                what: format!("{} flowops in a row failed, the last one: {}", MOST_FAILURES, say()),
                place: self.shared.program.directory.clone(),
                advice: format!("correct the flowop {name}: {}", meaning(what)),
            });
        }
        self.shared.tally.failed(self.number, (step.class, step.local), say);
        if self.is_over() {
            Next::End
        } else {
            Next::On
        }
    }

    fn carry_out(&mut self, step: &'a Step) -> Outcome {
        match step.call {
            FileCall::Hog => self.hog(step),
            FileCall::Delay => {
                let value = self.value(step.value);
                let until = self.now.saturating_add(value.saturating_mul(step.unit_ns));
                if self.pause_until(until) {
                    Outcome::Done(0)
                } else {
                    Outcome::Stopped
                }
            }
            FileCall::Block => self.at_semaphore(step, |semaphore, shared| semaphore.block(&shared.waits)),
            FileCall::SemBlock => {
                let value = self.value(step.value);
                self.at_semaphore(step, |semaphore, shared| semaphore.take(&shared.waits, value))
            }
            FileCall::Wakeup => {
                step.targets
                    .iter()
                    .for_each(|target| self.shared.semaphores[*target].wake(&self.shared.waits));
                Outcome::Done(0)
            }
            FileCall::SemPost => self.post(step),
            FileCall::EventLimit | FileCall::OpsLimit | FileCall::IopsLimit | FileCall::BwLimit => {
                self.limit(step)
            }
            FileCall::FinishOnCount => {
                let value = self.value(step.value);
                self.finish_on(step, value, false)
            }
            FileCall::FinishOnBytes => {
                let value = self.value(step.value);
                self.finish_on(step, value, true)
            }
            _ => self.file_call(step),
        }
    }

    fn hog(&mut self, step: &Step) -> Outcome {
        let mut left = self.value(step.value);
        let mut place = 0_u8;
        while left > 0 {
            for _ in 0..left.min(HOG_STRIDE) {
                *std::hint::black_box(&mut place) = 1;
            }
            left = left.saturating_sub(HOG_STRIDE);
            if left > 0 {
                self.tick();
                if self.is_over() {
                    return Outcome::Stopped;
                }
            }
        }
        Outcome::Done(0)
    }

    /// Waits for other threads.
    fn at_semaphore(&self, step: &Step, wait: impl FnOnce(&Semaphore, &Shared) -> bool) -> Outcome {
        let Some(semaphore) = Compiled::semaphore(self.group, step.local, self.within) else {
            return Outcome::Wrong("there is no place to wait at");
        };
        if self.waiting(step, || wait(&self.shared.semaphores[semaphore], self.shared)) {
            Outcome::Done(0)
        } else {
            Outcome::Stopped
        }
    }

    fn waiting(&self, step: &Step, wait: impl FnOnce() -> bool) -> bool {
        let mark = &self.shared.marks[self.number].waits_for;
        mark.store(step.class as u32 + 1, Relaxed);
        let outcome = wait();
        if outcome {
            mark.store(0, Relaxed);
        }
        outcome
    }

    fn post(&mut self, step: &Step) -> Outcome {
        for target in &step.targets {
            let value = self.value(step.value);
            let semaphore = &self.shared.semaphores[*target];
            if !self.waiting(step, || semaphore.post(&self.shared.waits, value, step.blocking)) {
                return Outcome::Stopped;
            }
        }
        Outcome::Done(0)
    }

    /// What a limit or an end counts: of the flowops that it names, else of all of this thread.
    fn counted(&self, step: &Step, threads: &[usize]) -> (u64, u64, u64) {
        let (mut operations, mut transfers, mut bytes) = (0, 0, 0);
        for thread in threads {
            let group = self
                .shared
                .compiled
                .groups
                .iter()
                .rev()
                .find(|group| group.first <= *thread && group.count() > 0);
            let Some(group) = group else { continue };
            for (cell, class) in self.shared.tally.cells(*thread).iter().zip(&group.classes) {
                let call = self.shared.tally.call(*class);
                if if step.counted.is_empty() { !call.is_operation() } else { !step.counted.contains(class) }
                {
                    continue;
                }
                operations += cell.operations();
                bytes += cell.bytes();
                if call.moves_data() {
                    transfers += cell.operations();
                }
            }
        }
        (operations, transfers, bytes)
    }

    fn limit(&mut self, step: &Step) -> Outcome {
        let shared = self.shared;
        let Some(events) = &shared.events else { return Outcome::Passed };
        let count = if step.call == FileCall::EventLimit {
            1
        } else {
            // Those of this thread, so that each is charged once; of others' only where none of its own is named.
            let own = step.counted.is_empty()
                || step.counted.iter().any(|class| self.group.classes.contains(class));
            let (operations, transfers, bytes) =
                if own { self.counted(step, &[self.number]) } else { self.counted(step, &shared.everybody) };
            let total = match step.call {
                FileCall::OpsLimit => operations,
                FileCall::IopsLimit => transfers,
                // What is left of a MiB is charged with the next one.
                _ => bytes / MIB,
            };
            let before = if own {
                std::mem::replace(&mut self.charged[step.local], total)
            } else {
                shared.charged[step.class].fetch_max(total, SeqCst)
            };
            total.saturating_sub(before)
        };
        if count == 0 {
            return Outcome::Done(0);
        }
        let at = shared.start.load(Relaxed).saturating_add(events.take(count));
        let arrived = self.now;
        if !self.pause_until(at) {
            return Outcome::Stopped;
        }
        self.late_ns = self.now.saturating_sub(at);
        shared.tally.late(self.number, count, if arrived < at { self.late_ns } else { 0 });
        if arrived > at {
            shared.tally.waited(self.number, arrived - at);
        }
        Outcome::Done(0)
    }

    fn finish_on(&mut self, step: &Step, value: u64, of_bytes: bool) -> Outcome {
        let (operations, _, bytes) = self.counted(step, &self.peers);
        // A pass whose files others had has done nothing that an end could be counted with.
        let of_work = self.worked || !self.passed;
        (self.worked, self.passed) = (false, false);
        if (if of_bytes { bytes } else { operations }) >= value {
            Outcome::Counted { of_work }
        } else if of_work {
            Outcome::Done(0)
        } else {
            Outcome::Passed
        }
    }
}

/// The longest transfer of one call that a thread is known to make; drawn lengths without a bound are not.
fn longest_io(steps: &[Step], variables: &[iodyno_core::file_variable::Variable]) -> u64 {
    let of = |step: &Step| match step.io_bytes {
        Number::Fixed(bytes) if step.call.moves_data() => bytes,
        Number::Drawn(stream) => variables[stream].bound().unwrap_or(MOST_MEMORY).min(MOST_MEMORY),
        Number::Fixed(_) => 0,
    };
    steps.iter().map(|step| of(step).max(longest_io(&step.steps, variables))).max().unwrap_or(0)
}

fn has_aio(steps: &[Step]) -> bool {
    steps.iter().any(|step| step.call == FileCall::AioWrite || has_aio(&step.steps))
}
