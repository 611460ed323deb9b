//! What the threads of a program count: each its own sums, some threads together histograms. Nobody takes a lock but for
//! the first error of a flowop.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

use iodyno_core::file_program::FileCall;
use iodyno_core::histogram::{Recorder, Snapshot};
use iodyno_sys::lock::locked;

use iodyno_load::OpenTotals;

use super::compiled::Compiled;
use crate::classes::ClassTotals;

/// chosen: threads share histograms beyond this many (37 KB each); few threads run at a time.
const MOST_SHARDS: usize = 8;
/// chosen: programs with more flowops than this have one histogram for each, so that memory stays bounded.
const MANY_CLASSES: usize = 100;

/// What one thread counted of one flowop. Only that thread writes.
#[derive(Debug, Default)]
pub(super) struct Cell {
    operations: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    total_ns: AtomicU64,
    /// One more than the shortest time; 0: none.
    least_ns: AtomicU64,
    greatest_ns: AtomicU64,
}

#[inline]
fn add(counter: &AtomicU64, grown: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(grown), Relaxed);
}

impl Cell {
    #[inline]
    fn completed(&self, time_ns: u64, bytes: u64) {
        add(&self.operations, 1);
        add(&self.bytes, bytes);
        add(&self.total_ns, time_ns);
        let least = self.least_ns.load(Relaxed);
        if least == 0 || time_ns < least - 1 {
            self.least_ns.store(time_ns + 1, Relaxed);
        }
        if time_ns > self.greatest_ns.load(Relaxed) {
            self.greatest_ns.store(time_ns, Relaxed);
        }
    }

    #[inline]
    pub(super) fn operations(&self) -> u64 {
        self.operations.load(Relaxed)
    }

    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

struct Shard {
    service: Recorder,
    /// Where events are waited for.
    response: Option<Recorder>,
}

struct Class {
    call: FileCall,
    shards: Vec<Shard>,
    first_error: Mutex<Option<String>>,
    has_error: AtomicBool,
}

/// Everything that a program did so far.
#[derive(Clone, Default)]
pub struct Totals {
    /// Bytes moved.
    pub bytes: u64,
    /// Flowops that asked the file system for something.
    pub operations: u64,
    /// Their times.
    pub service_time: Snapshot,
    /// Of a program that waits for events: an arrival is an event.
    pub open_loop: Option<OpenTotals>,
    /// Each flowop, in the order of the program.
    pub classes: Vec<ClassTotals>,
}

/// Sums of one flowop over all threads, without its times' distribution.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub operations: u64,
    pub bytes: u64,
    pub errors: u64,
    pub total_ns: u64,
    pub least_ns: Option<u64>,
    pub greatest_ns: u64,
}

/// Counters of a program.
pub(super) struct Tally {
    classes: Vec<Class>,
    /// By thread, then by the flowop's number in its thread.
    cells: Vec<Box<[Cell]>>,
    /// By class: the first thread that has it, how many have it, its number there.
    places: Vec<(usize, usize, usize)>,
    lateness: Vec<Recorder>,
    waiting: Vec<Recorder>,
    events: AtomicU64,
    first_error: Mutex<Option<String>>,
}

impl Tally {
    pub(super) fn new(compiled: &Compiled, calls: &[FileCall], cpus: usize, paced: bool) -> Self {
        let most = if calls.len() > MANY_CLASSES { 1 } else { cpus.clamp(1, MOST_SHARDS) };
        let mut classes: Vec<Class> = Vec::with_capacity(calls.len());
        let mut places = vec![(0, 0, 0); calls.len()];
        let mut cells = Vec::with_capacity(compiled.threads);
        for group in &compiled.groups {
            for (local, class) in group.classes.iter().enumerate() {
                let shard = || Shard {
                    service: Recorder::default(),
                    response: (paced && group.paced).then(Recorder::default),
                };
                places[*class] = (group.first, group.count(), local);
                // Groups and their flowops come in the order of classes.
                classes.push(Class {
                    call: calls[*class],
                    shards: (0..most.min(group.count().max(1))).map(|_| shard()).collect(),
                    first_error: Mutex::default(),
                    has_error: AtomicBool::new(false),
                });
            }
            for _ in 0..group.count() {
                cells.push(group.classes.iter().map(|_| Cell::default()).collect());
            }
        }
        let recorders = || (0..if paced { most } else { 0 }).map(|_| Recorder::default()).collect();
        Tally {
            classes,
            cells,
            places,
            lateness: recorders(),
            waiting: recorders(),
            events: AtomicU64::new(0),
            first_error: Mutex::default(),
        }
    }

    /// What a flowop does.
    #[inline]
    pub(super) fn call(&self, class: usize) -> FileCall {
        self.classes[class].call
    }

    /// What a thread counted.
    pub(super) fn cells(&self, thread: usize) -> &[Cell] {
        &self.cells[thread]
    }

