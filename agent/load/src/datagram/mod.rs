//! The load on datagrams, where every message is whole, may be lost, and shows whose it is.
//!
//! ```text
//! client: requests under way, by number ─▶ server: one socket for all flows, answers to where it came from
//! sender: numbers without a gap         ─▶ receiver: a window of numbers tells lost from late
//! ```
//! Connections, which have an order and an end, are driven by `workload` and `driver` instead.

mod answer;
mod arrivals;
mod client;
pub(crate) mod counters;
pub(crate) mod farewell;
mod receive;
mod requests;
mod sequence;
mod server;
mod transmit;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use iodyno_core::job::{Driver, Interface, Job, Role, Transport, Workload};
use iodyno_core::message::ErrorCode;
use iodyno_sys::affinity;
use iodyno_sys::datagram::{Calls, Incoming, Outgoing, MOST_SEGMENTS};

use answer::Answers;
use receive::Receipts;

use crate::error::LoadError;
use crate::rings;
use crate::transport::datagram::Mark;
use crate::worker::shared::Shared;

/// chosen: most datagrams that the kernel joins, with room: kernels join up to 64 (`UDP_GRO_CNT_MAX`) and pass on what
/// was never cut, up to 128.
const MOST_JOINED: usize = 2 * MOST_SEGMENTS;

/// Whether `job` is that of an end that serves all flows with few sockets.
pub(crate) fn is_server(job: &Job) -> bool {
    job.transport.is_datagram() && job.role == Role::Receive
}

/// Whether `job` is one of those that [`work`] carries out; otherwise it says what is missing, and what to take.
pub(crate) fn supports(job: &Job) -> Result<(), LoadError> {
    match job.driver {
        Driver::Rings => return rings::check(job),
        Driver::Reflector => return rings::reflector::check(job),
        Driver::Threads | Driver::Epoll | Driver::IoUring => {}
    }
    let plain = Job::default();
    let connects = "it needs a connection, and datagrams have none";
    let missing = "it is not there for datagrams";
    let reliable = "an answer may never come, and whoever waits for the lock would wait for it";
    let refusals = [
        (job.transport != Transport::Udp, "driver", "its frames lie in a ring", "take rings"),
        (job.workload == Workload::ConnectRequestResponse, "workload", connects, "take request_response"),
        (!matches!(job.driver, Driver::Threads | Driver::Epoll), "driver", missing, "take threads or epoll"),
        (
            !matches!(
                job.interface,
                Interface::ReadWrite | Interface::Message | Interface::Batch | Interface::Segments
            ),
            "interface",
            missing,
            "take read_write, message, batch or segments",
        ),
        (job.direction != plain.direction, "direction", missing, "take forward"),
        (job.cork, "cork", "datagrams are not joined by the sender's kernel", "take segments"),
        (
            job.socket.congestion_control.is_some(),
            "socket.congestion_control",
            "UDP has no congestion control",
            "leave it out",
        ),
        (job.serialised, "serialised", reliable, "leave it out"),
        (job.think_ns.0 > 0, "think_ns", missing, "leave it out"),
        (job.burst > 1, "burst", missing, "take outstanding"),
        (job.message_sizes.is_some(), "message_sizes", missing, "take one size"),
        (
            job.arrivals.is_some() && job.outstanding > 1 && job.driver == Driver::Threads,
            "outstanding",
            "a thread that waits for an answer cannot begin another request in time",
            "take the driver epoll",
        ),
    ];
    match refusals.into_iter().find(|(refused, ..)| *refused) {
        None => Ok(()),
        Some((_, key, why, advice)) => {
            let what = format!("the load cannot be made like this over UDP: {why}");
            Err(LoadError::new(ErrorCode::Unsupported, what, key, advice))
        }
    }
}

/// Carries out what worker `number` has to do, from its own thread, to the end.
pub(crate) fn work(shared: &Shared, number: usize) {
    let job = &shared.job;
    match (job.workload, job.role) {
        _ if job.driver == Driver::Rings => rings::drive(shared, number),
        _ if job.driver == Driver::Reflector => rings::reflector::drive(shared, number),
        (Workload::RequestResponse, Role::Send) => client::drive(shared, number),
        (Workload::RequestResponse, Role::Receive) => server::serve::<Answers>(shared, number),
        (Workload::Stream, Role::Send) => transmit::drive(shared, number),
        (Workload::Stream, Role::Receive) => server::serve::<Receipts>(shared, number),
        // Jobs are checked for the rest, and idle ones have no workers.
        _ => {}
    }
}

/// The calls of an interface; jobs are checked for those that move no datagrams.
fn calls(interface: Interface) -> Calls {
    match interface {
        Interface::Message => Calls::Message,
        Interface::Batch => Calls::Batch,
        Interface::Segments => Calls::Segments,
        _ => Calls::Plain,
    }
}

/// The memory of a worker: what it takes from the socket and what it hands over.
struct Buffers {
    incoming: Incoming,
    outgoing: Outgoing,
    /// Datagrams that `outgoing` holds.
    room: usize,
}

impl Buffers {
    /// For messages of `taken` bytes in and `given` bytes out.
    fn new(shared: &Shared, taken: u64, given: u64) -> Result<Self, LoadError> {
        let (job, calls) = (&shared.job, calls(shared.job.interface));
        let batch = job.batch as usize;
        let room = match calls {
            Calls::Plain | Calls::Message => 1,
            Calls::Batch => batch,
            // An answer to each of what was joined.
            Calls::Segments if job.role == Role::Receive => MOST_JOINED,
            Calls::Segments => batch.min(MOST_SEGMENTS),
        };
        let memory = |error: io::Error| LoadError::refused(&error, "get memory for buffers", "message_bytes");
        // A byte more, so that what is too long is seen to be.
        let incoming = Incoming::new(calls, batch, taken as usize + 1).map_err(memory)?;
        Ok(Buffers {
            // A sender's sockets are connected.
            incoming: if is_server(job) { incoming } else { incoming.from_one_peer() },
            outgoing: Outgoing::new(calls, room, given as usize, shared.source.bytes()).map_err(memory)?,
            room,
        })
    }
}

/// Keeps the calling thread on the CPUs that are its own.
fn settle(shared: &Shared, number: usize) -> Result<(), LoadError> {
    let own = [shared.cpus[number % shared.cpus.len()]];
    // One of many threads goes where the scheduler puts it; one a CPU stays there.
    let spread = shared.job.driver == Driver::Threads && !is_server(&shared.job);
    let cpus = if spread { &shared.cpus[..] } else { &own };
    affinity::restrict(cpus).map_err(|error| LoadError::refused(&error, "run on the CPUs of the job", "cpus"))
}

/// What the workers of both ends know.
struct End<'a> {
    shared: &'a Shared,
    mark: Mark,
}

impl<'a> End<'a> {
    fn of(shared: &'a Shared) -> Self {
        End { shared, mark: Mark::of(&shared.job) }
    }

    fn socket(&self, at: usize) -> BorrowedFd<'a> {
        self.shared.sockets[at].as_fd()
    }
}
