//! The agent as the lab sees it: real processes, real frames on real pipes.

use std::io::{Read, Write};
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use crate::agent::{application, job, network, Agent, AGENT};
use iodyno_core::frame::encode;
use iodyno_core::job::{Job, Load};
use iodyno_core::message::{Command, ErrorCode, JobResult, Message, Record};
use iodyno_core::network::{Engine, Role};
use iodyno_core::phase::Window;
use iodyno_core::profile::Owner;
use iodyno_core::units::{Bytes, Nanos};
use proptest::prelude::*;

/// Brings both ends of a job up and arms them; the start.
fn start_trial(sender: &mut Agent, receiver: &mut Agent, change: impl Fn(&mut Job)) -> Nanos {
    let mut receive = job(Role::Receive, 0);
    change(&mut receive);
    receiver.send(&Command::Prepare { job: Box::new(receive) });
    let port = receiver.until(|m| match m {
        Message::Listening { port, .. } => Some(*port),
        _ => None,
    });
    let mut send = job(Role::Send, port);
    change(&mut send);
    sender.send(&Command::Prepare { job: Box::new(send) });
    let ready = |m: &Message| matches!(m, Message::Ready(_)).then_some(());
    sender.until(ready);
    receiver.until(ready);
    sender.send(&Command::Probe { id: 1 });
    let now = sender.until(|m| match m {
        Message::ProbeReply { sent_ns, .. } => Some(*sent_ns),
        _ => None,
    });
    let start = now.plus(Nanos(80_000_000));
    for agent in [sender, receiver] {
        agent.send(&Command::Arm { start_ns: start });
    }
    start
}

fn outcome(agent: &mut Agent) -> (Vec<Record>, JobResult) {
    let mut records = Vec::new();
    let result = agent.until(|m| {
        if let Message::Record(record) = m {
            records.push((**record).clone());
        }
        match m {
            Message::Result(result) => Some((**result).clone()),
            _ => None,
        }
    });
    (records, result)
}

#[test]
fn a_trial_between_two_agents_accounts_for_every_byte() {
    for engine in [Engine::Threads, Engine::Epoll] {
        let (mut sender, mut receiver) = (Agent::start(&[]), Agent::start(&[]));
        let start = start_trial(&mut sender, &mut receiver, |job| network(job).engine = engine);
        let (sent_records, sent) = outcome(&mut sender);
        let (received_records, received) = outcome(&mut receiver);
        for (records, result) in [(&sent_records, &sent), (&received_records, &received)] {
            assert_eq!(records.len(), result.records as usize);
            assert!((0..).zip(records.iter()).all(|(index, record)| record.index == index));
            assert_eq!(records.iter().map(|r| r.load.bytes.0).sum::<u64>(), result.bytes.0);
            assert_eq!(records.iter().filter(|r| r.window == Window::Measured).count(), 3);
            assert_eq!((result.connections_carrying, result.connections_lost), (3, 0), "{result:?}");
            // Times are read before sums. What ends in between is timed in the next record; each of the 3 workers may be
            // between its two counts then.
            let (mut operations, mut timed) = (0, 0);
            for record in records {
                let before = operations;
                operations += record.load.operations;
                timed += record.load.service_time.count;
                assert!((before..=operations + 3).contains(&(timed + 3)), "{before}, {timed}, {operations}");
            }
            assert_eq!(timed, operations);
            assert!(records.iter().all(|r| !r.sensors.is_empty()));
        }
        assert_eq!(sent.bytes, received.bytes, "everything sent was received");
        let first = sent.first_operation_ns.expect("a first operation");
        assert!(first >= start, "the load started {} ns early", start.minus(first).0);
        // A busy machine may wake the workers late; within the 400 ms of the load they had begun.
        assert!(first < start.plus(Nanos(400_000_000)), "the load started {} ns late", first.minus(start).0);
    }
}

