//! How the two ends of a load of datagrams find each other: every flow says hello until it is acknowledged, and
//! then that it was, once. Any of it may be lost: the sender repeats what was not acknowledged, and the receiver
//! goes on acknowledging for as long as somebody asks.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use iodyno_core::job::Job;
use iodyno_core::message::ErrorCode;
use iodyno_core::network::{Engine, Network, Role, SocketOptionsObtained, Syscalls, TrafficKind};
use iodyno_core::units::{Bytes, Nanos};
use iodyno_sys::datagram::{self, Calls, Incoming, Outgoing, Patience};
use iodyno_sys::epoll::{Epoll, Events, Interest};
use iodyno_sys::socket::{self, Setting};
use iodyno_sys::{clock, errno};

use super::options::{self, ReadBack};
use super::{blocking, time_for_all, too_few, LOOK};
use crate::cancel::Cancel;
use crate::connections::Connections;
use crate::error::LoadError;
use crate::prepared::Prepared;
use crate::transport::datagram::{Header, Kind, Mark, HEADER_BYTES};
use crate::worker::shared::cpus_of;

/// chosen: how long a hello may go unanswered before it is said again; many round trips of any path that loads go
/// over.
const SAY_AGAIN: Nanos = Nanos(50_000_000);
/// chosen: flows that say hello at a time; their datagrams fit into the smallest socket buffer (2304 bytes of
/// bookkeeping and all, socket(7), is too little; the usual one holds some 280).
const MOST_IN_FLIGHT: usize = 128;
/// chosen: a receiver that knows all flows is done when no hello came for so long, also where the sender's last word
/// was lost.
const SILENCE: Nanos = Nanos(400_000_000);
/// chosen: a call waits no longer for an answer before its thread looks at the clock.
const LONGEST_WAIT: Nanos = Nanos(200_000_000);
/// Room for what is longer than a header, which is none of ours at this stage.
const ROOM: usize = HEADER_BYTES + 1;

/// A receiver of datagrams whose port is bound.
pub(crate) struct Listener {
    job: Job<Network>,
    cancel: Cancel,
    /// One a thread of the server.
    sockets: Vec<OwnedFd>,
    address: SocketAddr,
}

impl Listener {
    pub(super) fn open(job: &Job<Network>, address: SocketAddr, cancel: &Cancel) -> Result<Self, LoadError> {
        let place = address.to_string();
        let refused = |error: io::Error| LoadError::refused(&error, "bind a UDP socket", &place);
        let mut listener =
            Listener { job: job.clone(), cancel: cancel.clone(), sockets: Vec::new(), address };
        let threads = server_threads(job)?;
        for _ in 0..threads {
            let socket = datagram::udp(&address).map_err(refused)?;
            options::ask_any(socket.as_fd(), &job.load.socket)?;
            if threads > 1 {
                socket::set(socket.as_fd(), Setting::ReusePort, 1).map_err(refused)?;
            }
            // The first may have been told to take any port, which the others share.
            super::be_at(socket.as_fd(), &listener.address).map_err(refused)?;
            listener.address = socket::local_address(socket.as_fd()).map_err(refused)?;
            offload(socket.as_fd(), job, job.load.response_bytes())?;
            listener.sockets.push(socket);
        }
        Ok(listener)
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Waits until every flow is known.
    pub(super) fn know_all(self) -> Result<Prepared, LoadError> {
        let Listener { job, cancel, sockets, address } = self;
        let mut options = ReadBack::of(&job.load.socket);
        let foreign = greet(&job, &sockets, address, &cancel)?;
        for socket in &sockets {
            // Whether a call waits is said with the call.
            socket::set_blocking(socket.as_fd(), true)
                .map_err(|error| LoadError::refused(&error, "set up a socket", &address.to_string()))?;
            options.add(socket.as_fd());
        }
        let connections = Connections::new(&job, sockets, Vec::new(), None, &cancel)?;
        Prepared::new(connections, options.finish(), foreign)
    }
}

/// Sockets and threads of a server: one a CPU of the job, and no more than there are flows.
fn server_threads(job: &Job<Network>) -> Result<usize, LoadError> {
    // What a ring takes goes to one thread, whatever the flow.
    if job.load.engine == Engine::Rings {
        return Ok(1);
    }
    Ok(cpus_of(job)?.len().clamp(1, job.load.connections as usize))
}

/// Acknowledges every flow of `job` on `sockets`; gives how many datagrams were not of the trial.
pub(crate) fn greet(
    job: &Job<Network>,
    sockets: &[OwnedFd],
    address: SocketAddr,
    cancel: &Cancel,
) -> Result<u32, LoadError> {
    let refused = |error: io::Error| LoadError::refused(&error, "wait for flows", &address.to_string());
    let mark = Mark::of(job);
    let memory = |error: io::Error| LoadError::refused(&error, "get memory for buffers", "message_bytes");
    let mut incoming = Incoming::new(Calls::Plain, 1, ROOM).map_err(memory)?;
    let mut outgoing = Outgoing::new(Calls::Plain, 1, HEADER_BYTES, &[0]).map_err(memory)?;
    let epoll = Epoll::new().map_err(refused)?;
    for (key, socket) in (0..).zip(sockets) {
        epoll.add(socket.as_fd(), Interest::Readable, key).map_err(refused)?;
    }
    let mut events = Events::with_capacity(sockets.len());
    let mut flows = vec![Flow::Unknown; job.load.connections as usize];
    let (mut known, mut confirmed, mut foreign) = (0, 0, 0_u32);
    let deadline = clock::monotonic().plus(time_for_all(job.load.connections));
    let mut last_word = clock::monotonic();
    while confirmed < flows.len() {
        if cancel.is_cancelled() {
            return Err(LoadError::cancelled());
        }
        let now = clock::monotonic();
        if known == flows.len() && now.minus(last_word) > SILENCE {
            break;
        }
        if now >= deadline && known < flows.len() {
            let advice = "see what the sender reported, and look for a firewall between the hosts";
            return Err(too_few(known, job.load.connections, &address, advice));
        }
        epoll.wait(&mut events, Some(LOOK)).map_err(refused)?;
        for key in events.keys() {
            let socket = sockets[key as usize].as_fd();
            // A bounded number, so that a flood does not keep this from looking at the clock.
            for _ in 0..256 {
                match incoming.receive(socket, Patience::Returns) {
                    Err(_) => break,
                    Ok(0) => foreign += 1,
                    Ok(_) => match Header::read(mark, incoming.datagram(0)) {
                        Some(header @ Header { kind: Kind::Hello, flow, sequence })
                            if (flow as usize) < flows.len() =>
                        {
                            last_word = clock::monotonic();
                            let flow = &mut flows[flow as usize];
                            known += usize::from(*flow == Flow::Unknown);
                            confirmed += usize::from(*flow != Flow::Confirmed && sequence > 0);
                            *flow = match sequence {
                                0 if *flow == Flow::Unknown => Flow::Known,
                                0 => *flow,
                                _ => Flow::Confirmed,
                            };
                            if sequence == 0 {
                                Header { kind: Kind::HelloAcknowledged, ..header }
                                    .write(mark, outgoing.message(0));
                                outgoing.address(0, incoming.peer(0));
                                // Refused or lost is the same: it is asked for again.
                                let _ = outgoing.send(socket, 0, 1, Patience::Returns);
                            }
                        }
                        // A sender whose first word after the hellos overtook the last of them is armed already.
                        Some(_) => {}
                        None => foreign += 1,
                    },
                }
            }
        }
    }
    Ok(foreign)
}

/// What a receiver knows of a flow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Unknown,
    /// It said hello.
    Known,
    /// It knows that it is known.
    Confirmed,
}

