//! An open loop: operations begin at their arrivals, what waits is counted from when it was to begin.

use crate::pair::{check_consistent, job, over, prepare, run, with, Parts, ENGINES, MS};
use iodyno_core::arrivals::{Arrivals, Law, Sizes};
use iodyno_core::histogram::{Histogram, Snapshot};
use iodyno_core::job::Job;
use iodyno_core::network::{Engine, Network, Role, TrafficKind, Transport};
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{connect, Cancel, Finished, OpenTotals};
use iodyno_sys::clock;

fn arrivals(law: Law, per_second: u64) -> Option<Arrivals> {
    let period_ns = Nanos::SECOND;
    Some(Arrivals { law, operations: per_second, period_ns, per_connection: false, seed: 3 })
}

/// A request and its answer at these arrivals.
fn asking(
    engine: Engine,
    connections: u32,
    arrivals: Option<Arrivals>,
    load_ms: u64,
) -> (Job<Network>, Job<Network>) {
    let mut sender = job(Role::Send, engine, connections, 64, load_ms);
    (sender.load.traffic, *sender.answer(), sender.load.arrivals) =
        (TrafficKind::RequestResponse.into(), Bytes(64), arrivals);
    let receiver = with(sender.clone(), |job| {
        job.load.role = Role::Receive;
        job.load.arrivals = None;
    });
    (sender, receiver)
}

fn open(finished: &Finished) -> &OpenTotals {
    finished.totals.open_loop.as_ref().unwrap()
}

fn all(snapshot: &Snapshot) -> Histogram {
    snapshot.since(&Snapshot::default())
}

/// What was due and is not begun is due to the stop: it lies within the wait of the oldest of them, which says how far
/// the generator was behind then, on however busy a machine; a connection may hold one more that it has claimed.
fn check_missed(finished: &Finished, per_second: u64, connections: u32) {
    let open = open(finished);
    let within = per_second * open.oldest_wait_ns.0 / Nanos::SECOND.0;
    // Poisson arrivals: five standard deviations.
    let most = within + 5 * within.isqrt() + u64::from(connections) + 1;
    assert!(open.missed <= most, "{} of {} missed, {most} were due then", open.missed, open.due);
    assert!(open.begun > 0);
}

/// What holds in every open loop that has come to its end.
fn check_accounts(finished: &Finished, burst: u64) {
    let open = open(finished);
    assert_eq!(open.begun, open.lateness.count());
    assert!(open.waiting.count() <= open.begun);
    assert_eq!(open.due, open.begun + open.missed, "{} begun, {} missed", open.begun, open.missed);
    assert_eq!(open.response_time.count(), finished.totals.operations);
    assert!(finished.totals.operations <= open.begun * burst);
    // Without bursts, response time is waiting, lateness and service time, but for looks at the clock between them; the
    // operations that were cut off at the stop have no response.
    let parts = all(&open.lateness).sum_ns + all(&open.waiting).sum_ns;
    let service = all(&finished.totals.service_time).sum_ns;
    if burst == 1 && finished.totals.operations == open.begun {
        let response = all(&open.response_time).sum_ns;
        let sum = parts + service;
        assert!(response.abs_diff(sum) <= response / 10 + MS, "{response}, of parts {sum}");
    }
}

#[test]
fn every_arrival_is_begun_over_unix_and_tls() {
    for transport in [Transport::Unix, Transport::Tls] {
        for engine in ENGINES {
            let (sender, receiver) =
                asking(engine, 8, arrivals(Law::Constant { earlier_ns: Nanos(0) }, 1_000), 300);
            let (sent, received) = run(&over(transport, sender), &over(transport, receiver));
            for finished in [&sent, &received] {
                check_consistent(&finished.totals, 8);
                assert_eq!(finished.totals.connections_lost, 0, "{:?}", finished.totals.lost_reason);
            }
            check_accounts(&sent, 1);
            let due = open(&sent).due;
            assert!(due.abs_diff(300) <= 1, "{transport:?} {engine:?}: {due}");
            check_missed(&sent, 1_000, 8);
        }
    }
}

