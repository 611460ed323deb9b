//! The receiver's side: listens, takes connections that show the token, turns others away.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use iodyno_core::job::Job;
use iodyno_core::message::ErrorCode;
use iodyno_core::units::Nanos;
use iodyno_sys::clock;
use iodyno_sys::epoll::{Epoll, Events, Interest};
use iodyno_sys::socket::{self, Setting};

use crate::cancel::Cancel;
use crate::crew::Prepared;
use crate::error::LoadError;
use crate::establish::{deadline, prepare};
use crate::preamble;
use crate::transport::tcp;

/// How long a connection may take to show its token.
const PROOF: Nanos = Nanos(2_000_000_000);
/// Connections that may be without proof at a time; one more is turned away. chosen: twice what the sender has
/// in flight, and enough that strangers cannot fill it within the round trip of a friend.
const UNPROVEN: usize = 1024;
/// Key of the listening socket.
const LISTENER: u64 = u64::MAX;

/// A connection that has not shown its token yet.
struct Unproven {
    socket: OwnedFd,
    since: Nanos,
    shown: [u8; preamble::LENGTH],
    length: usize,
}

/// A port that waits for the connections of a job.
pub struct Listener {
    job: Job,
    cancel: Cancel,
    socket: OwnedFd,
    address: SocketAddr,
}

/// Opens the port of `job`.
///
/// # Errors
/// When the address is taken or not this host's.
pub fn listen(job: &Job, cancel: &Cancel) -> Result<Listener, LoadError> {
    let address = tcp::address(job)?;
    let failed = |error: &io::Error| LoadError::from_kernel(error, "listen", &address.to_string());
    let socket = socket::tcp(&address).map_err(|e| failed(&e))?;
    socket::set(socket.as_fd(), Setting::ReuseAddress, 1).map_err(|e| failed(&e))?;
    // Set before listening, so that accepted sockets inherit them and the window scale fits.
    tcp::ask(socket.as_fd(), &job.socket).map_err(|e| failed(&e))?;
    socket::bind(socket.as_fd(), &address).map_err(|e| failed(&e))?;
    socket::listen(socket.as_fd(), job.connections.max(128)).map_err(|e| failed(&e))?;
    let address = socket::local_address(socket.as_fd()).map_err(|e| failed(&e))?;
    Ok(Listener { job: job.clone(), cancel: cancel.clone(), socket, address })
}

impl Listener {
    /// The port, as the kernel has it.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Waits until every connection of the job is up and proven, closes the port, and parks the workers.
    ///
    /// # Errors
    /// [`ErrorCode::ConnectTimeout`] when not all came in time.
    pub fn accept_all(self) -> Result<Prepared, LoadError> {
        let job = self.job.clone();
        let (sockets, foreign) = Accepting::new(self)?.run()?;
        prepare(&job, sockets, foreign)
    }
}

struct Accepting {
    listener: Listener,
    token: [u8; 16],
    epoll: Epoll,
    unproven: Vec<Option<Unproven>>,
    up: Vec<Option<OwnedFd>>,
    foreign: u32,
}

impl Accepting {
    fn new(listener: Listener) -> Result<Self, LoadError> {
        let failed = |error: &io::Error| LoadError::from_kernel(error, "wait", "epoll");
        let epoll = Epoll::new().map_err(|e| failed(&e))?;
        epoll.add(listener.socket.as_fd(), Interest::Readable, LISTENER).map_err(|e| failed(&e))?;
        Ok(Accepting {
            token: listener.job.token_bytes().unwrap_or_default(),
            up: (0..listener.job.connections).map(|_| None).collect(),
            listener,
            epoll,
            unproven: (0..UNPROVEN).map(|_| None).collect(),
            foreign: 0,
        })
    }

    fn run(mut self) -> Result<(Vec<OwnedFd>, u32), LoadError> {
        let place = self.listener.address.to_string();
        let until = deadline(self.listener.job.connections, clock::monotonic());
        let mut events = Events::with_capacity(256);
        let mut up = 0;
        while up < self.up.len() {
            self.epoll.wait(&mut events, 20).map_err(|e| LoadError::from_kernel(&e, "wait", &place))?;
            let now = clock::monotonic();
            for key in events.keys() {
                if key == LISTENER {
                    self.take_new(now).map_err(|e| LoadError::from_kernel(&e, "accept", &place))?;
                } else {
                    up += usize::from(self.look_at(key as usize));
                }
            }
            self.turn_away_the_slow(now);
            if self.listener.cancel.is_cancelled() {
                return Err(LoadError::cancelled());
            }
            if now > until {
                let foreign = if self.foreign > 0 {
                    format!("; {} that did not show the trial's token were turned away", self.foreign)
                } else {
                    String::new()
                };
                let what = format!("{up} of {} connections came in time{foreign}", self.up.len());
                let advice =
                    "look for a firewall between the hosts, and whether the sender can reach this address";
                return Err(LoadError::new(ErrorCode::ConnectTimeout, what, place, advice));
            }
        }
        self.foreign += self.unproven.iter().flatten().count() as u32;
        Ok((self.up.into_iter().flatten().collect(), self.foreign))
    }

    fn take_new(&mut self, now: Nanos) -> io::Result<()> {
        loop {
            let socket = match socket::accept(self.listener.socket.as_fd()) {
                Ok(socket) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // What went wrong with a connection before it was taken is its own affair.
                Err(error) if error.raw_os_error().is_some_and(|code| !OURS.contains(&code)) => continue,
                Err(error) => return Err(error),
            };
            let Some(free) = self.unproven.iter().position(Option::is_none) else {
                self.foreign += 1;
                continue;
            };
            self.epoll.add(socket.as_fd(), Interest::Readable, free as u64)?;
            self.unproven[free] = Some(Unproven { socket, since: now, shown: [0; 32], length: 0 });
        }
    }

    /// Reads what a connection shows; `true`: it is the trial's, and up.
    fn look_at(&mut self, key: usize) -> bool {
        let Some(mut it) = self.unproven[key].take() else { return false };
        match socket::receive_into(it.socket.as_fd(), &mut it.shown[it.length..]) {
            Ok(count) if count > 0 => it.length += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => {
                self.foreign += 1;
                return false;
            }
        }
        if it.length < preamble::LENGTH {
            self.unproven[key] = Some(it);
            return false;
        }
        let index = preamble::read(&it.shown, &self.token).map(|index| index as usize);
        let proven = index.filter(|index| self.up.get(*index).is_some_and(Option::is_none));
        let welcomed = proven.filter(|_| {
            self.epoll.remove(it.socket.as_fd()).is_ok()
                && socket::send(it.socket.as_fd(), &[preamble::ACKNOWLEDGED]).is_ok()
        });
        match welcomed {
            Some(index) => self.up[index] = Some(it.socket),
            None => self.foreign += 1,
        }
        welcomed.is_some()
    }

    fn turn_away_the_slow(&mut self, now: Nanos) {
        for place in &mut self.unproven {
            if place.take_if(|it| now.minus(it.since) > PROOF).is_some() {
                self.foreign += 1;
            }
        }
    }
}

/// Errors of `accept` that are this host's, not the connection's: EMFILE, ENFILE, ENOBUFS, ENOMEM, EINVAL, EBADF.
const OURS: [i32; 6] = [24, 23, 105, 12, 22, 9];
