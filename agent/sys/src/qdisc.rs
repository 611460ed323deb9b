//! Queueing disciplines of this network namespace and what they counted, by rtnetlink.
//!
//! Layout: `include/uapi/linux/rtnetlink.h`, `gen_stats.h`.

use std::io;

use rustix::net::netdevice::index_to_name;
use rustix::net::{socket_with, AddressFamily, SocketFlags, SocketType};

use crate::netlink::{attributes, word, Netlink};

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

/// Bytes of `struct tcmsg`.
const TCMSG_BYTES: usize = 20;

const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;

/// A connection to the kernel's routing tables, in the network namespace that it was opened in.
#[derive(Debug)]
pub struct Qdiscs(Netlink);

impl Qdiscs {
    /// Opens it.
    ///
    /// # Errors
    /// `EPROTONOSUPPORT` where the kernel has no rtnetlink.
    pub fn open() -> io::Result<Self> {
        Netlink::open().map(Qdiscs)
    }

    /// Asks for all of them.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn read(&mut self) -> io::Result<Vec<Qdisc>> {
        let mut found = Vec::new();
        let take = |content: &[u8]| found.extend(qdisc(content));
        self.0.dump::<TCMSG_BYTES>(libc::RTM_GETQDISC, 0, libc::RTM_NEWQDISC, take)?;
        Ok(found)
    }
}

/// Name of a device of this thread's network namespace; `None`: there is no such device (any more).
#[must_use]
pub fn device_name(index: u32) -> Option<String> {
    let any = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    index_to_name(any, index).ok()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{aligned, message, take_in};

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    /// Takes one datagram in as the answer to question 9.
    fn taken(bytes: &[u8], found: &mut Vec<Qdisc>) -> io::Result<bool> {
        take_in(bytes, 9, libc::RTM_NEWQDISC, &mut |content: &[u8]| found.extend(qdisc(content)))
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
        message(libc::RTM_NEWQDISC, 0, 9, &content)
    }

    #[test]
    fn a_token_bucket_is_read_with_its_counters() {
        let mut answer = message(libc::RTM_NEWQDISC, 0, 8, &[0; 20]);
        answer.extend(token_bucket());
        let mut found = Vec::new();
        assert!(!taken(&answer, &mut found).unwrap());
        assert!(taken(&message(libc::NLMSG_DONE as u16, 0, 9, &[0; 4]), &mut found).unwrap());
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
        let refusal = message(libc::NLMSG_ERROR as u16, 0, 9, &(-libc::EPERM).to_ne_bytes());
        assert_eq!(taken(&refusal, &mut found).unwrap_err().raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn answers_that_are_cut_or_changed_do_no_harm() {
        let whole = token_bucket();
        for length in 0..whole.len() {
            let _ = taken(&whole[..length], &mut Vec::new());
        }
        for place in 0..whole.len() {
            for byte in [0, 1, 3, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[place] = byte;
                let _ = taken(&changed, &mut Vec::new());
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
