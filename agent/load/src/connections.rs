//! What the workers of a load on connections have in common.

use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::Mutex;

use iodyno_core::job::Job;
use iodyno_core::network::{Direction, Engine, Network, Role, Syscalls, Traffic, Transport};

use crate::cancel::Cancel;
use crate::error::LoadError;
use crate::joining::{most_joined, LONGEST_CALL_BYTES, READ_BYTES};
use crate::transport::calls::Means;
use crate::transport::rendezvous::Listening;
use crate::transport::tls::{Session, Terms};
use crate::worker::counters::Counters;
use crate::worker::open_loop::OpenLoop;
use crate::worker::shared::{cpus_of, Needs, Shared};

/// Made once a job, before its threads.
pub(crate) struct Connections {
    shared: Shared,
    pub job: Job<Network>,
    /// One a connection, by index; empty for a transport without sockets.
    pub sockets: Vec<OwnedFd>,
    /// Where connections come from while the load is on, where each operation has one of its own.
    pub listener: Option<Listening>,
    /// The lock of a serialised job.
    pub lock: Mutex<()>,
    /// What the job's calls need besides the sockets.
    pub means: Means,
    /// One a connection over TLS that is up.
    pub tls_sessions: Vec<Session>,
    /// How connections over TLS are to come up while the load is on.
    pub tls_terms: Option<Terms>,
    /// Flows of datagrams whose sender said that they end.
    pub flows_ended: AtomicU32,
}

impl Deref for Connections {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// Whether a load is that of an end that serves all flows of datagrams with few sockets.
pub(crate) fn is_server(load: &Network) -> bool {
    load.transport.is_datagram() && load.role == Role::Receive
}

impl Connections {
    /// For `job` on `sockets`. Takes the memory that the load needs.
    pub(crate) fn new(
        job: &Job<Network>,
        sockets: Vec<OwnedFd>,
        tls_sessions: Vec<Session>,
        listener: Option<Listening>,
        cancel: &Cancel,
    ) -> Result<Self, LoadError> {
        let load = &job.load;
        let cpus = cpus_of(job)?;
        let connections = load.connections as usize;
        let workers = match load.engine {
            // A server of datagrams has a socket and a thread for all of its flows, or some of each.
            _ if is_server(load) => sockets.len(),
            // A blocked thread does one thing: two of them where payload goes both ways.
            Engine::Threads if load.direction() == Direction::Both => 2 * connections,
            Engine::Threads => connections,
            Engine::Epoll | Engine::RoundRobin | Engine::IoUring => connections.min(cpus.len()),
            // What a device gives goes to one of them.
            Engine::Rings | Engine::Reflector => connections.min(1),
        };
        let (sent, reads) = match (&load.traffic, load.role) {
            (Traffic::Stream(stream), _) if stream.direction == Direction::Both => {
                (load.message_bytes.0, true)
            }
            (Traffic::Stream(_), _) if load.writes_stream() => (load.message_bytes.0, false),
            (Traffic::Stream(_), _) => (1, true),
            (_, Role::Send) => (load.message_bytes.0, true),
            (_, Role::Receive) => (load.response_bytes().0, true),
        };
        let mut counters = Counters::new(connections, workers);
        if load.transport.is_datagram() {
            counters = counters.with_tallies(workers);
        }
        let on_a_ring = load.engine == Engine::Rings || load.engine == Engine::IoUring && is_server(load);
        let takes_several = load.transport.is_datagram()
            && matches!(load.syscalls, Syscalls::Batch | Syscalls::Segments)
            || on_a_ring;
        if takes_several || most_joined(load) > 1 {
            counters = counters.with_batches(workers);
        }
        if let Some(arrivals) = load.arrivals.as_ref().filter(|_| load.role == Role::Send) {
            counters.open_loop = Some(OpenLoop::new(arrivals, load.connections, workers));
        }
        let needs = Needs {
            workers,
            counters,
            source_bytes: (sent * u64::from(most_joined(load))).min(LONGEST_CALL_BYTES),
            scratch_bytes: if reads { READ_BYTES } else { 0 },
            busy_wait: load.busy_wait(),
        };
        let shared = Shared::new(job, cpus, needs, cancel)?;
        let means = Means::of(load, &sockets, &shared.source)
            .map_err(|error| LoadError::refused(&error, "open what the calls need", "syscalls"))?;
        let over_tls = load.transport == Transport::Tls && load.connects_anew();
        Ok(Connections {
            shared,
            tls_terms: over_tls.then(|| Terms::of(job)).transpose()?,
            job: job.clone(),
            sockets,
            listener,
            lock: Mutex::new(()),
            means,
            tls_sessions,
            flows_ended: AtomicU32::new(0),
        })
    }

    /// What all kinds of load have.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// What its threads call upon, besides what they open themselves.
    pub(crate) fn files(&self) -> Vec<BorrowedFd<'_>> {
        let sockets = self.sockets.iter().map(AsFd::as_fd);
        sockets.chain(self.listener.iter().map(AsFd::as_fd)).chain(self.means.files()).collect()
    }

    /// Connections of one worker: dealt out in turn.
    pub(crate) fn share_of(&self, worker: usize) -> impl Iterator<Item = usize> {
        (worker..self.job.load.connections as usize).step_by(self.workers().max(1))
    }
}
