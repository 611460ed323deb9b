//! One thread a connection, blocking calls.

use iodyno_core::units::Nanos;
use iodyno_sys::affinity;

use crate::error::LoadError;
use crate::transport::Link;
use crate::worker::shared::Shared;
use crate::worker::Worker;
use crate::workload::{Activity, Step};

/// chosen: from so many threads on a CPU they take turns.
const MANY: usize = 16;
/// chosen: the length of a turn. The kernel takes a CPU away at a tick only, after 4 ms or so, and thousands of
/// times that is longer than a measured window: of 4000 connections, 300 carried something in a second.
const TURN: Nanos = Nanos(100_000);

pub(crate) fn drive<A: Activity, L: Link>(shared: &Shared, number: usize, make: impl Fn(usize) -> (A, L)) {
    // To the job's CPUs as a set: the scheduler spreads many threads better than a fixed assignment.
    if let Err(error) = affinity::restrict(&shared.cpus) {
        return shared.report(LoadError::refused(&error, "run on the CPUs of the job", "cpus"));
    }
    let (activity, link) = make(number);
    let Some(mut worker) = Worker::await_start(shared, number) else { return };
    run(activity, &link, &mut worker, shared, number);
}

fn run<A: Activity>(
    mut activity: A,
    link: &impl Link,
    worker: &mut Worker<'_>,
    shared: &Shared,
    connection: usize,
) {
    let cell = shared.counters.cell(connection);
    let turn = if shared.workers() > MANY * shared.cpus.len() { TURN.0 } else { u64::MAX };
    let mut turn_begun = worker.now;
    loop {
        match activity.step(link, worker, cell) {
            Step::On | Step::Waiting => {
                if A::UNTIL_DUE && worker.is_due() {
                    link.finish();
                    return worker.concluded(connection);
                }
                if activity.gives_way() || worker.now - turn_begun > turn {
                    std::thread::yield_now();
                    // The next operation begins now: what the others did meanwhile is not its service time.
                    worker.tick();
                    turn_begun = worker.now;
                }
            }
            Step::Ended => return worker.ended(connection),
            Step::Failed(number) => return worker.failed(connection, number),
        }
    }
}
