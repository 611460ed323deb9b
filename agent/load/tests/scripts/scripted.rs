//! Both ends of a script in one process, over loopback.

#![allow(dead_code, reason = "every test file uses a part of it")]

use std::thread;
use std::time::{Duration, Instant};

use iodyno_core::account::{OperationAccount, ScriptAccount, TransactionAccount};
use iodyno_core::job::{Job, Load};
use iodyno_core::network::Role;
use iodyno_core::phase::Windows;
use iodyno_core::script::{Call, FlowOp, Group, Protocol, Script, Size, Transaction, Until};
use iodyno_core::scripted::Scripted;
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{connect_script, listen_script, Cancel, Finished, LoadError, Prepared};
use iodyno_sys::clock;

/// Milliseconds in nanoseconds.
pub const MS: u64 = 1_000_000;
/// Longer than any test: windows that do not end a script.
pub const LONG_MS: u64 = 60_000;

/// An operation with a size, on connection 0.
pub fn op(call: Call, bytes: u64) -> FlowOp {
    let label = format!("{call:?}").to_lowercase();
    let size = (bytes > 0).then_some(Size::Fixed { bytes: Bytes(bytes) });
    FlowOp { size, ..FlowOp::new(call, &label) }
}

/// So many times.
pub fn times(iterations: u64, operations: Vec<FlowOp>) -> Transaction {
    Transaction { until: Until::Iterations { iterations }, rate: None, operations }
}

/// For so long.
pub fn lasting(ms: u64, operations: Vec<FlowOp>) -> Transaction {
    Transaction { until: Until::Duration { duration_ns: Nanos(ms * MS) }, rate: None, operations }
}

/// Over another protocol.
pub fn over(protocol: Protocol, mut transactions: Vec<Transaction>) -> Vec<Transaction> {
    for operation in transactions.iter_mut().flat_map(|transaction| &mut transaction.operations) {
        operation.protocol = protocol;
    }
    transactions
}

/// One group.
pub fn script(threads: u32, transactions: Vec<Transaction>) -> Script {
    Script { groups: vec![Group { name: "one".to_owned(), threads, transactions }] }
}

/// What the other end does: the mirror of a script, as the lab makes it.
pub fn mirror(script: &Script) -> Script {
    let mut other = script.clone();
    for group in &mut other.groups {
        for operation in group.transactions.iter_mut().flat_map(|transaction| &mut transaction.operations) {
            operation.call = match operation.call {
                Call::Connect => Call::Accept,
                Call::Accept => Call::Connect,
                Call::Read => Call::Write,
                Call::Write | Call::Sendfile | Call::Sendfilev => Call::Read,
                Call::Send => Call::Recv,
                Call::Recv => Call::Send,
                Call::Sendto => Call::Recvfrom,
                Call::Recvfrom => Call::Sendto,
                call => call,
            };
        }
    }
    other
}

/// How long a datagram is awaited: a busy machine takes longer than the usual 100 ms to bring one.
const PATIENCE_MS: u64 = 1_000;

/// A job with this script.
pub fn job(role: Role, script: Script, load_ms: u64) -> Job<Scripted> {
    let load = Scripted {
        role,
        address: Some("127.0.0.1:0".to_owned()),
        remote_addresses: Vec::new(),
        response_timeout_ns: Nanos(PATIENCE_MS * MS),
        script,
    };
    Job {
        trial: "test".to_owned(),
        token: "000102030405060708090a0b0c0d0e0f".to_owned(),
        windows: Windows {
            warm_up_ns: Nanos(0),
            measured_ns: Nanos(load_ms * MS),
            drain_ns: Nanos(0),
            interval_ns: Nanos::SECOND,
        },
        ..Job::<Load>::default().with(load)
    }
}

/// Both ends, ready: the sending one first.
pub fn prepare(
    near: &Job<Scripted>,
    far: &Job<Scripted>,
    cancel: &Cancel,
) -> Result<(Prepared, Prepared), LoadError> {
    prepare_by(near, far, cancel, |port| port)
}

/// The same, where `way` gives the port by which that of the receiving end is reached.
pub fn prepare_by(
    near: &Job<Scripted>,
    far: &Job<Scripted>,
    cancel: &Cancel,
    way: impl FnOnce(u16) -> u16,
) -> Result<(Prepared, Prepared), LoadError> {
    let listener = listen_script(far, cancel)?;
    let mut near = near.clone();
    near.load.address = Some(format!("127.0.0.1:{}", way(listener.port())));
    let other = cancel.clone();
    let connecting = thread::spawn(move || connect_script(&near, &other));
    let far = listener.accept_all();
    let near = connecting.join().unwrap();
    Ok((near?, far?))
}

/// Runs two scripts against each other within windows of `load_ms`: what the two ends did.
pub fn run_within(near: &Script, far: &Script, load_ms: u64) -> (Finished, Finished) {
    run_by(near, far, load_ms, |port| port)
}

fn run_by(near: &Script, far: &Script, load_ms: u64, way: impl FnOnce(u16) -> u16) -> (Finished, Finished) {
    let near = job(Role::Send, near.clone(), load_ms);
    let far = job(Role::Receive, far.clone(), load_ms);
    let (near, far) = prepare_by(&near, &far, &Cancel::default(), way).unwrap();
    let start = clock::monotonic().plus(Nanos(30 * MS));
    let (far, near) = (far.arm(start), near.arm(start));
    (near.join(), far.join())
}

/// Runs a script against its mirror to its end, which must come.
pub fn run(near: &Script) -> (ScriptAccount, ScriptAccount) {
    run_against(near, &mirror(near))
}

/// Likewise, against another.
pub fn run_against(near: &Script, far: &Script) -> (ScriptAccount, ScriptAccount) {
    run_against_by(near, far, |port| port)
}

/// Likewise, where `way` gives the port by which that of the receiving end is reached.
pub fn run_against_by(
    near: &Script,
    far: &Script,
    way: impl FnOnce(u16) -> u16,
) -> (ScriptAccount, ScriptAccount) {
    let begun = Instant::now();
    let (near, far) = run_by(near, far, LONG_MS, way);
    assert_eq!((near.failure, far.failure), (None, None));
    assert!(begun.elapsed() < Duration::from_millis(LONG_MS / 2), "it came to an end by itself");
    let (near, far) = (near.script.unwrap(), far.script.unwrap());
    assert!(near.complete && far.complete);
    (near, far)
}

/// Account of a transaction of the first group.
pub fn transaction(account: &ScriptAccount, number: usize) -> &TransactionAccount {
    &account.groups[0].transactions[number]
}

/// Account of an operation of a transaction of the first group.
pub fn operation(account: &ScriptAccount, of: usize, number: usize) -> &OperationAccount {
    &transaction(account, of).operations[number]
}

/// What holds for the account of every script.
pub fn check_consistent(account: &ScriptAccount) {
    for transaction in account.groups.iter().flat_map(|group| &group.transactions) {
        assert_eq!(transaction.service_time.count, transaction.iterations);
        for operation in &transaction.operations {
            assert_eq!(operation.time.count, operation.operations);
            assert_eq!(operation.begin_ns.is_some(), operation.operations > 0);
            let (least, greatest) = (operation.least_ns, operation.greatest_ns);
            if let (Some(least), Some(greatest)) = (least, greatest) {
                assert!(least <= greatest);
                assert!(least.0 * operation.operations <= operation.time.sum_ns);
                assert!(operation.time.sum_ns <= greatest.0 * operation.operations);
                assert!(transaction.begin_ns <= operation.begin_ns && operation.end_ns <= transaction.end_ns);
            }
        }
    }
}
