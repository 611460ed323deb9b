//! Where threads are when an interval ends: on a CPU, or asleep, and what for. Threads of the load and of the processes that
//! are watched, by what their stacks in the kernel show (`proc_pid_stack(5)`, for root).
//!
//! A thread that is asleep for half of the time is found asleep in half of the readings; so counts over many intervals and
//! threads are shares of time. One that runs on another CPU shows where it slept last.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use iodyno_core::metric::{Metric, Value};

use crate::sensor::{counter, put, Entry, Opened, Roots, SenseError, Sensor, Subject};

/// Most threads of a role that are looked at in one reading; of more, others in each. Chosen: a stack takes some ten
/// microseconds to write down.
const MOST: usize = 32;
/// Frames from the top that may tell. Chosen: locks and waits stand within the first few below the scheduler.
const FRAMES: usize = 10;
/// The role of the agent's own workers.
const OWN: &str = "generator";

const SEEN: Metric = counter(
    "waits.threads",
    "1",
    "/proc/PID/task/TID/stack",
    "role=generator,at=lock",
    "Threads of a role that were looked at, by where they were: cpu, lock (of the kernel), futex, storage, answer (of a \
     daemon), network, event, sleep or other.",
);

pub(crate) const ENTRY: Entry = Entry { name: "waits", metrics: &[SEEN], open };

/// Beginnings of names of functions that take a lock themselves, of a file or directory. A stack leaves out what belongs to the
/// scheduler, the waiting for locks too (`__sched`), so that one of these stands at the top for as long as its lock is waited
/// for; what else they wait for is another function's.
const TAKE_LOCKS: [&str; 19] = [
    "fuse_file_write_iter",
    "fuse_direct_write_iter",
    "fuse_cache_write_iter",
    "ext4_file_write_iter",
    "ext4_buffered_write_iter",
    "ext4_dio_write_iter",
    "ext4_file_read_iter",
    "generic_file_write_iter",
    "xfs_ilock",
    "btrfs_inode_lock",
    "nfs_start_io",
    "path_openat",
    "open_last_lookups",
    "do_unlinkat",
    "do_rmdir",
    "filename_create",
    "lock_rename",
    "lookup_slow",
    "iterate_dir",
];

/// Beginnings of names of functions, and what a thread waits for that sleeps in one.
const PLACES: [(&str, &[&str]); 7] = [
    ("futex", &["futex_", "__futex_"]),
    ("answer", &["request_wait_answer", "fuse_get_req", "fuse_block_alloc", "fuse_direct_IO"]),
    (
        "storage",
        &[
            "io_schedule",
            "submit_bio_wait",
            "blk_",
            "folio_wait",
            "jbd2_",
            "wait_transaction_locked",
            "do_get_write_access",
            "__iomap_dio_rw",
            "balance_dirty_pages",
            "read_events",
            "io_cqring_wait",
        ],
    ),
    ("network", &["sk_wait_data", "sk_stream_wait", "tcp_", "inet_", "unix_stream"]),
    (
        "event",
        &[
            "ep_poll",
            "do_epoll_wait",
            "poll_schedule_timeout",
            "do_sys_poll",
            "do_select",
            "pipe_read",
            "anon_pipe_read",
            "eventfd_read",
            "fuse_dev_do_read",
            "do_sigtimedwait",
            "kthread",
        ],
    ),
    ("sleep", &["hrtimer_nanosleep", "do_nanosleep", "common_nsleep"]),
    ("cpu", &["exit_to_user_mode", "irqentry_exit", "preempt_schedule", "__cond_resched", "raw_irqentry"]),
];

struct Waits {
    proc: PathBuf,
    thread_ids: Vec<i32>,
    watched: Vec<(String, Vec<u32>)>,
    readings: usize,
}

fn open(roots: &Roots, subject: &Subject) -> Opened {
    let path = roots.proc.join("self/stack");
    fs::read_to_string(&path).map_err(|error| {
        let why = format!("{}: {error}: where threads sleep is shown to root", path.display());
        SenseError::Unavailable(why)
    })?;
    Ok(Box::new(Waits {
        proc: roots.proc.clone(),
        thread_ids: subject.thread_ids.clone(),
        // Of other agents it is not known which threads carry the load.
        watched: subject.watched.iter().filter(|(role, _)| role != OWN).cloned().collect(),
        readings: 0,
    }))
}

impl Sensor for Waits {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let first = self.readings == 0;
        let own = self.thread_ids.iter().map(|id| self.proc.join(format!("self/task/{id}"))).collect();
        let mut roles: Vec<(&str, Vec<PathBuf>)> = vec![(OWN, own)];
        for (role, process_ids) in &self.watched {
            let all = process_ids.iter().flat_map(|id| tasks(&self.proc.join(id.to_string())));
            roles.push((role, all.collect()));
        }
        for (role, threads) in roles.iter().filter(|_| !first) {
            let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
            let begin = if threads.len() > MOST { self.readings * MOST % threads.len() } else { 0 };
            for thread in threads.iter().cycle().skip(begin).take(threads.len().min(MOST)) {
                // A thread that has ended is not anywhere.
                if let Ok(stack) = fs::read_to_string(thread.join("stack")) {
                    *counts.entry(place(&stack)).or_default() += 1;
                }
            }
            for (at, count) in counts {
                put(out, &SEEN, format!("role={role},at={at}"), count);
            }
        }
        self.readings += 1;
        Ok(None)
    }
}

fn tasks(process: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = found.map(|task| task.path()).collect();
    paths.sort();
    paths
}

/// Where a thread with that stack in the kernel is. One without is in its own code.
fn place(stack: &str) -> &'static str {
    let functions = stack.lines().take(FRAMES).filter_map(|line| {
        // [<0>] fuse_file_write_iter+0x214/0x5f0
        line.split_whitespace().nth(1)?.split('+').next()
    });
    let mut any = false;
    for function in functions {
        if !any && TAKE_LOCKS.iter().any(|name| function.starts_with(name)) {
            return "lock";
        }
        any = true;
        for (at, names) in &PLACES {
            if names.iter().any(|name| function.starts_with(name)) {
                return at;
            }
        }
    }
    if any {
        "other"
    } else {
        "cpu"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topmost_known_function_tells_what_a_thread_waits_for() {
        let stack = |functions: &[&str]| -> String {
            functions.iter().map(|name| format!("[<0>] {name}+0x1f/0x60\n")).collect()
        };
        for (functions, at) in [
            (&["fuse_file_write_iter", "vfs_write", "__x64_sys_pwrite64"][..], "lock"),
            (&["do_unlinkat", "__x64_sys_unlinkat"], "lock"),
            (&["fuse_direct_IO", "generic_file_direct_write", "fuse_file_write_iter"], "answer"),
            (&["jbd2_log_wait_commit", "jbd2_journal_stop", "ext4_create", "path_openat"], "storage"),
            (&["io_schedule", "folio_wait_bit_common", "filemap_read"], "storage"),
            (&["futex_wait_queue", "__futex_wait", "do_futex"], "futex"),
            (&["sk_wait_data", "tcp_recvmsg_locked", "tcp_recvmsg"], "network"),
            (&["schedule_hrtimeout_range", "ep_poll", "do_epoll_wait"], "event"),
            (&["something_else", "do_syscall_64"], "other"),
            (&[], "cpu"),
        ] {
            assert_eq!(place(&stack(functions)), at, "{functions:?}");
        }
    }
}
