//! CPU time of each worker thread, and the time it waited for a CPU.
//!
//! The kernel brings a running thread's time up to date at the timer tick, so a value may lag by one tick.
//! Up to [`LABELLED_MAX`] workers are reported one by one, more as a sum. Above [`READ_MAX`] it is the sum of a sample: a file
//! per thread is kept open, descriptors are needed for the connections, and each takes time to read. Where the kernel keeps no
//! times of threads, the CPU clock of the process stands in for the sum.

use iodyno_core::counter::{growth, Width};
use iodyno_core::metric::{Metric, Value};
use iodyno_core::random::Random;
use iodyno_sys::clock;

use crate::missing::Missing;
use crate::sensor::{counter, gauge, put, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

/// Most workers that are reported one by one. Chosen: a record stays below some 10 KiB.
const LABELLED_MAX: usize = 64;
/// Most workers whose files are read. Chosen: a reading stays below some 2 ms, and a mean share of time over as many is
/// known to 0.016 at worst (standard error of shares that are 0 or 1, half of each).
const READ_MAX: usize = 1024;

const SCHEDSTAT: &str = "/proc/self/task/TID/schedstat";
const LABEL: &str = "worker=0; worker=all above 64 workers; worker=sampled above 1024";

const RUN: Metric = counter("thread.run_ns", "ns", SCHEDSTAT, LABEL, "Time on a CPU.");
const WAIT: Metric =
    counter("thread.wait_ns", "ns", SCHEDSTAT, LABEL, "Time ready to run and waiting for a CPU.");
const TIMESLICES: Metric = counter("thread.timeslices", "1", SCHEDSTAT, LABEL, "Times put on a CPU.");
const BUSIEST: Metric = gauge(
    "thread.busiest_run_ns",
    "ns",
    SCHEDSTAT,
    "worker=busiest",
    "Time on a CPU since the last reading of the worker that had most of it; not of a sample.",
);
const READ: Metric = gauge(
    "thread.workers",
    "1",
    SCHEDSTAT,
    "",
    "Workers that the times are of: all, or a sample of 1024 that is spread over all.",
);

pub(crate) const ENTRY: Entry =
    Entry { name: "threads", metrics: &[RUN, WAIT, TIMESLICES, BUSIEST, READ], open };

const WITHOUT_TIMES: &str =
    "the kernel keeps no scheduling times of threads: run time is that of the whole agent, no wait time";

/// Run time, wait time, timeslices: the columns of `schedstat`.
type Times = [u64; 3];

/// A worker whose file is open.
struct Worker {
    number: usize,
    file: Source,
    last: Option<Times>,
}

/// Workers one by one, or a sample of them.
struct Workers {
    workers: Vec<Worker>,
    /// How many there were at first, of how many.
    read: usize,
    in_all: usize,
}

/// The whole process in their stead.
struct Process {
    last: Option<u64>,
}

/// A trial without workers.
struct Nobody;

fn open(roots: &Roots, subject: &Subject) -> Opened {
    let in_all = subject.thread_ids.len();
    let own = Source::open(roots.proc.join("self/schedstat"));
    // A process that has run has at least one timeslice, unless the kernel does not count (and then writes 0).
    let kept = own
        .and_then(|mut file| Ok(times(&file.text()?)))
        .is_ok_and(|times| times.is_some_and(|times| times[2] != 0));
    if in_all == 0 {
        return Ok(Box::new(Nobody));
    }
    if !kept {
        return Ok(Box::new(Process { last: None }));
    }
    let read = in_all.min(READ_MAX);
    let mut workers = Vec::with_capacity(read);
    let mut failure = None;
    for number in drawn(in_all) {
        let id = subject.thread_ids[number];
        match Source::open(roots.proc.join(format!("self/task/{id}/schedstat"))) {
            Ok(file) => workers.push(Worker { number, file, last: None }),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if workers.is_empty() => Err(error),
        _ => Ok(Box::new(Workers { workers, read, in_all })),
    }
}

/// Numbers of the workers that are read: all, or one out of each of as many equal parts, at random. Each second one, say, might
/// be that of one CPU.
fn drawn(in_all: usize) -> impl Iterator<Item = usize> {
    let parts = in_all.min(READ_MAX);
    let mut random = Random::new(in_all as u64, 0);
    (0..parts).map(move |part| {
        let (begin, end) = (part * in_all / parts, (part + 1) * in_all / parts);
        begin + random.below((end - begin) as u64) as usize
    })
}

impl Sensor for Workers {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let labelled = self.in_all <= LABELLED_MAX;
        let sampled = self.read < self.in_all;
        let mut sum: Option<Times> = None;
        let mut busiest: Option<u64> = None;
        self.workers.retain_mut(|worker| {
            // A thread that has ended gives an error from now on.
            let Ok(Some(now)) = worker.file.text().map(|text| times(&text)) else { return false };
            let Some(grown) = grown(worker.last.replace(now), now) else { return true };
            if labelled {
                put_times(out, &format!("worker={}", worker.number), grown);
            }
            let so_far = sum.unwrap_or_default();
            sum = Some(std::array::from_fn(|column| so_far[column].saturating_add(grown[column])));
            busiest = busiest.max(Some(grown[0]));
            true
        });
        if let (Some(sum), false) = (sum, labelled) {
            put_times(out, if sampled { "worker=sampled" } else { "worker=all" }, sum);
        }
        if let (Some(busiest), false) = (busiest, sampled) {
            put(out, &BUSIEST, "worker=busiest", busiest);
        }
        if sum.is_some() {
            put(out, &READ, "", self.read as u64);
        }
        if sampled {
            missing
                .add(format!("{} of {} workers are read: the busiest is not known", self.read, self.in_all));
        }
        let ended = self.read - self.workers.len();
        if ended != 0 {
            missing.add(format!("{ended} of {} workers have ended", self.read));
        }
        Ok(missing.sentence())
    }
}

impl Sensor for Process {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let now = clock::process_cpu().0;
        if let Some(grown) = self.last.replace(now).and_then(|before| growth(before, now, Width::Bits64)) {
            put(out, &RUN, "worker=all", grown);
        }
        Ok(Some(WITHOUT_TIMES.to_owned()))
    }
}

