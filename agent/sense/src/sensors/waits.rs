//! Where threads are when an interval ends: on a CPU or ready for one, or asleep, and what for. Threads of the load and of the
//! processes that are watched, by the function of the kernel that they sleep in (`proc_pid_wchan(5)`); where that does not tell, by
//! those that called it (`proc_pid_stack(5)`, for root), which takes four times as long to write down.
//!
//! A thread that is asleep for half of the time is found asleep in half of the readings; so counts over many intervals and
//! threads are shares of time.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use iodyno_core::metric::{Metric, Value};

use crate::sensor::{counter, put, Entry, Opened, Roots, SenseError, Sensor, Subject, ALIKE};
use crate::source::short;
use crate::tasks::Tasks;

/// Most threads of the load that are looked at in one reading; of more, others in each. Chosen: a reading of them takes some
/// 0.1 ms.
const MOST: usize = 32;
/// The same of another role, of which less is asked.
const MOST_OF_OTHERS: usize = 8;
/// Most threads of a process that are open. Chosen: more than are looked at in a hundred readings.
const THREADS_MAX: usize = 1024;
/// What a thread sleeps in that does not.
const NOTHING: &str = "0";
/// Bytes of a stack that are read: enough for [`FRAMES`].
const STACK_BYTES: usize = 1024;
/// Frames from the top that may tell. Chosen: locks and waits stand within the first few below the scheduler.
const FRAMES: usize = 10;
/// The role of the agent's own workers.
const OWN: &str = "generator";

const SEEN: Metric = counter(
    "waits.threads",
    "1",
    "/proc/PID/task/TID/wchan, stack",
    "role=generator,at=lock",
    "Threads of a role that were looked at, by where they were: cpu (on one, or ready for it), lock (of the kernel), futex, \
     storage, answer (of a daemon), network, event, sleep or other.",
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
    roles: Vec<(String, Threads)>,
    readings: usize,
    /// Whether the kernel tells in which function a thread sleeps: not all do, and say that none does (x86 before Linux 5.16).
    short: bool,
}

/// Threads of a role.
enum Threads {
    /// The load's own workers.
    Own(Vec<Thread>),
    /// Those of other processes, whichever there are.
    Of(Vec<Tasks<Thread>>),
}

/// What is open of a thread.
struct Thread {
    sleeps_in: File,
    stack: File,
    ended: Cell<bool>,
}

fn open(roots: &Roots, subject: &Subject) -> Opened {
    let path = roots.proc.join("self/stack");
    fs::read_to_string(&path).map_err(|error| {
        let why = format!("{}: {error}: where threads sleep is shown to root", path.display());
        SenseError::Unavailable(why)
    })?;
    let own = subject.thread_ids.iter();
    let own = own.filter_map(|id| Thread::open(&roots.proc.join(format!("self/task/{id}"))));
    let own: Vec<Thread> = own.collect();
    // Workers are parked when the sensor is opened: it shows whether both files say the same of one that sleeps.
    let short = own.iter().any(Thread::is_told_both_ways);
    let mut roles = vec![(OWN.to_owned(), Threads::Own(own))];
    // Of other agents it is not known which threads carry the load.
    for (role, process_ids) in subject.watched.iter().filter(|(role, _)| role != OWN && role != ALIKE) {
        let tasks = process_ids.iter().filter_map(|id| Tasks::open(&roots.proc.join(id.to_string())).ok());
        roles.push((role.clone(), Threads::Of(tasks.collect())));
    }
    Ok(Box::new(Waits { roles, readings: 0, short }))
}

