//! Text of `perf script`: `comm pid [cpu] seconds: event: fields`, and of `trace-cmd report`: `comm-pid [cpu] seconds: ...`. Pairs of block_rq_issue and block_rq_complete and of
//! sys_enter_X and sys_exit_X are operations, named or raw; any other sample is one event of its CPU.

use std::collections::HashMap;

use crate::event::Place;
use crate::event::{Batch, Operation, Quantity, Wanted};
use crate::formats::{is_no_sector, words, Form, Parser};
use crate::unit::Unit;

/// Begins that are remembered. Chosen: more than a machine has tasks or requests in flight.
const UNDER_WAY: usize = 1 << 18;

/// The form.
pub const FORM: Form = Form {
    name: "perf-script",
    what: "text of perf script or trace-cmd report: block requests, system calls, samples of CPUs",
    lines_stand_alone: false,
    binary: false,
    value_unit: Unit::S,
    plain_numbers: false,
    unit_said: None,
    quantity: |head| {
        let pairs =
            |line: &[u8]| Sample::read(line).is_some_and(|sample| !matches!(stage(&sample), Stage::Alone));
        if head.any(pairs) {
            Quantity::Latency
        } else if head.any(|line| Sample::read(line).is_some_and(|sample| sample.cpu.is_some())) {
            Quantity::Cpu
        } else {
            // Without CPUs: how many events each sample stands for.
            Quantity::Value
        }
    },
    is: |head| {
        Sample::read(
            head.lines
                .iter()
                .find(|line| line[0] != b'#' && !line.starts_with(b"cpus="))
                .unwrap_or(&&b""[..]),
        )
        .is_some()
    },
    open: |setting| Ok(Box::new(PerfScript { wanted: setting.wanted.clone(), under_way: HashMap::new() })),
};

struct Sample<'a> {
    process: &'a [u8],
    pid: &'a [u8],
    cpu: Option<f64>,
    time: &'a [u8],
    /// Events that the sample stands for.
    period: f64,
    event: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Sample<'a> {
    /// The time is the first word of digits, one point and a colon; what stands before it says who, what after it says what.
    fn read(text: &'a [u8]) -> Option<Self> {
        let mut at = 0;
        let mut before: Vec<(usize, usize)> = Vec::new();
        for word in words(text) {
            // Where the word is: words are parts of the text, in order.
            let from = at + text[at..].windows(word.len()).position(|window| window == word)?;
            at = from + word.len();
            let time = word.strip_suffix(b":").filter(|time| {
                time.contains(&b'.') && time.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
            });
            let Some(time) = time else {
                before.push((from, at));
                if before.len() > 16 {
                    return None;
                }
                continue;
            };
            let word_at =
                |back: usize| before.get(before.len().checked_sub(back)?).map(|(from, to)| &text[*from..*to]);
            let cpu = word_at(1).and_then(|word| word.strip_prefix(b"[")?.strip_suffix(b"]"));
            let pid_back = if cpu.is_some() { 2 } else { 1 };
            let mut pid = word_at(pid_back)?;
            let pid_place = before.len().checked_sub(pid_back)?;
            let mut ends = pid_place.checked_sub(1).map(|place| before[place].1);
            if !pid.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'/' | b'-')) {
                // trace-cmd joins both by a dash, which a name may have too.
                let dash = memchr::memrchr(b'-', pid)?;
                ends = Some(before[pid_place].0 + dash);
                pid = &pid[dash + 1..];
                if pid.is_empty() || !pid.iter().all(u8::is_ascii_digit) {
                    return None;
                }
            }
            let ends = ends?;
            // A count of samples may stand before the event: `250000 cpu-clock:`.
            let rest = text[at..].trim_ascii_start();
            let mut after = words(rest);
            let mut event = after.next()?;
            let mut period = 1.0;
            if event.iter().all(u8::is_ascii_digit) {
                period = Unit::COUNT.value_of(event).ok()?;
                event = after.next()?;
            }
            let event_at = rest.windows(event.len()).position(|window| window == event)?;
            return Some(Sample {
                process: &text[before[0].0..ends],
                pid,
                cpu: cpu.and_then(|cpu| std::str::from_utf8(cpu).ok()?.parse::<u32>().ok()).map(f64::from),
                time,
                period,
                event: event.strip_suffix(b":").unwrap_or(event),
                rest: &rest[event_at + event.len()..],
            });
        }
        None
    }
}

enum Stage {
    /// A request of this device and sector begins, or ends.
    Block {
        begins: bool,
    },
    /// A call of this name begins, or ends.
    Call {
        begins: bool,
    },
    Alone,
}

