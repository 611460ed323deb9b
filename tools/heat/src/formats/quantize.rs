//! Aggregations of a tracer, printed one after the other: quantize, lquantize and llquantize of DTrace, hist and lhist of bpftrace.
//!
//! An event is a value of a bucket, at the middle of what the bucket holds, at the time of the print. Of a bucket without an end
//! (`< 0`, `>= 1000`, `(..., 0)`) it is at the edge that there is.

use crate::clock_text::{calendar, time_of_day, Midnights};
use crate::event::{Batch, Wanted};
use crate::formats::binned::take_bucket;
use crate::formats::{latency, words, Form, Parser};
use crate::unit::Unit;

/// Prints of aggregations.
pub const FORM: Form = Form {
    name: "quantize",
    what: "aggregations of DTrace (quantize, lquantize, llquantize) or bpftrace (hist, lhist), printed at intervals",
    lines_stand_alone: false,
    binary: false,
    value_unit: Unit::NS,
    plain_numbers: false,
    unit_said: None,
    quantity: latency,
    is: |head| head.any(is_header) || (head.any(|line| map(line).is_some()) && head.any(|line| bucket(line).is_some())),
    open: |setting| {
        Ok(Box::new(Quantize {
            wanted: setting.wanted.clone(),
            asked: setting.value_unit,
            unit: setting.value_unit.unwrap_or(Unit::NS),
            time_unit: setting.time_unit,
            midnights: Midnights::default(),
            time_ns: None,
            prints: 0,
            printed: Vec::new(),
            under: Vec::new(),
            line_before: Vec::new(),
            row: None,
        }))
    },
};

/// The line of names above the rows of DTrace: `value  ------------- Distribution ------------- count`.
fn is_header(line: &[u8]) -> bool {
    let fields: Vec<&[u8]> = words(line).collect();
    matches!(fields[..], [b"value", _, b"Distribution", _, b"count"])
}

/// The line above a map of bpftrace, `@usecs[sda]:`: its name and its keys.
fn map(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let said = line.trim_ascii().strip_prefix(b"@")?.strip_suffix(b":")?;
    match memchr::memchr(b'[', said) {
        Some(at) => Some((&said[..at], said[at + 1..].strip_suffix(b"]")?)),
        None => Some((said, b"")),
    }
}

/// The unit that the name of a map ends with, as `usecs` and `read_us` do.
fn unit_of(name: &[u8]) -> Option<Unit> {
    match name.rsplit(|byte| *byte == b'_').next()? {
        b"nsecs" | b"ns" => Some(Unit::NS),
        b"usecs" | b"us" => Some(Unit::US),
        b"msecs" | b"ms" => Some(Unit::MS),
        b"secs" | b"s" => Some(Unit::S),
        _ => None,
    }
}

/// A number as bpftrace shortens powers of two: `512K`.
fn shortened(field: &[u8]) -> Option<f64> {
    let (digits, power) = match field.split_last()? {
        (b'K', digits) => (digits, 1),
        (b'M', digits) => (digits, 2),
        (b'G', digits) => (digits, 3),
        (b'T', digits) => (digits, 4),
        (b'P', digits) => (digits, 5),
        _ => (field, 0),
    };
    Some(number(digits)? * 1024_f64.powi(power))
}

fn number(field: &[u8]) -> Option<f64> {
    std::str::from_utf8(field).ok()?.parse::<i64>().ok().map(|whole| whole as f64)
}

