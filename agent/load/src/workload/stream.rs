//! Bulk transmit: messages of one size, one after the other, as fast as they are accepted; the other end
//! reads whatever there is.

use std::collections::VecDeque;

use iodyno_core::network::Network;
use iodyno_sys::epoll::Interest;

use super::lengths::Lengths;
use super::{refused, Activity, Step};
use crate::joining::{most_joined, writes_batches};
use crate::transport::Link;
use crate::worker::counters::Cell;
use crate::worker::Worker;

/// chosen: a call with so many bytes or more is a visit of its own: megabytes in many socket buffers do not stay in the
/// cache between the sender's copy and the receiver's. Measured, Gbit/s, with one call and until the socket is full: 64 KiB
/// x 32 23 and 12; 16 KiB x 32 7.9 and 7.4, x 100 13.7 and 10.3, x 300 16.5 and 9.6. Smaller messages go on until the socket
/// is full, as threads do: only behind what the window or pacing holds back are they joined to large segments; what goes out
/// at once is a frame of its own, with a timer for the next and a wake-up of the reader. Measured, 1 KiB x 1000: 0.7 with
/// 64 calls, 1.8 with 512, 2.2 with 4096; x 32: 2.5 with 1024, 2.9 with 16384.
const LARGE_BYTES: u64 = 16 << 10;
/// chosen: where a round over all connections of a worker moves so many bytes, a call of a page or more is a visit of its own,
/// too: a round then lasts longer than what holds back the next frame of a connection, so that no timer is set and the reader
/// does not sleep. Measured likewise: 8 KiB x 128 6.6 and 9.7, x 300 10.9 and 9.2, x 1000 13.1 and 7.0; 4 KiB x 1000 7.3 and
/// 6.5, x 3000 7.3 and 4.3; 1 KiB x 1000 0.9 and 2.2.
const LARGE_ROUND_BYTES: u64 = 2 << 20;
const PAGE_BYTES: u64 = 4 << 10;
/// chosen: reads of one visit. Measured: 2 and 8 are alike.
const VISIT_READS: u32 = 2;

/// The sending end.
pub(crate) struct Transmit {
    lengths: Lengths,
    /// What a call hands over at most: the greatest message, or a batch of them.
    call_bytes: u64,
    /// Bytes of the message in hand that the kernel has not accepted.
    left: u64,
    /// When its first byte was first offered.
    begun: u64,
    /// Lengths of the messages that are in hand behind it, and their sum. The first call begins them all.
    joined: VecDeque<u64>,
    joined_bytes: u64,
    most_joined: u32,
    /// Messages that each call begins where nobody says how many are due.
    batch: u32,
    /// Whether another activity receives on the same connection: its bytes are those that count there.
    beside: bool,
}

impl Transmit {
    /// As `job` has it, on one of its connections.
    pub(crate) fn of(load: &Network, connection: usize) -> Self {
        let lengths = Lengths::of(load, connection);
        let most_joined = most_joined(load);
        let batch = if writes_batches(load) && load.arrivals.is_none() { most_joined } else { 1 };
        Transmit {
            lengths,
            call_bytes: load.message_bytes.0 * u64::from(batch),
            left: 0,
            begun: 0,
            joined: VecDeque::with_capacity(most_joined as usize),
            joined_bytes: 0,
            most_joined,
            batch,
            beside: false,
        }
    }

    /// The same on a connection that receives, too.
    pub(crate) fn beside(load: &Network, connection: usize) -> Self {
        Transmit { beside: true, ..Transmit::of(load, connection) }
    }
}

impl Transmit {
    /// The kernel took so many bytes of what is in hand: the messages that are whole now end together.
    #[inline]
    fn take_off(&mut self, mut bytes: u64, worker: &Worker<'_>, cell: &Cell) {
        let mut whole = 0;
        while bytes >= self.left {
            bytes -= self.left;
            whole += 1;
            let Some(next) = self.joined.pop_front() else {
                (self.left, bytes) = (0, 0);
                break;
            };
            (self.left, self.joined_bytes) = (next, self.joined_bytes - next);
        }
        self.left -= bytes;
        match whole {
            0 => {}
            1 => worker.completed(cell, self.begun),
            _ => {
                cell.add_operations(whole);
                worker.completed_together(self.begun, whole);
            }
        }
    }
}

impl Activity for Transmit {
    const UNTIL_DUE: bool = true;

