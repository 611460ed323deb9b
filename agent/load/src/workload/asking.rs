//! The asking end where several requests are in flight on each connection: it writes requests as long as it may, and
//! reads answers when it may not. What a request is, and which of them an answer is for, its book knows.
//!
//! It must never block in a send while answers wait to be read: the other end would block, too.

use std::io;

use iodyno_sys::epoll::Interest;

use super::{refused, Activity, Step};
use crate::transport::Link;
use crate::worker::counters::Cell;
use crate::worker::Worker;

/// chosen: most calls of a visit, as with one request at a time, and one for every request beside them.
pub(super) const VISIT_CALLS: u32 = 16;

/// The requests of a connection that were begun and have no whole answer.
pub(crate) trait Book {
    /// How many there are, with the one in hand.
    fn begun(&self) -> usize;
    /// How many there may be.
    fn most(&self) -> usize;
    /// Begins one; gives its bytes.
    fn begin(&mut self, now: u64) -> usize;
    /// What to offer of the one in hand, of which the last `unsent` bytes are left; a part, where that is more than a call takes.
    fn offered<'a>(&'a self, unsent: usize, worker: &'a Worker<'_>) -> &'a [u8];
    /// Reads once. The outer error is that of the call; the inner one is an error number: what came is no answer. Of
    /// all that were begun, the first `under_way` are out.
    fn read(
        &mut self,
        under_way: usize,
        link: &impl Link,
        worker: &mut Worker<'_>,
        cell: &Cell,
    ) -> io::Result<Result<usize, i32>>;
}

/// One operation is a request with its answer; its bytes are those of the request.
pub(crate) struct Asking<B> {
    book: B,
    /// Bytes of the request in hand that the kernel has not accepted.
    unsent: usize,
    /// Whether the kernel took less than it was offered, and nothing was read since.
    full: bool,
}

impl<B: Book> Asking<B> {
    pub(super) fn with(book: B) -> Self {
        Asking { book, unsent: 0, full: false }
    }

    /// Requests that the kernel has accepted whole, and whose answers are not whole.
    fn under_way(&self) -> usize {
        // A peer may answer what it has not got whole.
        self.book.begun().saturating_sub(usize::from(self.unsent > 0))
    }
}

impl<B: Book> Activity for Asking<B> {
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
        VISIT_CALLS.max(self.book.most() as u32 + 1)
    }

    #[inline]
    fn step(&mut self, link: &impl Link, worker: &mut Worker<'_>, cell: &Cell) -> Step {
        let room = self.book.begun() < self.book.most() && !worker.is_due();
        if !self.full && (self.unsent > 0 || room) {
            if self.unsent == 0 {
                self.unsent = self.book.begin(worker.now);
            }
            let bytes = self.book.offered(self.unsent, worker);
            let offered = bytes.len();
            let outcome = link.send(bytes);
            let begun = worker.now;
            worker.tick();
            return match outcome {
                Ok(accepted) => {
                    self.unsent -= accepted;
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
        let under_way = self.under_way();
        if under_way == 0 {
            self.full = false;
            return Step::Waiting;
        }
        match self.book.read(under_way, link, worker, cell) {
            Ok(Ok(0)) => Step::Ended,
            Ok(Ok(_)) => {
                self.full = false;
                Step::On
            }
            Ok(Err(number)) => Step::Failed(number),
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
