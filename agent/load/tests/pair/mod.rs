//! A sender and a receiver in one process, over loopback.

#![allow(dead_code, reason = "every test file uses a part of it")]

use std::thread;

use iodyno_core::histogram::Snapshot;
use iodyno_core::job::{Driver, Job, Role, SocketOptions, Transport, Workload};
use iodyno_core::phase::Windows;
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{connect, listen, Cancel, Finished, LoadError, Prepared, Totals};
use iodyno_sys::clock;

/// The token of every test's trial.
pub const TOKEN: &str = "000102030405060708090a0b0c0d0e0f";
/// Milliseconds in nanoseconds.
pub const MS: u64 = 1_000_000;
/// Both drivers.
pub const DRIVERS: [Driver; 2] = [Driver::Threads, Driver::Epoll];

/// A job with the load on for `load_ms`.
pub fn job(role: Role, driver: Driver, connections: u32, message: u64, load_ms: u64) -> Job {
    Job {
        trial: "test".to_owned(),
        token: TOKEN.to_owned(),
        role,
        workload: Workload::Stream,
        transport: Transport::Tcp,
        driver,
        connections,
        message_bytes: Bytes(message),
        answer_bytes: Bytes(1),
        address: Some("127.0.0.1:0".to_owned()),
        socket: SocketOptions::default(),
        windows: Windows {
            warm_up_ns: Nanos(0),
            measured_ns: Nanos(load_ms * MS),
            drain_ns: Nanos(0),
            interval_ns: Nanos::SECOND,
        },
        cpus: Vec::new(),
        sensors: None,
        compute_ns: Nanos(0),
        think_ns: Nanos(0),
        serialised: false,
        cpu_quota_percent: None,
        profile_hz: 0,
    }
}

/// Has `sender` connect to whatever port `receiver` gets; both prepared, the sender first.
pub fn prepare(sender: &Job, receiver: &Job, cancel: &Cancel) -> Result<(Prepared, Prepared), LoadError> {
    let listener = listen(receiver, cancel)?;
    let host = receiver.address.as_deref().unwrap().rsplit_once(':').unwrap().0.to_owned();
    let sender = Job { address: Some(format!("{host}:{}", listener.port())), ..sender.clone() };
    let other = cancel.clone();
    let connecting = thread::spawn(move || connect(&sender, &other));
    let received = listener.accept_all();
    let sent = connecting.join().unwrap();
    Ok((sent?, received?))
}

/// Runs a pair to its end: sender's and receiver's account.
pub fn run(sender: &Job, receiver: &Job) -> (Finished, Finished) {
    let (sender, receiver) = prepare(sender, receiver, &Cancel::default()).unwrap();
    let start = clock::monotonic().plus(Nanos(30 * MS));
    let (receiving, sending) = (receiver.arm(start), sender.arm(start));
    (sending.join(), receiving.join())
}

/// What holds for the totals of every finished job.
pub fn check_consistent(totals: &Totals, connections: u32) {
    assert_eq!(totals.connection_bytes.len(), connections as usize);
    assert_eq!(totals.bytes, totals.connection_bytes.iter().sum::<u64>());
    let histogram = totals.service_time.since(&Snapshot::default());
    assert_eq!(totals.operations, histogram.count);
    assert_eq!(totals.operations, histogram.counts.iter().sum::<u64>());
}
