//! As many connections as the tool promises, in each driver, in one process.

mod pair;

use std::time::{Duration, Instant};

use iodyno_core::job::Role;
use iodyno_core::units::Nanos;
use iodyno_load::Cancel;
use iodyno_sys::{clock, process};
use pair::{check_consistent, job, prepare, DRIVERS, MS};

const CONNECTIONS: u32 = 6_000;

#[test]
fn six_thousand_connections_come_up_and_every_one_carries_bytes() {
    for driver in DRIVERS {
        let (sender, receiver) = prepare(
            &job(Role::Send, driver, CONNECTIONS, 1_024, 2_000),
            &job(Role::Receive, driver, CONNECTIONS, 1_024, 2_000),
            &Cancel::default(),
        )
        .unwrap_or_else(|error| panic!("{driver:?}: {error}"));
        let (begun, start) = (Instant::now(), clock::monotonic().plus(Nanos(300 * MS)));
        let (receiving, sending) = (receiver.arm(start), sender.arm(start));
        assert!(begun.elapsed() < Duration::from_millis(300), "arming took until after the start");
        let (sent, received) = (sending.join(), receiving.join());
        let memory = process::resident_peak().unwrap().0 / u64::from(2 * CONNECTIONS);
        for finished in [&sent, &received] {
            check_consistent(&finished.totals, CONNECTIONS);
            let lost = &finished.totals;
            assert_eq!(lost.connections_lost, 0, "{driver:?}: {:?}", lost.lost_reason);
        }
        assert_eq!(sent.totals.connection_bytes, received.totals.connection_bytes);
        let starved = sent.totals.connection_bytes.iter().filter(|bytes| **bytes == 0).count();
        assert_eq!(starved, 0, "{driver:?}: connections without a byte");
        assert!(memory < 128 << 10, "{driver:?}: {memory} bytes a connection end");
    }
}
