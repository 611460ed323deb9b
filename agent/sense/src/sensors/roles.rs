//! Processes that are not the agent's and belong to what is measured, by role (a server, a client's daemon): their CPU time, what
//! storage gave them, and what went over their network.
//!
//! Sums over all threads of a process and of those that it had started when the job came. The kernel brings a running
//! thread's time up to date at the timer tick; the time of a thread that ends between two readings is lost. Bytes of storage are the
//! kernel's own account of a process, so that what others do to the same disk is not in them: a read that the page cache
//! could answer counts nothing, what is read ahead counts when it is read. Its account of writes is no such thing: it counts pages
//! that become dirty, all of a large folio for one block of it, and is left out.
//! Bytes of the network are those of the devices of the network namespace that the processes are in, its loopback device apart.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};

use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, gauge, put, Entry, Opened, Roots, SenseError, Sensor, Subject};

const CPU: Metric = counter(
    "role.cpu_ns",
    "ns",
    "/proc/PID/task/TID/schedstat",
    "role=server",
    "CPU time of the processes of a role, all threads.",
);

const WAIT: Metric = counter(
    "role.wait_ns",
    "ns",
    "/proc/PID/task/TID/schedstat",
    "role=server",
    "Time in which threads of a role were ready to run and waited for a CPU.",
);

const BUSIEST: Metric = gauge(
    "role.busiest_run_ns",
    "ns",
    "/proc/PID/task/TID/schedstat",
    "role=server",
    "Time on a CPU since the last reading of the thread of a role that had most of it.",
);

const ASKED: Metric = counter(
    "role.asked_bytes",
    "bytes",
    "/proc/PID/io",
    "role=server",
    "Bytes that the processes of a role got by reading files, from storage or from the page cache.",
);

const READ: Metric = counter(
    "role.read_bytes",
    "bytes",
    "/proc/PID/io",
    "role=server",
    "Bytes that storage gave to the processes of a role.",
);

const RECEIVED: Metric = counter(
    "role.received_bytes",
    "bytes",
    "/proc/PID/net/dev",
    "role=server",
    "Bytes received in the network namespaces of a role, but for loopback.",
);

const SENT: Metric = counter(
    "role.sent_bytes",
    "bytes",
    "/proc/PID/net/dev",
    "role=server",
    "Bytes sent in the network namespaces of a role, but for loopback.",
);

/// What is counted of a namespace, in the order of [`network`].
const OF_NAMESPACE: [&Metric; 2] = [&RECEIVED, &SENT];
/// What is counted of the files of a process, in the order of [`storage`].
const OF_FILES: [&Metric; 2] = [&ASKED, &READ];

/// Times of the threads of a role since the last reading.
#[derive(Clone, Copy, Default)]
struct Times {
    run: u64,
    wait: u64,
    busiest: u64,
}

pub(crate) const ENTRY: Entry =
    Entry { name: "roles", metrics: &[CPU, WAIT, BUSIEST, ASKED, READ, RECEIVED, SENT], open };

struct Roles {
    proc: PathBuf,
    watched: Vec<(String, Vec<u32>)>,
    growths: Growths<(u32, String)>,
}

fn open(roots: &Roots, subject: &Subject) -> Opened {
    Ok(Box::new(Roles {
        proc: roots.proc.clone(),
        watched: subject.watched.clone(),
        growths: Growths::default(),
    }))
}

impl Sensor for Roles {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        self.growths.begin();
        let first = self.growths.first();
        let mut by_role: BTreeMap<&str, Times> = BTreeMap::new();
        let mut moved: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (role, process_ids) in &self.watched {
            let sum = by_role.entry(role).or_default();
            let mut namespaces = BTreeSet::new();
            for &process_id in process_ids {
                let Some(threads) = threads(&self.proc, process_id) else {
                    missing.add(format!("process {process_id} of the {role} has ended"));
                    continue;
                };
                for (thread, now) in threads {
                    let mut since = |what: &str, now: u64| {
                        let key = (process_id, format!("{thread} {what}"));
                        self.growths.since_last_or_birth(key, now, Width::Bits64).unwrap_or(0)
                    };
                    let (run, wait) = (since("run", now.0), since("wait", now.1));
                    sum.run = sum.run.saturating_add(run);
                    sum.wait = sum.wait.saturating_add(wait);
                    sum.busiest = sum.busiest.max(run);
                }
                // Of processes in one namespace the first stands for it: the devices are the same.
                let first = namespace(&self.proc, process_id).is_some_and(|found| namespaces.insert(found));
                let carried = first.then(|| network(&self.proc, process_id)).flatten();
                let storage = storage(&self.proc, process_id);
                let of_files = storage.into_iter().flat_map(|now| OF_FILES.into_iter().zip(now));
                let over_network = carried.into_iter().flat_map(|now| OF_NAMESPACE.into_iter().zip(now));
                for (metric, value) in of_files.chain(over_network) {
                    let key = (process_id, metric.name.to_string());
                    let grown = self.growths.since_last_or_birth(key, value, Width::Bits64);
                    *moved.entry((metric.name, role)).or_default() += grown.unwrap_or(0);
                }
            }
        }
        if !first {
            for (role, sum) in by_role {
                for (metric, value) in [(&CPU, sum.run), (&WAIT, sum.wait), (&BUSIEST, sum.busiest)] {
                    put(out, metric, format!("role={role}"), value);
                }
            }
            for metric in OF_FILES.into_iter().chain(OF_NAMESPACE) {
                for ((_, role), sum) in moved.iter().filter(|((name, _), _)| *name == metric.name) {
                    put(out, metric, format!("role={role}"), *sum);
                }
            }
        }
        Ok(missing.sentence())
    }
}

/// The threads of a process with the time that each has had and has waited for; `None`: there is no such process.
fn threads(proc: &Path, process_id: u32) -> Option<Vec<(String, (u64, u64))>> {
    let tasks = fs::read_dir(proc.join(process_id.to_string()).join("task")).ok()?;
    let read = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        let mut words = text.split_whitespace().map(|word| word.parse().ok());
        Some((task.file_name().to_string_lossy().into_owned(), (words.next()??, words.next()??)))
    };
    Some(tasks.flatten().filter_map(read).collect())
}

/// Bytes that a process got by reading, and those of them that storage gave (`proc_pid_io(5)`); `None`: there is no such
/// process, or it is another user's.
fn storage(proc: &Path, process_id: u32) -> Option<[u64; 2]> {
    let text = fs::read_to_string(proc.join(process_id.to_string()).join("io")).ok()?;
    let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some([of("rchar:")?, of("read_bytes:")?])
}

/// What the network namespace of a process is called.
fn namespace(proc: &Path, process_id: u32) -> Option<PathBuf> {
    fs::read_link(proc.join(process_id.to_string()).join("ns/net")).ok()
}

/// Bytes received and sent by the devices of a process's network namespace, its loopback device apart (`proc_pid_net(5)`).
fn network(proc: &Path, process_id: u32) -> Option<[u64; 2]> {
    let text = fs::read_to_string(proc.join(process_id.to_string()).join("net/dev")).ok()?;
    let mut sums = [0_u64; 2];
    for (device, counts) in text.lines().filter_map(|line| line.split_once(':')) {
        let counts: Vec<u64> = counts.split_whitespace().map_while(|word| word.parse().ok()).collect();
        if device.trim() != "lo" && counts.len() >= 9 {
            sums[0] += counts[0];
            sums[1] += counts[8];
        }
    }
    Some(sums)
}
