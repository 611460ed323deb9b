//! Interval logs of HdrHistogram: a histogram for each interval, V2, compressed by zlib, in base64.
//!
//! Source: the HdrHistogram project's V2 encoding: a cookie, the length and zlib data; inside a header of 40 bytes and counts
//! as ZigZag LEB128 of at most nine bytes, where a negative count is a run of empty buckets. An event is a value of a bucket,
//! at the middle of what the bucket holds, at the end of its interval. Times of lines are a begin and a length, or where the line of
//! names says so (HdrHistogram_c) a begin and an end. What unit values have only some writers say, in words.

use std::collections::BTreeSet;
use std::io::Read;

use flate2::read::ZlibDecoder;

use crate::event::{Batch, Operation, Quantity, Wanted};
use crate::formats::{latency, Form, Parser};
use crate::unit::Unit;

const COOKIE: u32 = 0x1c84_9303;
const COOKIE_COMPRESSED: u32 = 0x1c84_9304;
/// Word size in the cookie, which V2 ignores: the upper half of its third byte from below.
const COOKIE_BASE: u32 = !0xf0;
/// A histogram of 5 digits over 2^63 has fewer bytes of counts. Chosen: a bound against a bomb.
const PAYLOAD_BYTES: u64 = 64 << 20;

/// The form.
pub const FORM: Form = Form {
    name: "hdr-log",
    what: "an interval log of HdrHistogram (V2)",
    lines_stand_alone: false,
    binary: false,
    value_unit: Unit::NS,
    plain_numbers: false,
    unit_said: None,
    quantity: latency,
    is: |head| {
        head.any(|line| line.starts_with(b"\"StartTimestamp\""))
            || head.most(|line| {
                line.rsplit(|byte| *byte == b',').next().is_some_and(|last| last.starts_with(b"HISTFAAA"))
            })
    },
    open: |setting| {
        Ok(Box::new(HdrLog {
            unit: setting.value_unit,
            wanted: setting.wanted.clone(),
            start_ns: 0,
            base_ns: None,
            ends: false,
            tags: BTreeSet::new(),
        }))
    },
};

/// Words of headers for units of values.
const UNITS_SAID: [(&str, Unit); 3] =
    [("nanoseconds", Unit::NS), ("microseconds", Unit::US), ("milliseconds", Unit::MS)];
/// Tags that are named. Chosen: what a person reads.
const TAGS_NAMED: usize = 8;

/// The unit that a comment says values have: `#UNITS: ..., values in the histogram = nanoseconds`.
fn unit_said(comment: &[u8]) -> Option<Unit> {
    let text = String::from_utf8_lossy(comment).to_ascii_lowercase();
    let said = text.split([',', ';']).find(|part| part.contains("value") && part.contains('='))?;
    UNITS_SAID.iter().find(|(word, _)| said.contains(word)).map(|(_, unit)| *unit)
}

struct HdrLog {
    unit: Option<Unit>,
    wanted: Wanted,
    /// `#[StartTime: seconds since 1970`
    start_ns: i64,
    /// `#[BaseTime: seconds since 1970`: times of lines are after it.
    base_ns: Option<i64>,
    /// The second time of a line is that of the end.
    ends: bool,
    tags: BTreeSet<Vec<u8>>,
}

impl Parser for HdrLog {
    fn line(&mut self, line: &[u8], out: &mut Batch) {
        let text = line.trim_ascii();
        for (name, start) in [(&b"#[StartTime:"[..], true), (b"#[BaseTime:", false)] {
            if let Some(rest) = text.strip_prefix(name) {
                let word = rest.trim_ascii_start().split(u8::is_ascii_whitespace).next().unwrap_or_default();
                if let Ok(time) = Unit::S.time_of(word) {
                    if start {
                        self.start_ns = time;
                    } else {
                        self.base_ns = Some(time);
                    }
                }
            }
        }
        if text.first() == Some(&b'"') {
            self.ends = memchr::memmem::find(text, b"\"EndTimestamp\"").is_some();
        }
        if text.first() == Some(&b'#') && self.unit.is_none() {
            self.unit = unit_said(text);
        }
        if text.is_empty() || matches!(text[0], b'#' | b'"') {
            out.skipped += 1;
            return;
        }
        let mut fields: Vec<&[u8]> = text.split(|byte| *byte == b',').collect();
        let mut tag = &b""[..];
        if let Some(named) = fields[0].strip_prefix(b"Tag=") {
            tag = named;
            fields.remove(0);
        }
        let [begin, length, _, histogram] = fields[..] else {
            return out.refuse("", "it does not have the four columns of an interval", text);
        };
        let (begin, length) = match (Unit::S.time_of(begin), Unit::S.time_of(length)) {
            (Ok(begin), Ok(length)) => (begin, length),
            (Err(reason), _) | (_, Err(reason)) => return out.refuse("the time", reason, text),
        };
        let length = if self.ends { length.saturating_sub(begin) } else { length };
        if length < 0 {
            return out.refuse("the time", "the end lies before the begin", text);
        }
        // Without a base time, times less than a year are after the start (as HdrHistogram's own reader takes them).
        let after =
            self.base_ns.unwrap_or(if begin < 366 * 86_400 * 1_000_000_000 { self.start_ns } else { 0 });
        let Some(end_ns) = after.checked_add(begin).and_then(|time| time.checked_add(length)) else {
            return out.refuse("the time", "it is more than 292 years", text);
        };
        let counts = match decoded(histogram.trim_ascii()) {
            Ok(counts) => counts,
            Err(reason) => return out.refuse("the histogram", reason, text),
        };
        let unit = self.unit.unwrap_or_else(|| {
            out.note("nothing in the log says the unit of its values: nanoseconds are assumed, --value-unit us says that they are not");
            Unit::NS
        });
        if self.tags.len() < TAGS_NAMED && !self.tags.contains(tag) {
            self.tags.insert(tag.to_vec());
        }
        for (value, count) in counts {
            let number = value * unit.factor * 10_f64.powi(unit.power);
            let found = Operation {
                end_ns: Some(end_ns),
                latency_ns: Some(number),
                value: Some(number),
                operation: tag,
                ..Operation::default()
            };
            let before = out.events.len();
            if count == 0 {
                continue;
            }
            out.take(&found, &self.wanted, text);
            if self.wanted.quantity.is_derived() || self.wanted.quantity == Quantity::Cpu {
                continue;
            }
            let Some(event) = out.events.get_mut(before) else {
                // Filtered or refused: one for one.
                continue;
            };
            let mut left = count;
            event.weight = left.min(u64::from(u32::MAX)) as u32;
            let more = *event;
            left -= u64::from(event.weight);
            while left > 0 {
                let weight = left.min(u64::from(u32::MAX)) as u32;
                out.events.push(crate::event::Event { weight, ..more });
                left -= u64::from(weight);
            }
        }
    }

