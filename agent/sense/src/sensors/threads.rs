//! CPU time of each worker thread, and the time it waited for a CPU.
//!
//! The kernel brings a running thread's time up to date at the timer tick, so a value may lag by one tick.
//! Up to [`LABELLED_MAX`] workers are reported one by one, more as a sum; above [`FILES_MAX`] no file per
//! thread is kept open (descriptors are needed for the connections) and the CPU clock of the process
//! stands in for the sum.

use iodyno_core::counter::{growth, Width};
use iodyno_core::metric::{Metric, Value};
use iodyno_sys::clock;

use crate::missing::Missing;
use crate::sensor::{counter, gauge, put, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

/// Most workers that are reported one by one. Chosen: a record stays below some 10 KiB.
const LABELLED_MAX: usize = 64;
/// Most workers whose files are read. Chosen: a reading stays below some 2 ms.
const FILES_MAX: usize = 1024;

const SCHEDSTAT: &str = "/proc/self/task/TID/schedstat";
const LABEL: &str = "worker=0; worker=all above 64 workers";

const RUN: Metric = counter("thread.run_ns", "ns", SCHEDSTAT, LABEL, "Time on a CPU.");
const WAIT: Metric =
    counter("thread.wait_ns", "ns", SCHEDSTAT, LABEL, "Time ready to run and waiting for a CPU.");
const TIMESLICES: Metric = counter("thread.timeslices", "1", SCHEDSTAT, LABEL, "Times put on a CPU.");
const BUSIEST: Metric = gauge(
    "thread.busiest_run_ns",
    "ns",
    SCHEDSTAT,
    "worker=busiest",
    "Time on a CPU since the last reading of the worker that had most of it.",
);

pub(crate) const ENTRY: Entry = Entry { name: "threads", metrics: &[RUN, WAIT, TIMESLICES, BUSIEST], open };

/// Run time, wait time, timeslices: the columns of `schedstat`.
type Times = [u64; 3];

/// A worker whose file is open.
struct Worker {
    number: usize,
    file: Source,
    last: Option<Times>,
}

/// Workers one by one.
struct Workers {
    workers: Vec<Worker>,
    in_all: usize,
}

/// The whole process in their stead.
struct Process {
    last: Option<u64>,
    reason: String,
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
    let instead = match (kept, in_all > FILES_MAX) {
        (false, _) => Some("the kernel keeps no scheduling times of threads".to_owned()),
        (true, true) => Some(format!("{in_all} workers are more than {FILES_MAX}")),
        (true, false) => None,
    };
    if let Some(why) = instead {
        let reason = format!("{why}: run time is that of the whole agent, no wait time");
        return Ok(Box::new(Process { last: None, reason }));
    }
    let mut workers = Vec::with_capacity(in_all);
    let mut failure = None;
    for (number, id) in subject.thread_ids.iter().enumerate() {
        match Source::open(roots.proc.join(format!("self/task/{id}/schedstat"))) {
            Ok(file) => workers.push(Worker { number, file, last: None }),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if workers.is_empty() => Err(error),
        _ => Ok(Box::new(Workers { workers, in_all })),
    }
}

impl Sensor for Workers {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let labelled = self.in_all <= LABELLED_MAX;
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
            put_times(out, "worker=all", sum);
        }
        if let Some(busiest) = busiest {
            put(out, &BUSIEST, "worker=busiest", busiest);
        }
        let ended = self.in_all - self.workers.len();
        if ended != 0 {
            missing.add(format!("{ended} of {} workers have ended", self.in_all));
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
        Ok(Some(self.reason.clone()))
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
    fn too_many_workers_are_read_as_the_process() {
        let subject = Subject { thread_ids: vec![1; FILES_MAX + 1], ..Subject::default() };
        let mut sensor = open(&Roots::default(), &subject).unwrap();
        sensor.read(&mut Vec::new()).unwrap();
        let mut out = Vec::new();
        let missing = sensor.read(&mut out).unwrap().unwrap();
        assert!(missing.contains("whole agent"), "{missing}");
        assert_eq!((out[0].0.as_str(), out[0].1.as_str()), ("thread.run_ns", "worker=all"));
        assert!(out[0].2 > 0);
    }
}
