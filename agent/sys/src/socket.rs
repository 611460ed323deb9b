//! TCP sockets over IPv4 and IPv6.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use iodyno_core::units::Nanos;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};
use rustix::net::{ipproto, sockopt};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};

use crate::buffer::ReceiveScratch;
use crate::socket_option;

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

/// A message of no parts, for no address and without control data.
pub(crate) fn blank_message() -> libc::msghdr {
    // SAFETY: an all-zero msghdr is valid.
    unsafe { std::mem::zeroed() }
}

/// Why this kernel cannot make stream sockets of such a kind; `None`: it can.
pub(crate) fn refusal(family: AddressFamily, protocol: Option<Protocol>) -> Option<io::Error> {
    let made = rustix::net::socket_with(family, SocketType::STREAM, flags(true), protocol);
    made.err().map(io::Error::from)
}

/// An address of a family that the library has none for, as the kernel's header files have it.
pub(crate) struct KernelAddress<T>(pub(crate) T);

// SAFETY: hands on the address and length of a value that outlives the call; the kernel checks what it says.
unsafe impl<T> SocketAddrArg for KernelAddress<T> {
    unsafe fn with_sockaddr<R>(&self, f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R) -> R {
        f(std::ptr::from_ref(&self.0).cast(), size_of::<T>() as SocketAddrLen)
    }
}

/// The family of an address.
pub(crate) fn family(address: &SocketAddr) -> AddressFamily {
    if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    }
}

/// Flags of a socket whose calls wait or not. It is left to no child.
pub(crate) fn flags(waits: bool) -> SocketFlags {
    if waits {
        SocketFlags::CLOEXEC
    } else {
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK
    }
}

/// A non-blocking TCP socket of the family of `address`.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOBUFS`, `EAFNOSUPPORT`.
pub fn tcp(address: &SocketAddr) -> io::Result<OwnedFd> {
    let protocol = Some(ipproto::TCP);
    Ok(rustix::net::socket_with(family(address), SocketType::STREAM, flags(false), protocol)?)
}

/// Gives the socket a local address.
///
/// # Errors
/// `EADDRINUSE`, `EADDRNOTAVAIL`, `EACCES`.
pub fn bind(socket: BorrowedFd<'_>, address: &SocketAddr) -> io::Result<()> {
    Ok(rustix::net::bind(socket, address)?)
}

/// Gives the socket a local address whose port is chosen when it connects: then connections to different places, or from
/// different addresses, may have the same one.
///
/// # Errors
/// `EADDRNOTAVAIL`.
pub fn bind_without_port(socket: BorrowedFd<'_>, address: IpAddr) -> io::Result<()> {
    // The option of IPv4 holds for sockets of both families.
    socket_option::set(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &1_i32)?;
    bind(socket, &SocketAddr::new(address, 0))
}

/// Lets the socket accept, with room for `backlog` connections (the kernel caps it at `somaxconn`).
///
/// # Errors
/// `EADDRINUSE`.
pub fn listen(socket: BorrowedFd<'_>, backlog: u32) -> io::Result<()> {
    Ok(rustix::net::listen(socket, i32::try_from(backlog).unwrap_or(i32::MAX))?)
}

/// Takes one connection as a non-blocking socket.
///
/// # Errors
/// `EAGAIN` when there is none, `EMFILE`, and what came over the network for the connection.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::net::accept_with(listener, flags(false))?)
}

/// Takes one connection as a socket whose calls wait.
///
/// # Errors
/// As [`accept`].
pub fn accept_blocking(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::net::accept_with(listener, flags(true))?)
}

/// Begins to connect; `false`: it goes on, and the socket becomes writable at its end.
///
/// # Errors
/// `ECONNREFUSED`, `EADDRNOTAVAIL` (no local port left), `ENETUNREACH`, ...
pub fn connect(socket: BorrowedFd<'_>, address: &SocketAddr) -> io::Result<bool> {
    connect_to(socket, address)
}

/// Likewise, to an address of any family.
pub(crate) fn connect_to(socket: BorrowedFd<'_>, address: &impl SocketAddrArg) -> io::Result<bool> {
    match rustix::net::connect(socket, address) {
        Ok(()) => Ok(true),
        Err(Errno::INPROGRESS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The address that the socket is bound to.
///
/// # Errors
/// What the kernel said.
pub fn local_address(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    Ok(rustix::net::getsockname(socket)?.try_into()?)
}

/// The error that waits on the socket, if any; reading it takes it away.
///
/// # Errors
/// What the kernel said about the question itself.
pub fn pending_error(socket: BorrowedFd<'_>) -> io::Result<Option<io::Error>> {
    Ok(sockopt::socket_error(socket)?.err().map(io::Error::from))
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
        Direction::Writing => Shutdown::Write,
        Direction::Both => Shutdown::Both,
    };
    Ok(rustix::net::shutdown(socket, how)?)
}

/// Has the socket's close reset the connection and throw away what was not sent, so that the peer learns at
/// once that this end is gone. A close of a connection that was shut for reading sends nothing by itself, and
/// leaves a peer that waits for room waiting.
///
/// # Errors
/// What the kernel said.
pub fn reset_on_close(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(socket, Some(Duration::ZERO))?)
}

/// Has calls that wait give up after `span` (`EAGAIN`; a connect: it goes on). Sockets that a listening one accepts
/// inherit it.
///
/// # Errors
/// What the kernel said.
pub fn set_timeouts(socket: BorrowedFd<'_>, span: Nanos) -> io::Result<()> {
    let time = timeval(span);
    for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        socket_option::set(socket, libc::SOL_SOCKET, name, &time)?;
    }
    Ok(())
}

