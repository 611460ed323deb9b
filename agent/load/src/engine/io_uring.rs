//! One pinned worker a CPU, many connections each; operations are submitted to and completed by `io_uring`.
//!
//! A workload is written for calls that do something or would have to wait. Here a call that nothing is known of submits
//! a request and says that it would have to wait ([`RingLink`]); when the request is complete, the same call is made
//! again and gives the result. So every workload runs on a ring as it is.
//!
//! - Receives are multishot where the application reads as fast as it can: one request for all that comes.
//! - Sends of requests and answers are submitted and taken for accepted, and report failures only: the answer shows that
//!   the request was sent. With that, an exchange takes one system call, and many exchanges share it. Sends of a stream
//!   complete one by one, because their acceptance is what paces it.
//! - All that one round of completions leads to is handed over by the call that waits for the next.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use iodyno_core::network::{Syscalls, TrafficKind};
use iodyno_core::units::Nanos;
use iodyno_sys::buffer::ReceiveScratch;
use iodyno_sys::socket::{self, Direction};
use iodyno_sys::stream_calls::Completions;
use iodyno_sys::stream_ring::{Completion, Kind, StreamRing};
use iodyno_sys::{affinity, errno};

use crate::connections::Connections;
use crate::error::LoadError;
use crate::joining::READ_BYTES;
use crate::transport::Link;
use crate::worker::Worker;
use crate::workload::{Activity, Step};

/// chosen: longest message whose send is taken for accepted: what the smallest send buffer usually has room for.
const QUIET_BYTES: u64 = 64 << 10;
/// chosen: how often ends of streams are looked for that the kernel did not tell, and how many connections are looked at
/// each time while the load is on; afterwards all are. A look takes 0.3 us.
const LOOK: Nanos = Nanos(50_000_000);
const LOOKED_AT: usize = 64;

/// How the connections of a job use their ring.
#[derive(Clone, Copy)]
struct Manner {
    /// Sends are taken for accepted.
    quiet: bool,
    zero_copy: bool,
    /// Receives are multishot.
    again: bool,
    /// What is received is dropped uncopied.
    discards: bool,
}

/// One connection on a ring.
struct RingLink<'a> {
    ring: &'a RefCell<StreamRing>,
    socket: BorrowedFd<'a>,
    place: usize,
    manner: Manner,
    /// Whether a send is in flight, and what became of the last one.
    sending: Cell<bool>,
    sent: Cell<Option<usize>>,
    /// Whether a receive is in flight, and what came that nobody took.
    receiving: Cell<bool>,
    got: Cell<usize>,
    ended: Cell<bool>,
    /// Error number of the first failure; 0: none.
    failed: Cell<i32>,
    /// What the last look saw of the end: that it came (0), or the error number.
    seen: Cell<Option<i32>>,
    /// Whether a call did something since this was last asked.
    moved: Cell<bool>,
}

impl<'a> RingLink<'a> {
    fn new(ring: &'a RefCell<StreamRing>, socket: BorrowedFd<'a>, place: usize, manner: Manner) -> Self {
        RingLink {
            ring,
            socket,
            place,
            manner,
            sending: Cell::new(false),
            sent: Cell::new(None),
            receiving: Cell::new(false),
            got: Cell::new(0),
            ended: Cell::new(false),
            failed: Cell::new(0),
            seen: Cell::new(None),
            moved: Cell::new(false),
        }
    }

    fn would_wait() -> io::Error {
        io::Error::from_raw_os_error(errno::EAGAIN)
    }

