//! Every form against a brute-force count: what a random trace says is known before it is written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use iodyno_heat::event::{Quantity, Wanted};
use iodyno_heat::failure::Failure;
use iodyno_heat::formats::FORMS;
use iodyno_heat::frame::{Asked, Scale};
use iodyno_heat::pass::Progress;
use iodyno_heat::reduce::{reduce, Reduced, Request};
use iodyno_heat::source::Source;
use iodyno_heat::unit::Unit;
use proptest::prelude::*;

/// An operation whose truth is known: begin and latency in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Truth {
    pub begin_us: u64,
    pub latency_us: u64,
    pub write: bool,
}

fn truths() -> impl Strategy<Value = Vec<Truth>> {
    let one = (0u64..30_000_000, 1u64..2_000_000, any::<bool>())
        .prop_map(|(begin_us, latency_us, write)| Truth { begin_us, latency_us, write });
    prop::collection::vec(one, 1..60)
}

pub fn file_of(bytes: &[u8]) -> File {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("iodyno-heat-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let path: PathBuf = std::env::temp_dir().join(name);
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all(bytes).unwrap();
    file
}

pub fn run(bytes: &[u8], request: &Request) -> Result<Reduced, Failure> {
    let source = Source::open("trace", file_of(bytes)).unwrap();
    reduce(vec![source], request, &Progress::default())
}

fn run_piped(bytes: &[u8], request: &Request) -> Result<Reduced, Failure> {
    let mut pipe = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut writer, reader) = (pipe.stdin.take().unwrap(), pipe.stdout.take().unwrap());
    let bytes = bytes.to_vec();
    let feeder = std::thread::spawn(move || {
        // Odd pieces, so that lines are cut anywhere.
        for piece in bytes.chunks(1021) {
            writer.write_all(piece).unwrap();
        }
    });
    let source = Source::open("pipe", File::from(std::os::fd::OwnedFd::from(reader))).unwrap();
    let found = reduce(vec![source], request, &Progress::default());
    feeder.join().unwrap();
    pipe.wait().unwrap();
    found
}

pub fn request() -> Request {
    Request { threads: 2, spool: std::env::temp_dir(), ..Request::default() }
}

/// What a naive program counts: (column, row) of times and values in ns; rows from 0 to `high`, the last one closed.
fn counted(events: &[(i64, f64)], found: &Reduced) -> (BTreeMap<(u32, u32), u64>, u64, u64) {
    let (mut cells, mut under, mut over) = (BTreeMap::new(), 0, 0);
    let begin = events.iter().map(|(time, _)| *time).min().unwrap();
    assert_eq!(found.begin_ns, begin);
    let last = found.edges.len() - 1;
    for (time, value) in events {
        let column = ((time - begin) / found.column_ns) as u32;
        if *value < found.edges[0] {
            under += 1;
        } else if *value > found.edges[last] {
            over += 1;
        } else {
            let row = (0..last).rev().find(|row| *value >= found.edges[*row]).unwrap() as u32;
            *cells.entry((column, row)).or_insert(0) += 1;
        }
    }
    (cells, under, over)
}

fn assert_counts(events: &[(i64, f64)], found: &Reduced) {
    let (cells, under, over) = counted(events, found);
    let ours: BTreeMap<(u32, u32), u64> = found.cells.iter().map(|(c, r, n)| ((*c, *r), *n)).collect();
    assert_eq!(ours, cells);
    assert_eq!((found.under.iter().sum::<u64>(), found.over.iter().sum::<u64>()), (under, over));
    assert_eq!(found.events, events.len() as u64 + found.unreadable);
    assert_by_value(events, found);
}

