//! What the threads of a program, their supervisor and their owner have in common.

use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst,
};
use std::sync::{Condvar, Mutex, OnceLock};

use iodyno_core::file_account::FileEnd;
use iodyno_core::file_program::{FileProgram, Quit};
use iodyno_core::units::Nanos;
use iodyno_load::{Cancel, LoadError};
use iodyno_sys::directory::Directory;
use iodyno_sys::lock::locked;

use super::compiled::Compiled;
use super::events::Events;
use super::fileset::LiveFileset;
use super::layout;
use super::semaphore::{self, Semaphore, Waits};
use super::tally::Tally;

/// What one thread leaves behind. 0: has not happened.
#[derive(Debug, Default)]
pub(super) struct Mark {
    pub thread_id: AtomicI32,
    pub first_ns: AtomicU64,
    pub ended_ns: AtomicU64,
    /// One more than the class of the flowop that waits for other threads.
    pub waits_for: AtomicU32,
}

/// How a program ended, and by whom.
pub(super) type Ended = (FileEnd, Option<String>);

/// Made once a job, before its threads.
pub(super) struct Shared {
    pub program: FileProgram,
    pub compiled: Compiled,
    pub classes: Vec<String>,
    pub filesets: Vec<LiveFileset>,
    pub tally: Tally,
    pub semaphores: Vec<Semaphore>,
    pub waits: Waits,
    pub events: Option<Events>,
    /// One a thread.
    pub marks: Box<[Mark]>,
    /// By class of a limit whose target is in other threads: what was charged so far.
    pub charged: Box<[AtomicU64]>,
    /// Numbers of all threads.
    pub everybody: Vec<usize>,
    pub cancel: Cancel,
    pub cpus: Vec<u32>,
    /// When the load begins; 0: not armed.
    pub start: AtomicU64,
    /// When it is over; 0 once it is, so that one comparison tells.
    pub due: AtomicU64,
    /// How long the load lasts from the start.
    pub load_ns: Nanos,
    /// Bytes by which files may grow.
    room: AtomicI64,
    parked: AtomicU32,
    finished: AtomicU32,
    done: AtomicU32,
    end: OnceLock<Ended>,
    failure: OnceLock<LoadError>,
    gave_up: AtomicBool,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Shared {
    /// Whether files may grow by so many bytes more; they count then.
    pub(super) fn may_grow(&self, bytes: u64) -> bool {
        let bytes = bytes as i64;
        let fits = self.room.fetch_sub(bytes, Relaxed) >= bytes;
        if !fits {
            self.room.fetch_add(bytes, Relaxed);
        }
        fits
    }

    #[allow(clippy::too_many_arguments, reason = "each is one thing that was made before")]
    pub(super) fn new(
        program: FileProgram,
        compiled: Compiled,
        filesets: Vec<LiveFileset>,
        tally: Tally,
        semaphores: Vec<Semaphore>,
        events: Option<Events>,
        cpus: Vec<u32>,
        load_ns: Nanos,
        cancel: &Cancel,
    ) -> Self {
        let classes = program.class_names();
        let free = filesets.first().and_then(|of| of.in_directory(0, Directory::free).ok());
        let room = free.map_or(0, |(free, _)| layout::without_spare(free.0));
        Shared {
            room: AtomicI64::new(i64::try_from(room).unwrap_or(i64::MAX)),
            marks: (0..compiled.threads).map(|_| Mark::default()).collect(),
            everybody: (0..compiled.threads).collect(),
            charged: classes.iter().map(|_| AtomicU64::new(0)).collect(),
            program,
            compiled,
            classes,
            filesets,
            tally,
            semaphores,
            waits: Waits::default(),
            events,
            cancel: cancel.clone(),
            cpus,
            start: AtomicU64::new(0),
            due: AtomicU64::new(u64::MAX),
            load_ns,
            parked: AtomicU32::new(0),
            finished: AtomicU32::new(0),
            done: AtomicU32::new(0),
            end: OnceLock::new(),
            failure: OnceLock::new(),
            gave_up: AtomicBool::new(false),
            lock: Mutex::new(()),
            bell: Condvar::new(),
        }
    }

    /// Has those who wait look again.
    fn ring(&self) {
        drop(locked(&self.lock));
        self.bell.notify_all();
    }

    /// Waits until `done`, or so long at most.
    pub(super) fn wait(&self, longest: std::time::Duration, done: impl Fn() -> bool) {
        let guard = locked(&self.lock);
        if !done() {
            drop(self.bell.wait_timeout(guard, longest));
        }
    }

    /// Says when the load begins.
    pub(super) fn arm(&self, start: Nanos) {
        let due = start.plus(self.load_ns).0;
        // Not over a stop: it stays 0 then.
        let _ = self.due.compare_exchange(u64::MAX, due, SeqCst, SeqCst);
        self.start.store(start.0.max(1), SeqCst);
        self.ring();
    }

    pub(super) fn is_armed(&self) -> bool {
        self.start.load(SeqCst) != 0
    }

    pub(super) fn is_over(&self) -> bool {
        self.due.load(SeqCst) == 0
    }

    /// A thread is ready, or never will be.
    pub(super) fn park(&self) {
        if self.parked.fetch_add(1, SeqCst) + 1 == self.marks.len() as u32 {
            self.ring();
        }
    }

    pub(super) fn all_parked(&self) -> bool {
        self.parked.load(SeqCst) as usize >= self.marks.len()
    }

    /// A thread's end.
    pub(super) fn finish(&self) {
        self.waits.moved();
        if self.finished.fetch_add(1, SeqCst) + 1 == self.marks.len() as u32 {
            self.ring();
        }
    }

    pub(super) fn finished(&self) -> u64 {
        self.finished.load(SeqCst).into()
    }

    pub(super) fn all_finished(&self) -> bool {
        self.finished() as usize >= self.marks.len()
    }

    pub(super) fn threads_done(&self) -> u32 {
        self.done.load(Relaxed)
    }

    /// A thread has nothing left to do, or is done by its count.
    pub(super) fn thread_done(&self, end: FileEnd, by: impl FnOnce() -> String) {
        let all = self.done.fetch_add(1, SeqCst) + 1 == self.marks.len() as u32;
        if self.program.quit != Quit::AllDone {
            self.stop(end, Some(by()));
        } else if all {
            self.stop(FileEnd::AllDone, Some(by()));
        }
    }

    /// Ends the program. The first end is the one that is told.
    pub(super) fn stop(&self, end: FileEnd, by: Option<String>) {
        let _ = self.end.set((end, by));
        self.due.store(0, SeqCst);
        semaphore::stop(&self.waits, self.semaphores.iter());
        self.ring();
    }

    /// Ends the program because it cannot go on.
    pub(super) fn fail(&self, error: LoadError) {
        if !self.cancel.is_cancelled() {
            let _ = self.failure.set(error);
        }
        self.stop(FileEnd::Stopped, None);
    }

    /// Waits no longer for threads that do not end.
    pub(super) fn give_up(&self, error: LoadError) {
        self.fail(error);
        self.gave_up.store(true, SeqCst);
    }

    pub(super) fn gave_up(&self) -> bool {
        self.gave_up.load(SeqCst)
    }

    pub(super) fn failure(&self) -> Option<LoadError> {
        self.failure.get().cloned()
    }

    pub(super) fn end(&self) -> Ended {
        self.end.get().cloned().unwrap_or_default()
    }

    /// The name of a thread in messages.
    pub(super) fn thread_name(&self, thread: usize) -> String {
        let group =
            self.compiled.groups.iter().rev().find(|group| group.first <= thread && group.count() > 0);
        let Some(group) = group else { return String::new() };
        let process = &self.program.processes[group.process];
        let within = thread - group.first;
        let (instance, number) =
            (within / group.threads.max(1) as usize, within % group.threads.max(1) as usize);
        format!("{}-{}.{}-{}", process.name, instance + 1, process.threads[group.thread].name, number + 1)
    }
}
