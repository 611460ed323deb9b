//! Requests and answers in datagrams over loopback, in every combination of drivers and interfaces.

mod pair;

use iodyno_core::arrivals::{Arrivals, Law};
use iodyno_core::histogram::Snapshot;
use iodyno_core::job::{Driver, Interface, Job, Role, Transport, Workload};
use iodyno_core::units::{Bytes, Nanos};
use pair::{check_consistent, job, run, DRIVERS, MS};

const INTERFACES: [Interface; 4] =
    [Interface::ReadWrite, Interface::Message, Interface::Batch, Interface::Segments];

fn exchange(role: Role, driver: Driver, interface: Interface, flows: u32, outstanding: u32) -> Job {
    let plain = job(role, driver, flows, 512, 300);
    Job {
        workload: Workload::RequestResponse,
        transport: Transport::Udp,
        answer_bytes: Bytes(1024),
        interface,
        batch: 16,
        outstanding,
        ..plain
    }
}

#[test]
fn every_request_has_its_answer_between_any_two_drivers_and_interfaces() {
    for sending in DRIVERS {
        for receiving in DRIVERS {
            for interface in INTERFACES {
                for (flows, outstanding) in [(1, 1), (5, 1), (3, 24)] {
                    let sender = exchange(Role::Send, sending, interface, flows, outstanding);
                    let receiver = exchange(Role::Receive, receiving, interface, flows, outstanding);
                    let (sent, received) = run(&sender, &receiver);
                    let case =
                        format!("{sending:?} to {receiving:?}, {interface:?}, {flows} x {outstanding}");
                    for finished in [&sent, &received] {
                        check_consistent(&finished.totals, flows);
                        let totals = &finished.totals;
                        assert_eq!(totals.connections_lost, 0, "{case}: {:?}", totals.lost_reason);
                    }
                    let (asked, answered) = (sent.totals.datagrams, received.totals.datagrams);
                    assert!(sent.totals.operations > u64::from(flows), "{case}: {asked:?}");
                    // A machine that is busy for longer than the timeout has late answers; nothing is ever lost from sight.
                    assert_eq!(asked.sent, asked.received + asked.lost, "{case}: {asked:?}");
                    assert!(answered.received <= asked.sent, "{case}: {asked:?} {answered:?}");
                    assert!(asked.received <= answered.sent, "{case}: {asked:?} {answered:?}");
                    assert_eq!(answered.requests, received.totals.operations, "{case}");
                    let batch = sent.totals.batch.map(|batch| batch.since(&Snapshot::default()));
                    let takes_several = matches!(interface, Interface::Batch | Interface::Segments);
                    assert_eq!(batch.is_some(), takes_several, "{case}");
                }
            }
        }
    }
}

#[test]
fn a_request_without_an_answer_is_asked_again_and_then_lost() {
    for driver in DRIVERS {
        let mut sender = exchange(Role::Send, driver, Interface::ReadWrite, 2, 1);
        sender.answer_timeout_ns = Nanos(20 * MS);
        sender.retries = 1;
        // A server that computes for longer than that: every answer comes too late for its first request.
        let mut receiver = exchange(Role::Receive, Driver::Threads, Interface::ReadWrite, 2, 1);
        receiver.compute_ns = Nanos(100 * MS);
        let (sent, received) = run(&sender, &receiver);
        let asked = sent.totals.datagrams;
        assert!(asked.lost > 0 && asked.retries > 0, "{driver:?}: {asked:?}");
        assert_eq!(asked.sent - asked.retries, asked.received + asked.lost, "{driver:?}: {asked:?}");
        assert!(received.totals.datagrams.received <= asked.sent);
        assert_eq!(sent.totals.connections_lost, 0, "{:?}", sent.totals.lost_reason);
    }
}

#[test]
fn every_datagram_of_a_stream_came_or_is_counted_as_lost() {
    for sending in DRIVERS {
        for receiving in DRIVERS {
            for interface in INTERFACES {
                for flows in [1, 6] {
                    let of = |role, driver| Job {
                        transport: Transport::Udp,
                        interface,
                        batch: 16,
                        ..job(role, driver, flows, 1_000, 200)
                    };
                    let (sent, received) = run(&of(Role::Send, sending), &of(Role::Receive, receiving));
                    let case = format!("{sending:?} to {receiving:?}, {interface:?}, {flows} flows");
                    for finished in [&sent, &received] {
                        check_consistent(&finished.totals, flows);
                        assert_eq!(finished.totals.connections_lost, 0, "{case}");
                    }
                    let (left, came) = (sent.totals.datagrams, received.totals.datagrams);
                    assert_eq!(left.sent, sent.totals.operations, "{case}");
                    assert_eq!(came.received, received.totals.operations, "{case}");
                    assert_eq!(received.totals.bytes, came.received * 1_000, "{case}");
                    assert!(came.received > 0, "{case}");
                    assert_eq!(left.sent, came.received + came.lost, "{case}: {left:?} {came:?}");
                }
            }
        }
    }
}

#[test]
fn an_open_loop_begins_what_is_due_and_counts_it() {
    let arrivals = Arrivals {
        law: Law::Constant {},
        operations: 2_000,
        period_ns: Nanos::SECOND,
        per_connection: false,
        seed: 7,
    };
    for driver in DRIVERS {
        for workload in [Workload::Stream, Workload::RequestResponse] {
            for interface in INTERFACES {
                let mut sender = exchange(Role::Send, driver, interface, 4, 1);
                (sender.workload, sender.arrivals) = (workload, Some(arrivals.clone()));
                let mut receiver = exchange(Role::Receive, Driver::Threads, interface, 4, 1);
                receiver.workload = workload;
                let (sent, received) = run(&sender, &receiver);
                let open = sent.totals.open_loop.unwrap();
                let case = format!("{driver:?} {workload:?} {interface:?}");
                // 2000 a second for 300 ms.
                assert!(open.due.abs_diff(600) <= 1, "{case}: {}", open.due);
                assert_eq!(open.due, open.begun + open.missed, "{case}");
                let datagrams = sent.totals.datagrams;
                assert_eq!(datagrams.sent, open.begun, "{case}");
                assert_eq!(open.response_time.count(), sent.totals.operations, "{case}");
                let lost = datagrams.lost + received.totals.datagrams.lost;
                assert_eq!(
                    open.begun,
                    received.totals.operations.min(sent.totals.operations) + lost,
                    "{case}"
                );
            }
        }
    }
}