#[test]
fn an_arrival_may_have_a_connection_of_its_own() {
    for transport in [Transport::Tcp, Transport::Unix, Transport::Tls] {
        for engine in ENGINES {
            for (law, tolerance) in [(Law::Constant { earlier_ns: Nanos(0) }, 1), (Law::Poisson {}, 90)] {
                let (sender, receiver) = asking(engine, 8, arrivals(law, 1_000), 300);
                let anew = |job| {
                    with(over(transport, job), |job| {
                        job.load.traffic = TrafficKind::ConnectRequestResponse.into();
                    })
                };
                let (sent, received) = run(&anew(sender), &anew(receiver));
                let case = format!("{transport:?} {engine:?}");
                check_accounts(&sent, 1);
                check_missed(&sent, 1_000, 8);
                let due = open(&sent).due;
                assert!(due.abs_diff(300) <= tolerance, "{case}: {due}");
                let (sent, received) = (sent.totals, received.totals);
                // Each exchange has opened one; those that the stop has cut off have no end.
                assert!(sent.rare.opened >= sent.operations, "{case}: {:?}", sent.rare);
                assert!(received.operations >= sent.operations, "{case}");
                assert_eq!((sent.rare.failed, sent.rare.refused, sent.connections_lost), (0, 0, 0), "{case}");
            }
        }
    }
}

#[test]
fn arrivals_that_no_connection_was_free_for_are_missed_and_waited() {
    for engine in ENGINES {
        // No flow makes a connection in 2 us.
        let (sender, receiver) =
            asking(engine, 1, arrivals(Law::Constant { earlier_ns: Nanos(0) }, 500_000), 200);
        let anew = |job| {
            with(job, |job| {
                job.load.traffic = TrafficKind::ConnectRequestResponse.into();
            })
        };
        let (sent, _) = run(&anew(sender), &anew(receiver));
        check_accounts(&sent, 1);
        let open = open(&sent);
        assert_eq!(open.due, 100_000, "{engine:?}");
        assert!(open.missed > 0 && open.begun < open.due, "{engine:?}: {} missed", open.missed);
        // Its waiting is that for the connection: a generator with one flow is late by the work between two.
        let (waiting, lateness) = (all(&open.waiting).sum_ns, all(&open.lateness).sum_ns);
        assert!(waiting > lateness, "{engine:?}: {waiting} {lateness}");
    }
}

#[test]
fn an_arrival_whose_connection_is_refused_stays_in_hand() {
    for engine in ENGINES {
        let (sender, receiver) =
            asking(engine, 3, arrivals(Law::Constant { earlier_ns: Nanos(0) }, 1_000), 200);
        let anew = |job| {
            with(job, |job| {
                job.load.traffic = TrafficKind::ConnectRequestResponse.into();
            })
        };
        let (sender, receiver) = prepare(&anew(sender), &anew(receiver), &Cancel::default()).unwrap();
        drop(receiver);
        let sent = sender.arm(clock::monotonic()).join();
        assert!(sent.totals.rare.refused > 0 && sent.totals.operations == 0, "{engine:?}");
        let open = open(&sent);
        assert!((1..=3).contains(&open.begun), "{engine:?}: {}", open.begun);
        assert_eq!((open.due, open.response_time.count()), (open.begun + open.missed, 0), "{engine:?}");
    }
}

#[test]
fn every_arrival_is_begun_and_the_rate_is_kept_over_tcp() {
    for engine in ENGINES {
        for (law, tolerance) in [(Law::Constant { earlier_ns: Nanos(0) }, 1), (Law::Poisson {}, 160)] {
            for own in [false, true] {
                let connections = if own { 4 } else { 20 };
                let mut planned = arrivals(law.clone(), if own { 500 } else { 2_000 }).unwrap();
                planned.per_connection = own;
                let (sender, receiver) = asking(engine, connections, Some(planned), 500);
                let (sent, received) = run(&sender, &receiver);
                for finished in [&sent, &received] {
                    check_consistent(&finished.totals, connections);
                    assert_eq!(finished.totals.connections_lost, 0, "{:?}", finished.totals.lost_reason);
                }
                check_accounts(&sent, 1);
                assert!(received.totals.open_loop.is_none());
                let due = open(&sent).due;
                // 1000 in half a second. Poisson: five standard deviations.
                assert!(due.abs_diff(1_000) <= tolerance + u64::from(own) * 4, "{engine:?} {law:?}: {due}");
                check_missed(&sent, 2_000, connections);
            }
        }
    }
}

