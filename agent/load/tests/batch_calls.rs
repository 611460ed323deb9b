//! Batches of a stream take as few system calls as they say, by the count of strace. Alone in its process: what it counts
//! is all that the process does.

#![allow(clippy::print_stderr, reason = "a test says what it skips")]

mod pair;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use iodyno_core::histogram::Snapshot;
use iodyno_core::network::{Engine, Role, Syscalls};
use pair::{job, run, with};

const BATCH: u32 = 32;
/// Sends of the handshake, and of a batch that the stop cut.
const OTHERS: u64 = 16;

/// strace on this process, once it has all of its threads; `None`: there is none, or it may not.
fn attached(output: &str) -> Option<Child> {
    let own = process::id().to_string();
    let mut child = Command::new("strace")
        .args(["-f", "-c", "-e", "trace=sendto", "-o", output, "-p", &own])
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until && child.try_wait().ok()?.is_none() {
        let traced = fs::read_dir("/proc/self/task").ok()?.flatten().all(|thread| {
            let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
        });
        if traced {
            return Some(child);
        }
        thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Calls of `sendto` that it counted.
fn detached(mut child: Child, output: &str) -> u64 {
    // It writes its summary when it is interrupted.
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    child.wait().unwrap();
    let summary = fs::read_to_string(output).unwrap();
    let line = summary.lines().find(|line| line.split_whitespace().last() == Some("sendto"));
    line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok()).unwrap_or_else(|| panic!("{summary}"))
}

#[test]
fn a_batch_takes_one_call() {
    let output = env::temp_dir().join(format!("iodyno-strace-{}", process::id()));
    let output = output.to_str().unwrap();
    for (syscalls, batch) in [(Syscalls::ReadWrite, 1), (Syscalls::Batch, BATCH)] {
        let Some(tracer) = attached(output) else {
            eprintln!("not tested: no strace that may look at this process");
            return;
        };
        // A blocking thread's call ends when all is taken: no call takes a part.
        let sender = with(job(Role::Send, Engine::Threads, 2, 1_000, 300), |job| {
            job.load.syscalls = syscalls;
            job.load.batch = batch;
        });
        let (sent, _) = run(&sender, &job(Role::Receive, Engine::Threads, 2, 1_000, 300));
        let (counted, operations) = (detached(tracer, output), sent.totals.operations);
        let least = operations / u64::from(batch);
        assert!(
            (least..=least + OTHERS).contains(&counted),
            "{syscalls:?}: {counted} calls for {operations} messages"
        );
        let calls = sent.totals.batch.map(|found| found.since(&Snapshot::default()).count);
        assert_eq!(calls.is_some(), batch > 1);
        assert!(calls.unwrap_or(counted) <= counted, "{syscalls:?}: {calls:?} of {counted}");
    }
    fs::remove_file(output).unwrap();
}
