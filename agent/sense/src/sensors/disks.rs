//! What each disk did, as the block layer counts it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};

use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, gauge, put, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

const DISKSTATS: &str = "/proc/diskstats";
/// A sector of this file, whatever the disk's are (Documentation/admin-guide/iostats.rst).
const SECTOR_BYTES: u64 = 512;
const MILLISECOND: u64 = 1_000_000;

/// Column behind the name, metric, width in the kernel, how much of the metric's unit one is.
const COUNTERS: [(usize, Metric, Width, u64); 10] = [
    (0, of_disk("disk.read_operations", "1", "Reads completed."), Width::Bits64, 1),
    (
        1,
        of_disk("disk.reads_merged", "1", "Reads that became part of one that was waiting."),
        Width::Bits64,
        1,
    ),
    (2, of_disk("disk.read_bytes", "bytes", "Bytes read."), Width::Bits64, SECTOR_BYTES),
    (
        3,
        of_disk("disk.read_ns", "ns", "Time of all reads, from queueing to completion."),
        Width::Bits32,
        MILLISECOND,
    ),
    (4, of_disk("disk.write_operations", "1", "Writes completed."), Width::Bits64, 1),
    (
        5,
        of_disk("disk.writes_merged", "1", "Writes that became part of one that was waiting."),
        Width::Bits64,
        1,
    ),
    (6, of_disk("disk.write_bytes", "bytes", "Bytes written."), Width::Bits64, SECTOR_BYTES),
    (
        7,
        of_disk("disk.write_ns", "ns", "Time of all writes, from queueing to completion."),
        Width::Bits32,
        MILLISECOND,
    ),
    (9, of_disk("disk.busy_ns", "ns", "Time with an operation in flight."), Width::Bits32, MILLISECOND),
    (
        10,
        of_disk(
            "disk.in_flight_ns",
            "ns",
            "Time of all operations in flight, each counted, a flush twice: as a write and as a flush.",
        ),
        Width::Bits32,
        MILLISECOND,
    ),
];
const IN_FLIGHT: Metric =
    gauge("disk.in_flight", "1", DISKSTATS, "dev=sda", "Operations handed to the driver and not completed.");
const IN_FLIGHT_COLUMN: usize = 8;
const QUEUES: Metric =
    gauge("disk.hardware_queues", "1", "/sys/block/DISK/mq", "dev=sda", "Queues of the device.");
const QUEUE_LIMIT: Metric = gauge(
    "disk.queue_limit",
    "1",
    "/sys/block/DISK/queue/nr_requests",
    "dev=sda",
    "Operations that each queue has room for, with those of its scheduler.",
);
const DEVICE_LIMIT: Metric = gauge(
    "disk.device_limit",
    "1",
    "/sys/block/DISK/mq/0/nr_tags, device/queue_depth",
    "dev=sda",
    "Operations that the driver takes from each queue at a time.",
);

const METRICS: [Metric; 14] = {
    let mut metrics = [IN_FLIGHT; 14];
    (metrics[11], metrics[12], metrics[13]) = (QUEUES, QUEUE_LIMIT, DEVICE_LIMIT);
    let mut index = 0;
    while index < COUNTERS.len() {
        metrics[index] = COUNTERS[index].1;
        index += 1;
    }
    metrics
};

pub(crate) const ENTRY: Entry = Entry { name: "disks", metrics: &METRICS, open };

const fn of_disk(name: &'static str, unit: &'static str, help: &'static str) -> Metric {
    counter(name, unit, DISKSTATS, "dev=sda", help)
}

struct Disks {
    diskstats: Source,
    sys_block: PathBuf,
    /// What the queues of each disk have room for, read once: a trial sets it before.
    rooms: HashMap<String, [Option<u64>; 3]>,
    growths: Growths<(&'static str, String)>,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    let diskstats = Source::open(roots.proc.join("diskstats"))?;
    let sys_block = roots.sys.join("block");
    Ok(Box::new(Disks { diskstats, sys_block, rooms: HashMap::new(), growths: Growths::default() }))
}

impl Sensor for Disks {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let text = self.diskstats.text()?;
        let rows: Vec<(&str, Vec<u64>)> = text.lines().filter_map(row).collect();
        if rows.is_empty() {
            drop(text);
            return Err(self.diskstats.nonsense("has no line of a disk"));
        }
        self.growths.begin();
        // A disk that never did anything (there are often sixteen loop devices) is left out.
        for (name, columns) in rows.iter().filter(|(_, columns)| columns.iter().any(|number| *number > 0)) {
            // A name may hold a slash as `!`, but no space; a comma would end the label's part.
            let label = format!("dev={}", name.replace([',', '='], "_"));
            for (column, metric, width, unit) in &COUNTERS {
                self.growths.put_times(out, metric, &label, columns[*column], *width, *unit);
            }
            let room = self.rooms.entry(label.clone());
            let room = room.or_insert_with(|| room_of(&self.sys_block.join(name)));
            for (metric, number) in [&QUEUES, &QUEUE_LIMIT, &DEVICE_LIMIT].into_iter().zip(room) {
                if let Some(number) = number {
                    put(out, metric, label.clone(), *number);
                }
            }
            put(out, &IN_FLIGHT, label, columns[IN_FLIGHT_COLUMN]);
        }
        missing.add_any(self.growths.unknown());
        Ok(missing.sentence())
    }
}

/// Hardware queues of a disk, what each of its queues has room for, and what its driver takes of that. A partition has none.
fn room_of(disk: &Path) -> [Option<u64>; 3] {
    let number = |file: &str| fs::read_to_string(disk.join(file)).ok()?.trim().parse::<u64>().ok();
    let queues = fs::read_dir(disk.join("mq")).ok().map(|queues| queues.count() as u64);
    // Of SCSI, as many as the device takes of all queues.
    let driver = [number("mq/0/nr_tags"), number("device/queue_depth")].into_iter().flatten().min();
    [queues, number("queue/nr_requests"), driver]
}

/// Name of the disk and the eleven numbers that every kernel has behind it.
fn row(line: &str) -> Option<(&str, Vec<u64>)> {
    let mut words = line.split_whitespace().skip(2);
    let name = words.next()?;
    let columns: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    (columns.len() >= 11).then_some((name, columns))
}
