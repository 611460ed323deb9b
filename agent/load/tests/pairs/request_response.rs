//! Requests and answers over real sockets, in every combination of engines.

use crate::pair::{both_moved, check_consistent, engines, job, run, run_until, with, Parts, ENGINES, MS};
use iodyno_core::histogram::Snapshot;
use iodyno_core::job::Job;
use iodyno_core::network::{Engine, Network, Role, TrafficKind, Transport};
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::supports;

fn exchange(role: Role, engine: Engine, connections: u32, request: u64, answer: u64) -> Job<Network> {
    let plain = job(role, engine, connections, request, 300);
    with(plain, |job| {
        job.load.traffic = TrafficKind::RequestResponse.into();
        *job.answer() = Bytes(answer);
    })
}

#[test]
fn every_request_has_its_answer_between_any_two_engines() {
    for sending in engines() {
        for receiving in engines() {
            for (connections, request, answer) in
                [(1, 1, 1), (7, 1_000, 100_003), (40, 200_000, 13), (2, 3_000_000, 2_500_000)]
            {
                let of = |role, engine| {
                    let mut job = exchange(role, engine, connections, request, answer);
                    job.windows.measured_ns = Nanos(50 * MS);
                    job
                };
                let (sender, receiver) = (of(Role::Send, sending), of(Role::Receive, receiving));
                let (sent, received) = run_until(&sender, &receiver, both_moved);
                let case = format!("{sending:?} to {receiving:?}, {connections} x {request}/{answer}");
                for finished in [&sent, &received] {
                    check_consistent(&finished.totals, connections);
                    let totals = &finished.totals;
                    assert_eq!(totals.connections_lost, 0, "{case}: {:?}", totals.lost_reason);
                }
                assert_eq!(sent.totals.connection_bytes, received.totals.connection_bytes, "{case}");
                assert_eq!(sent.totals.operations, received.totals.operations, "{case}");
                assert!(sent.totals.operations > 0, "{case}");
                // A request that was not wholly out at the stop has no answer.
                let whole = sent.totals.operations * request;
                assert!(whole <= sent.totals.bytes, "{case}");
                assert!(sent.totals.bytes - whole < u64::from(connections) * request, "{case}");
            }
        }
    }
}

#[test]
fn one_request_is_outstanding_on_each_connection() {
    // Little's law (1961): connections = rate x service time, as no time passes between two requests.
    for engine in ENGINES {
        let sender = exchange(Role::Send, engine, 4, 1_000, 1_000);
        let (sent, received) = run(&sender, &exchange(Role::Receive, engine, 4, 1_000, 1_000));
        let busy = |finished: &iodyno_load::Finished| {
            finished.totals.service_time.since(&Snapshot::default()).sum_ns
        };
        let elapsed = sent.stopped_ns.unwrap().minus(sent.first_operation_ns.unwrap()).0;
        assert!(busy(&sent) <= 4 * elapsed, "{engine:?}: {} of 4 x {elapsed}", busy(&sent));
        // The rest is what a thread needs between an answer and the next request; it may have to wait for a CPU.
        assert!(busy(&sent) >= 2 * elapsed, "{engine:?}: {} of 4 x {elapsed}", busy(&sent));
        // What the receiver does lies within what the sender waits for.
        assert!(busy(&received) < busy(&sent), "{engine:?}");
    }
}

#[test]
fn thinking_ends_answer_at_the_rate_of_their_pauses() {
    for engine in ENGINES {
        let mut sender = exchange(Role::Send, engine, 3, 500, 500);
        sender.application().think_ns = Nanos(10 * MS);
        let mut receiver = exchange(Role::Receive, engine, 3, 500, 500);
        receiver.application().think_ns = Nanos(15 * MS);
        let (sent, received) = run(&sender, &receiver);
        assert_eq!(sent.totals.operations, received.totals.operations, "{engine:?}");
        // The pauses of both ends overlap: the longer one counts, and the first request waits for none.
        assert!((1..=3 * (300 / 15 + 1)).contains(&sent.totals.operations), "{engine:?}");
    }
}

#[test]
fn requests_to_nowhere_are_refused() {
    let mut sender = exchange(Role::Send, Engine::Threads, 1, 1, 1);
    sender.load.transport = Transport::Null;
    assert_eq!(supports(&sender.load).unwrap_err().place, "transport");
    sender = exchange(Role::Send, Engine::Threads, 1, 1, 0);
    assert_eq!(sender.load.check().unwrap_err().key, "response_bytes");
}

#[test]
fn who_looks_again_and_again_exchanges_the_same_and_ends() {
    for transport in [Transport::Tcp, Transport::Unix] {
        for (asks, answers) in [(true, true), (true, false), (false, true)] {
            // One connection: those who look again and again and share a CPU wait for each other.
            let of = |role, busy_wait| {
                with(crate::pair::over(transport, exchange(role, Engine::Epoll, 1, 700, 9_000)), |job| {
                    job.exchange().busy_wait = busy_wait;
                })
            };
            let (mut sender, mut receiver) = (of(Role::Send, asks), of(Role::Receive, answers));
            for job in [&mut sender, &mut receiver] {
                job.windows.measured_ns = Nanos(50 * MS);
            }
            let (sent, received) = run_until(&sender, &receiver, both_moved);
            let case = format!("{transport:?}, {asks}, {answers}");
            for finished in [&sent, &received] {
                check_consistent(&finished.totals, 1);
                assert_eq!(finished.totals.connections_lost, 0, "{case}: {:?}", finished.totals.lost_reason);
            }
            assert_eq!(sent.totals.connection_bytes, received.totals.connection_bytes, "{case}");
            assert_eq!(sent.totals.operations, received.totals.operations, "{case}");
            assert!(sent.totals.operations > 0, "{case}");
        }
    }
}

#[test]
fn who_sleeps_in_the_kernel_cannot_look_again_and_again() {
    let asking = exchange(Role::Send, Engine::Epoll, 1, 64, 64);
    assert_eq!(supports(&with(asking.clone(), |job| job.exchange().busy_wait = true).load), Ok(()));
    let refused = with(asking, |job| {
        job.load.engine = Engine::Threads;
        job.exchange().busy_wait = true;
    });
    assert_eq!(supports(&refused.load).unwrap_err().place, "busy_wait");
}
