//! What the load loop itself costs.

use iodyno_core::arrivals::{Arrivals, Law};
use iodyno_core::job::Job;
use iodyno_core::network::{Engine, Network, Transport};
use iodyno_core::phase::Windows;
use iodyno_core::units::{Bytes, Nanos};
use iodyno_sys::clock;

use crate::{connect, Cancel};

/// The same with an open loop that is always behind: arrivals, and three times of each operation, are counted, too.
#[must_use]
pub fn null_cost_open(engine: Engine, duration: Nanos) -> f64 {
    let law = Law::Poisson {};
    // chosen: more than any loop makes, and not so many that to count those that were due takes longer than the load.
    let period_ns = Nanos(30);
    cost(engine, duration, Some(Arrivals { law, operations: 1, period_ns, per_connection: false, seed: 1 }))
}

/// CPU time in nanoseconds that one write costs in the loop of `engine`, without the transport: loop, clock
/// and counters. Runs one connection on one CPU for `duration`. NaN when no thread could be started.
#[must_use]
pub fn null_cost(engine: Engine, duration: Nanos) -> f64 {
    cost(engine, duration, None)
}

fn cost(engine: Engine, duration: Nanos, arrivals: Option<Arrivals>) -> f64 {
    let job = Job {
        trial: "calibration".to_owned(),
        token: "0".repeat(32),
        load: Network {
            transport: Transport::Null,
            engine,
            message_bytes: Bytes(1024),
            arrivals,
            ..Network::default()
        },
        windows: Windows {
            warm_up_ns: Nanos(0),
            measured_ns: Nanos(duration.0.max(1)),
            drain_ns: Nanos(0),
            interval_ns: Nanos::SECOND,
        },
        ..Job::default()
    };
    let Ok(prepared) = connect(&job, &Cancel::default()) else { return f64::NAN };
    let before = clock::process_cpu();
    // The start lies ahead, so that the worker waits asleep: only its spin of 100 us counts besides the loop.
    let start = clock::monotonic().plus(Nanos(5_000_000));
    let running = prepared.arm(start);
    while !running.is_finished() {
        // Fails for a malformed time only, which this is not.
        let _ = clock::sleep_until(clock::monotonic().plus(Nanos(2_000_000)));
    }
    // Before the counters are read: that is no part of the loop.
    let spent = clock::process_cpu().minus(before);
    let finished = running.join();
    spent.0 as f64 / finished.totals.operations as f64
}
