//! TCP sockets that come and go, for those who want to ask all of them.
//!
//! One that came and went while nobody asked is counted only: to ask each of those took 4 % of the rate of a load that does
//! nothing but open and close connections.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use crate::lock::locked;
use crate::tcp_info::{self, TcpInfo};

/// Most closed sockets whose last words are kept (chosen: 17 MB; a quarter of a second of connections as fast as a kernel
/// makes them).
const MOST_CLOSED: usize = 1 << 15;

/// Knows which sockets are open, and what those said that were closed since somebody asked.
#[derive(Debug, Default)]
pub struct OpenSockets {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    added: u64,
    open: HashMap<u64, Arc<OwnedFd>>,
    /// How many there had been when somebody asked last: the last words of these are for him.
    asked: Option<u64>,
    closed: Vec<(u64, TcpInfo)>,
    lost: u64,
}

/// A socket of [`OpenSockets`], or one that nobody asks. It is closed when it is dropped.
#[derive(Debug)]
pub struct OpenSocket {
    socket: Arc<OwnedFd>,
    known_as: Option<(Arc<OpenSockets>, u64)>,
}

/// What there is to ask. Each socket has a number that no other has had.
#[derive(Debug, Default)]
pub struct Found {
    /// Open as long as this is held.
    pub open: Vec<(u64, Arc<OwnedFd>)>,
    /// What those said last that were closed since it was asked before.
    pub closed: Vec<(u64, TcpInfo)>,
    /// How many more were closed since then, of which nothing is known: above all those that were also opened since then.
    pub lost: u64,
    /// How many sockets there have been.
    pub ever: u64,
}

impl OpenSockets {
    /// Knows of a TCP socket from now on.
    pub fn know(self: &Arc<Self>, socket: OwnedFd) -> OpenSocket {
        let socket = Arc::new(socket);
        let mut known = locked(&self.known);
        let number = known.added;
        known.added += 1;
        known.open.insert(number, Arc::clone(&socket));
        OpenSocket { socket, known_as: Some((Arc::clone(self), number)) }
    }

    /// The sockets that are open, and those that were closed since the last time. The first time it is not known what was
    /// closed before.
    pub fn ask(&self) -> Found {
        let mut known = locked(&self.known);
        known.asked = Some(known.added);
        Found {
            open: known.open.iter().map(|(number, socket)| (*number, Arc::clone(socket))).collect(),
            closed: std::mem::take(&mut known.closed),
            lost: std::mem::take(&mut known.lost),
            ever: known.added,
        }
    }

    fn forget(&self, number: u64) {
        let mut known = locked(&self.known);
        let (Some(socket), Some(asked)) = (known.open.remove(&number), known.asked) else { return };
        // Locked all the while: who asks finds a socket open or closed, never neither.
        let said = (number < asked && known.closed.len() < MOST_CLOSED)
            .then(|| tcp_info::read(socket.as_raw_fd()).ok())
            .flatten();
        match said {
            Some(said) => known.closed.push((number, said)),
            None => known.lost += 1,
        }
    }
}

impl OpenSocket {
    /// A socket that nobody asks.
    pub fn apart(socket: OwnedFd) -> OpenSocket {
        OpenSocket { socket: Arc::new(socket), known_as: None }
    }
}

impl AsFd for OpenSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        if let Some((all, number)) = self.known_as.take() {
            all.forget(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn some() -> OwnedFd {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        TcpStream::connect(listener.local_addr().unwrap()).unwrap().into()
    }

    fn numbers(found: &Found) -> Vec<u64> {
        let mut numbers: Vec<u64> = found.open.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn open_ones_are_known_and_those_that_were_asked_say_their_last_words_once() {
        let all = Arc::new(OpenSockets::default());
        drop(all.know(some()));
        let (second, third) = (all.know(some()), all.know(some()));
        let found = all.ask();
        assert_eq!((numbers(&found), found.closed.len(), found.ever), (vec![1, 2], 0, 3));
        drop(second);
        let found = all.ask();
        assert_eq!((numbers(&found), found.closed.len(), found.lost), (vec![2], 1, 0));
        assert_eq!(found.closed[0].0, 1);
        drop((third, all.know(some())));
        let found = all.ask();
        assert_eq!((found.closed.len(), found.lost), (1, 1));
        let found = all.ask();
        assert_eq!((found.open.len(), found.closed.len(), found.ever), (0, 0, 4));
    }

    #[test]
    fn one_that_is_no_tcp_socket_or_apart_is_closed_all_the_same() {
        let all = Arc::new(OpenSockets::default());
        let other = all.know(std::fs::File::open("/dev/null").unwrap().into());
        assert_eq!(numbers(&all.ask()), [0]);
        drop(other);
        drop(OpenSocket::apart(some()));
        let found = all.ask();
        assert_eq!((found.open.len(), found.closed.len(), found.lost, found.ever), (0, 0, 1, 1));
    }
}
