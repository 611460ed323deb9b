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

use iodyno_core::network::{Driver, Role, TrafficKind};
use iodyno_sys::affinity;

use answer::Answers;
use receive::Receipts;

use crate::connections::{is_server, Connections};
use crate::error::LoadError;
use crate::rings;
use crate::transport::datagram::Mark;

/// Carries out what worker `number` has to do, from its own thread, to the end.
pub(crate) fn work(shared: &Connections, number: usize) {
    let job = &shared.job;
    match (job.load.kind(), job.load.role) {
        _ if job.load.driver == Driver::Rings && is_server(&job.load) => rings::drive(shared, number),
        _ if job.load.driver == Driver::Reflector => rings::reflector::drive(shared, number),
        (TrafficKind::RequestResponse, Role::Send) => client::drive(shared, number),
        (TrafficKind::RequestResponse, Role::Receive) => server::serve::<Answers>(shared, number),
        (TrafficKind::Stream, Role::Send) => transmit::drive(shared, number),
        (TrafficKind::Stream, Role::Receive) => server::serve::<Receipts>(shared, number),
        // Jobs are checked for the rest, and idle ones have no workers.
        _ => {}
    }
}

/// Keeps the calling thread on the CPUs that are its own.
fn settle(shared: &Connections, number: usize) -> Result<(), LoadError> {
    let own = [shared.cpus[number % shared.cpus.len()]];
    // One of many threads goes where the scheduler puts it; one a CPU stays there.
    let spread = shared.job.load.driver == Driver::Threads && !is_server(&shared.job.load);
    let cpus = if spread { &shared.cpus[..] } else { &own };
    affinity::restrict(cpus).map_err(|error| LoadError::refused(&error, "run on the CPUs of the job", "cpus"))
}

/// What the workers of both ends know.
struct End<'a> {
    shared: &'a Connections,
    mark: Mark,
}

impl<'a> End<'a> {
    fn of(shared: &'a Connections) -> Self {
        End { shared, mark: Mark::of(&shared.job) }
    }

    fn socket(&self, at: usize) -> BorrowedFd<'a> {
        self.shared.sockets[at].as_fd()
    }
}
