//! TCP sockets over IPv4 and IPv6.

use std::io;
use std::mem::{size_of, size_of_val};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use iodyno_core::units::Nanos;

use crate::buffer::ReceiveScratch;

/// The kernel's result of a call that gives -1 on error.
pub(crate) fn checked(outcome: libc::c_int) -> io::Result<libc::c_int> {
    if outcome < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(outcome)
}

/// As [`checked`], for calls that give a count of bytes.
#[inline]
pub(crate) fn count(outcome: isize) -> io::Result<usize> {
    usize::try_from(outcome).map_err(|_| io::Error::last_os_error())
}

/// An address in the kernel's form. Both forms at once, because the two share their first bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union Address {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Address {
    pub(crate) fn blank() -> Self {
        // SAFETY: an all-zero sockaddr_in6 is valid, and it is the largest member.
        Address { v6: unsafe { std::mem::zeroed() } }
    }

    pub(crate) fn new(address: &SocketAddr) -> (Self, libc::socklen_t) {
        let mut form = Address::blank();
        let length = match address {
            SocketAddr::V4(v4) => {
                // SAFETY: an all-zero sockaddr_in is valid.
                let mut plain: libc::sockaddr_in = unsafe { std::mem::zeroed() };
                plain.sin_family = libc::AF_INET as libc::sa_family_t;
                plain.sin_port = v4.port().to_be();
                plain.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                form.v4 = plain;
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                // SAFETY: as above.
                let mut plain: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
                plain.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                plain.sin6_port = v6.port().to_be();
                plain.sin6_addr.s6_addr = v6.ip().octets();
                plain.sin6_flowinfo = v6.flowinfo();
                plain.sin6_scope_id = v6.scope_id();
                form.v6 = plain;
                size_of::<libc::sockaddr_in6>()
            }
        };
        (form, length as libc::socklen_t)
    }

    fn read(&self) -> io::Result<SocketAddr> {
        // SAFETY: the union was zeroed whole before the kernel wrote to it, so that every member is
        // initialised, and every bit pattern is valid in all of them.
        let (family, v4, v6) = unsafe { (self.family, self.v4, self.v6) };
        match libc::c_int::from(family) {
            libc::AF_INET => {
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Ok(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Ok(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)),
        }
    }

    pub(crate) fn as_ptr(&self) -> *const libc::sockaddr {
        std::ptr::from_ref(self).cast()
    }
}

/// A non-blocking TCP socket of the family of `address`.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOBUFS`, `EAFNOSUPPORT`.
pub fn tcp(address: &SocketAddr) -> io::Result<OwnedFd> {
    open_tcp(address, libc::SOCK_NONBLOCK)
}

/// The same as a socket whose calls wait.
///
/// # Errors
/// As [`tcp`].
pub fn tcp_blocking(address: &SocketAddr) -> io::Result<OwnedFd> {
    open_tcp(address, 0)
}

fn open_tcp(address: &SocketAddr, flags: libc::c_int) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | flags;
    // SAFETY: touches no memory of this process.
    let fd = checked(unsafe { libc::socket(family, kind, libc::IPPROTO_TCP) })?;
    // SAFETY: `fd` is open and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Gives the socket a local address.
///
/// # Errors
/// `EADDRINUSE`, `EADDRNOTAVAIL`, `EACCES`.
pub fn bind(socket: BorrowedFd<'_>, address: &SocketAddr) -> io::Result<()> {
    let (form, length) = Address::new(address);
    // SAFETY: the kernel reads `length` bytes of `form`, which has that many.
    checked(unsafe { libc::bind(socket.as_raw_fd(), form.as_ptr(), length) }).map(drop)
}

/// Gives the socket a local address whose port is chosen when it connects: then connections to different places, or from
/// different addresses, may have the same one.
///
/// # Errors
/// `EADDRNOTAVAIL`.
pub fn bind_without_port(socket: BorrowedFd<'_>, address: std::net::IpAddr) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = size_of_val(&on) as libc::socklen_t;
    let place = std::ptr::from_ref(&on).cast();
    // The option of IPv4 holds for sockets of both families.
    // SAFETY: the kernel reads `length` bytes of `on`, which has that many.
    checked(unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, place, length)
    })?;
    bind(socket, &SocketAddr::new(address, 0))
}