/// The sender's side: brings every flow of `job` up.
pub(super) fn all(
    job: &Job<Network>,
    cancel: &Cancel,
) -> Result<(Vec<OwnedFd>, SocketOptionsObtained), LoadError> {
    let address = super::address_of(job.load.address.as_deref())?;
    let mut sockets = Vec::with_capacity(job.load.connections as usize);
    let mut options = ReadBack::of(&job.load.socket);
    for flow in 0..job.load.connections {
        let socket = open_flow(job, flow, super::address_of(job.load.address_of(flow as usize))?)?;
        options.add(socket.as_fd());
        sockets.push(socket);
    }
    let deadline = clock::monotonic().plus(time_for_all(job.load.connections));
    for (batch, first) in sockets.chunks(MOST_IN_FLIGHT).zip((0..).step_by(MOST_IN_FLIGHT)) {
        say_hello(job, batch, first, address, deadline, cancel)?;
    }
    for socket in &sockets {
        socket::set_blocking(socket.as_fd(), blocking(job.load.engine))
            .and_then(|()| {
                datagram::wait_at_most(socket.as_fd(), job.load.response_timeout_ns.min(LONGEST_WAIT))
            })
            .map_err(|error| LoadError::refused(&error, "set up a socket", &address.to_string()))?;
    }
    let mut obtained = options.finish();
    obtained.segment_bytes = sockets.first().and_then(|socket| longest_whole(socket.as_fd(), address));
    Ok((sockets, obtained))
}

fn open_flow(job: &Job<Network>, flow: u32, address: SocketAddr) -> Result<OwnedFd, LoadError> {
    let refused = |error: io::Error| {
        let doing = format!("open flow {} of {}", u64::from(flow) + 1, job.load.connections);
        let mut refused = LoadError::refused(&error, &doing, &address.to_string());
        // The same number means something else for a thread.
        if error.raw_os_error() == Some(errno::EAGAIN) {
            refused.code = ErrorCode::Limit;
            refused.advice =
                "no local port is left: widen net.ipv4.ip_local_port_range, or use fewer connections"
                    .to_owned();
        }
        refused
    };
    let socket = datagram::udp(&address).map_err(refused)?;
    options::ask_any(socket.as_fd(), &job.load.socket)?;
    socket::connect(socket.as_fd(), &address).map_err(refused)?;
    let longest = longest_whole(socket.as_fd(), address);
    if let Some(longest) =
        longest.filter(|longest| job.load.syscalls == Syscalls::Segments && job.load.message_bytes > *longest)
    {
        return Err(LoadError::new(
            ErrorCode::Unsupported,
            format!(
                "datagrams of {} bytes cannot be cut by the kernel: the path takes {} at most",
                job.load.message_bytes.0, longest.0
            ),
            "message_bytes",
            "use smaller datagrams, a larger MTU, or other syscalls",
        ));
    }
    offload(socket.as_fd(), job, job.load.message_bytes)?;
    Ok(socket)
}

