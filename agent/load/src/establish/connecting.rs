//! The sender's side: connects, shows the token, waits for the answer.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use iodyno_core::job::{Job, SocketOptionsObtained, Transport};
use iodyno_core::message::ErrorCode;
use iodyno_sys::clock;
use iodyno_sys::epoll::{Epoll, Events, Interest};
use iodyno_sys::socket;

use crate::cancel::Cancel;
use crate::crew::Prepared;
use crate::driver;
use crate::error::LoadError;
use crate::establish::{deadline, prepare};
use crate::preamble;
use crate::transport::tcp;

/// Connections that are brought up at a time: many enough to hide the round trip, few enough for any backlog.
const IN_FLIGHT: usize = 256;

/// How far a connection is.
enum Stage {
    Connecting,
    Asking,
}

/// Connects every connection of `job` and parks its workers.
///
/// # Errors
/// What keeps a connection from coming up, or a thread from being made.
pub fn connect(job: &Job, cancel: &Cancel) -> Result<Prepared, LoadError> {
    if job.transport == Transport::Null {
        let (counters, works) = driver::null_works(job)?;
        return Prepared::new(job, counters, Arc::new([]), works, SocketOptionsObtained::default(), 0);
    }
    let address = tcp::address(job)?;
    let sockets = Connecting::new(job, address)?.run(cancel)?;
    prepare(job, sockets, 0)
}

struct Connecting<'a> {
    job: &'a Job,
    address: SocketAddr,
    token: [u8; 16],
    epoll: Epoll,
    waiting: VecDeque<u32>,
    under_way: Vec<Option<(OwnedFd, Stage)>>,
    up: Vec<Option<OwnedFd>>,
}

impl<'a> Connecting<'a> {
    fn new(job: &'a Job, address: SocketAddr) -> Result<Self, LoadError> {
        let epoll = Epoll::new().map_err(|e| LoadError::from_kernel(&e, "make an epoll", "epoll"))?;
        let count = job.connections as usize;
        Ok(Connecting {
            job,
            address,
            token: job.token_bytes().unwrap_or_default(),
            epoll,
            waiting: (0..job.connections).collect(),
            under_way: (0..count).map(|_| None).collect(),
            up: (0..count).map(|_| None).collect(),
        })
    }

    fn run(mut self, cancel: &Cancel) -> Result<Vec<OwnedFd>, LoadError> {
        let place = self.address.to_string();
        let until = deadline(self.job.connections, clock::monotonic());
        let mut events = Events::with_capacity(IN_FLIGHT);
        let (mut up, mut in_flight) = (0, 0);
        while up < self.up.len() {
            while in_flight < IN_FLIGHT {
                let Some(index) = self.waiting.pop_front() else { break };
                self.begin(index).map_err(|e| LoadError::from_kernel(&e, "connect", &place))?;
                in_flight += 1;
            }
            self.epoll.wait(&mut events, 20).map_err(|e| LoadError::from_kernel(&e, "wait", &place))?;
            for key in events.keys() {
                if self.go_on(key as usize, &place)? {
                    up += 1;
                    in_flight -= 1;
                }
            }
            if cancel.is_cancelled() {
                return Err(LoadError::cancelled());
            }
            if clock::monotonic() > until {
                let what = format!("{up} of {} connections came up in time", self.up.len());
                let advice = "look for a firewall between the hosts, and at the route (ip route get)";
                return Err(LoadError::new(ErrorCode::ConnectTimeout, what, place, advice));
            }
        }
        Ok(self.up.into_iter().flatten().collect())
    }

    fn begin(&mut self, index: u32) -> io::Result<()> {
        let socket = socket::tcp(&self.address)?;
        tcp::ask(socket.as_fd(), &self.job.socket)?;
        socket::connect(socket.as_fd(), &self.address)?;
        self.epoll.add(socket.as_fd(), Interest::Writable, u64::from(index))?;
        self.under_way[index as usize] = Some((socket, Stage::Connecting));
        Ok(())
    }

    /// Takes a connection one step further; `true`: it is up.
    fn go_on(&mut self, index: usize, place: &str) -> Result<bool, LoadError> {
        let failed = |error: &io::Error| LoadError::from_kernel(error, "connect", place);
        let Some((socket, stage)) = self.under_way[index].take() else { return Ok(false) };
        match stage {
            Stage::Connecting => {
                let pending = socket::pending_error(socket.as_fd()).unwrap_or_else(Some);
                if let Some(error) = pending {
                    return Err(failed(&error));
                }
                // 32 bytes always fit into the empty buffer of a new connection.
                socket::send(socket.as_fd(), &preamble::write(&self.token, index as u32))
                    .map_err(|e| failed(&e))?;
                let key = index as u64;
                self.epoll.change(socket.as_fd(), Interest::Readable, key).map_err(|e| failed(&e))?;
                self.under_way[index] = Some((socket, Stage::Asking));
                Ok(false)
            }
            Stage::Asking => {
                let mut answer = [0];
                match socket::receive_into(socket.as_fd(), &mut answer) {
                    Ok(1) if answer[0] == preamble::ACKNOWLEDGED => {
                        self.epoll.remove(socket.as_fd()).map_err(|e| failed(&e))?;
                        self.up[index] = Some(socket);
                        Ok(true)
                    }
                    Ok(_) => {
                        let what = "the other end does not take this trial's token";
                        let advice = "look whether another program listens on the data port";
                        Err(LoadError::new(ErrorCode::Address, what, place, advice))
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.under_way[index] = Some((socket, Stage::Asking));
                        Ok(false)
                    }
                    Err(error) => Err(failed(&error)),
                }
            }
        }
    }
}
