//! Text of comma-, semicolon- or tab-separated columns with a line of names (RFC 4180), and lines of JSON objects.
//!
//! Which columns are time and value is said by `--time-column` and `--value-column`, or seen by their names; a name that ends
//! in `_ns`, `_us`, `_ms`, `_s` or `_bytes` says its unit.

use crate::clock_text;
use crate::event::{Batch, Operation, Wanted};
use crate::formats::{latency, without_mark, Columns, Form, Head, Parser, Setting};
use crate::unit::Unit;

/// Names of columns of time, without units, in the order of preference.
const TIMES: &[&str] =
    &["time", "timestamp", "ts", "end", "t", "@timestamp", "datetime", "date", "start", "begin"];
/// Names of columns of values.
const VALUES: &[&str] = &[
    "latency",
    "lat",
    "value",
    "duration",
    "elapsed",
    "response_time",
    "service_time",
    "delta",
    "rtt",
    "size",
    "bytes",
];
const OPERATIONS: &[&str] = &["operation", "op", "type", "method", "rw"];
const PROCESSES: &[&str] = &["process", "comm", "command", "pid"];
const DEVICES: &[&str] = &["device", "dev", "disk", "host"];

/// CSV.
pub const CSV: Form = Form {
    name: "csv",
    what: "columns with a line of names, separated by comma, semicolon or tab",
    lines_stand_alone: true,
    binary: false,
    value_unit: Unit::UNKNOWN,
    plain_numbers: true,
    unit_said: Some(|head, columns| {
        let (_, names) = header(&Head::new(head))?;
        place(&names, columns.value.as_deref(), VALUES)?.1.map(|unit| unit.base)
    }),
    quantity: latency,
    is: |head| header(head).is_some(),
    open: |setting| {
        let head = Head::new(&setting.head);
        let (separator, names) = header(&head).ok_or("its first line does not name columns")?;
        let comma = if separator == b';' { Comma::Decimal } else { Comma::Thousands };
        let fields = Fields { comma, ..Fields::new(&names, setting)? };
        Ok(Box::new(Csv { separator, header: head.lines[0].to_vec(), fields, cells: Vec::new() }))
    },
};

/// JSON lines.
pub const JSON_LINES: Form = Form {
    name: "json-lines",
    what: "one JSON object a line",
    lines_stand_alone: true,
    binary: false,
    value_unit: Unit::UNKNOWN,
    plain_numbers: true,
    unit_said: Some(|head, columns| {
        let names = keys(&Head::new(head));
        place(&names, columns.value.as_deref(), VALUES)?.1.map(|unit| unit.base)
    }),
    quantity: latency,
    is: |head| head.most(|line| line[0] == b'{' && serde_json::from_slice::<serde_json::Value>(line).is_ok()),
    open: |setting| {
        let names = keys(&Head::new(&setting.head));
        let fields = Fields::new(&names, setting)?;
        Ok(Box::new(JsonLines { names, fields }))
    },
};

/// Where in a row what is.
struct Fields {
    time: usize,
    time_unit: Unit,
    value: usize,
    value_unit: Unit,
    operation: Option<usize>,
    process: Option<usize>,
    device: Option<usize>,
    /// What a comma in a number is.
    comma: Comma,
    wanted: Wanted,
}

/// What a comma in a number is: spreadsheets write `1,5` between semicolons, and `"1,234"` in quotes between commas.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comma {
    Decimal,
    Thousands,
}

impl Comma {
    /// The number with a point where it has one, and no thousands apart; `None` where there is nothing to change.
    fn plain(self, number: &[u8]) -> Option<Vec<u8>> {
        let commas = number.iter().filter(|byte| **byte == b',').count();
        match self {
            Comma::Decimal if commas == 1 && !number.contains(&b'.') => {
                Some(number.iter().map(|byte| if *byte == b',' { b'.' } else { *byte }).collect())
            }
            Comma::Thousands if commas > 0 => {
                let whole = number.split(|byte| *byte == b'.').next().unwrap_or_default();
                let groups: Vec<&[u8]> = whole.split(|byte| *byte == b',').collect();
                let apart = groups[0].len() <= 3
                    && groups[1..].iter().all(|group| group.len() == 3)
                    && groups.iter().all(|group| group.iter().all(u8::is_ascii_digit));
                apart.then(|| number.iter().copied().filter(|byte| *byte != b',').collect())
            }
            _ => None,
        }
    }
}

