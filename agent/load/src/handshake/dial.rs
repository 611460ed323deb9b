//! The sender's side: connect, show the token, wait for the word.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use iodyno_core::job::Job;
use iodyno_core::message::ErrorCode;
use iodyno_core::network::{Network, SocketOptionsObtained};
use iodyno_sys::endpoint::{self, Endpoint};
use iodyno_sys::epoll::{Epoll, Events, Interest};
use iodyno_sys::{clock, errno, socket};

use super::options::{self, ReadBack};
use super::{blocking, preamble, time_for_all, too_few, ACKNOWLEDGED, LOOK, PREAMBLE_BYTES};
use crate::cancel::Cancel;
use crate::error::LoadError;
use crate::transport::rendezvous;

/// chosen: connections that are set up at a time; fewer than the usual backlog of a listener holds.
const MOST_IN_FLIGHT: usize = 256;

/// A connection that is being set up.
struct Dialling {
    socket: OwnedFd,
    /// Whether the token was shown.
    shown: bool,
}

struct Dialler<'a> {
    job: &'a Job<Network>,
    token: [u8; 16],
    /// Of each receiver, in turn.
    addresses: Vec<Endpoint>,
    epoll: Epoll,
    /// By index of the connection.
    dialling: HashMap<u32, Dialling>,
    up: Vec<Option<OwnedFd>>,
    up_count: usize,
    options: ReadBack,
}

/// Brings every connection of `job` up.
pub(super) fn all(
    job: &Job<Network>,
    cancel: &Cancel,
) -> Result<(Vec<OwnedFd>, SocketOptionsObtained), LoadError> {
    let addresses = (0..job.load.receivers())
        .map(|receiver| rendezvous::of_connection(job, receiver))
        .collect::<Result<Vec<_>, _>>()?;
    let place = addresses[0].to_string();
    let epoll = Epoll::new().map_err(|error| LoadError::refused(&error, "connect", &place))?;
    let mut dialler = Dialler {
        job,
        token: job.token_bytes().unwrap_or_default(),
        addresses,
        epoll,
        dialling: HashMap::new(),
        up: (0..job.load.connections).map(|_| None).collect(),
        up_count: 0,
        options: ReadBack::of(&job.load.socket),
    };
    dialler.dial_all(cancel)?;
    Ok((dialler.up.into_iter().flatten().collect(), dialler.options.finish()))
}

