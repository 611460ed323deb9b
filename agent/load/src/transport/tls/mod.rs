//! TLS 1.3 over TCP (RFC 8446) by rustls: the cost of cryptography to an application.
//!
//! The two ends find each other as over TCP, with the token in the clear; then they shake hands, with a certificate that
//! both derive from the token ([`identity`]), so that nothing is to be configured. Records go through buffers that are
//! taken before the load ([`connection`]); rustls itself takes memory for each record, as it does in every program that
//! uses it.

mod connection;
mod handshake;
mod identity;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use iodyno_core::job::Job;
use iodyno_core::message::ErrorCode;
use iodyno_core::network::{Network, Role, TlsCipher, Traffic};
use iodyno_core::units::Nanos;
use iodyno_sys::buffer::ReceiveScratch;
use iodyno_sys::lock::locked;
use iodyno_sys::socket::{self, Direction};
use iodyno_sys::timed::{self, Until};
use iodyno_sys::{clock, errno};

use connection::{broken, Connection, Incoming, Outgoing};
pub(crate) use handshake::Handshake;
use identity::Identity;

use super::Link;
use crate::cancel::Cancel;
use crate::error::LoadError;
use crate::joining::most_joined;

/// How long one wait for the other end lasts, so that a cancelled job is noticed.
const LOOK: Nanos = Nanos(20_000_000);

/// An open connection: what is sent, what is received. Two threads may use one each, and share its keys.
pub(crate) struct Session {
    /// `None` after a failure.
    connection: Mutex<Option<Connection>>,
    outgoing: Mutex<Outgoing>,
    incoming: Mutex<Incoming>,
}

impl Session {
    /// Hands bytes over; gives how many are in records that the kernel took whole since the last call. After a refusal
    /// the same bytes must be offered again, or more that begin with them.
    #[inline]
    pub(crate) fn send(&self, socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        let mut outgoing = locked(&self.outgoing);
        if outgoing.is_empty() {
            outgoing.seal(locked(&self.connection).as_mut().ok_or_else(broken)?, Some(bytes))?;
        }
        match outgoing.hand_over(socket)? {
            // A part of a record is nothing yet.
            0 if !bytes.is_empty() => Err(io::Error::from_raw_os_error(errno::EAGAIN)),
            taken => Ok(taken),
        }
    }

    /// Takes up to `most` bytes of payload and forgets them; 0 at the end of the stream.
    #[inline]
    pub(crate) fn receive(&self, socket: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
        let mut incoming = locked(&self.incoming);
        while incoming.available == 0 && !incoming.ended {
            if incoming.read(socket)? == 0 {
                incoming.ended = true;
                break;
            }
            let mut connection = locked(&self.connection);
            let opened = incoming.process(connection.as_mut().ok_or_else(broken)?, &mut Vec::new());
            if opened.is_err() {
                *connection = None;
                return Err(broken());
            }
        }
        let taken = incoming.available.min(most);
        incoming.available -= taken;
        Ok(taken)
    }

    /// Whether there is payload that was received and not taken.
    pub(crate) fn holds_payload(&self) -> bool {
        locked(&self.incoming).available > 0
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish(&self, socket: BorrowedFd<'_>) {
        let mut outgoing = locked(&self.outgoing);
        // A record that is cut stays so. Where there is no room, the end of the connection says the same.
        if outgoing.is_empty() {
            if let Some(connection) = locked(&self.connection).as_mut() {
                let _ = outgoing.seal(connection, None).and_then(|()| outgoing.hand_over(socket));
            }
        }
        // Fails only when the connection is gone, which the receiver notices and reports.
        let _ = socket::shutdown(socket, Direction::Writing);
    }
}

/// One connection of a job.
pub(crate) struct Tls<'a> {
    pub socket: BorrowedFd<'a>,
    pub session: &'a Session,
}

impl Link for Tls<'_> {
    #[inline]
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.session.send(self.socket, bytes)
    }

    /// All that a call brings: the kernel would not tell of what stays in the records.
    #[inline]
    fn receive(&self, _: &ReceiveScratch) -> io::Result<usize> {
        self.session.receive(self.socket, usize::MAX)
    }

    fn finish(&self) {
        self.session.finish(self.socket);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket)
    }
}

/// What all connections of a job have in common.
#[derive(Clone)]
pub(crate) struct Terms {
    identity: Arc<Identity>,
    connects: bool,
    longest: usize,
}

impl Terms {
    /// As `job` has them. `None`: its token is none, which is checked with the job.
    pub(crate) fn of(job: &Job<Network>) -> Result<Self, LoadError> {
        let load = &job.load;
        let resumes = matches!(&load.traffic, Traffic::ConnectRequestResponse(anew) if anew.tls_resumption);
        let longest = (load.message_bytes.0 * u64::from(most_joined(load))).max(load.response_bytes().0);
        Terms::new(job.token_bytes().unwrap_or_default(), load.tls_cipher, resumes, load.role, longest)
    }

    /// For messages that are not longer than `longest`.
    pub(crate) fn new(
        token: [u8; 16],
        cipher: TlsCipher,
        resumes: bool,
        role: Role,
        longest: u64,
    ) -> Result<Self, LoadError> {
        let identity = Identity::new(token, cipher, resumes).map_err(|error| failed(&error))?;
        Ok(Terms { identity: Arc::new(identity), connects: role == Role::Send, longest: longest as usize })
    }

    /// Begins to shake hands on a connection that this end opened, or accepted.
    pub(crate) fn begin(&self, opened: bool) -> io::Result<Handshake> {
        Handshake::new(&self.identity, opened, self.longest).map_err(io::Error::other)
    }
}

fn failed(error: &dyn std::fmt::Display) -> LoadError {
    LoadError::new(
        ErrorCode::Transport,
        format!("TLS could not be set up: {error}"),
        "transport",
        "see what the other end reported",
    )
}

/// Shakes hands on every connection, in their order at both ends.
///
/// # Errors
/// `Transport`: the other end is not the trial's, went away or was too slow; it was cancelled.
pub(crate) fn establish(
    job: &Job<Network>,
    sockets: &[OwnedFd],
    waits: bool,
    until: Nanos,
    cancel: &Cancel,
) -> Result<Vec<Session>, LoadError> {
    let terms = Terms::of(job)?;
    sockets
        .iter()
        .map(|socket| {
            let socket = socket.as_fd();
            let session = socket::set_blocking(socket, false)
                .and_then(|()| shake(terms.begin(terms.connects)?, socket, until, cancel))
                .and_then(|session| socket::set_blocking(socket, waits).map(|()| session));
            session
                .map_err(|error| if cancel.is_cancelled() { LoadError::cancelled() } else { failed(&error) })
        })
        .collect()
}

fn shake(
    mut handshake: Handshake,
    socket: BorrowedFd<'_>,
    until: Nanos,
    cancel: &Cancel,
) -> io::Result<Session> {
    loop {
        match handshake.step(socket) {
            Ok(session) => return Ok(session),
            Err(error) => match error.raw_os_error().unwrap_or(0) {
                errno::EINTR => {}
                errno::EAGAIN if cancel.is_cancelled() || clock::monotonic() >= until => {
                    return Err(io::Error::from_raw_os_error(errno::ETIMEDOUT));
                }
                errno::EAGAIN => {
                    let wanted = if handshake.wants_write() { Until::Writable } else { Until::Readable };
                    timed::wait_for(socket, wanted, LOOK)?;
                }
                _ => return Err(error),
            },
        }
    }
}
