//! Datagrams of scripts on a way that loses, repeats, reorders and delays them: each is counted as what it is.

use std::sync::Arc;
use std::time::Duration;

use crate::relay::{relay, Direction, Fate, Seen};
use crate::scripted::{
    check_consistent, lasting, mirror, op, operation, over, run_against_by, script, times, transaction, MS,
};
use iodyno_core::account::{OperationAccount, ScriptAccount};
use iodyno_core::script::{Call, FlowOp, Protocol, Rate, Script, Transaction};
use iodyno_core::units::Nanos;

const AT_ONCE: Duration = Duration::ZERO;

/// One thread that opens a flow, goes through a transaction and closes it.
fn on_one_flow(between: Transaction) -> Script {
    let opened = |call| times(1, vec![op(call, 0)]);
    script(1, over(Protocol::Udp, vec![opened(Call::Connect), between, opened(Call::Disconnect)]))
}

/// Runs a script against its mirror on such a way.
fn run(near: &Script, fate: Fate) -> (ScriptAccount, ScriptAccount, Arc<Seen>) {
    run_unheard(near, fate, 0)
}

/// The same where so many acknowledgements of greetings are lost first.
fn run_unheard(near: &Script, fate: Fate, unheard: u64) -> (ScriptAccount, ScriptAccount, Arc<Seen>) {
    let mut seen = None;
    let (near, far) = run_against_by(near, &mirror(near), |port| {
        let (port, of_relay) = relay(port, fate, unheard);
        seen = Some(of_relay);
        port
    });
    [&near, &far].into_iter().for_each(check_consistent);
    (near, far, seen.unwrap())
}

/// Of those that moved, were lost, were late and came twice.
fn counts(account: &OperationAccount) -> [u64; 4] {
    [account.operations, account.lost, account.late, account.duplicates]
}

#[test]
fn a_flow_comes_up_though_its_first_acknowledgements_are_lost_while_the_other_end_waits_for_others() {
    // The other end is done with the first transaction, or accepts the second flow, when the greeting comes again.
    let second = |mut operation: FlowOp| {
        operation.connection = 1;
        operation
    };
    let opened = |call| vec![op(call, 0), second(op(call, 0))];
    let moved = times(20, vec![op(Call::Write, 100), second(op(Call::Write, 100))]);
    let both = vec![times(1, opened(Call::Connect)), moved, times(1, opened(Call::Disconnect))];
    for near in [on_one_flow(times(20, vec![op(Call::Write, 100)])), script(1, over(Protocol::Udp, both))] {
        let (near, far, _) = run_unheard(&near, |_, _| vec![AT_ONCE], 3);
        assert_eq!(counts(operation(&far, 1, 0)), [20, 0, 0, 0]);
        let connect = operation(&near, 0, 0);
        assert!(connect.greatest_ns.unwrap() < Nanos(2_000 * MS), "{connect:?}");
    }
}

#[test]
fn what_comes_twice_hides_no_loss() {
    let near = on_one_flow(times(200, vec![op(Call::Write, 100)]));
    let (near, far, _) = run(&near, |_, number| match number % 10 {
        3 => vec![],
        4 | 7 => vec![AT_ONCE, AT_ONCE],
        _ => vec![AT_ONCE],
    });
    assert_eq!(counts(operation(&near, 1, 0)), [200, 0, 0, 0]);
    assert_eq!(counts(operation(&far, 1, 0)), [180, 20, 0, 40]);
    assert_eq!(operation(&far, 1, 0).bytes.0, 100 * 180);
}

#[test]
fn a_stream_in_another_order_has_lost_nothing() {
    let near = on_one_flow(times(100, vec![op(Call::Write, 100)]));
    // More follow behind each that is held up, and the last one too is awaited for so long.
    let (_, far, _) =
        run(&near, |_, number| vec![if number % 7 == 0 { Duration::from_millis(20) } else { AT_ONCE }]);
    assert_eq!(counts(operation(&far, 1, 0)), [100, 0, 0, 0]);
}

#[test]
fn an_answer_that_comes_twice_or_to_a_request_that_did_answers_no_other() {
    // Nothing is lost here, however long a busy machine takes.
    let read = FlowOp { timeout_ns: Some(Nanos(10_000 * MS)), ..op(Call::Read, 200) };
    let near = on_one_flow(times(20, vec![op(Call::Write, 100), read]));
    let (near, far, _) = run(&near, |direction, number| match (direction, number) {
        // Both are there before the next request; and one comes back before the request that follows it.
        (Direction::There, 3) | (Direction::Back, 5) => vec![AT_ONCE, AT_ONCE],
        _ => vec![Duration::from_millis(15)],
    });
    assert_eq!(counts(operation(&near, 1, 1)), [20, 0, 0, 1]);
    assert_eq!(counts(operation(&far, 1, 0)), [20, 0, 0, 1]);
    // Each way takes 15 ms but for one there and one back: no answer is faster than that.
    let read = operation(&near, 1, 1);
    assert!(read.least_ns.unwrap() >= Nanos(15 * MS), "{read:?}");
}

