//! Calls on one socket by a thread that waits for a bounded time, so that it can look up from time to time.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};

use iodyno_core::units::Nanos;
use rustix::event::PollFlags;
use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::buffer::ReceiveScratch;
use crate::poll;
use crate::socket::{checked, count};

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
        Until::Readable => PollFlags::IN,
        Until::Writable => PollFlags::OUT,
    };
    Ok(!poll::wait(socket, events, time)?.is_empty())
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

/// `write`: hands bytes to the kernel; gives how many it took. A closed connection is an error: this process ignores
/// `SIGPIPE`, as all programs in Rust do.
///
/// # Errors
/// `EAGAIN`, `EINTR`, `EPIPE`, `ECONNRESET`, ...
#[inline]
pub fn write(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::write(socket, bytes)?)
}

/// `writev`: as [`write`], of two pieces that go as one.
///
/// # Errors
/// As [`write`].
#[inline]
pub fn write_joined(socket: BorrowedFd<'_>, pieces: [&[u8]; 2]) -> io::Result<usize> {
    Ok(rustix::io::writev(socket, &pieces.map(IoSlice::new))?)
}

/// `sendmsg`: as [`write_joined`].
///
/// # Errors
/// As [`write`].
#[inline]
pub fn send_joined(socket: BorrowedFd<'_>, pieces: [&[u8]; 2]) -> io::Result<usize> {
    let (pieces, mut control) = (pieces.map(IoSlice::new), SendAncillaryBuffer::default());
    Ok(rustix::net::sendmsg(socket, &pieces, &mut control, SendFlags::NOSIGNAL)?)
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
        crate::socket::set_timeouts(near.as_fd(), Nanos(10_000_000)).unwrap();
        let scratch = ReceiveScratch::new(64).unwrap();
        let refused = read(near.as_fd(), &scratch, 64).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EAGAIN));
        assert!(!wait_for(near.as_fd(), Until::Readable, Nanos(1_000)).unwrap());
        assert_eq!(write(far.as_fd(), b"twelve bytes").unwrap(), 12);
        assert!(wait_for(near.as_fd(), Until::Readable, Nanos(0)).unwrap());
        assert_eq!(read(near.as_fd(), &scratch, 5).unwrap(), 5);
        assert_eq!(read(near.as_fd(), &scratch, 64).unwrap(), 7);
        drop(far);
        assert_eq!(read(near.as_fd(), &scratch, 64).unwrap(), 0);
    }
}