fn count(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// `[128, 256)  36 |@@@|`, `[1]  3 |@|`, `(..., 0)  1 ||` or `[1K, ...)  2 |@|`: from, to, count.
fn bucket(line: &[u8]) -> Option<(f64, f64, u64)> {
    let text = line.trim_ascii();
    if !matches!(text.first(), Some(b'[' | b'(')) {
        return None;
    }
    let end = text.iter().position(|byte| matches!(byte, b')' | b']'))?;
    let (edges, rest) = (&text[1..end], &text[end + 1..]);
    let mut fields = words(rest);
    let counted = count(fields.next()?)?;
    if !fields.next()?.starts_with(b"|") {
        return None;
    }
    let mut edges = edges.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let (low, high) = match (edges.next()?, edges.next()) {
        (one, None) => (shortened(one)?, shortened(one)? + 1.0),
        (b"...", Some(high)) => (shortened(high)?, shortened(high)?),
        (low, Some(b"...")) => (shortened(low)?, shortened(low)?),
        (low, Some(high)) => (shortened(low)?, shortened(high)?),
    };
    Some((low, high, counted))
}

/// What a row of DTrace begins with: a value, or one end of the rest.
#[derive(Clone, Copy, PartialEq)]
enum Edge {
    Value(f64),
    Below(f64),
    From(f64),
}

/// `  1024 |@@@@   36`, `< 0 |  0` or `>= 100 |@  2`.
fn row(line: &[u8]) -> Option<(Edge, u64)> {
    let at = memchr::memchr(b'|', line)?;
    let (named, drawn) = (&line[..at], &line[at + 1..]);
    let named: Vec<&[u8]> = words(named).collect();
    let edge = match named[..] {
        [value] => Edge::Value(number(value)?),
        [b"<", value] => Edge::Below(number(value)?),
        [b">=", value] => Edge::From(number(value)?),
        _ => return None,
    };
    let counted = words(drawn).last()?;
    // A full bar and its count may touch.
    let digits = counted.iter().position(|byte| *byte != b'@').map_or(counted, |at| &counted[at..]);
    Some((edge, count(digits)?))
}

struct Quantize {
    wanted: Wanted,
    asked: Option<Unit>,
    unit: Unit,
    /// That of a time that is a number alone on its line.
    time_unit: Option<Unit>,
    midnights: Midnights,
    /// The time of the print that lines are of; none is known where no time is printed.
    time_ns: Option<i64>,
    prints: i64,
    /// What the distributions of this print are of: one that comes again is of the next print.
    printed: Vec<Vec<u8>>,
    under: Vec<u8>,
    /// The last line that was neither: DTrace prints the keys above a distribution.
    line_before: Vec<u8>,
    /// The row before, which ends where the next one begins.
    row: Option<(Edge, u64)>,
}

impl Quantize {
    /// A distribution begins.
    fn begin(&mut self, of: Vec<u8>, under: Vec<u8>) {
        if self.printed.is_empty() || self.printed.contains(&of) {
            self.printed.clear();
            self.prints += 1;
        }
        self.printed.push(of);
        self.under = under;
    }

    fn count(&self, low: f64, high: f64, count: u64, text: &[u8], out: &mut Batch) {
        if count == 0 {
            out.skipped += 1;
            return;
        }
        if self.time_ns.is_none() && self.prints > 1 {
            out.note("its prints have no times: they are drawn a second apart (print walltimestamp, %Y, or time())");
        }
        let at = self.time_ns.unwrap_or(self.prints * 1_000_000_000);
        take_bucket((low, high, count), (self.unit, at, &self.under), &self.wanted, text, out);
    }

    /// The row before has ended, at `next` where that is known; powers of two go on to the next one.
    fn finish(&mut self, next: Option<f64>, text: &[u8], out: &mut Batch) {
        let Some((edge, counted)) = self.row.take() else { return };
        let (low, high) = match edge {
            Edge::Below(end) => (end, end),
            Edge::From(begin) => (begin, begin),
            Edge::Value(low) => (low, next.unwrap_or(low * 2.0)),
        };
        self.count(low, high, counted, text, out);
    }
}

impl Parser for Quantize {
    fn line(&mut self, line: &[u8], out: &mut Batch) {
        let text = line.trim_ascii();
        if let Some((edge, counted)) = row(text) {
            let (Edge::Value(begin) | Edge::Below(begin) | Edge::From(begin)) = edge;
            self.finish(Some(begin), text, out);
            self.row = Some((edge, counted));
            return;
        }
        self.finish(None, text, out);
        if let Some((low, high, counted)) = bucket(text) {
            if low > high {
                return out.refuse("the bucket", "it ends before it begins", text);
            }
            return self.count(low, high, counted, text, out);
        }
        out.skipped += 1;
        let time = calendar(text)
            .or_else(|| time_of_day(text).map(|time| self.midnights.since_first(time)))
            .or_else(|| self.time_unit?.time_of(text).ok());
        if time.is_some() {
            (self.time_ns, self.line_before) = (time, Vec::new());
            self.printed.clear();
        } else if let Some((name, keys)) = map(text) {
            self.unit = self.asked.or_else(|| unit_of(name)).unwrap_or(Unit::NS);
            let under = if keys.is_empty() { name } else { keys };
            self.begin(text.to_vec(), under.to_vec());
        } else if is_header(text) {
            let keys = std::mem::take(&mut self.line_before);
            self.begin(keys.clone(), keys);
        } else if !text.is_empty() {
            self.line_before = text.to_vec();
        }
    }

    fn end(&mut self, out: &mut Batch) {
        self.finish(None, b"", out);
    }
}
