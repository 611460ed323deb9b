//! Requests and answers in datagrams over loopback, in every combination of engines and syscalls.

use crate::pair::{both_moved, check_consistent, engines, job, run, run_until, with, Parts, ENGINES, MS};
use iodyno_core::arrivals::{Arrivals, Law, Sizes};
use iodyno_core::histogram::Snapshot;
use iodyno_core::job::Job;
use iodyno_core::network::{Engine, Network, Role, Syscalls, TrafficKind, Transport};
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{supports, Finished};

const SYSCALLS: [Syscalls; 4] = [Syscalls::ReadWrite, Syscalls::Message, Syscalls::Batch, Syscalls::Segments];

/// Long enough on a quiet machine; on a busy one `run_until` takes longer ones.
const LOAD_MS: u64 = 40;

/// The ways of an engine that this host has.
fn ways(role: Role) -> Vec<(Engine, Syscalls)> {
    let pairs = engines().into_iter().flat_map(|engine| {
        [Syscalls::ReadWrite, Syscalls::ZeroCopy, Syscalls::Batch].map(|syscalls| (engine, syscalls))
    });
    pairs
        .filter(|(engine, syscalls)| supports(&exchange(role, *engine, *syscalls, 1, 1).load).is_ok())
        .collect()
}

/// 64 to 512 bytes: the mean is 288, with a standard deviation of 129.6.
fn uniform() -> Option<Sizes> {
    Some(Sizes::Uniform { least_bytes: Bytes(64), greatest_bytes: Bytes(512) })
}

/// Six standard errors around the mean of [`uniform`].
fn is_mean(bytes: u64, count: u64) -> bool {
    (bytes as f64 / count as f64 - 288.0).abs() < 6.0 * 129.6 / (count as f64).sqrt()
}

fn exchange(role: Role, engine: Engine, syscalls: Syscalls, flows: u32, queue_depth: u32) -> Job<Network> {
    let plain = job(role, engine, flows, 512, LOAD_MS);
    with(plain, |job| {
        job.load.traffic = TrafficKind::RequestResponse.into();
        job.load.transport = Transport::Udp;
        *job.answer() = Bytes(1024);
        job.load.syscalls = syscalls;
        job.load.batch = 16;
        job.exchange().queue_depth = queue_depth;
    })
}

#[test]
fn every_request_has_its_answer_between_any_two_engines_and_syscalls() {
    for sending in ENGINES {
        for receiving in ENGINES {
            for syscalls in SYSCALLS {
                for (flows, queue_depth) in [(1, 1), (5, 1), (3, 24)] {
                    let sender = exchange(Role::Send, sending, syscalls, flows, queue_depth);
                    let receiver = exchange(Role::Receive, receiving, syscalls, flows, queue_depth);
                    let (sent, received) =
                        run_until(&sender, &receiver, |sent, _| sent.totals.operations > u64::from(flows));
                    let case = format!("{sending:?} to {receiving:?}, {syscalls:?}, {flows} x {queue_depth}");
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
                    let takes_several = matches!(syscalls, Syscalls::Batch | Syscalls::Segments);
                    assert_eq!(batch.is_some(), takes_several, "{case}");
                }
            }
        }
    }
}

#[test]
fn a_request_without_an_answer_is_asked_again_and_then_lost() {
    for engine in ENGINES {
        let mut sender = exchange(Role::Send, engine, Syscalls::ReadWrite, 2, 1);
        sender.load.response_timeout_ns = Nanos(20 * MS);
        sender.exchange().retries = 1;
        // A server that computes for longer than that: every answer comes too late for its first request.
        let mut receiver = exchange(Role::Receive, Engine::Threads, Syscalls::ReadWrite, 2, 1);
        receiver.application().compute_ns = Nanos(50 * MS);
        let (sent, received) = run_until(&sender, &receiver, |sent, _| sent.totals.datagrams.lost > 0);
        let asked = sent.totals.datagrams;
        assert!(asked.lost > 0 && asked.retries > 0, "{engine:?}: {asked:?}");
        assert_eq!(asked.sent - asked.retries, asked.received + asked.lost, "{engine:?}: {asked:?}");
        assert!(received.totals.datagrams.received <= asked.sent);
        assert_eq!(sent.totals.connections_lost, 0, "{:?}", sent.totals.lost_reason);
    }
}

