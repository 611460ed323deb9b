//! One thread a connection, blocking calls.

use iodyno_core::units::Nanos;
use iodyno_sys::affinity;

use crate::error::LoadError;
use crate::transport::Link;
use crate::worker::shared::Shared;
use crate::worker::Worker;
use crate::workload::{Activity, Step};

/// chosen: in so long, every thread of a CPU has a turn. The kernel takes a CPU away at a tick only, after 4 ms
/// or so, and thousands of times that is longer than a measured window: of 4000 connections, 300 carried
/// something in a second. Turns are as long as that allows, because small messages are joined only behind others: 8 KiB x 1000
/// carried 3.0 to 5.0 Gbit/s with rounds of 200 ms, 5.4 with these.
const ROUND: Nanos = Nanos(500_000_000);
/// chosen: shortest turn; a switch of threads costs some microseconds. Where there are few threads the turn is
/// longer than the kernel's and changes nothing, which matters: with turns of 100 us at 32 threads, messages of
/// 1 KiB lose three quarters of their rate, because each thread stops before the kernel joins its messages.
const LEAST_TURN: Nanos = Nanos(100_000);

pub(crate) fn drive<A: Activity, L: Link>(shared: &Shared, number: usize, make: impl Fn(usize) -> (A, L)) {
    // To the job's CPUs as a set: the scheduler spreads many threads better than a fixed assignment.
    if let Err(error) = affinity::restrict(&shared.cpus) {
        return shared.report(LoadError::refused(&error, "run on the CPUs of the job", "cpus"));
    }
    let connection = number % shared.job.connections as usize;
    let (activity, link) = make(connection);
    let Some(mut worker) = Worker::await_start(shared, number) else { return };
    run(activity, &link, &mut worker, shared, connection);
}

/// Nanoseconds that a thread goes on for before it lets the others of its CPU have a turn.
pub(crate) fn turn(shared: &Shared) -> u64 {
    let threads_per_cpu = shared.workers().div_ceil(shared.cpus.len().max(1)) as u64;
    (ROUND.0 / threads_per_cpu.max(1)).max(LEAST_TURN.0)
}

fn run<A: Activity>(
    mut activity: A,
    link: &impl Link,
    worker: &mut Worker<'_>,
    shared: &Shared,
    connection: usize,
) {
    let cell = shared.counters.cell(connection);
    let turn = turn(shared);
    let mut turn_begun = worker.now;
    loop {
        match activity.step(link, worker, cell) {
            // A pause that is over before it began is none: the thread has had its turn all the same.
            Step::Pausing(until) if until > worker.now => {
                worker.pause(until);
                turn_begun = worker.now;
                if A::UNTIL_DUE && worker.is_due() {
                    link.finish();
                    return worker.concluded(connection);
                }
            }
            Step::On | Step::Waiting | Step::Pausing(_) => {
                if A::UNTIL_DUE && worker.is_due() && !activity.in_hand() {
                    link.finish();
                    return worker.concluded(connection);
                }
                if activity.gives_way() || worker.now.saturating_sub(turn_begun) > turn {
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