#[test]
fn a_stream_has_arrivals_too() {
    for engine in ENGINES {
        let mut sender = job(Role::Send, engine, 3, 10_000, 400);
        sender.load.arrivals = arrivals(Law::Poisson {}, 1_000);
        let receiver = job(Role::Receive, engine, 3, 10_000, 400);
        let (sent, received) = run(&sender, &receiver);
        check_accounts(&sent, 1);
        assert_eq!(sent.totals.bytes, received.totals.bytes);
        assert!(open(&sent).due.abs_diff(400) < 100, "{}", open(&sent).due);
    }
}

#[test]
fn messages_that_are_due_together_go_in_one_call_and_each_counts_from_its_own_instant() {
    for engine in ENGINES {
        // One every 200 ns, which is less than a call takes.
        let mut sender = job(Role::Send, engine, 2, 64, 300);
        // One thread: of two, one may not get its CPU in all that time.
        sender.cpus = iodyno_sys::affinity::allowed().unwrap()[..1].to_vec();
        sender.load.arrivals = arrivals(Law::Poisson {}, 5_000_000);
        let (sent, received) = run(&sender, &job(Role::Receive, engine, 2, 64, 300));
        check_accounts(&sent, 1);
        assert_eq!(sent.totals.connections_lost, 0, "{:?}", sent.totals.lost_reason);
        assert_eq!(sent.totals.bytes, received.totals.bytes);
        // What the stop cut off is not complete: 64 messages of each connection at most.
        let (open, operations) = (open(&sent), sent.totals.operations);
        assert!(open.begun.abs_diff(operations) <= 2 * 64, "{engine:?}: {} of {operations}", open.begun);
        assert!(sent.totals.bytes.abs_diff(operations * 64) <= 2 * 64 * 64);
        let calls = all(sent.totals.batch.as_ref().unwrap());
        assert_eq!(calls.sum_ns, open.begun, "{engine:?}: messages of {} calls", calls.count);
        assert!(calls.count < open.begun, "{engine:?}: {} calls", calls.count);
        // Of one thread, no connection begins all of them because it is always behind.
        let bytes = &sent.totals.connection_bytes;
        assert!(engine == Engine::Threads || bytes.iter().all(|sent| *sent > 0), "{bytes:?}");
        // Every one that was begun had its own instant: together they waited for all the time between due and begun.
        assert!(all(&open.lateness).sum_ns + all(&open.waiting).sum_ns > 0);
    }
}

#[test]
fn one_call_begins_what_is_due_together_however_many_connections_are_free_for_it() {
    const TOGETHER: u64 = 16;
    let together = [vec![Nanos(10 * MS)], vec![Nanos(0); TOGETHER as usize - 1]].concat();
    let engine = Engine::Epoll;
    for transport in [Transport::Tcp, Transport::Unix] {
        let mut sender = over(transport, job(Role::Send, engine, 8, 64, 300));
        // Two threads that wake at the same instant may both begin something.
        sender.cpus = iodyno_sys::affinity::allowed().unwrap()[..1].to_vec();
        sender.load.arrivals = arrivals(Law::Trace { gaps_ns: together.clone() }, 100 * TOGETHER);
        let (sent, received) = run(&sender, &over(transport, job(Role::Receive, engine, 8, 64, 300)));
        check_accounts(&sent, 1);
        assert_eq!(sent.totals.bytes, received.totals.bytes);
        let (begun, calls) = (open(&sent).begun, all(sent.totals.batch.as_ref().unwrap()));
        assert_eq!(calls.sum_ns, begun, "{transport:?}");
        // Those of several instants go together where the generator was late; the stop may come between two of an instant.
        assert!(
            begun > 0 && calls.count <= begun / TOGETHER + 1,
            "{transport:?}: {} calls for {begun}",
            calls.count
        );
    }
}

