//! Tables of counters with a column for each CPU: `/proc/interrupts` and `/proc/softirqs`.

use std::collections::HashMap;

use iodyno_core::counter::{growth, Width};

use crate::missing::Missing;

/// One row: its name, what the kernel says behind the numbers, and the growth on each CPU that moved.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Moved<'text> {
    /// Name of the row, without its colon.
    pub name: &'text str,
    /// What follows the numbers.
    pub remark: &'text str,
    /// CPU and growth, which is not 0.
    pub growth: Vec<(u32, u64)>,
}

/// Where each counter of the table stood at the last reading.
///
/// The rows are kept as a whole: on a machine with a hundred CPUs the table has tens of thousands of
/// numbers, and nearly all of them stand still.
#[derive(Debug, Default)]
pub(crate) struct CpuTable {
    cpus: Vec<u32>,
    last: HashMap<String, Vec<u64>>,
}

impl CpuTable {
    /// Takes a reading and gives the rows that moved. `None`: the text is no such table.
    pub fn advance<'text>(&mut self, text: &'text str, missing: &mut Missing) -> Option<Vec<Moved<'text>>> {
        let mut lines = text.lines();
        let cpus = heading(lines.next()?)?;
        let first = self.cpus.is_empty();
        if self.cpus != cpus {
            if !first {
                missing.add("CPUs came or went: growth not known");
            }
            self.last.clear();
            self.cpus = cpus;
        }
        let fresh = self.last.is_empty();
        let mut now = HashMap::with_capacity(self.last.len());
        let mut moved = Vec::new();
        for line in lines {
            let Some((name, numbers, remark)) = row(line, self.cpus.len()) else { continue };
            match self.last.get(name) {
                Some(before) => {
                    let growth = self.growth_of(before, &numbers);
                    if !growth.is_empty() {
                        moved.push(Moved { name, remark, growth });
                    }
                }
                None if !fresh => missing.add(format!("{name} is new: growth not known")),
                None => {}
            }
            now.insert(name.to_owned(), numbers);
        }
        self.last = now;
        Some(moved)
    }

    /// CPUs that moved, with their growth. The kernel keeps these counters in 32 bits.
    fn growth_of(&self, before: &[u64], now: &[u64]) -> Vec<(u32, u64)> {
        let pairs = self.cpus.iter().zip(before.iter().zip(now));
        let grown =
            pairs.filter_map(|(&cpu, (&before, &now))| Some((cpu, growth(before, now, Width::Bits32)?)));
        grown.filter(|&(_, grown)| grown != 0).collect()
    }
}

/// CPUs of the heading `CPU0 CPU1 ...`.
fn heading(line: &str) -> Option<Vec<u32>> {
    let cpus: Option<Vec<u32>> =
        line.split_whitespace().map(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
    cpus.filter(|cpus| !cpus.is_empty())
}

/// Name, numbers and remark of a row; `None` for one that does not have a 32-bit number for each CPU (such
/// as `ERR`, which the kernel counts for the whole machine).
fn row(line: &str, columns: usize) -> Option<(&str, Vec<u64>, &str)> {
    let (name, mut rest) = line.split_once(':')?;
    let mut numbers = Vec::with_capacity(columns);
    for _ in 0..columns {
        rest = rest.trim_start();
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        numbers.push(u64::from(rest[..end].parse::<u32>().ok()?));
        rest = &rest[end..];
    }
    Some((name.trim(), numbers, rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_moved_is_given() {
        let mut table = CpuTable::default();
        let mut missing = Missing::default();
        let before = "      CPU0  CPU2\n LOC:  10  4294967295  Local timer\n 24:  5  5  IO-APIC 5-edge eth0\n ERR: 0\n";
        let now = "      CPU0  CPU2\n LOC:  15  4  Local timer\n 24:  5  5  IO-APIC 5-edge eth0\n ERR: 9\n";
        assert_eq!(table.advance(before, &mut missing), Some(vec![]));
        let moved = table.advance(now, &mut missing).unwrap();
        let growth = vec![(0, 5), (2, 5)];
        assert_eq!(moved, [Moved { name: "LOC", remark: "Local timer", growth }]);
        assert_eq!(missing.sentence(), None);
    }

    #[test]
    fn a_cpu_that_comes_voids_one_reading() {
        let mut table = CpuTable::default();
        let mut missing = Missing::default();
        table.advance("CPU0\nLOC: 1\n", &mut missing);
        assert_eq!(table.advance("CPU0 CPU1\nLOC: 5 5\n", &mut missing), Some(vec![]));
        assert!(missing.sentence().unwrap().contains("came or went"));
    }

    #[test]
    fn what_is_no_table_is_none() {
        for text in ["", "\n", "cpu0 1 2\n", "CPUx\n", "garbage"] {
            assert_eq!(CpuTable::default().advance(text, &mut Missing::default()), None, "{text:?}");
        }
    }
}
