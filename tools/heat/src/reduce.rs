//! From traces to a grid.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use serde::Serialize;

use crate::counts::Counts;
use crate::derived::Points;
use crate::event::{Batch, Quantity, Wanted};
use crate::failure::{Failure, Mistake};
use crate::formats::{self, Columns, Form, Head, Parser, Setting, FORMS};
use crate::frame::{self, Asked, Frame, Scale};
use crate::pass::{Forked, Pass, Progress, Sink, Told};
use crate::source::{Packing, Source};
use crate::spool::{unnamed_file, Attempt, Counted, UNPACKED_MOST};
use crate::survey::Survey;
use crate::unit::Unit;

/// What is to be done with traces.
#[derive(Clone, Default)]
pub struct Request {
    /// The form; `None`: it is recognised.
    pub form: Option<String>,
    /// The unit of times.
    pub time_unit: Option<Unit>,
    /// The unit of values.
    pub value_unit: Option<Unit>,
    /// Columns of the trace, by name or number.
    pub columns: Columns,
    /// What the rows are; `None`: what the form has.
    pub quantity: Option<Quantity>,
    /// Filters, and which time of an operation counts; its quantity is not looked at.
    pub wanted: Wanted,
    /// Columns and rows; its limits are not looked at, but `low`, `high` and `row_step` here.
    pub asked: Asked,
    /// Lower edge: a number in the unit of values, or with a unit of its own.
    pub low: Option<String>,
    /// Upper edge.
    pub high: Option<String>,
    /// Height of a row.
    pub row_step: Option<String>,
    /// Threads that may be used.
    pub threads: usize,
    /// The first line that cannot be understood is an error.
    pub strict: bool,
    /// Where a pipe is copied to.
    pub spool: PathBuf,
}

/// What traces were reduced to; as the lab reads it (`src/iodyno/core/grid.py`).
#[derive(Debug, Serialize)]
pub struct Reduced {
    /// What the rows are.
    pub quantity: String,
    /// Base unit of values.
    pub unit: &'static str,
    /// Where the first column begins.
    pub begin_ns: i64,
    /// Width of a column.
    pub column_ns: i64,
    /// How many.
    pub columns: usize,
    /// Edges of rows.
    pub edges: Vec<f64>,
    /// "linear" or "log".
    pub scale: &'static str,
    /// (column, row, count).
    pub cells: Vec<(u32, u32, u64)>,
    /// Per column below the rows.
    pub under: Vec<u64>,
    /// Per column above them.
    pub over: Vec<u64>,
    /// Events of all columns by value: (from, to, count), ascending; the first begins at the least value, the last ends at
    /// the greatest.
    pub by_value: Vec<(f64, f64, u64)>,
    /// Before or after the time range.
    pub outside: u64,
    /// What went in.
    pub events: u64,
    /// Lines that could not be understood.
    pub unreadable: u64,
    /// The first of them.
    pub unreadable_first: Vec<(u64, String)>,
    /// Rows are offsets within a second.
    pub sub_second: bool,
    /// How the traces were read.
    pub form: String,
    /// What was chosen, and what was left out.
    pub notes: Vec<String>,
    /// Lines that are no event.
    pub skipped: u64,
    /// Events left out by filters.
    pub filtered: u64,
    /// Operations without a place on the device, where places were wanted: they are none of the events.
    pub placeless: u64,
    /// Traces that broke off, in words.
    pub broken: Vec<String>,
}

/// A trace with its form.
pub struct Opened {
    /// The trace.
    pub source: Source,
    /// Its form.
    pub form: &'static Form,
}

