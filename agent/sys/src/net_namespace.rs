//! Which network namespace this process is in.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use crate::socket_option;

/// A number that no other network namespace has until the machine starts anew (socket(7), `SO_NETNS_COOKIE`, since
/// Linux 5.14). The inode of a namespace, by contrast, is given out again.
///
/// # Errors
/// What the kernel said.
pub fn cookie() -> io::Result<u64> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let (cookie, _) = socket_option::get(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NETNS_COOKIE)?;
    Ok(u64::from_ne_bytes(cookie))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_namespace_has_one_number() {
        assert_eq!(super::cookie().ok(), super::cookie().ok());
    }
}
