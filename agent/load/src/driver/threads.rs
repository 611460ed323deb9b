//! One thread a connection, blocking calls: what uperf does.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use iodyno_core::job::Role;
use iodyno_core::units::Nanos;
use iodyno_sys::operation_clock::OperationClock;
use iodyno_sys::socket;

use crate::counters::Counters;
use crate::crew::Work;
use crate::driver::Shared;
use crate::error::LoadError;
use crate::transport::null::NullFlow;
use crate::transport::tcp::TcpFlow;
use crate::transport::Flow;
use crate::workload::stream::{receiving_turn, Sending, Tally, Turn};

/// One worker for every socket, each allowed on all `cpus`.
pub fn works(shared: &Arc<Shared>, cpus: &[u32]) -> Result<Vec<(Vec<u32>, Work)>, LoadError> {
    for socket in shared.sockets.iter() {
        socket::set_blocking(socket.as_fd(), true)
            .map_err(|error| LoadError::from_kernel(&error, "make blocking", "socket"))?;
    }
    let work = |index: usize| -> Work {
        let shared = Arc::clone(shared);
        Box::new(move |counters, clock, start| {
            let flow = TcpFlow(shared.sockets[index].as_fd());
            match shared.role {
                Role::Receive => receive(&flow, &shared, index, counters, clock, start),
                _ => send(&flow, &shared, index, counters, clock, start),
            }
        })
    };
    Ok((0..shared.sockets.len()).map(|index| (cpus.to_vec(), work(index))).collect())
}

/// One worker for each of `connections` that go nowhere.
pub fn null_works(shared: &Arc<Shared>, connections: usize, cpus: &[u32]) -> Vec<(Vec<u32>, Work)> {
    let work = |index: usize| -> Work {
        let shared = Arc::clone(shared);
        Box::new(move |counters, clock, start| send(&NullFlow, &shared, index, counters, clock, start))
    };
    (0..connections).map(|index| (cpus.to_vec(), work(index))).collect()
}

fn send<F: Flow>(
    flow: &F,
    shared: &Shared,
    index: usize,
    counters: &Counters,
    clock: &mut OperationClock,
    start: Nanos,
) {
    let mut tally =
        Tally { connection: &counters.connections[index], recorder: counters.recorder(index), clock };
    let until = start.plus(shared.load);
    counters.started(tally.clock.now());
    let mut sending = Sending::new();
    let turn = sending.turn(flow, shared.message.bytes(), usize::MAX, until, &mut tally);
    match turn {
        Turn::Lost(error) if !counters.stopping.load(Relaxed) => counters.lost(index, &error.to_string()),
        Turn::Lost(_) => counters.lost(index, "its data was not taken within the time after the stop"),
        Turn::Later | Turn::End => flow.end(),
    }
}

fn receive<F: Flow>(
    flow: &F,
    shared: &Shared,
    index: usize,
    counters: &Counters,
    clock: &mut OperationClock,
    start: Nanos,
) {
    let mut tally =
        Tally { connection: &counters.connections[index], recorder: counters.recorder(index), clock };
    let scratch = &shared.scratches[index % shared.scratches.len()];
    let mut started = false;
    let failed = loop {
        let turn = receiving_turn(flow, scratch, usize::MAX, &mut tally);
        if !started {
            started = true;
            counters.started(tally.clock.now());
        }
        match turn {
            Turn::Later => {}
            Turn::End if counters.stopping.load(Relaxed) => {
                break Some("its data did not end within the time after the stop".to_owned());
            }
            Turn::End if shared.is_early(start, tally.clock.now()) => {
                break Some("the other end closed it before the load was to stop".to_owned());
            }
            Turn::End => break None,
            Turn::Lost(error) => break Some(error.to_string()),
        }
    };
    if let Some(reason) = failed {
        counters.lost(index, &reason);
    }
}
