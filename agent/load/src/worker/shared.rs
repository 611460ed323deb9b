//! What the workers of a load, their supervisor and their owner have in common, whatever its kind.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicU8, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use iodyno_core::job::Job;
use iodyno_core::units::Nanos;
use iodyno_sys::buffer::{ReceiveScratch, SendSource};
use iodyno_sys::lock::locked;
use iodyno_sys::{affinity, realtime};

use super::counters::Counters;
use crate::cancel::Cancel;
use crate::error::LoadError;

/// chosen: workers share receive scratches beyond this many; a read that goes where another CPU's read goes
/// costs time, and of a few running threads hardly two meet in one of these.
const MOST_SCRATCHES: usize = 16;

/// Where a job stands for its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// As planned.
    Going,
    /// Ended on somebody's word, or while it still sent what was left: what breaks now was broken on purpose.
    Stopped,
    /// Ended because it did not come to rest.
    GaveUp,
}

/// What one worker leaves behind. 0: has not happened.
#[derive(Default)]
pub(crate) struct Mark {
    pub thread_id: AtomicI32,
    pub first_ns: AtomicU64,
    pub ended_ns: AtomicU64,
}

/// What the workers of a load need, whatever its kind.
pub(crate) struct Needs {
    pub workers: usize,
    pub counters: Counters,
    /// Bytes of one call that sends.
    pub source_bytes: u64,
    /// Bytes of one call that receives; 0: none does.
    pub scratch_bytes: usize,
    /// Whether workers look again and again instead of waiting.
    pub busy_wait: bool,
}

/// Made once a job, before its threads.
pub(crate) struct Shared {
    /// CPUs that the workers run on.
    pub cpus: Vec<u32>,
    pub counters: Arc<Counters>,
    /// One a worker.
    pub marks: Box<[Mark]>,
    pub cancel: Cancel,
    /// Whether workers start under `SCHED_FIFO`.
    pub realtime: Result<(), String>,
    pub source: SendSource,
    /// Whether workers look again and again instead of waiting.
    pub busy_wait: bool,
    /// Whether workers may look at the clock without rest to begin on time.
    pub may_spin: bool,
    scratches: Vec<ReceiveScratch>,
    /// How long the load is on.
    pub load_ns: Nanos,
    /// When the load begins; 0: not armed.
    pub start: AtomicU64,
    /// When senders stop; 0 once the job was stopped, so that one comparison tells both.
    pub due: AtomicU64,
    /// Whether workers may leave the parking place.
    released: AtomicU32,
    parked: AtomicU32,
    finished: AtomicU32,
    state: AtomicU8,
    /// What went wrong in a thread before the start.
    pub trouble: Mutex<Option<LoadError>>,
}

/// The CPUs that the workers of a job run on.
pub(crate) fn cpus_of<L>(job: &Job<L>) -> Result<Vec<u32>, LoadError> {
    let allowed =
        affinity::allowed().map_err(|error| LoadError::refused(&error, "read the allowed CPUs", "cpus"))?;
    Ok(if job.cpus.is_empty() { allowed } else { job.cpus.clone() })
}

impl Shared {
    /// For `job` on its CPUs. Takes the memory that the load needs.
    pub(crate) fn new<L>(
        job: &Job<L>,
        cpus: Vec<u32>,
        needs: Needs,
        cancel: &Cancel,
    ) -> Result<Self, LoadError> {
        let memory = |error: &io::Error| LoadError::refused(error, "get memory for buffers", "message_bytes");
        let Needs { workers, counters, source_bytes, scratch_bytes, busy_wait } = needs;
        let realtime = if workers <= cpus.len() {
            realtime::available()
        } else {
            Err(format!("{workers} workers start on {} CPUs; only as many can start at once", cpus.len()))
        };
        let source = SendSource::new(source_bytes as usize).map_err(|error| memory(&error))?;
        let scratches = if scratch_bytes > 0 { workers.clamp(1, MOST_SCRATCHES) } else { 1 };
        let scratches = (0..scratches).map(|_| ReceiveScratch::new(scratch_bytes.max(1)));
        // Each worker has a CPU, of those that were given to the job, and no quota that this would use up.
        let alone = !job.cpus.is_empty() && workers <= cpus.len() && job.cpu_quota_percent.is_none();
        Ok(Shared {
            busy_wait,
            may_spin: alone && counters.open_loop.is_some(),
            counters: Arc::new(counters),
            marks: (0..workers).map(|_| Mark::default()).collect(),
            cpus,
            cancel: cancel.clone(),
            realtime,
            source,
            scratches: scratches.collect::<io::Result<_>>().map_err(|error| memory(&error))?,
            load_ns: job.windows.load_ns(),
            start: AtomicU64::new(0),
            due: AtomicU64::new(u64::MAX),
            released: AtomicU32::new(0),
            parked: AtomicU32::new(0),
            finished: AtomicU32::new(0),
            state: AtomicU8::new(State::Going as u8),
            trouble: Mutex::new(None),
        })
    }

    pub(crate) fn workers(&self) -> usize {
        self.marks.len()
    }

    pub(crate) fn scratch(&self, worker: usize) -> &ReceiveScratch {
        &self.scratches[worker % self.scratches.len()]
    }

    /// Says when the load begins; the supervisor sees to the rest.
    pub(crate) fn arm(&self, start: Nanos) {
        // Not over a stop: `due` stays 0 then.
        let due = start.plus(self.load_ns).0;
        if let Some(open) = &self.counters.open_loop {
            open.arm(start.max(Nanos(1)), Nanos(due));
        }
        let _ = self.due.compare_exchange(u64::MAX, due, SeqCst, SeqCst);
        self.start.store(start.0.max(1), SeqCst);
        self.cancel.ring();
    }

    /// Parks the calling worker until [`Shared::release`].
    pub(crate) fn park(&self) {
        self.arrive();
        while self.released.load(SeqCst) == 0 {
            std::thread::park();
        }
    }

    /// A worker is ready, or never will be.
    fn arrive(&self) {
        if self.parked.fetch_add(1, SeqCst) + 1 == self.workers() as u32 {
            self.cancel.ring();
        }
    }

    /// A worker cannot get ready.
    pub(crate) fn report(&self, error: LoadError) {
        locked(&self.trouble).get_or_insert(error);
        self.arrive();
    }

    pub(crate) fn all_parked(&self) -> bool {
        self.parked.load(SeqCst) as usize >= self.workers()
    }

    /// Lets parked workers go; each must be unparked afterwards.
    pub(crate) fn release(&self) {
        self.released.store(1, SeqCst);
    }

    /// A worker's thread is about to end.
    pub(crate) fn finish(&self) {
        if self.finished.fetch_add(1, SeqCst) + 1 == self.workers() as u32 {
            self.cancel.ring();
        }
    }

    pub(crate) fn all_finished(&self) -> bool {
        self.finished.load(SeqCst) as usize >= self.workers()
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        match self.state.load(Relaxed) {
            0 => State::Going,
            1 => State::Stopped,
            _ => State::GaveUp,
        }
    }

    /// Ends the load: nobody begins another operation.
    pub(crate) fn end(&self, state: State) {
        // Only the first end counts.
        let _ = self.state.compare_exchange(State::Going as u8, state as u8, SeqCst, SeqCst);
        self.due.store(0, SeqCst);
    }
}
