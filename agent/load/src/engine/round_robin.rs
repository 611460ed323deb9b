//! One pinned worker a CPU, blocking calls: a message of one connection, then one of the next.
//!
//! No call asks who is ready. Where the connections are many, each has room and bytes again long before its turn comes, so
//! that both ends hardly ever sleep; but one that stalls keeps the others of its worker waiting. A turn is a whole message at
//! either end: were the reader to take less, or more, the one would wait where the other does not come.

use iodyno_sys::affinity;

use crate::connections::Connections;
use crate::error::LoadError;
use crate::transport::Link;
use crate::worker::Worker;
use crate::workload::{Activity, Step};

/// One connection of a worker.
struct Slot<A, L> {
    activity: A,
    link: L,
    connection: usize,
}

pub(crate) fn drive<A: Activity, L: Link>(
    shared: &Connections,
    number: usize,
    make: impl Fn(usize) -> (A, L),
) {
    let cpu = shared.cpus[number % shared.cpus.len()];
    if let Err(error) = affinity::restrict(&[cpu]) {
        return shared.report(LoadError::refused(&error, &format!("run on CPU {cpu}"), "cpus"));
    }
    let mut slots: Vec<Slot<A, L>> = shared
        .share_of(number)
        .map(|connection| {
            let (activity, link) = make(connection);
            Slot { activity, link, connection }
        })
        .collect();
    let Some(mut worker) = Worker::await_start(shared, number) else { return };
    while !slots.is_empty() {
        slots.retain_mut(|slot| visit(slot, &mut worker, shared));
    }
}

/// Gives one connection its turn; `false`: it was its last.
#[inline]
fn visit<A: Activity, L: Link>(slot: &mut Slot<A, L>, worker: &mut Worker<'_>, shared: &Connections) -> bool {
    let cell = shared.counters.cell(slot.connection);
    loop {
        if A::UNTIL_DUE && worker.is_due() {
            slot.link.finish();
            worker.concluded(slot.connection);
            return false;
        }
        match slot.activity.step(&slot.link, worker, cell) {
            Step::Ended => {
                worker.ended(slot.connection);
                return false;
            }
            Step::Failed(number) => {
                worker.failed(slot.connection, number);
                return false;
            }
            _ if slot.activity.between_messages() => return true,
            _ => {}
        }
    }
}
