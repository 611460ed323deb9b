//! What the load loop itself costs.

use iodyno_core::job::{Driver, Job, Role, SocketOptions, Transport, Workload};
use iodyno_core::phase::Windows;
use iodyno_core::units::{Bytes, Nanos};
use iodyno_sys::clock;

use crate::{connect, Cancel};

/// CPU time in nanoseconds that one write costs in the loop of `driver`, without the transport: loop, clock
/// and counters. Runs one connection on one CPU for `duration`. NaN when no thread could be started.
#[must_use]
pub fn null_cost(driver: Driver, duration: Nanos) -> f64 {
    let job = Job {
        trial: "calibration".to_owned(),
        token: "0".repeat(32),
        role: Role::Send,
        workload: Workload::Stream,
        transport: Transport::Null,
        driver,
        connections: 1,
        message_bytes: Bytes(1024),
        answer_bytes: Bytes(1),
        address: None,
        socket: SocketOptions::default(),
        windows: Windows {
            warm_up_ns: Nanos(0),
            measured_ns: Nanos(duration.0.max(1)),
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
    };
    let Ok(prepared) = connect(&job, &Cancel::default()) else { return f64::NAN };
    let before = clock::process_cpu();
    // The start lies ahead, so that the worker waits asleep: only its spin of 100 us counts besides the loop.
    let finished = prepared.arm(clock::monotonic().plus(Nanos(5_000_000))).join();
    let spent = clock::process_cpu().minus(before);
    spent.0 as f64 / finished.totals.operations as f64
}
