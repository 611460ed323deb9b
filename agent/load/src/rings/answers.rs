//! What a server on a ring does with a frame: look whether it is the trial's, count it, write the answer.

use std::io;

use iodyno_sys::errno;

use super::halves::Outlet;
use super::place::Place;
use crate::datagram::counters::Tally;
use crate::transport::datagram::{Header, Kind, Mark, HEADER_BYTES};
use crate::transport::frame::{self, Cut, Way, HEADERS_BYTES};
use crate::worker::shared::Shared;
use crate::worker::Worker;
use crate::workload::application::compute;

/// chosen: how often sending is tried before an answer is given up; the frames lie with the kernel meanwhile, and a
/// device that takes none for so long is as good as a lost datagram.
const TRIES: usize = 1000;

/// The answering half of a server.
pub(super) struct Answers<'a, O> {
    shared: &'a Shared,
    tally: &'a Tally,
    mark: Mark,
    /// How an answer is cut, and a datagram that is a header alone.
    cut: Cut,
    alone: Cut,
    outlet: O,
    /// Of the next answer that is cut.
    identification: u16,
    /// Answers since the last flush, and whether anything is to be flushed.
    answered: u64,
    written: bool,
    /// By flow: whether it has said that it ends.
    ended: Box<[bool]>,
    going: usize,
}

impl<'a, O: Outlet> Answers<'a, O> {
    pub fn new(shared: &'a Shared, number: usize, place: &Place, outlet: O) -> Self {
        let flows = shared.job.connections as usize;
        Answers {
            shared,
            tally: shared.counters.tally(number),
            mark: Mark::of(&shared.job),
            cut: place.cut,
            alone: Cut::new(HEADER_BYTES, place.device.mtu_bytes, usize::MAX),
            outlet,
            identification: 0,
            answered: 0,
            written: false,
            ended: vec![false; flows].into(),
            going: flows,
        }
    }

    /// Whether every flow has said that it ends.
    pub fn all_ended(&self) -> bool {
        self.going == 0
    }

    /// Answers what came in a frame. It goes out with [`Answers::send`].
    #[inline]
    pub fn put(&mut self, frame: &[u8], worker: &mut Worker<'_>) {
        let Some((way, payload)) = frame::read(frame) else { return };
        let header =
            Header::read(self.mark, payload).filter(|header| (header.flow as usize) < self.ended.len());
        let Some(header) = header else { return self.tally.foreign.one_more() };
        match header.kind {
            Kind::Request => {
                let compute_ns = self.shared.job.compute_ns.0;
                let cell = self.shared.counters.cell(header.flow as usize);
                if compute_ns > 0 {
                    cell.add_compute(compute(compute_ns, worker));
                }
                self.tally.received.one_more();
                self.tally.requests.one_more();
                worker.moved(cell, payload.len() as u64, worker.now);
                if self.write(self.cut, &way, header.answer()) {
                    cell.add_operation();
                    self.answered += 1;
                }
            }
            Kind::End => {
                let ended = &mut self.ended[header.flow as usize];
                self.going -= usize::from(!*ended);
                *ended = true;
                self.write(self.alone, &way, header);
            }
            Kind::Hello => {
                self.write(self.alone, &way, Header { kind: Kind::HelloAcknowledged, ..header });
            }
            Kind::Answer | Kind::Stream | Kind::HelloAcknowledged => self.tally.foreign.one_more(),
        }
    }

    /// Sends what was written, and counts the operations, which began at `begun`.
    #[inline]
    pub fn send(&mut self, worker: &mut Worker<'_>, begun: u64) -> io::Result<()> {
        if self.written {
            self.flush()?;
            self.written = false;
        }
        worker.tick();
        if self.answered > 0 {
            self.tally.sent.add(self.answered);
            worker.completed_together(begun, self.answered);
            self.answered = 0;
        }
        Ok(())
    }

    /// Writes a datagram into as many frames as it takes; `false`: there is no room for it, also after a while.
    #[inline]
    fn write(&mut self, cut: Cut, way: &Way, header: Header) -> bool {
        self.identification = self.identification.wrapping_add(1);
        for number in 0..cut.frames() {
            if self.outlet.frame().is_none() && !self.make_room() {
                return false;
            }
            let Some(frame) = self.outlet.frame() else { return false };
            let length = cut.write(way, self.identification, number, frame);
            if number == 0 {
                header.write(self.mark, &mut frame[HEADERS_BYTES..]);
            }
            self.outlet.commit(length);
            self.written = true;
        }
        true
    }

    #[cold]
    fn make_room(&mut self) -> bool {
        (0..TRIES).any(|_| self.outlet.flush().is_ok() && self.outlet.frame().is_some())
    }

    fn flush(&mut self) -> io::Result<()> {
        for _ in 0..TRIES {
            match self.outlet.flush() {
                Err(error) if passing(&error) => {}
                outcome => return outcome,
            }
        }
        // It is sent with the next ones.
        Ok(())
    }
}

/// Whether it helps to try again.
fn passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error().unwrap_or(0), errno::EAGAIN | errno::ENOBUFS | errno::EINTR)
}