impl Dialler<'_> {
    fn dial_all(&mut self, cancel: &Cancel) -> Result<(), LoadError> {
        let deadline = clock::monotonic().plus(time_for_all(self.job.load.connections));
        let mut events = Events::with_capacity(MOST_IN_FLIGHT);
        let mut next = 0;
        while self.up_count < self.up.len() {
            if cancel.is_cancelled() {
                return Err(LoadError::cancelled());
            }
            if clock::monotonic() >= deadline {
                let advice = "see what the receiver reported, and look for a firewall between the hosts";
                let missing = self.up.iter().position(Option::is_none).unwrap_or_default() as u32;
                let address = self.address_of(missing);
                return Err(too_few(self.up_count, self.job.load.connections, address, advice));
            }
            while next < self.job.load.connections && self.dialling.len() < MOST_IN_FLIGHT {
                self.dial(next)?;
                next += 1;
            }
            self.epoll.wait(&mut events, Some(LOOK)).map_err(|error| self.refused(&error, 0))?;
            for key in events.keys() {
                self.proceed(key as u32)?;
            }
        }
        Ok(())
    }

    fn address_of(&self, index: u32) -> &Endpoint {
        &self.addresses[index as usize % self.addresses.len()]
    }

    fn dial(&mut self, index: u32) -> Result<(), LoadError> {
        let socket = self.address_of(index).socket(false).map_err(|error| self.refused(&error, index))?;
        options::ask(socket.as_fd(), &self.job.load.socket)?;
        super::come_from(socket.as_fd(), self.job, index as usize)
            .map_err(|error| LoadError::refused(&error, "use a local address", "local_addresses"))?;
        // Done at once or not, the socket becomes writable; one way for both.
        endpoint::connect(socket.as_fd(), self.address_of(index))
            .and_then(|_| self.epoll.add(socket.as_fd(), Interest::Writable, u64::from(index)))
            .map_err(|error| self.refused(&error, index))?;
        self.dialling.insert(index, Dialling { socket, shown: false });
        Ok(())
    }

    /// Takes a connection one step on.
    fn proceed(&mut self, index: u32) -> Result<(), LoadError> {
        let Some(dialling) = self.dialling.get_mut(&index) else { return Ok(()) };
        let socket = dialling.socket.as_fd();
        if !dialling.shown {
            let outcome = socket::pending_error(socket)
                .and_then(|pending| pending.map_or(Ok(()), Err))
                .and_then(|()| show(socket, preamble(self.token, self.job.load.number_of(index as usize))))
                .and_then(|()| self.epoll.change(socket, Interest::Readable, u64::from(index)));
            dialling.shown = true;
            return outcome.map_err(|error| self.refused(&error, index));
        }
        let mut word = [0];
        match socket::receive_into(socket, &mut word) {
            Ok(1) if word[0] == ACKNOWLEDGED => self.keep(index),
            Ok(_) => Err(self.turned_away(index)),
            Err(error) => match error.raw_os_error().unwrap_or(0) {
                errno::EAGAIN | errno::EINTR => Ok(()),
                errno::ECONNRESET | errno::EPIPE => Err(self.turned_away(index)),
                _ => Err(self.refused(&error, index)),
            },
        }
    }

    fn keep(&mut self, index: u32) -> Result<(), LoadError> {
        let Some(Dialling { socket, .. }) = self.dialling.remove(&index) else { return Ok(()) };
        self.epoll
            .remove(socket.as_fd())
            .and_then(|()| socket::set_blocking(socket.as_fd(), blocking(self.job.load.engine)))
            .map_err(|error| self.refused(&error, index))?;
        options::ask_last(socket.as_fd(), self.job)?;
        self.options.add(socket.as_fd());
        self.up[index as usize] = Some(socket);
        self.up_count += 1;
        Ok(())
    }

    fn turned_away(&self, index: u32) -> LoadError {
        LoadError::new(
            ErrorCode::Address,
            format!("who listens there turned connection {index} away"),
            self.address_of(index).to_string(),
            "see whether another program, or the receiver of another trial, listens on that port",
        )
    }

    fn refused(&self, error: &io::Error, index: u32) -> LoadError {
        let doing = format!("connect (connection {} of {})", u64::from(index) + 1, self.job.load.connections);
        let mut refused = LoadError::refused(error, &doing, &self.address_of(index).to_string());
        // The same number means something else when the address asked for is the peer's.
        if error.raw_os_error() == Some(errno::EADDRNOTAVAIL) {
            refused.code = ErrorCode::Limit;
            refused.advice =
                "no local port is left: widen net.ipv4.ip_local_port_range, give the host several addresses (`addresses` of a \
                 netns host), or use fewer connections"
                    .to_owned();
        }
        if let (Some(errno::ECONNREFUSED | errno::ENOENT), Endpoint::Abstract(_) | Endpoint::File(_)) =
            (error.raw_os_error(), self.address_of(index))
        {
            refused.code = ErrorCode::Address;
            refused.advice =
                "see that both agents run on one machine, and in one network namespace or with one file \
                              system"
                    .to_owned();
        }
        // An EAGAIN of connect means the same; that of a thread is another matter.
        if error.raw_os_error() == Some(errno::EAGAIN) {
            refused.advice = "no routing or port resources are left: use fewer connections".to_owned();
        }
        refused
    }
}

/// A fresh socket has room for so few bytes; if not, something is wrong with it.
fn show(socket: std::os::fd::BorrowedFd<'_>, bytes: [u8; PREAMBLE_BYTES]) -> io::Result<()> {
    match socket::send(socket, &bytes)? {
        PREAMBLE_BYTES => Ok(()),
        _ => Err(io::Error::from_raw_os_error(errno::ENOBUFS)),
    }
}
