//! A job with a CPU quota: the kernel throttles the agent, and nothing of it stays behind.

mod agent;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::{job, network, Agent};
use iodyno_core::job::{CpuQuotaObtained, Job};
use iodyno_core::message::{Command, ErrorCode, Message, Ready};
use iodyno_core::network::{Role, Transport};
use iodyno_core::units::Nanos;

/// A sender to nowhere that takes all the CPU time it gets.
fn hungry(percent: u32, measured_ms: u64) -> Job {
    let mut job = job(Role::Send, 1);
    let load = network(&mut job);
    (load.transport, load.address, load.connections) = (Transport::Null, None, 2);
    (job.cpu_quota_percent, job.sensors) = (Some(percent), Some(vec!["process".to_owned()]));
    job.windows.measured_ns = Nanos(measured_ms * 1_000_000);
    job
}

/// Prepares the job; `None`, loudly, where this host does not let an agent have a quota.
fn ready(agent: &mut Agent, job: Job) -> Option<Ready> {
    agent.send(&Command::Prepare { job: Box::new(job) });
    loop {
        match agent.next().expect("the agent is still there") {
            Message::Ready(ready) => return Some(ready),
            Message::Error(error) => {
                assert_eq!((error.code, error.place.as_str()), (ErrorCode::Limit, "cpu_quota_percent"));
                assert!(error.advice.contains("root"), "{error:?}");
                let mut said = std::io::stderr();
                writeln!(said, "SKIPPED: no CPU quota here: {}", error.what).unwrap();
                return None;
            }
            _ => {}
        }
    }
}

fn arm(agent: &mut Agent) {
    agent.send(&Command::Probe { id: 1 });
    let now = agent.until(|m| match m {
        Message::ProbeReply { sent_ns, .. } => Some(*sent_ns),
        _ => None,
    });
    agent.send(&Command::Arm { start_ns: now.plus(Nanos(80_000_000)) });
}

/// `None`: the group is gone.
fn number(group: &Path, file: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(group.join(file)).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}

#[test]
fn the_kernel_throttles_an_agent_with_a_quota_and_the_group_is_gone_afterwards() {
    let mut agent = Agent::start(&[]);
    let Some(ready) = ready(&mut agent, hungry(20, 600)) else { return };
    let quota = ready.cpu_quota.unwrap();
    assert_eq!((quota.quota_ns, quota.period_ns), (Nanos(2_000_000), Nanos(10_000_000)));
    let group = PathBuf::from(&quota.group);
    let inside = fs::read_to_string(group.join("cgroup.procs")).unwrap();
    assert_eq!(inside.trim(), agent.process.id().to_string());
    arm(&mut agent);
    let mut throttled = 0;
    let result = agent.until(|m| match m {
        Message::Record(_) => {
            // Read while the load is on: the group goes with it, on a busy machine before all records were taken.
            throttled = throttled.max(number(&group, "cpu.stat", "nr_throttled ").unwrap_or(0));
            None
        }
        Message::Result(result) => Some(result.clone()),
        _ => None,
    });
    assert!(throttled > 5, "throttled in {throttled} periods");
    // 20 % of the load's 0.7 s is 140 ms. Twice that, because the agent's own thread runs in real time, which
    // a quota does not hold, and because a slice that was begun is run to the next tick.
    assert!(result.agent_cpu_ns < Nanos(280_000_000), "{result:?}");
    assert!(!group.exists());
    let outside = fs::read_to_string(group.parent().unwrap().join("cgroup.procs")).unwrap();
    assert!(outside.lines().any(|line| line == agent.process.id().to_string()));
    // The next job has no quota.
    let free = Job { cpu_quota_percent: None, ..hungry(20, 100) };
    assert_eq!(self::ready(&mut agent, free).unwrap().cpu_quota, None::<CpuQuotaObtained>);
}

#[test]
fn a_dropped_job_takes_its_group_along() {
    let mut agent = Agent::start(&[]);
    let Some(ready) = ready(&mut agent, hungry(50, 10_000)) else { return };
    let group = PathBuf::from(ready.cpu_quota.unwrap().group);
    arm(&mut agent);
    agent.send(&Command::Abort { reason: "test".to_owned() });
    agent.until(|m| matches!(m, Message::Aborted { .. }).then_some(()));
    assert!(!group.exists());
}

#[test]
fn what_a_killed_agent_leaves_behind_the_next_one_removes() {
    let mut agent = Agent::start(&[]);
    let Some(ready) = ready(&mut agent, hungry(50, 10_000)) else { return };
    let group = PathBuf::from(ready.cpu_quota.unwrap().group);
    arm(&mut agent);
    std::thread::sleep(Duration::from_millis(200));
    agent.process.kill().unwrap();
    agent.process.wait().unwrap();
    assert!(group.exists(), "killed: nobody could remove it");
    let mut next = Agent::start(&[]);
    next.until(|m| matches!(m, Message::Hello(_)).then_some(()));
    assert!(!group.exists());
}
