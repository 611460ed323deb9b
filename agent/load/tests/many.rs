//! Thousands of connections in each engine, in one process. A hundred thousand take several: `python -m bench connections_most`.

mod pair;

use std::os::fd::BorrowedFd;

use iodyno_core::network::{Engine, Role};
use iodyno_core::units::Nanos;
use iodyno_load::Cancel;
use iodyno_sys::{clock, process, socket};
use pair::{check_consistent, engines, job, prepare, with, MS};

const CONNECTIONS: u32 = 6_000;

#[test]
fn six_thousand_connections_come_up_and_every_one_carries_bytes() {
    for engine in engines() {
        // Longer where others have the CPUs, and a worker did not come to its last connection. What never has its turn has
        // none in a minute.
        let mut starved = CONNECTIONS as usize;
        for load_ms in [500, 5_000, 60_000] {
            starved = six_thousand(engine, load_ms);
            if starved == 0 {
                break;
            }
        }
        assert_eq!(starved, 0, "{engine:?}: connections without a byte");
    }
}

/// Connections that carried no byte while the load was on for so long.
fn six_thousand(engine: Engine, load_ms: u64) -> usize {
    let (sender, receiver) = prepare(
        &job(Role::Send, engine, CONNECTIONS, 1_024, load_ms),
        &job(Role::Receive, engine, CONNECTIONS, 1_024, load_ms),
        &Cancel::default(),
    )
    .unwrap_or_else(|error| panic!("{engine:?}: {error}"));
    let start = clock::monotonic().plus(Nanos(300 * MS));
    let (receiving, sending) = (receiver.arm(start), sender.arm(start));
    assert!(clock::monotonic() < start.plus(Nanos(load_ms * MS)), "arming waited for the load's end");
    let (sent, received) = (sending.join(), receiving.join());
    let memory = process::resident_peak().unwrap().0 / u64::from(2 * CONNECTIONS);
    for finished in [&sent, &received] {
        check_consistent(&finished.totals, CONNECTIONS);
        let lost = &finished.totals;
        assert_eq!(lost.connections_lost, 0, "{engine:?}: {:?}", lost.lost_reason);
    }
    assert_eq!(sent.totals.connection_bytes, received.totals.connection_bytes);
    assert!(memory < 128 << 10, "{engine:?}: {memory} bytes a connection end");
    sent.totals.connection_bytes.iter().filter(|bytes| **bytes == 0).count()
}

#[test]
fn connections_come_from_the_addresses_of_the_job_in_turn() {
    for engine in engines() {
        let sender = with(job(Role::Send, engine, 5, 1_024, 50), |job| {
            job.load.local_addresses = vec!["127.0.0.2".to_owned(), "127.0.0.3".to_owned()];
        });
        let receiver = job(Role::Receive, engine, 5, 1_024, 50);
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
        assert_eq!(from, ["127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3"], "{engine:?}");
    }
}
