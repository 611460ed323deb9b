//! A connection for each request: connect, token, request, answer, close.
//!
//! The end that answers closes first, as HTTP/1.0 has it. So `TIME_WAIT` stays with that end, where it takes no port,
//! and the port of the end that asks is free again at once: the rate is not bounded by
//! `net.ipv4.ip_local_port_range` in a minute. A new connection with the same pair of ports takes an old one in
//! `TIME_WAIT` over (RFC 6191, by timestamps). Where no port is left nevertheless, the attempt is counted, and made
//! again a little later.
//!
//! In an open loop each arrival is such an exchange, by a flow that is free; its response time counts from when it was to
//! begin, with the connecting.
//!
//! It does not fit the other workloads' loop, whose connections are up before the start and stay. The two ends are
//! machines that go on until they would have to wait ([`Turn`]); threads wait in their calls, the others in `epoll`.

mod answering;
mod asking;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use iodyno_core::job::Job;
use iodyno_core::network::{Engine, Network, Role};
use iodyno_core::units::Nanos;
use iodyno_sys::affinity;
use iodyno_sys::epoll::{Epoll, Interest};

use crate::connections::Connections;
use crate::error::LoadError;
use crate::handshake::PREAMBLE_BYTES;
use crate::worker::Worker;

/// chosen: how long a call of a blocking thread waits before the thread looks whether the job was stopped.
const LOOK: Nanos = Nanos(50_000_000);
/// chosen: pause after a connection that could not be made. Ports come back one by one, and a listener that refuses
/// goes on refusing for longer than this.
const RETRY: Nanos = Nanos(1_000_000);
/// chosen: how long the end that answers goes on beyond its own stop: the other end's clock may be behind.
const LINGER: Nanos = Nanos(50_000_000);

/// chosen: descriptors that one wait reports, as in [`super::epoll`].
const MOST_EVENTS: usize = 256;

/// The length of a request, behind the token, where requests are not all alike: a connection may fail before it has carried
/// its request, so that the end that answers cannot know which draw it is.
const LENGTH_BYTES: usize = 8;

/// What a connection shows before its request.
fn preamble_bytes(job: &Job<Network>) -> usize {
    PREAMBLE_BYTES + if job.load.message_sizes.is_some() { LENGTH_BYTES } else { 0 }
}

/// What an end of an exchange does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Waits for this.
    Wait(Interest),
    /// Begins its next exchange no earlier than at this instant; 0: now.
    Next(u64),
    /// Is done for good.
    Done,
}

pub(super) fn drive(shared: &Connections, number: usize) {
    let threads = shared.job.load.engine == Engine::Threads;
    let cpu = shared.cpus[number % shared.cpus.len()];
    let restricted = if threads { affinity::restrict(&shared.cpus) } else { affinity::restrict(&[cpu]) };
    if let Err(error) = restricted {
        return shared.report(LoadError::refused(&error, "run on the CPUs of the job", "cpus"));
    }
    let result = match (shared.job.load.role, threads) {
        (Role::Send, true) => {
            asking::alone(shared, number);
            Ok(())
        }
        (Role::Send, false) => asking::many(shared, number),
        (_, true) => {
            answering::alone(shared, number);
            Ok(())
        }
        (_, false) => answering::many(shared, number),
    };
    if let Err(error) = result {
        shared.report(LoadError::refused(&error, "wait for connections", "connections"));
    }
}

/// What a machine waits for, as the kernel was told.
struct Watch {
    interest: Interest,
    watched: bool,
}

impl Watch {
    const NONE: Self = Watch { interest: Interest::Nothing, watched: false };

    /// Tells the kernel, where it does not know yet.
    fn on(&mut self, epoll: &Epoll, socket: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        if !self.watched {
            epoll.add(socket.as_fd(), interest, key)?;
        } else if self.interest != interest {
            epoll.change(socket.as_fd(), interest, key)?;
        }
        *self = Watch { interest, watched: true };
        Ok(())
    }
}

/// Bytes offered from the job's source in one call.
fn offered<'a>(worker: &Worker<'a>, left: u64) -> &'a [u8] {
    let source = worker.source();
    &source[..source.len().min(usize::try_from(left).unwrap_or(usize::MAX))]
}
