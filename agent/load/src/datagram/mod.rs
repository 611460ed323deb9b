//! The load on datagrams, where every message is whole, may be lost, and shows whose it is.
//!
//! ```text
//! client: requests under way, by number ─▶ server: one socket for all flows, answers to where it came from
//! sender: numbers without a gap         ─▶ receiver: a window of numbers tells lost from late
//! ```
//! Connections, which have an order and an end, are driven by `workload` and `driver` instead.

mod answer;
mod client;
pub(crate) mod counters;
pub(crate) mod farewell;
mod port;
mod receive;
mod requests;
pub(crate) mod sequence;
mod server;
mod transmit;

use std::os::fd::{AsFd, BorrowedFd};

use iodyno_core::job::{Driver, Interface, Job, Role, Transport, Workload};
use iodyno_core::message::ErrorCode;
use iodyno_sys::{affinity, datagram_ring};

use answer::Answers;
use receive::Receipts;

use crate::error::LoadError;
use crate::rings;
use crate::transport::datagram::Mark;
use crate::worker::shared::Shared;

/// Whether `job` is that of an end that serves all flows with few sockets.
pub(crate) fn is_server(job: &Job) -> bool {
    job.transport.is_datagram() && job.role == Role::Receive
}

/// Whether `job` is one of those that [`work`] carries out; otherwise it says what is missing, and what to take.
pub(crate) fn supports(job: &Job) -> Result<(), LoadError> {
    match job.driver {
        Driver::Rings => rings::check(job)?,
        Driver::Reflector => return rings::reflector::check(job),
        Driver::IoUring => datagram_ring::available().map_err(|why| {
            LoadError::new(ErrorCode::Unsupported, why, "driver", "take epoll or threads on this host")
        })?,
        Driver::RoundRobin => {
            let what = "datagrams that may never come are not waited for one flow after the other".to_owned();
            return Err(LoadError::new(ErrorCode::Unsupported, what, "driver", "take threads or epoll"));
        }
        Driver::Threads | Driver::Epoll => {}
    }
    let (on_a_ring, by_io_uring) = (job.driver == Driver::Rings, job.driver == Driver::IoUring);
    let blocks = job.driver == Driver::Threads && job.role == Role::Send;
    let plain = Job::default();
    let connects = "it needs a connection, and datagrams have none";
    let missing = "it is not there for datagrams";
    let reliable = "an answer may never come, and whoever waits for the lock would wait for it";
    let refusals = [
        (job.transport != Transport::Udp && !on_a_ring, "driver", "its frames lie in a ring", "take rings"),
        (job.workload == Workload::ConnectRequestResponse, "workload", connects, "take request_response"),
        (
            on_a_ring && job.interface != Interface::ReadWrite,
            "interface",
            "its frames lie in a ring, and no call moves them one by one",
            "take read_write",
        ),
        (
            by_io_uring && !matches!(job.interface, Interface::ReadWrite | Interface::ZeroCopy),
            "interface",
            "io_uring has calls of its own",
            "take read_write or zero_copy",
        ),
        (
            by_io_uring && job.socket.busy_poll_ns.is_some(),
            "socket.busy_poll_ns",
            "a wait on io_uring does not look at the device",
            "take threads",
        ),
        (
            matches!(job.driver, Driver::Threads | Driver::Epoll)
                && !matches!(
                    job.interface,
                    Interface::ReadWrite | Interface::Message | Interface::Batch | Interface::Segments
                ),
            "interface",
            missing,
            "take read_write, message, batch or segments",
        ),
        (job.direction != plain.direction, "direction", missing, "take forward"),
        (job.discards, "discards", "each datagram shows the trial's token", "leave it away"),
        (
            job.spins && (job.workload != Workload::RequestResponse || by_io_uring || blocks),
            "spins",
            "only who asks by epoll or on a ring, and who answers by calls or on one, can look again and again",
            "take the client epoll, and the server epoll, recvfrom, recvmsg, recvmmsg or segments",
        ),
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
        (
            job.message_sizes.is_some() && job.interface == Interface::Segments,
            "message_sizes",
            "the kernel cuts into segments of one size",
            "take another interface, or one size",
        ),
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
        _ if job.driver == Driver::Rings && is_server(job) => rings::drive(shared, number),
        _ if job.driver == Driver::Reflector => rings::reflector::drive(shared, number),
        (Workload::RequestResponse, Role::Send) => client::drive(shared, number),
        (Workload::RequestResponse, Role::Receive) => server::serve::<Answers>(shared, number),
        (Workload::Stream, Role::Send) => transmit::drive(shared, number),
        (Workload::Stream, Role::Receive) => server::serve::<Receipts>(shared, number),
        // Jobs are checked for the rest, and idle ones have no workers.
        _ => {}
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