#[test]
fn call_stacks_of_the_measured_window_come_before_the_result_where_asked_for() {
    let (mut sender, mut receiver) = (Agent::start(&[]), Agent::start(&[]));
    let hello = sender.until(|m| match m {
        Message::Hello(hello) => Some(hello.clone()),
        _ => None,
    });
    let can = hello.capabilities.iter().find(|capability| capability.name == "profile").expect("told");
    assert!(can.reason.is_some(), "by which event, or why not");
    let start = start_trial(&mut sender, &mut receiver, |job| {
        job.profile_hz = if network(job).role == Role::Send { 997 } else { 0 };
    });
    let mut kinds = Vec::new();
    let profile = sender.until(|m| {
        kinds.push(matches!(m, Message::Record(_)));
        match m {
            Message::Profile(profile) => Some(profile.clone()),
            Message::Result(_) => panic!("the result came first"),
            _ => None,
        }
    });
    assert_eq!(kinds.iter().filter(|record| **record).count(), 5, "every record came first");
    let (begin, end) = (profile.begin_ns.minus(start), profile.end_ns.minus(start));
    assert_eq!(profile.trial.as_str(), "00001-1");
    assert!(
        [997, 499, 331].contains(&profile.hz),
        "as asked, or fewer where they are costly: {}",
        profile.hz
    );
    assert_eq!(profile.samples, profile.stacks.iter().map(|stack| stack.count).sum::<u64>());
    if can.available {
        assert!(begin >= Nanos(50_000_000) && end >= Nanos(350_000_000), "{begin:?} to {end:?}");
        assert!(["cycles", "cpu-clock"].contains(&profile.event.as_str()), "{}", profile.event);
        assert!(profile.stacks.iter().any(|stack| stack.owner == Owner::App), "{profile:?}");
    } else {
        assert_eq!((profile.samples, profile.missing.is_some()), (0, true));
    }
    // The receiver was not asked for one.
    receiver.until(|m| match m {
        Message::Profile(profile) => panic!("{profile:?}"),
        Message::Result(_) => Some(()),
        _ => None,
    });
}

#[test]
fn the_application_of_a_job_is_in_its_records() {
    let (mut sender, mut receiver) = (Agent::start(&[]), Agent::start(&[]));
    start_trial(&mut sender, &mut receiver, |job| {
        application(job).think_ns = Nanos(5_000_000);
        if network(job).role == Role::Send {
            (application(job).compute_ns, application(job).serialised) = (Nanos(100_000), true);
        }
        job.sensors = Some(vec!["application".to_owned()]);
    });
    let (records, result) = outcome(&mut sender);
    outcome(&mut receiver);
    let sum = |metric: &str| {
        let values = records.iter().flat_map(|record| &record.sensors).flat_map(|reading| &reading.values);
        values.filter(|value| value.0 == metric).map(|value| value.2).sum::<u64>()
    };
    // The first computation of a connection may have no operation yet, and the last pause no end.
    let (operations, connections) = (result.operations, 3);
    assert!(operations > connections);
    assert!(sum("application.compute_ns") >= operations * 100_000);
    assert!(sum("application.think_ns") >= (operations - connections) * 4_000_000);
    assert!(records.iter().all(|record| record.sensors.len() == 1));
}

#[test]
fn an_idle_job_reads_the_sensors() {
    let mut agent = Agent::start(&[]);
    agent.send(&Command::Prepare { job: Box::new(Job { load: Load::default(), ..job(Role::Send, 0) }) });
    agent.until(|m| matches!(m, Message::Ready(_)).then_some(()));
    agent.send(&Command::Probe { id: 1 });
    let now = agent.until(|m| match m {
        Message::ProbeReply { sent_ns, .. } => Some(*sent_ns),
        _ => None,
    });
    agent.send(&Command::Arm { start_ns: now.plus(Nanos(50_000_000)) });
    let (records, result) = outcome(&mut agent);
    assert_eq!((result.bytes.0, result.first_operation_ns), (0, None));
    let cpu = records[1].sensors.iter().find(|reading| reading.sensor == "cpu_times").expect("CPU times");
    assert!(!cpu.values.is_empty() && cpu.span_ns.0 > 0);
}

/// Names of the sensors in a record that could be read, and why the others could not.
fn read_and_missing(record: &Record) -> (Vec<&str>, Vec<(&str, &str)>) {
    let read = record.sensors.iter().filter(|reading| !reading.values.is_empty());
    let missing = record.sensors.iter().filter(|reading| reading.values.is_empty());
    (
        read.map(|reading| reading.sensor.as_str()).collect(),
        missing.map(|reading| (reading.sensor.as_str(), reading.missing.as_deref().unwrap_or(""))).collect(),
    )
}

#[test]
fn without_the_right_to_load_programs_a_trial_goes_on_with_the_next_tier() {
    if iodyno_sys::process::effective_user() != 0 {
        let skipped = b"SKIPPED: only root can take rights away from an agent\n";
        return std::io::stderr().write_all(skipped).unwrap();
    }
    let without = ["setpriv", "--bounding-set", "-bpf,-perfmon,-sys_admin"];
    let (mut sender, mut receiver) = (Agent::behind(&without, &[]), Agent::behind(&without, &[]));
    let wanted = || Some(vec!["cpu_exact".to_owned(), "cpu_times".to_owned()]);
    start_trial(&mut sender, &mut receiver, |job| job.sensors = wanted());
    for agent in [&mut sender, &mut receiver] {
        let (records, result) = outcome(agent);
        assert!(result.bytes.0 > 0);
        let (read, missing) = read_and_missing(&records[1]);
        assert_eq!(read, ["cpu_times"]);
        let [("cpu_exact", why)] = missing[..] else { panic!("{missing:?}") };
        assert!(why.contains("CAP_BPF and CAP_PERFMON") || why.contains("built without"), "{why}");
    }
}

