//! The end that accepts and answers.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use iodyno_core::units::Nanos;
use iodyno_sys::epoll::{Epoll, Events, Interest};
use iodyno_sys::{errno, socket};

use super::{offered, preamble_bytes, Turn, Watch, LENGTH_BYTES, LINGER, LOOK, MOST_EVENTS};
use crate::handshake::{self, PREAMBLE_BYTES};
use crate::transport::meeting;
use crate::transport::tls::{Handshake, Session};
use crate::worker::shared::Shared;
use crate::worker::Worker;

/// chosen: how long a connection may take to show the token.
const TIME_TO_PROVE: Nanos = Nanos(2_000_000_000);
/// chosen: connections accepted before the others have their turn again.
const MOST_ACCEPTED: usize = 64;
/// chosen: connections that may be open besides the job's: foreign ones, and ones whose end is on its way.
const SPARE: usize = 1024;
/// Key of the listening socket.
const LISTENER: u64 = u64::MAX;

enum Phase {
    /// Takes the token; so many bytes of it are there.
    Proving(usize),
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
            phase: Phase::Proving(0),
            flow: 0,
            begun: worker.now,
            watch: Watch::NONE,
        }
    }

    /// Goes on until it would have to wait, or the exchange is over.
    fn step(&mut self, shared: &Shared, token: [u8; 16], worker: &mut Worker<'_>) -> Turn {
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
                        if !worker.is_due() {
                            shared.counters.rare.failed();
                        }
                        return Turn::Done;
                    }
                },
            }
        }
    }

    fn wait(&self, shared: &Shared, worker: &Worker<'_>) -> Turn {
        let proving = matches!(self.phase, Phase::Proving(_) | Phase::Shaking(_));
        if proving && worker.now.saturating_sub(self.begun) > TIME_TO_PROVE.0 {
            shared.counters.rare.refused();
            return Turn::Done;
        }
        let sends = match &self.phase {
            Phase::Answering(_) => true,
            Phase::Shaking(handshake) => handshake.wants_write(),
            Phase::Proving(_) | Phase::Taking(_) => false,
        };
        Turn::Wait(if sends { Interest::Writable } else { Interest::Readable })
    }

    fn proceed(
        &mut self,
        shared: &Shared,
        token: [u8; 16],
        worker: &mut Worker<'_>,
    ) -> io::Result<Option<Turn>> {
        let socket = self.socket.as_fd();
        match &mut self.phase {
            Phase::Proving(shown) => {
                let length = preamble_bytes(&shared.job);
                let taken = socket::receive_into(socket, &mut self.shown[*shown..length])?;
                *shown += taken;
                if taken > 0 && *shown < length {
                    return Ok(None);
                }
                let greatest = shared.job.message_bytes.0;
                let (preamble, drawn) = self.shown.split_at(PREAMBLE_BYTES);
                self.request = match &shared.job.message_sizes {
                    None => greatest,
                    Some(_) => u64::from_le_bytes(drawn.try_into().unwrap_or_default()),
                };
                let flow = handshake::index_in(preamble.try_into().unwrap_or_default(), token);
                let flow = flow.filter(|flow| *flow < shared.job.connections);
                let fits = taken > 0 && (1..=greatest).contains(&self.request);
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
                    self.phase = Phase::Answering(shared.job.answer_bytes.0);
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
fn inherits(shared: &Shared) -> bool {
    meeting::of(&shared.job).is_ok_and(|place| place.accepts_with_options())
}

/// Gives an accepted socket what it did not inherit.
fn suit(socket: BorrowedFd<'_>, shared: &Shared, waits: bool) -> io::Result<()> {
    // What the kernel made of them was read back before the start.
    let _ = handshake::ask_again(socket, &shared.job.socket);
    if waits {
        socket::set_timeouts(socket, LOOK)?;
    }
    Ok(())
}

/// A thread that serves one connection after the other, in blocking calls.
pub(super) fn alone(shared: &Shared, number: usize) {
    let token = shared.job.token_bytes().unwrap_or_default();
    let Some(mut worker) = Worker::await_start(shared, number) else { return };
    let Some(listener) = shared.listener.as_ref().map(AsFd::as_fd) else { return };
    let inherits = inherits(shared);
    while worker.due() > 0 && !is_past(&worker) {
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
        let mut answering = Answering::new(socket, &worker);
        while worker.due() > 0 {
            match answering.step(shared, token, &mut worker) {
                Turn::Wait(_) if is_over(&worker) => break,
                Turn::Wait(_) | Turn::Next(_) => {}
                Turn::Done => break,
            }
        }
    }
    worker.concluded(number);
}

/// A worker that serves many connections at a time.
pub(super) fn many(shared: &Shared, number: usize) -> io::Result<()> {
    let token = shared.job.token_bytes().unwrap_or_default();
    let Some(listener) = shared.listener.as_ref().map(AsFd::as_fd) else { return Ok(()) };
    let epoll = Epoll::new()?;
    epoll.add_exclusive(listener, LISTENER)?;
    let room = shared.job.connections as usize + SPARE;
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
    while worker.due() > 0 && !(quiet && is_over(&worker) && round.is_empty()) && !is_past(&worker) {
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
    (number..shared.job.connections as usize)
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
    shared: &'a Shared,
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
    fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    fn admit(&mut self, worker: &mut Worker<'_>) {
        for _ in 0..MOST_ACCEPTED {
            // The others wait in the backlog.
            let Some(&at) = self.free.last() else { return self.listen(false) };
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
                worker.now.saturating_sub(place.begun) > TIME_TO_PROVE.0
                    && matches!(place.phase, Phase::Proving(_) | Phase::Shaking(_))
            });
            if slow {
                self.visit(at, worker);
            }
        }
    }
}
