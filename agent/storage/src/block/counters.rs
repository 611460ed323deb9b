//! What the load did, counted by its workers and read by somebody else.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use iodyno_core::disk::{Disk, ReplayedKind, Sync, WHOLE_PPM};
use iodyno_core::disk::{DiskSyscalls, Pattern};
use iodyno_core::histogram::{Recorder, Snapshot};

use crate::classes::ClassTotals;

/// chosen: more sets of counters than this add memory and reading time (111 KB each) and no speed, because no more than a
/// few threads run at a time. Where targets are told apart, each has its own.
const MOST_LANES: usize = 64;
/// Targets that are told apart. chosen: as many as are looked at one by one.
const MOST_TOLD: usize = 16;

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Read,
    Write,
    Sync,
    Truncate,
}

const CLASSES: [Class; 4] = [Class::Read, Class::Write, Class::Sync, Class::Truncate];

impl Class {
    pub(crate) fn name(self, disk: &Disk) -> &'static str {
        match self {
            Class::Read => "read",
            Class::Write => "write",
            Class::Truncate => "truncate",
            Class::Sync if disk.syscalls == DiskSyscalls::Mmap => "msync",
            Class::Sync if disk.sync == Sync::Fdatasync => "fdatasync",
            Class::Sync => "fsync",
        }
    }

    /// Whether the job can have such operations.
    fn is_of(self, disk: &Disk) -> bool {
        let replayed = |kind| disk.replay.as_ref().map(|replay| replay.kinds.contains(&kind));
        match self {
            Class::Read => replayed(ReplayedKind::Read).unwrap_or(disk.read_ratio_ppm > 0),
            Class::Write => replayed(ReplayedKind::Write).unwrap_or(disk.read_ratio_ppm < WHOLE_PPM),
            Class::Sync => {
                let told = matches!(disk.sync, Sync::Fsync | Sync::Fdatasync) && disk.writes();
                told || replayed(ReplayedKind::Fsync).unwrap_or(false)
            }
            Class::Truncate => disk.pattern == Pattern::Append && disk.replay.is_none(),
        }
    }
}

/// Counts of one class of operations on one target, or on all.
struct Cell {
    bytes: AtomicU64,
    operations: AtomicU64,
    errors: AtomicU64,
    service: Recorder,
    response: Option<Recorder>,
}

/// Counters of one worker, or of some where there are many.
#[repr(align(64))]
pub(crate) struct Lane {
    /// A target, where they are told apart; else one for all.
    cells: Box<[[Option<Box<Cell>>; 4]]>,
    /// Bytes read and written, a target.
    targets: Box<[[AtomicU64; 2]]>,
    /// Whether one worker alone adds to them.
    alone: bool,
}

impl Lane {
    #[inline]
    fn cell(&self, class: Class, target: usize) -> Option<&Cell> {
        let told = if self.cells.len() > 1 { target } else { 0 };
        self.cells[told][class as usize].as_deref()
    }

    /// Counts an operation that ended well. `response_ns`: in an open loop.
    #[inline]
    pub(crate) fn count(
        &self,
        class: Class,
        target: usize,
        bytes: u64,
        service_ns: u64,
        response_ns: Option<u64>,
    ) {
        let Some(cell) = self.cell(class, target) else { return };
        let side = usize::from(class == Class::Write);
        if self.alone {
            // Without locked instructions, which one writer does not need.
            let add = |counter: &AtomicU64, grown: u64| counter.store(counter.load(Relaxed) + grown, Relaxed);
            add(&cell.bytes, bytes);
            add(&self.targets[target][side], bytes);
            add(&cell.operations, 1);
            cell.service.record_alone(service_ns);
            if let (Some(recorder), Some(time)) = (&cell.response, response_ns) {
                recorder.record_alone(time);
            }
        } else {
            cell.bytes.fetch_add(bytes, Relaxed);
            self.targets[target][side].fetch_add(bytes, Relaxed);
            cell.operations.fetch_add(1, Relaxed);
            cell.service.record(service_ns);
            if let (Some(recorder), Some(time)) = (&cell.response, response_ns) {
                recorder.record(time);
            }
        }
    }