impl Sensor for Nobody {
    fn read(&mut self, _: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        Ok(Some("this trial has no worker threads".to_owned()))
    }
}

fn put_times(out: &mut Vec<Value>, label: &str, times: Times) {
    for (metric, time) in [RUN, WAIT, TIMESLICES].iter().zip(times) {
        put(out, metric, label, time);
    }
}

/// Growth of each column; `None` for a first reading.
fn grown(before: Option<Times>, now: Times) -> Option<Times> {
    let before = before?;
    // A thread's times never go backwards: 0 stands for an impossible step back.
    Some(std::array::from_fn(|column| growth(before[column], now[column], Width::Bits64).unwrap_or(0)))
}

/// The three numbers of a `schedstat` file.
fn times(text: &str) -> Option<Times> {
    let mut words = text.split_whitespace().map(|word| word.parse().ok());
    Some([words.next()??, words.next()??, words.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_or_nothing() {
        assert_eq!(times("17174150 2494338 62\n"), Some([17_174_150, 2_494_338, 62]));
        for text in ["", "1 2", "1 2 x", "-1 2 3"] {
            assert_eq!(times(text), None, "{text:?}");
        }
    }

    #[test]
    fn all_workers_are_read_or_one_of_each_part_of_them() {
        for in_all in [0, 1, READ_MAX] {
            assert!(drawn(in_all).eq(0..in_all), "{in_all}");
        }
        for in_all in [READ_MAX + 1, 2 * READ_MAX, 4_000, 1_000_000] {
            let numbers: Vec<usize> = drawn(in_all).collect();
            assert_eq!(numbers.len(), READ_MAX);
            for (part, number) in numbers.iter().enumerate() {
                let (begin, end) = (part * in_all / READ_MAX, (part + 1) * in_all / READ_MAX);
                assert!((begin..end).contains(number), "{number} of part {part}");
            }
        }
        // Every second worker of a sender may be pinned to the same CPU.
        let odd = drawn(2 * READ_MAX).filter(|number| number % 2 == 1).count();
        assert!((READ_MAX / 3..READ_MAX * 2 / 3).contains(&odd), "{odd} odd numbers");
    }
}
