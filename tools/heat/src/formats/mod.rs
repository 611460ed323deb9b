//! The forms of traces, one a file, and how each is recognised by what is in it.
//!
//! To add one: a file with a [`Parser`], and a line in [`FORMS`]. The order is that of asking: the particular before the
//! general.

use crate::event::{Batch, Quantity, Wanted};
use crate::source::HEAD_BYTES;
use crate::unit::Unit;

mod binned;
mod blkparse;
mod csv;
mod fio;
mod hdr_log;
pub(crate) mod named;
mod pcap;
mod perf_script;
mod perf_trace;
mod quantize;
mod strace;
mod tcpdump;
mod two_column;

/// Lines that are looked at. Chosen: more than the headers of any form, and less than a page of garbage.
const LINES_LOOKED_AT: usize = 64;

/// Columns that the user named, by name or by number from 1.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// That of the time.
    pub time: Option<String>,
    /// That of the value.
    pub value: Option<String>,
}

/// What a parser is made of.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The beginning of the trace, at most [`HEAD_BYTES`].
    pub head: Vec<u8>,
    /// The unit of times, where the user said it.
    pub time_unit: Option<Unit>,
    /// The unit of values, where the user said it.
    pub value_unit: Option<Unit>,
    /// Columns that the user named.
    pub columns: Columns,
    /// What of the events is wanted.
    pub wanted: Wanted,
}

/// Reads the lines of one form.
pub trait Parser: Send {
    /// Takes one line, without its end; its number is `out.lines`.
    fn line(&mut self, line: &[u8], out: &mut Batch);

    /// Takes whole lines.
    fn block(&mut self, block: &[u8], out: &mut Batch) {
        let mut at = 0;
        for end in
            memchr::memchr_iter(b'\n', block).chain((block.last() != Some(&b'\n')).then_some(block.len()))
        {
            self.line(&block[at..end], out);
            out.lines += 1;
            at = end + 1;
        }
    }

    /// The trace has ended: what began and never ended is said.
    fn end(&mut self, _out: &mut Batch) {}
}

/// Sees in the beginning of a trace what base unit the column of values has.
pub type UnitSaid = fn(&[u8], &Columns) -> Option<&'static str>;

/// One form of traces.
pub struct Form {
    /// Its name, as `--format` takes it.
    pub name: &'static str,
    /// What makes such a trace.
    pub what: &'static str,
    /// Whether a line says all of itself, so that lines may be read out of order and by two threads.
    pub lines_stand_alone: bool,
    /// Whether it is not made of lines: a parser then gets the bytes as they come.
    pub binary: bool,
    /// The unit of a number that a user names without one.
    pub value_unit: Unit,
    /// Whether values are numbers whose meaning the user knows.
    pub plain_numbers: bool,
    /// The base unit that names of columns say, where they do.
    pub unit_said: Option<UnitSaid>,
    /// What the rows are where nobody said.
    pub quantity: fn(&Head) -> Quantity,
    /// Whether a trace is of this form.
    pub is: fn(&Head) -> bool,
    /// Makes a parser.
    pub open: fn(&Setting) -> Result<Box<dyn Parser>, String>,
}

/// Every form.
pub const FORMS: &[Form] = &[
    pcap::FORM,
    hdr_log::FORM,
    named::IOSNOOP,
    named::BIOSNOOP,
    blkparse::FORM,
    perf_trace::FORM,
    tcpdump::FORM,
    strace::FORM,
    perf_script::FORM,
    fio::FORM,
    binned::BIOLATENCY,
    binned::FIO_HISTOGRAMS,
    quantize::FORM,
    csv::JSON_LINES,
    csv::CSV,
    two_column::FORM,
];

/// The beginning of a trace, cut into lines.
pub struct Head<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its first lines with something in them, without blanks at their ends.
    pub lines: Vec<&'a [u8]>,
}

