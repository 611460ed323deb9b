//! CPU time of processes that are not the agent's and belong to what is measured, by role: a server, a client's daemon.
//!
//! The sum over all threads of a process and of those that it had started when the job came. The kernel brings a running
//! thread's time up to date at the timer tick; the time of a thread that ends between two readings is lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};

use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, put, Entry, Opened, Roots, SenseError, Sensor, Subject};

const CPU: Metric = counter(
    "role.cpu_ns",
    "ns",
    "/proc/PID/task/TID/schedstat",
    "role=server",
    "CPU time of the processes of a role, all threads.",
);

pub(crate) const ENTRY: Entry = Entry { name: "roles", metrics: &[CPU], open };

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
        let mut by_role: BTreeMap<&str, u64> = BTreeMap::new();
        for (role, process_ids) in &self.watched {
            let sum = by_role.entry(role).or_default();
            for &process_id in process_ids {
                let Some(threads) = threads(&self.proc, process_id) else {
                    missing.add(format!("process {process_id} of the {role} has ended"));
                    continue;
                };
                for (thread, now) in threads {
                    let grown = self.growths.since_last_or_birth((process_id, thread), now, Width::Bits64);
                    *sum = sum.saturating_add(grown.unwrap_or(0));
                }
            }
        }
        if !first {
            for (role, sum) in by_role {
                put(out, &CPU, format!("role={role}"), sum);
            }
        }
        Ok(missing.sentence())
    }
}

/// The threads of a process with the time that each has had; `None`: there is no such process.
fn threads(proc: &Path, process_id: u32) -> Option<Vec<(String, u64)>> {
    let tasks = fs::read_dir(proc.join(process_id.to_string()).join("task")).ok()?;
    let read = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        let time = text.split_whitespace().next()?.parse().ok()?;
        Some((task.file_name().to_string_lossy().into_owned(), time))
    };
    Some(tasks.flatten().filter_map(read).collect())
}
