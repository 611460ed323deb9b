//! Packets as tcpdump and Wireshark write them: pcap and pcapng, of either byte order. Requests with their answers are
//! events; the number of a packet is its line.
//!
//! Sources: the Internet-Drafts draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng; link types: draft-ietf-opsawg-pcaplinktype.

use crate::event::{Batch, Wanted};
use crate::formats::{latency, Form, Parser};
use crate::pairing::{Flows, Packet};
use crate::unit::Unit;

/// A longer record is none: what tcpdump takes at most, with the blocks around it.
const RECORD_BYTES: usize = 1 << 20;

/// The form.
pub const FORM: Form = Form {
    name: "pcap",
    what: "packets as pcap or pcapng: requests with their answers",
    lines_stand_alone: false,
    binary: true,
    value_unit: Unit::S,
    plain_numbers: false,
    unit_said: None,
    quantity: latency,
    is: |head| head.bytes.get(..4).is_some_and(|magic| kind(magic).is_some()),
    open: |setting| {
        let magic = setting.head.get(..4).and_then(kind).ok_or("it does not begin as pcap or pcapng")?;
        Ok(Box::new(Pcap {
            wanted: setting.wanted.clone(),
            flows: Flows::default(),
            held: Vec::new(),
            kind: magic,
            little: true,
            begun: false,
            lost: false,
            interfaces: Vec::new(),
        }))
    },
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Little-endian?, nanoseconds of a unit of its times.
    Classic(bool, i64),
    Next,
}

fn kind(magic: &[u8]) -> Option<Kind> {
    Some(match magic {
        [0xd4, 0xc3, 0xb2, 0xa1] => Kind::Classic(true, 1000),
        [0xa1, 0xb2, 0xc3, 0xd4] => Kind::Classic(false, 1000),
        [0x4d, 0x3c, 0xb2, 0xa1] => Kind::Classic(true, 1),
        [0xa1, 0xb2, 0x3c, 0x4d] => Kind::Classic(false, 1),
        [0x0a, 0x0d, 0x0d, 0x0a] => Kind::Next,
        _ => return None,
    })
}

/// What packets of an interface are, and how many units of their times a second has.
#[derive(Clone, Copy)]
struct Interface {
    link: u32,
    units_per_s: u128,
    offset_s: i64,
}

struct Pcap {
    wanted: Wanted,
    flows: Flows,
    /// Bytes of a record that is not whole yet.
    held: Vec<u8>,
    kind: Kind,
    little: bool,
    /// The header has been read.
    begun: bool,
    /// A length made no sense: where the next record begins is not known.
    lost: bool,
    interfaces: Vec<Interface>,
}

impl Pcap {
    fn u32(&self, bytes: &[u8], at: usize) -> Option<u32> {
        let four = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(if self.little { u32::from_le_bytes(four) } else { u32::from_be_bytes(four) })
    }

    fn u16(&self, bytes: &[u8], at: usize) -> Option<u16> {
        let two = bytes.get(at..at + 2)?.try_into().ok()?;
        Some(if self.little { u16::from_le_bytes(two) } else { u16::from_be_bytes(two) })
    }

    /// Takes what stands at the begin of `bytes`; how long it was, or `None` where it is not whole.
    fn record(&mut self, bytes: &[u8], out: &mut Batch) -> Option<usize> {
        match self.kind {
            Kind::Classic(little, unit_ns) => self.classic(bytes, little, unit_ns, out),
            Kind::Next => self.next(bytes, out),
        }
    }

    fn classic(&mut self, bytes: &[u8], little: bool, unit_ns: i64, out: &mut Batch) -> Option<usize> {
        self.little = little;
        if !self.begun {
            let link = self.u32(bytes, 20)? & 0x0fff_ffff;
            self.interfaces.push(Interface { link, units_per_s: 1, offset_s: 0 });
            self.begun = true;
            return Some(24);
        }
        let (seconds, fraction, length) =
            (self.u32(bytes, 0)?, self.u32(bytes, 4)?, self.u32(bytes, 8)? as usize);
        let _whole = self.u32(bytes, 12)?;
        if length > RECORD_BYTES {
            return Some(self.lose(bytes, out));
        }
        let data = bytes.get(16..16 + length)?;
        let time_ns = i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * unit_ns;
        let link = self.interfaces.first().map_or(1, |interface| interface.link);
        self.packet(time_ns, link, data, out);
        Some(16 + length)
    }

    fn next(&mut self, bytes: &[u8], out: &mut Batch) -> Option<usize> {
        if bytes.get(..4)? == [0x0a, 0x0d, 0x0d, 0x0a] {
            self.little = bytes.get(8..12)? == [0x4d, 0x3c, 0x2b, 0x1a];
            self.interfaces.clear();
        }
        let (kind, length) = (self.u32(bytes, 0)?, self.u32(bytes, 4)? as usize);
        if !(12..=RECORD_BYTES).contains(&length) || length % 4 != 0 {
            return Some(self.lose(bytes, out));
        }
        let block = bytes.get(..length)?;
        let body = &block[8..length - 4];
        match kind {
            1 => {
                let interface = self.interface(body);
                self.interfaces.push(interface);
            }
            // Enhanced packet; the obsolete packet block has the number of its interface in two bytes.
            6 | 2 => {
                let number = if kind == 6 { self.u32(body, 0) } else { self.u16(body, 0).map(u32::from) };
                let interface = number.and_then(|number| self.interfaces.get(number as usize).copied());
                let at = interface.and_then(|interface| {
                    let units = u128::from(self.u32(body, 4)?) << 32 | u128::from(self.u32(body, 8)?);
                    let ns = i64::try_from(units * 1_000_000_000 / interface.units_per_s).ok()?;
                    let data = body.get(20..20 + self.u32(body, 12)? as usize)?;
                    Some((
                        ns.checked_add(interface.offset_s.checked_mul(1_000_000_000)?)?,
                        interface.link,
                        data,
                    ))
                });
                match at {
                    Some((time_ns, link, data)) => self.packet(time_ns, link, data, out),
                    None => self.refuse("the packet's block cannot be read", out),
                }
            }
            3 => self.refuse("a simple packet block has no time", out),
            _ => {}
        }
        Some(length)
    }

