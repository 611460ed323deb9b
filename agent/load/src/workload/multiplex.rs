//! Requests and answers with identifiers, several in flight on each connection, answered in any order: as protocols do
//! that multiplex exchanges over one stream.
//!
//! | bytes | in front of every request and answer, little-endian |
//! | --- | --- |
//! | 0..4 | identifier of the request: which of the `queue_depth` places it has |
//! | 4..8 | length of the message, with these bytes |
//!
//! The answering end draws which of the waiting requests it answers next, as if some took it longer than others. So an
//! asking end that counted on an order would be found out. A closed loop: a place asks anew when its answer is whole.

use std::io;

use iodyno_core::network::Network;
use iodyno_core::random::Random;
use iodyno_sys::epoll::Interest;
use iodyno_sys::errno;

use super::asking::{Asking, Book, VISIT_CALLS};
use super::lengths::Lengths;
use super::{refused, Activity, Step};
use crate::transport::Link;
use crate::worker::counters::Cell;
use crate::worker::Worker;

const HEADER_BYTES: usize = iodyno_core::limits::MULTIPLEX_HEADER_BYTES as usize;
/// chosen: bytes of a read, and of answers that are written together.
const CALL_BYTES: usize = 64 << 10;
/// Draws of answers are none of those of sizes and arrivals.
const STREAMS: u64 = 2 << 32;

fn write_header(place: &mut [u8], identifier: u32, bytes: u64) {
    place[..4].copy_from_slice(&identifier.to_le_bytes());
    place[4..8].copy_from_slice(&(bytes as u32).to_le_bytes());
}

/// Takes a stream of messages apart.
struct Messages {
    header: [u8; HEADER_BYTES],
    /// Bytes of the header that have come, and bytes of the message behind it that have not.
    held: usize,
    left: u64,
}

impl Messages {
    fn new() -> Self {
        Messages { header: [0; HEADER_BYTES], held: 0, left: 0 }
    }

    /// Takes what came; `each` gets identifier and length of every message that is now whole. `None`: what came is no
    /// message, or `each` would not have it.
    #[inline]
    fn take(&mut self, mut bytes: &[u8], mut each: impl FnMut(u32, u64) -> bool) -> Option<()> {
        while !bytes.is_empty() || (self.held == HEADER_BYTES && self.left == 0) {
            if self.held < HEADER_BYTES {
                let count = (HEADER_BYTES - self.held).min(bytes.len());
                self.header[self.held..self.held + count].copy_from_slice(&bytes[..count]);
                self.held += count;
                bytes = &bytes[count..];
                if self.held < HEADER_BYTES {
                    return Some(());
                }
                self.left = self.length().checked_sub(HEADER_BYTES as u64)?;
            }
            let count = self.left.min(bytes.len() as u64);
            self.left -= count;
            bytes = &bytes[count as usize..];
            if self.left > 0 {
                return Some(());
            }
            self.held = 0;
            let [a, b, c, d, ..] = self.header;
            if !each(u32::from_le_bytes([a, b, c, d]), self.length()) {
                return None;
            }
        }
        Some(())
    }

    fn length(&self) -> u64 {
        let [.., a, b, c, d] = self.header;
        u64::from(u32::from_le_bytes([a, b, c, d]))
    }
}

/// The requests of a connection, by their places.
pub(crate) struct ByPlace {
    lengths: Lengths,
    response_bytes: u64,
    /// The request in hand and its length.
    message: Box<[u8]>,
    length: usize,
    /// When the request of each place was begun; 0: it has none.
    begun: Box<[u64]>,
    /// Places without a request.
    free: Vec<u32>,
    answers: Messages,
    place: Box<[u8]>,
}

/// The sending end.
pub(crate) type MultiplexedRequest = Asking<ByPlace>;

impl MultiplexedRequest {
    /// As `job` has it, on one of its connections, with what is in `source` as payload.
    pub(crate) fn of(load: &Network, connection: usize, source: &[u8]) -> Self {
        let message = source.iter().copied().cycle().take(load.message_bytes.0 as usize).collect();
        Asking::with(ByPlace {
            lengths: Lengths::of(load, connection),
            response_bytes: load.response_bytes().0,
            message,
            length: 0,
            begun: vec![0; load.queue_depth() as usize].into(),
            free: (0..load.queue_depth()).rev().collect(),
            answers: Messages::new(),
            place: vec![0; CALL_BYTES].into(),
        })
    }
}

impl Book for ByPlace {
    #[inline]
    fn begun(&self) -> usize {
        self.begun.len() - self.free.len()
    }

    #[inline]
    fn most(&self) -> usize {
        self.begun.len()
    }

    #[inline]
    fn begin(&mut self, now: u64) -> usize {
        // Asked for only where one is free.
        let Some(identifier) = self.free.pop() else { return 0 };
        // Of the exponential law, the shortest ones.
        self.length = (self.lengths.next() as usize).max(HEADER_BYTES);
        write_header(&mut self.message, identifier, self.length as u64);
        // 0 stands for none.
        self.begun[identifier as usize] = now.max(1);
        self.length
    }

