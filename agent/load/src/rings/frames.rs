//! The sending end on a ring of frames: packet sockets (`TPACKET_V2`, `TPACKET_V3`) and `AF_XDP`.
//!
//! The flows' sockets stay: they have said hello, they keep the ports, and they say the end. What goes between goes out
//! past the kernel's own protocols. How a frame of a flow has to look, whose the next hop is and how it is reached, is
//! learned from the kernel itself: it sends one word by the flow's socket, and that frame is the pattern of all others.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};

use iodyno_core::network::{TrafficKind, Transport};
use iodyno_core::units::Nanos;
use iodyno_sys::network_device::{self, Device};
use iodyno_sys::poll::{self, Ended};
use iodyno_sys::{clock, errno, packet_ring, socket, xsk};

use super::halves::{Inlet, Outlet};
use super::place::{refused_at, unsupported};
use super::programs::{self, Programs};
use crate::connections::Connections;
use crate::error::LoadError;
use crate::transport::datagram::{Header, Kind, Mark};
use crate::transport::frame::{self, Pattern, HEADERS_BYTES};

/// chosen: frames to send that a ring of packet sockets holds: far more than wait at the other end of a path within one
/// machine (`net.core.netdev_max_backlog` and a socket's buffer), where a frame is free before it was read.
const PACKET_SLOTS: usize = 16_384;
/// chosen: those of `AF_XDP`, which are copied while they are sent.
const XDP_SLOTS: usize = 2_048;
/// chosen: answers that a ring holds.
const RECEIVED: usize = 4_096;
/// chosen: answers that one look takes.
const MOST_FRAMES: usize = 256;
/// chosen: how often sending is tried before it is left to the next time.
const TRIES: usize = 100;
/// chosen: how long a frame is waited for that the kernel sends at once, and how often it is asked for one.
const LEARN: Nanos = Nanos(100_000_000);
const LEARN_TIMES: usize = 20;

enum In {
    Packet(packet_ring::Receiver),
    Xdp(xsk::Receiver),
}

enum Out {
    Packet(packet_ring::Sender),
    Xdp(xsk::Sender),
}

/// The rings of a sender.
pub(crate) struct Frames {
    // In this order: the datagrams are the sockets' again before the rings are gone.
    _programs: Option<Programs>,
    inlet: Option<In>,
    outlet: Out,
    patterns: Box<[Pattern]>,
    came: Vec<(u32, Option<Header>)>,
    first: usize,
    failed: bool,
}

