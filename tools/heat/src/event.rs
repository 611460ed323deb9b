//! What formats say, what of it is wanted, and the batch that carries it to whoever counts.

use std::collections::BTreeSet;

use crate::number::Reason;

/// Unreadable lines that are kept with number and reason. Chosen: what a person reads before looking at the file.
pub const FIRST_UNREADABLE: usize = 10;

/// Where a line is: its chunk above, its line in the chunk below; ordered as in the trace.
pub type Place = u64;

/// The place of a line in a chunk.
#[must_use]
pub fn place(chunk: u64, line: u32) -> Place {
    chunk << 32 | u64::from(line)
}
/// Bytes of an unreadable line that are shown.
const EXCERPT_BYTES: usize = 60;

/// What the rows of a grid are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// From the begin of an operation to its end.
    Latency,
    /// Bytes of an operation.
    Size,
    /// Where on the device or in the file it began.
    Offset,
    /// Number of the CPU that said it.
    Cpu,
    /// Operations that were in flight when one began, itself with them.
    QueueDepth,
    /// Share of an interval in which a device had something to do.
    Utilisation,
    /// The one number of a form that does not say what it is.
    Value,
}

/// Names of quantities.
pub const QUANTITIES: &[(&str, Quantity)] = &[
    ("latency", Quantity::Latency),
    ("size", Quantity::Size),
    ("offset", Quantity::Offset),
    ("cpu", Quantity::Cpu),
    ("queue-depth", Quantity::QueueDepth),
    ("utilisation", Quantity::Utilisation),
    ("value", Quantity::Value),
];

impl Quantity {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        QUANTITIES.iter().find(|(_, known)| *known == self).map_or("value", |(name, _)| name)
    }

    /// Whether it follows from the begins and ends of all operations together.
    #[must_use]
    pub fn is_derived(self) -> bool {
        matches!(self, Quantity::QueueDepth | Quantity::Utilisation)
    }
}

/// What of the events is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What the rows are.
    pub quantity: Quantity,
    /// The column of an event is that of its begin, not that of its end.
    pub at_begin: bool,
    /// Only this operation.
    pub operation: Option<String>,
    /// Only this process: its name or its number.
    pub process: Option<String>,
    /// Only this device.
    pub device: Option<String>,
}

impl Default for Wanted {
    fn default() -> Self {
        Wanted { quantity: Quantity::Latency, at_begin: false, operation: None, process: None, device: None }
    }
}

impl Wanted {
    /// Whether events are to be filtered at all.
    #[must_use]
    pub fn filters(&self) -> bool {
        self.operation.is_some() || self.process.is_some() || self.device.is_some()
    }
}

/// One operation as a format read it; what it does not say is `None` or empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Operation<'a> {
    /// When it began.
    pub begin_ns: Option<i64>,
    /// When it ended, or the one time that is known.
    pub end_ns: Option<i64>,
    /// From begin to end.
    pub latency_ns: Option<f64>,
    /// How many bytes.
    pub size_bytes: Option<f64>,
    /// Where.
    pub offset_bytes: Option<f64>,
    /// It has no place on the device, as a flush: where it is is not missing.
    pub placeless: bool,
    /// The CPU.
    pub cpu: Option<f64>,
    /// A number that is what the user says it is.
    pub value: Option<f64>,
    /// "R", "WS", "read", ...
    pub operation: &'a [u8],
    /// Name of the process.
    pub process: &'a [u8],
    /// Number of the process.
    pub pid: &'a [u8],
    /// Name of the device.
    pub device: &'a [u8],
}

/// An event that is to be counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// Its time on the clock of the trace.
    pub time_ns: i64,
    /// Its value in the base unit.
    pub value: f64,
    /// How many events it stands for.
    pub weight: u32,
    /// Its line in the block, from 0.
    pub line: u32,
}

/// An operation from begin to end, for what follows from many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it began.
    pub begin_ns: i64,
    /// When it ended.
    pub end_ns: i64,
    /// Number of its device in [`Batch::devices`].
    pub device: u32,
    /// Its line in the block, from 0.
    pub line: u32,
}

/// A line that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Where it is, see [`place`].
    pub place: Place,
    /// Why, with the beginning of the line.
    pub reason: String,
}

/// What the lines of one block said.
#[derive(Default)]
pub struct Batch {
    /// Events, in the order of lines.
    pub events: Vec<Event>,
    /// Operations, where a derived quantity is wanted.
    pub spans: Vec<Span>,
    /// Names of the devices of `spans`; they last over blocks.
    pub devices: Vec<Vec<u8>>,
    /// Number of the chunk that the block is of.
    pub chunk: u64,
    /// Lines of the block.
    pub lines: u32,
    /// Lines that are no event: headers, comments, empty ones, halves of a pair.
    pub skipped: u64,
    /// Events that the filters left out.
    pub filtered: u64,
    /// Operations without a place, where places were wanted.
    pub placeless: u64,
    /// Lines that could not be understood.
    pub unreadable: u64,
    /// The first of them.
    pub unreadable_first: Vec<Unreadable>,
    /// What was taken for granted, or is to be known of the values.
    pub notes: BTreeSet<String>,
}

impl Batch {
    /// Where the present line is.
    #[must_use]
    pub fn place(&self) -> Place {
        place(self.chunk, self.lines)
    }

