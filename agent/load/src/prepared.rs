//! A load between being prepared and its end: its threads, and who looks after them, whatever its kind.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use iodyno_core::account::ScriptAccount;
use iodyno_core::network::SocketOptionsObtained;
use iodyno_core::units::Nanos;
use iodyno_sys::lock::locked;
use iodyno_sys::open_sockets::OpenSockets;
use iodyno_sys::socket::{self, Direction};
use iodyno_sys::tcp_info;

use crate::error::LoadError;
use crate::worker::counters::{Meter, Totals};
use crate::worker::shared::{Shared, State};

/// chosen: stack of a worker: several times what its deepest call takes; only touched pages take memory.
const STACK_BYTES: usize = 64 << 10;
/// chosen: workers are woken this long before the start, and longer by this for each: waking one takes
/// some microseconds of the supervisor.
const LEAD: Nanos = Nanos(20_000_000);
const LEAD_PER_WORKER_NS: u64 = 10_000;
/// chosen: what has not come to rest this long after the load was to stop is given up: a flow of datagrams takes a second
/// for its last answers and its last word, and several where others have the CPUs; and longer by this for each worker: of
/// six thousand threads on two busy CPUs the last one has its turn some seconds after the first.
const GRACE: Nanos = Nanos(5_000_000_000);
const GRACE_PER_WORKER_NS: u64 = 1_000_000;

/// A load of one kind, for its threads.
pub(crate) trait Work: Send + Sync {
    /// What all kinds have.
    fn shared(&self) -> &Shared;
    /// Carries out what worker `number` has to do, from its own thread, to the end.
    fn carry_out(&self, number: usize);
    /// Connections that are up, or threads that open their own.
    fn connections(&self) -> u32;
    /// The sockets of the connections that are up.
    fn sockets(&self) -> &[OwnedFd] {
        &[]
    }
    /// Sockets that come and go while the load is on.
    fn opened(&self) -> Arc<OpenSockets> {
        Arc::default()
    }
    /// Whether it may be over before its windows are.
    fn may_end_early(&self) -> bool {
        false
    }
    /// What the script did, where there is one.
    fn account(&self) -> Option<ScriptAccount> {
        None
    }
    /// Why it failed as a whole; none: it did not.
    fn failure(&self) -> Option<LoadError> {
        None
    }
}

/// Ends the load: nobody begins another operation, who is blocked wakes up, and the peer is told by a
/// reset when the sockets are closed.
fn end(work: &dyn Work, state: State) {
    work.shared().end(state);
    for socket in work.sockets() {
        // Both fail only where the connection is gone already.
        let _ = socket::reset_on_close(socket.as_fd());
        let _ = socket::shutdown(socket.as_fd(), Direction::Both);
    }
    work.shared().cancel.ring();
}

/// Bytes that each has moved, as the kernel has them; 0 where that is not TCP.
fn moved(sockets: &[OwnedFd]) -> Vec<u64> {
    let of = |socket: &OwnedFd| {
        let info = tcp_info::read(socket.as_raw_fd()).ok()?;
        Some(info.bytes_acked()? + info.bytes_received()?)
    };
    sockets.iter().map(|socket| of(socket).unwrap_or(0)).collect()
}

/// The threads of a load. When dropped, it is stopped and the threads have ended.
struct Crew {
    work: Arc<dyn Work>,
    supervisor: Option<JoinHandle<()>>,
}

