//! Where connections of the other end are awaited while a script runs: one port serves all, because each shows
//! whose it is.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use iodyno_core::script::Protocol;
use iodyno_core::units::Nanos;
use iodyno_sys::endpoint::{self, Endpoint, ANY_CONTEXT};
use iodyno_sys::epoll::{Epoll, Events, Interest};
use iodyno_sys::socket::{self, Setting};
use iodyno_sys::{clock, datagram, errno};

use super::preamble::{self, Kind, Preamble};
use super::run::{Run, SLICE};
use super::sctp;
use crate::error::LoadError;
use crate::transport::rendezvous;
use iodyno_sys::lock::locked;

/// chosen: how long a connection may take to show its preamble: one of thousands of threads on few CPUs may have to wait
/// for seconds between its connect and its preamble.
const TIME_TO_PROVE: Nanos = Nanos(10_000_000_000);
/// chosen: connections that may be unproven at a time; beyond, the oldest is turned away.
const MOST_UNPROVEN: usize = 4096;
/// Connections over vsock or SCTP that may wait to be accepted.
const BACKLOG: u32 = 4096;
/// chosen: arrivals that are looked at before other sockets have their turn.
const ARRIVALS_A_VISIT: usize = 64;

const TCP: u64 = 0;
const UDP: u64 = 1;
const UNIX: u64 = 2;
const VSOCK: u64 = 3;
const SCTP: u64 = 4;
const FIRST: u64 = 5;

/// Sockets that are told of by one look.
const EVENTS: usize = 256;

/// A connection that has not shown its preamble yet.
struct Unproven {
    socket: OwnedFd,
    shown: [u8; preamble::BYTES],
    length: usize,
    since: Nanos,
}

/// The sockets at which one end awaits connections.
pub(super) struct Acceptor {
    tcp: OwnedFd,
    udp: Option<UdpSocket>,
    unix: Option<UnixListener>,
    /// Name of the Unix socket.
    pub unix_name: u64,
    vsock: Option<OwnedFd>,
    /// Port of vsock; 0: none.
    pub vsock_port: u16,
    sctp: Option<OwnedFd>,
    epoll: Epoll,
    unproven: BTreeMap<u64, Unproven>,
    next_key: u64,
    /// The last serial number that was greeted on each connection over UDP, and one more.
    greeted: HashMap<(u32, u32), u32>,
}

/// Name of a Unix socket, in the abstract namespace: it is gone with the socket.
pub(super) fn unix_address(name: u64) -> io::Result<UnixAddress> {
    UnixAddress::from_abstract_name(format!("iodyno-{name:016x}"))
}

impl Acceptor {
    /// Behind a TCP socket that listens already, with what else the script needs.
    pub(super) fn open(run: &Run, tcp: OwnedFd) -> Result<Self, LoadError> {
        let address = socket::local_address(tcp.as_fd())
            .map_err(|error| LoadError::refused(&error, "read its own address", "script"))?;
        let place = address.to_string();
        let refused = |error: io::Error| LoadError::refused(&error, "wait for connections", &place);
        let protocols = run.script.protocols();
        let epoll = Epoll::new().map_err(refused)?;
        epoll.add(tcp.as_fd(), Interest::Readable, TCP).map_err(refused)?;
        let mut acceptor = Acceptor {
            tcp,
            udp: None,
            unix: None,
            unix_name: 0,
            vsock: None,
            vsock_port: 0,
            sctp: None,
            epoll,
            unproven: BTreeMap::new(),
            next_key: FIRST,
            greeted: HashMap::new(),
        };
        if protocols.contains(&Protocol::Udp) {
            let bound = udp_at(address).or_else(|_| udp_at(SocketAddr::new(address.ip(), 0)));
            let udp = bound.map_err(refused)?;
            acceptor.epoll.add(udp.as_fd(), Interest::Readable, UDP).map_err(refused)?;
            acceptor.udp = Some(udp.into());
        }
        if protocols.contains(&Protocol::Unix) {
            // Told to the other end over the link; drawn from the clock, so that two ends on a host differ.
            acceptor.unix_name = clock::monotonic().0 ^ u64::from(std::process::id()) << 44;
            let unix = unix_address(acceptor.unix_name).and_then(|name| UnixListener::bind_addr(&name));
            let unix = unix.and_then(|unix| unix.set_nonblocking(true).map(|()| unix)).map_err(refused)?;
            acceptor.epoll.add(unix.as_fd(), Interest::Readable, UNIX).map_err(refused)?;
            acceptor.unix = Some(unix);
        }
        if protocols.contains(&Protocol::Vsock) {
            let asked = Endpoint::Vsock { context: ANY_CONTEXT, port: 0 };
            let bound = asked.socket(false).and_then(|socket| rendezvous::bind(socket, &asked));
            let (listening, place) = bound.map_err(refused)?;
            socket::listen(listening.as_fd(), BACKLOG).map_err(refused)?;
            acceptor.epoll.add(listening.as_fd(), Interest::Readable, VSOCK).map_err(refused)?;
            (acceptor.vsock, acceptor.vsock_port) = (Some(listening.into_socket()), rendezvous::port(&place));
        }
        if protocols.contains(&Protocol::Sctp) {
            let asked = Endpoint::Sctp(SocketAddr::new(address.ip(), 0));
            let listening = asked.socket(false).map_err(refused)?;
            sctp::ask_of_listener(listening.as_fd(), &run.script)?;
            endpoint::bind(listening.as_fd(), &asked).map_err(refused)?;
            socket::listen(listening.as_fd(), BACKLOG).map_err(refused)?;
            acceptor.epoll.add(listening.as_fd(), Interest::Readable, SCTP).map_err(refused)?;
            acceptor.sctp = Some(listening);
        }
        Ok(acceptor)
    }