#[test]
fn abort_works_in_the_middle_of_a_run_and_the_agent_takes_another_job() {
    let (mut sender, mut receiver) = (Agent::start(&[]), Agent::start(&[]));
    start_trial(&mut sender, &mut receiver, |job| job.windows.measured_ns = Nanos(30_000_000_000));
    sender.until(|m| matches!(m, Message::Record(_)).then_some(()));
    let asked = Instant::now();
    for agent in [&mut sender, &mut receiver] {
        agent.send(&Command::Abort { reason: "a test".to_owned() });
        // The second one may see the connections of the first one end before it hears its own abort.
        while !matches!(agent.next().expect("the agent is still there"), Message::Aborted { .. }) {}
    }
    assert!(asked.elapsed() < Duration::from_secs(25), "aborting took {:?}", asked.elapsed());
    start_trial(&mut sender, &mut receiver, |job| job.trial = "00001-2".to_owned());
    assert_eq!(outcome(&mut sender).1.trial, "00001-2");
    assert_eq!(sender.end().1, 0);
}

#[test]
fn the_lab_is_answered_while_a_job_takes_long_to_end() {
    let (mut sender, mut receiver) = (Agent::start(&[]), Agent::start(&[]));
    // Who computes looks at nothing else.
    let compute_ns = Nanos(900_000_000);
    start_trial(&mut sender, &mut receiver, |job| {
        job.windows.measured_ns = Nanos(30_000_000_000);
        let computes = network(job).role == Role::Send;
        application(job).compute_ns = if computes { compute_ns } else { Nanos(0) };
    });
    sender.until(|m| matches!(m, Message::Record(_)).then_some(()));
    sender.send(&Command::Abort { reason: "a test".to_owned() });
    sender.send(&Command::Probe { id: 7 });
    let mut answers = Vec::new();
    while answers.len() < 2 {
        match sender.next().expect("the agent is still there") {
            Message::ProbeReply { id: 7, .. } => answers.push("alive"),
            Message::Aborted { trial } => answers.push(if trial == "00001-1" { "aborted" } else { "what?" }),
            _ => {}
        }
    }
    assert_eq!(answers, ["alive", "aborted"]);
}

#[test]
fn a_killed_peer_is_told_and_does_not_end_the_agent() {
    let (mut sender, mut receiver) = (Agent::start(&[]), Agent::start(&[]));
    start_trial(&mut sender, &mut receiver, |job| job.windows.measured_ns = Nanos(10_000_000_000));
    sender.until(|m| matches!(m, Message::Record(_)).then_some(()));
    receiver.process.kill().unwrap();
    let error = loop {
        if let Message::Error(error) = sender.next().expect("the agent is still there") {
            break error;
        }
    };
    assert_eq!((error.code, error.trial.as_deref()), (ErrorCode::Transport, Some("00001-1")));
    assert_eq!(sender.end().1, 0);
}

