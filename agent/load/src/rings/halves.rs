//! The two ends of a server's way: where frames come in and where they go out, whatever rings they are.

use std::io;
use std::os::fd::BorrowedFd;

use iodyno_sys::{packet_ring, socket, xsk};

/// Where frames come in.
pub(super) trait Inlet {
    /// Shows `each` frame that is there, about `most` of them; gives how many there were.
    fn take(&mut self, most: usize, each: impl FnMut(&[u8])) -> usize;
    /// To be waited for.
    fn descriptor(&self) -> BorrowedFd<'_>;
    /// What went wrong with it, if anything: asked when there was nothing although it was said to be ready.
    fn failure(&self) -> Option<io::Error> {
        socket::pending_error(self.descriptor()).unwrap_or_else(Some)
    }
}

/// Where frames go out.
pub(super) trait Outlet {
    /// The next frame to be written; `None`: none is free before the next flush.
    fn frame(&mut self) -> Option<&mut [u8]>;
    /// Has the frame that was written last sent with the next flush.
    fn commit(&mut self, length: usize);
    /// Sends what was handed over.
    fn flush(&mut self) -> io::Result<()>;
    /// How many frames there are.
    fn slots(&self) -> usize;
    /// Leaves the next frame as it is and turns to the one behind it. Not once anything was sent.
    fn pass_over(&mut self);
}

impl Inlet for packet_ring::Receiver {
    #[inline]
    fn take(&mut self, most: usize, each: impl FnMut(&[u8])) -> usize {
        packet_ring::Receiver::take(self, most, each).packets
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        packet_ring::Receiver::descriptor(self)
    }
}

impl Inlet for xsk::Receiver {
    #[inline]
    fn take(&mut self, most: usize, each: impl FnMut(&[u8])) -> usize {
        xsk::Receiver::take(self, most, each)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        xsk::Receiver::descriptor(self)
    }
}

impl Outlet for packet_ring::Sender {
    #[inline]
    fn frame(&mut self) -> Option<&mut [u8]> {
        packet_ring::Sender::frame(self)
    }

    #[inline]
    fn commit(&mut self, length: usize) {
        packet_ring::Sender::commit(self, length);
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        packet_ring::Sender::flush(self)
    }

    fn slots(&self) -> usize {
        packet_ring::Sender::slots(self)
    }

    fn pass_over(&mut self) {
        packet_ring::Sender::pass_over(self);
    }
}

impl Outlet for xsk::Sender {
    #[inline]
    fn frame(&mut self) -> Option<&mut [u8]> {
        xsk::Sender::frame(self)
    }

    #[inline]
    fn commit(&mut self, length: usize) {
        xsk::Sender::commit(self, length);
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        xsk::Sender::flush(self)
    }

    fn slots(&self) -> usize {
        xsk::Sender::slots(self)
    }

    fn pass_over(&mut self) {
        xsk::Sender::pass_over(self);
    }
}
