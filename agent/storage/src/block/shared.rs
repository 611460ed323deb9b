//! What the workers of a storage job and its owner have in common.

use std::fs::File;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst,
};
use std::sync::{Arc, Mutex, OnceLock};

use iodyno_core::block_check::{UnitCheck, Wrong};
use iodyno_core::block_pattern::{Extent, Place};
use iodyno_core::disk::{Degraded, Disk, TargetAccount};
use iodyno_core::job::Job;
use iodyno_core::units::Nanos;
use iodyno_load::{LoadError, OpenLoop};
use iodyno_sys::clock;
use iodyno_sys::lock::locked;

use super::counters::{Class, Counters};
use super::units::Units;
use crate::GRACE;

/// What one worker leaves behind. 0: has not happened.
#[derive(Default)]
pub(crate) struct Mark {
    pub thread_id: AtomicI32,
    pub first_ns: AtomicU64,
    pub ended_ns: AtomicU64,
    /// Operations that it gave up.
    pub given_up: AtomicU64,
}

/// An operation that failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub class: Class,
    pub place: Place,
    /// 0: the target ended before the block did.
    pub error: i32,
}

/// Made once a job, before its threads.
pub(crate) struct Shared {
    /// How long the load is on.
    load_ns: Nanos,
    /// Whether the CPU time of the workers is bounded.
    has_quota: bool,
    pub disk: Disk,
    pub files: Arc<[File]>,
    pub extents: Vec<Extent>,
    pub accounts: Vec<TargetAccount>,
    pub counters: Counters,
    pub open: Option<OpenLoop>,
    pub units: Option<Units>,
    /// CPUs that the workers run on.
    pub cpus: Vec<u32>,
    pub realtime: Result<(), String>,
    /// Operations that may still be begun, where they are counted.
    pub left: Option<AtomicI64>,
    /// Operations of the trace that were begun.
    pub replayed: AtomicU64,
    pub marks: Box<[Mark]>,
    pub start: AtomicU64,
    /// When workers stop; 0 once the job was stopped, so that one comparison tells both.
    pub due: AtomicU64,
    /// When the job was stopped early; 0: it was not.
    stopped: AtomicU64,
    released: AtomicBool,
    parked: AtomicU32,
    finished: AtomicU32,
    pub complete: AtomicBool,
    pub errors: AtomicU64,
    pub first_failure: OnceLock<Failure>,
    pub shorts: AtomicU64,
    pub would_block: AtomicU64,
    pub verified: AtomicU64,
    pub verify_skipped: AtomicU64,
    pub verify_failures: AtomicU64,
    pub first_wrong: OnceLock<(UnitCheck, Wrong)>,
    pub degraded: Mutex<Vec<Degraded>>,
    pub trouble: Mutex<Option<LoadError>>,
}

impl Shared {
    #[allow(clippy::too_many_arguments, reason = "made in one place")]
    pub(crate) fn new(
        job: &Job<Disk>,
        disk: &Disk,
        files: Vec<File>,
        extents: Vec<Extent>,
        accounts: Vec<TargetAccount>,
        open: Option<OpenLoop>,
        units: Option<Units>,
        cpus: Vec<u32>,
        realtime: Result<(), String>,
        degraded: Vec<Degraded>,
    ) -> Self {
        Shared {
            load_ns: job.windows.load_ns(),
            has_quota: job.cpu_quota_percent.is_some(),
            counters: Counters::new(disk, open.is_some()),
            left: disk.operations.map(|count| AtomicI64::new(i64::try_from(count).unwrap_or(i64::MAX))),
            marks: (0..disk.workers).map(|_| Mark::default()).collect(),
            disk: disk.clone(),
            files: files.into(),
            extents,
            accounts,
            open,
            units,
            cpus,
            realtime,
            replayed: AtomicU64::new(0),
            start: AtomicU64::new(0),
            due: AtomicU64::new(u64::MAX),
            stopped: AtomicU64::new(0),
            released: AtomicBool::new(false),
            parked: AtomicU32::new(0),
            finished: AtomicU32::new(0),
            complete: AtomicBool::new(false),
            errors: AtomicU64::new(0),
            first_failure: OnceLock::new(),
            shorts: AtomicU64::new(0),
            would_block: AtomicU64::new(0),
            verified: AtomicU64::new(0),
            verify_skipped: AtomicU64::new(0),
            verify_failures: AtomicU64::new(0),
            first_wrong: OnceLock::new(),
            degraded: Mutex::new(degraded),
            trouble: Mutex::new(None),
        }
    }

