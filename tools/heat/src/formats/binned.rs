//! Histograms that were printed one after the other: biolatency and its like as text and as JSON, histogram logs of fio.
//!
//! An event is a value of a bucket, at the middle of what the bucket holds, at the time of the print.

use serde_json::Value;

use crate::clock_text::{calendar, time_of_day, Midnights};
use crate::event::{Batch, Event, Operation, Wanted};
use crate::formats::{fio, latency, words, Form, Head, Parser};
use crate::unit::Unit;

/// Prints of biolatency and its like.
pub const BIOLATENCY: Form = Form {
    name: "biolatency",
    what: "histograms of biolatency of bcc, and their like, as text or JSON (-j)",
    lines_stand_alone: false,
    binary: false,
    value_unit: Unit::US,
    plain_numbers: false,
    unit_said: None,
    quantity: latency,
    is: |head: &Head| head.any(|line| header(line).is_some()) || head.any(|line| print_of(line).is_some()),
    open: |setting| {
        Ok(Box::new(Biolatency {
            wanted: setting.wanted.clone(),
            asked: setting.value_unit,
            unit: setting.value_unit.unwrap_or(Unit::US),
            midnights: Midnights::default(),
            time_ns: None,
            prints: 0,
            under: Vec::new(),
        }))
    },
};

/// Histogram logs of fio (`write_hist_log`).
pub const FIO_HISTOGRAMS: Form = Form {
    name: "fio-histograms",
    what: "a histogram log of fio (write_hist_log)",
    lines_stand_alone: true,
    binary: false,
    value_unit: Unit::NS,
    plain_numbers: false,
    unit_said: None,
    quantity: latency,
    is: |head| {
        head.most(|line| {
            let numbers = || line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            numbers().count() >= 3 + LEAST_BUCKETS
                && numbers().all(|field| !field.is_empty() && field.iter().all(u8::is_ascii_digit))
        })
    },
    open: |setting| {
        Ok(Box::new(FioHistograms {
            wanted: setting.wanted.clone(),
            time_unit: setting.time_unit.unwrap_or(Unit::MS),
            value_unit: setting.value_unit.unwrap_or(Unit::NS),
        }))
    },
};

/// chosen: in one bucket of one print that is eleven days of a million operations a second.
const MOST: u64 = 1_000_000_000_000;

/// Counts as one event for each bucket; more than 32 bits of them as several.
fn take(found: &Operation, count: u64, wanted: &Wanted, text: &[u8], out: &mut Batch) {
    if count > MOST {
        return out.refuse("the count", "it is more than 10^12", text);
    }
    let before = out.events.len();
    out.take(found, wanted, text);
    let Some(event) = out.events.get_mut(before) else { return };
    event.weight = u32::try_from(count).unwrap_or(u32::MAX);
    let mut left = count - u64::from(event.weight);
    let more = *event;
    while left > 0 {
        let weight = u32::try_from(left).unwrap_or(u32::MAX);
        out.events.push(Event { weight, ..more });
        left -= u64::from(weight);
    }
}

/// Counts `count` values at the middle of a bucket of a print, of what is named `under`.
pub(super) fn take_bucket(
    (low, end, count): (f64, f64, u64),
    (unit, end_ns, under): (Unit, i64, &[u8]),
    wanted: &Wanted,
    text: &[u8],
    out: &mut Batch,
) {
    let middle = (low + end) / 2.0 * unit.factor * 10_f64.powi(unit.power);
    let found = Operation {
        end_ns: Some(end_ns),
        latency_ns: Some(middle),
        value: Some(middle),
        device: under,
        operation: under,
        ..Operation::default()
    };
    take(&found, count, wanted, text, out);
}

/// The unit that the line of names says: `usecs : count distribution`.
fn header(line: &[u8]) -> Option<Unit> {
    let mut fields = words(line);
    let unit = fields.next()?;
    if fields.next()? != b":" || fields.next()? != b"count" || fields.next()? != b"distribution" {
        return None;
    }
    unit_of(unit)
}

fn unit_of(word: &[u8]) -> Option<Unit> {
    match word {
        b"nsecs" => Some(Unit::NS),
        b"usecs" => Some(Unit::US),
        b"msecs" => Some(Unit::MS),
        b"secs" => Some(Unit::S),
        _ => None,
    }
}

/// A print as JSON: an object with `val_type` and `data`.
fn print_of(line: &[u8]) -> Option<serde_json::Map<String, Value>> {
    if !line.starts_with(b"{") || memchr::memmem::find(line, b"val_type").is_none() {
        return None;
    }
    match serde_json::from_slice(line) {
        Ok(Value::Object(print)) if print.get("data").is_some_and(Value::is_array) => Some(print),
        _ => None,
    }
}

/// `128 -> 255 : 36 |****|`: from, up to but not with, count.
fn bucket(line: &[u8]) -> Option<(f64, f64, u64)> {
    let fields: Vec<&[u8]> = words(line).collect();
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse::<u64>().ok();
    match fields[..] {
        [low, b"->", high, b":", count, ..] => {
            Some((number(low)? as f64, number(high)? as f64 + 1.0, number(count)?))
        }
        _ => None,
    }
}

