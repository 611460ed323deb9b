//! Requests and answers, several requests in flight on each connection; answers come in the order of the requests, as
//! a stream has it. A closed loop: the next request waits until fewer than `queue_depth` are in flight.

use std::collections::VecDeque;
use std::io;

use iodyno_core::network::Network;
use iodyno_sys::epoll::Interest;

use super::asking::{Asking, Book, VISIT_CALLS};
use super::lengths::Lengths;
use super::{refused, Activity, Step};
use crate::transport::Link;
use crate::worker::counters::Cell;
use crate::worker::Worker;

/// The requests of a stream, the oldest first.
pub(crate) struct InOrder {
    lengths: Lengths,
    response_bytes: u64,
    /// When each was begun, the one in hand last.
    begun: VecDeque<u64>,
    queue_depth: usize,
    /// Bytes of the oldest one's answer that have come.
    received: u64,
}

/// The sending end.
pub(crate) type PipelinedRequest = Asking<InOrder>;

impl PipelinedRequest {
    /// As `job` has it, on one of its connections.
    pub(crate) fn of(load: &Network, connection: usize) -> Self {
        let queue_depth = load.queue_depth() as usize;
        Asking::with(InOrder {
            lengths: Lengths::of(load, connection),
            response_bytes: load.response_bytes().0,
            begun: VecDeque::with_capacity(queue_depth),
            queue_depth,
            received: 0,
        })
    }
}

impl Book for InOrder {
    #[inline]
    fn begun(&self) -> usize {
        self.begun.len()
    }

    #[inline]
    fn most(&self) -> usize {
        self.queue_depth
    }

    #[inline]
    fn begin(&mut self, now: u64) -> usize {
        self.begun.push_back(now);
        self.lengths.next() as usize
    }

    #[inline]
    fn offered<'a>(&'a self, unsent: usize, worker: &'a Worker<'_>) -> &'a [u8] {
        let source = worker.source();
        &source[..source.len().min(unsent)]
    }

    #[inline]
    fn read(
        &mut self,
        under_way: usize,
        link: &impl Link,
        worker: &mut Worker<'_>,
        cell: &Cell,
    ) -> io::Result<Result<usize, i32>> {
        let outcome = link.receive(worker.scratch());
        worker.tick();
        let came = outcome?;
        self.received += came as u64;
        let in_hand = self.begun.len() - under_way;
        while self.received >= self.response_bytes && self.begun.len() > in_hand {
            self.received -= self.response_bytes;
            if let Some(begun) = self.begun.pop_front() {
                worker.completed(cell, begun);
            }
        }
        Ok(Ok(came))
    }
}

/// The receiving end: takes whatever has come, and answers all of it in one call. One operation is a request answered.
pub(crate) struct PipelinedAnswer {
    lengths: Lengths,
    response_bytes: u64,
    /// Length of the request that comes, and how much of it has come.
    expected: u64,
    received: u64,
    /// Bytes of answers that the kernel has not accepted.
    unsent: u64,
    /// When the last bytes of each request came whose answer is not out; as many as the other end may have in flight.
    begun: VecDeque<u64>,
}

impl PipelinedAnswer {
    /// As `job` has it, on one of its connections.
    pub(crate) fn of(load: &Network, connection: usize) -> Self {
        let mut lengths = Lengths::of(load, connection);
        let expected = lengths.next();
        PipelinedAnswer {
            lengths,
            response_bytes: load.response_bytes().0,
            expected,
            received: 0,
            unsent: 0,
            begun: VecDeque::with_capacity(load.queue_depth() as usize),
        }
    }
}

impl Activity for PipelinedAnswer {
    const UNTIL_DUE: bool = false;

    #[inline]
    fn interest(&self) -> Interest {
        if self.unsent > 0 {
            Interest::Writable
        } else {
            Interest::Readable
        }
    }

    fn calls_per_visit(&self, _: usize) -> u32 {
        VISIT_CALLS
    }

    #[inline]
    fn step(&mut self, link: &impl Link, worker: &mut Worker<'_>, cell: &Cell) -> Step {
        if self.unsent > 0 {
            let source = worker.source();
            let offered = source.len().min(self.unsent as usize);
            let outcome = link.send(&source[..offered]);
            worker.tick();
            return match outcome {
                Ok(accepted) => {
                    self.unsent -= accepted as u64;
                    // The oldest answers are those that are out: all but as many as the rest is long.
                    while self.begun.len() as u64 > self.unsent.div_ceil(self.response_bytes) {
                        if let Some(begun) = self.begun.pop_front() {
                            worker.completed(cell, begun);
                        }
                    }
                    if accepted < offered {
                        Step::Waiting
                    } else {
                        Step::On
                    }
                }
                Err(error) => refused(&error),
            };
        }
        let asked = worker.now;
        let outcome = link.receive(worker.scratch());
        worker.tick();
        match outcome {
            Ok(0) => Step::Ended,
            Ok(received) => {
                worker.moved(cell, received as u64, asked);
                self.received += received as u64;
                while self.received >= self.expected {
                    self.received -= self.expected;
                    self.expected = self.lengths.next();
                    self.begun.push_back(worker.now);
                    self.unsent += self.response_bytes;
                }
                // A short count means that the socket buffer is empty.
                if self.unsent > 0 || received == worker.scratch().length() {
                    Step::On
                } else {
                    Step::Waiting
                }
            }
            Err(error) => refused(&error),
        }
    }
}
