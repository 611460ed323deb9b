//! As many connections as the tool promises, in each driver, in one process.

#![allow(clippy::print_stderr, reason = "a test says what it measured")]

mod pair;

use std::os::fd::BorrowedFd;

use iodyno_core::job::{Driver, Job, Role, Workload};
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::Cancel;
use iodyno_sys::{clock, limits, process, socket};
use pair::{check_consistent, drivers, job, prepare, MS};

const CONNECTIONS: u32 = 6_000;

#[test]
fn six_thousand_connections_come_up_and_every_one_carries_bytes() {
    for driver in drivers() {
        // Longer where others have the CPUs, and a worker did not come to its last connection. What never has its turn has
        // none in a minute.
        let mut starved = CONNECTIONS as usize;
        for load_ms in [2_000, 10_000, 60_000] {
            starved = six_thousand(driver, load_ms);
            if starved == 0 {
                break;
            }
        }
        assert_eq!(starved, 0, "{driver:?}: connections without a byte");
    }
}

/// Connections that carried no byte while the load was on for so long.
fn six_thousand(driver: Driver, load_ms: u64) -> usize {
    let (sender, receiver) = prepare(
        &job(Role::Send, driver, CONNECTIONS, 1_024, load_ms),
        &job(Role::Receive, driver, CONNECTIONS, 1_024, load_ms),
        &Cancel::default(),
    )
    .unwrap_or_else(|error| panic!("{driver:?}: {error}"));
    let start = clock::monotonic().plus(Nanos(300 * MS));
    let (receiving, sending) = (receiver.arm(start), sender.arm(start));
    assert!(clock::monotonic() < start.plus(Nanos(load_ms * MS)), "arming waited for the load's end");
    let (sent, received) = (sending.join(), receiving.join());
    let memory = process::resident_peak().unwrap().0 / u64::from(2 * CONNECTIONS);
    for finished in [&sent, &received] {
        check_consistent(&finished.totals, CONNECTIONS);
        let lost = &finished.totals;
        assert_eq!(lost.connections_lost, 0, "{driver:?}: {:?}", lost.lost_reason);
    }
    assert_eq!(sent.totals.connection_bytes, received.totals.connection_bytes);
    assert!(memory < 128 << 10, "{driver:?}: {memory} bytes a connection end");
    sent.totals.connection_bytes.iter().filter(|bytes| **bytes == 0).count()
}

#[test]
fn connections_come_from_the_addresses_of_the_job_in_turn() {
    for driver in drivers() {
        let sender = Job {
            local_addresses: vec!["127.0.0.2".to_owned(), "127.0.0.3".to_owned()],
            ..job(Role::Send, driver, 5, 1_024, 50)
        };
        let receiver = job(Role::Receive, driver, 5, 1_024, 50);
        let (sender, receiver) = prepare(&sender, &receiver, &Cancel::default()).unwrap();
        let mut from: Vec<String> = sender
            .sockets()
            .iter()
            .map(|number| {
                // SAFETY: the sockets are open as long as the prepared job.
                let socket = unsafe { BorrowedFd::borrow_raw(*number) };
                socket::local_address(socket).unwrap().ip().to_string()
            })
            .collect();
        drop(receiver);
        from.sort();
        assert_eq!(from, ["127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3"], "{driver:?}");
    }
}

/// As many as one pair of addresses cannot carry, in one process. Takes a minute and some 3 GB of the kernel's memory:
/// `cargo test --release --test many -- --ignored`.
#[test]
#[ignore = "100 000 connections in one process take 200 000 descriptors and a minute"]
fn a_hundred_thousand_connections_carry_requests_within_the_memory_promised() {
    // Both ends are in this process.
    let limit = limits::raise_descriptors(210_000).unwrap();
    let many = u32::try_from((limit.saturating_sub(5_000) / 2).min(100_000)).unwrap();
    if many < 100_000 {
        eprintln!("only {many} connections: this process may have {limit} open files");
    }
    for driver in [Driver::Epoll, Driver::IoUring] {
        let addresses = || (2..6).map(|last| format!("127.0.0.{last}")).collect();
        let exchange = |role| Job {
            workload: Workload::RequestResponse,
            answer_bytes: Bytes(64),
            ..job(role, driver, many, 64, 20_000)
        };
        let sender = Job { local_addresses: addresses(), ..exchange(Role::Send) };
        let (sender, receiver) = prepare(&sender, &exchange(Role::Receive), &Cancel::default()).unwrap();
        let start = clock::monotonic().plus(Nanos(500 * MS));
        let (receiving, sending) = (receiver.arm(start), sender.arm(start));
        let (sent, received) = (sending.join(), receiving.join());
        let idle = sent.totals.connection_bytes.iter().filter(|bytes| **bytes == 0).count();
        assert_eq!((idle, sent.totals.connections_lost, received.totals.connections_lost), (0, 0, 0));
        let peak = process::resident_peak().unwrap().0;
        eprintln!("{driver:?}: {peak} bytes of both ends, {} a connection end", peak / u64::from(2 * many));
        // 2 GiB for an agent with 100 000 of them, besides what it has with none.
        let allowed = (256 << 20) + (2 << 30) / 100_000 * u64::from(2 * many);
        assert!(peak < allowed, "{driver:?}: {peak} bytes");
    }
}