fn stage(sample: &Sample) -> Stage {
    let name = sample.event.rsplit(|byte| *byte == b':').next().unwrap_or_default();
    match name {
        b"block_rq_issue" => Stage::Block { begins: true },
        b"block_rq_complete" => Stage::Block { begins: false },
        b"sys_enter" => Stage::Call { begins: true },
        b"sys_exit" => Stage::Call { begins: false },
        _ if name.starts_with(b"sys_enter_") => Stage::Call { begins: true },
        _ if name.starts_with(b"sys_exit_") => Stage::Call { begins: false },
        _ => Stage::Alone,
    }
}

struct Request<'a> {
    device: &'a [u8],
    letters: &'a [u8],
    sector: &'a [u8],
    sectors: f64,
}

/// `8,0 W 4096 () 1234 + 8 [fio]`
fn request(rest: &[u8]) -> Option<Request<'_>> {
    let fields: Vec<&[u8]> = words(rest).collect();
    let plus = fields.iter().position(|field| *field == b"+")?;
    let sectors: f64 = std::str::from_utf8(fields.get(plus + 1)?).ok()?.parse().ok()?;
    let (device, letters) = (fields.first()?, fields.get(1)?);
    Some(Request { device, letters, sector: fields.get(plus.checked_sub(1)?)?, sectors })
}

struct PerfScript {
    wanted: Wanted,
    under_way: HashMap<Vec<u8>, (i64, Place)>,
}

impl Parser for PerfScript {
    fn line(&mut self, line: &[u8], out: &mut Batch) {
        let text = line.trim_ascii_end();
        // A call stack follows its sample, indented by a tab or many blanks, and begins with an address.
        let stack = text.first() == Some(&b'\t')
            || (text.starts_with(b"        ")
                && words(text)
                    .next()
                    .is_some_and(|word| word.len() >= 6 && word.iter().all(u8::is_ascii_hexdigit)));
        if text.is_empty() || stack || text[0] == b'#' || text.starts_with(b"cpus=") {
            out.skipped += 1;
            return;
        }
        let Some(sample) = Sample::read(text) else {
            return out.refuse("", "it is no line of perf script", text);
        };
        let time = match Unit::S.time_of(sample.time) {
            Ok(time) => time,
            Err(reason) => return out.refuse("the time", reason, text),
        };
        let name = sample.event.rsplit(|byte| *byte == b':').next().unwrap_or_default();
        let mut found = Operation {
            end_ns: Some(time),
            cpu: sample.cpu,
            value: Some(sample.period),
            process: sample.process,
            pid: sample.pid,
            operation: name,
            ..Operation::default()
        };
        if matches!(self.wanted.quantity, Quantity::Cpu | Quantity::Value) {
            return out.take(&found, &self.wanted, text);
        }
        let (key, begins) = match stage(&sample) {
            Stage::Alone => {
                // Beside pairs there may be events that have no length: they are said to be left out.
                out.filtered += 1;
                return;
            }
            Stage::Block { begins } => {
                let Some(Request { device, letters, sector, sectors }) = request(sample.rest) else {
                    return out.refuse("", "its request cannot be read", text);
                };
                found.operation = letters;
                found.device = device;
                found.size_bytes = Some(sectors * 512.0);
                found.placeless = is_no_sector(sector);
                found.offset_bytes = Unit::SECTORS.value_of(sector).ok();
                ([device, b" ", sector].concat(), begins)
            }
            Stage::Call { begins } => {
                // Raw system calls have a number where the others have a name: `NR 0 (3, 7f, ...)`.
                let call = match name.splitn(3, |byte| *byte == b'_').nth(2) {
                    Some(call) => call,
                    None => words(sample.rest).nth(1).unwrap_or_default(),
                };
                found.operation = call;
                ([sample.pid, b" ", call].concat(), begins)
            }
        };
        if begins {
            out.skipped += 1;
            if self.under_way.len() >= UNDER_WAY && !self.under_way.contains_key(&key) {
                return out.refuse("", "more operations are in flight than are remembered", text);
            }
            if let Some((_, place)) = self.under_way.insert(key, (time, out.place())) {
                out.refuse_at(place, "", "it began again before it had ended", text);
            }
            return;
        }
        match self.under_way.remove(&key) {
            Some((begin, _)) => {
                found.begin_ns = Some(begin);
                out.take(&found, &self.wanted, text);
            }
            None => out.refuse("", "its begin is not in the trace", text),
        }
    }

    fn end(&mut self, out: &mut Batch) {
        let mut left: Vec<_> = self.under_way.drain().collect();
        left.sort_by_key(|(_, (_, place))| *place);
        for (what, (_, place)) in left {
            out.refuse_at(place, "", "it began and never ended", &what);
        }
    }
}
