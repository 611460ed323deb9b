//! What a server on a ring does with a datagram of a stream: look whether it is the trial's, and count it, and what is
//! missing before it.

use std::io;

use super::halves::Outlet;
use super::place::Place;
use super::voice::Voice;
use super::Taker;
use crate::connections::Connections;
use crate::datagram::counters::Tally;
use crate::datagram::sequence::{Arrival, Sequence};
use crate::transport::datagram::{Kind, Mark};
use crate::transport::frame;
use crate::worker::Worker;
use crate::workload::application::compute;

/// What came of each flow.
pub(super) struct Receipts<'a, O> {
    shared: &'a Connections,
    tally: &'a Tally,
    voice: Voice<O>,
    flows: Box<[Sequence]>,
    /// Datagrams of the last look that came for the first time.
    new: u64,
}

impl<'a, O: Outlet> Receipts<'a, O> {
    pub fn new(shared: &'a Connections, number: usize, place: &Place, outlet: O) -> Self {
        let flows = shared.job.load.connections as usize;
        Receipts {
            shared,
            tally: shared.counters.tally(number),
            voice: Voice::new(Mark::of(&shared.job), flows, place, outlet),
            flows: (0..flows).map(|_| Sequence::default()).collect(),
            new: 0,
        }
    }
}

impl<O: Outlet> Taker for Receipts<'_, O> {
    fn all_ended(&self) -> bool {
        self.voice.all_ended()
    }

    #[inline]
    fn put(&mut self, frame: &[u8], worker: &mut Worker<'_>) {
        let Some((way, payload)) = frame::read(frame) else { return };
        let Some(header) = self.voice.header(payload) else { return self.tally.foreign.one_more() };
        let flow = header.flow as usize;
        match header.kind {
            Kind::Stream => match self.flows[flow].arrive(header.sequence) {
                Arrival::New { lost, reordered } => {
                    let cell = self.shared.counters.cell(flow);
                    let compute_ns = self.shared.job.load.application().compute_ns.0;
                    if compute_ns > 0 {
                        cell.add_compute(compute(compute_ns, worker));
                    }
                    worker.moved(cell, payload.len() as u64, worker.now);
                    cell.add_operation();
                    self.new += 1;
                    if lost > 0 {
                        self.tally.lost.add(lost);
                    }
                    if reordered {
                        self.tally.reordered.one_more();
                    }
                }
                Arrival::Duplicate => self.tally.duplicates.one_more(),
                Arrival::Late => self.tally.late.one_more(),
            },
            Kind::End => {
                if self.voice.part(&way, header) {
                    self.tally.lost.add(self.flows[flow].end(Some(header.sequence)));
                }
            }
            Kind::Hello => self.voice.greet(&way, header),
            Kind::Answer | Kind::Request | Kind::HelloAcknowledged => self.tally.foreign.one_more(),
        }
    }

    #[inline]
    fn send(&mut self, worker: &mut Worker<'_>, begun: u64) -> io::Result<()> {
        self.voice.send()?;
        worker.tick();
        let new = std::mem::take(&mut self.new);
        if new > 0 {
            self.tally.received.add(new);
            self.tally.requests.add(new);
            worker.completed_together(begun, new);
        }
        Ok(())
    }

    /// Of flows that did not say that they end, it is known what is missing before the last that came.
    fn close(&mut self) {
        for flow in (0..self.flows.len()).filter(|flow| !self.voice.has_ended(*flow)) {
            self.tally.lost.add(self.flows[flow].end(None));
        }
    }
}
