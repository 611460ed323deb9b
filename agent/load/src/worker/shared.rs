//! What the workers of a job, their supervisor and their owner have in common.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicU8, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use iodyno_core::job::{Direction as Flow, Driver, Interface, Job, Role, Transport, Workload};
use iodyno_core::units::Nanos;
use iodyno_sys::buffer::{ReceiveScratch, SendSource};
use iodyno_sys::lock::locked;
use iodyno_sys::socket::{self, Direction};
use iodyno_sys::{affinity, realtime};

use super::counters::Counters;
use super::open_loop::OpenLoop;
use crate::cancel::Cancel;
use crate::datagram;
use crate::error::LoadError;
use crate::transport::calls::Means;
use crate::transport::meeting::Listening;
use crate::transport::tls::{Session, Terms};
use crate::workload::script::Live;
use crate::workload::{most_joined, LONGEST_CALL_BYTES, READ_BYTES};

/// chosen: workers share receive scratches beyond this many; a read that goes where another CPU's read goes
/// costs time, and of a few running threads hardly two meet in one of these.
const MOST_SCRATCHES: usize = 16;

/// Where a job stands for its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// As planned.
    Going,
    /// Ended on somebody's word: what breaks now was broken on purpose.
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

/// Made once a job, before its threads.
pub(crate) struct Shared {
    pub job: Job,
    /// One a connection, by index; empty for a transport without sockets.
    pub sockets: Vec<OwnedFd>,
    /// Where connections come from while the load is on, where each operation has one of its own.
    pub listener: Option<Listening>,
    /// CPUs that the workers run on.
    pub cpus: Vec<u32>,
    pub counters: Arc<Counters>,
    /// One a worker.
    pub marks: Box<[Mark]>,
    pub cancel: Cancel,
    /// Whether workers start under `SCHED_FIFO`.
    pub realtime: Result<(), String>,
    /// The lock of a serialised job.
    pub lock: Mutex<()>,
    /// The script of a job that has one.
    pub script: Option<Live>,
    pub source: SendSource,
    /// What the job's calls need besides the sockets.
    pub means: Means,
    /// One a connection over TLS that is up.
    pub tls_sessions: Vec<Session>,
    /// How connections over TLS are to come up while the load is on.
    pub tls_terms: Option<Terms>,
    scratches: Vec<ReceiveScratch>,
    /// When the load begins; 0: not armed.
    pub start: AtomicU64,
    /// When senders stop; 0 once the job was stopped, so that one comparison tells both.
    pub due: AtomicU64,
    /// Whether workers may leave the parking place.
    released: AtomicU32,
    parked: AtomicU32,
    finished: AtomicU32,
    /// Flows of datagrams whose sender said that they end.
    pub flows_ended: AtomicU32,
    state: AtomicU8,
    /// What went wrong in a thread before the start.
    pub trouble: Mutex<Option<LoadError>>,
}

