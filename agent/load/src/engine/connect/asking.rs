//! The end that connects and asks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use iodyno_core::units::Nanos;
use iodyno_sys::endpoint::{self, Endpoint};
use iodyno_sys::epoll::{Epoll, Events, Interest};
use iodyno_sys::{errno, socket};

use super::{offered, preamble_bytes, Turn, Watch, LENGTH_BYTES, LOOK, MOST_EVENTS, RETRY};
use crate::connections::Connections;
use crate::handshake::{self, PREAMBLE_BYTES};
use crate::transport::rendezvous;
use crate::transport::tls::{Handshake, Session};
use crate::worker::arrivals::{Arrivals, Claim};
use crate::worker::counters::Cell;
use crate::worker::Worker;
use crate::workload::lengths::Lengths;

/// chosen: flows whose rest is over that have their turn before those whose connections are ready do, as in
/// [`crate::engine::epoll`].
const MOST_RESTED: usize = 64;

enum Phase {
    /// Has no connection.
    Idle,
    Connecting,
    /// Shows the token; so many bytes of it are out.
    Showing(usize),
    /// Comes to terms about keys.
    Shaking(Box<Handshake>),
    /// Has so many bytes of the request to send.
    Sending(u64),
    /// Waits for so many bytes of the answer, and then for the end of the connection.
    Awaiting(u64),
}

/// What a flow knows of the arrivals that its exchanges begin at.
struct Open<'a> {
    arrivals: Arrivals<'a>,
    claim: Claim,
    /// When the exchange in hand was to begin; 0: there is none. A connection that could not be made is made again for
    /// the same arrival, whose response time goes on.
    intended: u64,
    /// How late the generator was with it.
    late: u64,
}

impl Open<'_> {
    /// Whether an exchange may begin; else when.
    fn admit(&mut self, flow: usize, now: u64) -> Result<(), u64> {
        if self.intended > 0 {
            return Ok(());
        }
        if self.claim.due == 0 {
            // What it waited behind a late one, it waited for the generator.
            self.claim = self.arrivals.claim(flow as u32, now.saturating_sub(self.late));
            // Where it is due already, those of other flows that were due before it have their turn first.
            return Err(self.claim.due);
        }
        if self.claim.due > now {
            return Err(self.claim.due);
        }
        self.late = self.arrivals.begun(self.claim, now);
        self.intended = self.claim.due;
        self.claim = Claim::default();
        Ok(())
    }
}

/// One flow of exchanges, each on a connection of its own.
struct Asking<'a> {
    shared: &'a Connections,
    address: Endpoint,
    /// The token, and behind it the length of the request where that is drawn.
    preamble: [u8; PREAMBLE_BYTES + LENGTH_BYTES],
    lengths: Lengths,
    /// Length of the request in hand.
    request: u64,
    flow: usize,
    blocks: bool,
    socket: Option<OwnedFd>,
    session: Option<Session>,
    phase: Phase,
    begun: u64,
    open: Option<Open<'a>>,
    watch: Watch,
    /// Whether its next exchange is to begin later.
    rests: bool,
    done: bool,
}

impl<'a> Asking<'a> {
    /// `number`: of the worker that carries it out.
    fn new(shared: &'a Connections, flow: usize, number: usize, blocks: bool) -> Option<Self> {
        let mut preamble = [0; PREAMBLE_BYTES + LENGTH_BYTES];
        let token = handshake::preamble(shared.job.token_bytes()?, shared.job.load.number_of(flow));
        preamble[..PREAMBLE_BYTES].copy_from_slice(&token);
        Some(Asking {
            shared,
            address: rendezvous::of_connection(&shared.job, flow).ok()?,
            preamble,
            lengths: Lengths::of(&shared.job.load, flow),
            request: 0,
            flow,
            blocks,
            socket: None,
            session: None,
            phase: Phase::Idle,
            begun: 0,
            open: Arrivals::of(shared, number).map(|arrivals| Open {
                arrivals,
                claim: Claim::default(),
                intended: 0,
                late: 0,
            }),
            watch: Watch::NONE,
            rests: false,
            done: false,
        })
    }

