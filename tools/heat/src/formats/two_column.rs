//! Text of two columns, a time and a value, as `awk '{ print $2, $3 }'` makes it; or two columns of wider text. The time is a
//! number, or a clock, which may have its date before it as a word of its own.

use crate::clock_text::{calendar, time_of_day};
use crate::event::{Batch, Event, Quantity, Wanted};
use crate::formats::named::time_of;
use crate::formats::{latency, without_mark, Form, Head, Parser, Setting};
use crate::number::{exact, leading_digits, Decimal};
use crate::unit::Unit;

/// Reads two columns.
pub struct TwoColumn {
    time_unit: Unit,
    value_unit: Unit,
    /// Places of time and value from 0, where they were named; without, a line must have two columns.
    places: Option<(usize, usize)>,
    exact_two: bool,
    /// The first line, where it is names and not numbers.
    names: Option<Vec<u8>>,
    spans: bool,
    wanted: Wanted,
}

impl TwoColumn {
    /// Times and values in these units; the setting's columns may name their places by number.
    #[must_use]
    pub fn new(time_unit: Unit, value_unit: Unit, setting: &Setting) -> Self {
        let (columns, wanted) = (&setting.columns, &setting.wanted);
        let place =
            |name: &Option<String>| name.as_ref().and_then(|name| name.parse::<usize>().ok()?.checked_sub(1));
        let named = columns.time.is_some() || columns.value.is_some();
        let places = (place(&columns.time).unwrap_or(0), place(&columns.value).unwrap_or(1));
        TwoColumn {
            time_unit,
            value_unit,
            places: named.then_some(places),
            exact_two: !named,
            names: names(&setting.head),
            spans: wanted.quantity.is_derived(),
            wanted: wanted.clone(),
        }
    }

    /// Time and value of a line of nothing but two plain numbers, and where the next line begins.
    #[inline]
    fn plain(&self, block: &[u8]) -> Option<(i64, f64, usize)> {
        let (time_digits, time_places, at) = plain_number(block, 0)?;
        let mut at = match block[at] {
            b' ' | b'\t' => at + 1,
            _ => return None,
        };
        while block[at] == b' ' {
            at += 1;
            if at + 40 > block.len() {
                return None;
            }
        }
        let (value_digits, value_places, at) = plain_number(block, at)?;
        let next = match block[at] {
            b'\n' => at + 1,
            b'\r' if block[at + 1] == b'\n' => at + 2,
            _ => return None,
        };
        let time_ns = {
            let exponent = self.time_unit.power - time_places;
            // 16 digits and 9 powers of ten may not fit: checked.
            let scale = POWERS[exponent.unsigned_abs() as usize];
            if exponent >= 0 {
                i64::try_from(time_digits.checked_mul(scale)?).ok()?
            } else {
                (time_digits / scale) as i64
            }
        };
        let value = exact(value_digits, self.value_unit.power - value_places)? * self.value_unit.factor;
        Some((time_ns, value, next))
    }

    fn fields<'a>(&self, line: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), &'static str> {
        let mut fields = line
            .split(|byte| matches!(byte, b' ' | b'\t' | b',' | b';' | b'\r'))
            .filter(|field| !field.is_empty());
        if let Some((time, value)) = self.places {
            let all: Vec<&[u8]> = fields.collect();
            return match (all.get(time), all.get(value)) {
                (Some(time), Some(value)) => Ok((time, value)),
                _ => Err("it has too few columns"),
            };
        }
        let (Some(time), Some(value)) = (fields.next(), fields.next()) else {
            return Err("it has one column, and two are needed");
        };
        if self.exact_two && fields.next().is_some() {
            return Err("it has more than two columns; --time-column and --value-column name two of them");
        }
        Ok((time, value))
    }
}

/// The time of a line that begins with a clock, and what follows it; `None`: it does not.
fn clocked(line: &[u8]) -> Option<(i64, &[u8])> {
    let line = line.strip_prefix(b"[").unwrap_or(line);
    let is_between = |byte: &u8| b" \t,;]".contains(byte);
    let word = |from: usize| {
        let from = from + line[from..].iter().position(|byte| !is_between(byte))?;
        Some(from..line[from..].iter().position(is_between).map_or(line.len(), |length| from + length))
    };
    let first = word(0)?;
    if let Some(time) = calendar(&line[first.clone()]).or_else(|| time_of_day(&line[first.clone()])) {
        return Some((time, &line[first.end..]));
    }
    let second = word(first.end)?;
    let date: Vec<u8> =
        line[first].iter().map(|byte| if *byte == b'/' { b'-' } else { *byte }).chain([b'T']).collect();
    Some((calendar(&[&date[..], &line[second.clone()]].concat())?, &line[second.end..]))
}

/// The one word of what follows a clock.
fn value_after(rest: &[u8]) -> Result<&[u8], &'static str> {
    let mut words = rest.split(|byte| b" \t,;]\r".contains(byte)).filter(|word| !word.is_empty());
    match (words.next(), words.next()) {
        (Some(value), None) => Ok(value),
        (None, _) => Err("it has a time and no value"),
        _ => Err("it has more than a time and a value; --time-column and --value-column name two columns"),
    }
}

