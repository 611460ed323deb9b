//! Processes that are not the agent's and belong to what is measured, by role (a server, a client's daemon): their CPU time, what
//! storage gave them, and what went over their network.
//!
//! CPU time is that of the process's clock, threads that have ended too. The kernel brings a running thread's time up to date at
//! the timer tick; how long a thread waited that ends between two readings is lost. Bytes of storage are the
//! kernel's own account of a process, so that what others do to the same disk is not in them: a read that the page cache
//! could answer counts nothing, what is read ahead counts when it is read. Its account of writes is no such thing: it counts pages
//! that become dirty, all of a large folio for one block of it, and is left out.
//! Bytes of the network are those of the devices of the network namespace that the processes are in, its loopback device apart.
//!
//! A server may have hundreds of threads, and its clients as many: all that is read stays open, which makes a reading several
//! times cheaper than opening each file.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use iodyno_core::metric::{Metric, Value};
use iodyno_sys::clock::ProcessClock;

use crate::missing::Missing;
use crate::sensor::{counter, gauge, put, Entry, Opened, Roots, SenseError, Sensor, Subject, ALIKE};
use crate::source::{short, Source};
use crate::tasks::Tasks;

/// Most threads that are read, of all roles. Chosen: their descriptors are a small part of what an agent may open, and
/// a reading of them takes some 4 ms.
const THREADS_MAX: usize = 4096;

/// The role of other agents.
const AGENTS: &str = "generator";

const CPU: Metric = counter(
    "role.cpu_ns",
    "ns",
    "clock_gettime",
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

pub(crate) const ENTRY: Entry =
    Entry { name: "roles", metrics: &[CPU, WAIT, BUSIEST, ASKED, READ, RECEIVED, SENT], open };

struct Roles {
    roles: Vec<Role>,
    first: bool,
}

/// Processes with one role.
struct Role {
    name: String,
    label: String,
    processes: Vec<Process>,
}

/// What is open of a process. What is open of its network namespace keeps that alive, for no longer than the trial.
struct Process {
    id: u32,
    cpu: Option<(ProcessClock, u64)>,
    threads: Option<Tasks<Thread>>,
    files: Option<Moved>,
    network: Option<Moved>,
}

/// A thread whose file is open, and its times at the last reading.
struct Thread {
    file: File,
    run: u64,
    wait: u64,
}

/// A file with two counters, and where they stood at the last reading.
struct Moved {
    source: Source,
    counters: fn(&str) -> Option<[u64; 2]>,
    last: Option<[u64; 2]>,
}

/// Of the threads of a process since the last reading.
#[derive(Clone, Copy, Default)]
struct Times {
    wait: u64,
    busiest: u64,
}

fn open(roots: &Roots, subject: &Subject) -> Opened {
    let roles = subject.watched.iter().filter(|(name, _)| name != ALIKE).map(|(name, process_ids)| {
        let mut namespaces = BTreeSet::new();
        // Agents tell what they read and send themselves.
        let moves = name != AGENTS;
        let processes = process_ids.iter().map(|id| Process::open(&roots.proc, *id, moves, &mut namespaces));
        Role { name: name.clone(), label: format!("role={name}"), processes: processes.collect() }
    });
    Ok(Box::new(Roles { roles: roles.collect(), first: true }))
}

impl Sensor for Roles {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let every = self.roles.iter().flat_map(|role| &role.processes);
        let mut room = THREADS_MAX.saturating_sub(every.map(Process::threads).sum());
        let mut left_out = 0;
        for role in &mut self.roles {
            let (mut cpu, mut times, mut moved) = (0_u64, Times::default(), [None; 2]);
            for process in &mut role.processes {
                let Some(grown) = process.cpu() else {
                    missing.add(format!("process {} of the {} has ended", process.id, role.name));
                    continue;
                };
                cpu = cpu.saturating_add(grown);
                process.add_times(&mut times, &mut room);
                left_out += process.threads.as_ref().map_or(0, Tasks::left_out);
                for (sums, file) in moved.iter_mut().zip([&mut process.files, &mut process.network]) {
                    if let Some(grown) = file.as_mut().and_then(Moved::grown) {
                        let so_far = sums.unwrap_or([0; 2]);
                        *sums = Some([so_far[0] + grown[0], so_far[1] + grown[1]]);
                    }
                }
            }
            if self.first {
                continue;
            }
            for (metric, value) in [(&CPU, cpu), (&WAIT, times.wait), (&BUSIEST, times.busiest)] {
                put(out, metric, role.label.as_str(), value);
            }
            for (metrics, sums) in [OF_FILES, OF_NAMESPACE].into_iter().zip(moved) {
                for (metric, sum) in metrics.into_iter().zip(sums.into_iter().flatten()) {
                    put(out, metric, role.label.as_str(), sum);
                }
            }
        }
        self.first = false;
        if left_out > 0 {
            missing.add(format!("{left_out} threads beyond {THREADS_MAX}: their waiting is not counted"));
        }
        Ok(missing.sentence())
    }
}

