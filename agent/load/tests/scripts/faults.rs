//! Scripts that cannot go on: each ends soon, at both ends, and says what happened where; or counts it and goes on.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::scripted::{check_consistent, run_against, LONG_MS, MS};
use crate::scripted::{job, lasting, mirror, op, operation, over, prepare, run, run_within, script, times};
use iodyno_core::message::ErrorCode;
use iodyno_core::network::Role;
use iodyno_core::script::{Call, FlowOp, Protocol, Script, Transaction};
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{connect_script, listen_script, Cancel, Finished, LoadError};
use iodyno_sys::clock;

/// A deadlock is noticed in 1 s and some round trips; a busy machine may take longer, though not as long as the windows.
const SOON: Duration = Duration::from_secs(45);

fn opened(rest: Vec<FlowOp>) -> Vec<Transaction> {
    vec![times(1, vec![op(Call::Connect, 0)]), times(3, rest), times(1, vec![op(Call::Disconnect, 0)])]
}

/// Both ends' failures, which must come soon.
fn failures(near: &Script, far: &Script) -> (LoadError, LoadError) {
    let begun = Instant::now();
    let (near, far) = run_within(near, far, LONG_MS);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let failure = |finished: Finished| {
        assert!(!finished.script.unwrap().complete);
        finished.failure.expect("a failure")
    };
    (failure(near), failure(far))
}

#[test]
fn a_deadlock_is_noticed_and_named_whatever_the_two_ends_wait_for() {
    let both = |rest: Vec<FlowOp>, other: Vec<FlowOp>| {
        let near = script(2, opened(rest));
        let mut far = mirror(&near);
        far.groups[0].transactions[1].operations = other;
        (near, far)
    };
    let second = |call| FlowOp { connection: 1, ..op(call, 0) };
    let (read, write) = (op(Call::Read, 64), op(Call::Write, 64));
    let much = op(Call::Write, 50_000_000);
    let cases = [
        ("both read", both(vec![read.clone()], vec![read.clone()]), "data on connection 0"),
        ("both write", both(vec![much.clone()], vec![much.clone()]), "room to send on connection 0"),
        (
            "both accept",
            both(vec![second(Call::Accept)], vec![second(Call::Accept)]),
            "connection 1 to be opened",
        ),
        ("one reads more", both(vec![op(Call::Read, 65)], vec![write.clone()]), "data on connection 0"),
        (
            "one reads, one is done",
            both(vec![read.clone()], vec![op(Call::Nop, 0)]),
            "at the end of the transaction",
        ),
        ("one writes, one accepts", both(vec![much], vec![second(Call::Accept)]), "room to send"),
    ];
    let check = |protocol: Protocol, (name, (near, far), expected): &(&str, (Script, Script), &str)| {
        let of = |script: &Script| Script {
            groups: script
                .groups
                .iter()
                .map(|group| {
                    let mut group = group.clone();
                    group.transactions = over(protocol, group.transactions);
                    group
                })
                .collect(),
        };
        let (here, there) = failures(&of(near), &of(far));
        for failure in [here, there] {
            assert!(failure.what.contains("for ever"), "{name}: {failure}");
            assert!(failure.what.contains("group one, thread"), "{name}: {failure}");
            assert!(failure.what.contains(expected), "{name}: {failure}");
        }
    };
    // Side by side, as all that they do is wait.
    thread::scope(|scope| {
        for protocol in [Protocol::Tcp, Protocol::Unix] {
            for case in &cases {
                let check = &check;
                scope.spawn(move || check(protocol, case));
            }
        }
    });
}

#[test]
fn a_deadlock_within_a_duration_is_noticed_too() {
    let near =
        script(1, vec![times(1, vec![op(Call::Connect, 0)]), lasting(LONG_MS, vec![op(Call::Read, 10)])]);
    let (here, _) = failures(&near, &near_reading(&near));
    assert!(here.what.contains("for ever"), "{here}");
}

/// The mirror, but for the last transaction, which is alike.
fn near_reading(near: &Script) -> Script {
    let mut far = mirror(near);
    let last = near.groups[0].transactions.len() - 1;
    far.groups[0].transactions[last] = near.groups[0].transactions[last].clone();
    far
}

