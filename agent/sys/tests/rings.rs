//! Rings of packets on the loopback device. Without the right to packet sockets there is nothing to be tested but that.

#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use iodyno_core::units::Nanos;
use iodyno_sys::packet_ring::{self, Shape, Taken, Wanted};
use iodyno_sys::poll::{self, Ended};
use iodyno_sys::{errno, network_device, xsk};

/// Ethernet, IPv4 and UDP in front of a payload.
const HEADERS: usize = 42;

struct Rig {
    server: UdpSocket,
    client: UdpSocket,
    wanted: Wanted,
}

fn rig(payload: usize) -> Rig {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(server.local_addr().unwrap()).unwrap();
    let device = network_device::with_address(Ipv4Addr::LOCALHOST).unwrap().unwrap();
    let SocketAddr::V4(to) = server.local_addr().unwrap() else { unreachable!() };
    let wanted = Wanted { device: device.index, to, back: false, frame_bytes: HEADERS + payload };
    Rig { server, client, wanted }
}

fn open(wanted: &Wanted, shape: Shape) -> Option<packet_ring::Receiver> {
    match packet_ring::receive(wanted, shape) {
        Ok(receiver) => Some(receiver),
        Err(error) if error.raw_os_error() == Some(errno::EPERM) => {
            eprintln!("SKIPPED: packet sockets need CAP_NET_RAW");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Takes until `done`; the last bytes of each frame, and what each look took.
fn take(
    receiver: &mut packet_ring::Receiver,
    payload: usize,
    done: impl Fn(usize) -> bool,
) -> (Vec<Vec<u8>>, Vec<Taken>) {
    let (mut frames, mut looks) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    while !done(frames.len()) && begun.elapsed() < Duration::from_secs(60) {
        let taken = receiver.take(64, |frame| frames.push(frame[frame.len() - payload..].to_vec()));
        if taken.packets > 0 {
            looks.push(taken);
        } else {
            assert_ne!(poll::readable(receiver.descriptor(), Nanos::MILLISECOND).unwrap(), Ended::Failed);
        }
    }
    (frames, looks)
}

#[test]
fn every_datagram_to_the_port_is_seen_once_and_in_order() {
    let shapes = [Shape::V2 { frames: 64 }, Shape::V3 { block_packets: 4, blocks: 16, timeout_ms: 1 }];
    for shape in shapes {
        let rig = rig(8);
        let Some(mut receiver) = open(&rig.wanted, shape) else { return };
        // More than the ring holds, so that it goes round several times.
        for round in 0..20_u64 {
            for number in 0..16 {
                rig.client.send(&(round * 16 + number).to_le_bytes()).unwrap();
                // To another port: none of ours.
                rig.client.send_to(b"elsewhere", SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9)).ok();
            }
            let (frames, _) = take(&mut receiver, 8, |count| count >= 16);
            let expected: Vec<_> =
                (0..16).map(|number| (round * 16 + number).to_le_bytes().to_vec()).collect();
            assert_eq!(frames, expected, "{shape:?} round {round}");
        }
        assert_eq!(receiver.dropped().unwrap(), 0);
        // What a packet socket sees is not taken away from others.
        rig.server.set_nonblocking(true).unwrap();
        assert_eq!(rig.server.recv(&mut [0; 16]).unwrap(), 8);
    }
}

/// The law that the server of blocks is checked by: a block holds just as many packets as asked for, is handed over
/// when the next one comes, and otherwise at its timeout.
#[test]
fn a_block_holds_as_many_packets_as_asked_for() {
    for (block_packets, payload) in [(1, 24), (16, 512), (32, 512), (50, 512), (64, 1000)] {
        while !holds(block_packets, payload) {}
    }
}

/// `false`: a busy machine kept this thread from its CPU for longer than the timeout, which may have handed a block over.
fn holds(block_packets: usize, payload: usize) -> bool {
    let rig = rig(payload);
    // Far longer than the test sends for: no block is handed over by it meanwhile.
    let timeout_ms = 1000;
    let shape = Shape::V3 { block_packets, blocks: 4, timeout_ms };
    let opened = Instant::now();
    let Some(mut receiver) = open(&rig.wanted, shape) else { return true };
    for _ in 0..block_packets {
        rig.client.send(&vec![7; payload]).unwrap();
    }
    let too_early = receiver.take(1, |_| {});
    rig.client.send(&vec![7; payload]).unwrap();
    if opened.elapsed() >= Duration::from_millis(timeout_ms.into()) {
        return false;
    }
    assert_eq!(too_early, Taken::default(), "{block_packets} of {payload}");
    let (_, looks) = take(&mut receiver, payload, |count| count > 0);
    assert_eq!(looks, [Taken { packets: block_packets, by_timeout: false }], "{block_packets} of {payload}");
    let (_, looks) = take(&mut receiver, payload, |count| count > 0);
    assert_eq!(looks, [Taken { packets: 1, by_timeout: true }], "the rest, at the timeout");
    true
}

#[test]
fn a_full_ring_counts_what_it_loses() {
    let rig = rig(8);
    let Some(mut receiver) = open(&rig.wanted, Shape::V2 { frames: 32 }) else { return };
    for number in 0..100_u64 {
        rig.client.send(&number.to_le_bytes()).unwrap();
    }
    let (frames, _) = take(&mut receiver, 8, |count| count >= 32);
    assert_eq!(frames.len() as u32 + receiver.dropped().unwrap(), 100);
}

#[test]
fn what_cannot_be_opened_says_why() {
    let wanted = Wanted {
        device: 0x7fff_ffff,
        to: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9),
        back: false,
        frame_bytes: 100,
    };
    let number = |error: io::Error| error.raw_os_error().unwrap_or(0);
    let refused = number(packet_ring::receive(&wanted, Shape::V2 { frames: 32 }).unwrap_err());
    assert!([errno::EPERM, libc_enodev()].contains(&refused), "{refused}");
    let refused = number(xsk::open(0x7fff_ffff, 0, 64, 64).err().unwrap());
    assert!([errno::EPERM, errno::EAFNOSUPPORT, libc_enodev()].contains(&refused), "{refused}");
}

/// `ENODEV`, the same on every architecture (`asm-generic/errno-base.h`).
fn libc_enodev() -> i32 {
    19
}
