//! What a server on a ring says by itself: datagrams that it writes into frames, and who has said that it ends.

use std::io;

use iodyno_sys::errno;

use super::halves::Outlet;
use super::place::Place;
use crate::transport::datagram::{Header, Kind, Mark, HEADER_BYTES};
use crate::transport::frame::{Cut, Way, HEADERS_BYTES};

/// chosen: how often sending is tried before a datagram is given up; the frames lie with the kernel meanwhile, and a
/// device that takes none for so long is as good as a lost datagram.
const TRIES: usize = 1000;

/// The way out of a server, for all flows.
pub(super) struct Voice<O> {
    pub mark: Mark,
    /// How a datagram that is a header alone lies in its frame.
    alone: Cut,
    outlet: O,
    /// Of the next datagram that is cut.
    identification: u16,
    /// Whether anything is to be flushed.
    written: bool,
    /// By flow: whether it has said that it ends.
    ended: Box<[bool]>,
    going: usize,
}

impl<O: Outlet> Voice<O> {
    pub fn new(mark: Mark, flows: usize, place: &Place, outlet: O) -> Self {
        Voice {
            mark,
            alone: Cut::new(HEADER_BYTES, place.device.mtu_bytes, usize::MAX),
            outlet,
            identification: 0,
            written: false,
            ended: vec![false; flows].into(),
            going: flows,
        }
    }

    /// The header of a datagram of one of the flows.
    #[inline]
    pub fn header(&self, payload: &[u8]) -> Option<Header> {
        Header::read(self.mark, payload).filter(|header| (header.flow as usize) < self.ended.len())
    }

    /// Whether every flow has said that it ends.
    pub fn all_ended(&self) -> bool {
        self.going == 0
    }

    /// Whether a flow has.
    pub fn has_ended(&self, flow: usize) -> bool {
        self.ended[flow]
    }

    /// A flow says so, and is told that this is known, as often as it says it; `true`: for the first time.
    #[cold]
    pub fn part(&mut self, way: &Way, header: Header) -> bool {
        let first = !std::mem::replace(&mut self.ended[header.flow as usize], true);
        self.going -= usize::from(first);
        self.write(self.alone, way, header);
        first
    }

    /// A flow says hello again: the answer to it was on its way.
    #[cold]
    pub fn greet(&mut self, way: &Way, header: Header) {
        self.write(self.alone, way, Header { kind: Kind::HelloAcknowledged, ..header });
    }

    /// Writes a datagram into as many frames as it takes; `false`: there is no room for it, also after a while.
    #[inline]
    pub fn write(&mut self, cut: Cut, way: &Way, header: Header) -> bool {
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

    /// Sends what was written.
    #[inline]
    pub fn send(&mut self) -> io::Result<()> {
        if self.written {
            self.flush()?;
            self.written = false;
        }
        Ok(())
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
