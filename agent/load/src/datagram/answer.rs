//! The answering end of requests: every one of them is answered, to where it came from.

use iodyno_sys::datagram::Patience;
use iodyno_sys::errno;

use super::server::{Seat, Service};
use crate::connections::Connections;
use crate::error::LoadError;
use crate::transport::datagram::{Header, Kind};
use crate::workload::application;

/// Answers that are being made.
pub(super) struct Answers {
    /// Their flows.
    flows: Box<[u32]>,
    ready: usize,
}

impl Service for Answers {
    fn prepare(_: &Connections, room: usize) -> Result<Self, LoadError> {
        Ok(Answers { flows: vec![0; room].into(), ready: 0 })
    }

    #[inline]
    fn take(&mut self, seat: &mut Seat<'_>, at: usize, header: Header) -> bool {
        if header.kind != Kind::Request {
            return false;
        }
        let begun = seat.worker.now;
        let bytes = seat.port.length(at);
        seat.worker.moved(seat.shared.counters.cell(header.flow as usize), bytes, begun);
        if !seat.port.answer(at, self.ready, header.answer(), seat.shared.job.load.response_bytes().0) {
            // No room on the way out: the answer is lost, and the client notices.
            seat.tally.received.one_more();
            return true;
        }
        self.flows[self.ready] = header.flow;
        self.ready += 1;
        if self.ready == self.flows.len() {
            self.taken(seat);
        }
        true
    }

    /// Sends the answers that are ready.
    #[inline]
    fn taken(&mut self, seat: &mut Seat<'_>) {
        let ready = std::mem::take(&mut self.ready);
        if ready == 0 {
            return;
        }
        let (begun, shared) = (seat.worker.now, seat.shared);
        seat.tally.received.add(ready as u64);
        seat.tally.requests.add(ready as u64);
        if shared.job.load.application().compute_ns.0 > 0 {
            for flow in &self.flows[..ready] {
                let taken =
                    application::compute(shared.job.load.application().compute_ns.0, &mut seat.worker);
                shared.counters.cell(*flow as usize).add_compute(taken);
            }
        }
        let mut from = 0;
        while from < ready {
            match seat.port.send(0, from, ready, Patience::Waits) {
                Ok(sent) => {
                    seat.worker.tick();
                    seat.tally.sent.add(sent as u64);
                    for flow in &self.flows[from..from + sent] {
                        shared.counters.cell(*flow as usize).add_operation();
                    }
                    seat.worker.completed_together(begun, sent as u64);
                    from += sent;
                }
                Err(error) => match error.raw_os_error().unwrap_or(0) {
                    errno::EINTR => {}
                    // No room on the way out: the answer is lost, and the client notices.
                    errno::EAGAIN | errno::ENOBUFS => from += 1,
                    number => {
                        seat.worker.failed(self.flows[from] as usize, number);
                        from += 1;
                    }
                },
            }
        }
    }

    fn end(&mut self, _: &mut Seat<'_>, _: Header) {}

    fn close(&mut self, _: &mut Seat<'_>) {}
}