impl Sensor for Waits {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        for (role, threads) in &mut self.roles {
            let (found, most): (Vec<&Thread>, usize) = match threads {
                Threads::Own(threads) => (threads.iter().collect(), MOST),
                Threads::Of(processes) => {
                    processes.retain_mut(|process| {
                        process.retain(|thread| !thread.ended.get());
                        let mut room = THREADS_MAX.saturating_sub(process.len());
                        process.add_new(|directory| {
                            room = room.checked_sub(1)?;
                            Thread::open(directory)
                        })
                    });
                    (processes.iter().flat_map(Tasks::iter).collect(), MOST_OF_OTHERS)
                }
            };
            if self.readings == 0 {
                continue;
            }
            let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
            let begin = if found.len() > most { self.readings * most % found.len() } else { 0 };
            for thread in found.iter().cycle().skip(begin).take(found.len().min(most)) {
                // One that has ended is not anywhere.
                if let Some(at) = thread.place(self.short) {
                    *counts.entry(at).or_default() += 1;
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

impl Thread {
    fn open(directory: &Path) -> Option<Thread> {
        let file = |name: &str| File::open(directory.join(name)).ok();
        Some(Thread { sleeps_in: file("wchan")?, stack: file("stack")?, ended: Cell::new(false) })
    }

    /// Where it is; `None`: it has ended. `shortly`: the function that it sleeps in is asked first.
    fn place(&self, shortly: bool) -> Option<&'static str> {
        let mut buffer = [0; STACK_BYTES];
        let at = self.look(shortly, &mut buffer).ok();
        self.ended.set(at.is_none());
        at
    }

    fn look(&self, shortly: bool, buffer: &mut [u8]) -> io::Result<&'static str> {
        if shortly {
            match short(&self.sleeps_in, buffer)? {
                // It runs, or is ready to.
                NOTHING => return Ok("cpu"),
                function => {
                    if let Some(at) = tells(function, true) {
                        return Ok(at);
                    }
                }
            }
        }
        short(&self.stack, buffer).map(place)
    }

    /// Whether it sleeps, and the function in which is the topmost of its stack.
    fn is_told_both_ways(&self) -> bool {
        let (mut function, mut stack) = ([0; STACK_BYTES], [0; STACK_BYTES]);
        let (Ok(function), Ok(stack)) =
            (short(&self.sleeps_in, &mut function), short(&self.stack, &mut stack))
        else {
            return false;
        };
        function != NOTHING && functions(stack).next() == Some(function)
    }
}

/// Where a thread with that stack in the kernel is. One without is in its own code.
fn place(stack: &str) -> &'static str {
    let mut any = false;
    for function in functions(stack) {
        if let Some(at) = tells(function, !any) {
            return at;
        }
        any = true;
    }
    if any {
        "other"
    } else {
        "cpu"
    }
}

/// The topmost functions of a stack: `[<0>] fuse_file_write_iter+0x214/0x5f0` is a line of it.
fn functions(stack: &str) -> impl Iterator<Item = &str> {
    stack.lines().take(FRAMES).filter_map(|line| line.split_whitespace().nth(1)?.split('+').next())
}

/// Where a thread is with that function in its stack, `topmost` or not; `None`: those that called it may tell.
fn tells(function: &str, topmost: bool) -> Option<&'static str> {
    let is_one = |names: &[&str]| names.iter().any(|name| function.starts_with(name));
    if topmost && is_one(&TAKE_LOCKS) {
        return Some("lock");
    }
    PLACES.iter().find(|(_, names)| is_one(names)).map(|(at, _)| *at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_is_found_there() {
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            tell.send(fs::read_link("/proc/thread-self").unwrap()).unwrap();
            ends.recv().unwrap_or_default();
        });
        let thread = Thread::open(&Path::new("/proc").join(told.recv().unwrap())).unwrap();
        if fs::read_to_string("/proc/self/stack").is_ok() {
            // It may not sleep yet; and not every kernel tells it shortly.
            let asleep = |_| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                thread.place(false) == Some("futex")
            };
            assert!((0..10_000).any(asleep), "{:?}", thread.place(false));
            assert_eq!(thread.place(thread.is_told_both_ways()), Some("futex"));
        }
        drop(end);
        sleeper.join().unwrap();
        while thread.place(true).is_some() {
            std::thread::yield_now();
        }
        assert!(thread.ended.get());
    }

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