impl Crew {
    /// Starts the threads and waits until all are parked.
    fn start(work: Arc<dyn Work>) -> Result<Self, LoadError> {
        let shared = work.shared();
        let place = "connections";
        let mut workers = Vec::with_capacity(shared.workers());
        let mut failure = None;
        for number in 0..shared.workers() {
            let own = Arc::clone(&work);
            let carry_out = move || {
                own.carry_out(number);
                own.shared().finish();
            };
            match builder("load").spawn(carry_out) {
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
        let own = Arc::clone(&work);
        let supervisor = if failure.is_none() {
            spawn_supervisor(own, workers)
        } else {
            Err((io::Error::other("not started"), workers))
        };
        match supervisor {
            Ok(supervisor) => {
                let crew = Crew { work: Arc::clone(&work), supervisor: Some(supervisor) };
                shared.cancel.wait(None, || shared.all_parked());
                let trouble = locked(&shared.trouble).take();
                match trouble {
                    _ if shared.cancel.is_cancelled() => Err(LoadError::cancelled()),
                    Some(error) => Err(error),
                    None => Ok(crew),
                }
            }
            Err((error, workers)) => {
                end(&*work, State::Stopped);
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
            end(&*self.work, State::Stopped);
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
    work: Arc<dyn Work>,
    workers: Vec<JoinHandle<()>>,
) -> Result<JoinHandle<()>, Unsupervised> {
    // The workers must come back when the thread cannot be made, and a failed spawn drops its closure.
    let (hand_over, taken) = std::sync::mpsc::sync_channel(1);
    let spawned = builder("supervisor").spawn(move || {
        if let Ok(workers) = taken.recv() {
            supervise(&*work, workers);
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
fn supervise(work: &dyn Work, workers: Vec<JoinHandle<()>>) {
    let shared = work.shared();
    let stopped = || shared.state() != State::Going;
    shared.cancel.wait(None, || shared.start.load(Relaxed) != 0 || stopped());
    let start = Nanos(shared.start.load(Relaxed));
    let lead = LEAD.plus(Nanos(LEAD_PER_WORKER_NS * workers.len() as u64));
    shared.cancel.wait(Some(start.minus(lead)), stopped);
    if shared.cancel.is_cancelled() {
        end(work, State::Stopped);
    }
    shared.release();
    workers.iter().for_each(|worker| worker.thread().unpark());
    let grace = GRACE.plus(Nanos(GRACE_PER_WORKER_NS * workers.len() as u64));
    let due = start.plus(shared.load_ns);
    let rested = || shared.all_finished();
    shared.cancel.wait(Some(due.plus(Nanos(grace.0 / 2))), rested);
    let before = if rested() { Vec::new() } else { moved(work.sockets()) };
    shared.cancel.wait(Some(due.plus(grace)), rested);
    if shared.cancel.is_cancelled() {
        end(work, State::Stopped);
    } else if !rested() {
        // A congestion control that learnt a low rate beside others keeps to it, and may have megabytes left to send.
        let moves = before.iter().zip(moved(work.sockets())).any(|(then, now)| now > *then);
        end(work, if moves { State::Stopped } else { State::GaveUp });
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
    /// Starts the threads of a load and waits until all are parked.
    pub(crate) fn new(
        work: impl Work + 'static,
        obtained: SocketOptionsObtained,
        foreign_refused: u32,
    ) -> Result<Self, LoadError> {
        Ok(Prepared { crew: Crew::start(Arc::new(work))?, obtained, foreign_refused })
    }

    /// Socket options as read back.
    #[must_use]
    pub fn obtained(&self) -> &SocketOptionsObtained {
        &self.obtained
    }

    /// Connections that are up.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.crew.work.connections()
    }

    /// Threads that make the load.
    #[must_use]
    pub fn workers(&self) -> u32 {
        self.crew.work.shared().workers() as u32
    }

    /// Connections turned away because they did not show the token.
    #[must_use]
    pub fn foreign_refused(&self) -> u32 {
        self.foreign_refused
    }

    /// The sockets, by connection; open until [`Running::join`] returns. None for a transport without.
    #[must_use]
    pub fn sockets(&self) -> Vec<RawFd> {
        self.crew.work.sockets().iter().map(AsRawFd::as_raw_fd).collect()
    }

    /// Sockets that come and go while the load is on: those of a script.
    #[must_use]
    pub fn opened(&self) -> Arc<OpenSockets> {
        self.crew.work.opened()
    }

    /// Kernel thread ids of the workers.
    #[must_use]
    pub fn thread_ids(&self) -> Vec<i32> {
        self.crew.work.shared().marks.iter().map(|mark| mark.thread_id.load(Relaxed)).collect()
    }

    /// Starts the load at `start` on the `CLOCK_MONOTONIC` axis; a start that is past is now.
    #[must_use]
    pub fn arm(self, start: Nanos) -> Running {
        self.crew.work.shared().arm(start);
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
        Meter(Arc::clone(&self.crew.work.shared().counters))
    }

    /// Whether the workers start under `SCHED_FIFO`.
    ///
    /// # Errors
    /// Why not: not allowed, or more workers than CPUs.
    pub fn realtime(&self) -> Result<(), String> {
        self.crew.work.shared().realtime.clone()
    }

    /// Ends the load now: shuts every socket, so that blocked workers wake. What breaks by that is not lost.
    pub fn stop(&self) {
        end(&*self.crew.work, State::Stopped);
    }

    /// Whether every worker has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.crew.work.shared().all_finished()
    }

    /// Whether it may be over before the windows are, as a script is.
    #[must_use]
    pub fn may_end_early(&self) -> bool {
        self.crew.work.may_end_early()
    }

    /// Why the load failed as a whole; none: it did not.
    #[must_use]
    pub fn failure(&self) -> Option<LoadError> {
        self.crew.work.failure()
    }

    /// Waits until every worker has ended, by itself, by [`Running::stop`] or [`Cancel::cancel`], or because
    /// it was given up some seconds after the load was to stop (`GRACE`). Closes the sockets.
    #[must_use]
    pub fn join(mut self) -> Finished {
        self.crew.join();
        let (work, shared) = (&self.crew.work, self.crew.work.shared());
        let firsts =
            || shared.marks.iter().map(|mark| mark.first_ns.load(Relaxed)).filter(|first| *first > 0);
        let ended = shared.marks.iter().map(|mark| mark.ended_ns.load(Relaxed)).filter(|ended| *ended > 0);
        Finished {
            first_operation_ns: firsts().min().map(Nanos),
            last_worker_started_ns: firsts().max().map(Nanos),
            stopped_ns: ended.max().map(Nanos),
            totals: shared.counters.read(),
            script: work.account(),
            failure: work.failure(),
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
    /// Why the load failed as a whole, where it did.
    pub failure: Option<LoadError>,
}
