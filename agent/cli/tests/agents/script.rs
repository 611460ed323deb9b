//! Scripts between two agents, as the lab has them carried out.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::agent::{job, Agent};
use iodyno_core::account::ScriptAccount;
use iodyno_core::job::{Job, Load};
use iodyno_core::message::{Command, ErrorCode, JobResult, Message, Record, WireError};
use iodyno_core::network::Role;
use iodyno_core::phase::{Window, Windows};
use iodyno_core::script::{Call, FlowOp, Group, Rate, Script, Size, Transaction, Until};
use iodyno_core::scripted::Scripted;
use iodyno_core::units::{Bytes, Nanos};

const MS: u64 = 1_000_000;

fn op(call: Call, bytes: u64) -> FlowOp {
    let size = (bytes > 0).then_some(Size::Fixed { bytes: Bytes(bytes) });
    FlowOp { size, ..FlowOp::new(call, &format!("{call:?}").to_lowercase()) }
}

fn transaction(until: Until, operations: Vec<FlowOp>) -> Transaction {
    Transaction { until, rate: None, operations }
}

/// Requests of 64 bytes and answers of 256 for a while, seen from the end that asks, or the other.
fn requests(role: Role, until: Until, rate: Option<Rate>) -> Script {
    let once = Until::Iterations { iterations: 1 };
    let asks = role == Role::Send;
    let (open, first, second) =
        if asks { (Call::Connect, Call::Write, Call::Read) } else { (Call::Accept, Call::Read, Call::Write) };
    let exchange = vec![op(first, 64), op(second, 256)];
    let transactions = vec![
        transaction(once, vec![op(open, 0)]),
        Transaction { rate, ..transaction(until, exchange) },
        transaction(once, vec![op(Call::Disconnect, 0)]),
    ];
    Script { groups: vec![Group { name: "clients".to_owned(), threads: 2, transactions }] }
}

fn job_of(role: Role, port: u16, script: Script, measured_ms: u64) -> Job {
    Job {
        load: Load::Script(Scripted {
            role,
            address: Some(format!("127.0.0.1:{port}")),
            remote_addresses: Vec::new(),
            response_timeout_ns: Nanos(100 * MS),
            script,
        }),
        windows: Windows {
            warm_up_ns: Nanos(0),
            measured_ns: Nanos(measured_ms * MS),
            drain_ns: Nanos(0),
            interval_ns: Nanos(100 * MS),
        },
        ..job(role, port)
    }
}

/// Brings both ends up and starts them.
fn start(scripts: (Script, Script), measured_ms: u64) -> (Agent, Agent) {
    let (mut near, mut far) = (Agent::start(&[]), Agent::start(&[]));
    far.send(&Command::Prepare { job: Box::new(job_of(Role::Receive, 0, scripts.1, measured_ms)) });
    let port = far.until(|m| match m {
        Message::Listening { port, .. } => Some(*port),
        _ => None,
    });
    near.send(&Command::Prepare { job: Box::new(job_of(Role::Send, port, scripts.0, measured_ms)) });
    for agent in [&mut near, &mut far] {
        let workers = agent.until(|m| match m {
            Message::Ready(ready) => Some(ready.workers),
            _ => None,
        });
        assert_eq!(workers, 2);
    }
    near.send(&Command::Probe { id: 1 });
    let now = near.until(|m| match m {
        Message::ProbeReply { sent_ns, .. } => Some(*sent_ns),
        _ => None,
    });
    for agent in [&mut near, &mut far] {
        agent.send(&Command::Arm { start_ns: now.plus(Nanos(80 * MS)) });
    }
    (near, far)
}

fn outcome(agent: &mut Agent) -> (Vec<Record>, JobResult, ScriptAccount) {
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
    let account = result.script.clone().expect("an account of the script");
    (records, result, account)
}

fn error_of(agent: &mut Agent) -> WireError {
    loop {
        match agent.next().expect("the agent is still there") {
            Message::Error(error) => return error,
            Message::Result(result) => panic!("{result:?}"),
            _ => {}
        }
    }
}

#[test]
fn a_script_ends_before_the_windows_and_every_record_and_byte_is_accounted_for() {
    let until = Until::Duration { duration_ns: Nanos(250 * MS) };
    let (near, far) = (requests(Role::Send, until, None), requests(Role::Receive, until, None));
    let begun = Instant::now();
    let (mut near, mut far) = start((near, far), 60_000);
    let both = [outcome(&mut near), outcome(&mut far)];
    assert!(begun.elapsed() < Duration::from_secs(50));
    for (records, result, account) in &both {
        assert!(account.complete, "{account:?}");
        assert_eq!(records.len(), result.records as usize);
        assert!(records.len() >= 3 && records.iter().all(|record| record.window == Window::Measured));
        assert!(records.last().unwrap().end_ns >= account.groups[0].transactions[2].end_ns.unwrap());
        let exchange = &account.groups[0].transactions[1];
        let bytes: u64 = exchange.operations.iter().map(|operation| operation.bytes.0).sum();
        assert_eq!(result.bytes.0, bytes);
        assert_eq!(records.iter().map(|record| record.load.bytes.0).sum::<u64>(), bytes);
        assert_eq!(exchange.operations[0].bytes.0, 64 * exchange.iterations);
        assert_eq!(result.operations, 2 * exchange.iterations);
    }
    let iterations = |account: &ScriptAccount| account.groups[0].transactions[1].iterations;
    assert_eq!(iterations(&both[0].2), iterations(&both[1].2));
    // Another job may follow.
    for agent in [&mut near, &mut far] {
        agent.send(&Command::Bye {});
    }
}