/// Payload of the longest datagram that the path takes whole, as this host knows it: without the headers of UDP (8
/// bytes, RFC 768) and of IP (20 bytes, RFC 791; 40 bytes, RFC 8200).
fn longest_whole(socket: BorrowedFd<'_>, address: SocketAddr) -> Option<Bytes> {
    let mtu = u64::from(datagram::path_mtu(socket, address.is_ipv4()).ok()?);
    Some(Bytes(mtu.saturating_sub(if address.is_ipv4() { 28 } else { 48 })))
}

/// Asks for segmentation and joining where the job asks for that, with messages of `bytes` from this end.
fn offload(socket: BorrowedFd<'_>, job: &Job<Network>, bytes: Bytes) -> Result<(), LoadError> {
    if job.load.syscalls != Syscalls::Segments {
        return Ok(());
    }
    let refused = |what: &str, error: &io::Error| {
        let what = format!("this kernel does not {what} datagrams: {error}");
        LoadError::new(ErrorCode::Unsupported, what, "syscalls", "take batch or read_write")
    };
    let sends = job.load.kind() == TrafficKind::RequestResponse || job.load.role == Role::Send;
    if sends {
        let bytes = u16::try_from(bytes.0).unwrap_or(u16::MAX);
        datagram::cut_into(socket, bytes)
            .map_err(|error| refused("cut (UDP_SEGMENT, Linux 4.18)", &error))?;
    }
    datagram::join(socket).map_err(|error| refused("join (UDP_GRO, Linux 5.0)", &error))
}

/// Says hello on each of `sockets`, whose flows count from `first`, until all are acknowledged; then says so.
fn say_hello(
    job: &Job<Network>,
    sockets: &[OwnedFd],
    first: u32,
    address: SocketAddr,
    deadline: Nanos,
    cancel: &Cancel,
) -> Result<(), LoadError> {
    let refused = |error: &io::Error| LoadError::refused(error, "say hello", &address.to_string());
    let mark = Mark::of(job);
    let shown = |at: usize| job.load.number_of(first as usize + at);
    let hello = |at: usize, sequence: u64| Header { flow: shown(at), kind: Kind::Hello, sequence };
    let epoll = Epoll::new().map_err(|error| refused(&error))?;
    for (key, socket) in (0..).zip(sockets) {
        epoll.add(socket.as_fd(), Interest::Readable, key).map_err(|error| refused(&error))?;
    }
    let mut events = Events::with_capacity(sockets.len());
    let mut silent: Vec<bool> = vec![true; sockets.len()];
    let mut say_at = Nanos(0);
    while silent.contains(&true) {
        if cancel.is_cancelled() {
            return Err(LoadError::cancelled());
        }
        let now = clock::monotonic();
        if now >= deadline {
            let up = first as usize + silent.iter().filter(|silent| !**silent).count();
            let advice = "see what the receiver reported, and look for a firewall between the hosts";
            return Err(too_few(up, job.load.connections, &address, advice));
        }
        if now >= say_at {
            for (at, socket) in sockets.iter().enumerate().filter(|(at, _)| silent[*at]) {
                say(socket.as_fd(), hello(at, 0), mark).map_err(|error| refused(&error))?;
            }
            say_at = now.plus(SAY_AGAIN);
        }
        epoll.wait(&mut events, Some(LOOK)).map_err(|error| refused(&error))?;
        for key in events.keys() {
            let (at, mut place) = (key as usize, [0; ROOM]);
            match socket::receive_into(sockets[at].as_fd(), &mut place) {
                Ok(length) => {
                    let expected = Header { kind: Kind::HelloAcknowledged, ..hello(at, 0) };
                    if Header::read(mark, &place[..length]) == Some(expected) && silent[at] {
                        silent[at] = false;
                        say(sockets[at].as_fd(), hello(at, 1), mark).map_err(|error| refused(&error))?;
                    }
                }
                Err(error) if matches!(error.raw_os_error(), Some(errno::EAGAIN | errno::EINTR)) => {}
                Err(error) => return Err(refused(&error)),
            }
        }
    }
    Ok(())
}

/// What there is no room for is said again.
fn say(socket: BorrowedFd<'_>, header: Header, mark: Mark) -> io::Result<()> {
    match socket::send(socket, &header.alone(mark)) {
        Err(error)
            if !matches!(error.raw_os_error(), Some(errno::EAGAIN | errno::EINTR | errno::ENOBUFS)) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}
