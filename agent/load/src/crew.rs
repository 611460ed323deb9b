//! The workers of a job: threads that are made before the start, wait for it, and are joined at the end.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use iodyno_core::job::{Job, SocketOptionsObtained};
use iodyno_core::message::ErrorCode;
use iodyno_core::units::Nanos;
use iodyno_sys::operation_clock::OperationClock;
use iodyno_sys::socket::{shutdown, Direction};
use iodyno_sys::{affinity, clock, process, realtime};

use crate::counters::{Counters, Meter, Totals};
use crate::error::LoadError;

/// Stack of a worker. It holds a few hundred bytes; the rest is for the C library, and is not touched.
const STACK_BYTES: usize = 64 << 10;
/// The last stretch before the start is spun, not slept: a timer fires some 50 us late.
const SPIN: Nanos = Nanos(100_000);
/// A thread raises itself this long before the start.
const RAISE: Nanos = Nanos(2_000_000);

/// What a worker does once it has started. Told its number, the clock, and the start.
pub type Work = Box<dyn FnOnce(&Counters, &mut OperationClock, Nanos) + Send>;

/// Where workers wait.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    arrived: Condvar,
    opened: Condvar,
}

#[derive(Default)]
struct GateState {
    waiting: Vec<i32>,
    opened: bool,
    start: Option<Nanos>,
}

impl Gate {
    /// A worker says that it is there and waits; `None`: there will be no start.
    fn wait(&self) -> Option<Nanos> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting.push(process::thread_id());
        self.arrived.notify_one();
        while !state.opened {
            state = self.opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.start
    }

    /// Waits until `workers` are there; their thread ids.
    fn assembled(&self, workers: usize) -> Vec<i32> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.waiting.len() < workers {
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.clone()
    }

    fn open(&self, start: Option<Nanos>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.opened {
            (state.opened, state.start) = (true, start);
        }
        self.opened.notify_all();
    }
}

/// Threads, and what they work on. Dropped: they are stopped and joined.
struct Crew {
    gate: Arc<Gate>,
    counters: Arc<Counters>,
    sockets: Arc<[OwnedFd]>,
    threads: Vec<JoinHandle<()>>,
}

impl Crew {
    fn stop(&self) {
        self.counters.stopping.store(true, Relaxed);
        for socket in self.sockets.iter() {
            // Fails when the connection is gone, which is what was wanted.
            let _ = shutdown(socket.as_fd(), Direction::Both);
        }
    }

    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.gate.open(None);
        if !self.threads.is_empty() {
            self.stop();
            self.join();
        }
    }
}

/// Every connection is up, every thread is parked.
pub struct Prepared {
    crew: Crew,
    thread_ids: Vec<i32>,
    obtained: SocketOptionsObtained,
    foreign_refused: u32,
    realtime: Result<(), String>,
}

impl Prepared {
    /// Makes one thread for each of `works` and waits until all are parked.
    pub(crate) fn new(
        job: &Job,
        counters: Arc<Counters>,
        sockets: Arc<[OwnedFd]>,
        works: Vec<(Vec<u32>, Work)>,
        obtained: SocketOptionsObtained,
        foreign_refused: u32,
    ) -> Result<Self, LoadError> {
        let cpus = cpus_of(job);
        // A thread that spins before the start needs a CPU to itself.
        let few = works.len() <= cpus.len();
        let realtime = if few {
            realtime::available()
        } else {
            Err(format!("{} workers on {} CPUs start without it", works.len(), cpus.len()))
        };
        let (gate, precise) = (Arc::new(Gate::default()), realtime.is_ok());
        let mut crew = Crew { gate, counters, sockets, threads: Vec::with_capacity(works.len()) };
        let workers = works.len();
        for (pinned, work) in works {
            let (gate, counters) = (Arc::clone(&crew.gate), Arc::clone(&crew.counters));
            let thread = Builder::new().stack_size(STACK_BYTES).spawn(move || {
                // Refused only for CPUs that are gone; the job's sensors then show where it ran.
                let _ = affinity::restrict(&pinned);
                let _ = realtime::sharpen_timers();
                let mut clock = OperationClock::new();
                if let Some(start) = gate.wait() {
                    wait_for(start, precise, &mut clock);
                    work(&counters, &mut clock, start);
                }
                counters.ended(clock::monotonic());
            });
            match thread {
                Ok(thread) => crew.threads.push(thread),
                Err(error) => {
                    let what = format!("cannot make thread {} of {workers}: {error}", crew.threads.len() + 1);
                    let advice =
                        "raise kernel.threads-max, kernel.pid_max or the control group's pids.max, or \
                                  use the driver epoll";
                    return Err(LoadError::new(ErrorCode::Limit, what, "threads", advice));
                }
            }
        }
        let thread_ids = crew.gate.assembled(workers);
        Ok(Prepared { crew, thread_ids, obtained, foreign_refused, realtime })
    }

