//! Text of `perf trace`: `time ( duration ms): comm/tid call(arguments) = result`; the time is milliseconds since the begin.

use crate::event::{Batch, Operation, Wanted};
use crate::formats::{latency, Form, Parser};
use crate::unit::Unit;

/// The form.
pub const FORM: Form = Form {
    name: "perf-trace",
    what: "text of perf trace",
    lines_stand_alone: true,
    binary: false,
    value_unit: Unit::MS,
    plain_numbers: false,
    unit_said: None,
    quantity: latency,
    is: |head| head.most(|line| parts(line).is_some()),
    open: |setting| {
        let unit = setting.time_unit.unwrap_or(Unit::MS);
        Ok(Box::new(PerfTrace { unit, wanted: setting.wanted.clone() }))
    },
};

/// Time, duration and the rest.
fn parts(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let open = memchr::memchr(b'(', text)?;
    let close = open + memchr::memmem::find(&text[open..], b"):")?;
    let time = text[..open].trim_ascii();
    let duration = text[open + 1..close].trim_ascii();
    let is_time =
        time == b"?" || (!time.is_empty() && time.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.'));
    (is_time && (duration.is_empty() || duration.ends_with(b"ms"))).then_some((
        time,
        duration,
        text[close + 2..].trim_ascii(),
    ))
}

struct PerfTrace {
    unit: Unit,
    wanted: Wanted,
}

impl Parser for PerfTrace {
    fn line(&mut self, line: &[u8], out: &mut Batch) {
        let text = line.trim_ascii();
        if text.is_empty() || text[0] == b'#' {
            out.skipped += 1;
            return;
        }
        let Some((time, duration, rest)) = parts(text) else {
            return out.refuse("", "it is no line of perf trace", text);
        };
        let (who, what) = rest.split_at(memchr::memchr(b' ', rest).unwrap_or(rest.len()));
        let slash = memchr::memrchr(b'/', who);
        let (process, pid) = match slash {
            Some(at) => (&who[..at], who[at + 1..].trim_ascii_end()),
            None => (who, &b""[..]),
        };
        let what = what.trim_ascii();
        let resumed = memchr::memmem::find(what, b"[continued]: ").map(|at| &what[at + 13..]);
        if duration.is_empty() && resumed.is_none() {
            // A call that was interrupted by another task's line, and goes on below.
            out.skipped += 1;
            return;
        }
        let call = resumed.unwrap_or(what);
        let call = &call[..memchr::memchr(b'(', call).unwrap_or(call.len())];
        if time == b"?" {
            return out.refuse("the time", "the call began before the trace", text);
        }
        let latency_ns =
            match Unit::MS.value_of(duration.strip_suffix(b"ms").unwrap_or(duration).trim_ascii()) {
                Ok(value) => value,
                Err(reason) => return out.refuse("the duration", reason, text),
            };
        let time = match self.unit.time_of(time) {
            Ok(time) => time,
            Err(reason) => return out.refuse("the time", reason, text),
        };
        let found = Operation {
            begin_ns: Some(time),
            latency_ns: Some(latency_ns),
            size_bytes: result(what),
            operation: call,
            process,
            pid,
            ..Operation::default()
        };
        out.take(&found, &self.wanted, text);
    }
}

/// What the call gave back, where it is a number of zero or more.
pub(crate) fn result(text: &[u8]) -> Option<f64> {
    let at = memchr::memmem::rfind(text, b" = ")? + 3;
    let word = text[at..].split(u8::is_ascii_whitespace).next()?;
    if word.first()? == &b'-' {
        return None;
    }
    Unit::BYTES.value_of(word).ok()
}
