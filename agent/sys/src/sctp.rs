//! Options of sockets of SCTP, one association each (RFC 6458).

use std::io;
use std::os::fd::BorrowedFd;

use rustix::net::{ipproto, AddressFamily};

use crate::{socket, socket_option};

// As in Linux' <linux/sctp.h>.
const LEVEL: libc::c_int = 132;
const RTO_INFO: libc::c_int = 0;
const INIT_MESSAGE: libc::c_int = 2;
const NO_DELAY: libc::c_int = 3;
const PEER_ADDRESS_PARAMETERS: libc::c_int = 9;
const DEFAULT_SEND_PARAMETERS: libc::c_int = 10;
const MAX_SEGMENT: libc::c_int = 13;
const DELAYED_ACK: libc::c_int = 16;
const MAX_BURST: libc::c_int = 20;
const UNORDERED: u16 = 1;
const HEARTBEAT_ENABLE: u32 = 1;
const PATH_MTU_DISCOVERY_DISABLE: u32 = 1 << 4;

/// Why this kernel cannot make sockets of SCTP; `None`: it can.
#[must_use]
pub fn refusal() -> Option<io::Error> {
    socket::refusal(AddressFamily::INET, Some(ipproto::SCTP))
}

fn set<T>(socket: BorrowedFd<'_>, name: libc::c_int, value: &T) -> io::Result<()> {
    socket_option::set(socket, LEVEL, name, value)
}

/// Whether messages go out without waiting for more.
///
/// # Errors
/// This and all others here: what the kernel said, `EINVAL` for a value that it does not take.
pub fn set_nodelay(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    set(socket, NO_DELAY, &libc::c_int::from(on))
}

/// Timeouts of retransmissions in milliseconds; 0: as they are.
///
/// # Errors
/// As [`set_nodelay`].
pub fn set_timeouts(socket: BorrowedFd<'_>, initial: u32, least: u32, greatest: u32) -> io::Result<()> {
    // The association, then the times.
    set(socket, RTO_INFO, &[0, initial, greatest, least])
}

/// How many streams an association is to have; 0: as it is. Before the association is made.
///
/// # Errors
/// As [`set_nodelay`].
pub fn set_streams(socket: BorrowedFd<'_>, incoming: u16, outgoing: u16) -> io::Result<()> {
    // Streams out, most streams in, attempts, timeout.
    set(socket, INIT_MESSAGE, &[outgoing, incoming, 0_u16, 0])
}

/// How long an acknowledgement may wait, in milliseconds, and after how many packets it does not; 0: as it is.
///
/// # Errors
/// As [`set_nodelay`].
pub fn set_delayed_ack(socket: BorrowedFd<'_>, delay: u32, frequency: u32) -> io::Result<()> {
    set(socket, DELAYED_ACK, &[0, delay, frequency])
}

/// Most packets that go out at once.
///
/// # Errors
/// As [`set_nodelay`].
pub fn set_max_burst(socket: BorrowedFd<'_>, packets: u32) -> io::Result<()> {
    set(socket, MAX_BURST, &[0, packets])
}

/// Longest piece that a message is cut into, in bytes.
///
/// # Errors
/// As [`set_nodelay`].
pub fn set_max_fragment(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set(socket, MAX_SEGMENT, &[0, bytes])
}

/// Time between heartbeats in milliseconds, and the length of packets in bytes; 0: as they are.
///
/// # Errors
/// As [`set_nodelay`].
pub fn set_path(socket: BorrowedFd<'_>, heartbeat: u32, mtu: u32) -> io::Result<()> {
    // `sctp_paddrparams` of Linux: packed, with 4 bytes of the association, 128 of the address (none: all of them), the
    // heartbeat, 2 bytes of retransmissions, MTU, delay of acknowledgements, flags.
    const ADDRESS: usize = 128;
    let mut form = [0_u8; 4 + ADDRESS + 4 + 2 + 4 + 4 + 4 + 4 + 2];
    let mut put = |at: usize, bytes: &[u8]| form[at..at + bytes.len()].copy_from_slice(bytes);
    let mut flags = 0;
    if heartbeat > 0 {
        put(4 + ADDRESS, &heartbeat.to_ne_bytes());
        flags |= HEARTBEAT_ENABLE;
    }
    if mtu > 0 {
        put(4 + ADDRESS + 6, &mtu.to_ne_bytes());
        flags |= PATH_MTU_DISCOVERY_DISABLE;
    }
    put(4 + ADDRESS + 14, &flags.to_ne_bytes());
    set(socket, PEER_ADDRESS_PARAMETERS, &form)
}

/// The stream that messages go out on from now on, and whether they may overtake each other.
///
/// # Errors
/// As [`set_nodelay`].
pub fn set_stream(socket: BorrowedFd<'_>, stream: u16, unordered: bool) -> io::Result<()> {
    #[repr(C)]
    #[derive(Default)]
    struct SendParameters {
        stream: u16,
        sequence: u16,
        flags: u16,
        protocol: u32,
        context: u32,
        time_to_live: u32,
        number: u32,
        acknowledged: u32,
        association: i32,
    }
    let flags = if unordered { UNORDERED } else { 0 };
    set(socket, DEFAULT_SEND_PARAMETERS, &SendParameters { stream, flags, ..SendParameters::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{bind, Endpoint};
    use std::os::fd::AsFd;

    /// On a kernel without SCTP it shows the refusal alone; `tests/hosts/test_transports.py` has one with it.
    #[test]
    fn every_option_is_taken_by_a_kernel_that_has_sctp() {
        let place = Endpoint::Sctp("127.0.0.1:0".parse().unwrap());
        let made = place.socket(false);
        assert_eq!(made.is_err(), refusal().is_some());
        let Ok(socket) = made else { return };
        bind(socket.as_fd(), &place).unwrap();
        let socket = socket.as_fd();
        set_nodelay(socket, true).unwrap();
        set_timeouts(socket, 500, 100, 1_000).unwrap();
        set_streams(socket, 4, 8).unwrap();
        set_delayed_ack(socket, 100, 2).unwrap();
        set_max_burst(socket, 8).unwrap();
        set_max_fragment(socket, 1_000).unwrap();
        set_path(socket, 500, 1_400).unwrap();
        set_stream(socket, 3, true).unwrap();
    }
}