    fn failure(&self) -> io::Result<()> {
        match self.failed.get() {
            0 => Ok(()),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }

    /// Takes what the kernel said.
    fn complete(&self, kind: Kind, outcome: Result<usize, i32>, more: bool) {
        match kind {
            Kind::Send => self.sending.set(false),
            Kind::QuietSend => {}
            Kind::Receive => self.receiving.set(more),
        }
        match (kind, outcome) {
            (Kind::Send, Ok(count)) => self.sent.set(Some(count)),
            (Kind::QuietSend, Ok(_)) => {}
            // A failure that a look was told of is not told again.
            (Kind::Receive, Ok(0)) => match self.seen.get() {
                Some(number) if number > 0 => self.failed.set(number),
                _ => self.ended.set(true),
            },
            (Kind::Receive, Ok(count)) => self.got.set(self.got.get() + count),
            // The receive is submitted anew: its buffers were all taken, or a signal came.
            (_, Err(errno::ENOBUFS | errno::EAGAIN | errno::EINTR)) => {}
            (_, Err(number)) => self.failed.set(number),
        }
    }

    /// Sees for itself how the stream ended. Of a multishot receive, an end that comes right behind the last bytes, before the
    /// kernel has handed them over, may never be told (liburing #1549; seen once in some thousand ends on Linux 6.18).
    ///
    /// The last bytes have left the socket by then, but their completion may still be in the ring. It is before the one that
    /// asks for the next look, so an end is believed when that comes.
    fn look(&self) {
        if !self.manner.again || !self.receiving.get() || self.ended.get() || self.failed.get() > 0 {
            return;
        }
        match self.seen.take() {
            Some(0) => self.ended.set(true),
            Some(number) => self.failed.set(number),
            None => self.seen.set(match socket::has_ended(self.socket) {
                Ok(ended) => ended.then_some(0),
                Err(error) => Some(error.raw_os_error().unwrap_or(errno::EIO)),
            }),
        }
    }
}

impl Link for RingLink<'_> {
    /// The bytes are the ring's own, which are those of the job.
    #[inline]
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.failure()?;
        if self.manner.quiet {
            self.ring.borrow_mut().send(self.place, bytes.len(), true)?;
            self.moved.set(true);
            return Ok(bytes.len());
        }
        if let Some(count) = self.sent.take() {
            self.moved.set(true);
            return Ok(count);
        }
        if !self.sending.replace(true) {
            let mut ring = self.ring.borrow_mut();
            if self.manner.zero_copy {
                ring.send_zero_copy(self.place, bytes.len())?;
            } else {
                ring.send(self.place, bytes.len(), false)?;
            }
        }
        Err(RingLink::would_wait())
    }

    #[inline]
    fn receive(&self, _: &ReceiveScratch) -> io::Result<usize> {
        let got = self.got.take();
        if got > 0 {
            self.moved.set(true);
            return Ok(got);
        }
        if self.ended.get() {
            return Ok(0);
        }
        self.failure()?;
        if !self.receiving.replace(true) {
            self.ring.borrow_mut().receive(self.place, self.manner.again, self.manner.discards)?;
        }
        Err(RingLink::would_wait())
    }

    fn finish(&self) {
        // Fails only when the connection is gone, which the receiver notices and reports.
        let _ = socket::shutdown(self.socket, Direction::Writing);
    }

    fn is_sending(&self) -> bool {
        self.sending.get() || self.sent.get().is_some()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket)
    }
}

/// One connection of a worker.
struct Slot<'a, A> {
    activity: A,
    link: RingLink<'a>,
    connection: usize,
    open: bool,
    /// End of its pause; 0: it does not pause.
    paused_until: u64,
}

