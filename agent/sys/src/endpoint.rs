//! Where sockets with connections listen and connect: an address of TCP or SCTP, of the Unix domain, or of vsock.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::mem::{offset_of, size_of};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::socket::{self, checked};

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

/// An address in the kernel's form, with its length.
#[repr(C)]
union Form {
    unix: libc::sockaddr_un,
    vsock: libc::sockaddr_vm,
}

impl Form {
    fn blank() -> Self {
        // SAFETY: an all-zero sockaddr_un is valid, and it is the larger member.
        Form { unix: unsafe { std::mem::zeroed() } }
    }

    fn unix(name: &[u8], is_abstract: bool) -> io::Result<(Self, libc::socklen_t)> {
        if name.len() > MAX_NAME_BYTES || name.is_empty() || name.contains(&0) {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        let mut form = Form::blank();
        // SAFETY: the union was zeroed whole, so that this member is initialised.
        let mut plain = unsafe { form.unix };
        plain.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let before = usize::from(is_abstract);
        for (place, byte) in plain.sun_path[before..].iter_mut().zip(name) {
            *place = *byte as libc::c_char;
        }
        form.unix = plain;
        // An abstract name ends where the address ends, a path with a zero.
        let length = offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
        Ok((form, length as libc::socklen_t))
    }

    fn vsock(context: u32, port: u32) -> (Self, libc::socklen_t) {
        let mut form = Form::blank();
        // SAFETY: an all-zero sockaddr_vm is valid.
        let mut plain: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
        plain.svm_family = libc::AF_VSOCK as libc::sa_family_t;
        plain.svm_cid = context;
        plain.svm_port = port;
        form.vsock = plain;
        (form, size_of::<libc::sockaddr_vm>() as libc::socklen_t)
    }
}

impl Endpoint {
    fn form(&self) -> io::Result<(Form, libc::socklen_t)> {
        match self {
            Endpoint::Abstract(name) => Form::unix(name.as_bytes(), true),
            Endpoint::File(path) => Form::unix(OsStr::as_bytes(path.as_os_str()), false),
            Endpoint::Vsock { context, port } => Ok(Form::vsock(*context, *port)),
            Endpoint::Inet(_) | Endpoint::Sctp(_) => Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)),
        }
    }

    /// A stream socket for it, whose calls wait or not.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOBUFS`, `EAFNOSUPPORT`.
    pub fn socket(&self, waits: bool) -> io::Result<OwnedFd> {
        let (family, protocol) = match self {
            Endpoint::Inet(address) if waits => return socket::tcp_blocking(address),
            Endpoint::Inet(address) => return socket::tcp(address),
            Endpoint::Sctp(address) if address.is_ipv4() => (libc::AF_INET, libc::IPPROTO_SCTP),
            Endpoint::Sctp(_) => (libc::AF_INET6, libc::IPPROTO_SCTP),
            Endpoint::Abstract(_) | Endpoint::File(_) => (libc::AF_UNIX, 0),
            Endpoint::Vsock { .. } => (libc::AF_VSOCK, 0),
        };
        let flags = if waits { 0 } else { libc::SOCK_NONBLOCK };
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | flags;
        // SAFETY: touches no memory of this process.
        let fd = checked(unsafe { libc::socket(family, kind, protocol) })?;
        // SAFETY: `fd` is open and nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
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
    if let Endpoint::Inet(address) | Endpoint::Sctp(address) = endpoint {
        return socket::bind(socket, address);
    }
    let (form, length) = endpoint.form()?;
    // SAFETY: the kernel reads `length` bytes of `form`, which has that many.
    checked(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&form).cast(), length) }).map(drop)
}

/// Begins to connect; `false`: it goes on, and the socket becomes writable at its end.
///
/// # Errors
/// As [`crate::socket::connect`]; `EAGAIN` where a Unix socket's queue of connections is full.
pub fn connect(socket: BorrowedFd<'_>, endpoint: &Endpoint) -> io::Result<bool> {
    if let Endpoint::Inet(address) | Endpoint::Sctp(address) = endpoint {
        return socket::connect(socket, address);
    }
    let (form, length) = endpoint.form()?;
    // SAFETY: the kernel reads `length` bytes of `form`, which has that many.
    match checked(unsafe { libc::connect(socket.as_raw_fd(), std::ptr::from_ref(&form).cast(), length) }) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(false),
        Err(error) => Err(error),
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