    #[inline]
    fn offered<'a>(&'a self, unsent: usize, _: &'a Worker<'_>) -> &'a [u8] {
        &self.message[self.length - unsent..self.length]
    }

    #[inline]
    fn read(
        &mut self,
        _: usize,
        link: &impl Link,
        worker: &mut Worker<'_>,
        cell: &Cell,
    ) -> io::Result<Result<usize, i32>> {
        let outcome = link.receive_into(&mut self.place);
        worker.tick();
        let received = outcome?;
        let (begun, free, expected) = (&mut self.begun, &mut self.free, self.response_bytes);
        let read = self.answers.take(&self.place[..received], |identifier, length| {
            match begun.get_mut(identifier as usize).map(std::mem::take) {
                Some(since @ 1..) if length == expected => {
                    free.push(identifier);
                    worker.completed(cell, since);
                    true
                }
                // Nobody asked that, or it was answered, or this is no answer.
                _ => false,
            }
        });
        Ok(read.map_or(Err(errno::EBADMSG), |()| Ok(received)))
    }
}

/// The receiving end: takes whatever has come, and answers all of it, in an order that it draws. One operation is a
/// request answered.
pub(crate) struct MultiplexedAnswer {
    request_bytes: u64,
    response_bytes: usize,
    requests: Messages,
    place: Box<[u8]>,
    /// Requests that wait for their answer, and when their last bytes came.
    waiting: Vec<(u32, u64)>,
    /// Answers that are being written: their bytes, how many bytes, and how many of those the kernel has not accepted.
    answers: Box<[u8]>,
    length: usize,
    unsent: usize,
    /// When the requests came that these answer.
    begun: Vec<u64>,
    random: Random,
}

impl MultiplexedAnswer {
    /// As `job` has it, on one of its connections, with what is in `source` as payload.
    pub(crate) fn of(load: &Network, connection: usize, source: &[u8]) -> Self {
        let response_bytes = load.response_bytes().0 as usize;
        let together = (CALL_BYTES / response_bytes).clamp(1, load.queue_depth() as usize);
        MultiplexedAnswer {
            request_bytes: load.message_bytes.0,
            response_bytes,
            requests: Messages::new(),
            place: vec![0; CALL_BYTES].into(),
            waiting: Vec::with_capacity(load.queue_depth() as usize),
            answers: source.iter().copied().cycle().take(together * response_bytes).collect(),
            length: 0,
            unsent: 0,
            begun: Vec::with_capacity(together),
            random: Random::new(load.seed, STREAMS + connection as u64),
        }
    }

    /// Writes as many answers as are written together, of requests drawn from those that wait.
    fn answer(&mut self) {
        self.begun.clear();
        self.length = 0;
        while !self.waiting.is_empty() && self.length < self.answers.len() {
            let drawn = self.random.below(self.waiting.len() as u64) as usize;
            let (identifier, came) = self.waiting.swap_remove(drawn);
            write_header(&mut self.answers[self.length..], identifier, self.response_bytes as u64);
            self.length += self.response_bytes;
            self.begun.push(came);
        }
        self.unsent = self.length;
    }
}

impl Activity for MultiplexedAnswer {
    const UNTIL_DUE: bool = false;

    #[inline]
    fn interest(&self) -> Interest {
        if self.unsent > 0 || !self.waiting.is_empty() {
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
        if self.unsent == 0 && !self.waiting.is_empty() {
            self.answer();
        }
        if self.unsent > 0 {
            let before = (self.length - self.unsent) / self.response_bytes;
            let offered = self.unsent;
            let outcome = link.send(&self.answers[self.length - offered..self.length]);
            worker.tick();
            return match outcome {
                Ok(accepted) => {
                    self.unsent -= accepted;
                    let whole = (self.length - self.unsent) / self.response_bytes;
                    self.begun[before..whole].iter().for_each(|begun| worker.completed(cell, *begun));
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
        let outcome = link.receive_into(&mut self.place);
        worker.tick();
        match outcome {
            Ok(0) => Step::Ended,
            Ok(received) => {
                worker.moved(cell, received as u64, asked);
                let (waiting, most, now) = (&mut self.waiting, self.request_bytes, worker.now);
                let read = self.requests.take(&self.place[..received], |identifier, length| {
                    let fits = length <= most && waiting.len() < waiting.capacity();
                    if fits {
                        waiting.push((identifier, now));
                    }
                    fits
                });
                match read {
                    None => Step::Failed(errno::EBADMSG),
                    // A short count means that the socket buffer is empty.
                    Some(()) if self.waiting.is_empty() && received < self.place.len() => Step::Waiting,
                    Some(()) => Step::On,
                }
            }
            Err(error) => refused(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(identifier: u32, bytes: usize) -> Vec<u8> {
        let mut message = vec![9; bytes];
        write_header(&mut message, identifier, bytes as u64);
        message
    }

    proptest! {
        #[test]
        fn messages_come_apart_wherever_the_stream_is_cut(
            lengths in prop::collection::vec(HEADER_BYTES..300, 1..40),
            cuts in prop::collection::vec(1usize..700, 1..40)
        ) {
            let numbered = || (0..).zip(lengths.iter().copied());
            let stream: Vec<u8> = numbered().flat_map(|(number, length)| message(number, length)).collect();
            let (mut messages, mut found, mut at) = (Messages::new(), Vec::new(), 0);
            for cut in cuts.iter().cycle() {
                let end = (at + cut).min(stream.len());
                let read = messages.take(&stream[at..end], |identifier, length| {
                    found.push((identifier, length as usize));
                    true
                });
                prop_assert_eq!(read, Some(()));
                at = end;
                if at == stream.len() {
                    break;
                }
            }
            prop_assert_eq!(found, numbered().collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_shorter_than_its_header_is_no_message() {
        for length in 0..HEADER_BYTES as u64 {
            let mut bytes = [0; HEADER_BYTES];
            write_header(&mut bytes, 1, length);
            assert_eq!(Messages::new().take(&bytes, |_, _| true), None);
        }
    }
}
