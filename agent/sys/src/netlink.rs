//! Questions to the kernel's routing tables (rtnetlink).
//!
//! Messages are read by offset out of the kernel's bytes, so that an answer of any content can do no harm. Layout:
//! `include/uapi/linux/netlink.h`, `rtnetlink.h`; numbers are in the machine's byte order.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{set_socket_timeout, Timeout};
use rustix::net::{recv, send, socket_with, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Bytes of `struct nlmsghdr`.
pub(crate) const HEADER_BYTES: usize = 16;
/// One datagram of an answer; the kernel fills no more than 32 KiB of a dump at a time.
const ANSWER_BYTES: usize = 64 << 10;

/// A connection to the tables of the network namespace that it was opened in.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    buffer: Vec<u8>,
    sequence: u32,
}

impl Netlink {
    /// Opens it.
    ///
    /// # Errors
    /// `EPROTONOSUPPORT` where the kernel has no rtnetlink.
    pub(crate) fn open() -> io::Result<Self> {
        // No protocol is that of the routing tables (`NETLINK_ROUTE`).
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        // The kernel answers at once; should it ever not, a reading must not hang for it.
        set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(1)))?;
        Ok(Netlink { socket, buffer: vec![0; ANSWER_BYTES], sequence: 0 })
    }

    /// Asks for a whole table by a message of a `kind`, with a structure of so many bytes that begins with the family;
    /// hands on what messages of kind `answer` hold.
    ///
    /// # Errors
    /// What the kernel said.
    pub(crate) fn dump<const BYTES: usize>(
        &mut self,
        kind: u16,
        family: u8,
        answer: u16,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut asked = [0; BYTES];
        asked[0] = family;
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
        send(&self.socket, &message(kind, flags, self.sequence, &asked), SendFlags::empty())?;
        loop {
            let (length, _) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
            if take_in(&self.buffer[..length], self.sequence, answer, &mut each)? {
                return Ok(());
            }
        }
    }
}

/// A header and what it is of.
pub(crate) fn message(kind: u16, flags: u16, sequence: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = ((HEADER_BYTES + content.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(content);
    bytes
}

/// Takes one datagram in; `true`: it was the last one of the answer. What belongs to an earlier question is
/// left out.
pub(crate) fn take_in(
    mut bytes: &[u8],
    sequence: u32,
    answer: u16,
    each: &mut impl FnMut(&[u8]),
) -> io::Result<bool> {
    while let (Some(length), Some(kind), Some(number)) = (word(bytes, 0), half_word(bytes, 4), word(bytes, 8))
    {
        let length = length as usize;
        if length < HEADER_BYTES || length > bytes.len() {
            break;
        }
        let content = &bytes[HEADER_BYTES..length];
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        if number != sequence {
            continue;
        }
        match i32::from(kind) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                let error = word(content, 0).map_or(0, |error| (error as i32).wrapping_neg());
                return Err(io::Error::from_raw_os_error(error));
            }
            _ if kind == answer => each(content),
            _ => {}
        }
    }
    Ok(false)
}

/// Kind and value of each attribute; ends at the first that does not fit.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = (usize::from(half_word(bytes, 0)?), half_word(bytes, 2)?);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        // The two highest bits are flags.
        Some((kind & 0x3fff, value))
    })
}

/// Messages and attributes begin at multiples of 4.
pub(crate) fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

pub(crate) fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

fn half_word(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}
