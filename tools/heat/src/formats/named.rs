//! Text whose first line names its columns: iosnoop (DTrace's and perf-tools'), biosnoop (bcc's, libbpf-tools' and
//! bpftrace's), ext4slower and their like.
//!
//! Sources: the headers that these tools print. A name says what a column is, and its end says the unit: `DELTA(us)`,
//! `LATms`, `TIME(s)`. A command may hold blanks; as every other column is one word, the surplus words are its own.

use crate::event::{Batch, Operation, Wanted};
use crate::formats::{is_no_sector, latency, words, Form, Head, Parser, Setting};
use crate::unit::Unit;

/// What a column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// When an operation began.
    Begin,
    /// When it ended.
    End,
    /// Wall-clock time of four words, as `iosnoop -v` prints it.
    Words(usize),
    /// From begin to end.
    Latency,
    /// How much.
    Size,
    /// Where.
    Offset,
    /// Read or write.
    Operation,
    /// The process's name.
    Process,
    /// The process's number.
    Pid,
    /// The device.
    Device,
    /// Anything of one word.
    Other,
    /// Text of any number of words that ends the line.
    Rest,
}

use Role::{Begin, Device, End, Latency, Offset, Operation as Op, Other, Pid, Process, Rest, Size, Words};

/// Columns of iosnoop by their names without units. `STIME`, `TIME`: begin and end on the trace's clock; `DELTA`: the
/// time between; `DTIME`: time on the device, `BLOCK`: 512-byte sectors (iosnoop(1m)).
const IOSNOOP_NAMES: &[(&str, Role)] = &[
    ("STIME", Begin),
    ("STARTS", Begin),
    ("TIME", End),
    ("ENDS", End),
    ("STRTIME", Words(4)),
    ("DELTA", Latency),
    ("LAT", Latency),
    ("DTIME", Other),
    ("D", Op),
    ("TYPE", Op),
    ("BLOCK", Offset),
    ("SIZE", Size),
    ("BYTES", Size),
    ("DEVICE", Device),
    ("DEV", Device),
    ("COMM", Process),
    ("PID", Pid),
    ("PATHNAME", Rest),
    ("ARGS", Rest),
    ("CMDLINE", Rest),
    ("MOUNT", Rest),
];

/// Columns of biosnoop. `TIME` is printed at the end of an operation; `QUE`: time in the queue before it was issued.
const BIOSNOOP_NAMES: &[(&str, Role)] = &[
    ("TIME", End),
    ("COMM", Process),
    ("PID", Pid),
    ("DISK", Device),
    ("T", Op),
    ("SECTOR", Offset),
    ("BYTES", Size),
    ("QUE", Other),
    ("LAT", Latency),
    ("OFF_KB", Offset),
    ("FILENAME", Rest),
];

/// iosnoop.
pub const IOSNOOP: Form = Form {
    name: "iosnoop",
    what: "iosnoop of DTrace or perf-tools, and `iodyno trace block`",
    lines_stand_alone: true,
    binary: false,
    value_unit: Unit::US,
    plain_numbers: false,
    unit_said: None,
    quantity: latency,
    is: |head| {
        header(head, IOSNOOP_NAMES).is_some_and(|columns| serves(&columns, &["D", "TYPE", "DELTA", "STIME"]))
    },
    open: |setting| open(setting, IOSNOOP_NAMES, Unit::US),
};

/// biosnoop.
pub const BIOSNOOP: Form = Form {
    name: "biosnoop",
    what: "biosnoop of bcc, libbpf-tools or bpftrace, ext4slower and their like",
    lines_stand_alone: true,
    binary: false,
    value_unit: Unit::MS,
    plain_numbers: false,
    unit_said: None,
    quantity: latency,
    is: |head| header(head, BIOSNOOP_NAMES).is_some_and(|columns| serves(&columns, &["LAT"])),
    open: |setting| open(setting, BIOSNOOP_NAMES, Unit::S),
};

/// A column of a header.
#[derive(Clone, Debug)]
struct Column {
    name: String,
    role: Role,
    unit: Option<Unit>,
}

/// Name and unit of a column: `DELTA(us)` is DELTA in us, `LATms` is LAT in ms.
fn column(word: &[u8], names: &[(&str, Role)]) -> Column {
    let text = String::from_utf8_lossy(word);
    let (name, unit) = match text.split_once('(') {
        Some((name, unit)) => (name.to_owned(), Unit::named(unit.trim_end_matches(')'))),
        None => match text.strip_suffix("ms").or(text.strip_suffix("us")) {
            Some(name) => (name.to_owned(), Unit::named(&text[name.len()..])),
            None => (text.clone().into_owned(), None),
        },
    };
    let role =
        names.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map_or(Other, |(_, role)| *role);
    let unit = if name == "STARTs" || name == "ENDs" { Some(Unit::S) } else { unit };
    let unit = if name == "OFF_KB" { Some(Unit::KIB) } else { unit };
    Column { name, role, unit }
}

/// The columns of the line that is a header: all of capitals, with a column that says when.
fn header(head: &Head, names: &[(&str, Role)]) -> Option<Vec<Column>> {
    head.lines.iter().take(16).find_map(|line| {
        let columns: Vec<Column> = words(line).map(|word| column(word, names)).collect();
        let known = columns.iter().filter(|column| column.role != Other).count();
        let times = columns.iter().any(|column| matches!(column.role, Begin | End | Words(_)));
        let untimed = columns.iter().any(|column| column.role == Latency);
        (known >= 3 && (times || untimed) && words(line).all(|word| !word[0].is_ascii_digit()))
            .then_some(columns)
    })
}

