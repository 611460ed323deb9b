//! The end that accepts and answers.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use iodyno_core::units::Nanos;
use iodyno_sys::epoll::{Epoll, Events, Interest};
use iodyno_sys::{errno, socket, timed};

use super::{offered, preamble_bytes, Turn, Watch, LENGTH_BYTES, LINGER, LOOK, MOST_EVENTS};
use crate::connections::Connections;
use crate::handshake::{self, PREAMBLE_BYTES};
use crate::transport::rendezvous;
use crate::transport::tls::{Handshake, Session};
use crate::worker::Worker;

/// chosen: how long a connection may take to show the token.
const TIME_TO_PROVE: Nanos = Nanos(2_000_000_000);
/// chosen: connections accepted before the others have their turn again.
const MOST_ACCEPTED: usize = 64;
/// chosen: connections that may be open besides the job's: foreign ones, and ones whose end is on its way.
const SPARE: usize = 1024;
/// chosen: connections that may be silent at a thread at a time, as each is looked at before the next is accepted.
const MOST_SILENT: usize = 16;
/// chosen: how long the next one is waited for at a thread that has silent ones: some round trips within a site.
const PATIENCE: Nanos = Nanos(1_000_000);
/// Key of the listening socket.
const LISTENER: u64 = u64::MAX;

enum Phase {
    /// Takes the token.
    Proving,
    /// Comes to terms about keys.
    Shaking(Box<Handshake>),
    /// So many bytes of the request are to come.
    Taking(u64),
    /// So many bytes of the answer are to go.
    Answering(u64),
}

/// One accepted connection.
struct Answering {
    socket: OwnedFd,
    session: Option<Session>,
    shown: [u8; PREAMBLE_BYTES + LENGTH_BYTES],
    /// Length of the request.
    request: u64,
    phase: Phase,
    flow: usize,
    begun: u64,
    watch: Watch,
}

impl Answering {
    fn new(socket: OwnedFd, worker: &Worker<'_>) -> Self {
        Answering {
            socket,
            session: None,
            shown: [0; PREAMBLE_BYTES + LENGTH_BYTES],
            request: 0,
            phase: Phase::Proving,
            flow: 0,
            begun: worker.now,
            watch: Watch::NONE,
        }
    }

    /// Goes on until it would have to wait, or the exchange is over.
    fn step(&mut self, shared: &Connections, token: [u8; 16], worker: &mut Worker<'_>) -> Turn {
        loop {
            let outcome = self.proceed(shared, token, worker);
            worker.tick();
            match outcome {
                Ok(None) => {}
                Ok(Some(turn)) => return turn,
                Err(error) => match error.raw_os_error().unwrap_or(0) {
                    errno::EINTR => {}
                    errno::EAGAIN => return self.wait(shared, worker),
                    _ => {
                        match self.phase {
                            Phase::Proving => shared.counters.rare.refused(),
                            _ if worker.is_due() => {}
                            _ => shared.counters.rare.failed(),
                        }
                        return Turn::Done;
                    }
                },
            }
        }
    }

    /// Whether it may be anybody's.
    fn is_unproven(&self) -> bool {
        matches!(self.phase, Phase::Proving)
    }

    /// Whether there is something to read within `time`.
    fn shows_within(&self, time: Nanos) -> bool {
        timed::wait_for(self.socket.as_fd(), timed::Until::Readable, time).unwrap_or(true)
    }

    fn is_late(&self, worker: &Worker<'_>) -> bool {
        worker.now.saturating_sub(self.begun) > TIME_TO_PROVE.0
    }

    fn wait(&self, shared: &Connections, worker: &Worker<'_>) -> Turn {
        if matches!(self.phase, Phase::Proving | Phase::Shaking(_)) && self.is_late(worker) {
            shared.counters.rare.refused();
            return Turn::Done;
        }
        let sends = match &self.phase {
            Phase::Answering(_) => true,
            Phase::Shaking(handshake) => handshake.wants_write(),
            Phase::Proving | Phase::Taking(_) => false,
        };
        Turn::Wait(if sends { Interest::Writable } else { Interest::Readable })
    }

