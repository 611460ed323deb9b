//! What the programs of the sensor take for an operation, beside programs that do one thing each.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use aya::programs::{Program, RawTracePoint};
use aya::{include_bytes_aligned, Ebpf, EbpfLoader, VerifierLogLevel};
use iodyno_sys::block_target::{self, Opening};
use iodyno_sys::io_memory::IoMemory;

use super::times::{BlockTimes, Spent};
use crate::costs::BlockOperationCost;
use crate::exact::refusal::Refusal;

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/block_floor.bpf.o"));

/// Programs that do one thing, and what it is.
const YARDSTICKS: [(&str, &str); 5] = [
    ("empty", "empty programs"),
    ("clock_read", "programs that read the clock"),
    ("array", "programs that count in an array"),
    ("array_of_cpu", "programs that count in an array of the CPU"),
    ("hash", "programs that count in a hash table"),
];
/// Programs of the sensor: that which counts an operation when it has ended, and all of them.
const AT_THE_END: &str = "the sensor block_times, at the end of an operation";
const SENSOR: &str = "the sensor block_times";
/// Where they run: once at the begin of an operation, once at its end.
const TRACEPOINTS: [&str; 2] = ["block_rq_issue", "block_rq_complete"];
/// Turns that the median is taken of. Chosen: on a busy machine half of them are hardly disturbed.
const TURNS: usize = 25;
/// How long one of them is.
const TURN: Duration = Duration::from_millis(40);
/// Threads that read at once. Chosen: an idle CPU begins each operation with empty caches.
const READERS: usize = 8;
/// Bytes of a read, and what a direct read has to be aligned to.
const BLOCK: usize = 4096;

/// Measures, in some eight seconds, with reads of `file` that bypass the page cache.
pub(crate) fn measure(sys: &Path, file: &Path) -> Result<Vec<BlockOperationCost>, Refusal> {
    let unreadable = |error: io::Error| Refusal::Other(format!("{}: {error}", file.display()));
    drop(open(file).map_err(unreadable)?);
    let mut sensor = BlockTimes::load(sys)?;
    let mut floor = EbpfLoader::new().verifier_log_level(VerifierLogLevel::DEBUG).load(OBJECT)?;
    for (name, _) in YARDSTICKS {
        program(&mut floor, name)?.load()?;
    }
    let stop = AtomicBool::new(false);
    let timed = aya::sys::enable_stats(aya::sys::Stats::RunTime).map_err(Refusal::of_call)?;
    let turns = thread::scope(|scope| {
        let stop = &stop;
        let readers: Vec<_> =
            (0..READERS as u64).map(|number| scope.spawn(move || read(file, number, stop))).collect();
        let turns = take_turns(&mut floor, &mut sensor);
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            let ended = reader.join().map_err(|_| Refusal::Defect("a reader panicked"))?;
            ended.map_err(unreadable)?;
        }
        turns
    });
    drop(timed);
    let mut turns = turns?;
    let sensor = turns.pop().unwrap_or_default();
    let names = YARDSTICKS.map(|(_, name)| name);
    let floors = names.into_iter().zip(&turns).map(|(programs, turns)| summary(programs, turns));
    let ends: Vec<Spent> = sensor.iter().map(|one| one.of_completions()).collect();
    Ok(floors.chain([summary(AT_THE_END, &ends), summary(SENSOR, &sensor)]).collect())
}

/// Of each kind of programs, the last of them the sensor's: what they took in each turn.
fn take_turns(floor: &mut Ebpf, sensor: &mut BlockTimes) -> Result<Vec<Vec<Spent>>, Refusal> {
    let mut turns = vec![Vec::new(); YARDSTICKS.len() + 1];
    for _ in 0..TURNS {
        for ((name, _), turns) in YARDSTICKS.iter().zip(&mut turns) {
            let yardstick = program(floor, name)?;
            let links = TRACEPOINTS.map(|tracepoint| yardstick.attach(tracepoint));
            let before = spent(yardstick)?;
            thread::sleep(TURN);
            turns.push(spent(yardstick)?.since(before));
            for link in links {
                yardstick.detach(link?)?;
            }
        }
        sensor.attach()?;
        let before = sensor.spent()?;
        thread::sleep(TURN);
        turns[YARDSTICKS.len()].push(sensor.spent()?.since(before));
        sensor.detach();
    }
    Ok(turns)
}

fn program<'a>(floor: &'a mut Ebpf, name: &str) -> Result<&'a mut RawTracePoint, Refusal> {
    let program: &mut Program =
        floor.program_mut(name).ok_or(Refusal::Defect("a program is not in the object"))?;
    Ok(program.try_into()?)
}

/// What a yardstick took so far; it runs twice an operation.
fn spent(yardstick: &RawTracePoint) -> Result<Spent, Refusal> {
    let info = yardstick.info()?;
    let runs = info.run_count();
    Ok(Spent { runs, completions: runs / 2, completions_ns: 0, ns: info.run_time().as_nanos() as u64 })
}

fn summary(programs: &'static str, turns: &[Spent]) -> BlockOperationCost {
    let mut each: Vec<f64> = turns
        .iter()
        .filter(|one| one.completions > 0)
        .map(|one| one.ns as f64 / one.completions as f64)
        .collect();
    each.sort_by(f64::total_cmp);
    let at = |place: usize| each.get(place).copied().unwrap_or_default();
    let sum = |of: fn(&Spent) -> u64| turns.iter().map(of).sum::<u64>() as f64;
    BlockOperationCost {
        programs,
        runs: sum(|one| one.runs) / sum(|one| one.completions).max(1.0),
        median_ns: at(each.len() / 2),
        least_ns: at(0),
        most_ns: at(each.len().saturating_sub(1)),
    }
}

/// A file and its blocks, of which there must be one.
fn open(file: &Path) -> io::Result<(File, u64)> {
    let mut file = block_target::open(file, Opening { direct: true, ..Opening::default() })?;
    match file.seek(SeekFrom::End(0))? / BLOCK as u64 {
        0 => Err(io::Error::other("it is shorter than a block of 4 KiB: name a larger file, or a device")),
        blocks => Ok((file, blocks)),
    }
}

/// Reads blocks here and there in a file, bypassing the page cache, until told to stop.
fn read(file: &Path, number: u64, stop: &AtomicBool) -> io::Result<()> {
    let (file, blocks) = open(file)?;
    let mut memory = IoMemory::new(BLOCK)?;
    let mut place = number;
    while !stop.load(Ordering::Relaxed) {
        // The generator of Numerical Recipes: any order does that a disk does not read ahead in.
        place = place.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) & u64::from(u32::MAX);
        file.read_exact_at(memory.bytes(), ((place * blocks) >> 32) * BLOCK as u64)?;
    }
    Ok(())
}