    /// Port of SCTP; 0: none.
    pub(super) fn sctp_port(&self) -> io::Result<u16> {
        self.sctp.as_ref().map_or(Ok(0), |sctp| socket::local_address(sctp.as_fd()).map(|place| place.port()))
    }

    pub(super) fn tcp_port(&self) -> io::Result<u16> {
        socket::local_address(self.tcp.as_fd()).map(|address| address.port())
    }

    pub(super) fn udp_port(&self) -> io::Result<u16> {
        self.udp.as_ref().map_or(Ok(0), |udp| udp.local_addr().map(|address| address.port()))
    }

    /// Accepts connections until the run closes.
    pub(super) fn serve(mut self, run: &Run) {
        let mut events = Events::with_capacity(EVENTS);
        while !run.closing.load(SeqCst) {
            if let Err(error) = self.look(run, &mut events) {
                run.fail(LoadError::refused(&error, "accept connections", "script"));
                return;
            }
        }
    }

    fn look(&mut self, run: &Run, events: &mut Events) -> io::Result<()> {
        let begun = clock::monotonic();
        self.epoll.wait(events, Some(SLICE))?;
        // Keys ascend in the order of arrival, and so connections are delivered in the order in which they came.
        let mut keys: Vec<u64> = events.keys().collect();
        keys.sort_unstable();
        for key in keys {
            match key {
                TCP | UNIX | VSOCK | SCTP => self.admit(key)?,
                UDP => self.greet(run),
                _ => self.examine(run, key),
            }
        }
        // This thread may have had to wait, too: time is over for what had nothing to show when this look began, where
        // the look saw all there was.
        let limit = begun.minus(TIME_TO_PROVE);
        let saw_all = events.count() < EVENTS;
        while saw_all && self.unproven.first_entry().is_some_and(|oldest| oldest.get().since < limit) {
            self.unproven.pop_first();
            run.foreign.fetch_add(1, Relaxed);
        }
        while self.unproven.len() > MOST_UNPROVEN {
            self.unproven.pop_first();
            run.foreign.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    fn admit(&mut self, key: u64) -> io::Result<()> {
        for _ in 0..ARRIVALS_A_VISIT {
            let other = match key {
                UNIX => self.unix.as_ref().map(AsFd::as_fd),
                VSOCK => self.vsock.as_ref().map(AsFd::as_fd),
                SCTP => self.sctp.as_ref().map(AsFd::as_fd),
                _ => None,
            };
            let listener = other.unwrap_or(self.tcp.as_fd());
            let socket = match socket::accept(listener) {
                Ok(socket) => socket,
                Err(error) => match error.raw_os_error().unwrap_or(0) {
                    errno::EAGAIN => return Ok(()),
                    errno::EMFILE | errno::ENFILE | errno::ENOBUFS | errno::ENOMEM => return Err(error),
                    // The connection died while it waited: the next one need not have.
                    _ => continue,
                },
            };
            let key = self.next_key;
            self.next_key += 1;
            self.epoll.add(socket.as_fd(), Interest::Readable, key)?;
            let since = clock::monotonic();
            let arrival = Unproven { socket, shown: [0; preamble::BYTES], length: 0, since };
            self.unproven.insert(key, arrival);
        }
        Ok(())
    }

    /// Reads what a connection shows, and hands it on when that is enough.
    fn examine(&mut self, run: &Run, key: u64) {
        let Some(arrival) = self.unproven.get_mut(&key) else { return };
        // Not a byte more than the preamble: the rest is the thread's.
        match socket::receive_into(arrival.socket.as_fd(), &mut arrival.shown[arrival.length..]) {
            Ok(count) if count > 0 => arrival.length += count,
            Err(error) if matches!(error.raw_os_error(), Some(errno::EAGAIN | errno::EINTR)) => return,
            Ok(_) | Err(_) => {
                self.unproven.remove(&key);
                run.foreign.fetch_add(1, Relaxed);
                return;
            }
        }
        if arrival.length < preamble::BYTES {
            return;
        }
        let Some(Unproven { socket, shown, .. }) = self.unproven.remove(&key) else { return };
        let shown = Preamble::of(&shown, run.token);
        // Fails for a socket that is about to be closed only.
        let _ = self.epoll.remove(socket.as_fd());
        match shown {
            Some(Preamble { kind: Kind::Link, .. }) if run.link(0).is_none() => {
                locked(&run.arrived_link).get_or_insert(socket);
            }
            Some(Preamble { kind: Kind::Data, thread, connection, serial }) => {
                run.deliver(thread, connection, serial, socket);
            }
            _ => {
                run.foreign.fetch_add(1, Relaxed);
            }
        }
    }

    /// Takes datagrams of flows that are not known yet, and gives each flow that shows the token a socket of its own.
    fn greet(&mut self, run: &Run) {
        let mut bytes = [0; preamble::BYTES + 1];
        for _ in 0..ARRIVALS_A_VISIT {
            let Some(udp) = &self.udp else { return };
            // An error is that of a datagram sent before, and none of this flow's; EAGAIN: that was all.
            let Ok((length, source)) = udp.recv_from(&mut bytes) else { return };
            let shown = Preamble::of(&bytes[..length], run.token);
            let Some(shown) = shown.filter(|shown| shown.kind == Kind::Data) else {
                run.foreign.fetch_add(1, Relaxed);
                continue;
            };
            self.welcome(run, shown, source);
        }
    }

    fn welcome(&mut self, run: &Run, shown: Preamble, source: SocketAddr) {
        let Preamble { thread, connection, serial, .. } = shown;
        let next = self.greeted.entry((thread, connection)).or_default();
        if thread as usize >= run.pairs.len() || serial < *next {
            return;
        }
        let Some(udp) = &self.udp else { return };
        // A failure here costs a repetition of the greeting, which tries again.
        let Ok(flow) = udp.local_addr().and_then(udp_at) else { return };
        if socket::connect(flow.as_fd(), &source).is_err() {
            return;
        }
        *next = serial + 1;
        // Between being bound and being connected it was open to everybody.
        let mut strays = Vec::new();
        let mut bytes = [0; preamble::BYTES + 1];
        let as_udp = UdpSocket::from(flow);
        while let Ok((length, stray_source)) = as_udp.recv_from(&mut bytes) {
            let stray = Preamble::of(&bytes[..length], run.token);
            strays.extend(stray.filter(|_| stray_source != source).map(|stray| (stray, stray_source)));
        }
        let acknowledged = Preamble { kind: Kind::Acknowledged, ..shown };
        // Should it be lost, the thread answers the repetition.
        let _ = as_udp.send(&acknowledged.bytes(run.token));
        run.deliver(thread, connection, serial, as_udp.into());
        for (stray, stray_source) in strays {
            self.welcome(run, stray, stray_source);
        }
    }
}

fn udp_at(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = datagram::udp(&address)?;
    // The socket that listens and those of the flows share a port.
    socket::set(socket.as_fd(), Setting::ReuseAddress, 1)?;
    socket::bind(socket.as_fd(), &address)?;
    Ok(socket)
}
