//! The sending end of a stream: datagrams of one size, numbered without a gap, as fast as the kernel takes them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::os::fd::BorrowedFd;

use iodyno_core::histogram::Recorder;
use iodyno_core::limits::DATAGRAM_HEADER_BYTES;
use iodyno_core::network::Engine;
use iodyno_core::units::Nanos;
use iodyno_sys::datagram::Patience;
use iodyno_sys::epoll::{Epoll, Events, Interest};
use iodyno_sys::errno;

use super::counters::Tally;
use super::end::{settle, End};
use super::farewell::{self, Parting};
use super::port::Port;
use crate::connections::Connections;
use crate::error::LoadError;
use crate::transport::datagram::{Header, Kind};
use crate::worker::arrivals::{Arrivals, Claim};
use crate::worker::shared::State;
use crate::worker::Worker;
use crate::workload::application;
use crate::workload::lengths::Lengths;

/// chosen: calls of a visit to one of several flows of a worker: some tens of microseconds.
const VISIT_CALLS: u32 = 32;
/// chosen: how soon it is tried again where the kernel has no memory for another datagram.
const AGAIN: Nanos = Nanos(1_000_000);
/// chosen: flows that one wait reports. What is ready beyond is reported by the next wait.
const MOST_EVENTS: usize = 256;

/// One flow of a worker.
struct Flow<'a> {
    number: u32,
    /// The number that its datagrams show: that which the receiver knows it by.
    shown: u32,
    socket: BorrowedFd<'a>,
    /// Its place among the worker's.
    place: usize,
    lengths: Lengths,
    /// Lengths of the next datagrams, as far as they were drawn.
    ahead: VecDeque<u64>,
    /// Number of the next datagram.
    next: u64,
    open: bool,
}

pub(super) fn drive(shared: &Connections, number: usize) {
    let job = &shared.job;
    // Nothing but the word that the end is known comes back.
    let end = End::of(shared);
    let sockets = shared.share_of(number).map(|flow| end.socket(flow)).collect();
    let made = settle(shared, number).and_then(|()| Port::open(shared, sockets, 0, job.load.message_bytes.0));
    let port = match made {
        Ok(made) => made,
        Err(error) => return shared.report(error),
    };
    let mut flows: Vec<Flow> = shared
        .share_of(number)
        .enumerate()
        .map(|(place, flow)| Flow {
            number: flow as u32,
            shown: job.load.number_of(flow),
            socket: end.socket(flow),
            place,
            lengths: Lengths::of(&job.load, flow),
            ahead: VecDeque::with_capacity(port.room()),
            next: 0,
            open: true,
        })
        .collect();
    // On a ring, flows take turns: what one of them waits for is what all wait for.
    let waiting = match (job.load.engine == Engine::Epoll).then(|| wait_on(&flows)).transpose() {
        Ok(waiting) => waiting,
        Err(error) => return shared.report(LoadError::refused(&error, "wait on the sockets", "connections")),
    };
    let mut parting = Vec::with_capacity(flows.len());
    let arrivals = Arrivals::of(shared, number);
    let claims = BinaryHeap::with_capacity(flows.len());
    let due = vec![Claim::default(); port.room()].into_boxed_slice();
    let claimed = vec![Claim::default(); flows.len()].into_boxed_slice();
    let Some(worker) = Worker::await_start(shared, number) else { return };
    let mut sender = Sender {
        shared,
        tally: shared.counters.tally(number),
        batches: shared.counters.batches(number),
        port,
        worker,
    };
    match waiting {
        _ if arrivals.is_some() => {
            if let Some(arrivals) = arrivals {
                sender.send_when_due(&mut flows, arrivals, claims, (claimed, due));
            }
        }
        None if job.load.engine == Engine::Threads => sender.send_alone(&mut flows),
        None => sender.send_by_turns(&mut flows),
        Some((epoll, events)) => sender.send_in_turns(&mut flows, &epoll, events),
    }
    let still = || shared.state() == State::Going;
    let open = flows.iter().filter(|flow| flow.open);
    parting.extend(open.clone().map(|flow| Parting {
        flow: flow.shown,
        total: flow.next,
        socket: flow.socket,
        silent: true,
    }));
    if still() {
        // What comes back is for the sockets.
        drop(sender.port);
        farewell::say(&mut parting, end.mark, still);
    }
    open.for_each(|flow| sender.worker.concluded(flow.number as usize));
}