pub(super) fn drive<A: Activity>(shared: &Connections, number: usize, make: impl Fn(usize) -> A) {
    let cpu = shared.cpus[number % shared.cpus.len()];
    if let Err(error) = affinity::restrict(&[cpu]) {
        return shared.report(LoadError::refused(&error, &format!("run on CPU {cpu}"), "cpus"));
    }
    let sockets: Vec<BorrowedFd<'_>> =
        shared.share_of(number).map(|connection| shared.sockets[connection].as_fd()).collect();
    let ring = match StreamRing::new(&sockets, shared.source.bytes().len(), READ_BYTES) {
        Ok(ring) => RefCell::new(ring),
        Err(error) => return shared.report(LoadError::refused(&error, "set up io_uring", "engine")),
    };
    let job = &shared.job;
    let exchanges = job.load.kind() == TrafficKind::RequestResponse;
    let manner = Manner {
        quiet: exchanges
            && job.load.syscalls != Syscalls::ZeroCopy
            && job.load.message_bytes.0.max(job.load.response_bytes().0) <= QUIET_BYTES,
        zero_copy: job.load.syscalls == Syscalls::ZeroCopy,
        // One that pauses must leave in the kernel what it does not read.
        again: !job.load.application().is_any(),
        discards: job.load.stream().is_some_and(|stream| stream.discards),
    };
    let slots: Vec<Slot<'_, A>> = shared
        .share_of(number)
        .enumerate()
        .map(|(place, connection)| {
            let link = RingLink::new(&ring, sockets[place], place, manner);
            Slot { activity: make(connection), link, connection, open: true, paused_until: 0 }
        })
        .collect();
    let pauses = BinaryHeap::with_capacity(if A::PAUSES { slots.len() } else { 0 });
    let open = slots.len();
    let Some(worker) = Worker::await_start(shared, number) else { return };
    Round { slots, open, ring: &ring, pauses, worker, shared, looked: 0 }.run();
}

/// A worker's connections while the load is on.
struct Round<'a, 'w, A> {
    slots: Vec<Slot<'a, A>>,
    /// How many of them are open.
    open: usize,
    ring: &'a RefCell<StreamRing>,
    /// End of each pause, and whose it is.
    pauses: BinaryHeap<Reverse<(u64, usize)>>,
    worker: Worker<'w>,
    shared: &'w Connections,
    /// The connection that is looked at next.
    looked: usize,
}

impl<A: Activity> Round<'_, '_, A> {
    fn run(mut self) {
        for at in 0..self.slots.len() {
            self.visit(at);
        }
        let mut looks = self.ring.borrow_mut().look_after(LOOK);
        while self.open > 0 {
            if self.is_past() && self.finish() {
                return;
            }
            if let Err(error) = std::mem::replace(&mut looks, Ok(())).and_then(|()| self.wait()) {
                return self.fail(&error);
            }
            self.worker.tick();
            while let Some(at) = self.rested() {
                self.visit(at);
            }
            loop {
                let completion = self.ring.borrow_mut().take();
                match completion {
                    Some(Completion::Done { place, kind, outcome, more }) => {
                        self.slots[place].link.complete(kind, outcome, more);
                        if self.slots[place].open && self.slots[place].paused_until == 0 {
                            self.visit(place);
                        }
                    }
                    Some(Completion::Released { copied }) => {
                        let found = Completions { completed: 1, copied: u64::from(copied) };
                        self.shared.counters.rare.zero_copy(found);
                    }
                    Some(Completion::Look) => looks = self.look(),
                    None => break,
                }
            }
        }
    }

    /// Looks for ends that the kernel did not tell, and asks for the next look.
    #[cold]
    fn look(&mut self) -> io::Result<()> {
        let count = if self.worker.is_due() { self.slots.len() } else { LOOKED_AT.min(self.slots.len()) };
        for _ in 0..count {
            let at = self.looked;
            self.looked = (at + 1) % self.slots.len();
            let slot = &self.slots[at];
            if slot.open && slot.paused_until == 0 {
                slot.link.look();
                if slot.link.ended.get() || slot.link.failed.get() > 0 {
                    self.visit(at);
                }
            }
        }
        self.ring.borrow_mut().look_after(LOOK)
    }

    /// Whether those that go on until the load is due to stop are to begin nothing more.
    #[inline]
    fn is_past(&self) -> bool {
        A::UNTIL_DUE && self.worker.is_due()
    }

