//! Bulk transmit over real sockets, in every combination of engines.

use crate::pair::{both_moved, check_consistent, job, prepare, run_until, stream_engines, ENGINES, MS};
use iodyno_core::network::{Engine, Role, SocketNumber, SocketOptions, Transport};
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{connect, null_cost, Cancel};
use iodyno_sys::clock;

fn every_byte_arrives(sending: Engine, receiving: Engine, connections: u32, message: u64) {
    let sender = job(Role::Send, sending, connections, message, 50);
    let receiver = job(Role::Receive, receiving, connections, message, 50);
    let (sent, received) =
        run_until(&sender, &receiver, |sent, _| sent.totals.connection_bytes.iter().all(|bytes| *bytes > 0));
    let case = format!("{sending:?} to {receiving:?}, {connections} x {message}");
    for finished in [&sent, &received] {
        check_consistent(&finished.totals, connections);
        assert_eq!(finished.totals.connections_lost, 0, "{case}: {:?}", finished.totals.lost_reason);
        let (first, last) = (finished.first_operation_ns.unwrap(), finished.last_worker_started_ns.unwrap());
        assert!(first <= last && last <= finished.stopped_ns.unwrap(), "{case}");
    }
    // Connections are numbered alike on both ends.
    assert_eq!(sent.totals.connection_bytes, received.totals.connection_bytes, "{case}");
    assert!(sent.totals.connection_bytes.iter().all(|bytes| *bytes > 0), "{case}: a connection starved");
    // What was begun and not completed at the stop is less than a message on each connection.
    let whole = sent.totals.operations * message;
    assert!(whole <= sent.totals.bytes, "{case}");
    assert!(sent.totals.bytes - whole < u64::from(connections) * message, "{case}");
    assert!(received.totals.operations <= received.totals.bytes, "{case}");
}

#[test]
fn every_byte_arrives_between_any_two_engines() {
    let sizes = [(1, 65_536), (7, 1_000), (300, 4_097)];
    // Each engine sends and receives all of them, each pair of engines one.
    for (row, sending) in stream_engines().into_iter().enumerate() {
        for (column, receiving) in stream_engines().into_iter().enumerate() {
            let (connections, message) = sizes[(row + column) % sizes.len()];
            every_byte_arrives(sending, receiving, connections, message);
        }
    }
}

#[test]
fn a_reader_with_a_low_water_mark_gets_every_byte() {
    for engine in ENGINES {
        let sender = job(Role::Send, engine, 3, 1_000, 300);
        let mut receiver = job(Role::Receive, engine, 3, 1_000, 300);
        receiver.load.socket.receive_low_water_bytes = Some(Bytes(30_000));
        let (sent, received) = run_until(&sender, &receiver, both_moved);
        // The last bytes, fewer than the mark, come with the end.
        assert_eq!(sent.totals.connection_bytes, received.totals.connection_bytes, "{engine:?}");
        assert_eq!(received.totals.connections_lost, 0, "{engine:?}: {:?}", received.totals.lost_reason);
    }
}

#[test]
fn odd_message_sizes_are_counted_exactly() {
    for engine in [Engine::Threads, Engine::Epoll, Engine::RoundRobin] {
        for message in [1, 13, 100_003, 5_000_001] {
            every_byte_arrives(engine, engine, 3, message);
        }
    }
}

#[test]
fn it_runs_over_ipv6_where_there_is_one() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let mut receiver = job(Role::Receive, Engine::Epoll, 3, 1_000, 100);
    receiver.load.address = Some("[::1]:0".to_owned());
    let (sent, received) = run_until(&job(Role::Send, Engine::Threads, 3, 1_000, 100), &receiver, both_moved);
    assert!(sent.totals.bytes > 0);
    assert_eq!(sent.totals.bytes, received.totals.bytes);
}

