//! Quantities that follow from the begins and ends of all operations together: queue depth and utilisation.
//!
//! Traces are in the order of their lines, not of begins, so the points of time are sorted first: in runs that fit into
//! memory, written to a file without a name, then merged. Memory stays bounded whatever the trace is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::event::{Batch, Event};
use crate::failure::{Failure, Mistake};
use crate::pass::Sink;

/// Points that are sorted in memory. Chosen: 4 MiB.
const RUN_POINTS: usize = 1 << 18;
/// Points of a run that are held while runs are merged.
const HELD_POINTS: usize = 1 << 10;
const POINT_BYTES: usize = 16;
/// Events that are handed on at a time.
const BATCH_EVENTS: usize = 1 << 12;
/// Devices times intervals, at most. Chosen: 32 MB.
const MAX_INTERVALS: i128 = 4 << 20;

/// What happens at a point of time. At the same time an end comes before a begin, as what has ended is no longer there; but
/// what begins and ends at once is there in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    End = 0,
    Begin = 1,
    EndAtOnce = 2,
}

/// A begin or an end: time, kind, device.
type Point = (i64, Kind, u32);

fn encode(point: &Point) -> [u8; POINT_BYTES] {
    let mut bytes = [0; POINT_BYTES];
    bytes[..8].copy_from_slice(&point.0.to_le_bytes());
    bytes[8..12].copy_from_slice(&point.2.to_le_bytes());
    bytes[12] = point.1 as u8;
    bytes
}

fn decode(bytes: &[u8]) -> Point {
    let mut time = [0; 8];
    time.copy_from_slice(&bytes[..8]);
    let mut device = [0; 4];
    device.copy_from_slice(&bytes[8..12]);
    let kind = [Kind::End, Kind::Begin, Kind::EndAtOnce][usize::from(bytes[12].min(2))];
    (i64::from_le_bytes(time), kind, u32::from_le_bytes(device))
}

/// Begins and ends of a trace, to be read in the order of time.
pub struct Points {
    file: File,
    /// First byte and number of points of each run.
    runs: Vec<(u64, usize)>,
    held: Vec<Point>,
    /// Names of devices over all traces.
    devices: Vec<Vec<u8>>,
    /// Operations.
    pub spans: u64,
    /// The first begin and the last end.
    pub times: Option<[i64; 2]>,
}

impl Points {
    /// None yet; `file` takes what does not fit into memory.
    #[must_use]
    pub fn new(file: File) -> Self {
        Points { file, runs: Vec::new(), held: Vec::new(), devices: Vec::new(), spans: 0, times: None }
    }

    /// Devices there are.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.devices.len()
    }

    fn write_run(&mut self) -> io::Result<()> {
        self.held.sort_unstable();
        let bytes: Vec<u8> = self.held.iter().flat_map(encode).collect();
        let at = self.runs.last().map_or(0, |(at, count)| at + (count * POINT_BYTES) as u64);
        self.file.write_all_at(&bytes, at)?;
        self.runs.push((at, self.held.len()));
        self.held.clear();
        Ok(())
    }

    /// Every point in the order of time.
    fn for_each(&mut self, mut take: impl FnMut(Point) -> io::Result<()>) -> io::Result<()> {
        if !self.held.is_empty() {
            self.write_run()?;
        }
        let mut runs: Vec<Run> =
            self.runs.iter().map(|&(at, left)| Run { at, left, points: Vec::new() }).collect();
        let mut next = BinaryHeap::new();
        for (number, run) in runs.iter_mut().enumerate() {
            if let Some(point) = run.next(&self.file)? {
                next.push(Reverse((point, number)));
            }
        }
        while let Some(Reverse((point, number))) = next.pop() {
            take(point)?;
            if let Some(point) = runs[number].next(&self.file)? {
                next.push(Reverse((point, number)));
            }
        }
        Ok(())
    }

    /// For each operation the operations that its device had in flight when it began, itself with them: an event at its begin.
    ///
    /// # Errors
    /// The file cannot be read or the sink fails.
    pub fn depths(&mut self, sink: &mut impl Sink) -> io::Result<()> {
        let mut depth = vec![0_u64; self.devices.len()];
        let mut batch = Batch::default();
        self.for_each(|(time_ns, kind, device)| {
            let depth = &mut depth[device as usize];
            if kind != Kind::Begin {
                *depth -= 1;
                return Ok(());
            }
            *depth += 1;
            batch.events.push(Event { time_ns, value: *depth as f64, weight: 1, line: 0 });
            if batch.events.len() == BATCH_EVENTS {
                sink.take(&batch, 0, b"")?;
                batch.events.clear();
            }
            Ok(())
        })?;
        sink.take(&batch, 0, b"")
    }

    /// For each device and interval of `width_ns` the share of it in which an operation was in flight: an event at the begin of
    /// the interval. The last interval ends with the last operation.
    ///
    /// # Errors
    /// More intervals than can be held; the file cannot be read or the sink fails.
    pub fn utilisation(&mut self, width_ns: i64, sink: &mut impl Sink) -> Result<(), Failure> {
        let Some([first, last]) = self.times else { return Ok(()) };
        let intervals = (i128::from(last) - i128::from(first)) / i128::from(width_ns) + 1;
        if intervals * self.devices.len() as i128 > MAX_INTERVALS {
            return Err(Mistake::new(
                format!("{intervals} intervals of {} devices are more than can be held", self.devices.len()),
                "wider columns (--column), or one --device",
            )
            .into());
        }
        let intervals = intervals as usize;
        let mut busy_ns = vec![0_i64; intervals * self.devices.len()];
        let mut state = vec![(0_u64, 0_i64); self.devices.len()];
        self.for_each(|(time, kind, device)| {
            let (depth, since) = &mut state[device as usize];
            if kind == Kind::Begin {
                if *depth == 0 {
                    *since = time;
                }
                *depth += 1;
                return Ok(());
            }
            *depth -= 1;
            if *depth == 0 {
                let row = &mut busy_ns[device as usize * intervals..][..intervals];
                let mut from = since.wrapping_sub(first);
                let to = time.wrapping_sub(first);
                while from < to {
                    let interval = (from / width_ns) as usize;
                    let end = ((interval as i64).saturating_add(1)).saturating_mul(width_ns).min(to);
                    row[interval] += end - from;
                    from = end;
                }
            }
            Ok(())
        })?;
        let mut batch = Batch::default();
        let whole = last.wrapping_sub(first);
        for row in busy_ns.chunks_exact(intervals) {
            for (number, busy) in (0_i64..).zip(row) {
                let begin = number.wrapping_mul(width_ns);
                let length = (whole - begin).min(width_ns);
                // What ends where the last interval begins leaves that one without a length.
                let value = if length > 0 { *busy as f64 / length as f64 } else { 0.0 };
                batch.events.push(Event { time_ns: first.wrapping_add(begin), value, weight: 1, line: 0 });
            }
        }
        Ok(sink.take(&batch, 0, b"")?)
    }
}