impl Shared {
    /// For `job` on `sockets`. Takes the memory that the load needs.
    pub(crate) fn new(
        job: &Job,
        sockets: Vec<OwnedFd>,
        listener: Option<Listening>,
        cancel: &Cancel,
    ) -> Result<Self, LoadError> {
        let memory = |error: &io::Error| LoadError::refused(error, "get memory for buffers", "message_bytes");
        let allowed = affinity::allowed()
            .map_err(|error| LoadError::refused(&error, "read the allowed CPUs", "cpus"))?;
        let cpus = if job.cpus.is_empty() { allowed } else { job.cpus.clone() };
        let connections = job.connections as usize;
        let workers = match job.driver {
            // A server of datagrams has a socket and a thread for all of its flows, or some of each.
            _ if datagram::is_server(job) => sockets.len(),
            // A blocked thread does one thing: two of them where payload goes both ways.
            Driver::Threads if job.direction == Flow::Both => 2 * connections,
            Driver::Threads => connections,
            Driver::Epoll | Driver::RoundRobin | Driver::IoUring => connections.min(cpus.len()),
            // What a device gives goes to one of them.
            Driver::Rings | Driver::Reflector => connections.min(1),
        };
        let realtime = if workers <= cpus.len() {
            realtime::available()
        } else {
            Err(format!("{workers} workers start on {} CPUs; only as many can start at once", cpus.len()))
        };
        let (sent, reads) = match (job.workload, job.role) {
            (Workload::Stream, _) if job.direction == Flow::Both => (job.message_bytes.0, true),
            (Workload::Stream, Role::Send | Role::Receive) if job.writes_stream() => {
                (job.message_bytes.0, false)
            }
            (Workload::RequestResponse | Workload::ConnectRequestResponse, Role::Send) => {
                (job.message_bytes.0, true)
            }
            (Workload::RequestResponse | Workload::ConnectRequestResponse, Role::Receive) => {
                (job.answer_bytes.0, true)
            }
            (Workload::Script, _) => (crate::workload::LONGEST_CALL_BYTES, true),
            _ => (1, true),
        };
        let together = u64::from(most_joined(job));
        let source_bytes = (sent * together).min(LONGEST_CALL_BYTES);
        let source = SendSource::new(source_bytes as usize).map_err(|error| memory(&error))?;
        let means = Means::of(job, &sockets, &source)
            .map_err(|error| LoadError::refused(&error, "open what the calls need", "interface"))?;
        let over_tls = job.transport == Transport::Tls && job.connects_anew();
        let tls_terms = over_tls.then(|| Terms::of(job)).transpose()?;
        let (scratches, scratch_bytes) =
            if reads { (workers.clamp(1, MOST_SCRATCHES), READ_BYTES) } else { (1, 1) };
        let mut counters = Counters::new(connections, workers);
        if job.transport.is_datagram() {
            counters = counters.with_tallies(workers);
        }
        let on_a_ring = job.driver == Driver::Rings
            || job.transport.is_datagram() && job.driver == Driver::IoUring && datagram::is_server(job);
        let takes_several = job.transport.is_datagram()
            && matches!(job.interface, Interface::Batch | Interface::Segments)
            || on_a_ring;
        if takes_several || most_joined(job) > 1 {
            counters = counters.with_batches(workers);
        }
        Ok(Shared {
            job: job.clone(),
            sockets,
            listener,
            counters: Arc::new(counters.with_open_loop(OpenLoop::of(job, workers))),
            marks: (0..workers).map(|_| Mark::default()).collect(),
            cpus,
            cancel: cancel.clone(),
            realtime,
            lock: Mutex::new(()),
            script: None,
            source,
            means,
            tls_sessions: Vec::new(),
            tls_terms,
            scratches: (0..scratches)
                .map(|_| ReceiveScratch::new(scratch_bytes))
                .collect::<io::Result<_>>()
                .map_err(|error| memory(&error))?,
            start: AtomicU64::new(0),
            due: AtomicU64::new(u64::MAX),
            released: AtomicU32::new(0),
            parked: AtomicU32::new(0),
            finished: AtomicU32::new(0),
            flows_ended: AtomicU32::new(0),
            state: AtomicU8::new(State::Going as u8),
            trouble: Mutex::new(None),
        })
    }

    pub(crate) fn workers(&self) -> usize {
        self.marks.len()
    }

    /// Whether workers may look at the clock without rest to begin on time: each has a CPU, of those that were given to
    /// the job, and no quota that this would use up.
    pub(crate) fn may_spin(&self) -> bool {
        let alone = !self.job.cpus.is_empty() && self.workers() <= self.cpus.len();
        alone && self.job.arrivals.is_some() && self.job.cpu_quota_percent.is_none()
    }

    pub(crate) fn scratch(&self, worker: usize) -> &ReceiveScratch {
        &self.scratches[worker % self.scratches.len()]
    }

    /// Connections of one worker: dealt out in turn.
    pub(crate) fn share_of(&self, worker: usize) -> impl Iterator<Item = usize> {
        (worker..self.job.connections as usize).step_by(self.workers().max(1))
    }

    /// Says when the load begins; the supervisor sees to the rest.
    pub(crate) fn arm(&self, start: Nanos) {
        // Not over a stop: `due` stays 0 then.
        let due = start.plus(self.job.windows.load_ns()).0;
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

    /// Ends the load: nobody begins another operation, who is blocked wakes up, and the peer is told by a
    /// reset when the sockets are closed.
    pub(crate) fn end(&self, state: State) {
        // Only the first end counts.
        let _ = self.state.compare_exchange(State::Going as u8, state as u8, SeqCst, SeqCst);
        self.due.store(0, SeqCst);
        for socket in &self.sockets {
            // Both fail only where the connection is gone already.
            let _ = socket::reset_on_close(socket.as_fd());
            let _ = socket::shutdown(socket.as_fd(), Direction::Both);
        }
        self.cancel.ring();
    }
}
