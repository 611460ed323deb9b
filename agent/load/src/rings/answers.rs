//! What a server on a ring does with a request: look whether it is the trial's, count it, write the answer.

use std::io;

use super::halves::Outlet;
use super::place::Place;
use super::voice::Voice;
use super::Taker;
use crate::connections::Connections;
use crate::datagram::counters::Tally;
use crate::transport::datagram::{Kind, Mark};
use crate::transport::frame::{self, Cut};
use crate::worker::Worker;
use crate::workload::application::compute;

/// The answering half of a server.
pub(super) struct Answers<'a, O> {
    shared: &'a Connections,
    tally: &'a Tally,
    voice: Voice<O>,
    /// How an answer is cut.
    cut: Cut,
    /// Answers since the last flush.
    answered: u64,
}

impl<'a, O: Outlet> Answers<'a, O> {
    pub fn new(shared: &'a Connections, number: usize, place: &Place, outlet: O) -> Self {
        let flows = shared.job.load.connections as usize;
        Answers {
            shared,
            tally: shared.counters.tally(number),
            voice: Voice::new(Mark::of(&shared.job), flows, place, outlet),
            cut: place.cut,
            answered: 0,
        }
    }
}

impl<O: Outlet> Taker for Answers<'_, O> {
    fn all_ended(&self) -> bool {
        self.voice.all_ended()
    }

    #[inline]
    fn put(&mut self, frame: &[u8], worker: &mut Worker<'_>) {
        let Some((way, payload)) = frame::read(frame) else { return };
        let Some(header) = self.voice.header(payload) else { return self.tally.foreign.one_more() };
        match header.kind {
            Kind::Request => {
                let compute_ns = self.shared.job.load.application().compute_ns.0;
                let cell = self.shared.counters.cell(header.flow as usize);
                if compute_ns > 0 {
                    cell.add_compute(compute(compute_ns, worker));
                }
                self.tally.received.one_more();
                self.tally.requests.one_more();
                worker.moved(cell, payload.len() as u64, worker.now);
                if self.voice.write(self.cut, &way, header.answer()) {
                    cell.add_operation();
                    self.answered += 1;
                }
            }
            Kind::End => {
                self.voice.part(&way, header);
            }
            Kind::Hello => self.voice.greet(&way, header),
            Kind::Answer | Kind::Stream | Kind::HelloAcknowledged => self.tally.foreign.one_more(),
        }
    }

    /// Sends what was written, and counts the operations, which began at `begun`.
    #[inline]
    fn send(&mut self, worker: &mut Worker<'_>, begun: u64) -> io::Result<()> {
        self.voice.send()?;
        worker.tick();
        if self.answered > 0 {
            self.tally.sent.add(self.answered);
            worker.completed_together(begun, self.answered);
            self.answered = 0;
        }
        Ok(())
    }

    fn close(&mut self) {}
}
