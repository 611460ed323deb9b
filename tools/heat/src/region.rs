//! The lines of a trace whose events lie in a region of values and times, as `awk '$3 > 50000'` finds them.

use std::io::{self, Write};

use crate::event::{Batch, Event};
use crate::failure::{Failure, Mistake};
use crate::frame::Mark;
use crate::pass::{Pass, Progress, Sink};
use crate::reduce::{bound, limits, open, parsers, stop_if_asked, unit_of, wanted, Request};
use crate::source::Source;
use crate::survey::Survey;
use crate::unit::Unit;

/// What was printed.
#[derive(Debug, PartialEq, Eq)]
pub struct Listed {
    /// Lines that were printed.
    pub printed: u64,
    /// Further lines of the region.
    pub more: u64,
    /// Lines of the trace that could not be understood.
    pub unreadable: u64,
}

/// Writes the lines whose value is at least LOW and, where it is given, at most HIGH (`region` is "LOW" or "LOW:HIGH"), and
/// whose time lies between `request.asked.from` and `to`; at most `limit` of them. Packets are written as number, seconds
/// and value.
///
/// # Errors
/// As [`reduce`](crate::reduce::reduce); a time after the first event where that is not known, as the trace is a pipe.
pub fn list(
    sources: Vec<Source>,
    request: &Request,
    region: &str,
    limit: u64,
    out: &mut (dyn Write + Send),
    progress: &Progress,
) -> Result<Listed, Failure> {
    let opened = sources.into_iter().map(|source| open(source, request)).collect::<Result<Vec<_>, _>>()?;
    let wanted = wanted(&opened, request);
    if wanted.quantity.is_derived() {
        return Err(Mistake::new(
            format!("no line of the trace has a {}", wanted.quantity.name()),
            "--outliers with a quantity of single events, such as latency",
        )
        .into());
    }
    let base = unit_of(&opened, request, wanted.quantity);
    // `limits` knows the unit of plain numbers; the region is two of them.
    let (low, high) = region.split_once(':').map_or((region, None), |(low, high)| (low, Some(high)));
    let as_limits = Request {
        low: Some(low.to_owned()).filter(|low| !low.is_empty()),
        high: high.filter(|high| !high.is_empty()).map(str::to_owned),
        ..request.clone()
    };
    let asked =
        limits(&opened, &as_limits, wanted.quantity, base).map_err(|mistake| mistake.at("--outliers"))?;
    let after_first = [asked.from, asked.to].iter().any(|mark| matches!(mark, Some(Mark::AfterFirst(_))));
    let mut earliest = 0;
    if after_first {
        let mut survey = Survey::default();
        let mut pass = Pass::new(request.threads, false, progress);
        for trace in &opened {
            if !trace.source.is_file() {
                return Err(Mistake::new(
                    "when the first event was is not known before a pipe has ended",
                    "times on the trace's own clock (@ before them), or a file instead of a pipe",
                )
                .at(&trace.source.name)
                .into());
            }
            let parser = parsers(trace, request, &wanted)?;
            pass.read(&trace.source, trace.form, &parser, None, &mut survey)?;
            stop_if_asked(progress)?;
        }
        earliest = survey.times.map_or(0, |[(earliest, _), _]| earliest);
    }
    let clock = |mark| match mark {
        Mark::AfterFirst(ns) => earliest.saturating_add(ns),
        Mark::OnClock(ns) => ns,
    };
    let mut lines = Lines {
        low: asked.low.unwrap_or(0.0),
        high: asked.high.unwrap_or(f64::INFINITY),
        from_ns: asked.from.map_or(i64::MIN, clock),
        to_ns: asked.to.map_or(i64::MAX, clock),
        limit,
        binary: false,
        packets: 0,
        out,
        listed: Listed { printed: 0, more: 0, unreadable: 0 },
    };
    let mut pass = Pass::new(1, request.strict, progress);
    for trace in &opened {
        let parser = parsers(trace, request, &wanted)?;
        (lines.binary, lines.packets) = (trace.form.binary, 0);
        pass.read_alone(&trace.source, trace.form, &parser, &mut lines)?;
        stop_if_asked(progress)?;
    }
    lines.out.flush()?;
    lines.listed.unreadable = pass.tally.unreadable;
    Ok(lines.listed)
}

/// Reads a number of a region, for whoever checks an option before a trace is opened.
///
/// # Errors
/// It is no number of zero or more.
pub fn check(region: &str) -> Result<(), Mistake> {
    region
        .split(':')
        .filter(|text| !text.is_empty())
        .try_for_each(|text| bound("--outliers", text, Unit::UNKNOWN, "").map(drop))
}

struct Lines<'a> {
    low: f64,
    high: f64,
    from_ns: i64,
    to_ns: i64,
    limit: u64,
    binary: bool,
    /// Packets before the present chunk.
    packets: u64,
    out: &'a mut (dyn Write + Send),
    listed: Listed,
}

impl Lines<'_> {
    fn holds(&self, event: &Event) -> bool {
        event.value >= self.low
            && event.value <= self.high
            && event.time_ns >= self.from_ns
            && event.time_ns < self.to_ns
    }
}

impl Sink for Lines<'_> {
    fn take(&mut self, batch: &Batch, _chunk: u64, text: &[u8]) -> io::Result<()> {
        let (mut at, mut line) = (0, 0);
        let mut last = None;
        for event in &batch.events {
            if !self.holds(event) {
                continue;
            }
            // A line that says many events is printed once.
            if last.replace(event.line) == Some(event.line) && !self.binary {
                continue;
            }
            if self.listed.printed == self.limit {
                self.listed.more += 1;
                continue;
            }
            self.listed.printed += 1;
            if self.binary {
                let (seconds, value) = (event.time_ns as f64 / 1e9, event.value);
                let number = self.packets + u64::from(event.line) + 1;
                writeln!(self.out, "packet {number} {seconds:.9} {value}")?;
                continue;
            }
            while line < event.line {
                at += memchr::memchr(b'\n', &text[at..]).map_or(text.len() - at, |end| end + 1);
                line += 1;
            }
            let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |end| at + end);
            self.out.write_all(&text[at..end])?;
            self.out.write_all(b"\n")?;
        }
        self.packets += u64::from(batch.lines);
        Ok(())
    }
}