fn wait_on(flows: &[Flow]) -> io::Result<(Epoll, Events)> {
    let epoll = Epoll::new()?;
    for (key, flow) in (0..).zip(flows) {
        epoll.add(flow.socket, Interest::Writable, key)?;
    }
    Ok((epoll, Events::with_capacity(flows.len().min(MOST_EVENTS))))
}

/// What became of a call.
enum Sent {
    /// The kernel took something.
    Some,
    /// It has no room in the socket's buffer.
    Full,
    /// It has no memory.
    NoMemory,
    /// The flow broke; the error number.
    Broken(i32),
}

struct Sender<'a> {
    shared: &'a Connections,
    tally: &'a Tally,
    batches: Option<&'a Recorder>,
    port: Port<'a>,
    worker: Worker<'a>,
}

impl Sender<'_> {
    /// One flow, whose calls wait.
    fn send_alone(&mut self, flows: &mut [Flow]) {
        let Some(flow) = flows.first_mut() else { return };
        while !self.worker.is_due() {
            match self.send(flow, self.port.room(), Patience::Waits) {
                Sent::Some => {}
                Sent::Full | Sent::NoMemory => self.worker.pause(self.worker.now + AGAIN.0),
                Sent::Broken(number) => return self.lose(flow, number),
            }
        }
    }

    /// All flows in turn, as many datagrams of each as are handed over together.
    fn send_by_turns(&mut self, flows: &mut [Flow]) {
        while !self.worker.is_due() && flows.iter().any(|flow| flow.open) {
            for flow in flows.iter_mut().filter(|flow| flow.open) {
                match self.send(flow, self.port.room(), Patience::Waits) {
                    Sent::Some => {}
                    Sent::Full | Sent::NoMemory => self.worker.pause(self.worker.now + AGAIN.0),
                    Sent::Broken(number) => self.lose(flow, number),
                }
                if self.worker.is_due() {
                    return;
                }
            }
        }
    }

    /// Whichever flow has claimed the next arrival. What else is due by then goes with it, as many as one call takes.
    fn send_when_due(
        &mut self,
        flows: &mut [Flow],
        arrivals: Arrivals<'_>,
        mut claims: BinaryHeap<Reverse<(u64, usize)>>,
        (mut claimed, mut due): (Box<[Claim]>, Box<[Claim]>),
    ) {
        for (at, flow) in flows.iter().enumerate() {
            claimed[at] = arrivals.claim(flow.number, self.worker.now);
            claims.push(Reverse((claimed[at].due, at)));
        }
        while let Some(Reverse((instant, at))) = claims.pop() {
            self.worker.pause(instant.min(self.worker.due()));
            if self.worker.is_due() {
                return;
            }
            let (flow, mut ready) = (&mut flows[at], 0);
            while ready < due.len() && claimed[at].due <= self.worker.now {
                due[ready] = claimed[at];
                ready += 1;
                // Those of one call do not wait for each other.
                claimed[at] = arrivals.claim(flow.number, claimed[at].free);
            }
            let mut sent = 0;
            while sent < ready && flow.open && !self.worker.is_due() {
                let (begun, before) = (self.worker.now, flow.next);
                match self.send(flow, ready - sent, Patience::Waits) {
                    Sent::Some => {}
                    Sent::Full | Sent::NoMemory => self.worker.pause(self.worker.now + AGAIN.0),
                    Sent::Broken(number) => self.lose(flow, number),
                }
                let (first, mut late) = (sent, 0);
                sent += (flow.next - before) as usize;
                for claim in &due[first..sent] {
                    late = arrivals.begun(*claim, begun);
                    arrivals.ended(claim.due, self.worker.now);
                }
                // The socket took so long; but what the generator was late by is not its doing (Lindley's recursion, as in
                // `workload::open`).
                let free = self.worker.now.saturating_sub(late);
                due[sent..ready].iter_mut().for_each(|claim| claim.free = free);
                claimed[at].free = free;
            }
            if flow.open {
                claims.push(Reverse((claimed[at].due, at)));
            }
        }
    }

    /// Many flows, whichever has room.
    fn send_in_turns(&mut self, flows: &mut [Flow], epoll: &Epoll, mut events: Events) {
        while !self.worker.is_due() && flows.iter().any(|flow| flow.open) {
            let left = Nanos(self.worker.due()).minus(Nanos(self.worker.now));
            if let Err(error) = epoll.wait(&mut events, Some(left)) {
                let number = error.raw_os_error().unwrap_or(0);
                flows.iter_mut().filter(|flow| flow.open).for_each(|flow| self.lose(flow, number));
                return;
            }
            self.worker.tick();
            for at in 0..events.count() {
                let flow = &mut flows[events.key(at) as usize];
                for _ in 0..VISIT_CALLS {
                    if !flow.open || self.worker.is_due() {
                        break;
                    }
                    match self.send(flow, self.port.room(), Patience::Returns) {
                        Sent::Some => {}
                        Sent::Full => break,
                        Sent::NoMemory => {
                            self.worker.pause(self.worker.now + AGAIN.0);
                            break;
                        }
                        Sent::Broken(number) => {
                            // It was added before and not removed since.
                            let _ = epoll.remove(flow.socket);
                            self.lose(flow, number);
                        }
                    }
                }
            }
        }
    }

    /// Hands as many datagrams of a flow over as one call takes.
    #[inline]
    fn send(&mut self, flow: &mut Flow, room: usize, patience: Patience) -> Sent {
        let job = &self.shared.job;
        let cell = self.shared.counters.cell(flow.number as usize);
        if job.load.application().compute_ns.0 > 0 {
            cell.add_compute(application::compute(job.load.application().compute_ns.0, &mut self.worker));
        }
        let mut written = 0;
        while written < room {
            if flow.ahead.len() == written {
                flow.ahead.push_back(flow.lengths.next().max(DATAGRAM_HEADER_BYTES));
            }
            let sequence = flow.next + written as u64;
            let header = Header { flow: flow.shown, kind: Kind::Stream, sequence };
            if !self.port.write(flow.place, written, header, flow.ahead[written]) {
                break;
            }
            written += 1;
        }
        if written == 0 {
            self.worker.tick();
            return Sent::NoMemory;
        }
        let begun = self.worker.now;
        let outcome = self.port.send(flow.place, 0, written, patience);
        self.worker.tick();
        let sent = match outcome {
            Ok(sent) => sent as u64,
            Err(error) => match error.raw_os_error().unwrap_or(0) {
                errno::EINTR => return Sent::Some,
                errno::EAGAIN => return Sent::Full,
                errno::ENOBUFS => return Sent::NoMemory,
                number => return Sent::Broken(number),
            },
        };
        flow.next += sent;
        self.tally.sent.add(sent);
        self.worker.moved(cell, flow.ahead.drain(..sent as usize).sum(), begun);
        cell.add_operations(sent);
        self.worker.completed_together(begun, sent);
        if let Some(batches) = self.batches {
            batches.record(sent);
        }
        Sent::Some
    }

    #[cold]
    fn lose(&mut self, flow: &mut Flow, number: i32) {
        flow.open = false;
        self.worker.failed(flow.number as usize, number);
    }
}