    fn proceed(
        &mut self,
        shared: &Connections,
        token: [u8; 16],
        worker: &mut Worker<'_>,
    ) -> io::Result<Option<Turn>> {
        let socket = self.socket.as_fd();
        match &mut self.phase {
            Phase::Proving => {
                // It is sent in one piece, and shorter than any segment: a part of it is nothing of ours.
                let length = preamble_bytes(&shared.job);
                let taken = socket::receive_into(socket, &mut self.shown[..length])?;
                let greatest = shared.job.load.message_bytes.0;
                let (preamble, drawn) = self.shown.split_at(PREAMBLE_BYTES);
                self.request = match &shared.job.load.message_sizes {
                    None => greatest,
                    Some(_) => u64::from_le_bytes(drawn.try_into().unwrap_or_default()),
                };
                let flow = handshake::index_in(preamble.try_into().unwrap_or_default(), token);
                let flow = flow.filter(|flow| *flow < shared.job.load.connections);
                let fits = taken == length && (1..=greatest).contains(&self.request);
                let Some(flow) = flow.filter(|_| fits) else {
                    shared.counters.rare.refused();
                    return Ok(Some(Turn::Done));
                };
                shared.counters.rare.opened();
                self.flow = flow as usize;
                self.phase = match &shared.tls_terms {
                    Some(terms) => Phase::Shaking(Box::new(terms.begin(false)?)),
                    None => Phase::Taking(self.request),
                };
            }
            Phase::Shaking(handshake) => {
                self.session = Some(handshake.step(socket)?);
                self.phase = Phase::Taking(self.request);
            }
            Phase::Taking(left) => {
                let asked = worker.now;
                let received = match &self.session {
                    None => socket::receive(socket, worker.scratch())?,
                    Some(session) => session.receive(socket, usize::MAX)?,
                } as u64;
                if received == 0 {
                    return Err(io::Error::from_raw_os_error(errno::ECONNRESET));
                }
                worker.moved_by_any(shared.counters.cell(self.flow), received, asked);
                *left = left.saturating_sub(received);
                if *left == 0 {
                    self.phase = Phase::Answering(shared.job.load.response_bytes().0);
                }
            }
            Phase::Answering(left) => {
                let bytes = offered(worker, *left);
                *left -= match &self.session {
                    None => socket::send(socket, bytes)?,
                    // It ends with the connection, without a word of its own, so that this end is sure to close first.
                    Some(session) => session.send(socket, bytes)?,
                } as u64;
                if *left == 0 {
                    worker.tick();
                    worker.completed_by_any(shared.counters.cell(self.flow), self.begun);
                    return Ok(Some(Turn::Done));
                }
            }
        }
        Ok(None)
    }
}

/// Whether the end that answers may stop, given that it has nothing in hand and that a look found nobody who waits: on a
/// CPU that others take, it may see only now what was asked in time.
fn is_over(worker: &Worker<'_>) -> bool {
    worker.now >= worker.due().saturating_add(LINGER.0)
}

/// Whether accepted sockets have the options of the one that listens.
fn inherits(shared: &Connections) -> bool {
    rendezvous::of(&shared.job).is_ok_and(|place| place.accepts_with_options())
}

/// Gives an accepted socket what it did not inherit.
fn suit(socket: BorrowedFd<'_>, shared: &Connections, waits: bool) -> io::Result<()> {
    // What the kernel made of them was read back before the start.
    let _ = handshake::ask_again(socket, &shared.job.load.socket);
    if waits {
        socket::set_timeouts(socket, LOOK)?;
    }
    Ok(())
}

/// Connections that a thread has accepted and that have shown nothing: who is silent must not hold up those who wait behind.
struct Silent<'a> {
    shared: &'a Connections,
    /// The one that has been silent for longest first.
    sockets: VecDeque<Answering>,
}