/// Whether a header names operations, places and lengths, as iosnoop's does, and no column says when.
#[must_use]
pub fn is_untimed(head: &Head) -> bool {
    head.lines.iter().take(16).any(|line| {
        let columns: Vec<Column> = words(line).map(|word| column(word, IOSNOOP_NAMES)).collect();
        let has = |role| columns.iter().any(|column| column.role == role);
        let timed = columns.iter().any(|column| matches!(column.role, Begin | End | Words(_)));
        has(Op) && has(Offset) && has(Size) && !timed
    })
}

fn serves(columns: &[Column], one_of: &[&str]) -> bool {
    columns.iter().any(|column| one_of.contains(&column.name.as_str()))
        && columns.iter().any(|column| matches!(column.role, Begin | End))
}

fn open(setting: &Setting, names: &[(&str, Role)], time_unit: Unit) -> Result<Box<dyn Parser>, String> {
    let head = Head::new(&setting.head);
    let columns = header(&head, names).ok_or("it has no header line that names its columns")?;
    // Linux tools print a wall clock without a unit; what is known by its place alone is that it is a time.
    let units = columns
        .iter()
        .map(|column| match column.role {
            Begin | End => setting.time_unit.or(column.unit).unwrap_or(time_unit),
            Latency => setting.value_unit.or(column.unit).unwrap_or(time_unit),
            Offset => column.unit.unwrap_or(Unit::SECTORS),
            _ => Unit::BYTES,
        })
        .collect();
    let text_at = columns.iter().position(|column| column.role == Process);
    Ok(Box::new(Named { columns, units, text_at, wanted: setting.wanted.clone(), fields: Vec::new() }))
}

struct Named {
    columns: Vec<Column>,
    units: Vec<Unit>,
    /// Place of the column whose text may hold blanks.
    text_at: Option<usize>,
    wanted: Wanted,
    /// Begin and end of each word of the present line; kept, so that no line allocates.
    fields: Vec<(usize, usize)>,
}

impl Named {
    fn is_header(&self, text: &[u8]) -> bool {
        words(text).next().is_some_and(|word| {
            self.columns.first().is_some_and(|first| {
                word.starts_with(first.name.as_bytes()) && word.first().is_some_and(u8::is_ascii_uppercase)
            })
        }) && words(text).count() == self.columns.len()
            && words(text).all(|word| !word[0].is_ascii_digit())
    }

    fn cut(&mut self, text: &[u8]) {
        self.fields.clear();
        let mut begin = None;
        for (at, byte) in text.iter().enumerate() {
            match (byte.is_ascii_whitespace(), begin) {
                (false, None) => begin = Some(at),
                (true, Some(from)) => {
                    self.fields.push((from, at));
                    begin = None;
                }
                _ => {}
            }
        }
        if let Some(from) = begin {
            self.fields.push((from, text.len()));
        }
    }
}

impl Parser for Named {
    fn line(&mut self, line: &[u8], out: &mut Batch) {
        let text = line.trim_ascii();
        let said = [&b"Tracing "[..], b"Attaching "].iter().any(|word| text.starts_with(word));
        if text.is_empty() || text[0] == b'#' || self.is_header(text) || said {
            out.skipped += 1;
            return;
        }
        self.cut(text);
        let wordy: usize = self.columns.iter().map(|c| if let Words(n) = c.role { n - 1 } else { 0 }).sum();
        let needed = self.columns.iter().filter(|column| column.role != Rest).count() + wordy;
        if self.fields.len() < needed {
            return out.refuse("", "it has fewer columns than the header", text);
        }
        let rest = self.columns.last().is_some_and(|column| column.role == Rest);
        // With text at the end its words cannot be told from those of a command: then a command is one word.
        let surplus = if rest { 0 } else { self.fields.len() - needed };
        let mut found = Operation::default();
        let mut at = 0;
        for (number, (column, unit)) in self.columns.iter().zip(&self.units).enumerate() {
            let count = match column.role {
                Words(count) => count,
                _ if self.text_at == Some(number) => 1 + surplus,
                _ => 1,
            };
            let Some(&(from, _)) = self.fields.get(at) else { break };
            let to = self.fields[(at + count - 1).min(self.fields.len() - 1)].1;
            let field = &text[from..to];
            at += count;
            match column.role {
                Begin | End => match time_of(field, *unit) {
                    Ok(time) if column.role == Begin => found.begin_ns = Some(time),
                    Ok(time) => found.end_ns = Some(time),
                    Err(reason) => return out.refuse("the time", reason, text),
                },
                Latency => match unit.value_of(field) {
                    Ok(value) => found.latency_ns = Some(value),
                    Err(reason) => return out.refuse("the latency", reason, text),
                },
                Size => found.size_bytes = unit.value_of(field).ok(),
                Offset if is_no_sector(field) => found.placeless = true,
                Offset => found.offset_bytes = unit.value_of(field).ok(),
                Op => found.operation = field,
                Process => found.process = field,
                Pid => found.pid = field,
                Device => found.device = field,
                Words(_) | Other | Rest => {}
            }
        }
        out.take(&found, &self.wanted, text);
    }
}

/// A number in `unit`, or a time of day.
pub(crate) fn time_of(field: &[u8], unit: Unit) -> Result<i64, &'static str> {
    if field.contains(&b':') {
        return crate::clock_text::time_of_day(field).ok_or("it is no time of day");
    }
    unit.time_of(field)
}