#[test]
fn messages_that_are_joined_keep_their_sizes_in_order() {
    for engine in ENGINES {
        let mut sender = job(Role::Send, engine, 1, 900, 200);
        sender.load.arrivals = arrivals(Law::Constant { earlier_ns: Nanos(0) }, 3_000_000);
        sender.load.message_sizes = Some(Sizes::Trace { sizes_bytes: [1, 900, 7].map(Bytes).to_vec() });
        let (sent, received) = run(&sender, &job(Role::Receive, engine, 1, 900, 200));
        let operations = sent.totals.operations;
        let whole = operations / 3 * 908 + [0, 1, 901][(operations % 3) as usize];
        // The last call may have been cut off by the stop within a message.
        assert!(
            (whole..whole + 900).contains(&sent.totals.bytes),
            "{engine:?}: {} of {whole}",
            sent.totals.bytes
        );
        assert_eq!(sent.totals.bytes, received.totals.bytes);
        assert!(all(sent.totals.batch.as_ref().unwrap()).count < operations, "{engine:?}");
    }
}

#[test]
fn what_finds_no_connection_free_waits_and_is_counted_from_its_arrival() {
    // The answers take 2 ms each on one connection, and four times as many are asked for.
    for engine in ENGINES {
        let (sender, mut receiver) =
            asking(engine, 1, arrivals(Law::Constant { earlier_ns: Nanos(0) }, 2_000), 500);
        receiver.application().compute_ns = Nanos(2 * MS);
        let (sent, _) = run(&sender, &receiver);
        check_accounts(&sent, 1);
        let open = open(&sent);
        assert!(open.due.abs_diff(1_000) <= 1);
        // 250 could be answered; fewer were where this machine is busy.
        assert!(open.begun <= 252, "{}", open.begun);
        assert_eq!(open.missed, open.due - open.begun);
        // The first found the connection free; all others waited for it.
        assert_eq!(open.waiting.count(), open.begun - 1);
        // Arrival k begins at 2 ms x k at the earliest and was due at 0.5 ms x k: the mean wait is that of the middle.
        let waiting = all(&open.waiting);
        let mean = waiting.sum_ns / waiting.count;
        assert!(mean >= (open.begun / 2).saturating_sub(2) * (2 * MS - MS / 2), "{mean}");
        // Service time knows nothing of it: one at a time is served, so that together they take the time of the load. That
        // is the omission that response time avoids.
        let service = all(&sent.totals.service_time);
        let elapsed = sent.stopped_ns.unwrap().minus(sent.first_operation_ns.unwrap()).0;
        assert!(service.sum_ns <= elapsed, "{} of {elapsed} ns", service.sum_ns);
        assert!(all(&open.response_time).sum_ns > waiting.sum_ns);
        // 3 of 4 were never begun, and the oldest of them had waited for as long as it was to at the stop.
        assert!(open.oldest_wait_ns.0 > 300 * MS, "{:?}", open.oldest_wait_ns);
    }
}

#[test]
fn what_an_answer_takes_begins_when_its_request_is_here() {
    for engine in ENGINES {
        // The server is idle for 18 of 20 ms: what it computed ahead would be in no response time.
        let (sender, mut receiver) =
            asking(engine, 1, arrivals(Law::Constant { earlier_ns: Nanos(0) }, 50), 300);
        receiver.application().compute_ns = Nanos(2 * MS);
        let (sent, received) = run(&sender, &receiver);
        check_accounts(&sent, 1);
        let (open, answered) = (open(&sent), received.totals.operations);
        assert!(answered > 1);
        let response = all(&open.response_time);
        assert!(response.sum_ns >= 2 * MS * answered, "{engine:?}: {} ns for {answered}", response.sum_ns);
        // At the server it is service too, of these and no others.
        let service = all(&received.totals.service_time);
        assert!(service.sum_ns >= 2 * MS * answered, "{engine:?}: {} ns for {answered}", service.sum_ns);
        assert!(received.totals.compute_ns.0 < 2 * MS * (answered + 1), "{engine:?}");
    }
}