    fn cell(&self) -> &'a Cell {
        self.shared.counters.cell(self.flow)
    }

    /// Goes on until it would have to wait, or an exchange is over.
    fn step(&mut self, worker: &mut Worker<'_>) -> Turn {
        loop {
            if worker.due() == 0 {
                return self.conclude(worker);
            }
            let outcome = match self.phase {
                Phase::Idle if worker.is_due() => return self.conclude(worker),
                Phase::Idle => match self.open.as_mut().map(|open| open.admit(self.flow, worker.now)) {
                    Some(Err(due)) => return Turn::Next(due),
                    Some(Ok(())) | None => self.dial(worker),
                },
                _ => self.proceed(worker),
            };
            worker.tick();
            match outcome {
                Ok(None) => {}
                Ok(Some(turn)) => return turn,
                Err(error) => match error.raw_os_error().unwrap_or(0) {
                    errno::EINTR => {}
                    errno::EAGAIN => return Turn::Wait(self.interest()),
                    _ => return self.fail(&error, worker),
                },
            }
        }
    }

    fn interest(&self) -> Interest {
        match &self.phase {
            Phase::Awaiting(_) => Interest::Readable,
            Phase::Shaking(handshake) if !handshake.wants_write() => Interest::Readable,
            _ => Interest::Writable,
        }
    }

    fn dial(&mut self, worker: &mut Worker<'_>) -> io::Result<Option<Turn>> {
        self.begun = worker.now;
        self.request = self.lengths.next();
        self.preamble[PREAMBLE_BYTES..].copy_from_slice(&self.request.to_le_bytes());
        let socket = if self.blocks {
            let socket = self.address.socket(true)?;
            socket::set_timeouts(socket.as_fd(), LOOK)?;
            socket
        } else {
            self.address.socket(false)?
        };
        // What the kernel made of them was read back before the start.
        let _ = handshake::ask_again(socket.as_fd(), &self.shared.job.load.socket);
        handshake::come_from(socket.as_fd(), &self.shared.job, self.flow)?;
        self.watch = Watch::NONE;
        self.phase = Phase::Connecting;
        self.socket = Some(socket);
        self.proceed(worker)
    }

    /// Makes one call of the connection. `None`: go on.
    fn proceed(&mut self, worker: &mut Worker<'_>) -> io::Result<Option<Turn>> {
        let Some(socket) = self.socket.as_ref().map(AsFd::as_fd) else { return Ok(None) };
        match &mut self.phase {
            Phase::Idle => {}
            Phase::Connecting => {
                // Asked again, the kernel says how far it is.
                let up = match endpoint::connect(socket, &self.address) {
                    Err(error) if error.raw_os_error() == Some(errno::EISCONN) => true,
                    Err(error) if error.raw_os_error() == Some(errno::EALREADY) => false,
                    other => other?,
                };
                if !up {
                    return Ok(Some(Turn::Wait(Interest::Writable)));
                }
                self.shared.counters.rare.opened();
                self.phase = Phase::Showing(0);
            }
            Phase::Showing(shown) => {
                // With the request in one segment.
                let length = preamble_bytes(&self.shared.job);
                *shown += socket::send_more(socket, &self.preamble[*shown..length])?;
                if *shown == length {
                    self.phase = match &self.shared.tls_terms {
                        Some(terms) => Phase::Shaking(Box::new(terms.begin(true)?)),
                        None => Phase::Sending(self.request),
                    };
                }
            }
            Phase::Shaking(handshake) => {
                self.session = Some(handshake.step(socket)?);
                self.phase = Phase::Sending(self.request);
            }
            Phase::Sending(left) => {
                let bytes = offered(worker, *left);
                let accepted = match &self.session {
                    None => socket::send(socket, bytes)?,
                    Some(session) => session.send(socket, bytes)?,
                } as u64;
                *left -= accepted;
                let all_out = *left == 0;
                worker.moved(self.shared.counters.cell(self.flow), accepted, self.begun);
                if all_out {
                    self.phase = Phase::Awaiting(self.shared.job.load.response_bytes().0);
                }
            }
            Phase::Awaiting(left) => {
                let received = match &self.session {
                    None => socket::receive(socket, worker.scratch())?,
                    Some(session) => session.receive(socket, usize::MAX)?,
                } as u64;
                if received > 0 {
                    *left = left.saturating_sub(received);
                } else if *left > 0 {
                    return Err(io::Error::from_raw_os_error(errno::ECONNRESET));
                } else {
                    return Ok(Some(self.complete(worker)));
                }
            }
        }
        Ok(None)
    }

    /// The whole answer is there, and the other end has closed.
    fn complete(&mut self, worker: &mut Worker<'_>) -> Turn {
        self.socket = None;
        self.session = None;
        self.phase = Phase::Idle;
        worker.tick();
        worker.completed(self.cell(), self.begun);
        if let Some(open) = &mut self.open {
            open.arrivals.ended(open.intended, worker.now);
            open.intended = 0;
        }
        Turn::Next(0)
    }

    fn fail(&mut self, error: &io::Error, worker: &Worker<'_>) -> Turn {
        self.socket = None;
        self.session = None;
        self.phase = Phase::Idle;
        // What breaks once the load was due to stop is the other end's stop.
        if worker.is_due() {
            return self.conclude(worker);
        }
        let rare = &self.shared.counters.rare;
        match error.raw_os_error().unwrap_or(0) {
            errno::EADDRNOTAVAIL => rare.without_port(),
            errno::ECONNREFUSED => rare.refused(),
            _ => rare.failed(),
        }
        Turn::Next(worker.now + RETRY.0)
    }

    fn conclude(&mut self, worker: &Worker<'_>) -> Turn {
        self.socket = None;
        self.session = None;
        self.done = true;
        worker.concluded(self.flow);
        Turn::Done
    }
}

