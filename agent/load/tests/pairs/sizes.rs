//! Messages of drawn sizes, and several requests in flight: everything arrives, and each answer is that of its request.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use crate::pair::{check_consistent, job, over, run, run_until, with, Parts, ENGINES};
use iodyno_core::arrivals::Sizes;
use iodyno_core::job::Job;
use iodyno_core::network::{Engine, Network, Role, Syscalls, TrafficKind, Transport};
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{connect, supports, Cancel};
use iodyno_sys::clock;

fn mix() -> Option<Sizes> {
    let sizes_bytes = [1, 500, 70_000].map(Bytes).to_vec();
    Some(Sizes::Mix { sizes_bytes, weights: vec![5, 3, 1] })
}

fn asking(sending: Engine, receiving: Engine, queue_depth: u32) -> (Job<Network>, Job<Network>) {
    let mut sender = job(Role::Send, sending, 5, 70_000, 300);
    (sender.load.traffic, *sender.answer(), sender.exchange().queue_depth) =
        (TrafficKind::RequestResponse.into(), Bytes(3_000), queue_depth);
    (sender.load.message_sizes, sender.load.seed) = (mix(), 77);
    let receiver = with(sender.clone(), |job| {
        job.load.role = Role::Receive;
        job.load.engine = receiving;
    });
    (sender, receiver)
}

/// For `run_until`, which takes longer ones where the machine is busy.
fn brief((mut sender, mut receiver): (Job<Network>, Job<Network>)) -> (Job<Network>, Job<Network>) {
    sender.windows.measured_ns = Nanos(50_000_000);
    receiver.windows = sender.windows;
    (sender, receiver)
}

#[test]
fn requests_of_drawn_sizes_are_answered_one_by_one_and_pipelined() {
    let transports = [Transport::Tcp, Transport::Unix, Transport::Tls];
    for (transport, receiving) in transports.into_iter().flat_map(|way| ENGINES.map(|engine| (way, engine))) {
        for (sending, queue_depth) in [(Engine::Threads, 1), (Engine::Epoll, 1), (Engine::Epoll, 16)] {
            let (sender, receiver) = brief(asking(sending, receiving, queue_depth));
            let (sender, receiver) = (over(transport, sender), over(transport, receiver));
            let (sent, received) = run_until(&sender, &receiver, |sent, _| sent.totals.operations > 50);
            for finished in [&sent, &received] {
                check_consistent(&finished.totals, 5);
                assert_eq!(finished.totals.connections_lost, 0, "{:?}", finished.totals.lost_reason);
            }
            let (asked, answered) = (sent.totals.operations, received.totals.operations);
            assert!(asked > 50, "{transport:?} {sending:?} {queue_depth}: {asked}");
            // A request that was cut off at the stop has no answer; what was answered was taken.
            assert_eq!(asked, answered, "{sending:?} to {receiving:?}, {queue_depth}");
            // The mean of the mix is 7945 bytes with a standard deviation of 22 000: six standard errors.
            let mean = sent.totals.bytes as f64 / asked as f64;
            assert!((mean - 7_945.0).abs() < 6.0 * 22_000.0 / (asked as f64).sqrt(), "{mean} of {asked}");
        }
    }
}

#[test]
fn a_stream_of_drawn_sizes_arrives_whole() {
    for engine in ENGINES {
        let mut sender = job(Role::Send, engine, 3, 10_000, 100);
        sender.load.message_sizes =
            Some(Sizes::Uniform { least_bytes: Bytes(1), greatest_bytes: Bytes(10_000) });
        let receiver = job(Role::Receive, engine, 3, 10_000, 100);
        let (sent, received) = run_until(&sender, &receiver, |sent, _| sent.totals.operations > 50);
        assert_eq!(sent.totals.bytes, received.totals.bytes);
        let mean = sent.totals.bytes as f64 / sent.totals.operations as f64;
        assert!((mean - 5_000.0).abs() < 6.0 * 2_887.0 / (sent.totals.operations as f64).sqrt(), "{mean}");
    }
}

/// Operations of a load that is so many times as long, what its server answered, and bytes that came though four were there. The
/// server answers none before all four are there: with fewer in flight nothing would ever come to its end.
fn four_at_a_time(times: u64) -> (u64, u64, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut sender, _) = asking(Engine::Epoll, Engine::Threads, 4);
    (sender.load.connections, sender.load.message_sizes, sender.load.message_bytes) = (1, None, Bytes(100));
    sender.windows.measured_ns = Nanos(sender.windows.measured_ns.0 * times);
    sender.load.address = Some(listener.local_addr().unwrap().to_string());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 32]).unwrap();
        stream.write_all(&[0x06]).unwrap();
        let (mut answered, mut more) = (0, 0);
        while stream.read_exact(&mut [0; 4 * 100]).is_ok() {
            if answered < 3 * 4 {
                // A fifth one would be here soon.
                stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                more += stream.read(&mut [0; 100]).unwrap_or(0);
                stream.set_read_timeout(None).unwrap();
            }
            answered += 4;
            if stream.write_all(&[0; 4 * 3_000]).is_err() {
                break;
            }
        }
        (answered, more)
    });
    let prepared = connect(&sender, &Cancel::default()).unwrap();
    let sent = prepared.arm(clock::monotonic().plus(Nanos(30_000_000))).join();
    let (answered, more) = server.join().unwrap();
    (sent.totals.operations, answered, more)
}

