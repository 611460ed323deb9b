//! What is done on a connection: one file each.

pub(crate) mod application;
pub(crate) mod asking;
pub(crate) mod duplex;
pub(crate) mod lengths;
pub(crate) mod multiplex;
pub(crate) mod open;
pub(crate) mod pipeline;
pub(crate) mod request_response;
pub(crate) mod stream;

use std::io;

use iodyno_sys::epoll::Interest;
use iodyno_sys::errno;

use crate::transport::Link;
use crate::worker::counters::Cell;
use crate::worker::Worker;

/// What became of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It did something, and the next one probably will.
    On,
    /// Nothing more can be done until the connection is ready again.
    Waiting,
    /// It completed an operation, and the connection rests until this instant.
    Pausing(u64),
    /// The peer sends no more.
    Ended,
    /// The connection broke; the error number.
    Failed(i32),
}

/// One end of a workload on one connection, a call at a time. The engine decides whose turn it is.
pub(crate) trait Activity {
    /// Whether it goes on until the load is due to stop; otherwise until the peer ends.
    const UNTIL_DUE: bool;
    /// Whether a step may be [`Step::Pausing`].
    const PAUSES: bool = false;
    /// What it waits for when a call could do nothing.
    fn interest(&self) -> Interest;
    /// What it waits for while it pauses: something that does not come unless the connection ends or breaks.
    fn resting_interest(&self) -> Interest {
        Interest::Nothing
    }
    /// Operations that one call may begin together; they end in the order in which they began.
    fn most_joined(&self) -> u32 {
        1
    }
    /// So many operations begin together `now`, [`Activity::most_joined`] at most and more than 1, with the next call.
    fn join(&mut self, _operations: u32, _now: u64) {}
    /// Whether something is in hand that must come to its end although the load is due to stop.
    fn in_hand(&self) -> bool {
        false
    }
    /// Whether the last call ended a message, or there was none.
    fn between_messages(&self) -> bool {
        true
    }
    /// Whether the next call of an operation is the one that an application computes before: its write, or, where it
    /// answers, that of the answer.
    fn computes_next(&self) -> bool {
        true
    }
    /// Calls that an engine makes on one of its `connections` before it turns to the next.
    fn calls_per_visit(&self, connections: usize) -> u32;
    /// Makes one call and counts what it did. Begins at `worker.now` and moves it to the end of the call.
    fn step(&mut self, link: &impl Link, worker: &mut Worker<'_>, cell: &Cell) -> Step;
}

/// What became of a call that the kernel refused.
fn refused(error: &io::Error) -> Step {
    match error.raw_os_error().unwrap_or(0) {
        errno::EAGAIN => Step::Waiting,
        errno::EINTR => Step::On,
        number => Step::Failed(number),
    }
}