/// Sees of what form a trace is.
///
/// # Errors
/// It is empty, or of no form that is known.
pub fn open(source: Source, request: &Request) -> Result<Opened, Mistake> {
    let head = Head::new(&source.head);
    if head.bytes.is_empty() {
        let packed = if source.file_bytes.unwrap_or(0) > 0 { "it unpacks to nothing" } else { "it is empty" };
        return Err(Mistake::new(packed, "a trace with at least one event").at(&source.name));
    }
    let known = || FORMS.iter().map(|form| form.name).collect::<Vec<_>>().join(", ");
    let form = match &request.form {
        Some(name) => formats::named(name).ok_or_else(|| {
            Mistake::new(format!("no form of traces is called {name}"), format!("one of {}", known()))
        })?,
        None if formats::named::is_untimed(&head) => {
            return Err(Mistake::new(
                "its header is one of iosnoop, and no column says when",
                "iosnoop -ts (perf-tools), iosnoop -st (DTrace) or iodyno trace block print times",
            )
            .at(&source.name));
        }
        None if formats::known_to_be_none(&head).is_some() => {
            let (what, advice) = formats::known_to_be_none(&head).unwrap_or_default();
            return Err(Mistake::new(what, advice).at(&source.name));
        }
        None => formats::recognised(&head).ok_or_else(|| {
            let seen = head.lines.first().map_or(&b""[..], |line| line);
            let shown: String = String::from_utf8_lossy(&seen[..seen.len().min(60)])
                .chars()
                .map(|c| if c.is_control() { '\u{b7}' } else { c })
                .collect();
            let what =
                if head.is_binary() { "a binary file of no known form" } else { "a trace of no known form" };
            Mistake::new(
                format!("{what}; it begins with \"{shown}\""),
                format!("--format with one of {}; --time-column and --value-column for other text", known()),
            )
            .at(&source.name)
        })?,
    };
    Ok(Opened { form, source })
}

/// Makes parsers of an opened trace.
///
/// # Errors
/// The trace lacks what its form needs, as a header.
pub fn parsers<'a>(
    opened: &Opened,
    request: &'a Request,
    wanted: &Wanted,
) -> Result<impl Fn() -> Box<dyn Parser> + Sync + 'a, Mistake> {
    let setting = Setting {
        head: opened.source.head.clone(),
        time_unit: request.time_unit,
        value_unit: request.value_unit,
        columns: request.columns.clone(),
        wanted: wanted.clone(),
    };
    let open = opened.form.open;
    open(&setting).map_err(|what| {
        Mistake::new(what, format!("it was read as {}; --format names another form", opened.form.name))
            .at(&opened.source.name)
    })?;
    // It was opened once without a fault, and the same again has none.
    Ok(move || open(&setting).unwrap_or_else(|what| unreachable!("{what}")))
}

/// Reads the traces and counts their events.
///
/// # Errors
/// [`Mistake`]s of traces and options; what the machine refuses.
///
/// # Panics
/// An event was lost or counted twice, which is a defect of this program.
pub fn reduce(sources: Vec<Source>, request: &Request, progress: &Progress) -> Result<Reduced, Failure> {
    let Task { names, mut opened, wanted, unit, asked } = Task::new(sources, request)?;
    if wanted.quantity.is_derived() {
        return derived(&opened, request, &wanted, asked, progress, &names);
    }
    let mut first = Pass::new(request.threads, request.strict, progress);
    let guess = guessed(&opened, request, &wanted, &asked, unit)?;
    let mut both = Both { survey: Survey::default(), counts: guess.as_ref().map(Counts::new) };
    for trace in &mut opened {
        let parser = parsers(trace, request, &wanted)?;
        if trace.source.is_file() {
            match unpacked_once(&trace.source, request) {
                None => first.read(&trace.source, trace.form, &parser, None, &mut both)?,
                Some(file) => {
                    let mut copy =
                        Attempt { into: BufWriter::with_capacity(256 << 10, &file), bytes: 0, whole: true };
                    first.read(&trace.source, trace.form, &parser, Some(&mut copy), &mut both)?;
                    let whole = copy.whole && copy.into.flush().is_ok();
                    let bytes = copy.bytes;
                    drop(copy);
                    if whole {
                        trace.source.move_to(file, bytes);
                    }
                }
            }
        } else {
            let file = unnamed_file(&request.spool)?;
            let mut copy = Counted { into: BufWriter::with_capacity(256 << 10, &file), bytes: 0 };
            first.read(&trace.source, trace.form, &parser, Some(&mut copy), &mut both)?;
            copy.flush()?;
            let bytes = copy.bytes;
            drop(copy);
            trace.source.move_to(file, bytes);
        }
        stop_if_asked(progress)?;
        strict(&first.tally.told(), request, &names)?;
    }
    let (tally, told) = (&first.tally, first.tally.told());
    let line_of = |place| said(tally.line_of(place), &names);
    let Both { survey, counts } = both;
    let frame = frame::choose(&asked, &survey, unit, &line_of)
        .map_err(|mistake| with_unreadable(mistake, &told, &names).at(names.join(", ")))?;
    drop(survey);
    if let (Some(counts), Some(guess)) = (counts, guess) {
        if guess.is_same(&frame) {
            return Ok(reduced(&opened, &wanted, unit, frame, counts, &told, &names));
        }
    }

    let mut second = Pass::new(counting_threads(&frame, request), false, progress);
    let mut counts = Counts::new(&frame);
    for trace in &opened {
        let parser = parsers(trace, request, &wanted)?;
        second.read(&trace.source, trace.form, &parser, None, &mut counts)?;
        stop_if_asked(progress)?;
    }
    assert_eq!(told.unreadable, second.tally.unreadable, "the trace changed between two passes");
    Ok(reduced(&opened, &wanted, unit, frame, counts, &told, &names))
}

