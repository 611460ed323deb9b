//! What the workers of every end of datagrams have.

use std::os::fd::{AsFd, BorrowedFd};

use iodyno_core::network::Engine;
use iodyno_sys::affinity;

use crate::connections::{is_server, Connections};
use crate::error::LoadError;
use crate::transport::datagram::Mark;

/// Keeps the calling thread on the CPUs that are its own.
pub(super) fn settle(shared: &Connections, number: usize) -> Result<(), LoadError> {
    let own = [shared.cpus[number % shared.cpus.len()]];
    // One of many threads goes where the scheduler puts it; one a CPU stays there.
    let spread = shared.job.load.engine == Engine::Threads && !is_server(&shared.job.load);
    let cpus = if spread { &shared.cpus[..] } else { &own };
    affinity::restrict(cpus).map_err(|error| LoadError::refused(&error, "run on the CPUs of the job", "cpus"))
}

/// What the workers of both ends know.
pub(super) struct End<'a> {
    pub shared: &'a Connections,
    pub mark: Mark,
}

impl<'a> End<'a> {
    pub(super) fn of(shared: &'a Connections) -> Self {
        End { shared, mark: Mark::of(&shared.job) }
    }

    pub(super) fn socket(&self, at: usize) -> BorrowedFd<'a> {
        self.shared.sockets[at].as_fd()
    }
}
