//! The application around the load: it computes, pauses and locks as it was told, in both engines.

use std::time::{Duration, Instant};

use crate::pair::{check_consistent, job, over, prepare, run, with, Parts, ENGINES, MS};
use iodyno_core::histogram::Snapshot;
use iodyno_core::job::{Job, Load};
use iodyno_core::network::{Engine, Network, Role, Syscalls, Transport};
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{connect, Cancel, Finished};
use iodyno_sys::clock;

const US: u64 = 1_000;

/// Runs a sender to nowhere.
fn to_nowhere(sender: &Job<Network>) -> Finished {
    let sender = with(sender.clone(), |job| {
        job.load.transport = Transport::Null;
        job.load.address = None;
    });
    let finished = connect(&sender, &Cancel::default()).unwrap().arm(clock::monotonic()).join();
    check_consistent(&finished.totals, sender.load.connections);
    finished
}

fn service_ns(finished: &Finished) -> u64 {
    finished.totals.service_time.since(&Snapshot::default()).sum_ns
}

#[test]
fn computing_takes_the_cpu_time_that_was_asked_for_and_is_no_service_time() {
    for engine in ENGINES {
        let mut sender = job(Role::Send, engine, 1, 1_000, 300);
        sender.application().compute_ns = Nanos(200 * US);
        let before = clock::process_cpu();
        let finished = to_nowhere(&sender);
        let spent = clock::process_cpu().minus(before);
        let (operations, computed) = (finished.totals.operations, finished.totals.compute_ns);
        assert!(operations > 10, "{engine:?}: {operations}");
        // A computation ends at the first look after its time; one look is at most 5 us after the one before.
        assert!(computed.0 >= operations * 200 * US, "{engine:?}: {computed:?} for {operations}");
        assert!(computed.0 <= (operations + 1) * 205 * US, "{engine:?}: {computed:?} for {operations}");
        // It is CPU time: this process cannot have computed more than it ran. 5 %: interrupts shorter than a
        // step count as computing, and some kernels take them out of the CPU time of the thread.
        assert!(computed.0 * 100 <= spent.0 * 105, "{engine:?}: {computed:?} of {spent:?}");
        assert!(service_ns(&finished) < computed.0 / 2, "{engine:?}: {}", service_ns(&finished));
    }
}

#[test]
fn thinking_connections_complete_operations_at_the_rate_of_the_response_time_law() {
    // X = N / (S + Z): Denning and Buzen 1978, the interactive response time formula.
    const CONNECTIONS: u64 = 20;
    const LOAD_NS: u64 = 500 * MS;
    let ways =
        [Transport::Tcp, Transport::Unix, Transport::Tls].map(|way| ENGINES.map(|engine| (way, engine)));
    for (transport, engine) in ways.into_iter().flatten() {
        // A loop that loses time does so each time; a machine that stalls, at one time or another.
        let accounted: Vec<f64> = (0..8).map_while(share_of(transport, engine)).collect();
        assert!(accounted.len() < 8, "{transport:?} {engine:?}: {accounted:?} of the time");
    }

    /// Share of the time of all connections that is in an operation or between two, while it is less than 85 %. A tenth is
    /// left out: a pause that the stop cuts short does not count.
    fn share_of(transport: Transport, engine: Engine) -> impl FnMut(u32) -> Option<f64> {
        move |_| {
            let mut sender = over(transport, job(Role::Send, engine, CONNECTIONS as u32, 100, 500));
            sender.application().think_ns = Nanos(10 * MS);
            let receiver = over(transport, job(Role::Receive, engine, CONNECTIONS as u32, 100, 500));
            let (sender, receiver) = prepare(&sender, &receiver, &Cancel::default()).unwrap();
            let start = clock::monotonic().plus(Nanos(30 * MS));
            let (receiving, sending) = (receiver.arm(start), sender.arm(start));
            let (sent, received) = (sending.join(), receiving.join());
            assert_eq!(sent.totals.bytes, received.totals.bytes);
            assert_eq!(sent.totals.connections_lost + received.totals.connections_lost, 0);
            let (operations, thought) = (sent.totals.operations, sent.totals.think_ns.0);
            // A busy machine may let the stop come late.
            let lasted = sent.stopped_ns.unwrap().minus(start).0;
            // Every connection may have begun a first operation and have one pause that the stop cut short.
            let most = CONNECTIONS * (lasted / (10 * MS) + 1);
            assert!(operations <= most, "{transport:?} {engine:?}: {operations} in {lasted} ns");
            assert!(thought >= operations.saturating_sub(CONNECTIONS) * 10 * MS, "{engine:?}: {thought}");
            // Time in an operation and time between operations are all the time there is.
            let busy = service_ns(&sent) + thought;
            let all = CONNECTIONS * lasted;
            assert!(busy <= all * 101 / 100, "{engine:?}: {busy} of {all}");
            // From when the last worker began to the stop.
            let begun = sent.last_worker_started_ns.unwrap();
            let share = busy as f64 / (CONNECTIONS * start.plus(Nanos(LOAD_NS)).minus(begun).0) as f64;
            (share < 0.85).then_some(share)
        }
    }
}