impl<'a> Head<'a> {
    /// Cuts; the last line is left out where it may be cut off.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        let whole = match memchr::memrchr(b'\n', bytes) {
            Some(end) if bytes.len() >= HEAD_BYTES => &bytes[..end],
            _ => bytes,
        };
        let lines = without_mark(whole)
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::trim_ascii)
            .filter(|line| !line.is_empty())
            .take(LINES_LOOKED_AT)
            .collect();
        Head { bytes, lines }
    }

    /// Whether at least half of the lines that are no comments are such as `is` says, and there is one.
    pub fn most(&self, is: impl Fn(&[u8]) -> bool) -> bool {
        let lines = self.lines.iter().filter(|line| line[0] != b'#');
        let (such, all) = lines.fold((0, 0), |(such, all), line| (such + usize::from(is(line)), all + 1));
        such > 0 && 2 * such >= all
    }

    /// Whether a line is such as `is` says.
    pub fn any(&self, is: impl Fn(&[u8]) -> bool) -> bool {
        self.lines.iter().any(|line| is(line))
    }

    /// Whether it is no text: a NUL byte, or more than a tenth of bytes that no text has.
    #[must_use]
    pub fn is_binary(&self) -> bool {
        let odd =
            self.bytes.iter().filter(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace()).count();
        self.bytes.contains(&0) || odd * 10 > self.bytes.len()
    }
}

/// Why a trace that is of no form cannot be one, and what can: forms that people bring and that have no events over time.
#[must_use]
pub fn known_to_be_none(head: &Head) -> Option<(&'static str, &'static str)> {
    let names =
        |line: &[u8]| line.starts_with(b"Value") && memchr::memmem::find(line, b"Percentile").is_some();
    if head.any(names) {
        return Some((
            "percentiles of a whole run (.hgrm), which say nothing of when",
            "the interval log of the same program (.hlog, .hdr)",
        ));
    }
    if sent_and_received(head) {
        return Some((
            "times when messages were sent and when they came back (sockperf --full-log), and no latencies",
            "awk -F, '$2 > $1 {print $2, ($2 - $1) * 1e6}' makes lines of it: --value-unit us",
        ));
    }
    if head.bytes.trim_ascii_start().starts_with(b"{")
        && memchr::memmem::find(head.bytes, b"\"fio version\"").is_some()
    {
        return Some((
            "results of a whole run of fio (--output-format=json, json+), which say nothing of when",
            "write_lat_log= or write_hist_log= in the same job file",
        ));
    }
    let chrome = memchr::memmem::find(head.bytes, b"\"traceEvents\"").is_some()
        || (head.bytes.trim_ascii_start().starts_with(b"[")
            && memchr::memmem::find(head.bytes, b"\"ph\"").is_some());
    chrome.then_some((
        "a trace of Chrome or Perfetto as one JSON document",
        "jq -c '.traceEvents[]? | select(.ph == \"X\") | {ts, dur}' makes lines of it: --time-column ts --value-column dur --time-unit us --value-unit us",
    ))
}

/// Whether a line names the columns of sockperf's log of messages.
fn sent_and_received(head: &Head) -> bool {
    head.any(|line| line.starts_with(b"txTime,") && line.ends_with(b"rxTime"))
}

/// The form of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Form> {
    FORMS.iter().find(|form| form.name == name)
}

/// The form that a trace is of.
#[must_use]
pub fn recognised(head: &Head) -> Option<&'static Form> {
    FORMS.iter().find(|form| (form.is)(head)).filter(|_| !sent_and_received(head))
}

/// A line without the mark that some programs put before the first one (byte order mark, in UTF-8).
pub(crate) fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// Whether a sector is a tracer's word for none: the kernel's greatest number, as such or with a sign, or a dash.
pub(crate) fn is_no_sector(field: &[u8]) -> bool {
    matches!(field, b"18446744073709551615" | b"-1" | b"-")
}

/// Fields between blanks.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty())
}

/// Latency, as most forms carry it.
pub(crate) fn latency(_head: &Head) -> Quantity {
    Quantity::Latency
}
