//! Text of tcpdump: `time IP from > to: ... length N`. Requests with their answers are events.

use crate::clock_text::{calendar, time_of_day, Midnights};
use crate::event::{Batch, Wanted};
use crate::formats::{latency, Form, Head, Parser};
use crate::pairing::{Flows, Packet};
use crate::unit::Unit;

/// The form.
pub const FORM: Form = Form {
    name: "tcpdump",
    what: "text of tcpdump, with any of its times: requests with their answers",
    lines_stand_alone: false,
    binary: false,
    value_unit: Unit::S,
    plain_numbers: false,
    unit_said: None,
    quantity: latency,
    is: |head| head.most(|line| Line::read(line).is_some()),
    open: |setting| {
        Ok(Box::new(Tcpdump {
            wanted: setting.wanted.clone(),
            flows: Flows::default(),
            midnights: Midnights::default(),
            since_last: since_last(&Head::new(&setting.head)).then_some(0),
        }))
    },
};

/// Whether times are those since the packet before (`-ttt`): they begin with nothing, and one of them is less than the one before,
/// which no clock is that goes on.
fn since_last(head: &Head) -> bool {
    let times: Vec<i64> = head
        .lines
        .iter()
        .filter_map(|line| time_of_day(line.split(u8::is_ascii_whitespace).next()?))
        .collect();
    times.first() == Some(&0) && times.windows(2).any(|pair| pair[1] < pair[0])
}

struct Line<'a> {
    time: &'a [u8],
    from: &'a [u8],
    to: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Line<'a> {
    fn read(text: &'a [u8]) -> Option<Self> {
        // -i any puts interface and direction between time and protocol.
        let ip = [&b" IP "[..], b" IP6 "]
            .iter()
            .find_map(|mark| Some((memchr::memmem::find(text, mark)?, mark.len())))?;
        let head = text[..ip.0].trim_ascii();
        let word_end = |from: usize| {
            head[from..].iter().position(u8::is_ascii_whitespace).map_or(head.len(), |length| from + length)
        };
        let first = word_end(0);
        let second = head.len() - head[first..].trim_ascii_start().len();
        // A date and a time are two words.
        let time = if head[..first].contains(&b'-') { &head[..word_end(second)] } else { &head[..first] };
        if !time.first()?.is_ascii_digit() {
            return None;
        }
        let rest = &text[ip.0 + ip.1..];
        let arrow = memchr::memmem::find(rest, b" > ")?;
        let to = &rest[arrow + 3..];
        let colon = memchr::memmem::find(to, b": ")?;
        Some(Line { time, from: &rest[..arrow], to: &to[..colon], rest: &to[colon + 2..] })
    }

    fn bytes(&self) -> Option<f64> {
        let at = memchr::memmem::rfind(self.rest, b"length ")? + 7;
        let digits =
            self.rest[at..].iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(self.rest.len() - at);
        Unit::BYTES.value_of(&self.rest[at..at + digits]).ok()
    }
}

struct Tcpdump {
    wanted: Wanted,
    flows: Flows,
    midnights: Midnights,
    /// The time of the packet before, where times are those since it.
    since_last: Option<i64>,
}

impl Parser for Tcpdump {
    fn line(&mut self, line: &[u8], out: &mut Batch) {
        let text = line.trim_ascii();
        let said = text.starts_with(b"listening on")
            || text.starts_with(b"tcpdump:")
            || text.starts_with(b"reading from");
        // Lines of -v and -x belong to the packet before them, and begin with a blank.
        // Times of -ttt stand behind a blank too.
        let indented = line.first().is_some_and(u8::is_ascii_whitespace);
        let first = || text.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        let more = indented && (line.starts_with(b"  ") || time_of_day(first()).is_none());
        if text.is_empty() || said || more || text.ends_with(b"dropped by kernel") {
            out.skipped += 1;
            return;
        }
        let mut passed = None;
        if let (Some(before), Some(since)) = (self.since_last, time_of_day(first())) {
            passed = before.checked_add(since);
            self.since_last = passed.or(self.since_last);
        }
        let Some(found) = Line::read(text) else {
            // Of other protocols there is the time; what has not even that is no line of tcpdump.
            if text[0].is_ascii_digit() && memchr::memchr(b':', text).is_some() {
                out.skipped += 1;
            } else {
                out.refuse("", "it is no line of tcpdump", text);
            }
            return;
        };
        let time = match passed.or_else(|| calendar(found.time)) {
            Some(time) => Ok(time),
            None if found.time.contains(&b':') => time_of_day(found.time)
                .map(|time| self.midnights.since_first(time))
                .ok_or("it is no time of day"),
            None => Unit::S.time_of(found.time),
        };
        let time_ns = match time {
            Ok(time) => time,
            Err(reason) => return out.refuse("the time", reason, text),
        };
        // Without a length it is a form of UDP that tcpdump took apart, such as DNS: its number stands in brackets at the end.
        let bracket = || {
            let inside = found.rest.strip_suffix(b")")?;
            Unit::BYTES.value_of(&inside[memchr::memrchr(b'(', inside)? + 1..]).ok()
        };
        match found.bytes().or_else(bracket) {
            Some(bytes) if bytes > 0.0 => {
                let packet = Packet { time_ns, from: found.from, to: found.to, bytes };
                self.flows.take(&packet, &self.wanted, text, out);
            }
            _ => out.skipped += 1,
        }
    }

    fn end(&mut self, out: &mut Batch) {
        self.flows.end(out);
    }
}
