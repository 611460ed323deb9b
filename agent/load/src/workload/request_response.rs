//! Requests and answers: one in flight on each connection. The sender writes a request and waits for the whole
//! answer; the receiver takes the whole request and answers. A closed loop: the next request waits for the answer.

use iodyno_core::network::Network;
use iodyno_sys::epoll::Interest;

use super::lengths::Lengths;
use super::{refused, Activity, Step};
use crate::transport::Link;
use crate::worker::counters::Cell;
use crate::worker::Worker;

/// chosen: most calls of a visit. A visit to a connection usually ends after two or three, when the other end has
/// the word.
const VISIT_CALLS: u32 = 16;

/// The sending end. One operation is a request with its answer; its bytes are those of the request.
pub(crate) struct Request {
    lengths: Lengths,
    response_bytes: u64,
    /// Bytes of the request in hand that the kernel has not accepted.
    unsent: u64,
    /// Bytes of the answer that have not come.
    awaited: u64,
    /// When the first byte of the request was first offered.
    begun: u64,
}

impl Request {
    /// As `job` has it, on one of its connections.
    pub(crate) fn of(load: &Network, connection: usize) -> Self {
        let (lengths, response_bytes) = (Lengths::of(load, connection), load.response_bytes().0);
        Request { lengths, response_bytes, unsent: 0, awaited: 0, begun: 0 }
    }
}

impl Activity for Request {
    const UNTIL_DUE: bool = true;

    #[inline]
    fn interest(&self) -> Interest {
        if self.in_hand() {
            Interest::Readable
        } else {
            Interest::Writable
        }
    }

    /// Nothing comes unasked. The kernel need not be told that there is something to wait for once a request is out.
    #[inline]
    fn resting_interest(&self) -> Interest {
        Interest::Readable
    }

    /// A whole request is out, and the answer to come would meet a closed connection.
    #[inline]
    fn in_hand(&self) -> bool {
        self.unsent == 0 && self.awaited > 0
    }

    fn calls_per_visit(&self, _: usize) -> u32 {
        VISIT_CALLS
    }

    #[inline]
    fn step(&mut self, link: &impl Link, worker: &mut Worker<'_>, cell: &Cell) -> Step {
        if self.awaited == 0 {
            if worker.is_due() {
                return Step::Waiting;
            }
            (self.unsent, self.awaited) = (self.lengths.next(), self.response_bytes);
            self.begun = worker.now;
        }
        if self.unsent > 0 {
            return match send(&mut self.unsent, link, worker) {
                Ok(accepted) => {
                    worker.moved(cell, accepted, self.begun);
                    // The answer takes a round trip at least, and a short count means a full socket buffer.
                    if self.unsent == 0 || accepted < worker.source().len() as u64 {
                        Step::Waiting
                    } else {
                        Step::On
                    }
                }
                Err(step) => step,
            };
        }
        let outcome = link.receive(worker.scratch());
        worker.tick();
        match outcome {
            Ok(0) => Step::Ended,
            Ok(received) => {
                self.awaited = self.awaited.saturating_sub(received as u64);
                if self.awaited == 0 {
                    worker.completed(cell, self.begun);
                }
                Step::On
            }
            Err(error) => refused(&error),
        }
    }
}

/// The receiving end. One operation is a request answered: from the arrival of its first byte to the acceptance of
/// the answer's last. Its bytes are those of the request.
pub(crate) struct Answer {
    lengths: Lengths,
    /// Length of the request that is awaited or in hand.
    request_bytes: u64,
    response_bytes: u64,
    /// Bytes of the request that have not come.
    awaited: u64,
    /// Bytes of the answer in hand that the kernel has not accepted.
    unsent: u64,
    /// When the first byte of the request was read.
    begun: u64,
}

impl Answer {
    /// As `job` has it, on one of its connections.
    pub(crate) fn of(load: &Network, connection: usize) -> Self {
        let (mut lengths, response_bytes) = (Lengths::of(load, connection), load.response_bytes().0);
        let request_bytes = lengths.next();
        Answer { lengths, request_bytes, response_bytes, awaited: request_bytes, unsent: 0, begun: 0 }
    }
}

impl Activity for Answer {
    const UNTIL_DUE: bool = false;

    #[inline]
    fn interest(&self) -> Interest {
        if self.unsent > 0 {
            Interest::Writable
        } else {
            Interest::Readable
        }
    }

    /// What an answer takes begins when its request is here: not before, while there is nothing to answer.
    fn computes_next(&self) -> bool {
        self.unsent > 0
    }

    fn calls_per_visit(&self, _: usize) -> u32 {
        VISIT_CALLS
    }

    #[inline]
    fn step(&mut self, link: &impl Link, worker: &mut Worker<'_>, cell: &Cell) -> Step {
        if self.unsent > 0 {
            return match send(&mut self.unsent, link, worker) {
                Ok(accepted) => {
                    if self.unsent == 0 {
                        self.request_bytes = self.lengths.next();
                        self.awaited = self.request_bytes;
                        worker.completed(cell, self.begun);
                        // The next request waits for this answer to arrive.
                        return Step::Waiting;
                    }
                    if accepted < worker.source().len() as u64 {
                        Step::Waiting
                    } else {
                        Step::On
                    }
                }
                Err(step) => step,
            };
        }
        let asked = worker.now;
        let outcome = link.receive(worker.scratch());
        worker.tick();
        match outcome {
            Ok(0) => Step::Ended,
            Ok(received) => {
                if self.awaited == self.request_bytes {
                    self.begun = worker.now;
                }
                worker.moved(cell, received as u64, asked);
                self.awaited = self.awaited.saturating_sub(received as u64);
                if self.awaited == 0 {
                    self.unsent = self.response_bytes;
                    return Step::On;
                }
                // A short count means that the socket buffer is empty.
                if received == worker.scratch().length() {
                    Step::On
                } else {
                    Step::Waiting
                }
            }
            Err(error) => refused(&error),
        }
    }
}

/// Offers what is left, one call's worth of it; gives how much was accepted, or what became of the call.
#[inline]
fn send(left: &mut u64, link: &impl Link, worker: &mut Worker<'_>) -> Result<u64, Step> {
    let source = worker.source();
    let outcome = link.send(&source[..source.len().min(*left as usize)]);
    worker.tick();
    let accepted = outcome.map_err(|error| refused(&error))? as u64;
    *left -= accepted;
    Ok(accepted)
}
