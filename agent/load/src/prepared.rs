//! A job between being prepared and its end: its threads, and who looks after them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use iodyno_core::account::ScriptAccount;
use iodyno_core::job::{Job, SocketOptionsObtained};
use iodyno_core::units::Nanos;
use iodyno_sys::lock::locked;
use iodyno_sys::open_sockets::OpenSockets;

use crate::cancel::Cancel;
use crate::driver;
use crate::error::LoadError;
use crate::transport::meeting::Listening;
use crate::transport::tls::Session;
use crate::worker::counters::{Meter, Totals};
use crate::worker::shared::{Shared, State};
use crate::workload::script::Live;

/// chosen: stack of a worker: several times what its deepest call takes; only touched pages take memory.
const STACK_BYTES: usize = 64 << 10;
/// chosen: workers are woken this long before the start, and longer by this for each: waking one takes
/// some microseconds of the supervisor.
const LEAD: Nanos = Nanos(20_000_000);
const LEAD_PER_WORKER_NS: u64 = 10_000;
/// chosen: what has not come to rest this long after the load was to stop is given up: a flow of datagrams takes a second
/// for its last answers and its last word, and several where others have the CPUs.
const GRACE: Nanos = Nanos(5_000_000_000);

/// The threads of a job. When dropped, the load is stopped and the threads have ended.
struct Crew {
    shared: Arc<Shared>,
    supervisor: Option<JoinHandle<()>>,
}

impl Crew {
    /// Starts the threads and waits until all are parked.
    fn start(shared: Shared) -> Result<Self, LoadError> {
        let shared = Arc::new(shared);
        let place = "connections";
        let mut workers = Vec::with_capacity(shared.workers());
        let mut failure = None;
        for number in 0..shared.workers() {
            let own = Arc::clone(&shared);
            let work = move || {
                driver::work(&own, number);
                own.finish();
            };
            match builder("load").spawn(work) {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    let doing = format!("start thread {} of {}", number + 1, shared.workers());
                    failure = Some(LoadError::refused(&error, &doing, place));
                    break;
                }
            }
            if shared.cancel.is_cancelled() {
                failure = Some(LoadError::cancelled());
                break;
            }
        }
        let threads: Vec<thread::Thread> = workers.iter().map(|worker| worker.thread().clone()).collect();
        let own = Arc::clone(&shared);
        let supervisor = if failure.is_none() {
            spawn_supervisor(own, workers)
        } else {
            Err((io::Error::other("not started"), workers))
        };
        match supervisor {
            Ok(supervisor) => {
                let crew = Crew { shared, supervisor: Some(supervisor) };
                crew.shared.cancel.wait(None, || crew.shared.all_parked());
                let trouble = locked(&crew.shared.trouble).take();
                match trouble {
                    _ if crew.shared.cancel.is_cancelled() => Err(LoadError::cancelled()),
                    Some(error) => Err(error),
                    None => Ok(crew),
                }
            }
            Err((error, workers)) => {
                shared.end(State::Stopped);
                shared.release();
                threads.iter().for_each(thread::Thread::unpark);
                join(workers);
                Err(failure
                    .unwrap_or_else(|| LoadError::refused(&error, "start the supervising thread", place)))
            }
        }
    }

    /// Waits for the threads' end.
    fn join(&mut self) {
        if let Some(supervisor) = self.supervisor.take() {
            join([supervisor]);
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if self.supervisor.is_some() {
            self.shared.end(State::Stopped);
            self.join();
        }
    }
}

fn builder(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES)
}

/// A thread that panicked has said so on stderr; its counters stand as they are.
fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| drop(thread.join()));
}

type Unsupervised = (io::Error, Vec<JoinHandle<()>>);

fn spawn_supervisor(
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
) -> Result<JoinHandle<()>, Unsupervised> {
    // The workers must come back when the thread cannot be made, and a failed spawn drops its closure.
    let (hand_over, taken) = std::sync::mpsc::sync_channel(1);
    let spawned = builder("supervisor").spawn(move || {
        if let Ok(workers) = taken.recv() {
            supervise(&shared, workers);
        }
    });
    match spawned {
        Ok(supervisor) => {
            // Fails only when the thread ended before it took anything, which it does not.
            let _ = hand_over.send(workers);
            Ok(supervisor)
        }
        Err(error) => Err((error, workers)),
    }
}

/// Wakes the workers shortly before the start, and ends what does not end by itself. Sleeps otherwise.
fn supervise(shared: &Shared, workers: Vec<JoinHandle<()>>) {
    let stopped = || shared.state() != State::Going;
    shared.cancel.wait(None, || shared.start.load(Relaxed) != 0 || stopped());
    let start = Nanos(shared.start.load(Relaxed));
    let lead = LEAD.plus(Nanos(LEAD_PER_WORKER_NS * workers.len() as u64));
    shared.cancel.wait(Some(start.minus(lead)), stopped);
    if shared.cancel.is_cancelled() {
        shared.end(State::Stopped);
    }
    shared.release();
    workers.iter().for_each(|worker| worker.thread().unpark());
    let due = start.plus(shared.job.windows.load_ns());
    shared.cancel.wait(Some(due.plus(GRACE)), || shared.all_finished());
    if shared.cancel.is_cancelled() {
        shared.end(State::Stopped);
    } else if !shared.all_finished() {
        shared.end(State::GaveUp);
    }
    join(workers);
}