impl Fields {
    fn new(names: &[String], setting: &Setting) -> Result<Self, String> {
        let Columns { time, value } = &setting.columns;
        let missing = |what: &str, option: &str, asked: &Option<String>| match asked {
            Some(name) => format!("no column is called {name}; there are {}", names.join(", ")),
            None => format!(
                "no column is known as the {what}: name it with {option}; there are {}",
                names.join(", ")
            ),
        };
        let (time_at, time_said) =
            place(names, time.as_deref(), TIMES).ok_or_else(|| missing("time", "--time-column", time))?;
        let (value_at, value_said) = place(names, value.as_deref(), VALUES)
            .ok_or_else(|| missing("value", "--value-column", value))?;
        let beside = |known| place(names, None, known).map(|(at, _)| at);
        Ok(Fields {
            time: time_at,
            time_unit: setting.time_unit.or(time_said.filter(|unit| unit.is_time())).unwrap_or(Unit::S),
            value: value_at,
            value_unit: setting.value_unit.or(value_said).unwrap_or(Unit::UNKNOWN),
            operation: beside(OPERATIONS),
            process: beside(PROCESSES),
            device: beside(DEVICES),
            comma: Comma::Thousands,
            wanted: setting.wanted.clone(),
        })
    }

    fn take<'a>(&self, cell: impl Fn(usize) -> Option<&'a [u8]>, text: &[u8], out: &mut Batch) {
        let (Some(time), Some(value)) = (cell(self.time), cell(self.value)) else {
            return out.refuse("", "it does not have the columns of time and value", text);
        };
        let (plain_time, plain_value) = (self.comma.plain(time), self.comma.plain(value));
        let (time, value) = (plain_time.as_deref().unwrap_or(time), plain_value.as_deref().unwrap_or(value));
        let end_ns = match clock_text::calendar(time) {
            Some(time) => time,
            None if time.contains(&b':') => match clock_text::time_of_day(time) {
                Some(time) => time,
                None => return out.refuse("the time", "it is no time", text),
            },
            None => match self.time_unit.time_of(time) {
                Ok(time) => time,
                Err(reason) => return out.refuse("the time", reason, text),
            },
        };
        let number = match self.value_unit.value_of(value) {
            Ok(value) => value,
            Err(reason) => return out.refuse("the value", reason, text),
        };
        let beside = |at: Option<usize>| at.and_then(&cell).unwrap_or_default();
        let found = Operation {
            end_ns: Some(end_ns),
            latency_ns: Some(number),
            size_bytes: Some(number),
            offset_bytes: Some(number),
            cpu: Some(number),
            value: Some(number),
            operation: beside(self.operation),
            process: beside(self.process),
            device: beside(self.device),
            ..Operation::default()
        };
        out.take(&found, &self.wanted, text);
    }
}

/// Place and unit of the column asked for, by name or number, or of the first that is known.
fn place(names: &[String], asked: Option<&str>, known: &[&str]) -> Option<(usize, Option<Unit>)> {
    let at = match asked {
        Some(asked) => names
            .iter()
            .position(|name| name == asked)
            .or_else(|| asked.parse::<usize>().ok()?.checked_sub(1).filter(|at| *at < names.len())),
        None => known.iter().find_map(|known| {
            names.iter().position(|name| {
                let name = name.to_ascii_lowercase();
                name == *known || unit_in(&name).is_some_and(|(bare, _)| bare == *known)
            })
        }),
    }?;
    Some((at, unit_in(&names[at].to_ascii_lowercase()).map(|(_, unit)| unit)))
}

/// `latency_us` is latency in us; so are `latency(us)`, `latency (us)` and `latency.us`.
fn unit_in(name: &str) -> Option<(&str, Unit)> {
    let bare = name.trim_end_matches(')');
    let at = bare.rfind(['_', '(', '.', ' '])?;
    let unit = Unit::named(&bare[at + 1..])?;
    Some((bare[..at].trim_end(), unit))
}

