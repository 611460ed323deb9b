//! Loads that end otherwise than planned.

use std::thread;
use std::time::{Duration, Instant};

use crate::pair::{job, prepare, stream_engines, MS};
use iodyno_core::network::{Engine, Role};
use iodyno_core::socket_options::SocketNumber;
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{Cancel, Prepared, Totals};
use iodyno_sys::clock;

const LONG_MS: u64 = 20_000;
// The promise is 50 ms; a busy machine may take longer. What is asserted is that it was not the load's end, or its
// start after ten seconds, that ended the run.
const SOON: Duration = Duration::from_secs(8);
/// What takes longer than this hangs.
const HUNG: Duration = Duration::from_secs(60);

fn pair_of(engine: Engine, connections: u32, load_ms: u64, cancel: &Cancel) -> (Prepared, Prepared) {
    prepare(
        &job(Role::Send, engine, connections, 20_000, load_ms),
        &job(Role::Receive, engine, connections, 20_000, load_ms),
        cancel,
    )
    .unwrap()
}

fn now() -> Nanos {
    clock::monotonic()
}

#[test]
fn a_peer_that_stops_early_costs_every_connection_and_says_why() {
    for engine in stream_engines() {
        let (sender, receiver) = pair_of(engine, 5, LONG_MS, &Cancel::default());
        let (receiving, sending) = (receiver.arm(now()), sender.arm(now()));
        thread::sleep(Duration::from_millis(150));
        sending.stop();
        let sent = sending.join();
        // Stopped on purpose: nothing of it was lost on this end.
        assert_eq!(sent.totals.connections_lost, 0, "{engine:?}: {:?}", sent.totals.lost_reason);
        let received = receiving.join();
        assert_eq!(received.totals.connections_lost, 5, "{engine:?}");
        assert!(received.totals.lost_reason.unwrap().contains("connection "));

        let (sender, receiver) = pair_of(engine, 5, LONG_MS, &Cancel::default());
        let (receiving, sending) = (receiver.arm(now()), sender.arm(now()));
        thread::sleep(Duration::from_millis(150));
        drop(receiving);
        let sent = sending.join();
        assert_eq!(sent.totals.connections_lost, 5, "{engine:?}");
        assert!(sent.totals.lost_reason.is_some());
    }
}

#[test]
fn cancelling_ends_the_run_on_both_ends_also_before_the_start() {
    for engine in stream_engines() {
        for start_in in [0, 10_000] {
            let cancel = Cancel::default();
            let (sender, receiver) = pair_of(engine, 8, LONG_MS, &cancel);
            let start = now().plus(Nanos(start_in * MS));
            let (receiving, sending) = (receiver.arm(start), sender.arm(start));
            thread::sleep(Duration::from_millis(100));
            let begun = Instant::now();
            cancel.cancel();
            let (sent, received) = (sending.join(), receiving.join());
            assert!(begun.elapsed() < SOON, "{engine:?} {start_in}: {:?}", begun.elapsed());
            assert_eq!(sent.totals.connections_lost + received.totals.connections_lost, 0);
        }
    }
}

#[test]
fn a_prepared_job_can_be_dropped() {
    for engine in stream_engines() {
        let begun = Instant::now();
        drop(pair_of(engine, 8, LONG_MS, &Cancel::default()));
        assert!(begun.elapsed() < HUNG);
    }
}

#[test]
fn what_does_not_come_to_rest_is_given_up_and_counted() {
    // Side by side, as all that they do is wait.
    thread::scope(|scope| {
        for engine in stream_engines() {
            scope.spawn(move || unread_sender_is_given_up(engine));
            scope.spawn(move || receiver_of_nothing_is_given_up(engine));
            scope.spawn(move || what_still_moves_is_not_lost(engine));
        }
    });
}

fn unread_sender_is_given_up(engine: Engine) {
    // The receiver is never armed, so that nobody reads what the sender sends.
    let mut sender = job(Role::Send, engine, 3, 8_000_000, 100);
    sender.load.socket.send_buffer_bytes = Some(Bytes(20_000));
    let (sender, receiver) =
        prepare(&sender, &job(Role::Receive, engine, 3, 1_000, 100), &Cancel::default()).unwrap();
    let begun = Instant::now();
    let sent = sender.arm(now()).join();
    assert!(begun.elapsed() < HUNG, "{engine:?}");
    // A sender that does not block stops in time by itself; the receiver is the one that is left waiting.
    if matches!(engine, Engine::Threads | Engine::RoundRobin) {
        assert_eq!(sent.totals.connections_lost, 3, "{:?}", sent.totals.lost_reason);
    }
    drop(receiver);
}

fn receiver_of_nothing_is_given_up(engine: Engine) {
    // The sender is never armed: the receiver waits for an end that does not come.
    let (sender, receiver) = pair_of(engine, 3, 100, &Cancel::default());
    let begun = Instant::now();
    let received = receiver.arm(now()).join();
    assert!(begun.elapsed() < HUNG, "{engine:?}");
    assert_eq!(received.totals.connections_lost, 3, "{engine:?}");
    assert_eq!(received.totals.bytes, 0);
    assert_eq!(received.first_operation_ns, None);
    drop(sender);
}

fn what_still_moves_is_not_lost(engine: Engine) {
    // Its socket has a minute's bytes when the load stops.
    let mut sender = job(Role::Send, engine, 3, 8_000_000, 100);
    sender.load.socket.numbers.insert(SocketNumber::PacingRate, 800_000);
    let (sender, receiver) =
        prepare(&sender, &job(Role::Receive, engine, 3, 1_000, 100), &Cancel::default()).unwrap();
    let begun = Instant::now();
    let (receiving, sending) = (receiver.arm(now()), sender.arm(now()));
    let (sent, received) = (sending.join(), receiving.join());
    assert!(begun.elapsed() < HUNG, "{engine:?}");
    let lost = |totals: &Totals| (totals.connections_lost, totals.lost_reason.clone());
    assert_eq!((lost(&sent.totals), lost(&received.totals)), ((0, None), (0, None)), "{engine:?}");
    assert!((1..3 * 2_000_000).contains(&received.totals.bytes), "{}", received.totals.bytes);
}