/// A time as these options have it, in whole microseconds.
pub(crate) fn timeval(span: Nanos) -> libc::timeval {
    libc::timeval {
        tv_sec: (span.0 / 1_000_000_000) as libc::time_t,
        tv_usec: (span.0 % 1_000_000_000 / 1_000) as libc::suseconds_t,
    }
}

/// Has calls on the socket wait (`true`) or give `EAGAIN` (`false`).
///
/// # Errors
/// What the kernel said.
pub fn set_blocking(socket: BorrowedFd<'_>, blocking: bool) -> io::Result<()> {
    let mut flags = rustix::fs::fcntl_getfl(socket)?;
    flags.set(OFlags::NONBLOCK, !blocking);
    Ok(rustix::fs::fcntl_setfl(socket, flags)?)
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
    socket_option::set(socket, level, name, &value)
}

/// The value in force.
///
/// # Errors
/// What the kernel said.
pub fn get(socket: BorrowedFd<'_>, setting: Setting) -> io::Result<i32> {
    let (level, name) = setting.names();
    socket_option::integer(socket, level, name)
}

/// Asks for a congestion control by name.
///
/// # Errors
/// `ENOENT` when the kernel has none of that name, `EPERM` when this user may not choose it.
pub fn set_congestion_control(socket: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    Ok(sockopt::set_tcp_congestion(socket, name)?)
}

/// The congestion control in force.
///
/// # Errors
/// What the kernel said.
pub fn congestion_control(socket: BorrowedFd<'_>) -> io::Result<String> {
    Ok(sockopt::tcp_congestion(socket)?)
}

/// Hands bytes to the kernel; gives how many it took. A closed connection is an error, not a signal.
///
/// # Errors
/// `EAGAIN`, `EINTR`, `EPIPE`, `ECONNRESET`, ...
#[inline]
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

/// Hands over bytes that more will follow at once (`MSG_MORE`), so that the kernel may wait for a full segment.
///
/// # Errors
/// As [`send`].
#[inline]
pub fn send_more(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::MORE)?)
}

/// Takes bytes and forgets them; gives how many, 0 at the end of the stream.
///
/// # Errors
/// `EAGAIN`, `EINTR`, `ECONNRESET`, ...
#[inline]
pub fn receive(socket: BorrowedFd<'_>, scratch: &ReceiveScratch) -> io::Result<usize> {
    forget(socket, scratch, scratch.length(), 0)
}

#[inline]
fn forget(
    socket: BorrowedFd<'_>,
    scratch: &ReceiveScratch,
    bytes: usize,
    flags: libc::c_int,
) -> io::Result<usize> {
    let length = bytes.min(scratch.length());
    // SAFETY: the kernel writes at most the length of the scratch, which nobody reads.
    count(unsafe { libc::recv(socket.as_raw_fd(), scratch.start(), length, flags) })
}

/// Whether the stream has ended and all of it was received; takes nothing and does not wait.
///
/// # Errors
/// What the connection failed of, such as `ECONNRESET`, which nobody else is told then.
pub fn has_ended(socket: BorrowedFd<'_>) -> io::Result<bool> {
    match look_at(socket, &mut [0]) {
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
    forget(socket, scratch, bytes, 0)
}

/// Has the kernel drop bytes of a TCP stream uncopied, as many as the scratch would hold at most (`MSG_TRUNC`, tcp(7));
/// gives how many, 0 at the end of the stream.
///
/// # Errors
/// As [`receive`].
#[inline]
pub fn discard(socket: BorrowedFd<'_>, scratch: &ReceiveScratch) -> io::Result<usize> {
    forget(socket, scratch, scratch.length(), libc::MSG_TRUNC)
}

/// Takes bytes into `place`; gives how many, 0 at the end of the stream.
///
/// # Errors
/// As [`receive`].
#[inline]
pub fn receive_into(socket: BorrowedFd<'_>, place: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, place, RecvFlags::empty())?.0)
}

/// As [`receive_into`], of what stays there to be taken; does not wait.
///
/// # Errors
/// `EAGAIN`: there is nothing; else as [`receive`].
pub fn look_at(socket: BorrowedFd<'_>, place: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, place, RecvFlags::PEEK | RecvFlags::DONTWAIT)?.0)
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