#[test]
fn nothing_moves_before_the_start_and_the_meter_never_goes_back() {
    for engine in [Engine::Threads, Engine::Epoll, Engine::RoundRobin] {
        let (sender, receiver) = prepare(
            &job(Role::Send, engine, 4, 10_000, 300),
            &job(Role::Receive, engine, 4, 10_000, 300),
            &Cancel::default(),
        )
        .unwrap();
        assert_eq!(sender.connections(), 4);
        assert_eq!(sender.sockets().len(), 4);
        assert_eq!(sender.thread_ids().len(), sender.workers() as usize);
        assert!(sender.thread_ids().iter().all(|id| *id > 0));
        let start = clock::monotonic().plus(Nanos(200 * MS));
        let (receiving, sending) = (receiver.arm(start), sender.arm(start));
        let meter = sending.meter();
        clock::sleep_until(start.minus(Nanos(50 * MS))).unwrap();
        let early = meter.read();
        if clock::monotonic() < start {
            assert_eq!((early.bytes, early.operations), (0, 0));
        }
        let mut before = early;
        while !sending.is_finished() {
            let now = meter.read();
            assert!(now.bytes >= before.bytes && now.operations >= before.operations);
            assert_eq!(now.bytes, now.connection_bytes.iter().sum::<u64>());
            before = now;
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let finished = sending.join();
        assert!(finished.first_operation_ns.unwrap() >= start);
        assert!(finished.stopped_ns.unwrap() >= start.plus(Nanos(300 * MS)));
        assert_eq!(finished.totals.bytes, receiving.join().totals.bytes);
        // A meter outlives its job.
        assert_eq!(meter.read().bytes, finished.totals.bytes);
    }
}

#[test]
fn options_are_asked_for_and_read_back_on_both_ends() {
    let socket = SocketOptions {
        send_buffer_bytes: Some(Bytes(50_000)),
        receive_buffer_bytes: Some(Bytes(60_000)),
        nagle: Some(false),
        congestion_control: Some("reno".to_owned()),
        ..SocketOptions::default()
    };
    for engine in ENGINES {
        let mut sender = job(Role::Send, engine, 3, 1_000, 50);
        let mut receiver = job(Role::Receive, engine, 3, 1_000, 50);
        sender.load.socket = socket.clone();
        receiver.load.socket = socket.clone();
        let (sender, receiver) = prepare(&sender, &receiver, &Cancel::default()).unwrap();
        for end in [&sender, &receiver] {
            let obtained = end.obtained();
            // The kernel doubles buffers for its own bookkeeping.
            assert_eq!(obtained.send_buffer_bytes, Some(Bytes(100_000)));
            assert_eq!(obtained.receive_buffer_bytes, Some(Bytes(120_000)));
            assert_eq!(obtained.nagle, Some(false));
            assert_eq!(obtained.congestion_control.as_deref(), Some("reno"));
            assert!(obtained.segment_bytes.unwrap().0 >= 500);
            assert_eq!(obtained.differing, 0);
        }
    }
}

#[test]
fn options_that_are_one_number_are_in_force_on_both_ends() {
    let kept = [
        (SocketNumber::Dscp, 46),
        (SocketNumber::PacingRate, 8_000_000_000),
        (SocketNumber::UserTimeout, 5_000_000_000),
        (SocketNumber::Priority, 4),
        (SocketNumber::ReusePort, 1),
    ];
    let [mut sender, mut receiver] =
        [Role::Send, Role::Receive].map(|role| job(role, Engine::Epoll, 2, 1_000, 100));
    for end in [&mut sender, &mut receiver] {
        end.load.socket.numbers = kept.into();
        end.load.socket.numbers.extend([(SocketNumber::Mss, 1_000), (SocketNumber::QuickAck, 1)]);
    }
    let (sender, receiver) = prepare(&sender, &receiver, &Cancel::default()).unwrap();
    for obtained in [sender.obtained(), receiver.obtained()] {
        // The timestamps of TCP lie in the segment, too.
        assert!((900..=1_000).contains(&obtained.numbers[&SocketNumber::Mss]), "{obtained:?}");
        assert!(!obtained.numbers.contains_key(&SocketNumber::QuickAck), "the kernel does not keep it");
        for (number, value) in kept {
            assert_eq!(obtained.numbers[&number], value, "{number:?}");
        }
    }
}

#[test]
fn the_null_transport_accepts_everything() {
    for engine in ENGINES {
        // Longer where others have the CPUs, and a worker did not come to one in time.
        let carried = [50, 1_000, 20_000].into_iter().any(|load_ms| {
            let mut sender = job(Role::Send, engine, 2, 1_000, load_ms);
            (sender.load.transport, sender.load.address) = (Transport::Null, None);
            let prepared = connect(&sender, &Cancel::default()).unwrap();
            assert!(prepared.sockets().is_empty());
            let finished = prepared.arm(clock::monotonic()).join();
            check_consistent(&finished.totals, 2);
            assert_eq!(finished.totals.bytes, finished.totals.operations * 1_000);
            finished.totals.connection_bytes.iter().all(|bytes| *bytes > 0)
        });
        assert!(carried, "{engine:?}: a connection without a byte");
        let known = [20, 1_000, 20_000].into_iter().any(|load_ms| {
            let cost = null_cost(engine, Nanos(load_ms * MS));
            cost.is_finite() && cost > 0.0
        });
        assert!(known, "{engine:?}: no operation without a path");
    }
}

#[test]
fn a_cpu_that_is_not_there_is_refused() {
    // CPUs that this machine does not have are a fault of the job, not silently another placement.
    let mut sender = job(Role::Send, Engine::Epoll, 1, 1_000, 50);
    (sender.load.transport, sender.load.address, sender.cpus) = (Transport::Null, None, vec![8_000]);
    assert!(connect(&sender, &Cancel::default()).is_err());
}
