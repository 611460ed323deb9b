//! The sensor of system calls on the live kernel: calls of other processes are counted with their times, the agent's are not.

use std::fs::File;
use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use iodyno_core::histogram::bucket_of;
use iodyno_core::metric::Reading;
use iodyno_sense::{available, catalogue, Panel, Roots, Subject};

const BLOCKS: u64 = 20_000;
const BLOCK: u64 = 1 << 20;
/// How long a reader waits for what it reads.
const WAIT: Duration = Duration::from_millis(50);
const WAITS: u64 = 10;

fn sum(reading: &Reading, metric: &str, operation: &str) -> u64 {
    let label = format!("operation={operation}");
    let values = reading.values.iter().filter(|value| value.0 == metric && value.1 == label);
    values.map(|value| value.2).sum()
}

/// A process that reads and writes so many blocks.
fn copier() -> Child {
    Command::new("dd")
        .args(["if=/dev/zero", "of=/dev/null", "bs=1M", &format!("count={BLOCKS}"), "status=none"])
        .spawn()
        .unwrap()
}

/// A process that reads what it is given, a byte a call, until it has `WAITS`.
fn reader() -> (Child, ChildStdin) {
    let mut child = Command::new("dd")
        .args(["of=/dev/null", "bs=1", &format!("count={WAITS}"), "status=none"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let given = child.stdin.take().unwrap();
    (child, given)
}

#[test]
fn calls_of_others_are_counted_with_their_times_and_those_of_the_agent_are_not() {
    let sensors = ["syscall_times".to_owned()];
    let has =
        available(&Roots::default()).into_iter().any(|c| c.name == "sensor.syscall_times" && c.available);
    let mut panel = Panel::new(&Roots::default(), &Subject::default(), Some(&sensors)).unwrap();
    panel.baseline();
    assert!(copier().wait().unwrap().success());
    let (mut patient, mut to_patient) = reader();
    for _ in 0..WAITS {
        thread::sleep(WAIT);
        to_patient.write_all(&[1]).unwrap();
    }
    assert!(patient.wait().unwrap().success());
    let mut null = File::create("/dev/null").unwrap();
    let block = vec![0; BLOCK as usize];
    for _ in 0..4 * BLOCKS {
        null.write_all(&block).unwrap();
    }
    let reading = panel.read().remove(0);
    if let Some(missing) = &reading.missing {
        // Without rights, clang or type information there is no sensor, and it says so.
        assert!(!has || missing.contains("not allowed"), "{missing}");
        return;
    }
    assert!(reading.values.iter().any(|value| value.0 == "syscall.left_out" && value.2 == 0), "{reading:?}");
    for (operation, most) in [("read", u64::MAX), ("write", 3 * BLOCKS * BLOCK)] {
        assert!(sum(&reading, "syscall.calls", operation) >= BLOCKS, "{operation}: {reading:?}");
        let bytes = sum(&reading, "syscall.call_bytes", operation);
        // Nobody else moves as much meanwhile.
        assert!((BLOCKS * BLOCK..most).contains(&bytes), "{operation}: {bytes}");
    }
    for one in &reading.times {
        let calls = sum(&reading, "syscall.calls", one.label.strip_prefix("operation=").unwrap());
        assert_eq!((one.times.count, one.times.counts.iter().sum()), (calls, calls), "{one:?}");
    }
    let reads = &reading.times.iter().find(|one| one.label == "operation=read").unwrap().times;
    let at_least = bucket_of(WAIT.as_nanos() as u64 * 98 / 100) as u32;
    let waited = reads.buckets.iter().zip(&reads.counts).filter(|(bucket, _)| **bucket >= at_least);
    assert!(waited.map(|(_, count)| count).sum::<u64>() >= WAITS - 1, "{reads:?}");
    assert!(reads.sum_ns >= (WAITS - 1) * WAIT.as_nanos() as u64);
}

#[test]
fn it_is_read_only_where_it_is_named() {
    for storage in [false, true] {
        let subject = Subject { storage, ..Subject::default() };
        let panel = Panel::new(&Roots::default(), &subject, None).unwrap();
        assert!(panel.names().all(|name| name != "syscall_times"));
    }
    assert!(catalogue().iter().any(|(name, _)| *name == "syscall_times"));
}
