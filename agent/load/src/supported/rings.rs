//! Loads on rings that the kernel shares, and by a program in it.

use std::net::SocketAddr;

use iodyno_core::network::{Network, Role, Syscalls, Transport};

use super::{hold, unsupported};
use crate::error::LoadError;
use crate::rings::reflector::MOST_FLOWS;

/// Whether a load on rings is one that an end on one can carry out.
pub(super) fn serves(load: &Network) -> Result<(), LoadError> {
    let ring = load.ring.unwrap_or_default();
    if load.transport == Transport::Packet && !(2..=3).contains(&ring.version) {
        let found = format!("packet rings of version {} do not exist", ring.version);
        return Err(unsupported(found, "ring.version", "take packet_v2 or packet_v3"));
    }
    let application = load.application();
    let rules = [
        (
            !matches!(load.transport, Transport::Packet | Transport::Xdp),
            "transport",
            "a ring holds the frames of packet sockets or of AF_XDP",
            "take packet or xdp",
        ),
        (
            application.think_ns.0 > 0 || application.serialised,
            "think_ns",
            "an end on a ring neither pauses nor shares a lock",
            "leave reader_think and serialised out",
        ),
        (
            ring.version == 3 && ring.block_timeout_ns.0 % 1_000_000 != 0,
            "ring.block_timeout_ns",
            "the kernel counts the timeout of a block in whole milliseconds",
            "take whole milliseconds",
        ),
        (
            ring.adaptive && (ring.version != 3 || load.role != Role::Receive),
            "ring.adaptive",
            "only a ring of blocks (packet_v3) has packets per block, and a server fits them",
            "leave adaptive out, or take packet_v3 as `server_engine:`",
        ),
    ];
    hold(&rules, str::to_owned)?;
    reaches(load)
}

/// Whether the server is at an address that frames from a ring can have; one that is not known yet may be.
fn reaches(load: &Network) -> Result<(), LoadError> {
    let Some(Ok(address)) = load.address.as_deref().map(str::parse::<SocketAddr>) else { return Ok(()) };
    let rules = [
        (
            address.is_ipv6(),
            "address",
            "a ring holds frames of IPv4",
            "have the server at an address of IPv4, or take a client and a server that make calls of sockets",
        ),
        (
            address.ip().is_loopback(),
            "address",
            "the kernel takes no frames with loopback addresses from a ring",
            "have the server at the address of a network device, or take a client and a server that make calls of sockets",
        ),
    ];
    hold(&rules, str::to_owned)
}

/// Whether a load is one that a program in the kernel can carry out.
pub(super) fn reflects(load: &Network) -> Result<(), LoadError> {
    let application = load.application();
    let alone = "a program in the kernel does nothing but turn answers into requests";
    let rules = [
        (load.role != Role::Send || load.exchange().is_none(), "workload", alone, "take request_response"),
        (load.transport != Transport::Udp, "transport", alone, "take udp"),
        (load.queue_depth() > 1, "queue_depth", alone, "take more connections"),
        (load.connections > MOST_FLOWS, "connections", alone, "take 4096 at most"),
        (application.is_any(), "think_ns", alone, "leave it out"),
        (application.burst > 1 || load.arrivals.is_some(), "arrivals", alone, "take a closed loop"),
        (load.message_sizes.is_some(), "message_sizes", alone, "take one size"),
        (load.syscalls != Syscalls::ReadWrite, "syscalls", alone, "take read_write"),
    ];
    hold(&rules, str::to_owned)?;
    reaches(load)
}

#[cfg(test)]
mod tests {
    use iodyno_core::message::ErrorCode;
    use iodyno_core::network::{Application, Engine, RequestResponse, Ring, Traffic, TrafficKind};
    use iodyno_core::units::Nanos;

    use super::*;

    fn server(version: u32, transport: Transport) -> Network {
        let ring = Ring { version, block_packets: 32, block_timeout_ns: Nanos(10_000_000), adaptive: false };
        Network {
            role: Role::Receive,
            traffic: TrafficKind::RequestResponse.into(),
            transport,
            engine: Engine::Rings,
            ring: Some(ring),
            ..Network::default()
        }
    }

    #[test]
    fn what_a_ring_cannot_do_is_unsupported_with_the_key_that_says_it() {
        for (version, transport) in [(2, Transport::Packet), (3, Transport::Packet), (0, Transport::Xdp)] {
            assert_eq!(serves(&server(version, transport)), Ok(()));
            let traffic = TrafficKind::Stream.into();
            assert_eq!(serves(&Network { traffic, ..server(version, transport) }), Ok(()));
        }
        let of = |change: &dyn Fn(&mut Network)| {
            let mut load = server(2, Transport::Packet);
            change(&mut load);
            let refused = serves(&load).unwrap_err();
            assert_eq!(refused.code, ErrorCode::Unsupported);
            refused.place
        };
        let mut sender = Network { role: Role::Send, ..server(3, Transport::Packet) };
        for kind in [TrafficKind::Stream, TrafficKind::RequestResponse] {
            sender.traffic = kind.into();
            assert_eq!(serves(&sender), Ok(()));
        }
        sender.ring.as_mut().unwrap().adaptive = true;
        assert_eq!(serves(&sender).unwrap_err().place, "ring.adaptive");
        assert_eq!(of(&|load| load.transport = Transport::Udp), "transport");
        let application = Application { think_ns: Nanos(1), ..Application::default() };
        let thinks = RequestResponse { application, ..RequestResponse::default() };
        assert_eq!(of(&|load| load.traffic = Traffic::RequestResponse(thinks.clone())), "think_ns");
        assert_eq!(of(&|load| load.ring = None), "ring.version");
        assert_eq!(of(&|load| load.ring.as_mut().unwrap().adaptive = true), "ring.adaptive");
        let uneven = |load: &mut Network| {
            let ring = load.ring.as_mut().unwrap();
            (ring.version, ring.block_timeout_ns) = (3, Nanos(1_500_000));
        };
        assert_eq!(of(&uneven), "ring.block_timeout_ns");
    }
}