    /// Whether a worker may look at the clock for a moment before an operation is due: each has a CPU, and no quota to use up.
    pub(crate) fn may_spin(&self) -> bool {
        self.marks.len() <= self.cpus.len() && !self.has_quota
    }

    /// Says when the load begins; workers must be unparked afterwards.
    pub(crate) fn arm(&self, start: Nanos) {
        let due = start.plus(self.load_ns);
        if let Some(open) = &self.open {
            open.arm(start.max(Nanos(1)), due);
        }
        // Not over a stop: `due` stays 0 then.
        let _ = self.due.compare_exchange(u64::MAX, due.0, SeqCst, SeqCst);
        self.start.store(start.0.max(1), SeqCst);
        self.released.store(true, SeqCst);
    }

    /// Ends the load: nobody begins another operation.
    pub(crate) fn stop(&self) {
        self.due.store(0, SeqCst);
        let _ = self.stopped.compare_exchange(0, clock::monotonic().0.max(1), SeqCst, SeqCst);
        self.released.store(true, SeqCst);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(SeqCst) > 0
    }

    /// Whether what has not come to rest is given up.
    pub(crate) fn gave_up(&self) -> bool {
        let stopped = self.stopped.load(SeqCst);
        let start = self.start.load(SeqCst);
        let end = if stopped > 0 { stopped } else { start + self.load_ns.0 };
        (stopped > 0 || start > 0) && clock::monotonic() > Nanos(end).plus(GRACE)
    }

    /// Parks the calling worker until the job is armed or stopped.
    pub(crate) fn park(&self) {
        self.parked.fetch_add(1, SeqCst);
        while !self.released.load(SeqCst) {
            std::thread::park();
        }
    }

    /// A worker cannot get ready.
    pub(crate) fn report(&self, error: LoadError) {
        locked(&self.trouble).get_or_insert(error);
        self.parked.fetch_add(1, SeqCst);
    }

    pub(crate) fn all_parked(&self) -> bool {
        self.parked.load(SeqCst) as usize >= self.marks.len()
    }

    pub(crate) fn finish(&self) {
        self.finished.fetch_add(1, SeqCst);
    }

    pub(crate) fn finished(&self) -> usize {
        self.finished.load(SeqCst) as usize
    }

    pub(crate) fn all_finished(&self) -> bool {
        self.finished() >= self.marks.len()
    }

    /// One more error; whether that is one too many, which stops the load.
    #[cold]
    fn one_more_error(&self) {
        if self.errors.fetch_add(1, Relaxed) + 1 > self.disk.errors_allowed {
            self.stop();
        }
    }

    #[cold]
    pub(crate) fn fail(&self, failure: Failure) {
        let _ = self.first_failure.set(failure);
        self.one_more_error();
    }

    #[cold]
    pub(crate) fn wrong(&self, expected: UnitCheck, found: Wrong) {
        self.verify_failures.fetch_add(1, Relaxed);
        let _ = self.first_wrong.set((expected, found));
        self.one_more_error();
    }

    /// Tells what is done without, once.
    pub(crate) fn degrade(&self, told: Vec<Degraded>) {
        let mut degraded = locked(&self.degraded);
        for one in told {
            if !degraded.contains(&one) {
                degraded.push(one);
            }
        }
    }
}