#[test]
fn what_is_slow_is_no_deadlock() {
    // The far end thinks for longer than a stall lasts, in the middle of what the near end waits for.
    let think = FlowOp { duration_ns: Nanos(1_500 * MS), ..op(Call::Think, 0) };
    let mut near = script(1, opened(vec![op(Call::Write, 10), op(Call::Read, 10)]));
    near.groups[0].transactions[1] = times(2, near.groups[0].transactions[1].operations.clone());
    let mut far = mirror(&near);
    far.groups[0].transactions[1].operations.insert(1, think);
    let (near, _) = run_against(&near, &far);
    assert_eq!(operation(&near, 1, 1).operations, 2);
}

#[test]
fn a_peer_that_closes_in_the_middle_is_named_or_counted() {
    let near = script(1, opened(vec![op(Call::Write, 100), op(Call::Read, 100)]));
    let mut far = mirror(&near);
    // Closes with unread data: a reset.
    far.groups[0].transactions[1].operations = vec![op(Call::Read, 50), op(Call::Disconnect, 0)];
    let (here, there) = failures(&near, &far);
    let all = format!("{here} {there}");
    assert!(all.contains("read") && all.contains("connection 0"), "{all}");

    let forgiving = |script: &Script| {
        let mut script = script.clone();
        let operations = script.groups[0].transactions.iter_mut().flat_map(|each| &mut each.operations);
        operations.for_each(|each| each.can_fail = true);
        script
    };
    let (near, far) = run_against(&forgiving(&near), &forgiving(&far));
    [&near, &far].into_iter().for_each(check_consistent);
    let failed = operation(&near, 1, 1);
    assert_eq!((failed.operations, failed.failures), (0, 3));
    assert!(failed.failure_reason.as_ref().unwrap().contains("connection 0"), "{failed:?}");
    assert_eq!(near.groups[0].transactions[1].iterations, 3);
}

#[test]
fn a_failure_is_named_with_its_operation() {
    let (here, there) = failures(
        &script(1, vec![times(1, vec![op(Call::Write, 10)])]),
        &script(1, vec![times(1, vec![op(Call::Nop, 0)])]),
    );
    assert!(here.what.contains("write: connection 0 is not open"), "{here}");
    assert!(there.what.starts_with("the other end failed: group one, thread 0, transaction 1"), "{there}");

    let mut connect = op(Call::Connect, 0);
    connect.socket.congestion_control = Some("nosuch".to_owned());
    let near = script(1, vec![times(1, vec![connect])]);
    let (here, _) = failures(&near, &near_without_options(&near));
    assert!(here.what.contains("nosuch"), "{here}");
}

fn near_without_options(near: &Script) -> Script {
    let mut far = mirror(near);
    far.groups[0].transactions[0].operations[0].socket = Default::default();
    far
}

#[test]
fn a_timeout_ends_the_script_or_is_counted() {
    let slow = |can_fail| {
        let timeout_ns = Some(Nanos(30 * MS));
        let read = FlowOp { timeout_ns, can_fail, ..op(Call::Read, 10) };
        let near = script(1, opened(vec![read, op(Call::Nop, 0)]));
        let mut far = mirror(&near);
        let think = FlowOp { duration_ns: Nanos(100 * MS), ..op(Call::Think, 0) };
        far.groups[0].transactions[1].operations = vec![think];
        (near, far)
    };
    let (near, far) = slow(false);
    let (here, _) = failures(&near, &far);
    assert!(here.what.contains("read: it did not end within its timeout"), "{here}");
    let (near, far) = slow(true);
    let (near, _) = run_against(&near, &far);
    let read = operation(&near, 1, 0);
    assert_eq!((read.operations, read.failures, read.timeouts), (0, 3, 3));
}