    #[inline]
    fn interest(&self) -> Interest {
        Interest::Writable
    }

    fn most_joined(&self) -> u32 {
        self.most_joined
    }

    fn join(&mut self, operations: u32, now: u64) {
        (self.left, self.begun) = (self.lengths.next(), now);
        for _ in 1..operations {
            let bytes = self.lengths.next();
            self.joined.push_back(bytes);
            self.joined_bytes += bytes;
        }
    }

    fn calls_per_visit(&self, connections: usize) -> u32 {
        let fills_a_round =
            self.call_bytes >= PAGE_BYTES && self.call_bytes * connections as u64 >= LARGE_ROUND_BYTES;
        match self.call_bytes >= LARGE_BYTES || fills_a_round {
            true => 1,
            false => u32::MAX,
        }
    }

    #[inline]
    fn between_messages(&self) -> bool {
        self.left == 0
    }

    #[inline]
    fn step(&mut self, link: &impl Link, worker: &mut Worker<'_>, cell: &Cell) -> Step {
        if self.left == 0 {
            if self.batch > 1 {
                self.join(self.batch, worker.now);
                worker.handed_over(self.batch);
            } else {
                (self.left, self.begun) = (self.lengths.next(), worker.now);
            }
        }
        let source = worker.source();
        let offered = &source[..source.len().min((self.left + self.joined_bytes) as usize)];
        let outcome = link.send(offered);
        worker.tick();
        match outcome {
            Ok(accepted) => {
                if self.beside {
                    worker.sent_beside(cell, accepted as u64, self.begun);
                } else {
                    worker.moved(cell, accepted as u64, self.begun);
                }
                self.take_off(accepted as u64, worker, cell);
                // A short count means that the socket buffer is full: asking again would only say so.
                if accepted == offered.len() {
                    Step::On
                } else {
                    Step::Waiting
                }
            }
            Err(error) => refused(&error),
        }
    }
}

/// The receiving end. One read that returned data is one operation, except on a connection that sends, too: its
/// operations are the messages sent.
pub(crate) struct Receive {
    beside: bool,
}

impl Receive {
    /// The only activity of a connection.
    pub(crate) const ALONE: Self = Receive { beside: false };
    /// On a connection that sends, too.
    pub(crate) const BESIDE: Self = Receive { beside: true };
}

impl Activity for Receive {
    const UNTIL_DUE: bool = false;

    #[inline]
    fn interest(&self) -> Interest {
        Interest::Readable
    }

    fn calls_per_visit(&self, _: usize) -> u32 {
        VISIT_READS
    }

    #[inline]
    fn step(&mut self, link: &impl Link, worker: &mut Worker<'_>, cell: &Cell) -> Step {
        let begun = worker.now;
        let outcome = link.receive(worker.scratch());
        worker.tick();
        match outcome {
            Ok(0) => Step::Ended,
            Ok(received) => {
                worker.moved(cell, received as u64, begun);
                if !self.beside {
                    worker.completed(cell, begun);
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

/// The receiving end that takes as much as the sender's message has, and waits for it: each is one operation.
pub(crate) struct ReceiveWhole {
    message_bytes: u64,
    /// Bytes of the message in hand that did not come yet.
    left: u64,
    /// When they were first asked for.
    begun: u64,
}

impl ReceiveWhole {
    pub(crate) fn of(load: &Network) -> Self {
        ReceiveWhole { message_bytes: load.message_bytes.0, left: 0, begun: 0 }
    }
}

impl Activity for ReceiveWhole {
    const UNTIL_DUE: bool = false;

    #[inline]
    fn interest(&self) -> Interest {
        Interest::Readable
    }

    fn calls_per_visit(&self, _: usize) -> u32 {
        1
    }

    #[inline]
    fn between_messages(&self) -> bool {
        self.left == 0
    }

    #[inline]
    fn step(&mut self, link: &impl Link, worker: &mut Worker<'_>, cell: &Cell) -> Step {
        if self.left == 0 {
            (self.left, self.begun) = (self.message_bytes, worker.now);
        }
        let outcome = link.receive_at_most(worker.scratch(), self.left as usize);
        worker.tick();
        match outcome {
            Ok(0) => Step::Ended,
            Ok(received) => {
                worker.moved(cell, received as u64, self.begun);
                self.left -= received as u64;
                if self.left == 0 {
                    worker.completed(cell, self.begun);
                }
                Step::On
            }
            Err(error) => refused(&error),
        }
    }
}