/// A thread of one flow, in blocking calls.
pub(super) fn alone(shared: &Connections, flow: usize) {
    let asking = Asking::new(shared, flow, flow, true);
    let Some(mut worker) = Worker::await_start(shared, flow) else { return };
    let Some(mut asking) = asking else { return };
    loop {
        match asking.step(&mut worker) {
            Turn::Next(until) => worker.pause(until.min(worker.due())),
            // The call waited as long as it may, and the job may have been stopped meanwhile.
            Turn::Wait(_) => {}
            Turn::Done => return,
        }
    }
}

/// A worker of many flows.
pub(super) fn many(shared: &Connections, number: usize) -> io::Result<()> {
    let flows: Vec<Asking<'_>> =
        shared.share_of(number).filter_map(|flow| Asking::new(shared, flow, number, false)).collect();
    let mut events = Events::with_capacity(flows.len().clamp(1, MOST_EVENTS));
    let epoll = Epoll::new()?;
    let resting = BinaryHeap::with_capacity(flows.len());
    let Some(mut worker) = Worker::await_start(shared, number) else { return Ok(()) };
    let mut round = Round { open: flows.len(), flows, resting, epoll };
    for at in 0..round.flows.len() {
        round.visit(at, &mut worker);
    }
    while round.open > 0 && worker.due() > 0 {
        let (asked, sleep) = (worker.now, round.sleep_ns(&worker));
        // It fails for a broken instance only.
        if round.epoll.wait(&mut events, Some(Nanos(sleep))).is_err() {
            break;
        }
        if events.count() == 0 {
            worker.woke(asked, sleep);
        } else {
            worker.tick();
        }
        for _ in 0..MOST_RESTED {
            let Some(at) = round.rested(&worker) else { break };
            round.visit(at, &mut worker);
        }
        for at in 0..events.count() {
            round.visit(events.key(at) as usize, &mut worker);
        }
    }
    Ok(())
}

/// The flows of a worker.
struct Round<'a> {
    flows: Vec<Asking<'a>>,
    /// How many are not done.
    open: usize,
    /// Those that wait for an arrival, or after a connection that could not be made, and until when.
    resting: BinaryHeap<Reverse<(u64, usize)>>,
    epoll: Epoll,
}

impl Round<'_> {
    /// How long to wait for connections: not beyond the next rest's end, and not without a look whether the job ended.
    fn sleep_ns(&self, worker: &Worker<'_>) -> u64 {
        let Some(Reverse((end, _))) = self.resting.peek() else { return LOOK.0 };
        // Who rests concludes when the load is due to stop.
        worker.sleep_ns((*end).min(worker.due())).min(LOOK.0)
    }

    /// A flow whose rest is over.
    fn rested(&mut self, worker: &Worker<'_>) -> Option<usize> {
        let Reverse((end, at)) = *self.resting.peek()?;
        if end > worker.now && !worker.is_due() {
            return None;
        }
        self.resting.pop();
        self.flows[at].rests = false;
        Some(at)
    }

    fn rest(&mut self, at: usize, until: u64) {
        self.flows[at].rests = true;
        self.resting.push(Reverse((until, at)));
    }

    fn visit(&mut self, at: usize, worker: &mut Worker<'_>) {
        let flow = &mut self.flows[at];
        if flow.done || flow.rests {
            return;
        }
        loop {
            match flow.step(worker) {
                Turn::Next(0) => {}
                Turn::Next(until) => return self.rest(at, until),
                Turn::Wait(interest) => {
                    let Some(socket) = &flow.socket else { return };
                    // Fails where the kernel has no memory for it: the connection counts as failed.
                    match flow.watch.on(&self.epoll, socket.as_fd(), interest, at as u64) {
                        Ok(()) => return,
                        Err(error) => {
                            if let Turn::Next(until) = flow.fail(&error, worker) {
                                return self.rest(at, until);
                            }
                        }
                    }
                }
                Turn::Done => {
                    self.open -= 1;
                    return;
                }
            }
        }
    }
}
