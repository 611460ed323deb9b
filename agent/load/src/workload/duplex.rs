//! A stream both ways at once on one connection, by a worker that does not block. An engine with a thread a
//! connection has two of them instead, one for each way ([`crate::engine::work`]).

use iodyno_core::network::Network;
use iodyno_sys::epoll::Interest;

use super::stream::{Receive, Transmit};
use super::{Activity, Step};
use crate::transport::Link;
use crate::worker::counters::Cell;
use crate::worker::Worker;

/// Either end. Its operations are the messages that it sends; its bytes are those that it receives.
pub(crate) struct Duplex {
    transmit: Transmit,
    receive: Receive,
    /// Whether this end still sends.
    sends: bool,
}

impl Duplex {
    /// As `job` has it, on one of its connections.
    pub(crate) fn of(load: &Network, connection: usize) -> Self {
        Duplex { transmit: Transmit::beside(load, connection), receive: Receive::BESIDE, sends: true }
    }
}

impl Activity for Duplex {
    // It stops sending by itself, and goes on reading until the other end has stopped, too.
    const UNTIL_DUE: bool = false;

    #[inline]
    fn interest(&self) -> Interest {
        if self.sends {
            Interest::Either
        } else {
            Interest::Readable
        }
    }

    fn calls_per_visit(&self, connections: usize) -> u32 {
        self.transmit.calls_per_visit(connections)
    }

    #[inline]
    fn step(&mut self, link: &impl Link, worker: &mut Worker<'_>, cell: &Cell) -> Step {
        // What was submitted is waited for, so that what the kernel took is counted.
        if self.sends && worker.is_due() && !link.is_sending() {
            link.finish();
            self.sends = false;
        }
        if !self.sends {
            // No send will read them any more, and a wait for the other end's bytes would end at once, again and again.
            link.tend();
        }
        let sent = if self.sends { self.transmit.step(link, worker, cell) } else { Step::Waiting };
        if matches!(sent, Step::Failed(_)) {
            return sent;
        }
        match self.receive.step(link, worker, cell) {
            // The other end has stopped first: nothing more is begun, and what was submitted is still waited for.
            Step::Ended if self.sends && link.is_sending() => Step::Waiting,
            Step::Ended => {
                if self.sends {
                    link.finish();
                }
                Step::Ended
            }
            Step::Waiting => sent,
            received => received,
        }
    }
}