#[test]
fn every_datagram_of_a_stream_came_or_is_counted_as_lost() {
    for sending in ENGINES {
        for receiving in ENGINES {
            for syscalls in SYSCALLS {
                for flows in [1, 6] {
                    let of = |role, engine| {
                        with(job(role, engine, flows, 1_000, LOAD_MS), |job| {
                            job.load.transport = Transport::Udp;
                            job.load.syscalls = syscalls;
                            job.load.batch = 16;
                        })
                    };
                    let (sender, receiver) = (of(Role::Send, sending), of(Role::Receive, receiving));
                    let (sent, received) = run_until(&sender, &receiver, both_moved);
                    let case = format!("{sending:?} to {receiving:?}, {syscalls:?}, {flows} flows");
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
        law: Law::Constant { earlier_ns: Nanos(0) },
        operations: 2_000,
        period_ns: Nanos::SECOND,
        per_connection: false,
        seed: 7,
    };
    for engine in engines() {
        for workload in [TrafficKind::Stream, TrafficKind::RequestResponse] {
            for syscalls in SYSCALLS {
                if supports(&exchange(Role::Send, engine, syscalls, 4, 1).load).is_err() {
                    continue;
                }
                let mut sender = exchange(Role::Send, engine, syscalls, 4, 1);
                sender.load.arrivals = Some(arrivals.clone());
                sender.windows.measured_ns = Nanos(150 * MS);
                let mut receiver = exchange(Role::Receive, Engine::Threads, syscalls, 4, 1);
                receiver.windows = sender.windows;
                if workload == TrafficKind::Stream {
                    sender.load.traffic = workload.into();
                    receiver.load.traffic = workload.into();
                }
                let (sent, received) = run(&sender, &receiver);
                let open = sent.totals.open_loop.unwrap();
                let case = format!("{engine:?} {workload:?} {syscalls:?}");
                // 2000 a second for 150 ms.
                assert!(open.due.abs_diff(300) <= 1, "{case}: {}", open.due);
                assert_eq!(open.due, open.begun + open.missed, "{case}");
                let datagrams = sent.totals.datagrams;
                assert_eq!(datagrams.sent, open.begun, "{case}");
                assert_eq!(open.response_time.count(), sent.totals.operations, "{case}");
                if workload == TrafficKind::Stream {
                    let calls = sent.totals.batch.unwrap().since(&Snapshot::default());
                    assert_eq!(calls.sum_ns, datagrams.sent, "{case}: messages of {} calls", calls.count);
                }
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

#[test]
fn a_sender_that_is_behind_is_late_and_does_not_wait_for_itself() {
    // All flows are one worker's, who is asked for more than any can send: each flow would have been free.
    let mut sender = exchange(Role::Send, Engine::Epoll, Syscalls::ReadWrite, 8, 1);
    sender.load.traffic = TrafficKind::Stream.into();
    sender.windows.measured_ns = Nanos(300 * MS);
    sender.cpus = iodyno_sys::affinity::allowed().unwrap()[..1].to_vec();
    sender.load.arrivals = Some(Arrivals {
        law: Law::Poisson {},
        operations: 20_000_000,
        period_ns: Nanos::SECOND,
        per_connection: false,
        seed: 7,
    });
    let mut receiver = exchange(Role::Receive, Engine::Threads, Syscalls::ReadWrite, 8, 1);
    receiver.load.traffic = TrafficKind::Stream.into();
    receiver.windows = sender.windows;
    // A worker that has no CPU for a while comes back to flows that others keep busy.
    let late_for_itself = |sent: &Finished, _: &Finished| {
        let open = sent.totals.open_loop.as_ref().unwrap();
        let [late, waiting] =
            [&open.lateness, &open.waiting].map(|times| times.since(&Snapshot::default()).sum_ns);
        open.missed > 0 && late > waiting
    };
    let (sent, received) = run_until(&sender, &receiver, late_for_itself);
    assert!(late_for_itself(&sent, &received));
}

#[test]
fn every_way_asks_and_answers_on_any_other() {
    for (asking, asked_by) in ways(Role::Send) {
        for (answering, answered_by) in ways(Role::Receive) {
            for (flows, queue_depth) in [(5, 1), (3, 24)] {
                let sender = exchange(Role::Send, asking, asked_by, flows, queue_depth);
                let receiver = exchange(Role::Receive, answering, answered_by, flows, queue_depth);
                let (sent, received) =
                    run_until(&sender, &receiver, |sent, _| sent.totals.operations > u64::from(flows));
                let case = format!(
                    "{asking:?} {asked_by:?} to {answering:?} {answered_by:?}, {flows} x {queue_depth}"
                );
                for finished in [&sent, &received] {
                    check_consistent(&finished.totals, flows);
                    assert_eq!(
                        finished.totals.connections_lost, 0,
                        "{case}: {:?}",
                        finished.totals.lost_reason
                    );
                }
                let (asked, answered) = (sent.totals.datagrams, received.totals.datagrams);
                assert!(sent.totals.operations > u64::from(flows), "{case}: {asked:?}");
                assert_eq!(asked.sent, asked.received + asked.lost, "{case}: {asked:?}");
                assert!(answered.received <= asked.sent, "{case}: {asked:?} {answered:?}");
                assert!(asked.received <= answered.sent, "{case}: {asked:?} {answered:?}");
                assert_eq!((asked.foreign, answered.foreign), (0, 0), "{case}");
                let copies = |finished: &iodyno_load::Finished| finished.totals.rare.completed > 0;
                assert_eq!(copies(&sent), asked_by == Syscalls::ZeroCopy, "{case}");
                assert_eq!(copies(&received), answered_by == Syscalls::ZeroCopy, "{case}");
            }
        }
    }
}

#[test]
fn a_stream_by_any_way_came_or_is_counted_as_lost() {
    for (sending, sent_by) in ways(Role::Send) {
        for (receiving, received_by) in ways(Role::Receive) {
            for flows in [1, 6] {
                let of = |role, engine, syscalls| {
                    with(job(role, engine, flows, 1_000, LOAD_MS), |job| {
                        job.load.transport = Transport::Udp;
                        job.load.syscalls = syscalls;
                        job.load.batch = 16;
                    })
                };
                let receiver = of(Role::Receive, receiving, received_by);
                let sender = of(Role::Send, sending, sent_by);
                let (sent, received) = run_until(&sender, &receiver, both_moved);
                let case = format!("{sending:?} {sent_by:?} to {receiving:?} {received_by:?}, {flows} flows");
                for finished in [&sent, &received] {
                    check_consistent(&finished.totals, flows);
                    assert_eq!(finished.totals.connections_lost, 0, "{case}");
                }
                let (left, came) = (sent.totals.datagrams, received.totals.datagrams);
                assert_eq!(left.sent, sent.totals.operations, "{case}");
                assert_eq!(received.totals.bytes, came.received * 1_000, "{case}");
                assert!(came.received > 0, "{case}");
                assert_eq!(left.sent, came.received + came.lost, "{case}: {left:?} {came:?}");
            }
        }
    }
}

#[test]
fn datagrams_of_drawn_sizes_have_them_on_every_way() {
    for (sending, sent_by) in ways(Role::Send) {
        for workload in [TrafficKind::Stream, TrafficKind::RequestResponse] {
            let mut sender = exchange(Role::Send, sending, sent_by, 3, 4);
            (sender.load.message_sizes, sender.load.seed) = (uniform(), 5);
            if workload == TrafficKind::Stream {
                sender.load.traffic = workload.into();
            }
            let receiver = with(sender.clone(), |job| {
                job.load.role = Role::Receive;
                job.load.engine = Engine::Threads;
            });
            let receiver = with(receiver, |job| {
                job.load.syscalls = Syscalls::Message;
            });
            let (sent, received) = run_until(&sender, &receiver, both_moved);
            let case = format!("{sending:?} {sent_by:?} {workload:?}");
            let (left, came) = (sent.totals.datagrams.sent, received.totals.datagrams.received);
            assert!(is_mean(sent.totals.bytes, left), "{case}: {} of {left}", sent.totals.bytes);
            assert!(is_mean(received.totals.bytes, came), "{case}: {} of {came}", received.totals.bytes);
            assert_eq!(received.totals.connections_lost + sent.totals.connections_lost, 0, "{case}");
        }
    }
}

#[test]
fn a_size_without_room_for_the_token_is_refused() {
    let mut sender = exchange(Role::Send, Engine::Epoll, Syscalls::ReadWrite, 1, 1);
    sender.load.address = Some("127.0.0.1:9".to_owned());
    sender.load.message_sizes = Some(Sizes::Trace { sizes_bytes: vec![Bytes(100), Bytes(23)] });
    let refused = sender.load.check().unwrap_err();
    assert_eq!((refused.key, refused.found.as_str()), ("message_sizes", "23 bytes"));
    sender.load.message_sizes = uniform();
    sender.load.syscalls = Syscalls::Segments;
    assert_eq!(supports(&sender.load).unwrap_err().place, "message_sizes");
}

#[test]
fn a_server_that_looks_again_and_again_never_sleeps() {
    for (engine, syscalls) in [(Engine::Epoll, Syscalls::ReadWrite), (Engine::Threads, Syscalls::Batch)] {
        let mut sender = exchange(Role::Send, Engine::Epoll, Syscalls::ReadWrite, 3, 1);
        let mut receiver = exchange(Role::Receive, engine, syscalls, 3, 1);
        (sender.exchange().busy_wait, receiver.exchange().busy_wait) = (true, true);
        let (sent, received) = run_until(&sender, &receiver, |sent, _| sent.totals.operations > 3);
        let (asked, answered) = (sent.totals.datagrams, received.totals.datagrams);
        for finished in [&sent, &received] {
            check_consistent(&finished.totals, 3);
            assert_eq!(finished.totals.connections_lost, 0, "{:?}", finished.totals.lost_reason);
        }
        assert_eq!(asked.sent, asked.received + asked.lost, "{engine:?}: {asked:?}");
        assert_eq!((answered.polls, answered.wakeups), (0, 0), "{engine:?}: {answered:?}");
        assert!(answered.empty > 0 && answered.requests > 0, "{engine:?}: {answered:?}");
    }
    // A blocking call sleeps.
    let asking = exchange(Role::Send, Engine::Threads, Syscalls::ReadWrite, 1, 1);
    assert_eq!(
        supports(
            &with(asking, |job| {
                job.exchange().busy_wait = true;
            })
            .load
        )
        .unwrap_err()
        .place,
        "busy_wait"
    );
}
