//! Text of blkparse: an event is a completion (C) with the issue (D) of the same device and sector before it.
//!
//! Source: blkparse(1), the default format `%D %2c %8s %5T.%9t %5p %2a %3d`, then `%S + %n [%C]`.

use std::collections::HashMap;

use crate::event::Place;
use crate::event::{Batch, Operation, Wanted};
use crate::formats::{latency, words, Form, Parser};
use crate::unit::Unit;

/// Issues that are remembered. Chosen: more than any device has in flight; a trace without completions stays bounded.
const UNDER_WAY: usize = 1 << 18;

/// The form.
pub const FORM: Form = Form {
    name: "blkparse",
    what: "text of blkparse",
    lines_stand_alone: false,
    binary: false,
    value_unit: Unit::S,
    plain_numbers: false,
    unit_said: None,
    quantity: latency,
    is: |head| head.most(|line| Line::read(line).is_some()),
    open: |setting| {
        Ok(Box::new(Blkparse { wanted: setting.wanted.clone(), under_way: HashMap::new(), over: false }))
    },
};

struct Line<'a> {
    device: &'a [u8],
    cpu: &'a [u8],
    time: &'a [u8],
    pid: &'a [u8],
    action: &'a [u8],
    operation: &'a [u8],
    sector: Option<u64>,
    sectors: Option<u64>,
    process: &'a [u8],
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl<'a> Line<'a> {
    fn read(text: &'a [u8]) -> Option<Self> {
        let mut fields = words(text);
        let mut next = || fields.next();
        let (device, cpu, sequence, time, pid) = (next()?, next()?, next()?, next()?, next()?);
        let (action, operation) = (next()?, next()?);
        let is_device = device.split(|byte| *byte == b',').filter(|part| number(part).is_some()).count() == 2;
        if !is_device
            || number(cpu).is_none()
            || number(sequence).is_none()
            || !time.contains(&b'.')
            || action.len() > 2
        {
            return None;
        }
        let sector = next().and_then(number);
        let sectors = next().filter(|plus| *plus == b"+").and_then(|_| next()).and_then(number);
        let process = next().and_then(|name| name.strip_prefix(b"[")?.strip_suffix(b"]")).unwrap_or_default();
        Some(Line { device, cpu, time, pid, action, operation, sector, sectors, process })
    }
}

struct Issue {
    begin_ns: i64,
    sectors: u64,
    place: Place,
    pid: Vec<u8>,
    process: Vec<u8>,
}

struct Blkparse {
    wanted: Wanted,
    under_way: HashMap<(Vec<u8>, u64), Issue>,
    /// The summary at the end has begun.
    over: bool,
}

impl Parser for Blkparse {
    fn line(&mut self, line: &[u8], out: &mut Batch) {
        let text = line.trim_ascii();
        if text.starts_with(b"CPU") || text.starts_with(b"Total ") {
            self.over = true;
        }
        if text.is_empty() || self.over {
            out.skipped += 1;
            return;
        }
        let Some(found) = Line::read(text) else {
            return out.refuse("", "it is no line of blkparse", text);
        };
        if !matches!(found.action, b"D" | b"C") {
            // Queued, merged, plugged, ...: stages of the same operations.
            out.skipped += 1;
            return;
        }
        let time = match Unit::S.time_of(found.time) {
            Ok(time) => time,
            Err(reason) => return out.refuse("the time", reason, text),
        };
        // A flush has no sectors: it is known by its device.
        let key = (found.device.to_vec(), found.sector.unwrap_or(u64::MAX));
        let sectors = found.sectors.unwrap_or(0);
        if found.action == b"D" {
            out.skipped += 1;
            let (pid, process) = (found.pid.to_vec(), found.process.to_vec());
            let issue = Issue { begin_ns: time, sectors, place: out.place(), pid, process };
            if self.under_way.len() >= UNDER_WAY && !self.under_way.contains_key(&key) {
                return out.refuse("", "more operations are in flight than are remembered", text);
            }
            if let Some(before) = self.under_way.insert(key, issue) {
                // Requeued, or its completion is lost; only the last issue counts.
                out.refuse_at(before.place, "", "it was issued again before it was complete", text);
            }
            return;
        }
        let Some(issue) = self.under_way.remove(&key) else {
            return out.refuse("", "its issue (D) is not in the trace", text);
        };
        if sectors > 0 && sectors < issue.sectors {
            // Complete in parts: the rest is still in flight.
            let rest = Issue {
                sectors: issue.sectors - sectors,
                pid: issue.pid.clone(),
                process: issue.process.clone(),
                ..issue
            };
            self.under_way.insert((key.0, key.1.saturating_add(sectors)), rest);
        }
        let operation = Operation {
            begin_ns: Some(issue.begin_ns),
            end_ns: Some(time),
            size_bytes: Some(sectors as f64 * 512.0),
            offset_bytes: found.sector.map(|sector| sector as f64 * 512.0),
            placeless: found.sector.is_none_or(|sector| sector == u64::MAX),
            cpu: number(found.cpu).map(|cpu| cpu as f64),
            operation: found.operation,
            device: found.device,
            pid: &issue.pid,
            process: &issue.process,
            ..Operation::default()
        };
        out.take(&operation, &self.wanted, text);
    }

    fn end(&mut self, out: &mut Batch) {
        let mut left: Vec<_> = self.under_way.drain().collect();
        left.sort_by_key(|(_, issue)| issue.place);
        for ((device, sector), issue) in left {
            let what = format!("{} at sector {sector}", String::from_utf8_lossy(&device));
            out.refuse_at(issue.place, "", "it was issued and never complete", what.as_bytes());
        }
    }
}
