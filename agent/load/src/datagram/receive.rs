//! The receiving end of a stream: what came is counted, and what did not.

use super::sequence::{Arrival, Sequence};
use super::server::{Seat, Service};
use crate::connections::Connections;
use crate::error::LoadError;
use crate::transport::datagram::{Header, Kind};
use crate::workload::application::compute;

/// What came of each flow.
pub(super) struct Receipts {
    flows: Box<[Sequence]>,
    /// Datagrams of the last call that came for the first time.
    new: u64,
}

impl Service for Receipts {
    fn prepare(shared: &Connections, _: usize) -> Result<Self, LoadError> {
        Ok(Receipts {
            flows: (0..shared.job.load.connections).map(|_| Sequence::default()).collect(),
            new: 0,
        })
    }

    #[inline]
    fn take(&mut self, seat: &mut Seat<'_>, at: usize, header: Header) -> bool {
        if header.kind != Kind::Stream {
            return false;
        }
        match self.flows[header.flow as usize].arrive(header.sequence) {
            Arrival::New { lost, reordered } => {
                let cell = seat.shared.counters.cell(header.flow as usize);
                let compute_ns = seat.shared.job.load.application().compute_ns.0;
                if compute_ns > 0 {
                    cell.add_compute(compute(compute_ns, &mut seat.worker));
                }
                seat.worker.moved(cell, seat.port.length(at), seat.asked);
                cell.add_operation();
                self.new += 1;
                if lost > 0 {
                    seat.tally.lost.add(lost);
                }
                if reordered {
                    seat.tally.reordered.one_more();
                }
            }
            Arrival::Duplicate => seat.tally.duplicates.one_more(),
            Arrival::Late => seat.tally.late.one_more(),
        }
        true
    }

    #[inline]
    fn taken(&mut self, seat: &mut Seat<'_>) {
        let new = std::mem::take(&mut self.new);
        if new > 0 {
            seat.tally.received.add(new);
            seat.tally.requests.add(new);
            seat.worker.completed_together(seat.asked, new);
        }
    }

    fn end(&mut self, seat: &mut Seat<'_>, header: Header) {
        seat.tally.lost.add(self.flows[header.flow as usize].end(Some(header.sequence)));
    }

    /// Of flows that did not say that they end, it is known what is missing before the last that came.
    fn close(&mut self, seat: &mut Seat<'_>) {
        for flow in (0..self.flows.len()).filter(|flow| !seat.ends.has(*flow)) {
            seat.tally.lost.add(self.flows[flow].end(None));
        }
    }
}
