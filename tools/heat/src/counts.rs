//! The counting pass: events into cells.

use std::io;

use serde::{Deserialize, Serialize};

use crate::event::Batch;
use crate::frame::{Frame, Scale};
use crate::pass::{Forked, Sink};

const SECOND: i64 = 1_000_000_000;
/// Bits of a double that tell its bucket in the table of logarithmic rows: 16 an octave.
const SHIFT: u32 = 48;
/// Bits of a double that tell its bucket in the counts by value: 128 an octave, as in the survey.
const VALUE_SHIFT: u32 = 45;

/// Rows of a frame: finds that of a value, exactly.
#[derive(Clone)]
struct Rows {
    edges: Vec<f64>,
    low: f64,
    high: f64,
    rows_per_value: f64,
    /// First row that may hold a value, by the upper bits of it; empty where rows are linear.
    first: Vec<u32>,
    least_bits: u64,
}

impl Rows {
    fn new(frame: &Frame) -> Self {
        let edges = frame.edges.clone();
        let (low, high) = (edges[0], edges[edges.len() - 1]);
        let least_bits = low.to_bits() >> SHIFT;
        let first = match frame.scale {
            Scale::Linear => Vec::new(),
            Scale::Log => (least_bits..=high.to_bits() >> SHIFT)
                .map(|bits| {
                    let least = f64::from_bits(bits << SHIFT).max(low);
                    edges.partition_point(|edge| *edge <= least).saturating_sub(1) as u32
                })
                .collect(),
        };
        let rows = edges.len() - 1;
        Rows { low, high, rows_per_value: rows as f64 / (high - low), first, least_bits, edges }
    }

    /// Place in a column of cells: 0 under, then the rows, then over.
    #[inline]
    fn place(&self, value: f64) -> usize {
        let last = self.edges.len() - 2;
        if value < self.low {
            return 0;
        }
        if value >= self.high {
            return if value > self.high { last + 2 } else { last + 1 };
        }
        let mut row = if self.first.is_empty() {
            (((value - self.low) * self.rows_per_value) as usize).min(last)
        } else {
            let bucket = (value.to_bits() >> SHIFT).saturating_sub(self.least_bits);
            (self.first[bucket as usize] as usize).min(last)
        };
        // The guess may be off by a rounding; the edges decide.
        while value < self.edges[row] {
            row -= 1;
        }
        while value >= self.edges[row + 1] {
            row += 1;
        }
        row + 1
    }
}

/// Counts of a frame.
pub struct Counts {
    begin_ns: i64,
    column_ns: i64,
    from_ns: i64,
    last_ns: i64,
    sub_second: bool,
    columns: usize,
    rows: Rows,
    /// Column by column: under, rows, over.
    cells: Vec<u64>,
    /// Events of all columns by value. Pages of it that no value lies in are never touched, and take no memory.
    by_value: Vec<u64>,
    least: f64,
    greatest: f64,
    /// Events before or after the time range.
    pub outside: u64,
    /// Events.
    pub events: u64,
}

impl Counts {
    /// Counts of nothing yet.
    #[must_use]
    pub fn new(frame: &Frame) -> Self {
        Counts {
            begin_ns: frame.begin_ns,
            column_ns: frame.column_ns,
            from_ns: frame.from_ns,
            last_ns: frame.last_ns,
            sub_second: frame.sub_second,
            columns: frame.columns,
            rows: Rows::new(frame),
            cells: vec![0; frame.columns * (frame.edges.len() + 1)],
            by_value: vec![0; 1 << (63 - VALUE_SHIFT)],
            least: f64::INFINITY,
            greatest: 0.0,
            outside: 0,
            events: 0,
        }
    }

    /// (column, row, count) of every cell that holds something, in order.
    #[must_use]
    pub fn cells(&self) -> Vec<(u32, u32, u64)> {
        let height = self.height();
        let mut found = Vec::new();
        for (column, counts) in (0..).zip(self.cells.chunks_exact(height)) {
            for (row, &count) in (0..).zip(&counts[1..height - 1]) {
                if count > 0 {
                    found.push((column, row, count));
                }
            }
        }
        found
    }

    /// Events of each column below the rows.
    #[must_use]
    pub fn under(&self) -> Vec<u64> {
        self.cells.chunks_exact(self.height()).map(|column| column[0]).collect()
    }

    /// Events of each column above the rows.
    #[must_use]
    pub fn over(&self) -> Vec<u64> {
        self.cells.chunks_exact(self.height()).map(|column| column[column.len() - 1]).collect()
    }

    /// Events of all columns by value, whatever the rows are: (from, to, count), ascending, 0.8 % wide. The first begins at
    /// the least value and the last ends at the greatest.
    #[must_use]
    pub fn by_value(&self) -> Vec<(f64, f64, u64)> {
        let edge = |bucket: u64| f64::from_bits(bucket << VALUE_SHIFT);
        let counted = (0..).zip(&self.by_value).filter(|(_, count)| **count > 0);
        counted
            .map(|(bucket, count)| {
                let (from, to) = (edge(bucket).max(self.least), edge(bucket + 1));
                // Of infinity on it is no number, and below the least normal double there is zero alone.
                let to = if bucket == 0 { 0.0 } else { to.min(self.greatest) };
                (from, to, *count)
            })
            .collect()
    }

