//! The receiver's side: accept, prove, keep.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use iodyno_core::job::Job;
use iodyno_core::message::ErrorCode;
use iodyno_core::network::{Network, SocketOptionsObtained};
use iodyno_core::units::Nanos;
use iodyno_sys::endpoint::Endpoint;
use iodyno_sys::epoll::{Epoll, Events, Interest};
use iodyno_sys::socket::{self, Setting};
use iodyno_sys::{clock, errno};

use super::options::{self, ReadBack};
use super::{blocking, index_in, time_for_all, too_few, ACKNOWLEDGED, LOOK, PREAMBLE_BYTES};
use crate::cancel::Cancel;
use crate::connections::Connections;
use crate::error::LoadError;
use crate::prepared::Prepared;
use crate::transport::rendezvous::{self, Listening};

/// chosen: how long a connection may take to show the token.
const TIME_TO_PROVE: Nanos = Nanos(2_000_000_000);
/// chosen: connections that may be unproven at a time. Beyond, the oldest is turned away: a sender of ours
/// proves itself within a round trip, so that it is not the oldest for long.
const MOST_UNPROVEN: usize = 1024;
/// chosen: room in the backlog besides the job's connections: one that finds it full tries again only after a
/// second, and a burst of foreign ones must not cost a friend that.
const SPARE_BACKLOG: u32 = 4096;
/// chosen: how long a blocking call of a worker that accepts waits before it looks whether the job was stopped.
const CALL_LOOK: Nanos = Nanos(50_000_000);
/// Key of the listening socket; connections count from 1.
const LISTENER: u64 = 0;

/// A receiver of connections that listens and has accepted nothing yet.
pub(crate) struct Listener {
    job: Job<Network>,
    cancel: Cancel,
    socket: Listening,
    address: Endpoint,
}

impl Listener {
    pub(super) fn open(job: &Job<Network>, address: Endpoint, cancel: &Cancel) -> Result<Self, LoadError> {
        let place = address.to_string();
        let refused = |error: std::io::Error| LoadError::refused(&error, "listen", &place);
        let socket = address.socket(false).map_err(refused)?;
        options::ask(socket.as_fd(), &job.load.socket)?;
        if let Endpoint::Inet(_) = address {
            socket::set(socket.as_fd(), Setting::ReuseAddress, 1).map_err(refused)?;
        }
        let (socket, address) = rendezvous::bind(socket, &address).map_err(refused)?;
        if job.load.connects_anew() && blocking(job.load.engine) {
            // Before anybody can come: what waits in the backlog has the times of the socket as it was then.
            socket::set_timeouts(socket.as_fd(), CALL_LOOK).map_err(refused)?;
        }
        socket::listen(socket.as_fd(), job.load.connections.saturating_add(SPARE_BACKLOG))
            .map_err(refused)?;
        Ok(Listener { job: job.clone(), cancel: cancel.clone(), socket, address })
    }

    pub(super) fn port(&self) -> u16 {
        rendezvous::port(&self.address)
    }

    pub(super) fn accept_all(self) -> Result<Prepared, LoadError> {
        let Listener { job, cancel, socket, address } = self;
        let (sockets, obtained, foreign) =
            Acceptor::open(&job, socket.as_fd(), address.clone())?.keep_all(&cancel)?;
        if job.load.connects_anew() {
            socket::set_blocking(socket.as_fd(), blocking(job.load.engine))
                .map_err(|error| LoadError::refused(&error, "listen", &address.to_string()))?;
            let connections = Connections::new(&job, Vec::new(), Vec::new(), Some(socket), &cancel)?;
            return Prepared::new(connections, obtained, foreign);
        }
        drop(socket);
        let sessions = super::sessions(&job, &sockets, &cancel)?;
        let connections = Connections::new(&job, sockets, sessions, None, &cancel)?;
        Prepared::new(connections, obtained, foreign)
    }
}

/// A connection that has not shown the token yet.
struct Unproven {
    socket: OwnedFd,
    shown: [u8; PREAMBLE_BYTES],
    length: usize,
    since: Nanos,
}

/// What became of an unproven connection.
enum Proof {
    /// More bytes are needed.
    Pending,
    /// It is connection number so-and-so of the job.
    Is(u32),
    /// It is none of ours.
    Foreign,
}

struct Acceptor<'a> {
    job: &'a Job<Network>,
    token: [u8; 16],
    listener: BorrowedFd<'a>,
    address: Endpoint,
    epoll: Epoll,
    /// By key; keys ascend in the order of arrival.
    unproven: BTreeMap<u64, Unproven>,
    next_key: u64,
    kept: Vec<Option<OwnedFd>>,
    kept_count: usize,
    options: ReadBack,
    foreign: u32,
}

impl<'a> Acceptor<'a> {
    fn open(job: &'a Job<Network>, listener: BorrowedFd<'a>, address: Endpoint) -> Result<Self, LoadError> {
        let place = address.to_string();
        let refused = |error: std::io::Error| LoadError::refused(&error, "wait for connections", &place);
        let epoll = Epoll::new().map_err(refused)?;
        epoll.add(listener, Interest::Readable, LISTENER).map_err(refused)?;
        Ok(Acceptor {
            job,
            token: job.token_bytes().unwrap_or_default(),
            listener,
            address,
            epoll,
            unproven: BTreeMap::new(),
            next_key: LISTENER + 1,
            kept: (0..job.load.connections).map(|_| None).collect(),
            kept_count: 0,
            options: ReadBack::of(&job.load.socket),
            foreign: 0,
        })
    }