    fn interface(&self, body: &[u8]) -> Interface {
        let mut found = Interface {
            link: u32::from(self.u16(body, 0).unwrap_or(0)),
            units_per_s: 1_000_000,
            offset_s: 0,
        };
        let mut at = 8;
        while let (Some(code), Some(length)) = (self.u16(body, at), self.u16(body, at + 2)) {
            let length = usize::from(length);
            let Some(value) = body.get(at + 4..at + 4 + length) else { break };
            match (code, value) {
                (0, _) => break,
                // Resolution: a negative power of ten, or of two with the top bit.
                (9, [power, ..]) if power & 0x80 == 0 => {
                    found.units_per_s = 10_u128.checked_pow(u32::from(*power)).unwrap_or(1)
                }
                (9, [power, ..]) => found.units_per_s = 1 << (power & 0x7f).min(126),
                (14, eight) => {
                    if let Ok(eight) = <[u8; 8]>::try_from(eight) {
                        found.offset_s =
                            if self.little { i64::from_le_bytes(eight) } else { i64::from_be_bytes(eight) };
                    }
                }
                _ => {}
            }
            at += 4 + length.div_ceil(4) * 4;
        }
        found
    }

    fn refuse(&mut self, reason: &'static str, out: &mut Batch) {
        out.refuse("", reason, b"");
        out.lines += 1;
    }

    fn lose(&mut self, bytes: &[u8], out: &mut Batch) -> usize {
        self.refuse("the length of a record makes no sense; what follows it cannot be read", out);
        self.lost = true;
        bytes.len()
    }

    fn packet(&mut self, time_ns: i64, link: u32, data: &[u8], out: &mut Batch) {
        match segment(link, data) {
            Some(segment) if segment.bytes > 0 => {
                let packet =
                    Packet { time_ns, from: &segment.from, to: &segment.to, bytes: f64::from(segment.bytes) };
                let text = format!("packet {}", out.lines);
                self.flows.take(&packet, &self.wanted, text.as_bytes(), out);
            }
            _ => out.skipped += 1,
        }
        out.lines += 1;
    }
}

impl Parser for Pcap {
    fn line(&mut self, _line: &[u8], _out: &mut Batch) {}

    fn block(&mut self, block: &[u8], out: &mut Batch) {
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(block);
        let mut at = 0;
        while at < held.len() && !self.lost {
            match self.record(&held[at..], out) {
                Some(length) => at += length,
                None => break,
            }
        }
        held.drain(..at.min(held.len()));
        if !self.lost {
            self.held = held;
        }
    }

    fn end(&mut self, out: &mut Batch) {
        if !self.held.is_empty() {
            self.refuse("the last record is cut off", out);
        }
        self.flows.end(out);
    }
}

struct Segment {
    from: Vec<u8>,
    to: Vec<u8>,
    bytes: u32,
}

/// Addresses, ports and bytes of data of a TCP or UDP packet over IPv4 or IPv6.
fn segment(link: u32, data: &[u8]) -> Option<Segment> {
    let be16 = |bytes: &[u8], at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let packet = match link {
        // Ethernet, with tags.
        1 => {
            let mut at = 12;
            while matches!(be16(data, at)?, 0x8100 | 0x88a8) {
                at += 4;
            }
            matches!(be16(data, at)?, 0x0800 | 0x86dd).then(|| data.get(at + 2..))??
        }
        // Null and loop: a family in four bytes. Raw: nothing. Linux "cooked": 16 or 20 bytes.
        0 | 108 => data.get(4..)?,
        12 | 14 | 101 | 228 | 229 => data,
        113 => data.get(16..)?,
        276 => data.get(20..)?,
        _ => return None,
    };
    let (protocol, addresses, total, inside) = match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            // Only the first of several fragments has ports.
            if header < 20 || be16(packet, 6)? & 0x1fff != 0 {
                return None;
            }
            let total = usize::from(be16(packet, 2)?);
            // Segments that the card will cut may have no length of their own.
            let total = if total == 0 { packet.len() } else { total };
            (
                *packet.get(9)?,
                (packet.get(12..16)?, packet.get(16..20)?),
                total.checked_sub(header)?,
                packet.get(header..)?,
            )
        }
        6 => {
            let total = usize::from(be16(packet, 4)?);
            (*packet.get(6)?, (packet.get(8..24)?, packet.get(24..40)?), total, packet.get(40..)?)
        }
        _ => return None,
    };
    let header = match protocol {
        6 => usize::from(inside.get(12)? >> 4) * 4,
        17 => 8,
        _ => return None,
    };
    let (from, to) = (inside.get(..2)?, inside.get(2..4)?);
    Some(Segment {
        from: [addresses.0, from].concat(),
        to: [addresses.1, to].concat(),
        bytes: u32::try_from(total.checked_sub(header)?).ok()?,
    })
}