/// Separator and names, where the first line is names and the second is not.
fn header(head: &Head) -> Option<(u8, Vec<String>)> {
    let first = head.lines.first()?;
    let separator = *b",\t;".iter().max_by_key(|mark| first.iter().filter(|byte| byte == mark).count())?;
    let mut cells = Vec::new();
    let mut unquoted = Vec::new();
    cut(first, separator, &mut cells, &mut unquoted);
    let names: Vec<String> =
        cells.iter().map(|cell| String::from_utf8_lossy(cell).trim().to_owned()).collect();
    let is_name = |name: &String| name.chars().next().is_some_and(|c| c.is_alphabetic() || "@_".contains(c));
    (names.len() > 1 && names.iter().all(is_name) && !first.contains(&b'{')).then_some((separator, names))
}

/// Cells of a line; those in quotes with doubled quotes are written to `unquoted` first.
fn cut(line: &[u8], separator: u8, cells: &mut Vec<Vec<u8>>, unquoted: &mut Vec<u8>) {
    cells.clear();
    let mut rest = line;
    loop {
        unquoted.clear();
        if let Some(mut inside) = rest.strip_prefix(b"\"") {
            loop {
                let end = memchr::memchr(b'"', inside).unwrap_or(inside.len());
                unquoted.extend_from_slice(&inside[..end]);
                inside = inside.get(end + 1..).unwrap_or_default();
                if inside.first() != Some(&b'"') {
                    break;
                }
                unquoted.push(b'"');
                inside = &inside[1..];
            }
            rest = inside;
        }
        let end = memchr::memchr(separator, rest).unwrap_or(rest.len());
        unquoted.extend_from_slice(&rest[..end]);
        cells.push(unquoted.clone());
        match rest.get(end + 1..) {
            Some(more) => rest = more,
            None => return,
        }
    }
}

struct Csv {
    separator: u8,
    header: Vec<u8>,
    fields: Fields,
    cells: Vec<(usize, usize)>,
}

impl Parser for Csv {
    fn line(&mut self, line: &[u8], out: &mut Batch) {
        let text = without_mark(line.strip_suffix(b"\r").unwrap_or(line));
        if text.trim_ascii().is_empty() || text[0] == b'#' || text.trim_ascii() == self.header {
            out.skipped += 1;
            return;
        }
        if memchr::memchr(b'"', text).is_some() {
            let (mut cells, mut unquoted) = (Vec::new(), Vec::new());
            cut(text, self.separator, &mut cells, &mut unquoted);
            return self.fields.take(|at| cells.get(at).map(|cell| cell.trim_ascii()), text, out);
        }
        self.cells.clear();
        let mut at = 0;
        for end in memchr::memchr_iter(self.separator, text).chain([text.len()]) {
            self.cells.push((at, end));
            at = end + 1;
        }
        let cells = &self.cells;
        self.fields.take(|at| cells.get(at).map(|(from, to)| text[*from..*to].trim_ascii()), text, out);
    }
}

/// Keys of the objects in the first lines, in the order of their appearance.
fn keys(head: &Head) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for line in &head.lines {
        if let Ok(serde_json::Value::Object(object)) = serde_json::from_slice(line) {
            for name in object.keys() {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
    }
    names
}

struct JsonLines {
    names: Vec<String>,
    fields: Fields,
}

impl Parser for JsonLines {
    fn line(&mut self, line: &[u8], out: &mut Batch) {
        let text = without_mark(line).trim_ascii();
        if text.is_empty() || text[0] == b'#' {
            out.skipped += 1;
            return;
        }
        let Ok(serde_json::Value::Object(object)) = serde_json::from_slice(text) else {
            return out.refuse("", "it is no JSON object", text);
        };
        // Numbers are taken as they were written.
        let cells: Vec<Option<String>> = self
            .names
            .iter()
            .map(|name| match object.get(name) {
                Some(serde_json::Value::String(text)) => Some(text.clone()),
                Some(serde_json::Value::Number(number)) => Some(number.to_string()),
                _ => None,
            })
            .collect();
        self.fields.take(|at| cells.get(at)?.as_deref().map(str::as_bytes), text, out);
    }
}
