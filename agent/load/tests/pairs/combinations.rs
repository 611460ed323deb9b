//! Every combination of workload, transport, engine and syscalls that the load can be made with carries every byte,
//! ends by itself and loses nothing.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use crate::pair::{both_moved, check_consistent, job, over, run_until, with, Parts};
use iodyno_core::job::Job;
use iodyno_core::message::ErrorCode;
use iodyno_core::network::{Direction, Engine, Network, Role, Syscalls, Traffic, TrafficKind, Transport};
use iodyno_core::units::Bytes;
use iodyno_load::{supports, Finished, Totals};

const WORKLOADS: [TrafficKind; 3] =
    [TrafficKind::Stream, TrafficKind::RequestResponse, TrafficKind::ConnectRequestResponse];
/// Those whose two ends can be made of one address here; datagrams may be lost and have tests of their own.
const TRANSPORTS: [Transport; 4] = [Transport::Tcp, Transport::Unix, Transport::Vsock, Transport::Tls];
const ENGINES: [Engine; 4] = [Engine::Threads, Engine::Epoll, Engine::RoundRobin, Engine::IoUring];
const SYSCALLS: [Syscalls; 7] = [
    Syscalls::ReadWrite,
    Syscalls::Message,
    Syscalls::Batch,
    Syscalls::ZeroCopy,
    Syscalls::Sendfile,
    Syscalls::Splice,
    Syscalls::Segments,
];
/// Long enough on a quiet machine; on a busy one `run_until` takes longer ones.
const LOAD_MS: u64 = 25;
const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::Reverse, Direction::Both];

/// Every job of a sender that can be made, with its name.
fn jobs(connections: u32, message: u64) -> Vec<(String, Job<Network>)> {
    let mut found = Vec::new();
    for workload in WORKLOADS {
        for transport in TRANSPORTS {
            // How messages fall into calls is alike on all of them.
            if transport != Transport::Tcp && message == 777 {
                continue;
            }
            for engine in ENGINES {
                for syscalls in SYSCALLS {
                    // Batches on other transports and of other sizes: `batches.rs`.
                    let batch = if syscalls == Syscalls::Batch { 3 } else { 1 };
                    if batch > 1 && message != 777 {
                        continue;
                    }
                    for direction in DIRECTIONS {
                        for cork in [false, true] {
                            let streams = workload == TrafficKind::Stream;
                            if !streams && (cork || direction != Direction::Forward) {
                                continue;
                            }
                            let plain = job(Role::Send, engine, connections, message, LOAD_MS);
                            let response_bytes = Bytes(message + 777);
                            let plain = over(transport, plain);
                            let asked = with(plain, |job| {
                                job.load.traffic = workload.into();
                                job.load.syscalls = syscalls;
                                job.load.batch = batch;
                                match &mut job.load.traffic {
                                    Traffic::Stream(stream) => {
                                        (stream.direction, stream.cork) = (direction, cork);
                                    }
                                    _ => *job.answer() = response_bytes,
                                }
                            });
                            match supports(&asked.load) {
                                Ok(()) => {
                                    let words = (workload, transport, engine, syscalls, direction);
                                    found.push((format!("{words:?}, cork {cork}, {message} bytes"), asked));
                                }
                                Err(refused) => assert_eq!(refused.code, ErrorCode::Unsupported),
                            }
                        }
                    }
                }
            }
        }
    }
    found
}

fn whole(case: &str, finished: &Finished, connections: u32) {
    let totals = &finished.totals;
    check_consistent(totals, connections);
    assert_eq!(totals.connections_lost, 0, "{case}: {:?}", totals.lost_reason);
    // That each connection has its turn is tested where the load is on for longer (`stream.rs`, `many.rs`).
    assert!(totals.bytes > 0 && totals.operations > 0, "{case}: nothing moved");
}

/// What the one end sent, the other got.
fn same(case: &str, job: &Job<Network>, sent: &Totals, received: &Totals) {
    match (job.load.kind(), job.load.direction()) {
        (TrafficKind::Stream, Direction::Both) => {
            assert_eq!((sent.sent_bytes, sent.bytes), (received.bytes, received.sent_bytes), "{case}");
        }
        (TrafficKind::Stream, _) => {
            assert_eq!(sent.connection_bytes, received.connection_bytes, "{case}");
        }
        _ => {
            assert_eq!(sent.operations, received.operations, "{case}");
            assert_eq!(sent.bytes, received.bytes, "{case}");
        }
    }
}

/// Tests of their own, so that they run side by side.
#[test]
fn every_combination_carries_every_byte() {
    carries_every_byte(3, 20_001);
}

#[test]
fn every_combination_carries_every_byte_of_many_small_messages() {
    carries_every_byte(5, 777);
}

#[test]
fn every_combination_carries_every_byte_of_large_messages() {
    carries_every_byte(2, 1_500_000);
}

fn carries_every_byte(connections: u32, message: u64) {
    let mut tried = 0;
    for (case, sender) in jobs(connections, message) {
        let receiver = with(sender.clone(), |job| {
            job.load.role = Role::Receive;
            if let Traffic::Stream(stream) = &mut job.load.traffic {
                stream.cork = stream.cork && stream.direction != Direction::Forward;
            }
        });
        let (sent, received) = run_until(&sender, &receiver, both_moved);
        whole(&case, &sent, connections);
        whole(&case, &received, connections);
        same(&case, &sender, &sent.totals, &received.totals);
        tried += 1;
    }
    assert!(tried >= 40, "only {tried} combinations can be made here");
}

#[test]
fn two_ends_may_use_different_engines_and_syscalls() {
    for (near, far) in [(Engine::Threads, Engine::Epoll), (Engine::Epoll, Engine::Threads)] {
        for direction in DIRECTIONS {
            let sender = with(job(Role::Send, near, 4, 30_000, LOAD_MS), |job| {
                job.stream().direction = direction;
            });
            let receiver = with(job(Role::Receive, far, 4, 30_000, LOAD_MS), |job| {
                job.stream().direction = direction;
                job.load.syscalls = Syscalls::Message;
            });
            let (sent, received) = run_until(&sender, &receiver, both_moved);
            let case = format!("{near:?} {far:?} {direction:?}");
            whole(&case, &sent, 4);
            whole(&case, &received, 4);
            same(&case, &sender, &sent.totals, &received.totals);
        }
    }
}

/// Lets the CPUs rest when the test ends, however it ends.
struct Rest<'a>(&'a AtomicBool);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

/// Where others have the CPUs, the other end's stop is often seen before the completion of a send: half of these
/// pairs lost a message to that once.
#[test]
fn what_was_submitted_is_counted_where_the_other_end_stops_first() {
    let busy = AtomicBool::new(true);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while busy.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let _rest = Rest(&busy);
        for engine in crate::pair::engines() {
            for syscalls in [Syscalls::ReadWrite, Syscalls::ZeroCopy] {
                for longer_ms in [0, 1, 5, 20] {
                    let both = |role, load_ms| {
                        with(job(role, engine, 3, 20_001, load_ms), |job| {
                            job.stream().direction = Direction::Both;
                            job.load.syscalls = syscalls;
                        })
                    };
                    let (sender, receiver) = (both(Role::Send, 40), both(Role::Receive, 40 + longer_ms));
                    if supports(&sender.load).is_err() {
                        continue;
                    }
                    let (sent, received) = run_until(&sender, &receiver, both_moved);
                    same(&format!("{engine:?} {syscalls:?}"), &sender, &sent.totals, &received.totals);
                }
            }
        }
    });
}
