//! A stream socket and its plain calls: TCP over IPv4 or IPv6, Unix, vsock.

use std::io;
use std::os::fd::BorrowedFd;

use iodyno_sys::buffer::ReceiveScratch;
use iodyno_sys::socket::{self, Direction};

use super::Link;

/// A connected socket, blocking or not.
pub(crate) struct Plain<'a>(pub BorrowedFd<'a>);

impl Link for Plain<'_> {
    #[inline]
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        socket::send(self.0, bytes)
    }

    #[inline]
    fn receive(&self, scratch: &ReceiveScratch) -> io::Result<usize> {
        socket::receive(self.0, scratch)
    }

    #[inline]
    fn receive_at_most(&self, scratch: &ReceiveScratch, bytes: usize) -> io::Result<usize> {
        socket::receive_at_most(self.0, scratch, bytes)
    }

    #[inline]
    fn receive_into(&self, place: &mut [u8]) -> io::Result<usize> {
        socket::receive_into(self.0, place)
    }

    fn finish(&self) {
        // Fails only when the connection is gone, which the receiver notices and reports.
        let _ = socket::shutdown(self.0, Direction::Writing);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0)
    }
}