impl Silent<'_> {
    fn keep(&mut self, silent: Answering) {
        self.sockets.push_back(silent);
        if self.sockets.len() > MOST_SILENT {
            self.turn_away();
        }
    }

    fn turn_away(&mut self) {
        self.sockets.pop_front();
        self.shared.counters.rare.refused();
    }

    /// One that has shown something meanwhile.
    fn next(&mut self, worker: &Worker<'_>) -> Option<Answering> {
        while self.sockets.front().is_some_and(|oldest| oldest.is_late(worker)) {
            self.turn_away();
        }
        let shows = self.sockets.iter().position(|each| each.shows_within(Nanos(0)))?;
        self.sockets.remove(shows)
    }
}

/// A thread that serves one connection after the other, in blocking calls.
pub(super) fn alone(shared: &Connections, number: usize) {
    let token = shared.job.token_bytes().unwrap_or_default();
    let Some(mut worker) = Worker::await_start(shared, number) else { return };
    let Some(listener) = shared.listener.as_ref().map(AsFd::as_fd) else { return };
    let inherits = inherits(shared);
    let mut silent = Silent { shared, sockets: VecDeque::new() };
    while worker.due() > 0 && !is_past(&worker) {
        let mut answering = if let Some(shown) = silent.next(&worker) {
            shown
        } else {
            // Its calls give up after [`LOOK`], and so do those of what it accepts.
            let accepted = socket::accept_blocking(listener);
            worker.tick();
            let Ok(socket) = accepted else {
                if is_over(&worker) {
                    break;
                }
                continue;
            };
            if !inherits && suit(socket.as_fd(), shared, true).is_err() {
                continue;
            }
            Answering::new(socket, &worker)
        };
        // While somebody is silent, the next one may be, too.
        if !silent.sockets.is_empty() && !answering.shows_within(PATIENCE) {
            silent.keep(answering);
            continue;
        }
        while worker.due() > 0 {
            match answering.step(shared, token, &mut worker) {
                Turn::Wait(_) if is_over(&worker) => break,
                Turn::Wait(_) if answering.is_unproven() => {
                    silent.keep(answering);
                    break;
                }
                Turn::Wait(_) | Turn::Next(_) => {}
                Turn::Done => break,
            }
        }
    }
    silent.sockets.iter().for_each(|_| shared.counters.rare.refused());
    worker.concluded(number);
}

/// A worker that serves many connections at a time.
pub(super) fn many(shared: &Connections, number: usize) -> io::Result<()> {
    let token = shared.job.token_bytes().unwrap_or_default();
    let Some(listener) = shared.listener.as_ref().map(AsFd::as_fd) else { return Ok(()) };
    let epoll = Epoll::new()?;
    epoll.add_exclusive(listener, LISTENER)?;
    let room = shared.job.load.connections as usize + SPARE;
    let mut events = Events::with_capacity(MOST_EVENTS);
    let mut round = Round {
        shared,
        token,
        listener,
        inherits: inherits(shared),
        epoll,
        places: (0..room).map(|_| None).collect(),
        free: (0..room).rev().collect(),
        listens: true,
    };
    let Some(mut worker) = Worker::await_start(shared, number) else { return Ok(()) };
    let mut looked = worker.now;
    let mut quiet = false;
    while worker.due() > 0 && !(quiet && is_over(&worker) && round.is_idle()) && !is_past(&worker) {
        // It fails for a broken instance only.
        if round.epoll.wait(&mut events, Some(LOOK)).is_err() {
            break;
        }
        worker.tick();
        quiet = events.count() == 0;
        for at in 0..events.count() {
            match events.key(at) {
                LISTENER => round.admit(&mut worker),
                key => round.visit(key as usize, &mut worker),
            }
        }
        if !round.listens && !round.free.is_empty() {
            round.listen(true);
        }
        if worker.now.saturating_sub(looked) > TIME_TO_PROVE.0 {
            looked = worker.now;
            round.turn_away_the_slow(&mut worker);
        }
    }
    round.unproven().for_each(|_| shared.counters.rare.refused());
    (number..shared.job.load.connections as usize)
        .step_by(shared.workers().max(1))
        .for_each(|flow| worker.concluded(flow));
    Ok(())
}

