//! One thread a connection, blocking calls.

use iodyno_sys::affinity;

use crate::connections::Connections;
use crate::error::LoadError;
use crate::transport::Link;
use crate::worker::counters::Cell;
use crate::worker::Worker;
use crate::workload::{Activity, Step};

pub(crate) fn drive<A: Activity, L: Link>(
    shared: &Connections,
    number: usize,
    make: impl Fn(usize) -> (A, L),
) {
    // To the job's CPUs as a set: the scheduler spreads many threads better than a fixed assignment.
    if let Err(error) = affinity::restrict(&shared.cpus) {
        return shared.report(LoadError::refused(&error, "run on the CPUs of the job", "cpus"));
    }
    let connection = number % shared.job.load.connections as usize;
    let (activity, link) = make(connection);
    let Some(mut worker) = Worker::await_start(shared, number) else { return };
    run(activity, &link, &mut worker, shared.counters.cell(connection), connection);
}

fn run<A: Activity>(
    mut activity: A,
    link: &impl Link,
    worker: &mut Worker<'_>,
    cell: &Cell,
    connection: usize,
) {
    loop {
        match activity.step(link, worker, cell) {
            // A pause that is over before it began is none.
            Step::Pausing(until) if until > worker.now => {
                worker.pause(until);
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
            }
            Step::Ended => return worker.ended(connection),
            Step::Failed(number) => return worker.failed(connection, number),
        }
    }
}