    /// Socket options as read back.
    #[must_use]
    pub fn obtained(&self) -> &SocketOptionsObtained {
        &self.obtained
    }

    /// Connections up and proven.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.crew.counters.connections.len() as u32
    }

    /// Threads that will carry the load.
    #[must_use]
    pub fn workers(&self) -> u32 {
        self.thread_ids.len() as u32
    }

    /// Connections turned away.
    #[must_use]
    pub fn foreign_refused(&self) -> u32 {
        self.foreign_refused
    }

    /// Sockets of the connections, open as long as the job lives.
    #[must_use]
    pub fn sockets(&self) -> Vec<RawFd> {
        self.crew.sockets.iter().map(AsRawFd::as_raw_fd).collect()
    }

    /// Kernel ids of the workers.
    #[must_use]
    pub fn thread_ids(&self) -> Vec<i32> {
        self.thread_ids.clone()
    }

    /// Tells the workers when to start.
    #[must_use]
    pub fn arm(self, start: Nanos) -> Running {
        self.crew.gate.open(Some(start));
        Running { crew: self.crew, realtime: self.realtime }
    }
}

/// A load that is armed or on. Dropped: it is stopped.
pub struct Running {
    crew: Crew,
    realtime: Result<(), String>,
}

impl Running {
    /// Reads its counters.
    #[must_use]
    pub fn meter(&self) -> Meter {
        Meter(Arc::clone(&self.crew.counters))
    }

    /// Whether the workers start under `SCHED_FIFO`.
    ///
    /// # Errors
    /// Why not.
    pub fn realtime(&self) -> Result<(), String> {
        self.realtime.clone()
    }

    /// Shuts every socket, which wakes workers that are blocked on one.
    pub fn stop(&self) {
        self.crew.stop();
    }

    /// Whether every worker is done.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.crew.counters.is_finished()
    }

    /// Waits for every worker; the whole account.
    #[must_use]
    pub fn join(mut self) -> Finished {
        self.crew.join();
        let starts = self.crew.counters.starts();
        Finished {
            first_operation_ns: starts.map(|starts| starts.0),
            last_worker_started_ns: starts.map(|starts| starts.1),
            stopped_ns: self.crew.counters.stopped(),
            totals: self.meter().read(),
        }
    }
}

/// What a load did, from start to end.
#[derive(Default)]
pub struct Finished {
    /// First operation of any worker.
    pub first_operation_ns: Option<Nanos>,
    /// First operation of the last worker.
    pub last_worker_started_ns: Option<Nanos>,
    /// When the last worker was done.
    pub stopped_ns: Option<Nanos>,
    /// Totals.
    pub totals: Totals,
}

/// CPUs that the job's workers may use.
pub fn cpus_of(job: &Job) -> Vec<u32> {
    let allowed = affinity::allowed().unwrap_or_default();
    let wanted: Vec<u32> = job.cpus.iter().copied().filter(|cpu| allowed.contains(cpu)).collect();
    if wanted.is_empty() {
        allowed
    } else {
        wanted
    }
}

/// Sleeps to the start; a precise worker runs ahead of all others for the last stretch and spins.
fn wait_for(start: Nanos, precise: bool, clock: &mut OperationClock) {
    if !precise {
        let _ = clock::sleep_until(start);
        return;
    }
    let _ = clock::sleep_until(start.minus(RAISE));
    let raised = realtime::raise().is_ok();
    let _ = clock::sleep_until(start.minus(SPIN));
    while clock.now() < start {
        std::hint::spin_loop();
    }
    if raised {
        let _ = realtime::lower();
    }
}
