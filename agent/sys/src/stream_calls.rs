//! Calls that move the bytes of a stream besides `send` and `recv`: with flags, by message, without a copy, from a
//! file.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use iodyno_core::units::Nanos;
use rustix::event::PollFlags;
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use rustix::pipe::{PipeFlags, SpliceFlags};

use crate::buffer::{ReceiveScratch, SendSource};
use crate::socket::{blank_message, count};
use crate::{poll, socket_option};

/// `MSG_ZEROCOPY`: the bytes stay as they are until the kernel says that it is done with them.
const ZERO_COPY: SendFlags = SendFlags::from_bits_retain(libc::MSG_ZEROCOPY as u32);

fn flags(more: bool) -> SendFlags {
    SendFlags::NOSIGNAL | if more { SendFlags::MORE } else { SendFlags::empty() }
}

/// Hands bytes to the kernel by `sendmsg`; gives how many it took.
///
/// # Errors
/// As [`crate::socket::send`].
#[inline]
pub fn send_message(socket: BorrowedFd<'_>, bytes: &[u8], more: bool) -> io::Result<usize> {
    let mut control = SendAncillaryBuffer::default();
    Ok(rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags(more))?)
}

/// Takes bytes by `recvmsg` and forgets them; gives how many, 0 at the end of the stream.
///
/// # Errors
/// As [`crate::socket::receive`].
#[inline]
pub fn receive_message(socket: BorrowedFd<'_>, scratch: &ReceiveScratch) -> io::Result<usize> {
    let mut part = libc::iovec { iov_base: scratch.start(), iov_len: scratch.length() };
    let mut message = blank_message();
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    // SAFETY: the message holds one part, which is the scratch in its whole length; nobody reads that.
    count(unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, 0) })
}

/// Allows `MSG_ZEROCOPY` on the socket.
///
/// # Errors
/// `EOPNOTSUPP`, `EPERM`: the kernel or the kind of socket has none.
pub fn allow_zero_copy(socket: BorrowedFd<'_>) -> io::Result<()> {
    socket_option::set(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, &1_i32)
}

/// Hands the first `length` bytes of `source` over without a copy; gives how many the kernel took.
///
/// The kernel reads them until the other end has them. They never change, and where `source` is dropped before, the
/// kernel holds the pages itself.
///
/// # Errors
/// As [`crate::socket::send`], and `ENOBUFS` where too many completions wait to be read.
#[inline]
pub fn send_zero_copy(
    socket: BorrowedFd<'_>,
    source: &SendSource,
    length: usize,
    more: bool,
) -> io::Result<usize> {
    let bytes = source.bytes();
    let bytes = &bytes[..length.min(bytes.len())];
    Ok(rustix::net::send(socket, bytes, flags(more) | ZERO_COPY)?)
}

/// Sends of which the kernel said that it is done with their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completions {
    /// How many.
    pub completed: u64,
    /// Of these, how many were copied after all.
    pub copied: u64,
}

/// Reads what completions wait on the socket, without waiting for any.
///
/// # Errors
/// What the kernel said, but not that there are none.
pub fn completions(socket: BorrowedFd<'_>) -> io::Result<Completions> {
    let mut found = Completions::default();
    loop {
        // Room for one message of IP_RECVERR: a header, sock_extended_err and an address.
        let mut control = [0_u64; 16];
        let mut message = blank_message();
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the message has no parts and the room that it says for control data.
        if let Err(error) = count(unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, flags) }) {
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(found) } else { Err(error) };
        }
        // SAFETY: the kernel filled the control data in, whose length it wrote. A first header that is not null lies within
        // them, and a whole sock_extended_err follows it, maybe at an address that is not a multiple of its alignment.
        let said: libc::sock_extended_err = unsafe {
            let first = libc::CMSG_FIRSTHDR(&message);
            if first.is_null() {
                continue;
            }
            libc::CMSG_DATA(first).cast::<libc::sock_extended_err>().read_unaligned()
        };
        if said.ee_origin == SO_EE_ORIGIN_ZEROCOPY {
            // A range of sends, counted from 0 on each socket and wrapping.
            let sends = u64::from(said.ee_data.wrapping_sub(said.ee_info)) + 1;
            found.completed += sends;
            if said.ee_code & SO_EE_CODE_ZEROCOPY_COPIED != 0 {
                found.copied += sends;
            }
        }
    }
}

/// These two are from the kernel's `linux/errqueue.h`.
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