#[test]
fn datagrams_that_nobody_sends_are_failures_and_never_waited_for_longer() {
    // Three requests, none of which is answered.
    let near = script(1, over(Protocol::Udp, opened(vec![op(Call::Write, 10), op(Call::Read, 20)])));
    let mut far = mirror(&near);
    let far_transaction = &mut far.groups[0].transactions[1];
    far_transaction.operations.pop();
    let (near, far) = run_against(&near, &far);
    assert_eq!(operation(&near, 1, 0).operations, 3);
    let read = operation(&near, 1, 1);
    assert_eq!((read.operations, read.lost, read.failures), (0, 0, 3));
    assert!(read.failure_reason.as_ref().unwrap().contains("had not sent it"), "{read:?}");
    assert_eq!(operation(&far, 1, 0).operations, 3);

    // The end that follows waits for the other one, and gives up when that is done.
    let near = script(1, over(Protocol::Udp, opened(vec![op(Call::Nop, 0)])));
    let mut far = mirror(&near);
    far.groups[0].transactions[1].operations =
        over(Protocol::Udp, opened(vec![op(Call::Read, 9)])).remove(1).operations;
    far.groups[0].transactions[1].operations[0].count = 7;
    let (_, far) = run_against(&near, &far);
    assert_eq!((operation(&far, 1, 0).lost, operation(&far, 1, 0).failures), (0, 21));
}

#[test]
fn a_datagram_that_comes_too_late_is_not_taken_for_the_next() {
    let read = FlowOp { timeout_ns: Some(Nanos(20 * MS)), ..op(Call::Read, 20) };
    // Long enough for the answer to come also where a busy machine delays it.
    let wait = FlowOp { duration_ns: Nanos(2_000 * MS), ..op(Call::Think, 0) };
    let near = script(1, over(Protocol::Udp, opened(vec![op(Call::Write, 10), read, wait])));
    let mut far = mirror(&near);
    let slow = FlowOp { duration_ns: Nanos(80 * MS), ..op(Call::Think, 0) };
    let mut operations = vec![op(Call::Read, 10), slow, op(Call::Write, 20)];
    operations.iter_mut().for_each(|each| each.protocol = Protocol::Udp);
    far.groups[0].transactions[1].operations = operations;
    let (near, _) = run_against(&near, &far);
    let read = operation(&near, 1, 1);
    assert_eq!((read.operations, read.lost), (0, 3));
    // That of the last iteration has nothing after it that would notice.
    assert_eq!(read.late, 2);
}

#[test]
fn an_end_that_is_stopped_ends_the_other_and_cancelling_ends_both() {
    let near = script(4, opened(vec![op(Call::Write, 10), op(Call::Read, 10)]));
    let mut near = near;
    near.groups[0].transactions[1] = lasting(LONG_MS, vec![op(Call::Write, 10), op(Call::Read, 10)]);
    let jobs = (job(Role::Send, near.clone(), LONG_MS), job(Role::Receive, mirror(&near), LONG_MS));
    for stopped in ["near", "far", "both"] {
        let cancel = Cancel::default();
        let (near, far) = prepare(&jobs.0, &jobs.1, &cancel).unwrap();
        let (far, near) = (far.arm(clock::monotonic()), near.arm(clock::monotonic()));
        thread::sleep(Duration::from_millis(100));
        let begun = Instant::now();
        match stopped {
            "near" => drop(near),
            "far" => {
                drop(far);
                let failure = near.join().failure.expect("the far end is gone");
                assert!(failure.what.contains("the other end is gone"), "{failure}");
                assert_eq!(failure.code, ErrorCode::Transport);
            }
            _ => {
                cancel.cancel();
                assert_eq!((near.join().failure, far.join().failure), (None, None));
            }
        }
        assert!(begun.elapsed() < SOON);
    }
}

#[test]
fn an_end_that_does_not_come_or_does_not_fit_is_refused() {
    let near = script(1, opened(vec![op(Call::Write, 10)]));
    // Nobody listens there.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut sender = job(Role::Send, near.clone(), 100);
    sender.load.address = Some(free.to_string());
    assert_eq!(connect_script(&sender, &Cancel::default()).err().unwrap().code, ErrorCode::Address);

    // Another script.
    let mut other = mirror(&near);
    other.groups[0].transactions.pop();
    let (near_job, far_job) = (job(Role::Send, near.clone(), 100), job(Role::Receive, other, 100));
    let refused = prepare(&near_job, &far_job, &Cancel::default()).err().unwrap();
    assert!(refused.what.contains("do not belong together") || refused.what.contains("closed"), "{refused}");

    // What the kernel or this agent lacks, and what makes no sense.
    let vsock = iodyno_sys::vsock::refusal(iodyno_sys::vsock::THIS_MACHINE).map(|_| Protocol::Vsock);
    let sctp = iodyno_sys::sctp::refusal().map(|_| Protocol::Sctp);
    for protocol in sctp.into_iter().chain(vsock) {
        let near = script(1, over(protocol, opened(vec![op(Call::Write, 10)])));
        let refused = listen_script(&job(Role::Receive, near, 100), &Cancel::default()).err().unwrap();
        assert_eq!(refused.code, ErrorCode::Unsupported, "{refused}");
        assert!(refused.what.to_lowercase().contains(&format!("{protocol:?}").to_lowercase()), "{refused}");
    }
    let long = job(Role::Receive, script(1, over(Protocol::Udp, opened(vec![op(Call::Read, 70_000)]))), 100);
    assert_eq!(listen_script(&long, &Cancel::default()).err().unwrap().code, ErrorCode::Job);
}