struct Biolatency {
    wanted: Wanted,
    asked: Option<Unit>,
    unit: Unit,
    midnights: Midnights,
    /// The time of the print that lines are of; none is known where no time is printed.
    time_ns: Option<i64>,
    prints: i64,
    /// `disk = sda`: what the histogram is of.
    under: Vec<u8>,
}

impl Biolatency {
    fn count(&self, low: f64, end: f64, count: u64, text: &[u8], out: &mut Batch) {
        if self.time_ns.is_none() && self.prints > 1 {
            out.note("its prints have no times: they are drawn a second apart (biolatency -T prints times)");
        }
        if count > 0 {
            let at = self.time_ns.unwrap_or(self.prints * 1_000_000_000);
            take_bucket((low, end, count), (self.unit, at, &self.under), &self.wanted, text, out);
        }
    }

    fn json(&mut self, print: &serde_json::Map<String, Value>, text: &[u8], out: &mut Batch) {
        self.prints += 1;
        let word = |name: &str| print.get(name).and_then(Value::as_str).unwrap_or_default().as_bytes();
        self.time_ns = calendar(word("ts"))
            .or_else(|| time_of_day(word("ts")).map(|time| self.midnights.since_first(time)));
        self.unit = self.asked.or_else(|| unit_of(word("val_type"))).unwrap_or(Unit::US);
        for entry in print.get("data").and_then(Value::as_array).into_iter().flatten() {
            let number = |name: &str| entry.get(name).and_then(Value::as_u64);
            match (number("interval-start"), number("interval-end"), number("count")) {
                (Some(low), Some(high), Some(count)) if low <= high => {
                    self.count(low as f64, high as f64 + 1.0, count, text, out);
                }
                _ => out.refuse("", "an interval of it has no begin, end or count", text),
            }
        }
    }
}

impl Parser for Biolatency {
    fn line(&mut self, line: &[u8], out: &mut Batch) {
        let text = line.trim_ascii();
        if let Some(print) = print_of(text) {
            return self.json(&print, text, out);
        }
        if let Some((low, end, count)) = bucket(text) {
            if low >= end {
                return out.refuse("the bucket", "it ends before it begins", text);
            }
            if count == 0 {
                out.skipped += 1;
            }
            return self.count(low, end, count, text, out);
        }
        out.skipped += 1;
        if let Some(time) = calendar(text) {
            self.time_ns = Some(time);
        } else if let Some(time) = time_of_day(text) {
            self.time_ns = Some(self.midnights.since_first(time));
        } else if let Some(unit) = header(text) {
            self.unit = self.asked.unwrap_or(unit);
            self.prints += 1;
        } else if let Some(at) = memchr::memmem::find(text, b" = ") {
            self.under = text[at + 3..].trim_ascii().to_vec();
        } else if !text.is_empty() && text[0].is_ascii_digit() {
            out.skipped -= 1;
            out.refuse("", "it is no line of a histogram", text);
        }
    }
}

/// Groups of buckets that double, and buckets of one: `FIO_IO_U_PLAT_GROUP_NR` and `FIO_IO_U_PLAT_BITS` of fio's stat.h.
const GROUPS: usize = 29;
const BITS: usize = 6;
/// Buckets of the coarsest log (`log_hist_coarseness=6`).
const LEAST_BUCKETS: usize = (GROUPS << BITS) >> 6;

/// What bucket `index` of the finest log begins with (`plat_idx_to_val` of fio's stat.c).
fn begin_of(index: usize) -> f64 {
    if index < 2 << BITS {
        return index as f64;
    }
    let shift = (index >> BITS) - 1;
    let within = (index & ((1 << BITS) - 1)) + (1 << BITS);
    within as f64 * 2_f64.powi(shift as i32)
}

struct FioHistograms {
    wanted: Wanted,
    time_unit: Unit,
    value_unit: Unit,
}

impl Parser for FioHistograms {
    fn line(&mut self, line: &[u8], out: &mut Batch) {
        let text = line.trim_ascii();
        let Some(fields) = fio::fields(line, out) else { return };
        let buckets = fields.len().saturating_sub(3);
        let coarse = (GROUPS << BITS).checked_div(buckets).unwrap_or(0);
        if !coarse.is_power_of_two() || buckets * coarse != GROUPS << BITS {
            return out.refuse("", "it does not have the number of buckets of fio 3", text);
        }
        let Some((end_ns, operation)) = fio::ended(self.time_unit, fields[0], fields[1], line, out) else {
            return;
        };
        for (place, field) in fields[3..].iter().enumerate().filter(|(_, field)| **field != b"0") {
            let Some(count) = std::str::from_utf8(field).ok().and_then(|field| field.parse::<u64>().ok())
            else {
                return out.refuse("a count", "it is no whole number", text);
            };
            let (low, end) = (begin_of(place * coarse), begin_of((place + 1) * coarse));
            let middle = (low + end) / 2.0 * self.value_unit.factor * 10_f64.powi(self.value_unit.power);
            let found = Operation {
                end_ns: Some(end_ns),
                latency_ns: Some(middle),
                value: Some(middle),
                size_bytes: Unit::BYTES.value_of(fields[2]).ok(),
                operation,
                ..Operation::default()
            };
            take(&found, count, &self.wanted, text, out);
        }
    }
}