/// Traces, and what is wanted of them.
pub(crate) struct Task {
    pub names: Vec<String>,
    pub opened: Vec<Opened>,
    pub wanted: Wanted,
    pub unit: &'static str,
    pub asked: Asked,
}

impl Task {
    /// Looks at the beginnings of the traces: what is wanted depends on all of them.
    pub fn new(sources: Vec<Source>, request: &Request) -> Result<Self, Mistake> {
        let names = sources.iter().map(|source| source.name.clone()).collect();
        let opened =
            sources.into_iter().map(|source| open(source, request)).collect::<Result<Vec<_>, _>>()?;
        let wanted = wanted(&opened, request);
        let unit = unit_of(&opened, request, wanted.quantity);
        let asked = limits(&opened, request, wanted.quantity, unit)?;
        Ok(Task { names, opened, wanted, unit, asked })
    }
}

/// Threads that count: each has the whole grid.
pub(crate) fn counting_threads(frame: &Frame, request: &Request) -> usize {
    if frame.columns * frame.edges.len() > 1 << 20 {
        1
    } else {
        request.threads
    }
}

/// A file to unpack a packed trace into, so that the second pass reads it plain, on all threads; `None` for a plain one, or
/// where no file can be made: then it is unpacked twice.
fn unpacked_once(source: &Source, request: &Request) -> Option<File> {
    let pays = source.packing != Packing::Plain && source.file_bytes? <= UNPACKED_MOST;
    if pays {
        unnamed_file(&request.spool).ok()
    } else {
        None
    }
}

/// Chunks that a frame is guessed from. Chosen: 4 MiB, a few milliseconds, and enough values for the upper end of the rows.
const GUESSED_FROM: u64 = 16;

/// The frame of a long plain file as its begin, its end and some of its middle suggest: most traces are in order, and then it
/// is the right one, and the counts of the first pass are all that is needed. `None` where nothing can be guessed.
fn guessed(
    opened: &[Opened],
    request: &Request,
    wanted: &Wanted,
    asked: &Asked,
    unit: &str,
) -> Result<Option<Frame>, Failure> {
    let [trace] = opened else { return Ok(None) };
    let mut survey = Survey::default();
    let parser = parsers(trace, request, wanted)?;
    if !Pass::sample(&trace.source, trace.form, &parser, GUESSED_FROM, &mut survey)? {
        return Ok(None);
    }
    // What is wrong with a guess is no mistake of the user's.
    let frame = frame::choose(asked, &survey, unit, &|_| String::new()).ok();
    Ok(frame.filter(|frame| frame.columns * frame.edges.len() <= 1 << 20))
}

/// A survey, and counts of the frame that was guessed.
struct Both {
    survey: Survey,
    counts: Option<Counts>,
}

impl Sink for Both {
    fn take(&mut self, batch: &Batch, chunk: u64, text: &[u8]) -> io::Result<()> {
        self.survey.take(batch, chunk, text)?;
        self.counts.as_mut().map_or(Ok(()), |counts| counts.take(batch, chunk, text))
    }
}

impl Forked for Both {
    fn fork(&self) -> Self {
        Both { survey: self.survey.fork(), counts: self.counts.as_ref().map(Forked::fork) }
    }

    fn join(&mut self, other: Self) {
        self.survey.join(other.survey);
        if let (Some(ours), Some(theirs)) = (&mut self.counts, other.counts) {
            ours.join(theirs);
        }
    }
}