    fn height(&self) -> usize {
        self.rows.edges.len() + 1
    }
}

/// Counts as they pass between processes that have the same frame; doubles are their bits.
#[derive(Serialize, Deserialize)]
pub struct Flat {
    cells: Vec<(u32, u64)>,
    by_value: Vec<(u32, u64)>,
    least: u64,
    greatest: u64,
    outside: u64,
    events: u64,
}

impl Counts {
    /// What passes to another process.
    #[must_use]
    pub fn flat(self) -> Flat {
        let sparse = |counts: Vec<u64>| (0..).zip(counts).filter(|(_, count)| *count > 0).collect();
        Flat {
            cells: sparse(self.cells),
            by_value: sparse(self.by_value),
            least: self.least.to_bits(),
            greatest: self.greatest.to_bits(),
            outside: self.outside,
            events: self.events,
        }
    }

    /// Takes over what another process counted.
    pub fn join_flat(&mut self, flat: &Flat) {
        flat.cells.iter().for_each(|(at, count)| self.cells[*at as usize] += count);
        flat.by_value.iter().for_each(|(at, count)| self.by_value[*at as usize] += count);
        self.least = self.least.min(f64::from_bits(flat.least));
        self.greatest = self.greatest.max(f64::from_bits(flat.greatest));
        self.outside += flat.outside;
        self.events += flat.events;
    }
}

impl Forked for Counts {
    fn fork(&self) -> Self {
        Counts {
            rows: self.rows.clone(),
            cells: vec![0; self.cells.len()],
            by_value: vec![0; self.by_value.len()],
            least: f64::INFINITY,
            greatest: 0.0,
            outside: 0,
            events: 0,
            ..*self
        }
    }

    fn join(&mut self, other: Counts) {
        self.cells.iter_mut().zip(&other.cells).for_each(|(ours, theirs)| *ours += theirs);
        for (ours, theirs) in self.by_value.iter_mut().zip(&other.by_value).filter(|(_, theirs)| **theirs > 0)
        {
            *ours += theirs;
        }
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
        self.outside += other.outside;
        self.events += other.events;
    }
}

impl Sink for Counts {
    fn take(&mut self, batch: &Batch, _chunk: u64, _text: &[u8]) -> io::Result<()> {
        let height = self.height();
        // Traces are nearly in order: the column of the last event is most often that of the next.
        let (mut column_begin, mut first_cell) = (self.begin_ns, 0);
        let (mut least, mut greatest) = (self.least, self.greatest);
        for event in &batch.events {
            self.events += u64::from(event.weight);
            if event.time_ns < self.from_ns || event.time_ns > self.last_ns {
                self.outside += u64::from(event.weight);
                continue;
            }
            let inside = event.time_ns.wrapping_sub(column_begin) as u64;
            if inside >= self.column_ns as u64 {
                let column =
                    (event.time_ns.wrapping_sub(self.begin_ns) as u64 / self.column_ns as u64) as usize;
                debug_assert!(column < self.columns);
                first_cell = column * height;
                column_begin = self.begin_ns.wrapping_add((column as i64).wrapping_mul(self.column_ns));
            }
            let value = if self.sub_second { event.time_ns.rem_euclid(SECOND) as f64 } else { event.value };
            let place = self.rows.place(value);
            self.cells[first_cell + place] += u64::from(event.weight);
            self.by_value[(value.to_bits() >> VALUE_SHIFT) as usize] += u64::from(event.weight);
            least = least.min(value);
            greatest = greatest.max(value);
        }
        (self.least, self.greatest) = (least, greatest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(edges: Vec<f64>, scale: Scale) -> Frame {
        Frame {
            begin_ns: 0,
            column_ns: 1,
            columns: 1,
            from_ns: 0,
            last_ns: 0,
            edges,
            scale,
            sub_second: false,
            notes: Vec::new(),
        }
    }

    proptest! {
        #[test]
        fn the_edges_decide_in_which_row_a_value_is(
            mut edges in prop::collection::btree_set(1u64..1_000_000_000, 2..40), value in 0u64..1_100_000_000, pick in any::<prop::sample::Index>(), log in any::<bool>()
        ) {
            let edges: Vec<f64> = std::mem::take(&mut edges).into_iter().map(|edge| edge as f64 / 7.0).collect();
            let rows = Rows::new(&frame(edges.clone(), if log { Scale::Log } else { Scale::Linear }));
            for value in [value as f64 / 7.0, edges[pick.index(edges.len())]] {
                let last = edges.len() - 1;
                let expected = if value < edges[0] { 0 }
                    else if value > edges[last] { last + 1 }
                    else { (0..last).find(|row| value < edges[row + 1]).unwrap_or(last - 1) + 1 };
                prop_assert_eq!(rows.place(value), expected);
            }
        }
    }
}
