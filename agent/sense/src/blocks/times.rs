//! Times of operations, as `bpf/block_times.bpf.c` counts them in the kernel.

use std::collections::HashMap as Map;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use aya::maps::{Array, HashMap, MapData, PerCpuArray, PerCpuHashMap, PerCpuValues, RingBuf};
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::{BtfTracePoint, Program};
use aya::{include_bytes_aligned, Ebpf, EbpfError, EbpfLoader, VerifierLogLevel};
use iodyno_core::histogram::Histogram;
use iodyno_core::units::Nanos;
use iodyno_sys::clock;

use super::BlockOperation;
use crate::exact::refusal::Refusal;
use crate::kernel_buckets::{counts, growth, BUCKETS};
use crate::kernel_types;

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/block_times.bpf.o"));

/// Program and tracepoint. The end of an operation comes last: a begin without its end is harmless.
const PROGRAMS: [(&str, &str); 4] = [
    ("given_back", "block_rq_requeue"),
    ("queued", "block_rq_insert"),
    ("issued", "block_rq_issue"),
    ("completed", "block_rq_complete"),
];
/// For what an interrupt does while one of those runs on the same CPU: of two at one tracepoint the kernel runs that first
/// which was attached first.
const INSIDE: [(&str, &str); 2] =
    [("issued_inside", "block_rq_issue"), ("completed_inside", "block_rq_complete")];
/// Words of 64 bits before the histograms of a series.
const HEAD: usize = 6;
const WORDS: usize = HEAD + BUCKETS;
/// From when a program is attached until operations count. Chosen: in one of 200 starts the kernel ran the last program for
/// nothing in the first 1 to 4 ms, on any CPU, and an operation would have a begin and no end.
const SETTLING: Nanos = Nanos(20_000_000);
/// Places of processes, as there.
const PROCESSES: usize = 256;
/// Series that there is room for, as there.
const SERIES: usize = 64;

/// What a series is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SeriesKey {
    /// The device's number.
    pub device: (u32, u32),
    /// What its operations do (`enum req_op`).
    pub operation: u8,
    /// Class of their size: 0 up to 4 KiB, then one for each power of two.
    pub class: u8,
}

impl SeriesKey {
    fn of(word: u64) -> Self {
        let device = word as u32;
        SeriesKey {
            device: (device >> 20, device & 0xf_ffff),
            operation: (word >> 32) as u8,
            class: (word >> 48) as u8 & 0x7f,
        }
    }

    /// As a label has it: `operation=read,size=8KiB`, where the size is the largest of the class.
    pub fn label(self) -> String {
        let operation = match BlockOperation::of(u32::from(self.operation)) {
            BlockOperation::Read => "read",
            BlockOperation::Write => "write",
            BlockOperation::Flush => "flush",
            BlockOperation::Discard => "discard",
            BlockOperation::Other => "other",
        };
        let size = match self.class {
            class @ 0..=7 => format!("{}KiB", 4 << class),
            8 => "1MiB".to_owned(),
            _ => "more".to_owned(),
        };
        format!("operation={operation},size={size}")
    }
}

/// Counts of a series so far, of all CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Series {
    /// Operations that ended, also those that failed.
    pub operations: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Operations that took longer than 20 ms from when they were made to their end (`SLOW_NS`).
    pub slow: u64,
    queue_ns: u64,
    service_ns: u64,
    queue: Vec<u32>,
    service: Vec<u32>,
}

impl Default for Series {
    fn default() -> Self {
        Series {
            operations: 0,
            bytes: 0,
            errors: 0,
            slow: 0,
            queue_ns: 0,
            service_ns: 0,
            queue: vec![0; BUCKETS],
            service: vec![0; BUCKETS],
        }
    }
}

impl Series {
    fn add(&mut self, words: &[u64; WORDS]) {
        let head = [
            &mut self.operations,
            &mut self.bytes,
            &mut self.errors,
            &mut self.slow,
            &mut self.queue_ns,
            &mut self.service_ns,
        ];
        for (sum, word) in head.into_iter().zip(words) {
            *sum = sum.wrapping_add(*word);
        }
        let sums = self.queue.iter_mut().zip(&mut self.service);
        for ((queue, service), word) in sums.zip(&words[HEAD..]).filter(|(_, word)| **word != 0) {
            let [of_queue, of_service] = counts(*word);
            *queue = queue.wrapping_add(of_queue);
            *service = service.wrapping_add(of_service);
        }
    }