impl Frames {
    /// For all flows of the job, whose sockets these are.
    pub(crate) fn open(shared: &Connections, sockets: &[BorrowedFd<'_>]) -> Result<Self, LoadError> {
        let job = &shared.job;
        let ends = ends(shared, sockets)?;
        let device = ends.device;
        let longest = HEADERS_BYTES + job.load.message_bytes.0 as usize;
        let room = if job.load.transport == Transport::Xdp { xsk::LONGEST_FRAME_BYTES } else { usize::MAX };
        if longest > room.min(device.mtu_bytes + 14) {
            let what = format!(
                "datagrams of {} bytes do not fit into one frame of {}, and a client on a ring cuts none",
                job.load.message_bytes.0, device.name
            );
            return Err(unsupported(what, "message_bytes", "take smaller ones or a larger MTU"));
        }
        let answers = job.load.kind() == TrafficKind::RequestResponse;
        let response_bytes = HEADERS_BYTES + job.load.response_bytes().0 as usize;
        if answers && response_bytes > room.min(device.mtu_bytes + 14) {
            let what = format!(
                "answers of {} bytes come in fragments, and a client on a ring puts none together",
                job.load.response_bytes().0
            );
            return Err(unsupported(what, "response_bytes", "take smaller ones or a larger MTU"));
        }
        let patterns = learn(shared, sockets, &device, ends.server)?;
        let packet = |error: io::Error| refused_at(&device, &error, "packet sockets", "CAP_NET_RAW");
        let (inlet, mut outlet) = if job.load.transport == Transport::Xdp {
            let (inlet, outlet) = xsk::open(device.index, 0, RECEIVED, XDP_SLOTS)
                .map_err(|error| refused_at(&device, &error, "AF_XDP sockets", "CAP_NET_RAW and CAP_BPF"))?;
            (Some(In::Xdp(inlet)), Out::Xdp(outlet))
        } else {
            let version = job.load.ring.map_or(2, |ring| ring.version);
            let inlet = if answers {
                let wanted = packet_ring::Wanted {
                    device: device.index,
                    to: ends.server,
                    back: true,
                    frame_bytes: response_bytes,
                };
                let shape = match (version, job.load.ring) {
                    (3, Some(ring)) => packet_ring::Shape::V3 {
                        block_packets: ring.block_packets as usize,
                        blocks: (RECEIVED / ring.block_packets.max(1) as usize).max(8),
                        timeout_ms: (ring.block_timeout_ns.0 / 1_000_000).max(1) as u32,
                    },
                    _ => packet_ring::Shape::V2 { frames: RECEIVED },
                };
                Some(In::Packet(packet_ring::receive(&wanted, shape).map_err(packet)?))
            } else {
                None
            };
            let outlet =
                packet_ring::send_by(version, device.index, longest, PACKET_SLOTS).map_err(packet)?;
            (inlet, Out::Packet(outlet))
        };
        super::fill_from(&mut outlet, shared.source.bytes(), HEADERS_BYTES);
        // From here on answers come by the ring, and the sockets get none of them as well.
        let programs = match (&inlet, answers) {
            (Some(In::Packet(_)), true) => Some(programs::drop_from(&device.name, ends.server)?),
            (Some(In::Xdp(inlet)), true) => {
                Some(programs::redirect_from(&device.name, ends.server, inlet.descriptor())?)
            }
            _ => None,
        };
        let came = Vec::with_capacity(4 * MOST_FRAMES);
        Ok(Frames { _programs: programs, inlet, outlet, patterns, came, first: 0, failed: false })
    }

    /// Takes what came.
    #[inline]
    pub(crate) fn gather(&mut self, mark: Mark) -> usize {
        self.came.clear();
        let (came, flows) = (&mut self.came, self.patterns.len());
        let mut each = |bytes: &[u8]| {
            let header = frame::read(bytes).and_then(|(_, payload)| Header::read(mark, payload));
            let flow = header.map_or(0, |header| header.flow);
            // What is of no flow of the trial is shown as a stranger.
            let known = (flow as usize) < flows;
            came.push((if known { flow } else { 0 }, header.filter(|_| known)));
        };
        match &mut self.inlet {
            None => 0,
            Some(In::Packet(inlet)) => Inlet::take(inlet, MOST_FRAMES, &mut each),
            Some(In::Xdp(inlet)) => Inlet::take(inlet, MOST_FRAMES, &mut each),
        };
        self.came.len()
    }

    /// Shows one of those that came; its flow.
    #[inline]
    pub(crate) fn show(&mut self, at: usize) -> usize {
        self.first = at;
        self.came[at].0 as usize
    }

    /// The header of the one that is shown.
    #[inline]
    pub(crate) fn header(&self) -> Option<Header> {
        self.came[self.first].1
    }

    /// Waits until something came or the time has passed.
    #[inline]
    pub(crate) fn wait(&mut self, longest: Nanos) -> io::Result<()> {
        let descriptor = match &self.inlet {
            None => return Ok(()),
            Some(In::Packet(inlet)) => inlet.descriptor(),
            Some(In::Xdp(inlet)) => inlet.descriptor(),
        };
        match poll::readable(descriptor, longest)? {
            Ended::Readable if !self.failed => Ok(()),
            Ended::Nothing => Ok(()),
            // A device that is gone makes its socket ready for good.
            Ended::Readable | Ended::Failed => {
                self.failed = true;
                match socket::pending_error(descriptor)? {
                    Some(error) => Err(error),
                    None => Ok(()),
                }
            }
        }
    }

    /// Writes a frame of a flow that goes out with the next flush; `false`: there is no room.
    #[inline]
    pub(crate) fn write(&mut self, mark: Mark, flow: usize, header: Header, bytes: usize) -> bool {
        let pattern = &self.patterns[flow];
        match &mut self.outlet {
            Out::Packet(outlet) => put(outlet, pattern, mark, header, bytes),
            Out::Xdp(outlet) => put(outlet, pattern, mark, header, bytes),
        }
    }

    /// Sends what was written.
    ///
    /// # Errors
    /// The device is gone or down.
    #[inline]
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.outlet {
            Out::Packet(outlet) => flush(outlet),
            Out::Xdp(outlet) => flush(outlet),
        }
    }
}

#[inline]
fn put(outlet: &mut impl Outlet, pattern: &Pattern, mark: Mark, header: Header, bytes: usize) -> bool {
    if outlet.frame().is_none() && !(0..TRIES).any(|_| outlet.flush().is_ok() && outlet.frame().is_some()) {
        return false;
    }
    let Some(frame) = outlet.frame() else { return false };
    let length = pattern.write(bytes, frame);
    header.write(mark, &mut frame[HEADERS_BYTES..]);
    outlet.commit(length);
    true
}