/// Waits until the socket reports an error or a completion, or this time has passed.
///
/// # Errors
/// What the kernel said; an interruption is none.
pub fn wait_for_completion(socket: BorrowedFd<'_>, longest: Nanos) -> io::Result<()> {
    // An error is reported always, and nothing else is asked for.
    match poll::wait(socket, PollFlags::empty(), longest) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A file in memory that holds the bytes of a source.
///
/// # Errors
/// `EMFILE`, `ENOMEM`, `ENOSPC`.
pub fn file_of(source: &SendSource) -> io::Result<OwnedFd> {
    let mut file = std::fs::File::from(rustix::fs::memfd_create(c"iodyno", MemfdFlags::CLOEXEC)?);
    io::Write::write_all(&mut file, source.bytes())?;
    Ok(file.into())
}

/// Has the kernel send `length` bytes of `file` from `offset` on; gives how many it took, 0 at the end of the file.
///
/// # Errors
/// As [`crate::socket::send`], and `EINVAL` for a file that cannot be mapped.
#[inline]
pub fn send_file(
    socket: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    mut offset: u64,
    length: usize,
) -> io::Result<usize> {
    Ok(rustix::fs::sendfile(socket, file, Some(&mut offset), length)?)
}

/// Moves `length` bytes from the begin of `file` into the pipe; gives how many there was room for.
///
/// # Errors
/// `EAGAIN`: the pipe is full.
#[inline]
pub fn splice_in(file: BorrowedFd<'_>, pipe: BorrowedFd<'_>, length: usize) -> io::Result<usize> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    Ok(rustix::pipe::splice(file, Some(&mut 0), pipe, None, length, flags)?)
}

/// Moves up to `length` bytes from the pipe into the socket; gives how many the socket took. Waits where the socket
/// is one that waits.
///
/// # Errors
/// As [`crate::socket::send`].
#[inline]
pub fn splice_out(
    pipe: BorrowedFd<'_>,
    socket: BorrowedFd<'_>,
    length: usize,
    more: bool,
) -> io::Result<usize> {
    let more = if more { SpliceFlags::MORE } else { SpliceFlags::empty() };
    Ok(rustix::pipe::splice(pipe, None, socket, None, length, SpliceFlags::MOVE | more)?)
}

/// A pipe (its reading and its writing end) with room for `bytes`, or for as much as this user may have.
///
/// # Errors
/// `EMFILE`, `ENFILE`.
pub fn pipe(bytes: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let (reading, writing) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    // A refusal leaves the pipe as it is: more calls then.
    let _ = rustix::pipe::fcntl_setpipe_size(&writing, bytes);
    Ok((reading, writing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket;
    use std::os::fd::AsFd;

    fn connected() -> (OwnedFd, OwnedFd) {
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = socket::tcp(&any).unwrap();
        socket::bind(listener.as_fd(), &any).unwrap();
        socket::listen(listener.as_fd(), 1).unwrap();
        socket::set_blocking(listener.as_fd(), true).unwrap();
        let address = socket::local_address(listener.as_fd()).unwrap();
        let near = socket::tcp(&address).unwrap();
        socket::set_blocking(near.as_fd(), true).unwrap();
        socket::connect(near.as_fd(), &address).unwrap();
        let far = socket::accept(listener.as_fd()).unwrap();
        socket::set_blocking(far.as_fd(), true).unwrap();
        (near, far)
    }

    fn read(socket: BorrowedFd<'_>, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            filled += socket::receive_into(socket, &mut bytes[filled..]).unwrap();
        }
        bytes
    }

    #[test]
    fn every_call_carries_the_same_bytes() {
        let (near, far) = connected();
        let (near, far) = (near.as_fd(), far.as_fd());
        let source = SendSource::new(10_000).unwrap();
        assert_eq!(send_message(near, &source.bytes()[..700], false).unwrap(), 700);
        assert_eq!(read(far, 700), source.bytes()[..700]);
        assert_eq!(socket::send_more(near, &source.bytes()[..7]).unwrap(), 7);
        assert_eq!(send_message(near, &source.bytes()[7..20], false).unwrap(), 13);
        assert_eq!(read(far, 20), source.bytes()[..20]);
        let file = file_of(&source).unwrap();
        assert_eq!(send_file(near, file.as_fd(), 0, 10_000).unwrap(), 10_000);
        assert_eq!(read(far, 10_000), source.bytes());
        let (reading, writing) = pipe(1 << 16).unwrap();
        assert_eq!(splice_in(file.as_fd(), writing.as_fd(), 9_000).unwrap(), 9_000);
        assert_eq!(splice_out(reading.as_fd(), near, 9_000, false).unwrap(), 9_000);
        assert_eq!(read(far, 9_000), source.bytes()[..9_000]);
        assert_eq!(send_message(far, b"back", false).unwrap(), 4);
        assert_eq!(receive_message(near, &ReceiveScratch::new(64).unwrap()).unwrap(), 4);
    }

    #[test]
    fn every_send_without_a_copy_is_completed_once() {
        let (near, far) = connected();
        let source = SendSource::new(4_096).unwrap();
        allow_zero_copy(near.as_fd()).unwrap();
        for _ in 0..3 {
            assert_eq!(send_zero_copy(near.as_fd(), &source, 4_096, false).unwrap(), 4_096);
        }
        assert_eq!(read(far.as_fd(), 3 * 4_096)[4_096..8_192], *source.bytes());
        let mut found = Completions::default();
        while found.completed < 3 {
            wait_for_completion(near.as_fd(), Nanos(1_000_000_000)).unwrap();
            let more = completions(near.as_fd()).unwrap();
            assert!(more.completed > 0, "no completion within a second");
            found.completed += more.completed;
            found.copied += more.copied;
        }
        assert_eq!(found.completed, 3);
        // Over loopback the kernel copies, as the receiver may be any process.
        assert_eq!(found.copied, 3);
        assert_eq!(completions(near.as_fd()).unwrap(), Completions::default());
    }
}
