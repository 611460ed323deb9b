//! The end that serves all flows: one thread and one socket for all of them, as a server of datagrams has it. It goes
//! on taking while there is something, and waits only when there is nothing.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

use iodyno_core::histogram::Recorder;
use iodyno_core::job::Job;
use iodyno_core::network::{Engine, Network, TrafficKind};
use iodyno_core::units::Nanos;
use iodyno_sys::datagram::{self, Patience};
use iodyno_sys::epoll::{Epoll, Events, Interest};
use iodyno_sys::errno;

use super::counters::Tally;
use super::end::settle;
use super::port::Port;
use crate::connections::Connections;
use crate::error::LoadError;
use crate::transport::datagram::{Header, Kind};
use crate::worker::shared::State;
use crate::worker::Worker;

/// chosen: a server that hears nothing looks so often whether the load is over.
const LOOK: Nanos = Nanos(50_000_000);
/// chosen: the same of a call that waits by itself. Measured: with 20 to 50 ms, for which the kernel sets its timer anew with
/// each call, exchanges of one flow are 3 to 4 % slower; with half a second as fast as without an end.
const CALL_LOOK: Nanos = Nanos(500_000_000);
/// chosen: so long after the load was to stop, a server no longer waits for flows that have not said that they end.
const LINGER: Nanos = Nanos(1_000_000_000);