    #[cold]
    pub(crate) fn count_error(&self, class: Class, target: usize) {
        if let Some(cell) = self.cell(class, target) {
            cell.errors.fetch_add(1, Relaxed);
        }
    }
}

/// Counters of a job.
pub(crate) struct Counters {
    lanes: Box<[Lane]>,
    classes: Vec<(Class, &'static str)>,
}

impl Counters {
    pub(crate) fn new(disk: &Disk, open: bool) -> Self {
        let workers = disk.workers as usize;
        let targets = disk.targets.len();
        let told = if targets <= MOST_TOLD { targets.max(1) } else { 1 };
        let lanes = workers.min(MOST_LANES / told);
        let cells = || {
            CLASSES.map(|class| {
                class.is_of(disk).then(|| {
                    Box::new(Cell {
                        bytes: AtomicU64::new(0),
                        operations: AtomicU64::new(0),
                        errors: AtomicU64::new(0),
                        service: Recorder::default(),
                        response: open.then(Recorder::default),
                    })
                })
            })
        };
        let lane = || Lane {
            cells: (0..told).map(|_| cells()).collect(),
            targets: disk.targets.iter().map(|_| Default::default()).collect(),
            alone: workers <= lanes,
        };
        Counters {
            lanes: (0..lanes).map(|_| lane()).collect(),
            classes: CLASSES
                .into_iter()
                .filter(|class| class.is_of(disk))
                .map(|class| (class, class.name(disk)))
                .collect(),
        }
    }

    pub(crate) fn lane(&self, worker: usize) -> &Lane {
        &self.lanes[worker % self.lanes.len()]
    }

    fn cells(&self, class: Class) -> impl Iterator<Item = &Cell> {
        self.lanes
            .iter()
            .flat_map(|lane| &lane.cells)
            .filter_map(move |cells| cells[class as usize].as_deref())
    }

    /// Every class that the job can have, of each target that is told apart, else of all.
    pub(crate) fn read(&self) -> Vec<Vec<ClassTotals>> {
        (0..self.lanes[0].cells.len()).map(|target| self.read_of(target)).collect()
    }

    fn read_of(&self, target: usize) -> Vec<ClassTotals> {
        let of = |(class, name): &(Class, &str)| {
            let cells = || self.lanes.iter().filter_map(|lane| lane.cell(*class, target));
            // The histogram first: an operation that is in it is in the sums, too.
            let service_time = Snapshot::of(cells().map(|cell| &cell.service));
            let open = cells().next().is_some_and(|cell| cell.response.is_some());
            let response = || Snapshot::of(cells().filter_map(|cell| cell.response.as_ref()));
            let sum = |counter: fn(&Cell) -> &AtomicU64| {
                cells().map(|cell| counter(cell).load(Relaxed)).sum::<u64>()
            };
            ClassTotals {
                name: (*name).to_owned(),
                response_time: open.then(response),
                service_time,
                bytes: sum(|cell| &cell.bytes),
                operations: sum(|cell| &cell.operations),
                errors: sum(|cell| &cell.errors),
            }
        };
        self.classes.iter().map(of).collect()
    }

    /// Bytes read and written of a target.
    pub(crate) fn target_bytes(&self, target: usize) -> [u64; 2] {
        let sum = |side: usize| self.lanes.iter().map(|lane| lane.targets[target][side].load(Relaxed)).sum();
        [sum(0), sum(1)]
    }

    /// Bytes and operations of reads and writes together.
    pub(crate) fn moved(&self) -> (u64, u64) {
        let add = |(bytes, operations), cell: &Cell| {
            (bytes + cell.bytes.load(Relaxed), operations + cell.operations.load(Relaxed))
        };
        self.cells(Class::Read).chain(self.cells(Class::Write)).fold((0, 0), add)
    }

    /// Service times of reads and writes together.
    pub(crate) fn service_time(&self) -> Snapshot {
        Snapshot::of(self.cells(Class::Read).chain(self.cells(Class::Write)).map(|cell| &cell.service))
    }

    /// Response times of reads and writes together; of nothing in a closed loop.
    pub(crate) fn response_time(&self) -> Snapshot {
        let cells = self.cells(Class::Read).chain(self.cells(Class::Write));
        Snapshot::of(cells.filter_map(|cell| cell.response.as_ref()))
    }
}
