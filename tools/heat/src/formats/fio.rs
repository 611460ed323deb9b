//! Latency logs of fio: `time (ms), value (ns), direction, block size[, offset[, priority[, issue time (ns)]]]` (fio's
//! HOWTO, "Log File Formats"; latencies are nanoseconds since fio 3.0). The time is that of the completion.

use crate::event::{Batch, Operation, Wanted};
use crate::formats::{latency, Form, Parser};
use crate::unit::Unit;

/// The form.
pub const FORM: Form = Form {
    name: "fio",
    what: "a latency log of fio, with or without offsets",
    lines_stand_alone: true,
    binary: false,
    value_unit: Unit::NS,
    plain_numbers: false,
    unit_said: None,
    quantity: latency,
    is: |head| {
        head.most(|line| {
            let fields: Vec<&[u8]> = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
            (4..=8).contains(&fields.len())
                && fields[..2].iter().all(|field| !field.is_empty() && field.iter().all(u8::is_ascii_digit))
                && matches!(fields[2], b"0" | b"1" | b"2")
                && fields[3].first().is_some_and(u8::is_ascii_digit)
                && line.contains(&b' ')
        })
    },
    open: |setting| {
        Ok(Box::new(Fio {
            time_unit: setting.time_unit.unwrap_or(Unit::MS),
            value_unit: setting.value_unit.unwrap_or(Unit::NS),
            wanted: setting.wanted.clone(),
        }))
    },
};

/// What stands between the commas of a line of a log; none of a line that has nothing, which is counted.
pub(super) fn fields<'a>(line: &'a [u8], out: &mut Batch) -> Option<Vec<&'a [u8]>> {
    let text = line.trim_ascii();
    if text.is_empty() || text[0] == b'#' {
        out.skipped += 1;
        return None;
    }
    Some(text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect())
}

/// When operations ended that a line is of, and what they were; none where it does not say, which is refused.
pub(super) fn ended(
    unit: Unit,
    time: &[u8],
    direction: &[u8],
    line: &[u8],
    out: &mut Batch,
) -> Option<(i64, &'static [u8])> {
    let operation: &[u8] = match direction {
        b"0" => b"R",
        b"1" => b"W",
        b"2" => b"D",
        _ => {
            out.refuse("the direction", "it is none of 0, 1 and 2", line.trim_ascii());
            return None;
        }
    };
    match unit.time_of(time) {
        Ok(end_ns) => Some((end_ns, operation)),
        Err(reason) => {
            out.refuse("the time", reason, line.trim_ascii());
            None
        }
    }
}

struct Fio {
    time_unit: Unit,
    value_unit: Unit,
    wanted: Wanted,
}

impl Parser for Fio {
    fn line(&mut self, line: &[u8], out: &mut Batch) {
        let text = line.trim_ascii();
        let Some(fields) = fields(line, out) else { return };
        let [time, value, direction, size, more @ ..] = &fields[..] else {
            return out.refuse("", "it has fewer than four columns", text);
        };
        let Some((end_ns, operation)) = ended(self.time_unit, time, direction, line, out) else { return };
        let latency_ns = match self.value_unit.value_of(value) {
            Ok(value) => value,
            Err(reason) => return out.refuse("the latency", reason, text),
        };
        if *size == b"0" {
            out.note(
                "its operations have no size: these are averages (log_avg_msec) and not times of operations",
            );
        }
        let offset_bytes = more.first().and_then(|field| Unit::BYTES.value_of(field).ok());
        let found = Operation {
            end_ns: Some(end_ns),
            latency_ns: Some(latency_ns),
            size_bytes: Unit::BYTES.value_of(size).ok(),
            offset_bytes,
            operation,
            ..Operation::default()
        };
        out.take(&found, &self.wanted, text);
    }
}