/// All values are kept whatever the rows are: as many, each in the bucket that holds it, from the least to the greatest.
fn assert_by_value(events: &[(i64, f64)], found: &Reduced) {
    let mut values: Vec<f64> = events.iter().map(|(_, value)| *value).collect();
    values.sort_by(f64::total_cmp);
    assert_eq!(found.by_value.iter().map(|(_, _, count)| count).sum::<u64>(), values.len() as u64);
    assert_eq!(found.by_value.first().map(|(from, _, _)| *from), values.first().copied());
    assert_eq!(found.by_value.last().map(|(_, to, _)| *to), values.last().copied());
    let mut rest = &values[..];
    for (from, to, count) in &found.by_value {
        let (here, later) = rest.split_at(*count as usize);
        assert!(here.iter().all(|value| from <= value && value <= to), "{from} to {to}: {here:?}");
        assert!(to - from <= from * 0.008, "a bucket from {from} to {to} is too wide");
        rest = later;
    }
}

fn letter(truth: &Truth) -> &'static str {
    if truth.write {
        "W"
    } else {
        "R"
    }
}

fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// The operations in one form, and its events (end, latency) in ns.
pub fn written(form: &str, truths: &[Truth]) -> (Vec<u8>, Vec<(i64, f64)>) {
    let mut text = String::new();
    let end = |t: &Truth| t.begin_us + t.latency_us;
    let mut events: Vec<(i64, f64)> =
        truths.iter().map(|t| (end(t) as i64 * 1000, t.latency_us as f64 * 1000.0)).collect();
    match form {
        "two-column" => truths.iter().for_each(|t| text += &format!("{} {}\n", end(t), t.latency_us)),
        "iosnoop" => {
            text += "STIME(us)     TIME(us)      DELTA(us)     DTIME(us)     UID   PID D      BLOCK   SIZE       COMM PATHNAME\n";
            for t in truths {
                text += &format!(
                    "{} {} {} 5 0 12 {} 1234 8192 dd /a b/c\n",
                    t.begin_us,
                    end(t),
                    t.latency_us,
                    letter(t)
                );
            }
        }
        "biosnoop" => {
            text += "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n";
            for t in truths {
                let ms = format!("{}.{:03}", t.latency_us / 1000, t.latency_us % 1000);
                text += &format!("{} my daemon 9 vda {} 77 4096 {ms}\n", seconds(end(t)), letter(t));
            }
        }
        "fio" => {
            events.clear();
            for t in truths {
                text +=
                    &format!("{}, {}, {}, 4096, 0\n", end(t) / 1000, t.latency_us * 1000, u8::from(t.write));
                events.push(((end(t) / 1000) as i64 * 1_000_000, t.latency_us as f64 * 1000.0));
            }
        }
        "biolatency" | "quantize" => {
            events.clear();
            let mut sorted = truths.to_vec();
            sorted.sort_by_key(end);
            for t in &sorted {
                let (at, low) = (end(t) / 1_000_000, 1_u64 << t.latency_us.ilog2());
                let clock = format!("00:{:02}:{:02}\n", at / 60, at % 60);
                let ns = at as i64 * 1_000_000_000;
                if form == "biolatency" {
                    let (low, high) = if low == 1 { (0, 1) } else { (low, 2 * low - 1) };
                    text += &format!("{clock}  usecs : count distribution\n  {low} -> {high} : 1 |***|\n");
                    events.push((ns, (low + high + 1) as f64 / 2.0 * 1000.0));
                    continue;
                }
                text += &format!("2026 Nov 30 {clock}\n  sd0\n    value  ---- Distribution ---- count\n");
                text += &format!("{:>16} |  0\n{low:>16} |@@@@  2\n{:>16} |  0\n", low / 2, 2 * low);
                events.extend([(20_787 * 86_400_000_000_000 + ns, low as f64 * 1.5); 2]);
            }
        }
        "fio-histograms" => {
            events.clear();
            for t in truths {
                let value = t.latency_us * 1000;
                let shift = value.ilog2() - 6;
                let bucket = ((shift + 1) << 6) as usize + (value >> shift & 63) as usize;
                let counts: Vec<&str> =
                    (0..1856).map(|place| if place == bucket { "1" } else { "0" }).collect();
                text += &format!("{}, {}, 4096, {}\n", end(t) / 1000, u8::from(t.write), counts.join(", "));
                let middle = ((value >> shift) as f64 + 0.5) * 2_f64.powi(shift as i32);
                events.push(((end(t) / 1000) as i64 * 1_000_000, middle));
            }
        }
        "blkparse" | "perf-script" => {
            // A sector for each, so that pairs are known; lines in the order of time.
            let mut lines: Vec<(u64, String)> = Vec::new();
            for (number, t) in truths.iter().enumerate() {
                for (us, begins) in [(t.begin_us, true), (end(t), false)] {
                    let at = number * 8;
                    let line = if form == "blkparse" {
                        let (letter_, who) = if begins { ("D", "[fio]") } else { ("C", "[0]") };
                        let ns = format!("{}.{:09}", us / 1_000_000, us % 1_000_000 * 1000);
                        format!(
                            "  8,0    1       {number}     {ns}  697  {letter_}   {}S {at} + 8 {who}",
                            letter(t)
                        )
                    } else {
                        let name = if begins { "issue" } else { "complete" };
                        let middle = if begins { "4096 ()" } else { "()" };
                        format!(
                            "    my fio  697 [001] {}: block:block_rq_{name}: 8,0 {} {middle} {at} + 8 [0]",
                            seconds(us),
                            letter(t)
                        )
                    };
                    lines.push((us, line));
                }
            }
            lines.sort_by_key(|(us, _)| *us);
            lines.iter().for_each(|(_, line)| text += &format!("{line}\n"));
        }
        "perf-trace" => {
            for t in truths {
                let ms = |us: u64| format!("{}.{:03}", us / 1000, us % 1000);
                text += &format!(
                    "  {} ( {} ms): cat/123 read(fd: 3, count: 10) = 10\n",
                    ms(t.begin_us),
                    ms(t.latency_us)
                );
            }
        }
        "strace" => {
            for t in truths {
                text += &format!(
                    "1234 17000{} read(3, \"a = <1>\", 10) = 10 <{}>\n",
                    seconds(t.begin_us + 10_000_000),
                    seconds(t.latency_us)
                );
            }
            let base = |t: &Truth| format!("17000{}", seconds(t.begin_us + 10_000_000));
            events = truths
                .iter()
                .map(|t| {
                    let (whole, part) = base(t)
                        .split_once('.')
                        .map(|(a, b)| (a.parse::<i64>().unwrap(), b.parse::<i64>().unwrap()))
                        .unwrap();
                    (
                        whole * 1_000_000_000 + part * 1000 + t.latency_us as i64 * 1000,
                        t.latency_us as f64 * 1000.0,
                    )
                })
                .collect();
        }
        "tcpdump" => {
            let mut lines: Vec<(u64, usize, String)> = Vec::new();
            for (number, t) in truths.iter().enumerate() {
                let (a, b) = (format!("10.0.0.1.{}", 2000 + number), "10.0.0.2.80");
                lines.push((
                    t.begin_us,
                    0,
                    format!(
                        "{} IP {a} > {b}: Flags [P.], seq 1:9, ack 1, win 5, length 8: HTTP",
                        seconds(t.begin_us)
                    ),
                ));
                lines.push((
                    end(t),
                    1,
                    format!("{} IP {b} > {a}: Flags [P.], seq 1:9, ack 1, win 5, length 9", seconds(end(t))),
                ));
            }
            lines.sort();
            lines.iter().for_each(|(_, _, line)| text += &format!("{line}\n"));
        }
        "csv" => {
            text += "operation,\"time_us\",latency_us\n";
            truths.iter().for_each(|t| text += &format!("\"re\"\"ad, x\",{},{}\n", end(t), t.latency_us));
        }
        "json-lines" => {
            truths.iter().for_each(|t| {
                text += &format!("{{\"ts\": {}, \"latency_us\": {}}}\n", seconds(end(t)), t.latency_us)
            });
        }
        other => panic!("no writer of {other}"),
    }
    (text.into_bytes(), events)
}

