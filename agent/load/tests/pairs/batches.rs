//! Streams of bytes of which one call hands several messages over, and receivers that have the kernel drop what comes.

use crate::pair::{both_moved, check_consistent, engines, job, over, run_until, with, Parts};
use iodyno_core::arrivals::Sizes;
use iodyno_core::histogram::Snapshot;
use iodyno_core::job::Job;
use iodyno_core::network::{Direction, Engine, Network, Role, SocketOptions, Syscalls, Transport};
use iodyno_core::units::Bytes;
use iodyno_load::{supports, Totals};

const MESSAGE: u64 = 1_000;

fn batches_of(batch: u32, transport: Transport, engine: Engine, message: u64) -> Job<Network> {
    let plain = over(transport, job(Role::Send, engine, 3, message, 100));
    with(plain, |job| {
        job.load.syscalls = Syscalls::Batch;
        job.load.batch = batch;
    })
}

/// Calls that began messages, and how many these were.
fn calls(totals: &Totals) -> (u64, u64) {
    let found = totals.batch.as_ref().unwrap().since(&Snapshot::default());
    (found.count, found.sum_ns)
}

/// Every call began so many messages, each of which counts when it is whole, and what the one end sent, the other got.
fn whole(case: &str, sender: &Job<Network>, together: u64) {
    let receiver = with(sender.clone(), |job| {
        job.load.role = Role::Receive;
    });
    let (sent, received) = run_until(sender, &receiver, both_moved);
    let (sent, received) = (&sent.totals, &received.totals);
    for totals in [sent, received] {
        check_consistent(totals, 3);
        assert_eq!(totals.connections_lost, 0, "{case}: {:?}", totals.lost_reason);
    }
    assert_eq!(sent.connection_bytes, received.connection_bytes, "{case}");
    let writes = if sender.load.direction() == Direction::Reverse { received } else { sent };
    let (count, begun) = calls(writes);
    assert!(count > 0, "{case}");
    assert_eq!(begun, count * together, "{case}");
    // What was begun and is not whole is less than a batch of each connection; what moved of it less than a message.
    assert!(writes.operations <= begun && begun < writes.operations + 3 * (together + 1), "{case}");
    let message = sender.load.message_bytes.0;
    let beyond = writes.bytes - writes.operations * message;
    assert!(beyond < 3 * message, "{case}: {beyond} bytes beside whole messages");
}

#[test]
fn each_message_of_a_call_counts_on_every_transport() {
    for engine in engines() {
        for transport in [Transport::Tcp, Transport::Unix, Transport::Tls, Transport::Vsock] {
            let sender = batches_of(16, transport, engine, MESSAGE);
            match supports(&sender.load) {
                Ok(()) => whole(&format!("{engine:?} {transport:?}"), &sender, 16),
                Err(refused) => {
                    let expected = transport == Transport::Vsock
                        || transport == Transport::Tls && engine == Engine::IoUring;
                    assert!(expected, "{engine:?} {transport:?}: {refused}");
                }
            }
        }
    }
}

#[test]
fn a_call_that_the_kernel_takes_in_parts_completes_what_is_whole() {
    for engine in engines() {
        let sender = with(batches_of(64, Transport::Tcp, engine, MESSAGE), |job| {
            // What the kernel makes of it, some 9 KB, holds a part of a batch of 64 000 bytes.
            job.load.socket =
                SocketOptions { send_buffer_bytes: Some(Bytes(4_608)), ..SocketOptions::default() };
        });
        whole(&format!("{engine:?}"), &sender, 64);
    }
}

#[test]
fn long_messages_come_fewer_a_call_and_the_other_end_writes_batches_too() {
    for engine in engines() {
        let long = batches_of(64, Transport::Tcp, engine, 400_000);
        whole(&format!("{engine:?}, two in a MiB"), &long, 2);
        let back = with(batches_of(8, Transport::Tcp, engine, MESSAGE), |job| {
            job.stream().direction = Direction::Reverse;
        });
        whole(&format!("{engine:?}, reverse"), &back, 8);
    }
}

#[test]
fn drawn_sizes_keep_their_order_within_calls_and_beyond() {
    for engine in engines() {
        let sender = with(batches_of(64, Transport::Tcp, engine, MESSAGE), |job| {
            job.load.connections = 1;
            job.load.message_sizes = Some(Sizes::Trace { sizes_bytes: [1, 1_000, 7].map(Bytes).to_vec() });
        });
        let receiver = with(sender.clone(), |job| {
            job.load.role = Role::Receive;
        });
        let (sent, received) = run_until(&sender, &receiver, both_moved);
        let operations = sent.totals.operations;
        let whole = operations / 3 * 1_008 + [0, 1, 1_001][(operations % 3) as usize];
        // The stop may have cut the last call off within a message.
        let moved = sent.totals.bytes;
        assert!((whole..whole + 1_000).contains(&moved), "{engine:?}: {moved} of {whole}");
        assert_eq!(moved, received.totals.bytes, "{engine:?}");
    }
}

#[test]
fn what_is_discarded_is_counted_as_what_is_read() {
    for engine in engines() {
        for direction in [Direction::Forward, Direction::Reverse, Direction::Both] {
            let sender = with(job(Role::Send, engine, 3, 20_001, 100), |job| {
                job.stream().direction = direction;
                job.stream().discards = true;
            });
            let receiver = with(sender.clone(), |job| {
                job.load.role = Role::Receive;
            });
            let (sent, received) = run_until(&sender, &receiver, both_moved);
            let (sent, received) = (&sent.totals, &received.totals);
            let case = format!("{engine:?} {direction:?}");
            for totals in [sent, received] {
                check_consistent(totals, 3);
                assert_eq!(totals.connections_lost, 0, "{case}: {:?}", totals.lost_reason);
            }
            if direction == Direction::Both {
                let ends = [(sent.sent_bytes, received.bytes), (received.sent_bytes, sent.bytes)];
                ends.iter().for_each(|(from, to)| assert_eq!(from, to, "{case}"));
            } else {
                assert_eq!(sent.connection_bytes, received.connection_bytes, "{case}");
            }
        }
    }
}

#[test]
fn what_would_not_be_one_call_or_not_discarded_is_refused() {
    let batches = batches_of(4, Transport::Tcp, Engine::Threads, MESSAGE);
    let bursts = supports(
        &with(batches.clone(), |job| {
            job.application().burst = 2;
        })
        .load,
    )
    .unwrap_err();
    assert_eq!(bursts.place, "syscalls");
    let works = supports(
        &with(batches, |job| {
            job.application().serialised = true;
        })
        .load,
    )
    .unwrap_err();
    assert!(works.place == "syscalls" && works.advice.contains("read_write"), "{works}");
    for transport in [Transport::Unix, Transport::Tls, Transport::Udp] {
        let receiver = with(job(Role::Receive, Engine::Threads, 1, MESSAGE, 100), |job| {
            job.stream().discards = true;
        });
        let refused = supports(
            &with(receiver, |job| {
                job.load.transport = transport;
            })
            .load,
        )
        .unwrap_err();
        assert_eq!(refused.place, "discards", "{transport:?}: {refused}");
    }
}