/// What is open so long after the stop is left to itself: nobody of ours is behind it.
fn is_past(worker: &Worker<'_>) -> bool {
    worker.now >= worker.due().saturating_add(20 * LINGER.0)
}

/// Whether the next connection may be accepted although this one was not: none is there, or it is gone again.
fn passes(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(errno::EAGAIN | errno::EINTR | errno::ECONNABORTED))
}

/// The connections of a worker.
struct Round<'a> {
    shared: &'a Connections,
    token: [u8; 16],
    listener: BorrowedFd<'a>,
    /// Whether what it accepts has its options.
    inherits: bool,
    epoll: Epoll,
    places: Vec<Option<Answering>>,
    free: Vec<usize>,
    /// Whether it is told of connections that wait to be accepted.
    listens: bool,
}

impl Round<'_> {
    /// Places of connections that may be anybody's.
    fn unproven(&self) -> impl Iterator<Item = usize> + '_ {
        let unproven = |at: &usize| self.places[*at].as_ref().is_some_and(Answering::is_unproven);
        (0..self.places.len()).filter(unproven)
    }

    /// Whether nothing of the job is open.
    fn is_idle(&self) -> bool {
        self.free.len() + self.unproven().count() == self.places.len()
    }

    /// The place of the connection that has been unproven for longest, which is turned away: one of ours proves itself within a
    /// round trip.
    #[cold]
    fn make_room(&mut self) -> Option<usize> {
        let begun = |at: &usize| self.places[*at].as_ref().map(|place| place.begun);
        let at = self.unproven().min_by_key(begun)?;
        self.places[at] = None;
        self.free.push(at);
        self.shared.counters.rare.refused();
        Some(at)
    }

    fn admit(&mut self, worker: &mut Worker<'_>) {
        for _ in 0..MOST_ACCEPTED {
            // The others wait in the backlog.
            let Some(at) = self.free.last().copied().or_else(|| self.make_room()) else {
                return self.listen(false);
            };
            let socket = match socket::accept(self.listener) {
                Ok(socket) => socket,
                Err(error) if passes(&error) => return,
                Err(_) => return self.listen(false),
            };
            if !self.inherits && suit(socket.as_fd(), self.shared, false).is_err() {
                continue;
            }
            worker.tick();
            self.free.pop();
            self.places[at] = Some(Answering::new(socket, worker));
            self.visit(at, worker);
        }
    }

    /// Is told, or not, of connections that wait: while none can be accepted, each wait would end at once.
    #[cold]
    fn listen(&mut self, listens: bool) {
        if self.listens == listens {
            return;
        }
        let changed = match listens {
            true => self.epoll.add_exclusive(self.listener, LISTENER),
            false => self.epoll.remove(self.listener),
        };
        if changed.is_ok() {
            self.listens = listens;
        }
    }

    fn visit(&mut self, at: usize, worker: &mut Worker<'_>) {
        let Some(place) = &mut self.places[at] else { return };
        if let Turn::Wait(interest) = place.step(self.shared, self.token, worker) {
            if place.watch.on(&self.epoll, place.socket.as_fd(), interest, at as u64).is_ok() {
                return;
            }
            self.shared.counters.rare.failed();
        }
        self.places[at] = None;
        self.free.push(at);
    }

    /// Nobody shows the token so late.
    #[cold]
    fn turn_away_the_slow(&mut self, worker: &mut Worker<'_>) {
        for at in 0..self.places.len() {
            let slow = self.places[at].as_ref().is_some_and(|place| {
                matches!(place.phase, Phase::Proving | Phase::Shaking(_)) && place.is_late(worker)
            });
            if slow {
                self.visit(at, worker);
            }
        }
    }
}