#[test]
fn what_is_lost_of_requests_is_told_from_what_is_lost_of_answers_and_shifts_neither() {
    let near = on_one_flow(times(20, vec![op(Call::Write, 100), op(Call::Read, 200)]));
    let (near, far, seen) = run(&near, |direction, number| match (direction, number) {
        (Direction::There, 3 | 4 | 9) | (Direction::Back, 10) => vec![],
        _ => vec![AT_ONCE],
    });
    // Three requests had no answer: nothing that could be lost was sent.
    assert_eq!(seen.number(Direction::Back), 17);
    assert_eq!(counts(operation(&far, 1, 0)), [17, 3, 0, 0]);
    assert_eq!(counts(operation(&far, 1, 1)), [17, 0, 0, 0]);
    let read = operation(&near, 1, 1);
    assert_eq!((counts(read), read.failures), ([16, 1, 0, 0], 3));
    assert_eq!(transaction(&far, 1).iterations, 17);
}

#[test]
fn an_answer_that_comes_after_the_next_request_is_late_for_its_own() {
    let read = FlowOp { timeout_ns: Some(Nanos(200 * MS)), ..op(Call::Read, 200) };
    let near = on_one_flow(times(12, vec![op(Call::Write, 100), read]));
    // Every answer comes within the time of the request after its own.
    let (near, far, _) = run(&near, |direction, _| match direction {
        Direction::There => vec![AT_ONCE],
        Direction::Back => vec![Duration::from_millis(300)],
    });
    assert_eq!(operation(&far, 1, 1).operations, 12);
    let read = operation(&near, 1, 1);
    // The last ones have no request after them that would notice.
    assert_eq!((read.operations, read.lost), (0, 12));
    assert!((8..12).contains(&read.late), "{read:?}");
}

#[test]
fn in_a_burst_the_order_does_not_matter_and_what_is_missing_of_it_is_not_of_the_next() {
    let burst = FlowOp { count: 10, ..op(Call::Write, 100) };
    let near = on_one_flow(times(5, vec![burst, op(Call::Read, 50)]));
    let (near, far, _) = run(&near, |direction, number| match (direction, number) {
        // One of the second burst is lost, the third one comes in another order.
        (Direction::There, 14) => vec![],
        (Direction::There, 20..25) => vec![Duration::from_millis(10)],
        _ => vec![AT_ONCE],
    });
    assert_eq!(counts(operation(&far, 1, 0)), [49, 1, 0, 0]);
    assert_eq!(counts(operation(&far, 1, 1)), [4, 0, 0, 0]);
    let read = operation(&near, 1, 1);
    assert_eq!((counts(read), read.failures), ([4, 0, 0, 0], 1));
}

#[test]
fn a_receiver_does_not_run_ahead_of_the_sender_because_datagrams_come_twice() {
    let rate = Some(Rate { iterations: 500, period_ns: Nanos::SECOND });
    let near = on_one_flow(Transaction { rate, ..lasting(300, vec![op(Call::Write, 100)]) });
    let (near, far, _) = run(&near, |_, _| vec![AT_ONCE, AT_ONCE]);
    let sent = operation(&near, 1, 0).operations;
    assert_eq!(transaction(&near, 1).levelling_iterations, 0);
    let taken = operation(&far, 1, 0);
    assert_eq!(taken.operations + taken.lost, sent);
    assert!(taken.duplicates > 0);
}

#[test]
fn what_has_no_room_for_a_number_is_thrown_away_before_the_next_request() {
    let near = on_one_flow(times(20, vec![op(Call::Write, 8), op(Call::Read, 8)]));
    let (near, far, _) = run(&near, |direction, number| match (direction, number) {
        (Direction::Back, 5) => vec![AT_ONCE, AT_ONCE],
        (Direction::There, 6) => vec![Duration::from_millis(30)],
        _ => vec![AT_ONCE],
    });
    for counts in [counts(operation(&near, 1, 1)), counts(operation(&far, 1, 0))] {
        assert_eq!(counts[..3], [20, 0, 0]);
    }
}