    /// Times from when operations were made to when they were handed to the device, since `before`.
    pub fn queue_since(&self, before: &Series) -> Histogram {
        growth(&self.queue, &before.queue, self.queue_ns.wrapping_sub(before.queue_ns))
    }

    /// Times from there to their completion, since `before`.
    pub fn service_since(&self, before: &Series) -> Histogram {
        growth(&self.service, &before.service, self.service_ns.wrapping_sub(before.service_ns))
    }
}

/// What is counted of a process: operations, bytes, its name in two words, its id and one.
type ProcessWords = [u64; 5];
/// Those at places of their own, of one CPU.
type ProcessPlaces = [ProcessWords; PROCESSES];
const NOBODY: ProcessPlaces = [[0; 5]; PROCESSES];

/// A process that had operations begun so far.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Operations.
    pub operations: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// An operation that took longer than that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlowOperation {
    /// When it was made.
    pub made: Nanos,
    /// When it was handed to the device.
    pub issued: Nanos,
    /// When it was complete.
    pub ended: Nanos,
    /// Where it ended on the device, in sectors of 512 bytes.
    pub sector: u64,
    /// How long it was.
    pub bytes: u64,
    /// What it is counted with.
    pub series: SeriesKey,
}

/// Operations that are in no series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// More were in flight, or more kinds of them, than there is room for.
    pub no_room: u64,
    /// Their begin or their end was not seen.
    pub unseen: u64,
    /// They were begun before the programs ran.
    pub begun_before: u64,
}

/// What the kernel says the programs took while it kept count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Runs of all of the programs.
    pub runs: u64,
    /// Runs of the program at the end of operations.
    pub completions: u64,
    /// Time in the program at the end of operations.
    pub completions_ns: u64,
    /// Time in all of the programs.
    pub ns: u64,
}

impl Spent {
    /// What was added since.
    pub fn since(self, before: Spent) -> Spent {
        Spent {
            runs: self.runs - before.runs,
            completions: self.completions - before.completions,
            completions_ns: self.completions_ns - before.completions_ns,
            ns: self.ns - before.ns,
        }
    }

    /// Of the program at the end of operations alone.
    pub fn of_completions(self) -> Spent {
        Spent { runs: self.completions, ns: self.completions_ns, ..self }
    }
}

/// Loaded programs, and where they are attached.
pub(crate) struct BlockTimes {
    taken: HashMap<MapData, u32, u64>,
    kinds: Array<MapData, [u64; SERIES]>,
    series: PerCpuArray<MapData, [u64; WORDS]>,
    processes: PerCpuArray<MapData, ProcessPlaces>,
    other_processes: PerCpuHashMap<MapData, u32, ProcessWords>,
    slow: RingBuf<MapData>,
    untold: PerCpuArray<MapData, u64>,
    since: Array<MapData, u64>,
    links: Vec<BtfTracePointLink>,
    inside: Inside,
    ebpf: Ebpf,
}

/// Whether the programs are there for what an interrupt does inside of the others: each takes time of every operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    /// Not yet: devices of one queue end their operations in soft interrupts, which do not interrupt each other.
    No,
    /// They are attached with the others from now on.
    Wanted,
    /// They are.
    Attached,
}