#[test]
fn pipelining_keeps_as_many_under_way_as_it_was_told() {
    // Where others use the CPUs, the server may not have had its turn in a short load.
    let found = [1, 10, 100].into_iter().map(four_at_a_time).find(|(sent, ..)| *sent > 0);
    let (sent, answered, more) = found.unwrap();
    assert!(sent <= answered, "{answered}");
    assert_eq!(more, 0);
}

#[test]
fn large_messages_in_both_directions_do_not_wait_for_each_other() {
    for receiving in ENGINES {
        let (mut sender, mut receiver) = asking(Engine::Epoll, receiving, 8);
        for job in [&mut sender, &mut receiver] {
            (job.load.message_sizes, job.load.message_bytes, *job.answer()) =
                (None, Bytes(3_000_000), Bytes(2_000_000));
            job.windows.measured_ns = Nanos(1_500_000_000);
            job.load.socket.send_buffer_bytes = Some(Bytes(50_000));
            job.load.socket.receive_buffer_bytes = Some(Bytes(50_000));
        }
        let (sent, received) = run(&sender, &receiver);
        assert_eq!(sent.totals.connections_lost + received.totals.connections_lost, 0);
        // Where both ends wait for room to send, with less of it than a message needs, not one comes to its end.
        assert!(sent.totals.operations > 0, "{receiving:?}");
    }
}

#[test]
fn what_pipelining_does_not_go_with_is_said() {
    let (mut sender, _) = asking(Engine::Threads, Engine::Epoll, 2);
    sender.load.address = Some("127.0.0.1:1".to_owned());
    let error = connect(&sender, &Cancel::default()).err().unwrap();
    assert_eq!((error.place.as_str(), error.advice.as_str()), ("queue_depth", "take engine epoll"));
}

#[test]
fn multiplexed_requests_are_answered_once_each_in_whatever_order() {
    for transport in [Transport::Tcp, Transport::Unix] {
        for receiving in ENGINES {
            for queue_depth in [1, 2, 64] {
                let (sender, receiver) = brief(asking(Engine::Epoll, receiving, queue_depth));
                let [sender, receiver] = [sender, receiver].map(|job| {
                    let sizes = Sizes::Trace { sizes_bytes: [8, 9, 500, 70_000].map(Bytes).to_vec() };
                    over(
                        transport,
                        with(job, |job| {
                            job.exchange().multiplexed = true;
                            job.load.message_sizes = Some(sizes);
                        }),
                    )
                });
                let (sent, received) = run_until(&sender, &receiver, |sent, _| sent.totals.operations > 50);
                let case = format!("{transport:?} {receiving:?} {queue_depth}");
                for finished in [&sent, &received] {
                    check_consistent(&finished.totals, 5);
                    let totals = &finished.totals;
                    // An identifier that nobody awaits would have broken the connection.
                    assert_eq!(totals.connections_lost, 0, "{case}: {:?}", totals.lost_reason);
                }
                assert!(sent.totals.operations > 50, "{case}: {}", sent.totals.operations);
                assert_eq!(sent.totals.operations, received.totals.operations, "{case}");
            }
        }
    }
}

#[test]
fn what_multiplexing_does_not_go_with_is_said() {
    let (sender, _) = asking(Engine::Epoll, Engine::Epoll, 4);
    let plain = with(sender, |job| {
        job.exchange().multiplexed = true;
        job.load.message_sizes = None;
    });
    assert_eq!(supports(&plain.load), Ok(()));
    for wrong in [
        with(plain.clone(), |job| {
            job.load.engine = Engine::IoUring;
        }),
        with(plain.clone(), |job| {
            job.load.engine = Engine::Threads;
        }),
        with(plain.clone(), |job| {
            job.load.transport = Transport::Tls;
        }),
        with(plain.clone(), |job| {
            job.load.syscalls = Syscalls::Message;
        }),
        with(plain.clone(), |job| {
            job.application().burst = 2;
        }),
    ] {
        let refused = supports(&wrong.load).unwrap_err();
        assert_eq!(refused.place, "multiplexed", "{refused}");
    }
    let short = with(plain, |job| {
        *job.answer() = Bytes(7);
        job.load.address = Some("127.0.0.1:1".to_owned());
    });
    assert_eq!(short.load.check().unwrap_err().key, "response_bytes");
}