/// Lets the socket accept, with room for `backlog` connections (the kernel caps it at `somaxconn`).
///
/// # Errors
/// `EADDRINUSE`.
pub fn listen(socket: BorrowedFd<'_>, backlog: u32) -> io::Result<()> {
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    // SAFETY: touches no memory of this process.
    checked(unsafe { libc::listen(socket.as_raw_fd(), backlog) }).map(drop)
}

/// Takes one connection as a non-blocking socket.
///
/// # Errors
/// `EAGAIN` when there is none, `EMFILE`, and what came over the network for the connection.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    accept_with(listener, libc::SOCK_NONBLOCK)
}

/// Takes one connection as a socket whose calls wait.
///
/// # Errors
/// As [`accept`].
pub fn accept_blocking(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    accept_with(listener, 0)
}

fn accept_with(listener: BorrowedFd<'_>, flags: libc::c_int) -> io::Result<OwnedFd> {
    let flags = flags | libc::SOCK_CLOEXEC;
    // SAFETY: null for the address is allowed and means that it is not wanted.
    let fd = checked(unsafe {
        libc::accept4(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags)
    })?;
    // SAFETY: `fd` is open and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Begins to connect; `false`: it goes on, and the socket becomes writable at its end.
///
/// # Errors
/// `ECONNREFUSED`, `EADDRNOTAVAIL` (no local port left), `ENETUNREACH`, ...
pub fn connect(socket: BorrowedFd<'_>, address: &SocketAddr) -> io::Result<bool> {
    let (form, length) = Address::new(address);
    // SAFETY: the kernel reads `length` bytes of `form`, which has that many.
    match checked(unsafe { libc::connect(socket.as_raw_fd(), form.as_ptr(), length) }) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The address that the socket is bound to.
///
/// # Errors
/// What the kernel said.
pub fn local_address(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let mut form = Address::blank();
    let mut length = size_of::<Address>() as libc::socklen_t;
    let place = std::ptr::from_mut(&mut form).cast();
    // SAFETY: the kernel writes at most `length` bytes into `form`, which has that many.
    checked(unsafe { libc::getsockname(socket.as_raw_fd(), place, &mut length) })?;
    form.read()
}

/// The error that waits on the socket, if any; reading it takes it away.
///
/// # Errors
/// What the kernel said about the question itself.
pub fn pending_error(socket: BorrowedFd<'_>) -> io::Result<Option<io::Error>> {
    let error = integer(socket, libc::SOL_SOCKET, libc::SO_ERROR)?;
    Ok((error != 0).then(|| io::Error::from_raw_os_error(error)))
}

/// Which direction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Nothing more will be sent: the peer reads to the end.
    Writing,
    /// Both, at once: whoever is blocked in a call on the socket wakes up.
    Both,
}

/// Ends one direction or both.
///
/// # Errors
/// `ENOTCONN` when the connection is already gone.
pub fn shutdown(socket: BorrowedFd<'_>, direction: Direction) -> io::Result<()> {
    let how = match direction {
        Direction::Writing => libc::SHUT_WR,
        Direction::Both => libc::SHUT_RDWR,
    };
    // SAFETY: touches no memory of this process.
    checked(unsafe { libc::shutdown(socket.as_raw_fd(), how) }).map(drop)
}

/// Has the socket's close reset the connection and throw away what was not sent, so that the peer learns at
/// once that this end is gone. A close of a connection that was shut for reading sends nothing by itself, and
/// leaves a peer that waits for room waiting.
///
/// # Errors
/// What the kernel said.
pub fn reset_on_close(socket: BorrowedFd<'_>) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let length = size_of_val(&linger) as libc::socklen_t;
    let place = std::ptr::from_ref(&linger).cast();
    // SAFETY: the kernel reads `length` bytes of `linger`, which has that many.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, place, length) })
        .map(drop)
}

/// Has calls that wait give up after `span` (`EAGAIN`; a connect: it goes on). Sockets that a listening one accepts
/// inherit it.
///
/// # Errors
/// What the kernel said.
pub fn set_timeouts(socket: BorrowedFd<'_>, span: Nanos) -> io::Result<()> {
    let time = libc::timeval {
        tv_sec: (span.0 / 1_000_000_000) as libc::time_t,
        tv_usec: (span.0 % 1_000_000_000 / 1_000) as libc::suseconds_t,
    };
    let length = size_of_val(&time) as libc::socklen_t;
    for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let place = std::ptr::from_ref(&time).cast();
        // SAFETY: the kernel reads `length` bytes of `time`, which has that many.
        checked(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, place, length) })?;
    }
    Ok(())
}

