//! How calls are submitted to the kernel: one file each.

mod connect;
mod epoll;
mod io_uring;
mod round_robin;
pub(crate) mod threads;

use std::os::fd::{AsFd, OwnedFd};

use iodyno_core::network::{Direction, Engine, Role, Syscalls, TrafficKind, Transport};
use iodyno_sys::own_files::with_own_files;

use crate::connections::Connections;
use crate::prepared::Work;
use crate::transport::calls::Calls;
use crate::transport::null::Null;
use crate::transport::plain::Plain;
use crate::transport::tls::Tls;
use crate::transport::Link;
use crate::worker::shared::Shared;
use crate::workload::application::Application;
use crate::workload::duplex::Duplex;
use crate::workload::multiplex::{MultiplexedAnswer, MultiplexedRequest};
use crate::workload::open::Open;
use crate::workload::pipeline::{PipelinedAnswer, PipelinedRequest};
use crate::workload::request_response::{Answer, Request};
use crate::workload::stream::{Receive, ReceiveWhole, Transmit};
use crate::workload::Activity;

impl Work for Connections {
    fn shared(&self) -> &Shared {
        Connections::shared(self)
    }

    fn carry_out(&self, number: usize) {
        match self.job.load.engine {
            // They open devices, and leave what they attach to them to the process.
            Engine::Rings | Engine::Reflector => work(self, number),
            _ => with_own_files(&self.files(), self.shared().workers(), || work(self, number)),
        }
    }

    fn connections(&self) -> u32 {
        self.job.load.connections
    }

    fn sockets(&self) -> &[OwnedFd] {
        &self.sockets
    }
}

/// The registry of workloads and transports.
fn work(shared: &Connections, number: usize) {
    let load = &shared.job.load;
    let plain = load.stream().is_none_or(|stream| !stream.cork && !stream.discards);
    match (load.kind(), load.transport) {
        (_, transport) if transport.is_datagram() => crate::datagram::work(shared, number),
        (TrafficKind::ConnectRequestResponse, _) => connect::drive(shared, number),
        (_, Transport::Tcp | Transport::Unix | Transport::Vsock)
            if plain && matches!(load.syscalls, Syscalls::ReadWrite | Syscalls::Batch) =>
        {
            carry(shared, number, |at| Plain(shared.sockets[at].as_fd()));
        }
        (_, Transport::Tcp | Transport::Unix | Transport::Vsock) => {
            carry(shared, number, |at| Calls::of(shared, at))
        }
        (_, Transport::Tls) => carry(shared, number, |at| Tls {
            socket: shared.sockets[at].as_fd(),
            session: &shared.tls_sessions[at],
        }),
        (TrafficKind::Stream, Transport::Null) => {
            drive(shared, number, |at| (Transmit::of(load, at), Null));
        }
        // Jobs are checked for the rest ([`crate::supported`]).
        _ => {}
    }
}

/// The registry of workloads on connections that are up.
fn carry<L: Link>(shared: &Connections, number: usize, link: impl Fn(usize) -> L) {
    let load = &shared.job.load;
    let pipelined = load.queue_depth() > 1;
    let multiplexed = load.exchange().is_some_and(|exchange| exchange.multiplexed);
    match (load.kind(), load.role, load.direction()) {
        // One of the two threads of a connection for each way.
        (TrafficKind::Stream, _, Direction::Both) if load.engine == Engine::Threads => {
            if number < load.connections as usize {
                submit(shared, number, |at| (Transmit::beside(load, at), link(at)));
            } else {
                submit(shared, number, |at| (Receive::BESIDE, link(at)));
            }
        }
        (TrafficKind::Stream, _, Direction::Both) => {
            submit(shared, number, |at| (Duplex::of(load, at), link(at)))
        }
        (TrafficKind::Stream, ..) if load.writes_stream() => {
            drive(shared, number, |at| (Transmit::of(load, at), link(at)));
        }
        (TrafficKind::Stream, ..) if load.engine == Engine::RoundRobin => {
            drive(shared, number, |at| (ReceiveWhole::of(load), link(at)));
        }
        (TrafficKind::Stream, ..) => drive(shared, number, |at| (Receive::ALONE, link(at))),
        (TrafficKind::RequestResponse, Role::Send, _) if multiplexed => {
            let source = shared.source.bytes();
            drive(shared, number, |at| (MultiplexedRequest::of(load, at, source), link(at)));
        }
        (TrafficKind::RequestResponse, ..) if multiplexed => {
            let source = shared.source.bytes();
            drive(shared, number, |at| (MultiplexedAnswer::of(load, at, source), link(at)));
        }
        (TrafficKind::RequestResponse, Role::Send, _) if pipelined => {
            drive(shared, number, |at| (PipelinedRequest::of(load, at), link(at)));
        }
        (TrafficKind::RequestResponse, ..) if pipelined => {
            drive(shared, number, |at| (PipelinedAnswer::of(load, at), link(at)));
        }
        (TrafficKind::RequestResponse, Role::Send, _) => {
            drive(shared, number, |at| (Request::of(load, at), link(at)));
        }
        (TrafficKind::RequestResponse, ..) => drive(shared, number, |at| (Answer::of(load, at), link(at))),
        // The others have no such connections.
        _ => {}
    }
}

/// Puts the job's application around the activity, where it asks for one.
fn drive<A: Activity, L: Link>(shared: &Connections, number: usize, make: impl Fn(usize) -> (A, L)) {
    let load = &shared.job.load;
    if !load.application().is_any() {
        return arrive(shared, number, make);
    }
    arrive(shared, number, |at| {
        let (activity, link) = make(at);
        (Application::around(activity, load, &shared.lock), link)
    });
}

/// Puts the job's open loop around the activity, where it has one.
fn arrive<A: Activity, L: Link>(shared: &Connections, number: usize, make: impl Fn(usize) -> (A, L)) {
    let Some(arrivals) = &shared.counters.open_loop else {
        return submit(shared, number, make);
    };
    submit(shared, number, |at| {
        let (activity, link) = make(at);
        let calls = shared.counters.batches(number);
        (Open::around(activity, &shared.job.load, arrivals, at, number, calls), link)
    });
}

/// The registry of engines.
fn submit<A: Activity, L: Link>(shared: &Connections, number: usize, make: impl Fn(usize) -> (A, L)) {
    match shared.job.load.engine {
        Engine::Threads => threads::drive(shared, number, make),
        Engine::Epoll => epoll::drive(shared, number, make),
        Engine::RoundRobin => round_robin::drive(shared, number, make),
        // Its links are those of its ring.
        Engine::IoUring => io_uring::drive(shared, number, |at| make(at).0),
        Engine::Rings | Engine::Reflector => {}
    }
}
