//! Options of sockets that are one number.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use iodyno_core::network::SocketNumber;

use crate::socket_option;

/// How a value of a job becomes the kernel's.
#[derive(Clone, Copy)]
enum Scale {
    Same,
    /// The kernel's is so many times as large.
    Times(i64),
    /// The kernel counts in units of so many.
    Per(i64),
}

/// Level, name and scale of an option of this socket.
fn place(socket: BorrowedFd<'_>, number: SocketNumber) -> io::Result<(libc::c_int, libc::c_int, Scale)> {
    Ok(match number {
        SocketNumber::Mss => (libc::IPPROTO_TCP, libc::TCP_MAXSEG, Scale::Same),
        // The two lowest bits are of congestion notification (RFC 3168).
        SocketNumber::Dscp => match socket_option::integer(socket, libc::SOL_SOCKET, libc::SO_DOMAIN)? {
            libc::AF_INET6 => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, Scale::Times(4)),
            _ => (libc::IPPROTO_IP, libc::IP_TOS, Scale::Times(4)),
        },
        SocketNumber::PacingRate => (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, Scale::Per(8)),
        SocketNumber::QuickAck => (libc::IPPROTO_TCP, libc::TCP_QUICKACK, Scale::Same),
        SocketNumber::UserTimeout => (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, Scale::Per(1_000_000)),
        SocketNumber::Priority => (libc::SOL_SOCKET, libc::SO_PRIORITY, Scale::Same),
        SocketNumber::ReusePort => (libc::SOL_SOCKET, libc::SO_REUSEPORT, Scale::Same),
        SocketNumber::IncomingCpu => (libc::SOL_SOCKET, libc::SO_INCOMING_CPU, Scale::Same),
        SocketNumber::NotSentLowWater => (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, Scale::Same),
    })
}

/// Asks for a value.
///
/// # Errors
/// What the kernel said; `EINVAL` for what its type cannot hold.
pub fn set(socket: BorrowedFd<'_>, number: SocketNumber, value: i64) -> io::Result<()> {
    let (level, name, scale) = place(socket, number)?;
    let value = match scale {
        Scale::Same => value,
        Scale::Times(factor) => value.saturating_mul(factor),
        Scale::Per(unit) => value.div_euclid(unit) + i64::from(value.rem_euclid(unit) > 0),
    };
    if number == SocketNumber::PacingRate {
        // Of 64 bits since Linux 4.20.
        return socket_option::set(socket, level, name, &value);
    }
    let value = i32::try_from(value).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    socket_option::set(socket, level, name, &value)
}

/// Reads a value back.
///
/// # Errors
/// What the kernel said.
pub fn get(socket: BorrowedFd<'_>, number: SocketNumber) -> io::Result<i64> {
    let (level, name, scale) = place(socket, number)?;
    let (bytes, _) = socket_option::get::<8>(socket.as_raw_fd(), level, name)?;
    let value = match number {
        SocketNumber::PacingRate => i64::from_ne_bytes(bytes),
        _ => i64::from(i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
    };
    Ok(match scale {
        Scale::Same => value,
        Scale::Times(factor) => value / factor,
        Scale::Per(unit) => value.saturating_mul(unit),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsFd;

    #[test]
    fn a_value_comes_back_in_the_unit_in_which_it_was_asked_for() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            for (number, value) in [
                (SocketNumber::Mss, 1200),
                (SocketNumber::Dscp, 46),
                (SocketNumber::PacingRate, 80_000_000_000),
                (SocketNumber::UserTimeout, 2_000_000_000),
                (SocketNumber::Priority, 5),
                (SocketNumber::ReusePort, 1),
                (SocketNumber::IncomingCpu, 0),
                (SocketNumber::NotSentLowWater, 16_384),
            ] {
                set(listener.as_fd(), number, value).unwrap();
                assert_eq!(get(listener.as_fd(), number).unwrap(), value, "{number:?} of {address}");
            }
            assert!(set(listener.as_fd(), SocketNumber::Priority, 1 << 40).is_err());
        }
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        set(datagrams.as_fd(), SocketNumber::Dscp, 10).unwrap();
        assert_eq!(get(datagrams.as_fd(), SocketNumber::Dscp).unwrap(), 10);
    }
}
