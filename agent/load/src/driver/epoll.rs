//! One pinned worker a CPU, many connections each, non-blocking calls.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use iodyno_core::job::Role;
use iodyno_core::units::Nanos;
use iodyno_sys::epoll::{Epoll, Events, Interest};
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

/// Bytes that a connection may move before the next one has its turn: many small messages at a time, so that
/// the kernel can join them, and still a round over thousands of connections in a fraction of a second.
const SHARE: usize = 128 << 10;
/// Connections that one wait reports.
const REPORTED: usize = 256;
/// How long a worker with nothing to do sleeps before it looks at the clock.
const NAP_MS: i32 = 10;

/// The connections of one worker.
struct Table {
    epoll: Epoll,
    events: Events,
    /// Index of each connection in the job, and how far it is.
    members: Vec<(usize, Sending)>,
}

/// One worker for each of `cpus`, but no more than there are connections, which are dealt round robin.
pub fn works(shared: &Arc<Shared>, cpus: &[u32]) -> Result<Vec<(Vec<u32>, Work)>, LoadError> {
    let failed = |error: std::io::Error| LoadError::from_kernel(&error, "wait", "epoll");
    let workers = cpus.len().min(shared.sockets.len()).max(1);
    let interest = if shared.role == Role::Receive { Interest::Readable } else { Interest::Writable };
    let mut works: Vec<(Vec<u32>, Work)> = Vec::with_capacity(workers);
    for worker in 0..workers {
        let indices: Vec<usize> = (worker..shared.sockets.len()).step_by(workers).collect();
        let epoll = Epoll::new().map_err(failed)?;
        for (key, index) in (0..).zip(&indices) {
            let socket = shared.sockets[*index].as_fd();
            socket::set_blocking(socket, false).map_err(failed)?;
            epoll.add(socket, interest, key).map_err(failed)?;
        }
        let mut table = Table {
            epoll,
            events: Events::with_capacity(REPORTED),
            members: indices.into_iter().map(|index| (index, Sending::new())).collect(),
        };
        let shared = Arc::clone(shared);
        let work: Work = Box::new(move |counters, clock, start| {
            table.serve(&shared, worker, counters, clock, start);
        });
        works.push((cpus.get(worker).map_or_else(Vec::new, |cpu| vec![*cpu]), work));
    }
    Ok(works)
}

/// The same for connections that go nowhere and are always ready.
pub fn null_works(shared: &Arc<Shared>, connections: usize, cpus: &[u32]) -> Vec<(Vec<u32>, Work)> {
    let workers = cpus.len().min(connections).max(1);
    let work = |worker: usize| -> Work {
        let shared = Arc::clone(shared);
        let mut members: Vec<_> =
            (worker..connections).step_by(workers).map(|index| (index, Sending::new())).collect();
        Box::new(move |counters, clock, start| {
            let (until, recorder) = (start.plus(shared.load), counters.recorder(worker));
            counters.started(clock.now());
            while clock.now() < until {
                for (index, sending) in &mut members {
                    let mut tally = Tally { connection: &counters.connections[*index], recorder, clock };
                    let message = shared.message.bytes();
                    let _ = sending.turn(&NullFlow, message, SHARE, until, &mut tally);
                }
            }
        })
    };
    (0..workers)
        .map(|worker| (cpus.get(worker).map_or_else(Vec::new, |cpu| vec![*cpu]), work(worker)))
        .collect()
}

impl Table {
    fn serve(
        &mut self,
        shared: &Shared,
        worker: usize,
        counters: &Counters,
        clock: &mut OperationClock,
        start: Nanos,
    ) {
        let (until, recorder) = (start.plus(shared.load), counters.recorder(worker));
        let scratch = shared.scratches.get(worker % shared.scratches.len().max(1));
        let mut open = self.members.len();
        let mut started = false;
        if shared.role == Role::Send {
            counters.started(clock.now());
            started = true;
        }
        while open > 0 {
            if let Err(error) = self.epoll.wait(&mut self.events, NAP_MS) {
                counters.lost(worker, &format!("epoll: {error}"));
                return;
            }
            let stopping = counters.stopping.load(Relaxed);
            if shared.role == Role::Send && (stopping || clock.now() >= until) {
                return self.end(shared, counters, stopping);
            }
            for key in self.events.keys() {
                let (index, sending) = &mut self.members[key as usize];
                let (index, flow) = (*index, TcpFlow(shared.sockets[*index].as_fd()));
                let mut tally = Tally { connection: &counters.connections[index], recorder, clock };
                let turn = match scratch {
                    Some(scratch) => receiving_turn(&flow, scratch, SHARE, &mut tally),
                    None => sending.turn(&flow, shared.message.bytes(), SHARE, until, &mut tally),
                };
                if !started {
                    started = true;
                    counters.started(clock.now());
                }
                let reason = match turn {
                    Turn::Later => continue,
                    Turn::End if stopping => {
                        Some("its data did not end within the time after the stop".to_owned())
                    }
                    Turn::End if shared.is_early(start, clock.now()) => {
                        Some("the other end closed it before the load was to stop".to_owned())
                    }
                    Turn::End => None,
                    Turn::Lost(error) => Some(error.to_string()),
                };
                open -= 1;
                if let Some(reason) = reason {
                    counters.lost(index, &reason);
                }
                // Nothing more is wanted of it; a hang-up would be reported again and again.
                let _ = self.epoll.remove(flow.0);
            }
        }
    }

    /// Ends every connection that is still open. One that was lost before is ended in vain.
    fn end(&self, shared: &Shared, counters: &Counters, stopping: bool) {
        for (index, _) in &self.members {
            if stopping {
                counters.lost(*index, "its data was not taken within the time after the stop");
            } else {
                TcpFlow(shared.sockets[*index].as_fd()).end();
            }
        }
    }
}
