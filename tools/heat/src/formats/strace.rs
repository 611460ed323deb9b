//! Text of `strace -T` with `-t`, `-tt`, `-ttt` or `-r`, with or without `-f`: the call begins at the time and takes what
//! stands in angle brackets (strace(1)). A call that another task's line cut in two is put together again.

use std::collections::HashMap;

use crate::clock_text::{time_of_day, Midnights};
use crate::event::Place;
use crate::event::{Batch, Operation, Wanted};
use crate::formats::perf_trace::result;
use crate::formats::{latency, Form, Head, Parser};
use crate::unit::Unit;

/// Cut calls that are remembered. Chosen: more than there are tasks.
const UNDER_WAY: usize = 1 << 16;

/// The form.
pub const FORM: Form = Form {
    name: "strace",
    what: "text of strace -T with -ttt, -tt, -t or -r, also with -f",
    lines_stand_alone: false,
    binary: false,
    value_unit: Unit::S,
    plain_numbers: false,
    unit_said: None,
    quantity: latency,
    is: |head| head.any(|line| duration(line).is_some()) && head.most(|line| Line::read(line).is_some()),
    open: |setting| {
        let head = Head::new(&setting.head);
        let relative = is_relative(&head);
        Ok(Box::new(Strace {
            wanted: setting.wanted.clone(),
            relative,
            now_ns: 0,
            midnights: Midnights::default(),
            cut: HashMap::new(),
        }))
    },
};

/// `-r` times start at nothing and are small steps; those of `-ttt` are seconds since 1970.
fn is_relative(head: &Head) -> bool {
    let times: Vec<i64> = head
        .lines
        .iter()
        .filter_map(|line| Line::read(line))
        .filter(|line| !line.time.contains(&b':'))
        .filter_map(|line| Unit::S.time_of(line.time).ok())
        .collect();
    times.first().is_some_and(|first| *first < 1_000_000_000)
        && times.windows(2).any(|pair| pair[1] < pair[0])
}

struct Line<'a> {
    pid: &'a [u8],
    time: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Line<'a> {
    fn read(text: &'a [u8]) -> Option<Self> {
        let (mut pid, mut rest) = (&b""[..], text.trim_ascii());
        if let Some(after) = rest.strip_prefix(b"[pid ") {
            let end = memchr::memchr(b']', after)?;
            pid = after[..end].trim_ascii();
            rest = after[end + 1..].trim_ascii_start();
        } else {
            let (word, after) = first_word(rest);
            if word.iter().all(u8::is_ascii_digit)
                && first_word(after).0.first().is_some_and(u8::is_ascii_digit)
            {
                (pid, rest) = (word, after);
            }
        }
        let (time, rest) = first_word(rest);
        let is_time = time_of_day(time).is_some()
            || (time.contains(&b'.') && time.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.'));
        (is_time && !rest.is_empty()).then_some(Line { pid, time, rest })
    }
}

fn first_word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    (&text[..end], text[end..].trim_ascii_start())
}

fn duration(text: &[u8]) -> Option<&[u8]> {
    let inside = text.trim_ascii_end().strip_suffix(b">")?;
    let at = memchr::memrchr(b'<', inside)?;
    let word = &inside[at + 1..];
    (word.first()?.is_ascii_digit()).then_some(word)
}

struct Strace {
    wanted: Wanted,
    relative: bool,
    now_ns: i64,
    midnights: Midnights,
    /// Call and begin of what was cut, by task.
    cut: HashMap<Vec<u8>, (i64, Place)>,
}

impl Strace {
    fn time(&mut self, text: &[u8]) -> Result<i64, &'static str> {
        if text.contains(&b':') {
            return time_of_day(text)
                .map(|time| self.midnights.since_first(time))
                .ok_or("it is no time of day");
        }
        let time = Unit::S.time_of(text)?;
        if self.relative {
            self.now_ns = self.now_ns.checked_add(time).ok_or("it is more than 292 years")?;
            return Ok(self.now_ns);
        }
        Ok(time)
    }
}

impl Parser for Strace {
    fn line(&mut self, line: &[u8], out: &mut Batch) {
        let text = line.trim_ascii();
        if text.is_empty() || text[0] == b'#' {
            out.skipped += 1;
            return;
        }
        let Some(found) = Line::read(text) else {
            return out.refuse("", "it has no time: strace -ttt -T prints them", text);
        };
        let time = match self.time(found.time) {
            Ok(time) => time,
            Err(reason) => return out.refuse("the time", reason, text),
        };
        // Signals, exits, and calls that never return are no operations.
        let over = found.rest.starts_with(b"+++") || text.ends_with(b"= ?");
        if found.rest.starts_with(b"---") || over {
            out.skipped += 1;
            if over {
                self.cut.remove(found.pid);
            }
            return;
        }
        if text.ends_with(b"<unfinished ...>") {
            out.skipped += 1;
            let full = self.cut.len() >= UNDER_WAY && !self.cut.contains_key(found.pid);
            if full {
                return out.refuse("", "more calls are in flight than are remembered", text);
            }
            if let Some((_, place)) = self.cut.insert(found.pid.to_vec(), (time, out.place())) {
                out.refuse_at(place, "", "the call was cut and never went on", text);
            }
            return;
        }
        let Some(took) = duration(text) else {
            return out.refuse("the duration", "it is not there: strace -T prints it", text);
        };
        let latency_ns = match Unit::S.value_of(took) {
            Ok(value) => value,
            Err(reason) => return out.refuse("the duration", reason, text),
        };
        let resumed = found.rest.strip_prefix(b"<... ");
        let begin_ns = match resumed {
            None => time,
            Some(_) => match self.cut.remove(found.pid) {
                Some((begin, _)) => begin,
                None => time.saturating_sub(latency_ns.min(9e18) as i64),
            },
        };
        let call = resumed.unwrap_or(found.rest);
        let call = &call[..call.iter().position(|byte| matches!(byte, b'(' | b' ')).unwrap_or(call.len())];
        let operation = Operation {
            begin_ns: Some(begin_ns),
            latency_ns: Some(latency_ns),
            size_bytes: result(text),
            operation: call,
            process: found.pid,
            pid: found.pid,
            ..Operation::default()
        };
        out.take(&operation, &self.wanted, text);
    }

    fn end(&mut self, out: &mut Batch) {
        let mut left: Vec<_> = self.cut.drain().collect();
        left.sort_by_key(|(_, (_, place))| *place);
        for (pid, (_, place)) in left {
            out.refuse_at(place, "", "the call was cut and never went on: task", &pid);
        }
    }
}
