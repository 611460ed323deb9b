//! How a worker's datagrams reach the kernel and come back, whichever way it is: by calls on the flows' sockets, by a
//! ring of `io_uring`, or as frames on a ring of a packet socket or of `AF_XDP`.
//!
//! Calls give what one socket has. The rings give whatever came, and say of each datagram which flow it belongs to.

use std::io;
use std::os::fd::BorrowedFd;

use iodyno_core::network::{Engine, Role, Syscalls, TrafficKind};
use iodyno_core::units::Nanos;
use iodyno_sys::datagram::{Calls, Incoming, Outgoing, Patience, MOST_SEGMENTS};
use iodyno_sys::datagram_ring::{Came, DatagramRing, Happened, Shape};
use iodyno_sys::errno;
use iodyno_sys::stream_calls::Completions;

use crate::connections::{is_server, Connections};
use crate::error::LoadError;
use crate::joining::most_joined;
use crate::rings::frames::Frames;
use crate::transport::datagram::{Header, Mark};
use crate::worker::shared::State;

/// chosen: most datagrams that the kernel joins, with room: kernels join up to 64 (`UDP_GRO_CNT_MAX`) and pass on what
/// was never cut, up to 128.
const MOST_JOINED: usize = 2 * MOST_SEGMENTS;
/// chosen: datagrams that a worker on a ring hands over at a time, as many as `recvmmsg` servers take by default.
const RING_ROOM: usize = 64;
/// chosen: those that may be on their way: several hand-overs, since memory of sends without a copy comes back late.
const RING_SLOTS: usize = 8 * RING_ROOM;
/// chosen: datagrams that one look at a ring takes.
pub(super) const MOST_EVENTS: usize = 256;
/// chosen: a sender that waits for room looks so often whether the load was stopped.
const LOOK: Nanos = Nanos(50_000_000);

/// The way and the memory of a worker.
pub(super) struct Port<'a> {
    shared: &'a Connections,
    mark: Mark,
    /// The worker's own, by place.
    sockets: Box<[BorrowedFd<'a>]>,
    way: Way,
    /// Datagrams that are handed over together.
    room: usize,
}

enum Way {
    Calls { incoming: Incoming, outgoing: Outgoing },
    Ring(Box<Ring>),
    Frames(Box<Frames>),
}

/// A ring of `io_uring` with what came by it.
struct Ring {
    ring: DatagramRing,
    /// Slots that were written, and to whom they belong.
    written: Vec<(u16, u32)>,
    came: Vec<(u32, Came)>,
    /// Which of them is shown first.
    first: usize,
    /// Sockets that broke.
    broken: Vec<(u32, i32)>,
    /// Sends that failed, by their tags.
    refused: Vec<(u32, i32)>,
    /// A socket that broke while some of what was handed over together was accepted: the next call is told.
    owed: Option<(usize, i32)>,
    /// Whether a socket gave nothing.
    nothing: bool,
    /// Whether sends are counted one by one, because their acceptance paces the load.
    counted: bool,
}

/// The calls of an syscalls; jobs are checked for those that move no datagrams.
fn calls(syscalls: Syscalls) -> Calls {
    match syscalls {
        Syscalls::Message => Calls::Message,
        Syscalls::Batch => Calls::Batch,
        Syscalls::Segments => Calls::Segments,
        _ => Calls::Plain,
    }
}

fn again() -> io::Error {
    io::Error::from_raw_os_error(errno::EAGAIN)
}