    fn keep_all(mut self, cancel: &Cancel) -> Result<(Vec<OwnedFd>, SocketOptionsObtained, u32), LoadError> {
        let deadline = clock::monotonic().plus(time_for_all(self.job.load.connections));
        let mut events = Events::with_capacity(256);
        while self.kept_count < self.kept.len() {
            if cancel.is_cancelled() {
                return Err(LoadError::cancelled());
            }
            if clock::monotonic() >= deadline {
                let advice = "see what the sender reported, and look for a firewall between the hosts";
                return Err(too_few(self.kept_count, self.job.load.connections, &self.address, advice));
            }
            self.epoll.wait(&mut events, Some(LOOK)).map_err(|error| self.refused(&error))?;
            for key in events.keys() {
                if key == LISTENER {
                    self.admit()?;
                } else {
                    self.examine(key)?;
                }
            }
            self.turn_away_the_slow();
        }
        self.foreign += self.unproven.len() as u32;
        let sockets = self.kept.into_iter().flatten().collect();
        Ok((sockets, self.options.finish(), self.foreign))
    }

    fn refused(&self, error: &std::io::Error) -> LoadError {
        LoadError::refused(error, "accept connections", &self.address.to_string())
    }

    /// Accepts what waits; a bounded number, so that a flood does not keep the proven ones waiting.
    fn admit(&mut self) -> Result<(), LoadError> {
        for _ in 0..64 {
            let socket = match socket::accept(self.listener) {
                Ok(socket) => socket,
                Err(error) => match error.raw_os_error().unwrap_or(0) {
                    errno::EAGAIN => return Ok(()),
                    errno::EMFILE | errno::ENFILE | errno::ENOBUFS | errno::ENOMEM => {
                        return Err(self.refused(&error))
                    }
                    // The connection died while it waited: the next one need not have.
                    _ => continue,
                },
            };
            let key = self.next_key;
            self.next_key += 1;
            self.epoll.add(socket.as_fd(), Interest::Readable, key).map_err(|error| self.refused(&error))?;
            let arrival =
                Unproven { socket, shown: [0; PREAMBLE_BYTES], length: 0, since: clock::monotonic() };
            self.unproven.insert(key, arrival);
            if self.unproven.len() > MOST_UNPROVEN && self.unproven.pop_first().is_some() {
                self.foreign += 1;
            }
        }
        Ok(())
    }

    /// Reads what a connection shows, and decides when it has shown enough.
    fn examine(&mut self, key: u64) -> Result<(), LoadError> {
        // It may have been turned away after the event was reported.
        let Some(arrival) = self.unproven.get_mut(&key) else { return Ok(()) };
        let proof = arrival.read(self.token);
        match proof {
            Proof::Pending => return Ok(()),
            Proof::Is(index) => {
                let Some(arrival) = self.unproven.remove(&key) else { return Ok(()) };
                let place = self.kept.get(index as usize);
                if place.is_some_and(Option::is_none) {
                    return self.keep(index as usize, arrival.socket);
                }
            }
            Proof::Foreign => drop(self.unproven.remove(&key)),
        }
        self.foreign += 1;
        Ok(())
    }

    fn keep(&mut self, index: usize, socket: OwnedFd) -> Result<(), LoadError> {
        let outcome = self
            .epoll
            .remove(socket.as_fd())
            .and_then(|()| socket::send(socket.as_fd(), &[ACKNOWLEDGED]).map(drop))
            .and_then(|()| socket::set_blocking(socket.as_fd(), blocking(self.job.load.engine)));
        outcome.map_err(|error| {
            LoadError::new(
                ErrorCode::Transport,
                format!("connection {index} broke while it was set up: {error}"),
                self.address.to_string(),
                "see what the sender reported",
            )
        })?;
        if !self.address.accepts_with_options() {
            options::ask(socket.as_fd(), &self.job.load.socket)?;
        }
        options::ask_last(socket.as_fd(), self.job)?;
        self.options.add(socket.as_fd());
        self.kept[index] = Some(socket);
        self.kept_count += 1;
        Ok(())
    }

    fn turn_away_the_slow(&mut self) {
        let limit = clock::monotonic().minus(TIME_TO_PROVE);
        while self.unproven.first_entry().is_some_and(|oldest| oldest.get().since < limit) {
            self.unproven.pop_first();
            self.foreign += 1;
        }
    }
}

impl Unproven {
    fn read(&mut self, token: [u8; 16]) -> Proof {
        match socket::receive_into(self.socket.as_fd(), &mut self.shown[self.length..]) {
            Ok(0) => Proof::Foreign,
            Ok(count) => {
                self.length += count;
                if self.length < PREAMBLE_BYTES {
                    return Proof::Pending;
                }
                index_in(self.shown, token).map_or(Proof::Foreign, Proof::Is)
            }
            Err(error) => match error.raw_os_error().unwrap_or(0) {
                errno::EAGAIN | errno::EINTR => Proof::Pending,
                _ => Proof::Foreign,
            },
        }
    }
}
