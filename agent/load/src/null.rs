//! What the load loop costs by itself.

use iodyno_core::job::Driver;
use iodyno_core::units::Nanos;
use iodyno_sys::clock;
use iodyno_sys::operation_clock::OperationClock;

use crate::counters::Counters;
use crate::transport::null::NullFlow;
use crate::workload::stream::{Sending, Tally};

/// Message size of the trial: small, as the cost of a message does not depend on it here.
const MESSAGE: [u8; 1024] = [0; 1024];
/// Messages in a turn of each driver: a thread has one endless turn, a pinned worker many.
const TURN: [(Driver, usize); 2] = [(Driver::Threads, 1 << 30), (Driver::Epoll, 128 << 10)];

/// CPU time of this thread for one message on a transport that does nothing, in nanoseconds: loop, clock,
/// counters, histogram. Runs for `span`.
#[must_use]
pub fn null_cost(driver: Driver, span: Nanos) -> f64 {
    let share = TURN.iter().find(|(name, _)| *name == driver).map_or(1 << 20, |(_, share)| *share);
    let counters = Counters::new(1, 1);
    let mut clock = OperationClock::new();
    let mut sending = Sending::new();
    let before = clock::thread_cpu();
    let until = clock.now().plus(span);
    while clock.now() < until {
        let mut tally =
            Tally { connection: &counters.connections[0], recorder: counters.recorder(0), clock: &mut clock };
        let _ = sending.turn(&NullFlow, &MESSAGE, share, until, &mut tally);
    }
    let spent = clock::thread_cpu().minus(before);
    let messages = crate::counters::Meter(std::sync::Arc::new(counters)).read().operations;
    spent.0 as f64 / messages.max(1) as f64
}
