//! What bytes travel on: one file each.

pub(crate) mod null;
pub(crate) mod tcp;

use std::io;
use std::os::fd::BorrowedFd;

use iodyno_sys::buffer::ReceiveScratch;

/// One connection of a transport, as a workload sees it.
pub(crate) trait Link {
    /// Hands bytes over; gives how many were accepted.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Takes bytes and forgets them; 0 at the end of the stream.
    fn receive(&self, scratch: &ReceiveScratch) -> io::Result<usize>;
    /// Nothing more will be sent.
    fn finish(&self);
    /// What to wait on; `None`: it is always ready.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}