/// The first line with something in it, where each of its words begins with a letter and none is a number that is none.
fn names(head: &[u8]) -> Option<Vec<u8>> {
    let line = *Head::new(head).lines.first()?;
    let is_name =
        |word: &[u8]| word[0].is_ascii_alphabetic() && Decimal::parse(word) == Err("it is no number");
    let mut words = line.split(|byte| b" \t,;\r".contains(byte)).filter(|word| !word.is_empty());
    (words.clone().count() > 1 && words.all(is_name)).then(|| line.to_vec())
}

const POWERS: [u64; 20] = {
    let mut powers = [1_u64; 20];
    let mut at = 1;
    while at < 20 {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// Digits, places after the point, and where it ends, of an unsigned decimal of up to 16 digits on each side; `None` where
/// another way must be gone.
#[inline]
fn plain_number(block: &[u8], from: usize) -> Option<(u64, i32, usize)> {
    let (count, mut digits, mut at) = run_of_digits(block, from)?;
    if count == 0 {
        return None;
    }
    let mut places = 0;
    if block[at] == b'.' {
        let (count_after, after, end) = run_of_digits(block, at + 1)?;
        if count + count_after > 18 {
            return None;
        }
        digits = digits * POWERS[count_after as usize] + after;
        places = count_after as i32;
        at = end;
    }
    Some((digits, places, at))
}

#[inline]
fn run_of_digits(block: &[u8], from: usize) -> Option<(u32, u64, usize)> {
    let eight = |at: usize| <[u8; 8]>::try_from(&block[at..at + 8]).ok();
    let (count, digits) = leading_digits(eight(from)?);
    if count < 8 {
        return Some((count, digits, from + count as usize));
    }
    let (more, low) = leading_digits(eight(from + 8)?);
    if more == 8 {
        return None;
    }
    Some((8 + more, digits * POWERS[more as usize] + low, from + 8 + more as usize))
}

/// Bytes that the fast way may look at: two numbers of 16 + 1 + 16 digits, a blank and the end of a line.
const AHEAD: usize = 80;

impl Parser for TwoColumn {
    fn line(&mut self, line: &[u8], out: &mut Batch) {
        let text = without_mark(line).trim_ascii();
        if text.is_empty() || text[0] == b'#' || self.names.as_deref() == Some(text) {
            out.skipped += 1;
            return;
        }
        let clock = if self.places.is_none() { clocked(text) } else { None };
        let (time_ns, value) = match clock {
            Some((time_ns, rest)) => match value_after(rest) {
                Ok(value) => (time_ns, value),
                Err(reason) => return out.refuse("", reason, text),
            },
            None => {
                let (time, value) = match self.fields(text) {
                    Ok(fields) => fields,
                    Err(reason) => return out.refuse("", reason, text),
                };
                match calendar(time).map_or_else(|| time_of(time, self.time_unit), Ok) {
                    Ok(time_ns) => (time_ns, value),
                    Err(reason) => return out.refuse("the time", reason, text),
                }
            }
        };
        let value = match self.value_unit.value_of(value) {
            Ok(value) => value,
            Err(reason) => return out.refuse("the value", reason, text),
        };
        if self.spans {
            let operation = crate::event::Operation {
                end_ns: Some(time_ns),
                latency_ns: (self.value_unit.is_time()).then_some(value),
                ..Default::default()
            };
            return out.take(&operation, &self.wanted, text);
        }
        let time_ns = if self.wanted.at_begin && self.wanted.quantity == Quantity::Latency {
            time_ns.saturating_sub(value.min(9e18) as i64)
        } else {
            time_ns
        };
        out.events.push(Event { time_ns, value, weight: 1, line: out.lines });
    }

    fn block(&mut self, block: &[u8], out: &mut Batch) {
        let mut at = 0;
        let fast = self.places.is_none() && !self.spans && !self.wanted.at_begin;
        while at < block.len() {
            if fast && at + AHEAD <= block.len() {
                if let Some((time_ns, value, next)) = self.plain(&block[at..at + AHEAD]) {
                    out.events.push(Event { time_ns, value, weight: 1, line: out.lines });
                    out.lines += 1;
                    at += next;
                    continue;
                }
            }
            let end = memchr::memchr(b'\n', &block[at..]).map_or(block.len(), |found| at + found);
            self.line(&block[at..end], out);
            out.lines += 1;
            at = end + 1;
        }
    }
}

/// The form.
pub const FORM: Form = Form {
    name: "two-column",
    what: "a time and a value on each line",
    lines_stand_alone: true,
    binary: false,
    value_unit: Unit::UNKNOWN,
    plain_numbers: true,
    unit_said: None,
    quantity: latency,
    is: |head| {
        let numbers = |line: &[u8], exactly: bool| {
            let mut fields = line.split(|byte| b" \t,;\r".contains(byte)).filter(|field| !field.is_empty());
            let mut number = || fields.next().is_some_and(|field| Decimal::parse(field).is_ok());
            number() && number() && !(exactly && fields.next().is_some())
        };
        let by_clock = |line: &[u8]| {
            clocked(line)
                .and_then(|(_, rest)| value_after(rest).ok())
                .is_some_and(|value| Decimal::parse(value).is_ok())
        };
        // The last to be asked: one good line among bad ones is enough, as the bad ones are counted and shown.
        !head.is_binary()
            && (head.any(|line| numbers(line, true))
                || head.most(|line| numbers(line, false))
                || head.most(by_clock))
    },
    open: |setting| {
        Ok(Box::new(TwoColumn::new(
            setting.time_unit.unwrap_or(Unit::S),
            setting.value_unit.unwrap_or(Unit::UNKNOWN),
            setting,
        )))
    },
};
