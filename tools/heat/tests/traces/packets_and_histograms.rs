//! Forms that are not lines of plain text, against an independent writer.

use std::fs::File;
use std::io::Write;

use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::Histogram;
use iodyno_heat::frame::Asked;
use iodyno_heat::pass::Progress;
use iodyno_heat::reduce::{reduce, Reduced, Request};
use iodyno_heat::source::Source;
use proptest::prelude::*;
use std::time::Duration;

fn run(bytes: &[u8], name: &str, request: Request) -> Reduced {
    let path = std::env::temp_dir().join(format!("iodyno-heat-{name}-{}", std::process::id()));
    File::create(&path).unwrap().write_all(bytes).unwrap();
    let source = Source::open("trace", File::open(&path).unwrap()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let request = Request { threads: 2, spool: std::env::temp_dir(), ..request };
    reduce(vec![source], &request, &Progress::default()).unwrap()
}

/// A log of one interval.
pub fn interval_log(values: &[u64]) -> Vec<u8> {
    let (mut log, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let mut writer = IntervalLogWriterBuilder::new().begin_log_with(&mut log, &mut serializer).unwrap();
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 1 << 41, 2).unwrap();
    values.iter().for_each(|value| histogram.record(*value).unwrap());
    writer.write_histogram(&histogram, Duration::from_secs(1), Duration::from_secs(1), None).unwrap();
    drop(writer);
    log
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn an_interval_log_has_the_counts_of_its_histograms(
        intervals in prop::collection::vec(prop::collection::vec(prop_oneof![1u64..5000, 1u64..1 << 40], 1..40), 1..5),
        digits in 1u8..5, low in prop_oneof![Just(1u64), Just(1000u64)]
    ) {
        let mut log = Vec::new();
        let mut expected: Vec<(i64, f64, u64)> = Vec::new();
        {
            let mut serializer = V2DeflateSerializer::new();
            let mut writer = IntervalLogWriterBuilder::new().begin_log_with(&mut log, &mut serializer).unwrap();
            for (second, values) in (0..).zip(&intervals) {
                let mut histogram = Histogram::<u64>::new_with_bounds(low, 1 << 41, digits).unwrap();
                values.iter().for_each(|value| histogram.record(*value).unwrap());
                let tag = Tag::new("t").unwrap();
                writer.write_histogram(&histogram, Duration::from_secs(second), Duration::from_secs(1), Some(tag)).unwrap();
                for bucket in histogram.iter_recorded() {
                    let value = histogram.median_equivalent(bucket.value_iterated_to()) as f64;
                    expected.push(((second as i64 + 1) * 1_000_000_000, value, bucket.count_at_value()));
                }
            }
        }
        let asked = Asked { column_ns: Some(1_000_000_000), rows: Some(40), ..Asked::default() };
        let found = run(&log, "hdr", Request { asked, ..Request::default() });
        prop_assert_eq!(&found.form, "hdr-log");
        prop_assert_eq!(found.events, intervals.iter().map(|values| values.len() as u64).sum::<u64>());
        prop_assert_eq!(found.unreadable, 0);
        let last = found.edges.len() - 1;
        let mut cells = std::collections::BTreeMap::new();
        let mut over = 0;
        for (time, value, count) in expected {
            if value > found.edges[last] {
                over += count;
                continue;
            }
            let row = (0..last).rev().find(|row| value >= found.edges[*row]).unwrap() as u32;
            *cells.entry((((time - found.begin_ns) / 1_000_000_000) as u32, row)).or_insert(0) += count;
        }
        prop_assert_eq!(found.cells.iter().map(|(c, r, n)| ((*c, *r), *n)).collect::<std::collections::BTreeMap<_, _>>(), cells);
        prop_assert_eq!(found.over.iter().sum::<u64>(), over);
    }
}

/// An Ethernet frame with IPv4 and TCP that carries `bytes` of data.
pub fn frame(client: u16, from_client: bool, bytes: usize) -> Vec<u8> {
    let (mine, theirs) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let (from, to) = if from_client { (mine, theirs) } else { (theirs, mine) };
    let (from_port, to_port) = if from_client { (client, 80) } else { (80, client) };
    let mut frame = vec![0; 12];
    frame.extend([0x08, 0x00, 0x45, 0]);
    frame.extend(((40 + bytes) as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    frame.extend(from);
    frame.extend(to);
    frame.extend(from_port.to_be_bytes());
    frame.extend(to_port.to_be_bytes());
    frame.extend([0; 8]);
    frame.extend([0x50, 0x18, 0, 9, 0, 0, 0, 0]);
    frame.extend(vec![7; bytes]);
    frame
}

pub fn pcap(packets: &[(u64, Vec<u8>)], little: bool) -> Vec<u8> {
    let put = |number: u32| if little { number.to_le_bytes() } else { number.to_be_bytes() };
    let mut out = put(0xa1b2_c3d4).to_vec();
    out.extend(if little { [2, 0, 4, 0] } else { [0, 2, 0, 4] });
    [0, 0, 65535, 1].iter().for_each(|number| out.extend(put(*number)));
    for (us, data) in packets {
        [(us / 1_000_000) as u32, (us % 1_000_000) as u32, data.len() as u32, data.len() as u32]
            .iter()
            .for_each(|number| out.extend(put(*number)));
        out.extend(data);
    }
    out
}

pub fn pcapng(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let length = (12 + body.len().div_ceil(4) * 4) as u32;
        out.extend(kind.to_le_bytes());
        out.extend(length.to_le_bytes());
        out.extend(body);
        out.extend(vec![0; body.len().div_ceil(4) * 4 - body.len()]);
        out.extend(length.to_le_bytes());
    };
    let mut section = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
    section.extend([1, 0, 0, 0]);
    section.extend([0xff; 8]);
    block(0x0a0d_0d0a, &section);
    // Ethernet, with times in nanoseconds.
    block(1, &[1, 0, 0, 0, 0, 0, 4, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    for (us, data) in packets {
        let ns = us * 1000;
        let mut body = 0_u32.to_le_bytes().to_vec();
        body.extend(((ns >> 32) as u32).to_le_bytes());
        body.extend((ns as u32).to_le_bytes());
        body.extend((data.len() as u32).to_le_bytes());
        body.extend((data.len() as u32).to_le_bytes());
        body.extend(data);
        block(6, &body);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn packets_are_paired_as_they_were_made(
        flows in prop::collection::vec((0u64..5_000_000, 1u64..900_000, 1usize..3, any::<bool>()), 1..30), cut in any::<bool>()
    ) {
        let mut packets: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut latencies = Vec::new();
        let mut unanswered = 0;
        for (number, (begin, latency, asks, answered)) in flows.iter().enumerate() {
            let port = 2000 + number as u16;
            for ask in 0..*asks {
                packets.push((begin + ask as u64, frame(port, true, 100)));
            }
            // An acknowledgement without data is no answer.
            packets.push((begin + 2, frame(port, false, 0)));
            if *answered {
                packets.push((begin + 3 + latency, frame(port, false, 50)));
                latencies.push(((begin + 3 + latency) * 1000, (3 + latency) * 1000));
            } else {
                unanswered += 1;
            }
        }
        packets.sort_by_key(|(us, _)| *us);
        prop_assume!(!latencies.is_empty());
        for mut bytes in [pcap(&packets, true), pcap(&packets, false), pcapng(&packets)] {
            if cut {
                bytes.extend([1, 2, 3]);
            }
            let asked = Asked { column_ns: Some(1_000_000_000), ..Asked::default() };
            let found = run(&bytes, "pcap", Request { asked, ..Request::default() });
            prop_assert_eq!(&found.form, "pcap");
            prop_assert_eq!(found.unreadable, unanswered + u64::from(cut));
            prop_assert_eq!(found.events, latencies.len() as u64 + found.unreadable);
            let begin = latencies.iter().map(|(end, _)| *end).min().unwrap();
            let mut columns = vec![0; found.columns];
            latencies.iter().for_each(|(end, _)| columns[((end - begin) / 1_000_000_000) as usize] += 1);
            let mut ours: Vec<u64> = found.over.clone();
            found.cells.iter().for_each(|(column, _, count)| ours[*column as usize] += count);
            prop_assert_eq!(ours, columns);
        }
    }

    #[test]
    fn broken_packets_make_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), next in any::<bool>()) {
        let good = vec![(5, frame(2000, true, 9)), (9, frame(2000, false, 9))];
        let mut file = if next { pcapng(&good) } else { pcap(&good, true) };
        file.extend(bytes);
        let found = run(&file, "broken", Request::default());
        prop_assert!(found.events >= 1);
    }
}

/// A count is kept in parts of 32 bits: of one of 2^60 they would fill the memory.
#[test]
fn a_count_that_no_disk_can_have_done_is_refused() {
    let text = "usecs : count distribution\n64 -> 127 : 1152921504606846976\n128 -> 255 : 5000000000\n";
    let found = crate::forms::run(text.as_bytes(), &crate::forms::with_units("biolatency")).unwrap();
    assert_eq!((found.events, found.unreadable), (5_000_000_001, 1), "{:?}", found.unreadable_first);
}

/// The trace has these values so often, in the order of values.
fn assert_values(text: &str, expected: &[(f64, u64)]) {
    let found = crate::forms::run(text.as_bytes(), &crate::forms::request()).unwrap();
    assert_eq!((&*found.form, found.unreadable), ("quantize", 0), "{:?}", found.unreadable_first);
    let counts: Vec<u64> = found.by_value.iter().map(|(_, _, count)| *count).collect();
    assert_eq!(counts, expected.iter().map(|(_, count)| *count).collect::<Vec<u64>>());
    for ((from, to, _), (value, _)) in found.by_value.iter().zip(expected) {
        assert!((from..=to).contains(&value), "{value} is not from {from} to {to}");
    }
}

#[test]
fn linear_buckets_end_where_the_next_begins_and_open_ones_are_at_their_edge() {
    let dtrace = "\n           value  ------------- Distribution ------------- count    \n\
                  \x20            < 0 |                                         0        \n\
                  \x20              0 |@@@@@@@@@@                               3        \n\
                  \x20            100 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@12345678\n\
                  \x20            200 |                                         0        \n\
                  \x20         >= 300 |@@@                                      2        \n";
    assert_values(dtrace, &[(50.0, 3), (150.0, 12_345_678), (300.0, 2)]);
    let bpftrace = "@[sda]: \n(..., 0)               0 |    |\n[0, 100)   3 |@@   |\n[300, ...)  2 |@   |\n";
    assert_values(bpftrace, &[(50.0, 3), (300.0, 2)]);
}

#[test]
fn maps_of_bpftrace_say_their_unit_and_shorten_powers_of_two() {
    let text = "Attaching 3 probes...\n\n@read_usecs: \n[1]                    4 |@@@@   |\n[512, 1K)  6 |@@|\n[1M, 2M)  1 ||\n";
    assert_values(text, &[(1500.0, 4), (768_000.0, 6), (1.5 * 1_048_576.0 * 1000.0, 1)]);
}

#[test]
fn a_distribution_that_comes_again_is_of_the_next_second() {
    let one = |disk: &str, count: u64| {
        format!(
            "\n  {disk}\n value  ------------- Distribution ------------- count\n 8 |@@ {count}\n 16 | 0\n"
        )
    };
    let text = [one("sda", 1), one("sdb", 2), one("sda", 4), one("sdb", 8)].concat();
    let asked = Asked { column_ns: Some(1_000_000_000), ..Default::default() };
    let request = Request { asked, ..crate::forms::request() };
    let found = crate::forms::run(text.as_bytes(), &request).unwrap();
    let mut columns = vec![0; found.columns];
    found.cells.iter().for_each(|(column, _, count)| columns[*column as usize] += count);
    found.over.iter().zip(&mut columns).for_each(|(over, column)| *column += over);
    assert_eq!(columns, [3, 12]);
}