    /// Ends every connection that has nothing in hand; `true`: none is left.
    #[cold]
    fn finish(&mut self) -> bool {
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            // What was submitted is waited for, so that what the kernel took is counted.
            if slot.open && !slot.activity.in_hand() && !slot.link.is_sending() {
                slot.link.finish();
                self.worker.concluded(slot.connection);
                self.forget(at);
            }
        }
        self.open == 0
    }

    fn wait(&mut self) -> io::Result<()> {
        let due = if A::UNTIL_DUE && !self.worker.is_due() { self.worker.due() } else { u64::MAX };
        let until = self.pauses.peek().map_or(due, |Reverse((end, _))| due.min(*end));
        let left = (until < u64::MAX).then(|| Nanos(until).minus(Nanos(self.worker.now)));
        self.ring.borrow_mut().wait(left)
    }

    /// A connection whose pause is over.
    #[inline]
    fn rested(&mut self) -> Option<usize> {
        let &Reverse((end, at)) = self.pauses.peek().filter(|Reverse((end, _))| *end <= self.worker.now)?;
        self.pauses.pop();
        let slot = &mut self.slots[at];
        if slot.paused_until == end {
            slot.paused_until = 0;
        }
        Some(at)
    }

    /// Lets one connection go on until it would have to wait.
    #[inline]
    fn visit(&mut self, at: usize) {
        let past = self.is_past();
        let slot = &mut self.slots[at];
        if !slot.open {
            return;
        }
        let cell = self.shared.counters.cell(slot.connection);
        // Nothing new after the stop; but what is complete is taken.
        while !past || slot.activity.in_hand() || slot.link.sent.get().is_some() {
            slot.link.moved.set(false);
            match slot.activity.step(&slot.link, &mut self.worker, cell) {
                // Where no call did anything, something is in flight.
                Step::On | Step::Waiting if slot.link.moved.get() => {}
                Step::On | Step::Waiting => return,
                Step::Pausing(until) => {
                    slot.paused_until = until;
                    self.pauses.push(Reverse((until, at)));
                    return;
                }
                Step::Ended => {
                    self.worker.ended(slot.connection);
                    return self.forget(at);
                }
                Step::Failed(number) => {
                    self.worker.failed(slot.connection, number);
                    return self.forget(at);
                }
            }
        }
    }

    fn forget(&mut self, at: usize) {
        self.slots[at].open = false;
        self.open -= 1;
    }

    fn fail(&mut self, error: &io::Error) {
        let number = error.raw_os_error().unwrap_or(0);
        self.slots
            .iter()
            .filter(|slot| slot.open)
            .for_each(|slot| self.worker.failed(slot.connection, number));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use iodyno_sys::stream_ring;

    use super::*;

    #[test]
    fn an_end_that_the_ring_does_not_tell_is_believed_once_all_bytes_are_taken() {
        if stream_ring::available().is_err() {
            return;
        }
        let (near, mut far) = UnixStream::pair().unwrap();
        let ring = RefCell::new(StreamRing::new(&[near.as_fd()], 100, 100).unwrap());
        let manner = Manner { quiet: false, zero_copy: false, again: true, discards: false };
        let link = RingLink::new(&ring, near.as_fd(), 0, manner);
        let scratch = ReceiveScratch::new(100).unwrap();
        assert!(link.receive(&scratch).is_err());
        ring.borrow_mut().wait(Some(Nanos(0))).unwrap();
        far.write_all(&[1; 12]).unwrap();
        drop(far);
        // What the kernel knows of is handed over in a wait only.
        link.look();
        assert_eq!(link.seen.get(), None);
        ring.borrow_mut().look_after(Nanos(1)).unwrap();
        ring.borrow_mut().wait(None).unwrap();
        // The bytes are in the ring, and the socket is at its end.
        link.look();
        assert_eq!((link.seen.get(), link.ended.get()), (Some(0), false));
        let (mut looks, mut got) = (0, 0);
        while looks == 0 || got == 0 {
            loop {
                let completion = ring.borrow_mut().take();
                match completion {
                    Some(Completion::Done { outcome: Ok(count), .. }) => got += count,
                    Some(Completion::Look) => looks += 1,
                    Some(other) => panic!("{other:?}"),
                    None => break,
                }
            }
            if looks == 0 || got == 0 {
                ring.borrow_mut().wait(None).unwrap();
            }
        }
        link.look();
        assert_eq!((got, looks, link.receive(&scratch).unwrap()), (12, 1, 0));
    }
}