#[test]
fn a_rate_is_kept_evenly_and_what_was_due_is_accounted_for() {
    let rate = Rate { iterations: 500, period_ns: Nanos(1_000 * MS) };
    let until = Until::Duration { duration_ns: Nanos(1_000 * MS) };
    let scripts = (requests(Role::Send, until, Some(rate)), requests(Role::Receive, until, Some(rate)));
    let (mut near, mut far) = start(scripts, 60_000);
    let (records, _, account) = outcome(&mut near);
    let (_, _, other) = outcome(&mut far);
    let exchange = &account.groups[0].transactions[1];
    assert_eq!(exchange.iterations + exchange.missed_iterations, 2 * 500);
    let (response, lateness) =
        (exchange.response_time.as_ref().unwrap(), exchange.lateness.as_ref().unwrap());
    assert_eq!((response.count, lateness.count), (exchange.iterations, exchange.iterations));
    // Response time is lateness and service time, sample by sample, and so in the sums.
    assert_eq!(response.sum_ns, lateness.sum_ns + exchange.service_time.sum_ns);
    // Even gaps, not bursts: what ends in an interval was due in it, or before it and late or long.
    let latest = lateness.quantile(1.0).unwrap() + exchange.service_time.quantile(1.0).unwrap();
    for record in &records {
        let (made, span) = (record.load.operations / 2, record.end_ns.minus(record.begin_ns).0 + latest);
        // Two threads, 500 a second each: one more of each, and two counted between two looks.
        assert!(made <= 2 * 500 * span / (1_000 * MS) + 4, "{made} in {span} ns");
    }
    // The end that waits keeps no rate of its own.
    assert!(other.groups[0].transactions[1].response_time.is_none());
}

#[test]
fn a_failure_is_an_error_of_both_jobs_and_the_agents_take_another() {
    let until = Until::Iterations { iterations: 10 };
    let near = requests(Role::Send, until, None);
    let mut far = requests(Role::Receive, until, None);
    far.groups[0].transactions[1].operations = vec![op(Call::Read, 65)];
    let (mut near, mut far) = start((near, far), 60_000);
    let errors = [error_of(&mut near), error_of(&mut far)];
    assert!(errors.iter().any(|error| error.code == ErrorCode::Job), "{errors:?}");
    for error in errors {
        assert!(error.what.contains("for ever") && error.what.contains("group clients"), "{error:?}");
    }
    far.send(&Command::Prepare {
        job: Box::new(job_of(Role::Receive, 0, requests(Role::Receive, until, None), 100)),
    });
    far.until(|m| matches!(m, Message::Listening { .. }).then_some(()));
}

#[test]
fn an_agent_that_is_killed_is_missed_at_once() {
    let until = Until::Duration { duration_ns: Nanos(60_000 * MS) };
    let scripts = (requests(Role::Send, until, None), requests(Role::Receive, until, None));
    let (mut near, mut far) = start(scripts, 60_000);
    near.until(|m| matches!(m, Message::Record(_)).then_some(()));
    far.process.kill().unwrap();
    let killed = Instant::now();
    let error = error_of(&mut near);
    assert!(killed.elapsed() < Duration::from_secs(50), "{error:?}");
    assert_eq!(error.code, ErrorCode::Transport, "{error:?}");
}

#[test]
fn the_port_is_closed_when_the_job_is_over() {
    let until = Until::Iterations { iterations: 1 };
    let mut far = Agent::start(&[]);
    far.send(&Command::Prepare {
        job: Box::new(job_of(Role::Receive, 0, requests(Role::Receive, until, None), 1_000)),
    });
    let port = far.until(|m| match m {
        Message::Listening { port, .. } => Some(*port),
        _ => None,
    });
    let address: SocketAddr = ([127, 0, 0, 1], port).into();
    drop(TcpStream::connect(address).expect("open while it is prepared"));
    far.send(&Command::Abort { reason: "test".to_owned() });
    far.until(|m| matches!(m, Message::Aborted { .. }).then_some(()));
    assert!(TcpStream::connect(address).is_err());
}
