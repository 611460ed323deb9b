//! What becomes of datagrams that do not come: how long they are waited for, and whether they were lost or never sent.

use crate::scripted::{
    check_consistent, lasting, mirror, op, operation, over, run_against, script, times, transaction, MS,
};
use iodyno_core::account::OperationAccount;
use iodyno_core::script::{Call, FlowOp, Protocol, Script};
use iodyno_core::units::{Bytes, Nanos};

fn think(ms: u64) -> FlowOp {
    FlowOp { duration_ns: Nanos(ms * MS), ..op(Call::Think, 0) }
}

/// One thread that opens a flow, does this so often and closes it.
fn exchange(iterations: u64, operations: Vec<FlowOp>) -> Script {
    let opened = |call| times(1, vec![op(call, 0)]);
    let plan = vec![opened(Call::Connect), times(iterations, operations), opened(Call::Disconnect)];
    script(1, over(Protocol::Udp, plan))
}

/// What an end that takes datagrams says of them, against what the other end sent.
fn check_sum(sent: &OperationAccount, taken: &OperationAccount) {
    assert_eq!(sent.operations, taken.operations + taken.lost, "{sent:?} {taken:?}");
    assert!(taken.late <= taken.lost, "{taken:?}");
}

#[test]
fn a_timeout_is_kept_that_is_shorter_than_a_blocking_call() {
    let read = FlowOp { timeout_ns: Some(Nanos(MS)), ..op(Call::Read, 20) };
    // The late answer comes in the pause, and is thrown away.
    let near = exchange(8, vec![op(Call::Write, 10), read, think(60)]);
    let mut far = mirror(&near);
    far.groups[0].transactions[1].operations =
        over(Protocol::Udp, vec![times(8, vec![op(Call::Read, 10), think(15), op(Call::Write, 20)])])
            .remove(0)
            .operations;
    let (near, far) = run_against(&near, &far);
    let read = operation(&near, 1, 1);
    check_sum(operation(&far, 1, 2), read);
    // A busy machine may wake it too late to notice, once or twice.
    assert!(read.lost >= 4, "{read:?}");
    assert_eq!(read.operations + read.lost, 8);
}

#[test]
fn what_was_lost_is_told_from_what_was_never_sent() {
    // Three times ten requests, and an answer to eleven of them each time.
    let requests = |call, count| FlowOp { count, ..op(call, 10) };
    let near = exchange(3, vec![requests(Call::Write, 10), op(Call::Read, 20)]);
    let far = mirror(&exchange(3, vec![requests(Call::Write, 11), op(Call::Read, 20)]));
    let (near, far) = run_against(&near, &far);
    [&near, &far].into_iter().for_each(check_consistent);
    let (requested, heard) = (operation(&near, 1, 0), operation(&far, 1, 0));
    assert_eq!((requested.operations, heard.operations, heard.lost, heard.failures), (30, 30, 0, 3));
    let (answered, read) = (operation(&far, 1, 1), operation(&near, 1, 1));
    assert_eq!(answered.operations, 2);
    check_sum(answered, read);
    assert_eq!((read.lost, read.failures), (read.late, 1));
    assert!(read.failure_reason.as_ref().unwrap().contains("had not sent it"), "{read:?}");
}

#[test]
fn what_the_ends_sent_came_or_was_lost_also_where_bursts_find_no_room() {
    let burst = FlowOp { count: 300, ..op(Call::Write, 4_000) };
    let mut near = exchange(1, vec![]);
    near.groups[0].transactions[1] =
        over(Protocol::Udp, vec![lasting(250, vec![burst, op(Call::Read, 64)])]).remove(0);
    let mut far = mirror(&near);
    far.groups[0].transactions[0].operations[0].socket.receive_buffer_bytes = Some(Bytes(8_000));
    let (near, far) = run_against(&near, &far);
    [&near, &far].into_iter().for_each(check_consistent);
    assert_eq!(transaction(&near, 1).levelling_iterations, 0);
    check_sum(operation(&near, 1, 0), operation(&far, 1, 0));
    check_sum(operation(&far, 1, 1), operation(&near, 1, 1));
    let read = operation(&near, 1, 1);
    assert_eq!(read.operations + read.lost + read.failures, transaction(&near, 1).iterations);
}