/// Has calls on the socket wait (`true`) or give `EAGAIN` (`false`).
///
/// # Errors
/// What the kernel said.
pub fn set_blocking(socket: BorrowedFd<'_>, blocking: bool) -> io::Result<()> {
    // SAFETY: touches no memory of this process.
    let flags = checked(unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_GETFL) })?;
    let flags = if blocking { flags & !libc::O_NONBLOCK } else { flags | libc::O_NONBLOCK };
    // SAFETY: as above.
    checked(unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, flags) }).map(drop)
}

/// A socket option that is an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `SO_SNDBUF` in bytes. The kernel doubles what it is given.
    SendBuffer,
    /// `SO_RCVBUF` in bytes. Likewise.
    ReceiveBuffer,
    /// `TCP_NODELAY`: 1 turns Nagle's algorithm off.
    NoDelay,
    /// `TCP_MAXSEG`: payload of a full segment in bytes.
    Segment,
    /// `SO_REUSEADDR`: listen although old connections of the port still linger.
    ReuseAddress,
    /// `SO_REUSEPORT`: several sockets on one port, which share the flows.
    ReusePort,
    /// `SO_BUSY_POLL` in microseconds: how long a call looks at the device's queue before it sleeps.
    BusyPoll,
    /// `SO_RCVLOWAT` in bytes: who waits to read is woken when so much is there. The kernel caps it by half of the
    /// receive buffer.
    ReceiveLowWater,
    /// `TCP_QUICKACK`: 1 takes the connection for a one-way one again, whose data are acknowledged as they are read; the
    /// kernel goes on to judge that by itself.
    QuickAck,
}

impl Setting {
    fn names(self) -> (libc::c_int, libc::c_int) {
        match self {
            Setting::SendBuffer => (libc::SOL_SOCKET, libc::SO_SNDBUF),
            Setting::ReceiveBuffer => (libc::SOL_SOCKET, libc::SO_RCVBUF),
            Setting::NoDelay => (libc::IPPROTO_TCP, libc::TCP_NODELAY),
            Setting::Segment => (libc::IPPROTO_TCP, libc::TCP_MAXSEG),
            Setting::ReuseAddress => (libc::SOL_SOCKET, libc::SO_REUSEADDR),
            Setting::ReusePort => (libc::SOL_SOCKET, libc::SO_REUSEPORT),
            Setting::BusyPoll => (libc::SOL_SOCKET, libc::SO_BUSY_POLL),
            Setting::ReceiveLowWater => (libc::SOL_SOCKET, libc::SO_RCVLOWAT),
            Setting::QuickAck => (libc::IPPROTO_TCP, libc::TCP_QUICKACK),
        }
    }
}

/// Asks for `value`. What the kernel makes of it, [`get`] tells.
///
/// # Errors
/// What the kernel said.
pub fn set(socket: BorrowedFd<'_>, setting: Setting, value: i32) -> io::Result<()> {
    let (level, name) = setting.names();
    let length = size_of_val(&value) as libc::socklen_t;
    let place = std::ptr::from_ref(&value).cast();
    // SAFETY: the kernel reads `length` bytes of `value`, which has that many.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, place, length) }).map(drop)
}

/// The value in force.
///
/// # Errors
/// What the kernel said.
pub fn get(socket: BorrowedFd<'_>, setting: Setting) -> io::Result<i32> {
    let (level, name) = setting.names();
    integer(socket, level, name)
}