impl BlockTimes {
    /// Loads the programs; none of them runs yet.
    pub fn load(sys: &Path) -> Result<BlockTimes, Refusal> {
        let btf = kernel_types::read(sys)?;
        let mut ebpf =
            EbpfLoader::new().btf(Some(&btf)).verifier_log_level(VerifierLogLevel::DEBUG).load(OBJECT)?;
        for (name, tracepoint) in PROGRAMS.into_iter().chain(INSIDE) {
            program(&mut ebpf, name)?.load(tracepoint, &btf)?;
        }
        let mut map = |name| ebpf.take_map(name).ok_or(Refusal::Defect("a map is not in the object"));
        Ok(BlockTimes {
            taken: HashMap::try_from(map("taken")?).map_err(EbpfError::from)?,
            kinds: Array::try_from(map(".bss.kinds")?).map_err(EbpfError::from)?,
            series: PerCpuArray::try_from(map("series")?).map_err(EbpfError::from)?,
            processes: PerCpuArray::try_from(map("processes")?).map_err(EbpfError::from)?,
            other_processes: PerCpuHashMap::try_from(map("other_processes")?).map_err(EbpfError::from)?,
            slow: RingBuf::try_from(map("slow")?).map_err(EbpfError::from)?,
            untold: PerCpuArray::try_from(map("untold")?).map_err(EbpfError::from)?,
            since: Array::try_from(map("since")?).map_err(EbpfError::from)?,
            links: Vec::new(),
            inside: if many_queues(sys) { Inside::Wanted } else { Inside::No },
            ebpf,
        })
    }

    /// Has the programs run, and count from nothing.
    pub fn attach(&mut self) -> Result<(), Refusal> {
        // Nothing counts until all of them run: what was begun before one of them did would look as if it had no end.
        self.since.set(0, u64::MAX, 0).map_err(EbpfError::from)?;
        self.empty()?;
        self.attach_each(&PROGRAMS)?;
        if self.inside == Inside::Wanted {
            self.attach_each(&INSIDE)?;
            self.inside = Inside::Attached;
        }
        clock::sleep_until(clock::monotonic().plus(SETTLING))
            .map_err(|error| Refusal::Other(format!("waiting for the programs: {error}")))?;
        self.since.set(0, clock::monotonic().0, 0).map_err(EbpfError::from)?;
        Ok(())
    }

    /// Makes room: what other disks and processes did in earlier trials would hold the places of those that are of interest
    /// now. While no program runs.
    fn empty(&mut self) -> Result<(), Refusal> {
        let taken: Vec<u32> = self.taken.keys().collect::<Result<_, _>>().map_err(EbpfError::from)?;
        for number in taken {
            let cpus = self.series.get(&number, 0).map_err(EbpfError::from)?.len();
            let none = PerCpuValues::try_from(vec![[0; WORDS]; cpus]).map_err(unfit)?;
            self.series.set(number, none, 0).map_err(EbpfError::from)?;
            self.taken.remove(&number).map_err(EbpfError::from)?;
        }
        self.kinds.set(0, [0; SERIES], 0).map_err(EbpfError::from)?;
        let cpus = self.processes.get(&0, 0).map_err(EbpfError::from)?.len();
        let places = PerCpuValues::try_from(vec![NOBODY; cpus]).map_err(unfit)?;
        self.processes.set(0, places, 0).map_err(EbpfError::from)?;
        let others: Vec<u32> =
            self.other_processes.keys().collect::<Result<_, _>>().map_err(EbpfError::from)?;
        for other in others {
            self.other_processes.remove(&other).map_err(EbpfError::from)?;
        }
        Ok(())
    }

    fn attach_each(&mut self, programs: &[(&str, &str)]) -> Result<(), Refusal> {
        for (name, _) in programs {
            let program = program(&mut self.ebpf, name)?;
            let link = program.attach()?;
            self.links.push(program.take_link(link)?);
        }
        Ok(())
    }

    /// Has the programs run that see what an interrupt does inside of the others, where the kernel has left some of that out.
    pub fn look_inside(&mut self) -> Result<(), Refusal> {
        if self.inside == Inside::Attached || !self.left_inside()? {
            return Ok(());
        }
        self.attach_each(&INSIDE)?;
        self.inside = Inside::Attached;
        Ok(())
    }