/// The same for a quantity that follows from begins and ends: they are read once and sorted.
fn derived(
    opened: &[Opened],
    request: &Request,
    wanted: &Wanted,
    asked: Asked,
    progress: &Progress,
    names: &[String],
) -> Result<Reduced, Failure> {
    let mut pass = Pass::new(1, request.strict, progress);
    let mut points = Points::new(unnamed_file(&request.spool)?);
    for trace in opened {
        pass.read_alone(&trace.source, trace.form, &parsers(trace, request, wanted)?, &mut points)?;
        stop_if_asked(progress)?;
        strict(&pass.tally.told(), request, names)?;
    }
    let span = points.times.map_or(0, |[first, last]| i128::from(last) - i128::from(first));
    let width = asked.column_ns.unwrap_or_else(|| frame::round_width(span, frame::AUTOMATIC_COLUMNS));
    let busy = wanted.quantity == Quantity::Utilisation;
    let asked = match busy {
        true => Asked { column_ns: Some(width), high: asked.high.or(Some(1.0)), ..asked },
        false => asked,
    };
    let mut survey = Survey::default();
    if busy {
        points.utilisation(width, &mut survey)?;
    } else {
        points.depths(&mut survey)?;
    }
    let unit = if busy { "ratio" } else { "count" };
    let told = pass.tally.told();
    let mut frame = frame::choose(&asked, &survey, unit, &|_| "in the trace".to_owned())
        .map_err(|mistake| with_unreadable(mistake, &told, names).at(names.join(", ")))?;
    frame.notes.push(format!("{} operations of {} devices", points.spans, points.devices()));
    let mut counts = Counts::new(&frame);
    if busy {
        points.utilisation(width, &mut counts)?;
    } else {
        points.depths(&mut counts)?;
    }
    Ok(reduced(opened, wanted, unit, frame, counts, &told, names))
}

pub(crate) fn reduced(
    opened: &[Opened],
    wanted: &Wanted,
    unit: &'static str,
    frame: Frame,
    counts: Counts,
    told: &Told,
    names: &[String],
) -> Reduced {
    let mut notes = frame.notes;
    if told.filtered > 0 {
        let events = if told.filtered == 1 { "event is" } else { "events are" };
        notes.push(format!("{} {events} left out: not asked for, or without a length", told.filtered));
    }
    notes.extend(without_place(told));
    notes.extend(told.notes.iter().cloned());
    let broken: Vec<String> =
        told.broken.iter().map(|(at, why)| format!("{} breaks off: {why}", names[*at])).collect();
    notes.extend(broken.iter().cloned());
    let forms: Vec<&str> = opened.iter().map(|trace| trace.form.name).collect();
    let one = forms.iter().all(|name| *name == forms[0]);
    let several = names.len() > 1;
    let found = Reduced {
        quantity: if frame.sub_second {
            "offset in second".to_owned()
        } else {
            wanted.quantity.name().to_owned()
        },
        unit: if frame.sub_second { "ns" } else { unit },
        begin_ns: frame.begin_ns,
        column_ns: frame.column_ns,
        columns: frame.columns,
        scale: if frame.scale == Scale::Log { "log" } else { "linear" },
        cells: counts.cells(),
        under: counts.under(),
        over: counts.over(),
        by_value: counts.by_value(),
        outside: counts.outside,
        events: counts.events + told.unreadable,
        unreadable: told.unreadable,
        unreadable_first: told
            .unreadable_first
            .iter()
            .map(|(at, line, why)| {
                (*line, if several { format!("{}: {why}", names[*at]) } else { why.clone() })
            })
            .collect(),
        sub_second: frame.sub_second,
        form: if one { forms[0].to_owned() } else { forms.join(", ") },
        notes,
        skipped: told.skipped,
        filtered: told.filtered,
        placeless: told.placeless,
        broken,
        edges: frame.edges,
    };
    let in_cells: u64 = found.cells.iter().map(|(_, _, count)| count).sum();
    let beside = found.under.iter().chain(&found.over).sum::<u64>() + found.outside + found.unreadable;
    assert_eq!(in_cells + beside, found.events, "an event was lost");
    found
}

/// What is wanted of the operations of these traces.
#[must_use]
pub fn wanted(opened: &[Opened], request: &Request) -> Wanted {
    let of_form = || opened.first().map(|trace| (trace.form.quantity)(&Head::new(&trace.source.head)));
    let quantity = request.quantity.or_else(of_form).unwrap_or(Quantity::Value);
    Wanted { quantity, ..request.wanted.clone() }
}

/// Base unit of a quantity of these traces.
#[must_use]
pub fn unit_of(opened: &[Opened], request: &Request, quantity: Quantity) -> &'static str {
    let numbers = opened.iter().any(|trace| trace.form.plain_numbers);
    match quantity {
        // A form of plain numbers has the unit that the user says.
        _ if numbers && !quantity.is_derived() => match request.value_unit {
            Some(unit) => unit.base,
            None => opened
                .iter()
                .find_map(|trace| {
                    trace.form.unit_said.and_then(|said| said(&trace.source.head, &request.columns))
                })
                .unwrap_or(""),
        },
        Quantity::Latency => "ns",
        Quantity::Size | Quantity::Offset => "bytes",
        Quantity::Cpu | Quantity::QueueDepth => "count",
        Quantity::Utilisation => "ratio",
        Quantity::Value => "",
    }
}

