//! Calls on one socket by a thread that waits for a bounded time, so that it can look up from time to time.

use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use iodyno_core::units::Nanos;

use crate::buffer::ReceiveScratch;

fn checked(outcome: libc::c_int) -> io::Result<libc::c_int> {
    if outcome < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(outcome)
}

#[inline]
fn count(outcome: isize) -> io::Result<usize> {
    usize::try_from(outcome).map_err(|_| io::Error::last_os_error())
}

/// Why this kernel cannot make vsock sockets; `None`: it can.
#[must_use]
pub fn vsock_refusal() -> Option<io::Error> {
    refusal(libc::AF_VSOCK, libc::SOCK_STREAM, 0)
}

/// Why this kernel cannot make such sockets; `None`: it can.
pub(crate) fn refusal(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> Option<io::Error> {
    // SAFETY: touches no memory of this process.
    match checked(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) }) {
        Ok(fd) => {
            // SAFETY: `fd` is open and nobody else owns it.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
            None
        }
        Err(error) => Some(error),
    }
}

/// Has calls on a blocking socket end with `EAGAIN` when they could do nothing for this time.
///
/// # Errors
/// What the kernel said.
pub fn wait_at_most(socket: BorrowedFd<'_>, time: Nanos) -> io::Result<()> {
    let time = libc::timeval {
        tv_sec: (time.0 / 1_000_000_000) as libc::time_t,
        tv_usec: (time.0 % 1_000_000_000 / 1_000) as libc::suseconds_t,
    };
    for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let place = std::ptr::from_ref(&time).cast();
        let length = size_of_val(&time) as libc::socklen_t;
        // SAFETY: the kernel reads `length` bytes of `time`, which has that many.
        checked(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, place, length) })?;
    }
    Ok(())
}

/// What a socket is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Something can be taken, or the peer ended.
    Readable,
    /// Something can be sent, or a connection came up or failed.
    Writable,
}

/// Waits for the socket, for `time` at most; whether it is as wanted, or broken.
///
/// # Errors
/// `EINTR`, `ENOMEM`.
pub fn wait_for(socket: BorrowedFd<'_>, until: Until, time: Nanos) -> io::Result<bool> {
    let events = match until {
        Until::Readable => libc::POLLIN,
        Until::Writable => libc::POLLOUT,
    };
    let mut entry = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
    let time = libc::timespec {
        tv_sec: (time.0 / 1_000_000_000) as libc::time_t,
        tv_nsec: (time.0 % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: one entry that outlives the call, and a valid timespec; no signal mask.
    checked(unsafe { libc::ppoll(&mut entry, 1, &time, std::ptr::null()) }).map(|ready| ready > 0)
}

/// `read`: takes `length` bytes at most (and what the scratch holds) and forgets them; 0 at the end of a stream.
///
/// # Errors
/// `EAGAIN`, `EINTR`, `ECONNRESET`, ...
#[inline]
pub fn read(socket: BorrowedFd<'_>, scratch: &ReceiveScratch, length: usize) -> io::Result<usize> {
    let length = length.min(scratch.length());
    // SAFETY: the kernel writes at most the length of the scratch, which nobody reads.
    count(unsafe { libc::read(socket.as_raw_fd(), scratch.start(), length) })
}

/// `recv`: as [`read`].
///
/// # Errors
/// As [`read`].
#[inline]
pub fn receive(socket: BorrowedFd<'_>, scratch: &ReceiveScratch, length: usize) -> io::Result<usize> {
    let length = length.min(scratch.length());
    // SAFETY: as in `read`.
    count(unsafe { libc::recv(socket.as_raw_fd(), scratch.start(), length, 0) })
}

/// `write`: hands bytes to the kernel; gives how many it took. A closed connection is an error: this process ignores
/// `SIGPIPE`, as all programs in Rust do.
///
/// # Errors
/// `EAGAIN`, `EINTR`, `EPIPE`, `ECONNRESET`, ...
#[inline]
pub fn write(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the kernel reads the length of `bytes`, which has that many.
    count(unsafe { libc::write(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) })
}

/// `writev`: as [`write`], of two pieces that go as one.
///
/// # Errors
/// As [`write`].
#[inline]
pub fn write_joined(socket: BorrowedFd<'_>, pieces: [&[u8]; 2]) -> io::Result<usize> {
    let pieces = pieces.map(vector);
    // SAFETY: the kernel reads the length of each piece, which has that many.
    count(unsafe { libc::writev(socket.as_raw_fd(), pieces.as_ptr(), pieces.len() as libc::c_int) })
}

/// `sendmsg`: as [`write_joined`].
///
/// # Errors
/// As [`write`].
#[inline]
pub fn send_joined(socket: BorrowedFd<'_>, pieces: [&[u8]; 2]) -> io::Result<usize> {
    let mut pieces = pieces.map(vector);
    // SAFETY: all zero is a header of no address, no pieces and no control data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = pieces.as_mut_ptr();
    header.msg_iovlen = pieces.len() as _;
    // SAFETY: as in `write_joined`; the kernel does not write to them.
    count(unsafe { libc::sendmsg(socket.as_raw_fd(), &header, libc::MSG_NOSIGNAL) })
}

fn vector(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

/// Bytes that a socket was given and that have not left it, with what the kernel adds to them.
///
/// # Errors
/// What the kernel said.
pub fn on_its_way(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int, which outlives the call.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) })?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// `send`, of bytes that more will follow at once: the kernel waits for them, and sends both together.
///
/// # Errors
/// As [`write`].
pub fn send_before_more(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_MORE;
    // SAFETY: the kernel reads the length of `bytes`, which has that many.
    count(unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) })
}

