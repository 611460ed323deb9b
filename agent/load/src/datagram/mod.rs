//! The load on datagrams, where every message is whole, may be lost, and shows whose it is.
//!
//! ```text
//! client: requests in flight, by number ─▶ server: one socket for all flows, answers to where it came from
//! sender: numbers without a gap         ─▶ receiver: a window of numbers tells lost from late
//! ```
//! Connections, which have an order and an end, are driven by `workload` and `engine` instead.

mod answer;
mod client;
pub(crate) mod counters;
mod end;
pub(crate) mod farewell;
mod port;
mod receive;
mod requests;
pub(crate) mod sequence;
mod server;
mod transmit;

use iodyno_core::network::{Engine, Role, TrafficKind};

use answer::Answers;
use receive::Receipts;

use crate::connections::{is_server, Connections};
use crate::rings;

/// Carries out what worker `number` has to do, from its own thread, to the end.
pub(crate) fn work(shared: &Connections, number: usize) {
    let job = &shared.job;
    match (job.load.kind(), job.load.role) {
        _ if job.load.engine == Engine::Rings && is_server(&job.load) => rings::drive(shared, number),
        _ if job.load.engine == Engine::Reflector => rings::reflector::drive(shared, number),
        (TrafficKind::RequestResponse, Role::Send) => client::drive(shared, number),
        (TrafficKind::RequestResponse, Role::Receive) => server::serve::<Answers>(shared, number),
        (TrafficKind::Stream, Role::Send) => transmit::drive(shared, number),
        (TrafficKind::Stream, Role::Receive) => server::serve::<Receipts>(shared, number),
        // Jobs are checked for the rest, and idle ones have no workers.
        _ => {}
    }
}