    /// Forgets the block, and begins one of `chunk`; names of devices stay.
    pub fn begin(&mut self, chunk: u64) {
        self.chunk = chunk;
        self.events.clear();
        self.spans.clear();
        self.lines = 0;
        (self.skipped, self.filtered, self.placeless, self.unreadable) = (0, 0, 0, 0);
        self.unreadable_first.clear();
        self.notes.clear();
    }

    /// Says something of the trace, once.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.insert(text.into());
    }

    /// Counts a line that could not be understood: `what` of it, and `reason`.
    #[cold]
    pub fn refuse(&mut self, what: &str, reason: Reason, text: &[u8]) {
        self.refuse_at(self.place(), what, reason, text);
    }

    /// The same for another line than the present one.
    #[cold]
    pub fn refuse_at(&mut self, place: Place, what: &str, reason: Reason, text: &[u8]) {
        self.unreadable += 1;
        if self.unreadable_first.len() < FIRST_UNREADABLE {
            let shown: String = String::from_utf8_lossy(&text[..text.len().min(EXCERPT_BYTES)])
                .chars()
                .map(|c| if c.is_control() { '\u{b7}' } else { c })
                .collect();
            let more = if text.len() > EXCERPT_BYTES { "..." } else { "" };
            let what = if what.is_empty() { String::new() } else { format!("{what}: ") };
            self.unreadable_first
                .push(Unreadable { place, reason: format!("{what}{reason}: \"{shown}{more}\"") });
        }
    }

    /// Takes an operation: filters it, picks what is wanted, and counts it as an event, as filtered, as without a place or as
    /// unreadable.
    pub fn take(&mut self, operation: &Operation, wanted: &Wanted, text: &[u8]) {
        if wanted.filters() && !passes(operation, wanted) {
            self.filtered += 1;
            return;
        }
        let latency = operation.latency_ns.or_else(|| match (operation.begin_ns, operation.end_ns) {
            (Some(begin), Some(end)) => Some(end.checked_sub(begin)? as f64),
            _ => None,
        });
        // A latency below zero is that of a clock that went back, or of mixed lines: no event.
        if latency.is_some_and(|latency| latency < 0.0) {
            return self.refuse("the latency", "it is below zero: the end lies before the begin", text);
        }
        let whole = latency.map(|latency| latency.min(9e18) as i64);
        let begin = operation.begin_ns.or_else(|| operation.end_ns?.checked_sub(whole?));
        let end = operation.end_ns.or_else(|| operation.begin_ns?.checked_add(whole?));
        if wanted.quantity.is_derived() {
            let (Some(begin_ns), Some(end_ns)) = (begin, end) else {
                return self.refuse("", "begin and end are not both known", text);
            };
            let device = self.device(operation.device);
            return self.spans.push(Span { begin_ns, end_ns, device, line: self.lines });
        }
        if wanted.quantity == Quantity::Offset && operation.placeless {
            self.placeless += 1;
            return;
        }
        let (what, value) = match wanted.quantity {
            Quantity::Latency => ("the latency", latency),
            Quantity::Size => ("the size", operation.size_bytes),
            Quantity::Offset => ("the offset", operation.offset_bytes),
            Quantity::Cpu => ("the CPU", operation.cpu),
            _ => ("the value", operation.value.or(latency)),
        };
        let time = if wanted.at_begin { begin.or(end) } else { end.or(begin) };
        match (time, value) {
            (Some(time_ns), Some(value)) => {
                self.events.push(Event { time_ns, value, weight: 1, line: self.lines })
            }
            (None, _) => self.refuse("the time", "it is not there", text),
            (_, None) => self.refuse(what, "it is not there", text),
        }
    }

    fn device(&mut self, name: &[u8]) -> u32 {
        let found = self.devices.iter().position(|known| known == name).unwrap_or_else(|| {
            self.devices.push(name.to_vec());
            self.devices.len() - 1
        });
        u32::try_from(found).unwrap_or(u32::MAX)
    }
}

fn passes(operation: &Operation, wanted: &Wanted) -> bool {
    let is = |asked: &Option<String>, names: &[&[u8]]| {
        asked
            .as_ref()
            .is_none_or(|asked| names.iter().any(|name| name.eq_ignore_ascii_case(asked.as_bytes())))
    };
    wanted.operation.as_ref().is_none_or(|asked| is_operation(operation.operation, asked))
        && is(&wanted.process, &[operation.process, operation.pid])
        && is(&wanted.device, &[operation.device])
}

/// Whether the word of a trace for an operation is the one asked for: the word itself, or one of the letters that block
/// traces have for it (R read, W write, D discard, F flush first; `RWBS` in the kernel's block trace).
fn is_operation(word: &[u8], asked: &str) -> bool {
    if word.eq_ignore_ascii_case(asked.as_bytes()) {
        return true;
    }
    let letters = word.len() <= 6 && word.iter().all(u8::is_ascii_uppercase);
    match asked.to_ascii_lowercase().as_str() {
        "read" | "r" => letters && word.contains(&b'R'),
        "write" | "w" => letters && word.contains(&b'W'),
        "discard" | "trim" | "d" => letters && word.contains(&b'D'),
        "flush" | "f" => letters && word.starts_with(b"F") && !word.contains(&b'W'),
        _ => false,
    }
}