#[test]
fn broken_streams_end_the_agent_with_one_error_and_its_code() {
    let heartbeat = br#"{"type":"heartbeat"}"#;
    let mut oversized = encode(0, heartbeat).unwrap();
    oversized[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut corrupt = encode(0, heartbeat).unwrap();
    corrupt[20] ^= 1;
    let cut = &encode(0, heartbeat).unwrap()[..20];
    for bytes in [b"login: hello\n".as_slice(), &encode(5, heartbeat).unwrap(), &oversized, &corrupt, cut] {
        assert_eq!(Agent::told(bytes), (vec![ErrorCode::Frame], 65), "{bytes:?}");
    }
    for payload in
        [r#"{"type":"dance"}"#, "7", r#"{"type":"probe","id":-1}"#, r#"{"type":"arm","start_ns":5}"#]
    {
        let frame = encode(0, payload.as_bytes()).unwrap();
        assert_eq!(Agent::told(&frame), (vec![ErrorCode::Protocol], 76), "{payload}");
    }
    assert_eq!(Agent::told(b""), (vec![], 0));
}

#[test]
fn a_job_that_cannot_be_taken_is_an_error_of_the_job_only() {
    let wrong: [fn(&mut Job); 6] = [
        |job| network(job).connections = 0,
        |job| network(job).message_bytes = Bytes(0),
        |job| job.token = "short".to_owned(),
        |job| job.profile_hz = 1_000_000,
        |job| network(job).address = Some("somewhere:80".to_owned()),
        |job| (job.load, job.sensors) = (Load::default(), Some(vec!["crystal_ball".to_owned()])),
    ];
    let mut agent = Agent::start(&[]);
    for change in wrong {
        let mut job = job(Role::Receive, 0);
        change(&mut job);
        agent.send(&Command::Prepare { job: Box::new(job) });
        let error = loop {
            match agent.next().expect("the agent is still there") {
                Message::Error(error) => break error,
                Message::Hello(_) | Message::Heartbeat {} => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(error.code, ErrorCode::Job, "{error:?}");
        // An abort is answered when the job is gone, so that the next one is not too early.
        agent.send(&Command::Abort { reason: "next".to_owned() });
        agent.until(|m| matches!(m, Message::Aborted { .. }).then_some(()));
    }
    assert_eq!(agent.end().1, 0);
}

#[test]
fn silence_of_the_lab_ends_the_agent_although_the_stream_is_open() {
    let mut agent = Agent::start(&["--lab-timeout", "0.4"]);
    let mut said = Vec::new();
    while let Some(message) = agent.next() {
        said.push(message);
    }
    assert!(
        matches!(said.last(), Some(Message::Error(error)) if error.code == ErrorCode::LabLost),
        "{said:?}"
    );
    assert_eq!(agent.process.wait().unwrap().code(), Some(75));
}

#[test]
fn the_agent_says_that_it_lives() {
    let mut agent = Agent::start(&[]);
    agent.until(|m| matches!(m, Message::Hello(_)).then_some(()));
    agent.until(|m| matches!(m, Message::Heartbeat {}).then_some(()));
    agent.send(&Command::Bye {});
    assert_eq!(agent.end().1, 0);
}

#[test]
fn a_stream_that_closes_during_a_run_ends_the_run() {
    let (mut sender, mut receiver) = (Agent::start(&[]), Agent::start(&[]));
    start_trial(&mut sender, &mut receiver, |job| job.windows.measured_ns = Nanos(30_000_000_000));
    sender.until(|m| matches!(m, Message::Record(_)).then_some(()));
    let closed = Instant::now();
    assert_eq!(sender.end().1, 75);
    assert!(closed.elapsed() < Duration::from_secs(25), "ending took {:?}", closed.elapsed());
}

#[test]
fn the_agent_does_not_outlive_its_parent() {
    // The stream stays open in this process: only the parent's death can end the agent.
    let script = r#"exec 3<&0; "$0" serve <&3 & echo $! >&2; wait"#;
    let mut parent = Process::new("sh")
        .args(["-c", script, AGENT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    let held_open = parent.stdin.take();
    let mut line = Vec::new();
    let mut stderr = parent.stderr.take().expect("piped");
    let mut byte = [0];
    while stderr.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    let stat = format!("/proc/{}/stat", String::from_utf8(line).unwrap());
    // It greets when it is up, and asks to die with its parent before that.
    parent.stdout.as_mut().expect("piped").read_exact(&mut byte).expect("the agent greets");
    let lives = || std::fs::read_to_string(&stat).is_ok_and(|text| !text.contains(") Z "));
    assert!(lives(), "the agent is up");
    parent.kill().unwrap();
    parent.wait().unwrap();
    let killed = Instant::now();
    while lives() {
        assert!(killed.elapsed() < Duration::from_secs(60), "the agent outlived its parent");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(held_open);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn nothing_that_can_be_sent_makes_the_agent_panic(
        parts in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..60).prop_map(|bytes| (false, bytes)),
            "[ -~]{0,40}".prop_map(|text| (true, text.into_bytes())),
            prop::sample::select(vec![
                r#"{"type":"heartbeat"}"#, r#"{"type":"probe","id":3}"#, r#"{"type":"abort","reason":""}"#,
                r#"{"type":"prepare","job":{}}"#, r#"{"type":"arm","start_ns":1}"#,
            ]).prop_map(|text| (true, text.as_bytes().to_vec())),
        ], 0..5)
    ) {
        let mut bytes = Vec::new();
        let mut sequence = 0;
        for (framed, part) in parts {
            if framed {
                bytes.extend(encode(sequence, &part).unwrap());
                sequence += 1;
            } else {
                bytes.extend(part);
            }
        }
        let (errors, code) = Agent::told(&bytes);
        prop_assert!(matches!(code, 0 | 65 | 76), "exit code {}", code);
        prop_assert_eq!(errors.len(), usize::from(code != 0));
    }
}