#[test]
fn strangers_are_counted_and_change_nothing() {
    let plan = over(Protocol::Udp, opened(vec![op(Call::Write, 10), op(Call::Read, 10)]));
    let mut near = script(2, plan);
    near.groups[0].transactions[1] =
        over(Protocol::Udp, vec![lasting(4_000, vec![op(Call::Write, 10), op(Call::Read, 10)])]).remove(0);
    let far_job = job(Role::Receive, mirror(&near), LONG_MS);
    let listener = listen_script(&far_job, &Cancel::default()).unwrap();
    let address = format!("127.0.0.1:{}", listener.port());
    let mut near_job = job(Role::Send, near, LONG_MS);
    near_job.load.address = Some(address.clone());
    let connecting = thread::spawn(move || connect_script(&near_job, &Cancel::default()));
    let far = listener.accept_all().unwrap();
    let near = connecting.join().unwrap().unwrap();
    let start = clock::monotonic().plus(Nanos(30 * MS));
    let (far, near) = (far.arm(start), near.arm(start));
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..20 {
        stranger.send_to(b"spoofed, and as long as a preamble is...", &address).unwrap();
        drop(TcpStream::connect(&address).unwrap());
        thread::sleep(Duration::from_millis(5));
    }
    let (near, far) = (near.join(), far.join());
    assert_eq!((near.failure, far.failure), (None, None));
    let far = far.script.unwrap();
    assert!(far.complete);
    assert!(far.foreign_refused >= 20, "{}", far.foreign_refused);
    assert_eq!(operation(&far, 1, 0).bytes.0, 10 * operation(&far, 1, 0).operations);
}

#[test]
fn a_non_blocking_connection_moves_as_much() {
    let plan = |non_blocking| {
        let each = |call, bytes| FlowOp { non_blocking, ..op(call, bytes) };
        opened(vec![each(Call::Write, 3_000_000), each(Call::Read, 100)])
    };
    let (near, far) = run(&script(1, plan(true)));
    for account in [&near, &far] {
        check_consistent(account);
        assert_eq!(operation(account, 1, 0).bytes.0, 9_000_000);
    }
    let waits = |number| operation(&near, 1, number).would_block + operation(&far, 1, number).would_block;
    assert!(waits(0) + waits(1) > 0);
}

#[test]
fn datagrams_that_find_no_room_are_lost_and_every_one_is_accounted_for() {
    let write = FlowOp { protocol: Protocol::Udp, ..op(Call::Write, 1_000) };
    let mut near = script(1, over(Protocol::Udp, opened(vec![])));
    near.groups[0].transactions[1] = lasting(200, vec![write]);
    let mut far = mirror(&near);
    // Room for a few datagrams, and a reader that dawdles.
    far.groups[0].transactions[0].operations[0].socket.receive_buffer_bytes = Some(Bytes(8_000));
    let think = FlowOp { duration_ns: Nanos(MS), ..op(Call::Think, 0) };
    far.groups[0].transactions[1].operations.push(think);
    let (near, far) = run_against(&near, &far);
    let (sent, taken) = (operation(&near, 1, 0), operation(&far, 1, 0));
    assert!(taken.lost > 0);
    assert_eq!(sent.operations, taken.operations + taken.lost);
    assert_eq!(taken.bytes.0, 1_000 * taken.operations);
}