impl<'a> Port<'a> {
    /// For worker `number` with these sockets, messages of up to `taken` bytes in and `given` bytes out.
    pub(super) fn open(
        shared: &'a Connections,
        sockets: Box<[BorrowedFd<'a>]>,
        taken: u64,
        given: u64,
    ) -> Result<Self, LoadError> {
        let job = &shared.job;
        let memory = |error: io::Error| LoadError::refused(&error, "get memory for buffers", "message_bytes");
        let batch = job.load.batch as usize;
        let (way, room) = match job.load.engine {
            Engine::IoUring => {
                let room = if batch > 1 { batch } else { RING_ROOM };
                (Way::Ring(Box::new(Ring::open(shared, &sockets, room, taken, given)?)), room)
            }
            Engine::Rings => (Way::Frames(Box::new(Frames::open(shared, &sockets)?)), RING_ROOM),
            Engine::Threads | Engine::Epoll | Engine::RoundRobin | Engine::Reflector => {
                let joined = most_joined(&job.load) as usize;
                let calls = match calls(job.load.syscalls) {
                    Calls::Plain | Calls::Message if joined > 1 => Calls::Batch,
                    calls => calls,
                };
                let room = match calls {
                    Calls::Plain | Calls::Message => 1,
                    Calls::Batch if job.load.syscalls != Syscalls::Batch => joined,
                    Calls::Batch => batch,
                    // An answer to each of what was joined.
                    Calls::Segments if job.load.role == Role::Receive => MOST_JOINED,
                    Calls::Segments => batch.min(MOST_SEGMENTS),
                };
                // A byte more, so that what is too long is seen to be.
                let incoming = Incoming::new(calls, batch, taken as usize + 1).map_err(memory)?;
                // A sender's sockets are connected.
                let incoming = if is_server(&job.load) { incoming } else { incoming.from_one_peer() };
                let source = shared.source.bytes();
                let outgoing = Outgoing::new(calls, room, given as usize, source).map_err(memory)?;
                (Way::Calls { incoming, outgoing }, room)
            }
        };
        Ok(Port { shared, mark: Mark::of(job), sockets, way, room })
    }

    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Whether datagrams of all flows come together, and not by a call for one of them.
    pub(super) fn gathers(&self) -> bool {
        !matches!(self.way, Way::Calls { .. })
    }

    /// Takes what one socket has; how many datagrams. 0: it was shut.
    ///
    /// # Errors
    /// `EAGAIN`: nothing is there; what else the kernel said.
    #[inline]
    pub(super) fn receive(&mut self, place: usize, patience: Patience) -> io::Result<usize> {
        match &mut self.way {
            Way::Calls { incoming, .. } => incoming.receive(self.sockets[place], patience),
            Way::Ring(ring) => {
                ring.gather(self.shared);
                if let Some((_, number)) = ring.broken.first() {
                    return Err(io::Error::from_raw_os_error(*number));
                }
                match ring.came.len() {
                    0 if std::mem::take(&mut ring.nothing) => Ok(0),
                    0 => Err(again()),
                    count => Ok(count),
                }
            }
            Way::Frames(_) => Err(again()),
        }
    }

    /// Takes what came on any flow; how many datagrams. Those shown before are gone.
    #[inline]
    pub(super) fn gather(&mut self) -> usize {
        match &mut self.way {
            Way::Calls { .. } => 0,
            Way::Ring(ring) => {
                ring.gather(self.shared);
                ring.nothing = false;
                ring.came.len()
            }
            Way::Frames(frames) => frames.gather(self.mark),
        }
    }

    /// Shows datagram `at` of those that were gathered as the first one; the place of its flow.
    #[inline]
    pub(super) fn show(&mut self, at: usize) -> usize {
        match &mut self.way {
            Way::Calls { .. } => 0,
            Way::Ring(ring) => {
                ring.first = at;
                ring.came[at].0 as usize
            }
            Way::Frames(frames) => frames.show(at),
        }
    }

    /// A flow that broke since the last question: its place at a client, its number at a server; and the error number.
    #[inline]
    pub(super) fn broken(&mut self) -> Option<(usize, i32)> {
        let Way::Ring(ring) = &mut self.way else { return None };
        // At a server that is the socket of all, which the next call tells of.
        let sockets = (!is_server(&self.shared.job.load)).then(|| ring.broken.pop()).flatten();
        sockets.or_else(|| ring.refused.pop()).map(|(place, number)| (place as usize, number))
    }

    /// Hands over what was asked for, and waits until something comes or the time has passed.
    #[inline]
    pub(super) fn wait(&mut self, longest: Nanos) -> io::Result<()> {
        match &mut self.way {
            Way::Calls { .. } => Ok(()),
            Way::Ring(ring) => ring.ring.wait(1, Some(longest)),
            Way::Frames(frames) => frames.wait(longest),
        }
    }

    /// The header of a datagram that was taken; `None`: it is none of the trial's.
    #[inline]
    pub(super) fn header(&self, at: usize) -> Option<Header> {
        match &self.way {
            Way::Calls { incoming, .. } => Header::read(self.mark, incoming.datagram(at)),
            Way::Ring(ring) => Header::read(self.mark, ring.ring.datagram(ring.came[ring.first + at].1)),
            Way::Frames(frames) => frames.header(),
        }
    }

    /// How long it is.
    #[inline]
    pub(super) fn length(&self, at: usize) -> u64 {
        match &self.way {
            Way::Calls { incoming, .. } => incoming.datagram(at).len() as u64,
            Way::Ring(ring) => ring.ring.datagram(ring.came[ring.first + at].1).len() as u64,
            Way::Frames(_) => 0,
        }
    }

    /// Sends a header alone back to where a datagram came from.
    #[cold]
    pub(super) fn echo(&self, place: usize, at: usize, header: Header) {
        match &self.way {
            Way::Calls { incoming, .. } => {
                super::farewell::echo(self.sockets[place], header, self.mark, incoming.peer(at));
            }
            Way::Ring(ring) => {
                let peer = ring.ring.peer(ring.came[ring.first + at].1);
                super::farewell::echo(self.sockets[place], header, self.mark, &peer);
            }
            Way::Frames(_) => {}
        }
    }

    /// Writes datagram `at` of those to be handed over next, `bytes` long, for the flow at `place`; `false`: there is no
    /// room for it now.
    #[inline]
    pub(super) fn write(&mut self, place: usize, at: usize, header: Header, bytes: u64) -> bool {
        match &mut self.way {
            Way::Calls { outgoing, .. } => {
                header.write(self.mark, outgoing.message(at));
                outgoing.set_length(at, bytes as usize);
                true
            }
            Way::Ring(ring) => ring.write(self.mark, at, header, bytes, place as u32),
            Way::Frames(frames) => frames.write(self.mark, place, header, bytes as usize),
        }
    }

    /// Writes an answer to datagram `from` of those that were taken.
    #[inline]
    pub(super) fn answer(&mut self, from: usize, at: usize, header: Header, bytes: u64) -> bool {
        match &mut self.way {
            Way::Calls { incoming, outgoing } => {
                header.write(self.mark, outgoing.message(at));
                outgoing.set_length(at, bytes as usize);
                outgoing.address(at, incoming.peer(from));
                true
            }
            Way::Ring(ring) => {
                let written = ring.write(self.mark, at, header, bytes, header.flow);
                if let (true, Some((slot, _))) = (written, ring.written.last()) {
                    ring.ring.address(*slot, ring.came[ring.first + from].1);
                }
                written
            }
            Way::Frames(_) => false,
        }
    }

    /// Hands over those from `from` to before `to`, as many as one call takes; how many were accepted.
    ///
    /// # Errors
    /// `EAGAIN`, `ENOBUFS`: there is no room; what else the kernel said.
    #[inline]
    pub(super) fn send(
        &mut self,
        place: usize,
        from: usize,
        to: usize,
        patience: Patience,
    ) -> io::Result<usize> {
        match &mut self.way {
            Way::Calls { outgoing, .. } => outgoing.send(self.sockets[place], from, to, patience),
            Way::Ring(ring) if ring.counted => ring.send_counted(self.shared, place, from, to),
            Way::Ring(ring) => ring.send(if is_server(&self.shared.job.load) { 0 } else { place }, from, to),
            Way::Frames(frames) => frames.flush().map(|()| to - from),
        }
    }
}

impl Ring {
    fn open(
        shared: &Connections,
        sockets: &[BorrowedFd<'_>],
        room: usize,
        taken: u64,
        given: u64,
    ) -> Result<Self, LoadError> {
        let job = &shared.job;
        let slots = RING_SLOTS.max(4 * room);
        let shape = Shape {
            // A byte more, so that what is too long is seen to be.
            received_bytes: taken as usize + 1,
            named: is_server(&job.load),
            slots,
            sent_bytes: given as usize,
            zero_copy: job.load.syscalls == Syscalls::ZeroCopy,
        };
        let ring = DatagramRing::new(sockets, shape, shared.source.bytes())
            .map_err(|error| LoadError::refused(&error, "set up io_uring", "engine"))?;
        Ok(Ring {
            ring,
            written: Vec::with_capacity(slots),
            came: Vec::with_capacity(MOST_EVENTS),
            first: 0,
            broken: Vec::with_capacity(sockets.len()),
            refused: Vec::with_capacity(slots),
            owed: None,
            nothing: false,
            counted: job.load.role == Role::Send && job.load.kind() == TrafficKind::Stream,
        })
    }

    /// Takes up to [`MOST_EVENTS`] datagrams; those of the last time are given back.
    #[inline]
    fn gather(&mut self, shared: &Connections) {
        for (_, came) in self.came.drain(..) {
            self.ring.give_back(came);
        }
        self.first = 0;
        while self.came.len() < MOST_EVENTS {
            let Some(happened) = self.ring.take() else { return };
            self.note(shared, happened);
        }
    }

    #[inline]
    fn note(&mut self, shared: &Connections, happened: Happened) {
        match happened {
            Happened::Received(place, came) => self.came.push((place, came)),
            Happened::Nothing(_) => self.nothing = true,
            Happened::Broken(place, number) if self.broken.len() < self.broken.capacity() => {
                self.broken.push((place, number));
            }
            Happened::Refused(tag, number)
                if !passing(number) && self.refused.len() < self.refused.capacity() =>
            {
                self.refused.push((tag, number));
            }
            Happened::Released(copied) => {
                shared.counters.rare.zero_copy(Completions { completed: 1, copied: u64::from(copied) });
            }
            Happened::Broken(..) | Happened::Refused(..) | Happened::Sent(..) => {}
        }
    }

    #[inline]
    fn write(&mut self, mark: Mark, at: usize, header: Header, bytes: u64, tag: u32) -> bool {
        if at == 0 {
            for (slot, _) in self.written.drain(..) {
                self.ring.leave(slot);
            }
        }
        let Some(slot) = self.ring.slot(bytes as usize).or_else(|| self.slot_after_all(bytes)) else {
            return false;
        };
        header.write(mark, self.ring.message(slot));
        self.written.push((slot, tag));
        true
    }

    /// What was handed over but not submitted is submitted, which gives the slots back, but for those of sends without a
    /// copy: of these only the completions say when.
    #[cold]
    fn slot_after_all(&mut self, bytes: u64) -> Option<u16> {
        self.ring.wait(0, Some(Nanos(0))).ok()?;
        self.ring.slot(bytes as usize)
    }

    /// Has them submitted with the next wait.
    #[inline]
    fn send(&mut self, place: usize, from: usize, to: usize) -> io::Result<usize> {
        for (slot, tag) in &self.written[from..to] {
            self.ring.send(place as u32, *slot, *tag, false)?;
        }
        if to == self.written.len() {
            self.written.clear();
        }
        Ok(to - from)
    }

    /// Sends them and waits until the kernel has decided on all; how many, up to the last that it accepted: one that it
    /// refused before is lost, as in a network, and is not sent again with the others.
    fn send_counted(
        &mut self,
        shared: &Connections,
        place: usize,
        from: usize,
        to: usize,
    ) -> io::Result<usize> {
        if let Some((_, number)) = self.owed.take_if(|(broken, _)| *broken == place) {
            return Err(io::Error::from_raw_os_error(number));
        }
        for (slot, tag) in &self.written[from..to] {
            self.ring.send(place as u32, *slot, *tag, true)?;
        }
        let mut left = to - from;
        let mut outcome = Outcome::default();
        while left > 0 {
            self.ring.wait(left, Some(LOOK))?;
            while let Some(happened) = self.ring.take() {
                match happened {
                    Happened::Sent(_, slot, sent) => {
                        let handed = &self.written[from..to];
                        let of_slot = |(known, _): &(u16, u32)| u32::from(*known) == slot;
                        // In turn, but where one has waited.
                        let next = handed.len().saturating_sub(left);
                        let in_turn = handed.get(next).is_some_and(of_slot);
                        left = left.saturating_sub(1);
                        let place = if in_turn { Some(next) } else { handed.iter().position(of_slot) };
                        outcome.add(place, sent);
                    }
                    // Nothing but the word that the end is known comes back, and that later.
                    Happened::Received(_, came) => self.ring.give_back(came),
                    other => self.note(shared, other),
                }
            }
            if left > 0 && shared.state() != State::Going {
                self.written.clear();
                return Err(io::Error::from_raw_os_error(errno::ECANCELED));
            }
        }
        self.written.clear();
        match outcome {
            Outcome { accepted: 0, failure: Some(number) } => Err(io::Error::from_raw_os_error(number)),
            Outcome { accepted, failure } => {
                self.owed = failure.filter(|number| !passing(*number)).map(|number| (place, number));
                Ok(accepted)
            }
        }
    }
}

/// What became of sends that were handed over together.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// One more than the place of the last that was accepted.
    accepted: usize,
    /// Why one was not.
    failure: Option<i32>,
}

impl Outcome {
    #[inline]
    fn add(&mut self, place: Option<usize>, sent: Result<(), i32>) {
        match (place, sent) {
            (Some(place), Ok(())) => self.accepted = self.accepted.max(place + 1),
            (_, Err(number)) if self.failure.is_none_or(passing) => self.failure = Some(number),
            _ => {}
        }
    }
}

/// Whether a send failed for want of room: its datagram is lost like any other.
fn passing(number: i32) -> bool {
    matches!(number, errno::EAGAIN | errno::ENOBUFS | errno::EINTR | errno::ECANCELED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(sends: &[(usize, Result<(), i32>)]) -> Outcome {
        let mut outcome = Outcome::default();
        sends.iter().for_each(|(place, sent)| outcome.add(Some(*place), *sent));
        outcome
    }

    #[test]
    fn what_was_accepted_is_not_sent_again_because_another_was_refused() {
        let (full, gone) = (Err(errno::ENOBUFS), Err(errno::ECONNREFUSED));
        assert_eq!(outcome(&[(0, Ok(())), (1, Ok(()))]), Outcome { accepted: 2, failure: None });
        let before = outcome(&[(0, Ok(())), (1, full), (2, Ok(())), (3, gone)]);
        assert_eq!(before, Outcome { accepted: 3, failure: Some(errno::ECONNREFUSED) });
        // In whatever order they end.
        let turned = outcome(&[(3, gone), (2, Ok(())), (1, full), (0, Ok(()))]);
        assert_eq!(turned, before);
        assert_eq!(outcome(&[(0, full), (1, full)]), Outcome { accepted: 0, failure: Some(errno::ENOBUFS) });
    }
}
