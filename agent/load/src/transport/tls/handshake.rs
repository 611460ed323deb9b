//! The handshake of one connection, a step at a time, by rustls; its outcome are the keys of the records.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use iodyno_sys::{errno, socket};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::ServerName;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError};
#[cfg(test)]
use rustls::HandshakeKind;
use rustls::{ConnectionTrafficSecrets, Error};

use super::identity::Identity;
use super::record::{Opener, Sealer, HEADER_BYTES, MAX_RECORD_BYTES};
use super::Session;

/// Longest flight of one end, which a buffer must hold: hello, certificate and finish are some 1 KB here.
const FLIGHT_BYTES: usize = MAX_RECORD_BYTES;

enum Connection {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// What is left of rustls once the keys are out: it changes them and knows what a ticket is for.
pub(super) enum Keeper {
    Client(KernelConnection<ClientConnectionData>),
    Server(KernelConnection<ServerConnectionData>),
}

impl Keeper {
    /// The next keys of what is sent, or received.
    pub(super) fn next(&mut self, sends: bool) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        match (self, sends) {
            (Keeper::Client(kernel), true) => kernel.update_tx_secret(),
            (Keeper::Client(kernel), false) => kernel.update_rx_secret(),
            (Keeper::Server(kernel), true) => kernel.update_tx_secret(),
            (Keeper::Server(kernel), false) => kernel.update_rx_secret(),
        }
    }

    /// Keeps a ticket for the next connection.
    pub(super) fn keep_ticket(&mut self, ticket: &[u8]) -> Result<(), Error> {
        match self {
            Keeper::Client(kernel) => kernel.handle_new_session_ticket(ticket),
            Keeper::Server(_) => Err(Error::General("a ticket for the end that makes them".into())),
        }
    }
}

/// What a connection is to do next.
enum Next {
    Again,
    Read,
    Open,
}

/// A connection whose two ends do not have their keys yet.
pub(crate) struct Handshake {
    connection: Option<Connection>,
    /// What came; `start..end` of it was not used.
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    outgoing: Vec<u8>,
    sent: usize,
    /// Whether rustls has nothing left to do before it is given another record.
    hungry: bool,
    /// The longest message of the job, for the size of the buffers to come.
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
            incoming: vec![0; FLIGHT_BYTES],
            start: 0,
            end: 0,
            outgoing: Vec::new(),
            sent: 0,
            hungry: false,
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
            let next = self.process();
            // Also after a failure: an alert tells the other end why.
            let flushed = self.flush(socket);
            match next.map_err(io::Error::other)? {
                Next::Again => flushed?,
                Next::Read => {
                    flushed?;
                    self.read(socket)?;
                }
                Next::Open => {
                    flushed?;
                    return self.conclude().map_err(io::Error::other);
                }
            }
        }
    }

    /// Length of the first whole record that came; 0: none.
    fn whole(&self) -> usize {
        let came = &self.incoming[self.start..self.end];
        let Some(header) = came.first_chunk::<HEADER_BYTES>() else { return 0 };
        let length = HEADER_BYTES + usize::from(u16::from_be_bytes([header[3], header[4]]));
        if came.len() >= length {
            length
        } else {
            0
        }
    }

    /// Has rustls use one record at most, and none while it has something to say: it would take one of those that come
    /// after the handshake.
    fn process(&mut self) -> Result<Next, Error> {
        let length = if self.hungry { self.whole() } else { 0 };
        let record = &mut self.incoming[self.start..self.start + length];
        let (discard, next) = match &mut self.connection {
            Some(Connection::Client(client)) => {
                let (discard, next) = react(client.process_tls_records(record), &mut self.outgoing);
                (discard, next.map(|next| (next, client.is_handshaking())))
            }
            Some(Connection::Server(server)) => {
                let (discard, next) = react(server.process_tls_records(record), &mut self.outgoing);
                (discard, next.map(|next| (next, server.is_handshaking())))
            }
            None => return Err(Error::HandshakeNotComplete),
        };
        self.start += discard;
        let next = next?;
        self.hungry = !matches!(next, (Next::Again, _));
        Ok(match next {
            (Next::Open, false) => Next::Open,
            (Next::Open | Next::Read, _) if self.whole() > 0 => Next::Again,
            // An end may send before the other has proven itself; this one waits.
            (Next::Open | Next::Read, _) => Next::Read,
            (Next::Again, _) => Next::Again,
        })
    }

    fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        while self.sent < self.outgoing.len() {
            self.sent += socket::send(socket, &self.outgoing[self.sent..])?;
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }

    fn read(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if self.start > 0 {
            self.incoming.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        match socket::receive_into(socket, &mut self.incoming[self.end..])? {
            0 => Err(io::Error::from_raw_os_error(errno::ECONNRESET)),
            count => {
                self.end += count;
                Ok(())
            }
        }
    }

    fn conclude(&mut self) -> Result<Session, Error> {
        #[cfg(test)]
        let kind = match &self.connection {
            Some(Connection::Client(client)) => client.handshake_kind(),
            Some(Connection::Server(server)) => server.handshake_kind(),
            None => None,
        };
        let (secrets, keeper) = match self.connection.take() {
            Some(Connection::Client(client)) => {
                let (secrets, kernel) = client.dangerous_into_kernel_connection()?;
                (secrets, Keeper::Client(kernel))
            }
            Some(Connection::Server(server)) => {
                let (secrets, kernel) = server.dangerous_into_kernel_connection()?;
                (secrets, Keeper::Server(kernel))
            }
            None => return Err(Error::HandshakeNotComplete),
        };
        let keeper = Arc::new(Mutex::new(keeper));
        let sealer = Sealer::new(secrets.tx, Arc::clone(&keeper), self.longest)?;
        let opener = Opener::new(secrets.rx, keeper, self.longest, &self.incoming[self.start..self.end])?;
        Ok(Session {
            sealer: Mutex::new(sealer),
            opener: Mutex::new(opener),
            #[cfg(test)]
            was_resumed: kind == Some(HandshakeKind::Resumed),
        })
    }
}

/// Does what rustls asks for; how many bytes it used, and what is next.
fn react<Data>(
    status: rustls::unbuffered::UnbufferedStatus<'_, '_, Data>,
    outgoing: &mut Vec<u8>,
) -> (usize, Result<Next, Error>) {
    let next = status.state.and_then(|state| match state {
        ConnectionState::EncodeTlsData(mut data) => {
            let at = outgoing.len();
            outgoing.resize(at + FLIGHT_BYTES, 0);
            let written = data.encode(&mut outgoing[at..]).map_err(|error: EncodeError| {
                Error::General(format!("a flight that is longer than a record: {error}"))
            });
            outgoing.truncate(at + *written.as_ref().unwrap_or(&0));
            written.map(|_| Next::Again)
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Ok(Next::Again)
        }
        ConnectionState::BlockedHandshake => Ok(Next::Read),
        ConnectionState::WriteTraffic(_) => Ok(Next::Open),
        _ => Err(Error::General("the other end closed in the handshake".into())),
    });
    (status.discard, next)
}
