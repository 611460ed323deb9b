//! Queueing disciplines of this network namespace and what they counted, by rtnetlink.
//!
//! Messages are read by offset out of the kernel's bytes, so that an answer of any content can do no harm. Layout:
//! `include/uapi/linux/netlink.h`, `rtnetlink.h`, `gen_stats.h`; numbers are in the machine's byte order.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::netdevice::index_to_name;
use rustix::net::sockopt::{set_socket_timeout, Timeout};
use rustix::net::{recv, send, socket_with, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// A queueing discipline of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qdisc {
    /// Index of the device.
    pub device: u32,
    /// Its own handle.
    pub handle: u32,
    /// Handle of the class that it belongs to.
    pub parent: u32,
    /// Kind, such as `tbf`.
    pub kind: String,
    /// Bytes passed on.
    pub bytes: u64,
    /// Packets passed on.
    pub packets: u32,
    /// Packets that wait now.
    pub backlog_packets: u32,
    /// Bytes that wait now.
    pub backlog_bytes: u32,
    /// Packets dropped.
    pub drops: u32,
    /// Packets that the device did not take and that were put back.
    pub requeues: u32,
    /// Times that a packet had to wait for its rate.
    pub overlimits: u32,
}

const HEADER_BYTES: usize = 16;
const TCMSG_BYTES: usize = 20;
/// `struct nlmsghdr` and `struct tcmsg`: asks for every queueing discipline.
const REQUEST_BYTES: usize = HEADER_BYTES + TCMSG_BYTES;
/// One datagram of an answer; the kernel fills no more than 32 KiB of a dump at a time.
const ANSWER_BYTES: usize = 64 << 10;

const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;

/// A connection to the kernel's routing tables, in the network namespace that it was opened in.
#[derive(Debug)]
pub struct Qdiscs {
    socket: OwnedFd,
    buffer: Vec<u8>,
    sequence: u32,
}

impl Qdiscs {
    /// Opens it.
    ///
    /// # Errors
    /// `EPROTONOSUPPORT` where the kernel has no rtnetlink.
    pub fn open() -> io::Result<Self> {
        // No protocol is that of the routing tables (`NETLINK_ROUTE`).
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        // The kernel answers at once; should it ever not, a reading must not hang for it.
        set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(1)))?;
        Ok(Qdiscs { socket, buffer: vec![0; ANSWER_BYTES], sequence: 0 })
    }

    /// Asks for all of them.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn read(&mut self) -> io::Result<Vec<Qdisc>> {
        self.sequence = self.sequence.wrapping_add(1);
        send(&self.socket, &request(self.sequence), SendFlags::empty())?;
        let mut found = Vec::new();
        loop {
            let (length, _) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
            if take_in(&self.buffer[..length], self.sequence, &mut found)? {
                return Ok(found);
            }
        }
    }
}

/// Name of a device of this thread's network namespace; `None`: there is no such device (any more).
#[must_use]
pub fn device_name(index: u32) -> Option<String> {
    let any = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    index_to_name(any, index).ok()
}

fn request(sequence: u32) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    bytes[..4].copy_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&libc::RTM_GETQDISC.to_ne_bytes());
    bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    bytes
}

/// Takes one datagram in; `true`: it was the last one of the answer. What belongs to an earlier question is
/// left out.
fn take_in(mut bytes: &[u8], sequence: u32, found: &mut Vec<Qdisc>) -> io::Result<bool> {
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
            _ if kind == libc::RTM_NEWQDISC => found.extend(qdisc(content)),
            _ => {}
        }
    }
    Ok(false)
}

/// `struct tcmsg` and the attributes behind it.
fn qdisc(content: &[u8]) -> Option<Qdisc> {
    let (device, handle, parent) = (word(content, 4)?, word(content, 8)?, word(content, 12)?);
    let mut found = Qdisc { device, handle, parent, ..Qdisc::default() };
    for (kind, value) in attributes(content.get(TCMSG_BYTES..)?) {
        match kind {
            TCA_KIND => {
                let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
                found.kind = String::from_utf8_lossy(name).into_owned();
            }
            TCA_STATS2 => statistics(value, &mut found),
            _ => {}
        }
    }
    Some(found)
}

