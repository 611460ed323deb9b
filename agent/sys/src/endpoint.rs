//! Where sockets with connections listen and connect: an address of TCP or SCTP, of the Unix domain, or of vsock.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::net::{ipproto, AddressFamily, SocketAddrUnix, SocketType};

use crate::socket::{self, KernelAddress};

/// Longest name of a Unix socket: what `sockaddr_un` holds, but the zero that ends a path and begins an abstract name.
pub const MAX_NAME_BYTES: usize = 107;
/// Every context of vsock: this machine, whatever its number is.
pub const ANY_CONTEXT: u32 = libc::VMADDR_CID_ANY;

/// Where a stream socket listens, or connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// TCP over IPv4 or IPv6.
    Inet(SocketAddr),
    /// SCTP over IPv4 or IPv6, an association a socket.
    Sctp(SocketAddr),
    /// A name of the Unix domain that is no file: it belongs to the network namespace, and is gone with the socket.
    Abstract(String),
    /// A Unix socket that is a file.
    File(PathBuf),
    /// Between virtual machines and their host.
    Vsock {
        /// Number of the machine; 1: this one, 2: its host.
        context: u32,
        /// Port there.
        port: u32,
    },
}

impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Inet(address) => address.fmt(out),
            Endpoint::Sctp(address) => write!(out, "sctp {address}"),
            Endpoint::Abstract(name) => write!(out, "unix @{name}"),
            Endpoint::File(path) => write!(out, "unix {}", path.display()),
            Endpoint::Vsock { context: ANY_CONTEXT, port } => write!(out, "vsock port {port}"),
            Endpoint::Vsock { context, port } => write!(out, "vsock {context}:{port}"),
        }
    }
}

fn unix(name: &[u8], is_abstract: bool) -> io::Result<SocketAddrUnix> {
    if name.len() > MAX_NAME_BYTES || name.is_empty() || name.contains(&0) {
        return Err(Errno::NAMETOOLONG.into());
    }
    Ok(if is_abstract { SocketAddrUnix::new_abstract_name(name) } else { SocketAddrUnix::new(name) }?)
}

fn vsock(context: u32, port: u32) -> KernelAddress<[u32; 4]> {
    // `struct sockaddr_vm`: the family and two bytes of zeros, port, context, flags and zeros.
    let [low, high] = (libc::AF_VSOCK as u16).to_ne_bytes();
    KernelAddress([u32::from_ne_bytes([low, high, 0, 0]), port, context, 0])
}

impl Endpoint {
    /// A stream socket for it, whose calls wait or not.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOBUFS`, `EAFNOSUPPORT`.
    pub fn socket(&self, waits: bool) -> io::Result<OwnedFd> {
        let (family, protocol) = match self {
            Endpoint::Inet(address) => (socket::family(address), Some(ipproto::TCP)),
            Endpoint::Sctp(address) => (socket::family(address), Some(ipproto::SCTP)),
            Endpoint::Abstract(_) | Endpoint::File(_) => (AddressFamily::UNIX, None),
            Endpoint::Vsock { .. } => (AddressFamily::VSOCK, None),
        };
        Ok(rustix::net::socket_with(family, SocketType::STREAM, socket::flags(waits), protocol)?)
    }

    /// Whether sockets that a listening one accepts have its options and times to wait (TCP) or those of a new
    /// socket.
    #[must_use]
    pub fn accepts_with_options(&self) -> bool {
        matches!(self, Endpoint::Inet(_))
    }
}

/// Has the socket listen there, once [`crate::socket::listen`] is called.
///
/// # Errors
/// `EADDRINUSE`, `EADDRNOTAVAIL`, `EACCES`, `ENOENT`.
pub fn bind(socket: BorrowedFd<'_>, endpoint: &Endpoint) -> io::Result<()> {
    Ok(match endpoint {
        Endpoint::Inet(address) | Endpoint::Sctp(address) => rustix::net::bind(socket, address),
        Endpoint::Abstract(name) => rustix::net::bind(socket, &unix(name.as_bytes(), true)?),
        Endpoint::File(path) => rustix::net::bind(socket, &unix(path.as_os_str().as_bytes(), false)?),
        Endpoint::Vsock { context, port } => rustix::net::bind(socket, &vsock(*context, *port)),
    }?)
}

/// Begins to connect; `false`: it goes on, and the socket becomes writable at its end.
///
/// # Errors
/// As [`crate::socket::connect`]; `EAGAIN` where a Unix socket's queue of connections is full.
pub fn connect(socket: BorrowedFd<'_>, endpoint: &Endpoint) -> io::Result<bool> {
    match endpoint {
        Endpoint::Inet(address) | Endpoint::Sctp(address) => socket::connect(socket, address),
        Endpoint::Abstract(name) => socket::connect_to(socket, &unix(name.as_bytes(), true)?),
        Endpoint::File(path) => socket::connect_to(socket, &unix(path.as_os_str().as_bytes(), false)?),
        Endpoint::Vsock { context, port } => socket::connect_to(socket, &vsock(*context, *port)),
    }
}

/// Where the socket is bound, given where it was to be: the kernel chooses a port where 0 was asked for.
///
/// # Errors
/// What the kernel said.
pub fn bound(socket: BorrowedFd<'_>, asked: &Endpoint) -> io::Result<Endpoint> {
    match asked {
        Endpoint::Inet(_) => socket::local_address(socket).map(Endpoint::Inet),
        Endpoint::Sctp(_) => socket::local_address(socket).map(Endpoint::Sctp),
        other => Ok(other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{accept, listen, receive_into, send, set_blocking};
    use std::os::fd::AsFd;

    fn carries(endpoint: &Endpoint) {
        let listener = endpoint.socket(true).unwrap();
        bind(listener.as_fd(), endpoint).unwrap();
        listen(listener.as_fd(), 4).unwrap();
        let endpoint = bound(listener.as_fd(), endpoint).unwrap();
        let near = endpoint.socket(false).unwrap();
        connect(near.as_fd(), &endpoint).unwrap();
        let far = accept(listener.as_fd()).unwrap();
        set_blocking(far.as_fd(), true).unwrap();
        assert_eq!(send(near.as_fd(), b"word").unwrap(), 4);
        let mut place = [0; 8];
        assert_eq!(receive_into(far.as_fd(), &mut place).unwrap(), 4, "{endpoint}");
    }

    #[test]
    fn bytes_travel_between_the_ends_of_every_kind() {
        carries(&Endpoint::Inet("127.0.0.1:0".parse().unwrap()));
        let name = format!("iodyno-test-{}", std::process::id());
        carries(&Endpoint::Abstract(name.clone()));
        let names = std::fs::read_to_string("/proc/net/unix").unwrap();
        assert!(!names.contains(&name), "an abstract name is gone with its socket");
        let file = std::env::temp_dir().join(name);
        carries(&Endpoint::File(file.clone()));
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn names_that_no_socket_can_have_are_refused() {
        for name in [String::new(), "a\0b".to_owned(), "x".repeat(MAX_NAME_BYTES + 1)] {
            let endpoint = Endpoint::Abstract(name);
            let socket = endpoint.socket(false).unwrap();
            assert_eq!(bind(socket.as_fd(), &endpoint).unwrap_err().raw_os_error(), Some(libc::ENAMETOOLONG));
        }
        let longest = Endpoint::Abstract("y".repeat(MAX_NAME_BYTES));
        bind(longest.socket(false).unwrap().as_fd(), &longest).unwrap();
    }
}