#[test]
fn a_completion_of_a_send_without_a_copy_ends_no_pause() {
    // Over loopback, completions come at once, and the kernel reports each as an error of the connection.
    let mut sender = job(Role::Send, Engine::Epoll, 4, 1_000, 300);
    (sender.load.syscalls, sender.application().think_ns) = (Syscalls::ZeroCopy, Nanos(20 * MS));
    let receiver = job(Role::Receive, Engine::Epoll, 4, 1_000, 300);
    let (sent, received) = run(&sender, &receiver);
    assert_eq!(sent.totals.bytes, received.totals.bytes);
    let lasted = sent.stopped_ns.unwrap().minus(sent.first_operation_ns.unwrap()).0;
    let (operations, most) = (sent.totals.operations, 4 * (lasted / (20 * MS) + 1));
    assert!((4..=most).contains(&operations), "{operations} in {lasted} ns");
    assert!(sent.totals.rare.completed > 0, "nothing was reported: {:?}", sent.totals.rare);
}

#[test]
fn a_reader_that_thinks_slows_the_sender_down_and_still_reads_everything() {
    for engine in ENGINES {
        let mut sender = job(Role::Send, engine, 2, 10_000, 1_000);
        sender.load.socket.send_buffer_bytes = Some(Bytes(50_000));
        let mut receiver = job(Role::Receive, engine, 2, 10_000, 1_000);
        receiver.application().think_ns = Nanos(20 * MS);
        receiver.load.socket.receive_buffer_bytes = Some(Bytes(50_000));
        let (sent, received) = run(&sender, &receiver);
        assert_eq!(sent.totals.connection_bytes, received.totals.connection_bytes, "{engine:?}");
        assert_eq!(received.totals.connections_lost, 0, "{engine:?}: {:?}", received.totals.lost_reason);
        assert!(received.totals.think_ns.0 > 1_000 * MS, "{engine:?}: {:?}", received.totals.think_ns);
        // The sender waits for the reader most of the time: two connections, a second. A wait that the stop ends is not counted.
        assert!(service_ns(&sent) > 1_000 * MS, "{engine:?}: {}", service_ns(&sent));
    }
}