#[inline]
fn flush(outlet: &mut impl Outlet) -> io::Result<()> {
    for _ in 0..TRIES {
        match outlet.flush() {
            // Busy: the other end's queue was full, and what did not fit is lost like any other datagram.
            Err(error)
                if matches!(
                    error.raw_os_error().unwrap_or(0),
                    errno::EAGAIN | errno::ENOBUFS | errno::EINTR | errno::EBUSY
                ) => {}
            outcome => return outcome,
        }
    }
    // The frames lie in the ring and go out with the next ones.
    Ok(())
}

impl Outlet for Out {
    fn frame(&mut self) -> Option<&mut [u8]> {
        match self {
            Out::Packet(outlet) => Outlet::frame(outlet),
            Out::Xdp(outlet) => Outlet::frame(outlet),
        }
    }

    fn commit(&mut self, length: usize) {
        match self {
            Out::Packet(outlet) => Outlet::commit(outlet, length),
            Out::Xdp(outlet) => Outlet::commit(outlet, length),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Out::Packet(outlet) => Outlet::flush(outlet),
            Out::Xdp(outlet) => Outlet::flush(outlet),
        }
    }

    fn slots(&self) -> usize {
        match self {
            Out::Packet(outlet) => Outlet::slots(outlet),
            Out::Xdp(outlet) => Outlet::slots(outlet),
        }
    }

    fn pass_over(&mut self) {
        match self {
            Out::Packet(outlet) => Outlet::pass_over(outlet),
            Out::Xdp(outlet) => Outlet::pass_over(outlet),
        }
    }
}

/// Between whom the frames go, and by which device.
struct Ends {
    device: Device,
    server: SocketAddrV4,
}

fn ends(shared: &Connections, sockets: &[BorrowedFd<'_>]) -> Result<Ends, LoadError> {
    let ipv4 = |address: Option<SocketAddr>| match address {
        Some(SocketAddr::V4(address)) => Ok(address),
        _ => {
            let what = "a client on a ring speaks IPv4 only".to_owned();
            Err(unsupported(what, "address", "take an address of IPv4"))
        }
    };
    let own = ipv4(sockets.first().and_then(|socket| socket::local_address(*socket).ok()))?;
    let server = ipv4(shared.job.load.address.as_deref().and_then(|text| text.parse().ok()))?;
    let device = network_device::with_address(*own.ip())
        .map_err(|error| LoadError::refused(&error, "look for the device", &own.to_string()))?
        .filter(|_| !own.ip().is_loopback() && own.ip() != server.ip())
        .ok_or_else(|| {
            let what = format!("no network device leads from {} to another host", own.ip());
            unsupported(what, "client", "have the server on another host or in another namespace")
        })?;
    Ok(Ends { device, server })
}

/// How the frames of each flow look.
fn learn(
    shared: &Connections,
    sockets: &[BorrowedFd<'_>],
    device: &Device,
    server: SocketAddrV4,
) -> Result<Box<[Pattern]>, LoadError> {
    let refused = |error: io::Error| refused_at(device, &error, "packet sockets", "CAP_NET_RAW");
    let mark = Mark::of(&shared.job);
    let wire = packet_ring::watch_outgoing(device.index, server).map_err(refused)?;
    let mut found: Vec<Option<Pattern>> = vec![None; sockets.len()];
    let mut place = vec![0; HEADERS_BYTES + 256];
    for _ in 0..LEARN_TIMES {
        for (at, socket) in sockets.iter().enumerate() {
            if found[at].is_some() {
                continue;
            }
            // What the other end knows already: it is no matter to it.
            let word = Header { flow: at as u32, kind: Kind::Hello, sequence: 1 };
            // Refused or lost is the same: it is said again.
            let _ = socket::send(*socket, &word.alone(mark));
            let until = clock::monotonic().plus(LEARN);
            while found[at].is_none() && clock::monotonic() < until {
                let left = until.minus(clock::monotonic());
                if poll::readable(wire.as_fd(), left).map_err(refused)? == Ended::Nothing {
                    break;
                }
                let Ok(length) = socket::receive_into(wire.as_fd(), &mut place) else { break };
                let bytes = &place[..length.min(place.len())];
                let header = frame::read(bytes).and_then(|(_, payload)| Header::read(mark, payload));
                if let Some(header) = header.filter(|header| (header.flow as usize) < found.len()) {
                    found[header.flow as usize] = Pattern::of(bytes);
                }
            }
        }
        if found.iter().all(Option::is_some) {
            return Ok(found.into_iter().flatten().collect());
        }
    }
    let what = format!("the kernel sent no plain frame to {server} by {}", device.name);
    Err(unsupported(what, &server.to_string(), "take another client"))
}