    fn end(&mut self, out: &mut Batch) {
        if self.tags.len() > 1 && self.wanted.operation.is_none() {
            let name = |tag: &Vec<u8>| match &tag[..] {
                b"" => "none".to_owned(),
                tag => String::from_utf8_lossy(tag).into_owned(),
            };
            let named: Vec<String> = self.tags.iter().map(name).collect();
            let more = if self.tags.len() == TAGS_NAMED { " and maybe more" } else { "" };
            out.note(format!(
                "intervals of several tags are added up: {}{more}; --operation shows one",
                named.join(", ")
            ));
        }
    }
}

/// Middle and count of each bucket that holds something.
fn decoded(text: &[u8]) -> Result<Vec<(f64, u64)>, &'static str> {
    let packed = base64(text).ok_or("it is no base64")?;
    let be32 = |bytes: &[u8], at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let be64 = |bytes: &[u8], at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let cookie = be32(&packed, 0).ok_or("it is cut off")?;
    if cookie & COOKIE_BASE != COOKIE_COMPRESSED & COOKIE_BASE {
        return Err("it is not of the second version (V2), compressed");
    }
    let mut plain = Vec::new();
    ZlibDecoder::new(packed.get(8..).ok_or("it is cut off")?)
        .take(PAYLOAD_BYTES)
        .read_to_end(&mut plain)
        .map_err(|_| "it cannot be unpacked")?;
    let cookie = be32(&plain, 0).ok_or("it is cut off")?;
    if cookie & COOKIE_BASE != COOKIE & COOKIE_BASE {
        return Err("what it unpacks to is not of the second version (V2)");
    }
    let (length, digits) = (be32(&plain, 4).unwrap_or(0) as usize, be32(&plain, 12).unwrap_or(0));
    let least = be64(&plain, 16).ok_or("it is cut off")?;
    let payload = plain.get(40..40_usize.saturating_add(length)).ok_or("it is cut off")?;
    if !(1..=5).contains(&digits) || be32(&plain, 8) != Some(0) {
        return Err("its header makes no sense");
    }
    // Buckets of the first half-bucket: the power of two that tells 2 * 10^digits apart.
    let half_bits = (2 * 10_u64.pow(digits)).next_power_of_two().trailing_zeros() - 1;
    let unit_bits = least.max(1).ilog2();
    let mut found = Vec::new();
    let (mut index, mut at) = (0_u64, 0);
    while at < payload.len() {
        let count = zigzag(payload, &mut at).ok_or("its counts are cut off")?;
        if count < 0 {
            index = index.checked_add(count.unsigned_abs()).ok_or("its counts make no sense")?;
            continue;
        }
        if count > 0 {
            let bucket = (index >> half_bits).saturating_sub(1);
            let within = if index >> half_bits == 0 {
                index
            } else {
                (index & ((1 << half_bits) - 1)) + (1 << half_bits)
            };
            let shift = u32::try_from(bucket)
                .ok()
                .and_then(|bucket| bucket.checked_add(unit_bits))
                .filter(|shift| *shift < 64);
            let shift = shift.ok_or("its counts make no sense")?;
            let value = u128::from(within) << shift;
            let middle = value + if shift == 0 { 0 } else { 1 << (shift - 1) };
            found.push((middle as f64, count.unsigned_abs()));
        }
        index += 1;
    }
    Ok(found)
}

/// A number as ZigZag LEB128, whose ninth byte has eight bits.
fn zigzag(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let mut value = 0_u64;
    for number in 0..9 {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if number == 8 {
            value |= u64::from(byte) << 56;
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * number);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

/// RFC 4648, the standard alphabet.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.strip_suffix(b"==").or(text.strip_suffix(b"=")).unwrap_or(text);
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut bits, mut held) = (0_u32, 0);
    for byte in text {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    Some(out)
}