pub(crate) fn integer(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> io::Result<i32> {
    let mut value = 0_i32;
    let mut length = size_of_val(&value) as libc::socklen_t;
    let place = std::ptr::from_mut(&mut value).cast();
    // SAFETY: the kernel writes at most `length` bytes into `value`, which has that many.
    checked(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, place, &mut length) })?;
    Ok(value)
}

/// Asks for a congestion control by name.
///
/// # Errors
/// `ENOENT` when the kernel has none of that name, `EPERM` when this user may not choose it.
pub fn set_congestion_control(socket: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let length = name.len() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of `name`, which has that many.
    checked(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            length,
        )
    })
    .map(drop)
}

/// The congestion control in force.
///
/// # Errors
/// What the kernel said.
pub fn congestion_control(socket: BorrowedFd<'_>) -> io::Result<String> {
    // The kernel's names have 16 bytes at most (TCP_CA_NAME_MAX).
    let mut name = [0_u8; 16];
    let mut length = name.len() as libc::socklen_t;
    let place = name.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `length` bytes into `name`, which has that many.
    checked(unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, place, &mut length)
    })?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Hands bytes to the kernel; gives how many it took. A closed connection is an error, not a signal.
///
/// # Errors
/// `EAGAIN`, `EINTR`, `EPIPE`, `ECONNRESET`, ...
#[inline]
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the kernel reads the length of `bytes`, which has that many.
    count(unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) })
}

/// Takes bytes and forgets them; gives how many, 0 at the end of the stream.
///
/// # Errors
/// `EAGAIN`, `EINTR`, `ECONNRESET`, ...
#[inline]
pub fn receive(socket: BorrowedFd<'_>, scratch: &ReceiveScratch) -> io::Result<usize> {
    // SAFETY: the kernel writes at most the length of the scratch, which nobody reads.
    count(unsafe { libc::recv(socket.as_raw_fd(), scratch.start(), scratch.length(), 0) })
}