#[test]
fn one_at_a_time_is_in_an_operation_of_a_serialised_job() {
    // A reader that is too slow keeps every sender in its call: together they spend connections x time there,
    // and of a serialised job only one does. Threads, because calls of the other engine do not wait.
    let mut spent = [0, 0];
    for serialised in [false, true] {
        let mut sender = job(Role::Send, Engine::Threads, 4, 500_000, 400);
        sender.application().serialised = serialised;
        sender.load.socket.send_buffer_bytes = Some(Bytes(50_000));
        let mut receiver = job(Role::Receive, Engine::Threads, 4, 500_000, 400);
        receiver.application().think_ns = Nanos(5 * MS);
        receiver.load.socket.receive_buffer_bytes = Some(Bytes(50_000));
        let (sent, received) = run(&sender, &receiver);
        assert_eq!(sent.totals.bytes, received.totals.bytes);
        assert_eq!(sent.totals.lock_wait_ns.0 > 0, serialised);
        let elapsed = sent.stopped_ns.unwrap().minus(sent.first_operation_ns.unwrap());
        spent[usize::from(serialised)] = service_ns(&sent) * 100 / elapsed.0;
    }
    assert!(spent[0] > 200, "{spent:?} % of the time");
    assert!(spent[1] <= 101, "{spent:?} % of the time");
}

#[test]
fn every_combination_arrives_whole_between_any_two_engines() {
    for sending in ENGINES {
        for receiving in ENGINES {
            let mut sender = job(Role::Send, sending, 9, 30_000, 250);
            (
                sender.application().compute_ns,
                sender.application().think_ns,
                sender.application().serialised,
            ) = (Nanos(20 * US), Nanos(MS), true);
            let mut receiver = job(Role::Receive, receiving, 9, 30_000, 250);
            receiver.application().think_ns = Nanos(MS / 4);
            let (sent, received) = run(&sender, &receiver);
            for finished in [&sent, &received] {
                check_consistent(&finished.totals, 9);
                assert_eq!(finished.totals.connections_lost, 0, "{:?}", finished.totals.lost_reason);
            }
            assert_eq!(sent.totals.connection_bytes, received.totals.connection_bytes);
            assert!(sent.totals.operations > 0);
        }
    }
}

#[test]
fn an_application_to_nowhere_pauses_too() {
    for engine in ENGINES {
        let mut sender = job(Role::Send, engine, 3, 1_000, 200);
        sender.application().think_ns = Nanos(20 * MS);
        let operations = to_nowhere(&sender).totals.operations;
        assert!((3..=3 * 11).contains(&operations), "{engine:?}: {operations}");
    }
}

#[test]
fn a_job_that_is_cancelled_in_a_long_pause_ends_soon() {
    for engine in ENGINES {
        let cancel = Cancel::default();
        let mut sender = job(Role::Send, engine, 3, 1_000, 20_000);
        sender.application().think_ns = Nanos(9_000 * MS);
        let mut receiver = job(Role::Receive, engine, 3, 1_000, 20_000);
        receiver.application().think_ns = Nanos(9_000 * MS);
        let (sender, receiver) = prepare(&sender, &receiver, &cancel).unwrap();
        let start = clock::monotonic();
        let (receiving, sending) = (receiver.arm(start), sender.arm(start));
        std::thread::sleep(Duration::from_millis(200));
        let begun = Instant::now();
        cancel.cancel();
        let lost = sending.join().totals.connections_lost + receiving.join().totals.connections_lost;
        // The promise is 50 ms; without it, the pause would last for 9 s, of which less than one had passed.
        assert!(begun.elapsed() < Duration::from_secs(8), "{engine:?}: {:?}", begun.elapsed());
        assert_eq!(lost, 0, "{engine:?}");
    }
}

#[test]
fn what_an_application_cannot_do_is_refused() {
    let refused = |change: fn(&mut Job<Network>)| {
        let mut sender = job(Role::Send, Engine::Threads, 1, 1_000, 50);
        change(&mut sender);
        let load = Load::Network(Box::new(sender.load.clone()));
        sender.with(load).check().unwrap_err().key
    };
    assert_eq!(refused(|job| job.application().compute_ns = Nanos(2_000 * MS)), "compute_ns");
    assert_eq!(refused(|job| job.application().think_ns = Nanos(11_000 * MS)), "think_ns");
    assert_eq!(refused(|job| job.cpu_quota_percent = Some(0)), "cpu_quota_percent");
}