fn statistics(nested: &[u8], found: &mut Qdisc) {
    for (kind, value) in attributes(nested) {
        let number = |offset| word(value, offset).unwrap_or_default();
        match kind {
            TCA_STATS_BASIC => {
                found.bytes =
                    value.get(..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
                found.packets = number(8);
            }
            TCA_STATS_QUEUE => {
                found.backlog_packets = number(0);
                found.backlog_bytes = number(4);
                found.drops = number(8);
                found.requeues = number(12);
                found.overlimits = number(16);
            }
            _ => {}
        }
    }
}

/// Kind and value of each attribute; ends at the first that does not fit.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = (usize::from(half_word(bytes, 0)?), half_word(bytes, 2)?);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        // The two highest bits are flags.
        Some((kind & 0x3fff, value))
    })
}

/// Messages and attributes begin at multiples of 4.
fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

fn half_word(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    fn message(kind: u16, sequence: u32, content: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER_BYTES + content.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(content);
        bytes
    }

    /// What the kernel says of a token bucket.
    fn token_bucket() -> Vec<u8> {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let mut content = words(&[0, 7, 0x8001_0000, u32::MAX, 2]);
        content.extend(attribute(TCA_KIND, b"tbf\0"));
        let mut basic = 3_000_000_000_000_u64.to_ne_bytes().to_vec();
        basic.extend(words(&[2_000, 0]));
        let mut nested = attribute(TCA_STATS_BASIC, &basic);
        nested.extend(attribute(TCA_STATS_QUEUE, &words(&[12, 18_000, 33, 1, 500])));
        content.extend(attribute(TCA_STATS2 | 0x8000, &nested));
        message(libc::RTM_NEWQDISC, 9, &content)
    }

    #[test]
    fn a_token_bucket_is_read_with_its_counters() {
        let mut answer = message(libc::RTM_NEWQDISC, 8, &[0; 20]);
        answer.extend(token_bucket());
        let mut found = Vec::new();
        assert!(!take_in(&answer, 9, &mut found).unwrap());
        assert!(take_in(&message(libc::NLMSG_DONE as u16, 9, &[0; 4]), 9, &mut found).unwrap());
        let expected = Qdisc {
            device: 7,
            handle: 0x8001_0000,
            parent: u32::MAX,
            kind: "tbf".to_owned(),
            bytes: 3_000_000_000_000,
            packets: 2_000,
            backlog_packets: 12,
            backlog_bytes: 18_000,
            drops: 33,
            requeues: 1,
            overlimits: 500,
        };
        assert_eq!(found, [expected]);
        let refusal = message(libc::NLMSG_ERROR as u16, 9, &(-libc::EPERM).to_ne_bytes());
        assert_eq!(take_in(&refusal, 9, &mut found).unwrap_err().raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn answers_that_are_cut_or_changed_do_no_harm() {
        let whole = token_bucket();
        for length in 0..whole.len() {
            let _ = take_in(&whole[..length], 9, &mut Vec::new());
        }
        for place in 0..whole.len() {
            for byte in [0, 1, 3, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[place] = byte;
                let _ = take_in(&changed, 9, &mut Vec::new());
            }
        }
    }

    #[test]
    fn this_kernel_answers() {
        let mut qdiscs = Qdiscs::open().unwrap();
        // Devices may come and go while it is asked.
        for found in (0..3).filter_map(|_| qdiscs.read().ok()).flatten() {
            assert!(!found.kind.is_empty() && found.device > 0, "{found:?}");
        }
        assert_eq!(device_name(1).as_deref(), Some("lo"));
        assert_eq!(device_name(u32::MAX), None);
    }
}