impl Sink for Points {
    fn take(&mut self, batch: &Batch, _chunk: u64, _text: &[u8]) -> io::Result<()> {
        // Each parser numbers devices anew; here a name has one number.
        let numbers: Vec<u32> = batch
            .devices
            .iter()
            .map(|name| {
                let at = self.devices.iter().position(|known| known == name).unwrap_or_else(|| {
                    self.devices.push(name.clone());
                    self.devices.len() - 1
                });
                at as u32
            })
            .collect();
        for span in &batch.spans {
            let device = numbers[span.device as usize];
            let end = if span.end_ns == span.begin_ns { Kind::EndAtOnce } else { Kind::End };
            self.held.push((span.begin_ns, Kind::Begin, device));
            self.held.push((span.end_ns, end, device));
            self.spans += 1;
            let [first, last] = self.times.unwrap_or([span.begin_ns, span.end_ns]);
            self.times = Some([first.min(span.begin_ns), last.max(span.end_ns)]);
            if self.held.len() >= RUN_POINTS {
                self.write_run()?;
            }
        }
        Ok(())
    }
}

struct Run {
    at: u64,
    left: usize,
    /// The next points, the first of them last.
    points: Vec<Point>,
}

impl Run {
    fn next(&mut self, file: &File) -> io::Result<Option<Point>> {
        if self.points.is_empty() && self.left > 0 {
            let count = self.left.min(HELD_POINTS);
            let mut bytes = vec![0; count * POINT_BYTES];
            file.read_exact_at(&mut bytes, self.at)?;
            self.at += bytes.len() as u64;
            self.left -= count;
            self.points = bytes.chunks_exact(POINT_BYTES).rev().map(decode).collect();
        }
        Ok(self.points.pop())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Span;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Seen(Vec<(i64, f64)>);

    impl Sink for Seen {
        fn take(&mut self, batch: &Batch, _chunk: u64, _text: &[u8]) -> io::Result<()> {
            self.0.extend(batch.events.iter().map(|event| (event.time_ns, event.value)));
            Ok(())
        }
    }

    fn points(spans: &[(i64, i64, u32)], run: usize) -> Points {
        let mut points = Points::new(crate::spool::unnamed_file(&std::env::temp_dir()).unwrap());
        for piece in spans.chunks(run) {
            let mut batch = Batch { devices: vec![b"a".to_vec(), b"b".to_vec()], ..Batch::default() };
            batch.spans = piece
                .iter()
                .map(|&(begin_ns, length, device)| Span {
                    begin_ns,
                    end_ns: begin_ns + length,
                    device,
                    line: 0,
                })
                .collect();
            points.take(&batch, 0, b"").unwrap();
            // Each piece a run of its own, so that runs are merged.
            points.write_run().unwrap();
        }
        points
    }

    fn spans() -> impl Strategy<Value = Vec<(i64, i64, u32)>> {
        prop::collection::vec((0i64..200, 0i64..50, 0u32..2), 1..40)
    }

    proptest! {
        #[test]
        fn a_depth_is_what_counting_finds(spans in spans(), run in 1usize..10) {
            let mut seen = Seen::default();
            points(&spans, run).depths(&mut seen).unwrap();
            prop_assert_eq!(seen.0.len(), spans.len());
            // Of those that begin together the last one sees all of them: the greatest depth at a time is exact.
            for &(begin, _, device) in &spans {
                let there = spans.iter().filter(|(b, l, d)| *d == device && *b <= begin && (b + l > begin || *b == begin)).count();
                prop_assert!(seen.0.contains(&(begin, there as f64)), "{} at {} in {:?}", there, begin, seen.0);
            }
        }

        #[test]
        fn a_busy_share_is_what_counting_nanoseconds_finds(spans in spans(), run in 1usize..10, width in 1i64..60) {
            let mut seen = Seen::default();
            let mut points = points(&spans, run);
            points.utilisation(width, &mut seen).unwrap();
            let [first, last] = points.times.unwrap();
            let mut expected = Vec::new();
            for device in 0..2 {
                let mut begin = first;
                while begin <= last {
                    let end = (begin + width).min(last);
                    let busy = (begin..end).filter(|ns| spans.iter().any(|(b, l, d)| *d == device && b <= ns && *ns < b + l)).count();
                    expected.push((begin, if end > begin { busy as f64 / (end - begin) as f64 } else { 0.0 }));
                    begin += width;
                }
            }
            prop_assert_eq!(seen.0, expected);
        }
    }
}