#[test]
fn an_arrival_makes_all_operations_of_its_burst_on_one_connection() {
    for engine in ENGINES {
        let (mut sender, receiver) =
            asking(engine, 5, arrivals(Law::Constant { earlier_ns: Nanos(0) }, 200), 500);
        (sender.application().burst, sender.application().think_ns) = (4, Nanos(MS / 10));
        let (sent, _) = run(&sender, &receiver);
        check_accounts(&sent, 4);
        let operations = sent.totals.operations;
        assert!(open(&sent).due.abs_diff(100) <= 1);
        // The stop may cut the burst of each connection short.
        let begun = open(&sent).begun;
        let least = 4 * begun.saturating_sub(5);
        assert!(
            begun > 0 && (least..=4 * begun).contains(&operations),
            "{engine:?}: {operations} of {begun}"
        );
        check_missed(&sent, 200, 5);
        // Three pauses at the least in each of the whole bursts: pauses are no response time.
        let pauses = 3 * begun.saturating_sub(5);
        assert!(sent.totals.think_ns.0 >= pauses * MS / 10, "{:?} of {begun}", sent.totals.think_ns);
    }
}

#[test]
fn a_burst_of_a_closed_loop_is_made_without_a_pause() {
    for engine in ENGINES {
        let (mut sender, receiver) = asking(engine, 1, None, 300);
        (sender.application().burst, sender.application().think_ns) = (10, Nanos(20 * MS));
        // 15 pauses at most, and ten operations before each; the stop may cut a burst short, but not one after the other.
        let mut operations = 1;
        for _ in 0..5 {
            operations = run(&sender, &receiver).0.totals.operations;
            assert!((1..=160).contains(&operations), "{engine:?}: {operations}");
            if operations % 10 == 0 {
                break;
            }
        }
        assert_eq!(operations % 10, 0, "{engine:?}");
    }
}

#[test]
fn arrivals_of_a_transport_that_does_nothing_are_all_begun() {
    for engine in ENGINES {
        let mut sender = job(Role::Send, engine, 2, 100, 300);
        (sender.load.transport, sender.load.address) = (Transport::Null, None);
        sender.load.arrivals = arrivals(Law::OnOff { on_ns: Nanos(5 * MS), off_ns: Nanos(15 * MS) }, 10_000);
        let sent = connect(&sender, &Cancel::default()).unwrap().arm(clock::monotonic()).join();
        check_accounts(&sent, 1);
        let due = open(&sent).due;
        assert!(due.abs_diff(3_000) < 500, "{due}");
        // Four times the rate in the quarter of the time that it is on.
        check_missed(&sent, 40_000, 2);
    }
}

#[test]
fn more_arrivals_than_anybody_can_begin_are_counted_and_end_on_time() {
    for engine in ENGINES {
        let (sender, receiver) = asking(engine, 2, arrivals(Law::Poisson {}, 5_000_000), 300);
        let before = clock::monotonic();
        let (sent, _) = run(&sender, &receiver);
        check_accounts(&sent, 1);
        assert!(open(&sent).due.abs_diff(1_500_000) < 10_000, "{}", open(&sent).due);
        assert!(open(&sent).missed > 0);
        // It ends: those that were not begun are counted, not caught up with.
        assert!(clock::monotonic().minus(before) < Nanos(30_000 * MS));
    }
}

#[test]
fn a_peer_that_goes_while_a_connection_waits_for_its_arrival_is_noticed() {
    let rare = Arrivals {
        period_ns: Nanos(60 * Nanos::SECOND.0),
        ..arrivals(Law::Constant { earlier_ns: Nanos(0) }, 1).unwrap()
    };
    let (sender, receiver) = asking(Engine::Epoll, 3, Some(rare), 120_000);
    let cancel = Cancel::default();
    let (sending, receiving) = crate::pair::prepare(&sender, &receiver, &cancel).unwrap();
    let start = clock::monotonic().plus(Nanos(30 * MS));
    let (receiving, sending) = (receiving.arm(start), sending.arm(start));
    clock::sleep_until(start.plus(Nanos(100 * MS))).unwrap();
    receiving.stop();
    drop(receiving);
    // Long before the first arrival.
    let sent = sending.join();
    assert_eq!(sent.totals.connections_lost, 3);
    assert!(sent.stopped_ns.unwrap() < start.plus(Nanos(50_000 * MS)), "{:?}", sent.stopped_ns);
}