/// A workload by name, as a change of a job that asks and one that answers.
type Shape = (&'static str, fn(&mut Job<Network>));

const SHAPES: [Shape; 5] = [
    ("request_response", |job| job.load.traffic = TrafficKind::RequestResponse.into()),
    ("connect_request_response", |job| job.load.traffic = TrafficKind::ConnectRequestResponse.into()),
    ("burst", |job| {
        (job.load.traffic, job.application().burst, job.application().think_ns) =
            (TrafficKind::RequestResponse.into(), 4, Nanos(100_000))
    }),
    ("pipelined", |job| {
        (job.load.traffic, job.exchange().queue_depth) = (TrafficKind::RequestResponse.into(), 8)
    }),
    ("multiplexed", |job| {
        (job.load.traffic, job.exchange().queue_depth, job.exchange().multiplexed) =
            (TrafficKind::RequestResponse.into(), 8, true);
    }),
];

/// Every law of sizes with the mean of what it draws, and a bound on the standard deviation; a trace leaves nothing to chance.
fn laws() -> Vec<(Option<Sizes>, f64, f64)> {
    let bytes = |sizes: &[u64]| sizes.iter().copied().map(Bytes).collect::<Vec<_>>();
    vec![
        (None, 9_000.0, 0.0),
        (Some(Sizes::Uniform { least_bytes: Bytes(30), greatest_bytes: Bytes(9_000) }), 4_515.0, 2_600.0),
        (Some(Sizes::Exponential { mean_bytes: Bytes(600), greatest_bytes: Bytes(9_000) }), 600.0, 600.0),
        (Some(Sizes::Mix { sizes_bytes: bytes(&[100, 9_000]), weights: vec![3, 1] }), 2_325.0, 3_900.0),
        (Some(Sizes::Trace { sizes_bytes: bytes(&[30, 9_000, 40, 700]) }), 2_442.5, 0.0),
    ]
}

#[test]
fn every_workload_of_requests_takes_every_law_of_sizes() {
    for (name, shape) in SHAPES {
        for (sizes, mean, deviation) in laws() {
            let mut sender = job(Role::Send, Engine::Epoll, 3, 9_000, 60);
            (sender.load.message_sizes, sender.load.seed) = (sizes.clone(), 9);
            shape(&mut sender);
            *sender.answer() = Bytes(80);
            let mut receiver = with(sender.clone(), |job| {
                job.load.role = Role::Receive;
            });
            if name != "connect_request_response" {
                receiver.application().think_ns = Nanos(0);
            }
            let case = format!("{name} {sizes:?}");
            let (sent, received) = run_until(&sender, &receiver, |sent, _| sent.totals.operations > 60);
            let (asked, answered) = (sent.totals.operations, received.totals.operations);
            assert!(asked > 60, "{case}: {asked}");
            assert_eq!(asked, answered, "{case}");
            let why = || (&sent.totals.lost_reason, &received.totals.lost_reason);
            // The end that answers new connections goes on for a while beyond its stop: where the machine stalls for longer,
            // one request of each flow is nobody's any more.
            let cut_off = if name == "connect_request_response" { 3 * 9_000 } else { 0 };
            let lost = sent.totals.bytes.checked_sub(received.totals.bytes);
            assert!(lost.is_some_and(|bytes| bytes <= cut_off), "{case}: {lost:?}, {:?}", why());
            assert_eq!(sent.totals.connections_lost, 0, "{case}: {:?}", why());
            // Six standard errors, and what is in flight at the stop: up to eight requests of a connection.
            let found = sent.totals.bytes as f64 / asked as f64;
            let off = 6.0 * deviation / (asked as f64).sqrt() + 24.0 * 9_000.0 / asked as f64;
            assert!((found - mean).abs() <= off, "{case}: {found} of {asked}");
        }
    }
}

#[test]
fn datagrams_take_every_law_of_sizes() {
    for (sizes, mean, deviation) in laws() {
        // So few at a time that they find room at the receiver, however slow it is: the largest would be lost first.
        for (queue_depth, syscalls) in [(1, Syscalls::ReadWrite), (2, Syscalls::Batch)] {
            let mut sender = over(Transport::Udp, job(Role::Send, Engine::Epoll, 2, 9_000, 60));
            (sender.load.message_sizes, sender.load.seed) = (sizes.clone(), 9);
            (sender.load.traffic, sender.exchange().queue_depth) =
                (TrafficKind::RequestResponse.into(), queue_depth);
            (sender.load.syscalls, sender.load.batch) = (syscalls, queue_depth);
            *sender.answer() = Bytes(80);
            let receiver = with(sender.clone(), |job| {
                job.load.role = Role::Receive;
            });
            let case = format!("{queue_depth} {sizes:?}");
            let (sent, _) = run_until(&sender, &receiver, |sent, _| sent.totals.operations > 60);
            let asked = sent.totals.operations;
            assert!(asked > 60, "{case}: {asked}");
            // A datagram has room for its header at least, so that small draws are greater.
            let found = sent.totals.bytes as f64 / asked as f64;
            let off = 24.0 + 6.0 * deviation / (asked as f64).sqrt() + 24.0 * 9_000.0 / asked as f64;
            assert!((found - mean).abs() <= off, "{case}: {found} of {asked}");
        }
    }
}