    /// Whether the kernel has left out runs, because the same program ran on that CPU already. False where it does not say.
    fn left_inside(&mut self) -> Result<bool, Refusal> {
        for (name, _) in PROGRAMS {
            let program = program(&mut self.ebpf, name)?.fd().map_err(EbpfError::from)?;
            let path = format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd());
            let told = std::fs::read_to_string(path).unwrap_or_default();
            let misses = told.lines().find_map(|line| line.strip_prefix("recursion_misses:"));
            if misses.is_some_and(|misses| misses.trim() != "0") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes them away again; they stay loaded and cost nothing.
    pub fn detach(&mut self) {
        // A begin without its end, or an end without its begin, would look as if the other had not been seen.
        let _ = self.since.set(0, u64::MAX, 0);
        self.links.clear();
        if self.inside == Inside::Attached {
            self.inside = Inside::Wanted;
        }
    }

    /// Every series so far.
    pub fn series(&self) -> Result<Map<SeriesKey, Series>, Refusal> {
        let mut found = Map::new();
        let kinds = self.kinds.get(&0, 0).map_err(EbpfError::from)?;
        for (number, kind) in (0..).zip(kinds).filter(|(_, kind)| *kind != 0) {
            let mut sum = Series::default();
            for words in self.series.get(&number, 0).map_err(EbpfError::from)?.iter() {
                sum.add(words);
            }
            found.insert(SeriesKey::of(kind), sum);
        }
        Ok(found)
    }

    /// Every process so far.
    pub fn processes(&self) -> Result<Vec<Process>, Refusal> {
        let mut found = Map::new();
        for places in self.processes.get(&0, 0).map_err(EbpfError::from)?.iter() {
            add_processes(&mut found, places);
        }
        for other in self.other_processes.iter() {
            add_processes(&mut found, &other.map_err(EbpfError::from)?.1);
        }
        Ok(found.into_values().collect())
    }

    /// Slow operations since the last call, as far as there was room for them.
    pub fn slow(&mut self) -> Vec<SlowOperation> {
        let mut found = Vec::new();
        while let Some(item) = self.slow.next() {
            let word = |at: usize| {
                let bytes = item.get(8 * at..8 * at + 8).and_then(|bytes| bytes.try_into().ok());
                u64::from_ne_bytes(bytes.unwrap_or_default())
            };
            found.push(SlowOperation {
                made: Nanos(word(0)),
                issued: Nanos(word(1)),
                ended: Nanos(word(2)),
                sector: word(3),
                series: SeriesKey::of(word(4)),
                bytes: word(5),
            });
        }
        found
    }

    /// What is in no series so far.
    pub fn left_out(&self) -> Result<LeftOut, Refusal> {
        let sum = |reason| -> Result<u64, Refusal> {
            Ok(self.untold.get(&reason, 0).map_err(EbpfError::from)?.iter().sum())
        };
        Ok(LeftOut { no_room: sum(0)?, unseen: sum(1)?, begun_before: sum(2)? })
    }

    /// What the programs took so far, where the kernel keeps count.
    pub fn spent(&self) -> Result<Spent, Refusal> {
        let mut spent = Spent::default();
        for (name, program) in self.ebpf.programs() {
            let info = program.info()?;
            spent.runs += info.run_count();
            spent.ns += info.run_time().as_nanos() as u64;
            if name == "completed" {
                spent.completions += info.run_count();
                spent.completions_ns += info.run_time().as_nanos() as u64;
            }
        }
        Ok(spent)
    }
}

/// Whether a disk has more than one queue. Those end their operations in hard interrupts (`blk_mq_complete_request_remote`),
/// which may come while another's end is counted.
fn many_queues(sys: &Path) -> bool {
    let Ok(disks) = std::fs::read_dir(sys.join("block")) else { return true };
    let queues =
        |disk: std::fs::DirEntry| std::fs::read_dir(disk.path().join("mq")).map_or(0, Iterator::count);
    disks.flatten().any(|disk| queues(disk) > 1)
}

/// Values of a map of all CPUs that are not one a CPU.
fn unfit(error: std::io::Error) -> Refusal {
    Refusal::Other(format!("emptying the tables: {error}"))
}

/// Adds what was counted at each place.
fn add_processes(found: &mut Map<u32, Process>, counted: &[ProcessWords]) {
    for [operations, bytes, name @ .., id] in counted.iter().filter(|words| words[0] > 0) {
        let id = (*id as u32).wrapping_sub(1);
        let process = found.entry(id).or_insert_with(|| Process { id, ..Process::default() });
        process.operations += operations;
        process.bytes += bytes;
        let name: Vec<u8> = name.iter().flat_map(|word| word.to_ne_bytes()).collect();
        if name[0] != 0 {
            process.name = super::events::plain(&name);
        }
    }
}

fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut BtfTracePoint, Refusal> {
    let program: &mut Program =
        ebpf.program_mut(name).ok_or(Refusal::Defect("a program is not in the object"))?;
    Ok(program.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_what_came_since_also_when_a_count_begins_anew() {
        let mut words = [0_u64; WORDS];
        words[0] = 2;
        words[5] = 300;
        let mut before = Series::default();
        before.service[150] = u32::MAX;
        let mut now = before.clone();
        now.add(&words);
        now.service[150] = 1;
        let grown = now.service_since(&before);
        assert_eq!((grown.count, grown.sum_ns, grown.counts.as_slice()), (2, 300, &[2][..]));
        assert_eq!(now.queue_since(&before), Histogram::default());
    }

    #[test]
    fn a_series_is_told_by_device_operation_and_size() {
        let key = SeriesKey::of((1 << 63) | (3 << 48) | (1 << 32) | (254 << 20) | 5);
        assert_eq!((key.device, key.label().as_str()), ((254, 5), "operation=write,size=32KiB"));
        let more = SeriesKey { class: 9, operation: 2, ..key };
        assert_eq!(more.label(), "operation=flush,size=more");
    }

    #[test]
    fn what_was_counted_in_an_earlier_trial_takes_no_place_in_the_next() {
        let Ok(mut programs) = BlockTimes::load(Path::new("/sys")) else { return };
        // Every series is somebody's.
        let others = std::array::from_fn(|number| 1 << 63 | 0xfff << 20 | number as u64);
        programs.kinds.set(0, others, 0).unwrap();
        for (number, kind) in (0..).zip(others) {
            programs.taken.insert(number, kind, 0).unwrap();
        }
        programs.other_processes.insert(7, PerCpuValues::try_from(vec![[1; 5]; cpus()]).unwrap(), 0).unwrap();
        // No process has such an id, so that what others write meanwhile is not taken for it.
        let earlier = 1 << 30;
        let mut places = NOBODY;
        places[0] = [1, 512, 0, 0, u64::from(earlier) + 1];
        programs.processes.set(0, PerCpuValues::try_from(vec![places; cpus()]).unwrap(), 0).unwrap();
        assert!(programs.processes().unwrap().iter().any(|process| process.id == earlier));
        programs.attach().unwrap();
        let path = std::env::temp_dir().join(format!("iodyno-series-{}", std::process::id()));
        std::fs::write(&path, [7; 8192]).unwrap();
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
        std::fs::remove_file(&path).unwrap();
        programs.detach();
        let (series, left_out) = (programs.series().unwrap(), programs.left_out().unwrap());
        assert_eq!(left_out.no_room, 0, "{series:?}");
        assert!(series.keys().all(|key| key.device.0 != 0xfff), "{:?}", series.keys());
        // Of what others write, the last operation of a series may not have ended yet.
        assert!(series.values().any(|one| one.operations > 0), "{left_out:?} {:?}", series.keys());
        let ids: Vec<u32> = programs.processes().unwrap().iter().map(|process| process.id).collect();
        assert!(!ids.contains(&earlier) && !ids.contains(&u32::MAX), "{ids:?}");
        assert!(programs.other_processes.keys().flatten().all(|other| other != 7));
    }

    fn cpus() -> usize {
        aya::util::nr_cpus().unwrap()
    }

    #[test]
    fn what_begins_while_a_cpu_idles_is_a_process_of_its_own() {
        let mut places = NOBODY;
        // As the kernel has them: nothing at a place of nobody, process 0, and process 256 elsewhere.
        (places[1], places[2]) = ([3, 300, 0, 0, 1], [4, 400, 0, 0, 257]);
        let mut found = Map::new();
        add_processes(&mut found, &places);
        let counts = |id| found.get(&id).map(|process: &Process| (process.operations, process.bytes));
        assert_eq!((counts(0), counts(256), found.len()), (Some((3, 300)), Some((4, 400)), 2));
    }
}
