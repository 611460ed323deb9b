//! Requests and answers, several requests under way on each connection; answers come in the order of the requests, as
//! a stream has it. A closed loop: the next request waits until fewer than `outstanding` are under way.

use std::collections::VecDeque;

use iodyno_core::job::Job;
use iodyno_sys::epoll::Interest;

use super::lengths::Lengths;
use super::{refused, Activity, Step};
use crate::transport::Link;
use crate::worker::counters::Cell;
use crate::worker::Worker;

/// chosen: most calls of a visit, as with one request at a time, and one for every request beside them.
const VISIT_CALLS: u32 = 16;

/// The sending end. One operation is a request with its answer; its bytes are those of the request.
///
/// It must never block in a send while answers wait to be read: the other end would block, too.
pub(crate) struct PipelinedRequest {
    lengths: Lengths,
    answer_bytes: u64,
    /// Bytes of the request in hand that the kernel has not accepted.
    unsent: u64,
    /// When each request was begun that has no whole answer, the one in hand last.
    begun: VecDeque<u64>,
    outstanding: usize,
    /// Bytes of the oldest one's answer that have come.
    received: u64,
    /// Whether the kernel took less than it was offered, and nothing was read since.
    full: bool,
}

impl PipelinedRequest {
    /// As `job` has it, on one of its connections.
    pub(crate) fn of(job: &Job, connection: usize) -> Self {
        let outstanding = job.outstanding as usize;
        PipelinedRequest {
            lengths: Lengths::of(job, connection),
            answer_bytes: job.answer_bytes.0,
            unsent: 0,
            begun: VecDeque::with_capacity(outstanding),
            outstanding,
            received: 0,
            full: false,
        }
    }

    /// Requests that the kernel has accepted whole, and whose answers are not whole.
    fn under_way(&self) -> usize {
        self.begun.len() - usize::from(self.unsent > 0)
    }
}

impl Activity for PipelinedRequest {
    const UNTIL_DUE: bool = true;

    #[inline]
    fn interest(&self) -> Interest {
        // A full socket empties when the other end reads, and then it answers, too.
        if self.under_way() > 0 {
            Interest::Readable
        } else {
            Interest::Writable
        }
    }

    /// Answers to come would meet a closed connection. A request that is cut off has none.
    #[inline]
    fn in_hand(&self) -> bool {
        self.under_way() > 0
    }

    fn calls_per_visit(&self, _: usize) -> u32 {
        VISIT_CALLS.max(self.outstanding as u32 + 1)
    }

    #[inline]
    fn gives_way(&self) -> bool {
        false
    }

    #[inline]
    fn step(&mut self, link: &impl Link, worker: &mut Worker<'_>, cell: &Cell) -> Step {
        let room = self.begun.len() < self.outstanding && !worker.is_due();
        if !self.full && (self.unsent > 0 || room) {
            if self.unsent == 0 {
                self.unsent = self.lengths.next();
                self.begun.push_back(worker.now);
            }
            let source = worker.source();
            let offered = source.len().min(self.unsent as usize);
            let outcome = link.send(&source[..offered]);
            let begun = worker.now;
            worker.tick();
            return match outcome {
                Ok(accepted) => {
                    self.unsent -= accepted as u64;
                    self.full = accepted < offered;
                    worker.moved(cell, accepted as u64, begun);
                    Step::On
                }
                Err(error) => match refused(&error) {
                    // Full: what has come is read before the kernel is asked again.
                    Step::Waiting if self.under_way() > 0 => {
                        self.full = true;
                        Step::On
                    }
                    step => step,
                },
            };
        }
        if self.under_way() == 0 {
            self.full = false;
            return Step::Waiting;
        }
        let outcome = link.receive(worker.scratch());
        worker.tick();
        match outcome {
            Ok(0) => Step::Ended,
            Ok(received) => {
                self.full = false;
                self.received += received as u64;
                while self.received >= self.answer_bytes && self.under_way() > 0 {
                    self.received -= self.answer_bytes;
                    if let Some(begun) = self.begun.pop_front() {
                        worker.completed(cell, begun);
                    }
                }
                Step::On
            }
            Err(error) => match refused(&error) {
                Step::Waiting => {
                    self.full = false;
                    Step::Waiting
                }
                step => step,
            },
        }
    }
}

/// The receiving end: takes whatever has come, and answers all of it in one call. One operation is a request answered.
pub(crate) struct PipelinedAnswer {
    lengths: Lengths,
    answer_bytes: u64,
    /// Length of the request that comes, and how much of it has come.
    expected: u64,
    received: u64,
    /// Bytes of answers that the kernel has not accepted.
    unsent: u64,
    /// When the last bytes of each request came whose answer is not out; as many as the other end may have under way.
    begun: VecDeque<u64>,
}

impl PipelinedAnswer {
    /// As `job` has it, on one of its connections.
    pub(crate) fn of(job: &Job, connection: usize) -> Self {
        let mut lengths = Lengths::of(job, connection);
        let expected = lengths.next();
        PipelinedAnswer {
            lengths,
            answer_bytes: job.answer_bytes.0,
            expected,
            received: 0,
            unsent: 0,
            begun: VecDeque::with_capacity(job.outstanding as usize),
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
    fn gives_way(&self) -> bool {
        false
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
                    while self.begun.len() as u64 > self.unsent.div_ceil(self.answer_bytes) {
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
                    self.unsent += self.answer_bytes;
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
