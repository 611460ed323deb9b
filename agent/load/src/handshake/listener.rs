//! The receiver before anybody came: one kind a transport.

use iodyno_core::job::Job;
use iodyno_core::network::{Network, Transport};

use super::{accept, address_of, datagram};
use crate::cancel::Cancel;
use crate::error::LoadError;
use crate::prepared::Prepared;
use crate::transport::rendezvous;

/// A receiver that listens and has accepted nothing yet.
pub struct Listener(Kind);

enum Kind {
    /// Takes connections.
    Connections(accept::Listener),
    /// Takes datagrams.
    Datagrams(datagram::Listener),
}

impl Listener {
    pub(super) fn open(job: &Job<Network>, cancel: &Cancel) -> Result<Self, LoadError> {
        Ok(Listener(match job.load.transport {
            Transport::Udp | Transport::Packet | Transport::Xdp => Kind::Datagrams(datagram::Listener::open(
                job,
                address_of(job.load.address.as_deref())?,
                cancel,
            )?),
            _ => Kind::Connections(accept::Listener::open(job, rendezvous::of(job)?, cancel)?),
        }))
    }

    /// The port it listens on; 0 of a Unix socket.
    #[must_use]
    pub fn port(&self) -> u16 {
        match &self.0 {
            Kind::Connections(listener) => listener.port(),
            Kind::Datagrams(listener) => listener.port(),
        }
    }

    /// Waits until every connection of the job is up and proven, and parks the threads. Listens no longer
    /// afterwards.
    ///
    /// # Errors
    /// `ConnectTimeout` when they do not come within 10 s and 1 ms for each, `Limit`; `Transport` when it was
    /// cancelled.
    pub fn accept_all(self) -> Result<Prepared, LoadError> {
        match self.0 {
            Kind::Connections(listener) => listener.accept_all(),
            Kind::Datagrams(listener) => listener.know_all(),
        }
    }
}
