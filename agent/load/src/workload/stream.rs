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

/// chosen: a call with so many bytes or more is a turn of its own: megabytes in many socket buffers do not stay in the
/// cache between the sender's copy and the receiver's. Measured, Gbit/s with turns, and when each connection goes on until
/// its socket is full: 64 KiB x 32 1.0 to 1.2 and 0.6 of iperf3; 32 KiB x 32 14.7 and 9.7, x 1000 17.1 and 7.2; 16 KiB x 32
/// 7.9 and 7.4.
const LARGE_BYTES: u64 = 16 << 10;
/// chosen: bytes of smaller messages that one visit sends; mostly it ends before, when the socket's buffer is full. Measured,
/// 1 KiB x 32: 0.8 of iperf3 with 64 KiB, 2.2 with 1 MiB; 8 KiB x 100, Gbit/s: 1.5 with 8 KiB, 3.1 with 128 KiB, 5.3 with
/// 1 MiB, 7.6 with 4 MiB. Only behind what the window or pacing holds back are small messages joined to large segments; what
/// goes out at once is a frame of its own, with a timer for the next and a wake-up of the reader.
const VISIT_BYTES: u64 = 4 << 20;
/// chosen: least bytes of a visit, and bytes of a round over all connections of a worker, which shortens the
/// visits where there are many connections: each of 6000 has its turn about twice in a second. Measured, 8 KiB x 1000,
/// Gbit/s: 2.9 with rounds of 64 MiB, 5.7 with these.
const LEAST_VISIT_BYTES: u64 = 64 << 10;
const ROUND_BYTES: u64 = 512 << 20;
/// chosen: most calls of a visit: a millisecond or so, also with the smallest messages.
const MOST_CALLS: u64 = 1024;
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
        if self.call_bytes >= LARGE_BYTES {
            return 1;
        }
        let bytes = (ROUND_BYTES / connections.max(1) as u64).clamp(LEAST_VISIT_BYTES, VISIT_BYTES);
        (bytes / self.call_bytes).min(MOST_CALLS) as u32
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