/// What is done with datagrams that came.
pub(super) trait Service: Sized {
    /// Takes the memory it needs, for up to `room` datagrams to send at a time.
    fn prepare(shared: &Connections, room: usize) -> Result<Self, LoadError>;
    /// Takes datagram `at` of the last call, whose flow is one of the job's; `false`: it is not of this workload.
    fn take(&mut self, seat: &mut Seat<'_>, at: usize, header: Header) -> bool;
    /// Those of one call were taken.
    fn taken(&mut self, seat: &mut Seat<'_>);
    /// A flow says that it ends.
    fn end(&mut self, seat: &mut Seat<'_>, header: Header);
    /// Nothing more will come.
    fn close(&mut self, seat: &mut Seat<'_>);
}

/// A server's thread with its socket and its memory.
pub(super) struct Seat<'a> {
    pub shared: &'a Connections,
    pub tally: &'a Tally,
    pub port: Port<'a>,
    pub worker: Worker<'a>,
    /// When the last call for datagrams was made.
    pub asked: u64,
    pub ends: Ends,
    batches: Option<&'a Recorder>,
    waiting: Waiting,
    /// Whether nothing can be there before what was taken is answered, so that it waits without a look.
    alternates: bool,
}

/// Serves as worker `number` to the end.
pub(super) fn serve<S: Service>(shared: &Connections, number: usize) {
    let job = &shared.job;
    let made = settle(shared, number)
        .and_then(|()| {
            let own = Box::from([shared.sockets[number].as_fd()]);
            Port::open(shared, own, job.load.message_bytes.0, job.load.response_bytes().0)
        })
        .and_then(|port| Ok((S::prepare(shared, port.room())?, port, Waiting::on(shared, number)?)));
    let (mut service, port, waiting) = match made {
        Ok(made) => made,
        Err(error) => return shared.report(error),
    };
    let ends = Ends::of(job.load.connections as usize);
    let Some(worker) = Worker::await_start(shared, number) else { return };
    let mut seat = Seat {
        shared,
        tally: shared.counters.tally(number),
        port,
        asked: worker.now,
        worker,
        ends,
        batches: shared.counters.batches(number),
        alternates: matches!(waiting, Waiting::InCall) && alternates(job),
        waiting,
    };
    seat.run(&mut service);
    service.close(&mut seat);
}

/// Whether all there is is one flow with one request in flight.
fn alternates(job: &Job<Network>) -> bool {
    job.load.kind() == TrafficKind::RequestResponse
        && job.load.connections == 1
        && job.load.queue_depth() == 1
}

/// How a server waits when there is nothing to take.
enum Waiting {
    /// The call for datagrams waits by itself.
    InCall,
    /// `epoll_wait`.
    Epoll(Epoll, Events),
    /// The ring's own.
    Ring,
    /// Not at all: the next call looks again.
    Spinning,
}

impl Waiting {
    fn on(shared: &Connections, number: usize) -> Result<Self, LoadError> {
        let socket = shared.sockets[number].as_fd();
        let refused = |error: std::io::Error| LoadError::refused(&error, "wait on the socket", "engine");
        if shared.job.load.engine == Engine::IoUring {
            return Ok(Waiting::Ring);
        }
        if shared.job.load.busy_wait() {
            return Ok(Waiting::Spinning);
        }
        if shared.job.load.engine == Engine::Epoll {
            let epoll = Epoll::new().map_err(refused)?;
            epoll.add(socket, Interest::Readable, 0).map_err(refused)?;
            return Ok(Waiting::Epoll(epoll, Events::with_capacity(1)));
        }
        datagram::wait_at_most(socket, CALL_LOOK).map_err(refused)?;
        Ok(Waiting::InCall)
    }

    /// Waits until there is something, or for a while; how the next call is to be made.
    #[inline]
    fn wait(&mut self, port: &mut Port<'_>, tally: &Tally) -> std::io::Result<Patience> {
        tally.empty.one_more();
        if matches!(self, Waiting::Spinning) {
            std::hint::spin_loop();
            return Ok(Patience::Returns);
        }
        tally.polls.one_more();
        let woken = match self {
            Waiting::Epoll(epoll, events) => {
                epoll.wait(events, Some(LOOK))?;
                events.count() > 0
            }
            Waiting::InCall => return Ok(Patience::Waits),
            Waiting::Spinning => return Ok(Patience::Returns),
            // What came is known when it is looked at.
            Waiting::Ring => {
                port.wait(LOOK)?;
                return Ok(Patience::Returns);
            }
        };
        if woken {
            tally.wakeups.one_more();
        }
        Ok(Patience::Returns)
    }
}

/// Which flows have said that they end.
pub(super) struct Ends(Box<[bool]>);

impl Ends {
    fn of(flows: usize) -> Self {
        Ends(vec![false; flows].into())
    }

    /// A flow says so; `true`: for the first time.
    fn add(&mut self, flow: u32) -> bool {
        match self.0.get_mut(flow as usize) {
            Some(ended) => !std::mem::replace(ended, true),
            None => false,
        }
    }

    /// Whether a flow said so.
    pub(super) fn has(&self, flow: usize) -> bool {
        self.0.get(flow).copied().unwrap_or(false)
    }
}

impl Seat<'_> {
    fn run(&mut self, service: &mut impl Service) {
        let mut patience = Patience::Returns;
        let mut waited = false;
        loop {
            self.asked = self.worker.now;
            match self.port.receive(0, patience) {
                Ok(received) => {
                    self.worker.tick();
                    if patience == Patience::Waits || waited {
                        self.tally.wakeups.one_more();
                        patience = Patience::Returns;
                        waited = false;
                    }
                    if received == 0 {
                        if self.shared.state() != State::Going {
                            return;
                        }
                        // An empty datagram.
                        self.tally.foreign.one_more();
                    }
                    self.take(service, received);
                }
                Err(error) => match error.raw_os_error().unwrap_or(0) {
                    errno::EAGAIN if patience == Patience::Returns => {
                        if self.is_over() {
                            return;
                        }
                        match self.waiting.wait(&mut self.port, self.tally) {
                            Ok(next) => patience = next,
                            Err(error) => return self.fail(error.raw_os_error().unwrap_or(0)),
                        }
                        self.worker.tick();
                        waited = matches!(self.waiting, Waiting::Ring);
                        while let Some((flow, number)) = self.port.broken() {
                            self.worker.failed(flow, number);
                        }
                    }
                    errno::EAGAIN | errno::EINTR => {
                        self.worker.tick();
                        patience = Patience::Returns;
                    }
                    number => return self.fail(number),
                },
            }
            if self.alternates && patience == Patience::Returns && !self.is_near_its_end() {
                patience = Patience::Waits;
                self.tally.polls.one_more();
            }
        }
    }

    /// Whether it has to look whether more can come.
    fn is_near_its_end(&self) -> bool {
        let ended = self.shared.flows_ended.load(Relaxed) >= self.shared.job.load.connections;
        ended || self.worker.is_due() || self.shared.state() != State::Going
    }

    /// Whether nothing more will come.
    #[cold]
    fn is_over(&mut self) -> bool {
        self.worker.tick();
        self.shared.flows_ended.load(Relaxed) >= self.shared.job.load.connections
            || self.worker.now >= self.worker.due().saturating_add(LINGER.0)
            || self.shared.state() != State::Going
    }

    /// The socket broke, and every flow with it.
    #[cold]
    fn fail(&mut self, number: i32) {
        (0..self.shared.job.load.connections as usize).for_each(|flow| self.worker.failed(flow, number));
    }

    /// Has the service take what one call gave.
    #[inline]
    fn take(&mut self, service: &mut impl Service, received: usize) {
        if let (Some(batches), 1..) = (self.batches, received) {
            batches.record(received as u64);
        }
        let flows = self.shared.job.load.connections;
        for at in 0..received {
            match self.port.header(at) {
                Some(header) if header.flow < flows && service.take(self, at, header) => {}
                Some(header) if header.kind == Kind::End && header.flow < flows => {
                    service.taken(self);
                    self.part(service, header, at);
                }
                // It was said again while its acknowledgement was on its way.
                Some(header) if header.kind == Kind::Hello => {}
                _ => self.tally.foreign.one_more(),
            }
        }
        service.taken(self);
    }

    /// A flow ends: it is told that this is known, as often as it says so.
    #[cold]
    fn part(&mut self, service: &mut impl Service, header: Header, at: usize) {
        if self.ends.add(header.flow) {
            service.end(self, header);
            self.shared.flows_ended.fetch_add(1, Relaxed);
            self.worker.ended(header.flow as usize);
        }
        self.port.echo(0, at, header);
    }
}