/// Whether the stream has ended and all of it was received; takes nothing and does not wait.
///
/// # Errors
/// What the connection failed of, such as `ECONNRESET`, which nobody else is told then.
pub fn has_ended(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut byte = 0_u8;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the kernel writes one byte at most.
    match count(unsafe { libc::recv(socket.as_raw_fd(), (&raw mut byte).cast(), 1, flags) }) {
        Ok(count) => Ok(count == 0),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// As [`receive`], `bytes` at most. To ask for all of them (`MSG_WAITALL`) costs more: 0.474 s of CPU a GB where this takes
/// 0.455 (64 KiB x 100, Linux 6.18).
///
/// # Errors
/// As [`receive`].
#[inline]
pub fn receive_at_most(socket: BorrowedFd<'_>, scratch: &ReceiveScratch, bytes: usize) -> io::Result<usize> {
    let length = bytes.min(scratch.length());
    // SAFETY: as in `receive`.
    count(unsafe { libc::recv(socket.as_raw_fd(), scratch.start(), length, 0) })
}

/// Has the kernel drop bytes of a TCP stream uncopied, as many as the scratch would hold at most (`MSG_TRUNC`, tcp(7));
/// gives how many, 0 at the end of the stream.
///
/// # Errors
/// As [`receive`].
#[inline]
pub fn discard(socket: BorrowedFd<'_>, scratch: &ReceiveScratch) -> io::Result<usize> {
    // SAFETY: the kernel writes nothing; were it to, then at most the length of the scratch, which nobody reads.
    count(unsafe { libc::recv(socket.as_raw_fd(), scratch.start(), scratch.length(), libc::MSG_TRUNC) })
}

/// Takes bytes into `place`; gives how many, 0 at the end of the stream.
///
/// # Errors
/// As [`receive`].
pub fn receive_into(socket: BorrowedFd<'_>, place: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most the length of `place`, which has that many.
    count(unsafe { libc::recv(socket.as_raw_fd(), place.as_mut_ptr().cast(), place.len(), 0) })
}

/// As [`receive_into`], of what stays there to be taken; does not wait.
///
/// # Errors
/// `EAGAIN`: there is nothing; else as [`receive`].
pub fn look_at(socket: BorrowedFd<'_>, place: &mut [u8]) -> io::Result<usize> {
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the kernel writes at most the length of `place`, which has that many.
    count(unsafe { libc::recv(socket.as_raw_fd(), place.as_mut_ptr().cast(), place.len(), flags) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn listening(address: &str) -> Option<(OwnedFd, SocketAddr)> {
        let address: SocketAddr = address.parse().unwrap();
        let socket = tcp(&address).ok()?;
        bind(socket.as_fd(), &address).ok()?;
        listen(socket.as_fd(), 4).unwrap();
        let address = local_address(socket.as_fd()).unwrap();
        Some((socket, address))
    }

    #[test]
    fn bytes_travel_over_both_families() {
        // A machine without IPv6 cannot bind ::1; the other family is tested anyway.
        let addresses = ["127.0.0.1:0", "[::1]:0"];
        let ends: Vec<_> = addresses.iter().filter_map(|address| listening(address)).collect();
        assert!(!ends.is_empty());
        for (listener, address) in ends {
            assert_ne!(address.port(), 0);
            let near = tcp(&address).unwrap();
            connect(near.as_fd(), &address).unwrap();
            set_blocking(listener.as_fd(), true).unwrap();
            let far = accept(listener.as_fd()).unwrap();
            assert_eq!(pending_error(near.as_fd()).unwrap().map(|e| e.to_string()), None);
            set_blocking(near.as_fd(), true).unwrap();
            set_blocking(far.as_fd(), true).unwrap();
            assert_eq!(send(near.as_fd(), b"seventeen bytes..").unwrap(), 17);
            let mut place = [0; 5];
            assert_eq!(receive_into(far.as_fd(), &mut place).unwrap(), 5);
            assert_eq!(&place, b"seven");
            assert_eq!(receive(far.as_fd(), &ReceiveScratch::new(64).unwrap()).unwrap(), 12);
            shutdown(near.as_fd(), Direction::Writing).unwrap();
            assert_eq!(receive_into(far.as_fd(), &mut place).unwrap(), 0);
        }
    }

    #[test]
    fn what_was_asked_can_be_read_back() {
        let socket = tcp(&"127.0.0.1:1".parse().unwrap()).unwrap();
        let socket = socket.as_fd();
        set(socket, Setting::SendBuffer, 32_768).unwrap();
        assert_eq!(get(socket, Setting::SendBuffer).unwrap(), 65_536);
        set(socket, Setting::NoDelay, 1).unwrap();
        assert_ne!(get(socket, Setting::NoDelay).unwrap(), 0);
        let name = congestion_control(socket).unwrap();
        set_congestion_control(socket, &name).unwrap();
        assert_eq!(set_congestion_control(socket, "nosuch").unwrap_err().raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn what_is_discarded_is_gone_and_was_never_copied() {
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listener = std::net::TcpListener::bind(address).unwrap();
        let mut far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (near, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut far, b"abcdefgh").unwrap();
        let scratch = ReceiveScratch::new(5).unwrap();
        let mut taken = 0;
        while taken < 5 {
            taken += discard(near.as_fd(), &ReceiveScratch::new(5 - taken).unwrap()).unwrap();
        }
        let mut rest = [0; 3];
        std::io::Read::read_exact(&mut &near, &mut rest).unwrap();
        assert_eq!(&rest, b"fgh");
        std::io::Write::write_all(&mut far, b"ijklm").unwrap();
        assert!(discard(near.as_fd(), &scratch).unwrap() > 0);
        // SAFETY: the scratch has that many bytes, zero-filled from the start, and nobody writes to it now.
        let memory = unsafe { std::slice::from_raw_parts(scratch.start().cast::<u8>(), 5) };
        assert_eq!(memory, [0; 5]);
        drop(far);
        while discard(near.as_fd(), &scratch).unwrap() > 0 {}
    }
}