/// The limits that were asked for, in the base unit.
///
/// # Errors
/// One that is no number, or of a unit that the quantity does not have.
pub fn limits(
    opened: &[Opened],
    request: &Request,
    quantity: Quantity,
    base: &'static str,
) -> Result<Asked, Mistake> {
    let of_form = opened.first().map_or(Unit::UNKNOWN, |trace| trace.form.value_unit);
    let plain = match quantity {
        Quantity::Latency | Quantity::Value => request.value_unit.unwrap_or(of_form),
        _ => request.value_unit.filter(|unit| unit.base == base).unwrap_or(Unit {
            base,
            power: 0,
            factor: 1.0,
        }),
    };
    let read = |option: &str, text: &Option<String>| {
        text.as_ref().map(|text| bound(option, text, plain, base)).transpose()
    };
    Ok(Asked {
        low: read("--min", &request.low)?,
        high: read("--max", &request.high)?,
        row_step: read("--row-step", &request.row_step)?,
        ..request.asked.clone()
    })
}

/// A number of a user: in the unit that it names, or else in `plain`.
///
/// # Errors
/// It is no number of zero or more, or of another unit than `base`.
pub fn bound(option: &str, text: &str, plain: Unit, base: &str) -> Result<f64, Mistake> {
    let wrong = |what: String| Mistake::new(what, "a number such as 2000, 2000us, 2ms or 64KiB").at(option);
    let text = text.trim();
    // An exponent belongs to the number: units begin at the last letter that is none.
    let split = text
        .char_indices()
        .find(|(at, c)| {
            c.is_alphabetic()
                && !(matches!(c, 'e' | 'E')
                    && text[at + 1..].starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+'))
        })
        .map_or(text.len(), |(at, _)| at);
    let (number, name) = (text[..split].trim(), &text[split..]);
    let unit = match name {
        "" => plain,
        name => Unit::named(name).ok_or_else(|| wrong(format!("{name} is no unit")))?,
    };
    if !base.is_empty() && !unit.base.is_empty() && unit.base != base {
        return Err(wrong(format!("{text} is in {}, and the rows are in {base}", unit.base)));
    }
    unit.value_of(number.as_bytes()).map_err(|reason| wrong(format!("\"{text}\": {reason}")))
}

/// What is said of operations without a place; `None` where there are none.
fn without_place(told: &Told) -> Option<String> {
    let has = if told.placeless == 1 { "operation has" } else { "operations have" };
    (told.placeless > 0).then(|| {
        format!("{} {has} no place on the device (as a flush) and no offset to draw", told.placeless)
    })
}

/// Names a line of a source.
pub(crate) fn said((source, line): (usize, u64), names: &[String]) -> String {
    if names.len() > 1 {
        format!("on line {line} of {}", names[source])
    } else {
        format!("on line {line}")
    }
}

pub(crate) fn with_unreadable(mistake: Mistake, told: &Told, names: &[String]) -> Mistake {
    let broken = told
        .broken
        .first()
        .map(|(at, why)| format!("; {} breaks off: {why}", names[*at]))
        .unwrap_or_default();
    let broken = without_place(told).map(|what| format!("; {what}")).unwrap_or_default() + &broken;
    let Some((_, line, reason)) = told.unreadable_first.first() else {
        return Mistake { what: mistake.what + &broken, ..mistake };
    };
    let lines = if told.unreadable == 1 { "line" } else { "lines" };
    let what = format!(
        "{}; {} {lines} cannot be read, first line {line}: {reason}{broken}",
        mistake.what, told.unreadable
    );
    Mistake { what, ..mistake }
}

pub(crate) fn strict(told: &Told, request: &Request, names: &[String]) -> Result<(), Mistake> {
    match told.unreadable_first.first() {
        Some((source, line, reason)) if request.strict => Err(Mistake::new(
            format!("it cannot be read: {reason}"),
            "mend the line, or read without --strict, which counts such lines and goes on",
        )
        .at(format!("{}, line {line}", names[*source]))),
        _ => Ok(()),
    }
}

pub(crate) fn stop_if_asked(progress: &Progress) -> Result<(), Failure> {
    if progress.stop.load(Relaxed) {
        return Err(Failure::Stopped);
    }
    Ok(())
}