/// `sendfile`: hands `length` bytes of a file from `offset` on to the kernel; gives how many it took, 0 at the end of
/// the file.
///
/// # Errors
/// As [`write`], and `EINVAL` for a file that cannot be mapped.
#[inline]
pub fn send_file(
    socket: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    length: usize,
) -> io::Result<usize> {
    let mut offset = offset as libc::off_t;
    // SAFETY: the kernel reads and writes `offset`, which outlives the call.
    count(unsafe { libc::sendfile(socket.as_raw_fd(), file.as_raw_fd(), &mut offset, length) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn two_pieces_go_as_one_datagram_and_are_not_on_their_way_for_ever() {
        let (near, far) = std::os::unix::net::UnixDatagram::pair().unwrap();
        assert_eq!(write_joined(near.as_fd(), [b"head", b" and rest"]).unwrap(), 13);
        assert_eq!(send_joined(near.as_fd(), [b"head", b""]).unwrap(), 4);
        assert!(on_its_way(near.as_fd()).unwrap() > 0);
        let mut bytes = [0; 20];
        assert_eq!(far.recv(&mut bytes).unwrap(), 13);
        assert_eq!(&bytes[..13], b"head and rest");
        assert_eq!(far.recv(&mut bytes).unwrap(), 4);
        assert_eq!(on_its_way(near.as_fd()).unwrap(), 0);
    }

    #[test]
    fn a_call_that_can_do_nothing_comes_back() {
        let (near, far) = UnixStream::pair().unwrap();
        wait_at_most(near.as_fd(), Nanos(10_000_000)).unwrap();
        let scratch = ReceiveScratch::new(64).unwrap();
        let refused = read(near.as_fd(), &scratch, 64).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EAGAIN));
        assert!(!wait_for(near.as_fd(), Until::Readable, Nanos(1_000)).unwrap());
        assert_eq!(write(far.as_fd(), b"twelve bytes").unwrap(), 12);
        assert!(wait_for(near.as_fd(), Until::Readable, Nanos(0)).unwrap());
        assert_eq!(read(near.as_fd(), &scratch, 5).unwrap(), 5);
        assert_eq!(receive(near.as_fd(), &scratch, 64).unwrap(), 7);
        drop(far);
        assert_eq!(read(near.as_fd(), &scratch, 64).unwrap(), 0);
    }
}