    /// A flowop was done. `late_ns`: how long after it was to begin it was begun, where that is known.
    #[inline]
    pub(super) fn completed(
        &self,
        thread: usize,
        (class, local): (usize, usize),
        time_ns: u64,
        bytes: u64,
        late_ns: u64,
    ) {
        self.cells[thread][local].completed(time_ns, bytes);
        let shards = &self.classes[class].shards;
        let shard = &shards[thread % shards.len()];
        shard.service.record(time_ns);
        if let Some(response) = &shard.response {
            response.record(time_ns + late_ns);
        }
    }

    /// A thread waited for so many events and went on so late after the last.
    pub(super) fn late(&self, thread: usize, events: u64, late_ns: u64) {
        self.events.fetch_add(events, Relaxed);
        if let Some(recorder) = self.lateness.get(thread % self.lateness.len().max(1)) {
            recorder.record(late_ns);
        }
    }

    /// An event waited so long for a thread.
    pub(super) fn waited(&self, thread: usize, waited_ns: u64) {
        if let Some(recorder) = self.waiting.get(thread % self.waiting.len().max(1)) {
            recorder.record(waited_ns);
        }
    }

    /// A flowop failed; `say` tells how, where it is the first time.
    #[cold]
    pub(super) fn failed(&self, thread: usize, (class, local): (usize, usize), say: impl FnOnce() -> String) {
        add(&self.cells[thread][local].errors, 1);
        let class = &self.classes[class];
        if !class.has_error.swap(true, Relaxed) {
            let text = say();
            locked(&self.first_error).get_or_insert_with(|| text.clone());
            *locked(&class.first_error) = Some(text);
        }
    }

    /// Sums of a flowop.
    pub(super) fn sums(&self, class: usize) -> Sums {
        let (first, threads, local) = self.places[class];
        let mut sums = Sums::default();
        for cells in &self.cells[first..first + threads] {
            let cell = &cells[local];
            sums.operations += cell.operations();
            sums.bytes += cell.bytes();
            sums.errors += cell.errors.load(Relaxed);
            sums.total_ns = sums.total_ns.saturating_add(cell.total_ns.load(Relaxed));
            if let Some(least) = cell.least_ns.load(Relaxed).checked_sub(1) {
                sums.least_ns = Some(sums.least_ns.map_or(least, |known: u64| known.min(least)));
            }
            sums.greatest_ns = sums.greatest_ns.max(cell.greatest_ns.load(Relaxed));
        }
        sums
    }

    /// Bytes and operations of all flowops that are operations.
    pub(super) fn moved(&self) -> (u64, u64) {
        let operations = (0..self.classes.len()).filter(|class| self.classes[*class].call.is_operation());
        operations
            .map(|class| self.sums(class))
            .fold((0, 0), |(bytes, operations), sums| (bytes + sums.bytes, operations + sums.operations))
    }

    /// Why a flowop failed first, and why the first of all did.
    pub(super) fn first_error(&self, class: Option<usize>) -> Option<String> {
        let place = class.map_or(&self.first_error, |class| &self.classes[class].first_error);
        locked(place).clone()
    }

    fn snapshot<'a>(&'a self, counts: impl Fn(&Class) -> bool) -> Snapshot {
        let classes = self.classes.iter().filter(|class| counts(class));
        Snapshot::of(classes.flat_map(|class: &'a Class| &class.shards).map(|shard| &shard.service))
    }

    /// Events that threads went on for, so far.
    pub(super) fn events(&self) -> u64 {
        self.events.load(Relaxed)
    }

    /// Everything so far but for what only the generator of events knows.
    pub(super) fn read(&self, names: &[String]) -> Totals {
        let operation = |class: &Class| class.call.is_operation();
        // Histograms first: what is in one is in the sums, too.
        let service_time = self.snapshot(operation);
        let open_loop = (!self.lateness.is_empty()).then(|| {
            let shards = self.classes.iter().filter(|class| operation(class)).flat_map(|class| &class.shards);
            OpenTotals {
                response_time: Snapshot::of(
                    shards.map(|shard| shard.response.as_ref().unwrap_or(&shard.service)),
                ),
                lateness: Snapshot::of(&self.lateness),
                waiting: Snapshot::of(&self.waiting),
                begun: self.events(),
                ..OpenTotals::default()
            }
        });
        let mut totals = Totals { service_time, open_loop, ..Totals::default() };
        for (number, class) in self.classes.iter().enumerate() {
            let service_time = Snapshot::of(class.shards.iter().map(|shard| &shard.service));
            let has_response = class.shards.iter().any(|shard| shard.response.is_some());
            let response_time = has_response
                .then(|| Snapshot::of(class.shards.iter().filter_map(|shard| shard.response.as_ref())));
            let sums = self.sums(number);
            if operation(class) {
                totals.operations += sums.operations;
                totals.bytes += sums.bytes;
            }
            totals.classes.push(ClassTotals {
                name: names.get(number).cloned().unwrap_or_default(),
                operations: sums.operations,
                bytes: sums.bytes,
                errors: sums.errors,
                service_time,
                response_time,
            });
        }
        totals
    }
}