impl Process {
    /// `moves`: whether its bytes are read. `namespaces`: those that another process of the role stands for already, as the devices
    /// are the same.
    fn open(proc: &Path, id: u32, moves: bool, namespaces: &mut BTreeSet<PathBuf>) -> Process {
        let directory = proc.join(id.to_string());
        let moved = |file: &str, counters: fn(&str) -> Option<[u64; 2]>| {
            if !moves {
                return None;
            }
            Some(Moved { source: Source::open(directory.join(file)).ok()?, counters, last: None })
        };
        let stands = fs::read_link(directory.join("ns/net")).is_ok_and(|found| namespaces.insert(found));
        Process {
            id,
            cpu: ProcessClock::of(id).ok().map(|clock| (clock, 0)),
            threads: Tasks::open(&directory).ok(),
            files: moved("io", storage),
            network: if stands { moved("net/dev", network) } else { None },
        }
    }

    /// How many threads are known.
    fn threads(&self) -> usize {
        self.threads.as_ref().map_or(0, Tasks::len)
    }

    /// CPU time since the last call; `None`: it has ended.
    fn cpu(&mut self) -> Option<u64> {
        let (clock, last) = self.cpu.as_mut()?;
        let now = clock.now().ok()?.0;
        Some(now.saturating_sub(std::mem::replace(last, now)))
    }

    /// Adds times of its threads since the last call. One that was not there then has had all of its own since.
    fn add_times(&mut self, sum: &mut Times, room: &mut usize) {
        let Some(threads) = &mut self.threads else { return };
        let mut add = |run: u64, wait: u64| {
            sum.wait = sum.wait.saturating_add(wait);
            sum.busiest = sum.busiest.max(run);
        };
        threads.retain(|thread| {
            let Some((run, wait)) = schedstat(&thread.file) else { return false };
            add(run.saturating_sub(thread.run), wait.saturating_sub(thread.wait));
            (thread.run, thread.wait) = (run, wait);
            true
        });
        threads.add_new(|directory| {
            *room = room.checked_sub(1)?;
            let file = File::open(directory.join("schedstat")).ok()?;
            let (run, wait) = schedstat(&file)?;
            add(run, wait);
            Some(Thread { file, run, wait })
        });
    }
}

impl Moved {
    /// Growth since the last call; `None` in the first one, and where the kernel does not tell (another user's process).
    fn grown(&mut self) -> Option<[u64; 2]> {
        let now = (self.counters)(&self.source.text().ok()?)?;
        let last = self.last.replace(now)?;
        Some([now[0].saturating_sub(last[0]), now[1].saturating_sub(last[1])])
    }
}

/// Time that a thread has had and has waited for; `None`: it has ended.
fn schedstat(file: &File) -> Option<(u64, u64)> {
    let mut buffer = [0; 64];
    let mut words = short(file, &mut buffer).ok()?.split_ascii_whitespace().map(|word| word.parse().ok());
    Some((words.next()??, words.next()??))
}

/// Bytes that a process got by reading, and those of them that storage gave (`proc_pid_io(5)`).
fn storage(text: &str) -> Option<[u64; 2]> {
    let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some([of("rchar:")?, of("read_bytes:")?])
}

/// Bytes received and sent by the devices of a process's network namespace, its loopback device apart (`proc_pid_net(5)`).
fn network(text: &str) -> Option<[u64; 2]> {
    let mut sums = [0_u64; 2];
    for (device, counts) in text.lines().filter_map(|line| line.split_once(':')) {
        let mut counts = counts.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
        if device.trim() != "lo" {
            sums[0] += counts.next().flatten().unwrap_or(0);
            // Seven more columns of what was received come first.
            sums[1] += counts.nth(7).flatten().unwrap_or(0);
        }
    }
    Some(sums)
}
