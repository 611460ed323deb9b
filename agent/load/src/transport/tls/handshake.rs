//! The handshake of one connection, a step at a time.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use iodyno_sys::{errno, socket};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::Error;

use super::connection::{Connection, Incoming, Outgoing};
use super::identity::Identity;
use super::Session;

/// A connection whose two ends do not have their keys yet.
pub(crate) struct Handshake {
    /// `None` once it is open.
    connection: Option<Connection>,
    incoming: Incoming,
    outgoing: Vec<u8>,
    sent: usize,
    /// The longest message of the job, for the size of the buffers.
    longest: usize,
}

impl Handshake {
    pub(super) fn new(identity: &Identity, opened: bool, longest: usize) -> Result<Self, Error> {
        let connection = if opened {
            let name = ServerName::try_from("iodyno").map_err(|_| Error::General("name".into()))?;
            Connection::Client(UnbufferedClientConnection::new(Arc::clone(&identity.client), name)?)
        } else {
            Connection::Server(UnbufferedServerConnection::new(Arc::clone(&identity.server))?)
        };
        Ok(Handshake {
            connection: Some(connection),
            incoming: Incoming::new(longest),
            outgoing: Vec::new(),
            sent: 0,
            longest,
        })
    }

    /// Whether it waits to send.
    pub(crate) fn wants_write(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    /// Goes on until it would have to wait (`EAGAIN`) or the connection is open.
    pub(crate) fn step(&mut self, socket: BorrowedFd<'_>) -> io::Result<Session> {
        loop {
            let connection = self.connection.as_mut().ok_or_else(|| io::Error::other("it is open"))?;
            let outcome = self.incoming.process(connection, &mut self.outgoing);
            if outcome.is_err() {
                // An alert, which tells the other end why.
                let _ = self.incoming.process(connection, &mut self.outgoing);
            }
            let shaking = connection.common().is_handshaking();
            let flushed = self.flush(socket);
            outcome.map_err(io::Error::other)?;
            flushed?;
            // An end may send before the other has proven itself; this one waits.
            if shaking {
                if self.incoming.ended || self.incoming.read(socket)? == 0 {
                    return Err(io::Error::from_raw_os_error(errno::ECONNRESET));
                }
            } else if let Some(connection) = self.connection.take() {
                return Ok(Session {
                    connection: Mutex::new(Some(connection)),
                    outgoing: Mutex::new(Outgoing::new(self.longest)),
                    incoming: Mutex::new(std::mem::take(&mut self.incoming)),
                });
            }
        }
    }

    fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        while self.wants_write() {
            self.sent += socket::send(socket, &self.outgoing[self.sent..])?;
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }
}