/// A job whose connections are up and proven and whose threads are parked. Dropping it ends them.
pub struct Prepared {
    crew: Crew,
    obtained: SocketOptionsObtained,
    foreign_refused: u32,
}

impl Prepared {
    pub(crate) fn new(
        job: &Job,
        sockets: Vec<OwnedFd>,
        sessions: Vec<Session>,
        listener: Option<Listening>,
        obtained: SocketOptionsObtained,
        foreign_refused: u32,
        cancel: &Cancel,
    ) -> Result<Self, LoadError> {
        let mut shared = Shared::new(job, sockets, listener, cancel)?;
        shared.tls_sessions = sessions;
        let crew = Crew::start(shared)?;
        Ok(Prepared { crew, obtained, foreign_refused })
    }

    /// Of a script whose two ends have met.
    pub(crate) fn of_script(job: &Job, script: Live, cancel: &Cancel) -> Result<Self, LoadError> {
        let mut shared = Shared::new(job, Vec::new(), None, cancel)?;
        shared.script = Some(script);
        let crew = Crew::start(shared)?;
        Ok(Prepared { crew, obtained: SocketOptionsObtained::default(), foreign_refused: 0 })
    }

    /// Socket options as read back.
    #[must_use]
    pub fn obtained(&self) -> &SocketOptionsObtained {
        &self.obtained
    }

    /// Connections that are up.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.crew.shared.job.connections
    }

    /// Threads that make the load.
    #[must_use]
    pub fn workers(&self) -> u32 {
        self.crew.shared.workers() as u32
    }

    /// Connections turned away because they did not show the token.
    #[must_use]
    pub fn foreign_refused(&self) -> u32 {
        self.foreign_refused
    }

    /// The sockets, by connection; open until [`Running::join`] returns. None for a transport without.
    #[must_use]
    pub fn sockets(&self) -> Vec<RawFd> {
        self.crew.shared.sockets.iter().map(AsRawFd::as_raw_fd).collect()
    }

    /// Sockets that come and go while the load is on: those of a script.
    #[must_use]
    pub fn opened(&self) -> Arc<OpenSockets> {
        self.crew.shared.script.as_ref().map(|script| Arc::clone(&script.run.opened)).unwrap_or_default()
    }

    /// Kernel thread ids of the workers.
    #[must_use]
    pub fn thread_ids(&self) -> Vec<i32> {
        self.crew.shared.marks.iter().map(|mark| mark.thread_id.load(Relaxed)).collect()
    }

    /// Starts the load at `start` on the `CLOCK_MONOTONIC` axis; a start that is past is now.
    #[must_use]
    pub fn arm(self, start: Nanos) -> Running {
        self.crew.shared.arm(start);
        Running { crew: self.crew }
    }
}

/// A job that was armed. Dropping it stops the load.
pub struct Running {
    crew: Crew,
}

impl Running {
    /// Reads its counters.
    #[must_use]
    pub fn meter(&self) -> Meter {
        Meter(Arc::clone(&self.crew.shared.counters))
    }

    /// Whether the workers start under `SCHED_FIFO`.
    ///
    /// # Errors
    /// Why not: not allowed, or more workers than CPUs.
    pub fn realtime(&self) -> Result<(), String> {
        self.crew.shared.realtime.clone()
    }

    /// Ends the load now: shuts every socket, so that blocked workers wake. What breaks by that is not lost.
    pub fn stop(&self) {
        self.crew.shared.end(State::Stopped);
    }

    /// Whether every worker has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.crew.shared.all_finished()
    }

    /// Whether the job has a script, which may end before the windows do.
    #[must_use]
    pub fn has_script(&self) -> bool {
        self.crew.shared.script.is_some()
    }

    /// Why the script failed; none: it did not, or there is none.
    #[must_use]
    pub fn script_failure(&self) -> Option<LoadError> {
        self.crew.shared.script.as_ref().and_then(|script| script.run.failure())
    }

    /// Waits until every worker has ended, by itself, by [`Running::stop`] or [`Cancel::cancel`], or because
    /// it was given up some seconds after the load was to stop (`GRACE`). Closes the sockets.
    #[must_use]
    pub fn join(mut self) -> Finished {
        self.crew.join();
        let shared = &self.crew.shared;
        let firsts =
            || shared.marks.iter().map(|mark| mark.first_ns.load(Relaxed)).filter(|first| *first > 0);
        let ended = shared.marks.iter().map(|mark| mark.ended_ns.load(Relaxed)).filter(|ended| *ended > 0);
        Finished {
            first_operation_ns: firsts().min().map(Nanos),
            last_worker_started_ns: firsts().max().map(Nanos),
            stopped_ns: ended.max().map(Nanos),
            totals: shared.counters.read(),
            script: shared.script.as_ref().map(|script| script.run.account()),
            script_failure: shared.script.as_ref().and_then(|script| script.run.failure()),
        }
    }
}

/// What a job did.
#[derive(Clone, Default)]
pub struct Finished {
    /// Begin of the first operation of any worker that moved data; absent: none did.
    pub first_operation_ns: Option<Nanos>,
    /// Begin of the first operation of the worker that was last to have one.
    pub last_worker_started_ns: Option<Nanos>,
    /// When the last worker ended; absent: none began.
    pub stopped_ns: Option<Nanos>,
    /// Everything counted, lost connections included.
    pub totals: Totals,
    /// What the script did, where there was one.
    pub script: Option<ScriptAccount>,
    /// Why the script failed, where it did.
    pub script_failure: Option<LoadError>,
}