pub const TEXT_FORMS: &[&str] = &[
    "two-column",
    "iosnoop",
    "biosnoop",
    "fio",
    "blkparse",
    "perf-script",
    "perf-trace",
    "strace",
    "tcpdump",
    "biolatency",
    "fio-histograms",
    "quantize",
    "csv",
    "json-lines",
];

pub fn with_units(form: &str) -> Request {
    match form {
        "two-column" => Request { time_unit: Some(Unit::US), value_unit: Some(Unit::US), ..request() },
        _ => request(),
    }
}

#[test]
fn every_form_has_a_test() {
    for form in FORMS {
        assert!(TEXT_FORMS.contains(&form.name) || ["pcap", "hdr-log"].contains(&form.name), "{}", form.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_form_is_recognised_and_counted_as_by_hand(truths in truths(), column_ms in 1i64..3000, rows in 1usize..30, log in any::<bool>()) {
        for form in TEXT_FORMS {
            let (text, events) = written(form, &truths);
            let asked = Asked {
                column_ns: Some(column_ms * 1_000_000),
                rows: Some(rows),
                scale: Some(if log { Scale::Log } else { Scale::Linear }),
                ..Asked::default()
            };
            let request = Request { asked, ..with_units(form) };
            let found = run(&text, &request).unwrap();
            prop_assert_eq!(&found.form, form);
            prop_assert_eq!(found.unreadable, 0, "{}: {:?}", form, found.unreadable_first);
            prop_assert_eq!(found.unit, "ns");
            assert_counts(&events, &found);
        }
    }

    #[test]
    fn a_filter_leaves_the_other_operations_out(truths in truths()) {
        for form in ["iosnoop", "biosnoop", "fio", "fio-histograms", "blkparse", "perf-script"] {
            let (text, _) = written(form, &truths);
            let wanted = Wanted { operation: Some("write".to_owned()), ..Wanted::default() };
            let writes = truths.iter().filter(|t| t.write).count() as u64;
            match run(&text, &Request { wanted, ..request() }) {
                Ok(found) => {
                    prop_assert_eq!(found.events, writes);
                    prop_assert_eq!(found.filtered, truths.len() as u64 - writes);
                }
                Err(_) => prop_assert_eq!(writes, 0),
            }
        }
    }

    #[test]
    fn garbage_between_lines_is_counted_and_loses_nothing(
        truths in truths(), garbage in prop::collection::vec("[a-z,;:<>(){}\\[\\] \"0-9.-]{1,30}", 0..6), at in any::<prop::sample::Index>()
    ) {
        for form in TEXT_FORMS {
            let (text, _) = written(form, &truths);
            let text = String::from_utf8(text).unwrap();
            let mut lines: Vec<&str> = text.lines().collect();
            let after_header = 1 + at.index(lines.len());
            garbage.iter().for_each(|line| lines.insert(after_header, line));
            let request = Request { form: Some((*form).to_owned()), ..with_units(form) };
            // Garbage may happen to be an event; whatever it is, the program asserts that the sum is right.
            if let Ok(found) = run(lines.join("\n").as_bytes(), &request) {
                prop_assert!(found.events >= truths.len() as u64 / 2);
            }
        }
    }

    #[test]
    fn a_pipe_a_packed_file_and_threads_give_the_same_grid(truths in truths()) {
        for form in ["two-column", "iosnoop", "blkparse"] {
            let (text, _) = written(form, &truths);
            let plain = format!("{:?}", run(&text, &with_units(form)).unwrap());
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packed.write_all(&text).unwrap();
            prop_assert_eq!(&plain, &format!("{:?}", run(&packed.finish().unwrap(), &with_units(form)).unwrap()));
            let zstd = ruzstd::encoding::compress_to_vec(&text[..], ruzstd::encoding::CompressionLevel::Fastest);
            prop_assert_eq!(&plain, &format!("{:?}", run(&zstd, &with_units(form)).unwrap()));
            prop_assert_eq!(&plain, &format!("{:?}", run_piped(&text, &with_units(form)).unwrap()));
        }
    }

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for form in FORMS {
            let _ = run(&bytes, &Request { form: Some(form.name.to_owned()), ..request() });
        }
        let _ = run(&bytes, &request());
    }

    #[test]
    fn mutated_traces_make_no_parser_panic(truths in truths(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        for form in TEXT_FORMS {
            let (mut text, _) = written(form, &truths[..truths.len().min(8)]);
            for (at, byte) in &changes {
                let at = at.index(text.len());
                text[at] = *byte;
            }
            let _ = run(&text, &Request { form: Some((*form).to_owned()), ..with_units(form) });
            for quantity in [Quantity::Size, Quantity::Offset, Quantity::Cpu, Quantity::Value] {
                let _ = run(&text, &Request { quantity: Some(quantity), form: Some((*form).to_owned()), ..with_units(form) });
            }
        }
    }
}

#[test]
fn what_spreadsheets_write_is_read() {
    let events = [(1_500_000_000, 1.5e6), (2_500_000_000, 2.25e6)];
    for text in [
        "\u{feff}time;latency_ms\n1,5;1,5\n2,5;2,25\n",
        "\u{feff}time,latency_us\r\n1.5,\"1,500\"\r\n2.5,\"2,250\"\r\n",
        "\u{feff}1.5 1500000\r\n2.5 2250000",
    ] {
        let found = run(text.as_bytes(), &request()).unwrap();
        assert_eq!(found.unreadable, 0, "{text}: {:?}", found.unreadable_first);
        assert_counts(&events, &found);
    }
    let found = run(b"time,latency_us\n1,\"1,50\"\n2,5\n", &request()).unwrap();
    assert_eq!((found.events, found.unreadable), (2, 1), "neither thousands nor a number");
}

#[test]
fn raw_system_calls_are_calls_and_what_has_no_length_is_said() {
    let text = "cat 7 [001] 1.000100: raw_syscalls:sys_enter: NR 0 (3, 7f, 20000)\n\
                cat 7 [001] 1.000200: sched:sched_switch: prev_comm=cat\n\
                cat 7 [001] 1.000300: raw_syscalls:sys_exit: NR 0 = 2500\n";
    let found = run(text.as_bytes(), &request()).unwrap();
    assert_counts(&[(1_000_300_000, 200_000.0)], &found);
    assert_eq!(found.filtered, 1);
    assert!(found.notes.iter().any(|note| note.contains("1 event")), "{:?}", found.notes);
}

#[test]
fn rows_are_logarithmic_where_most_values_would_be_in_one() {
    let wide: String = (0..1200).map(|at| format!("{at} {}\n", 10_f64.powf(f64::from(at) / 100.0))).collect();
    let narrow: String = (0..1200).map(|at| format!("{at} {}\n", 1 + at)).collect();
    assert_eq!(run(wide.as_bytes(), &request()).unwrap().scale, "log");
    assert_eq!(run(narrow.as_bytes(), &request()).unwrap().scale, "linear");
    let asked = Request { high: Some("2000".to_owned()), ..request() };
    assert_eq!(run(wide.as_bytes(), &asked).unwrap().scale, "linear", "a range that was asked for is kept");
}

#[test]
fn chunks_cut_no_line_and_count_none_twice() {
    // Lines of odd lengths over many chunks, read by several threads, by one and from a pipe.
    let mut text = Vec::new();
    let mut events = Vec::new();
    for number in 0..120_000_u64 {
        let pad = " ".repeat((number * 7919 % 23) as usize);
        writeln!(text, "{}{pad} {}", number * 13, number % 977).unwrap();
        events.push((number as i64 * 13_000, (number % 977) as f64 * 1000.0));
    }
    text.pop();
    for threads in [1, 2, 5] {
        let request = Request { threads, ..with_units("two-column") };
        assert_counts(&events, &run(&text, &request).unwrap());
        assert_counts(&events, &run_piped(&text, &request).unwrap());
    }
}

#[test]
fn a_long_file_is_counted_rightly_whether_its_frame_was_guessed_or_not() {
    // In order the guess is right; with its ends or a great value in the middle, which is not looked at, it is wrong.
    let events = |number: u64| (number * 13, number % 977);
    let odd = [
        ("in order", None),
        ("latest in the middle", Some((99_999_999, 5))),
        ("greatest in the middle", Some((5_000_000, 9_999))),
    ];
    for (what, odd) in odd {
        let (mut text, mut all) = (Vec::new(), Vec::new());
        for number in 0..800_000_u64 {
            let (time, value) =
                odd.filter(|_| number > 410_000 && number < 411_000).unwrap_or(events(number));
            writeln!(text, "{time} {value}").unwrap();
            all.push((time as i64 * 1000, value as f64 * 1000.0));
        }
        assert!(text.len() > 32 * (256 << 10), "long enough to be guessed");
        let found = run(&text, &with_units("two-column")).unwrap();
        assert_counts(&all, &found);
        assert_eq!(
            format!("{found:?}"),
            format!("{:?}", run_piped(&text, &with_units("two-column")).unwrap()),
            "{what}"
        );
    }
}

#[test]
fn the_number_of_an_unreadable_line_is_right_in_a_later_chunk() {
    let mut text = Vec::new();
    for number in 0..100_000_u64 {
        let line = if number == 70_000 { "70000 nan".to_owned() } else { format!("{number} 5") };
        writeln!(text, "{line}").unwrap();
    }
    let found = run(&text, &with_units("two-column")).unwrap();
    assert_eq!(
        found.unreadable_first,
        vec![(70_001, "the value: it is not a number (NaN): \"70000 nan\"".to_owned())]
    );
}

#[test]
fn a_line_of_megabytes_is_one_unreadable_line() {
    let mut text = b"1 5\n".to_vec();
    text.extend(std::iter::repeat_n(b'7', 3 << 20));
    text.extend_from_slice(b"\n2 6\n");
    for found in [run(&text, &request()).unwrap(), run_piped(&text, &request()).unwrap()] {
        assert_eq!((found.events, found.unreadable), (3, 1), "{:?}", found.unreadable_first);
        assert_eq!(found.unreadable_first[0].0, 2);
    }
}

/// As where the end of a line is lost.
#[test]
fn a_first_word_of_tcpdump_that_is_longer_than_any_time_is_no_time() {
    let truth = Truth { begin_us: 1_000, latency_us: 90, write: false };
    let mut text = written("tcpdump", &[truth]).0;
    let word = "7".repeat(40);
    text.extend_from_slice(
        format!("{word}-{word} IP 10.0.0.1.2000 > 10.0.0.2.80: Flags [P.], length 8\n").as_bytes(),
    );
    let found = run(&text, &with_units("tcpdump")).unwrap();
    assert_eq!((found.events, found.unreadable), (2, 1), "{:?}", found.unreadable_first);
}

/// What tracers print for an operation without a place, in every form that has sectors.
#[test]
fn what_has_no_place_is_in_no_map_of_offsets_and_is_counted() {
    let snoop = "STIME(us) TIME(us) DELTA(us) DTIME(us) UID PID D BLOCK SIZE DEVICE COMM PATHNAME\n1 2 1 1 0 9 R 8 512 sda a <none>\n\
        3 5 2 2 0 9 F -1 0 sda a <none>\n";
    let greatest = snoop.replace(" -1 ", " 18446744073709551615 ");
    let biosnoop =
        "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.1 a 9 sda R 8 512 1.5\n0.2 a 9 sda F -1 0 1.5\n";
    let blkparse = "8,0 1 1 0.1 9 D R 8 + 1 [a]\n8,0 1 2 0.2 9 C R 8 + 1 [0]\n8,0 1 3 0.3 9 D FN [a]\n8,0 1 4 0.4 9 C FN [0]\n";
    let perf = "a 9 [001] 0.1: block:block_rq_issue: 8,0 R 512 () 8 + 1 [a]\na 9 [001] 0.2: block:block_rq_complete: 8,0 R () 8 + 1 [0]\n\
        a 9 [001] 0.3: block:block_rq_issue: 8,0 FF 0 () 18446744073709551615 + 0 [a]\n\
        a 9 [001] 0.4: block:block_rq_complete: 8,0 FF () 18446744073709551615 + 0 [0]\n";
    for text in [snoop, &greatest, biosnoop, blkparse, perf] {
        let found = run(text.as_bytes(), &Request { quantity: Some(Quantity::Offset), ..request() }).unwrap();
        assert_eq!((found.events, found.placeless, found.unreadable), (1, 1, 0), "{text}");
        assert!(found.edges[found.edges.len() - 1] < 1e5);
        assert!(
            found.notes.iter().any(|note| note.starts_with("1 operation has no place")),
            "{:?}",
            found.notes
        );
        // Its latency is as good as any other.
        let found = run(text.as_bytes(), &request()).unwrap();
        assert_eq!((found.events, found.placeless, found.unreadable), (2, 0, 0), "{text}");
    }
    let flushes = snoop.replace("1 2 1 1 0 9 R 8 512 sda a <none>\n", "");
    let none = run(flushes.as_bytes(), &Request { quantity: Some(Quantity::Offset), ..request() });
    assert!(what(none).contains("1 operation has no place on the device"));
}

#[test]
fn iosnoop_without_times_says_what_prints_them() {
    for text in [
        "Tracing block I/O. Ctrl-C to end.\nCOMM PID TYPE DEV BLOCK BYTES LATms\na 9 W 202,1 8 4096 1.32\n",
        "  UID   PID D    BLOCK   SIZE       COMM PATHNAME\n    0  1234 R    1234   4096 find /a b\n",
    ] {
        let said = what(run(text.as_bytes(), &request()));
        assert!(said.contains("no column says when") && said.contains("iosnoop -ts"), "{said}");
    }
    let bpftrace = "Attaching 4 probes...\nTIME(ms) DISK COMM PID LAT(ms)\n611 nvme0n1 bash 4179 10\n";
    let found = run(bpftrace.as_bytes(), &request()).unwrap();
    assert_eq!((found.events, found.unreadable), (1, 0));
}

#[test]
fn how_rows_end_is_said_as_it_is() {
    let end = |values: &[u32]| {
        let text: String = (0..).zip(values).map(|(at, value)| format!("{at} {value}\n")).collect();
        let found = run(text.as_bytes(), &with_units("two-column")).unwrap();
        found.notes.into_iter().find(|note| note.starts_with("rows end")).unwrap()
    };
    assert_eq!(end(&[9_000, 18_300]), "rows end at 20 ms: the greatest value is 18.3 ms");
    let mut far = vec![300; 9_999];
    far.push(700_000);
    assert_eq!(end(&far), "rows end at 400 us: 99.9 % of the values are no greater, the greatest is 700 ms");
    assert_eq!(end(&[0, 0]), "rows end at 1 ns: the greatest value is 0 ns");
}

/// What is said of a trace that cannot be drawn.
fn what(found: Result<Reduced, Failure>) -> String {
    match found {
        Err(Failure::Mistake(mistake)) => mistake.to_string(),
        other => panic!("{other:?}"),
    }
}
