//! What bytes travel on.

pub mod null;
pub mod tcp;

use std::io;

use iodyno_sys::buffer::ReceiveScratch;

/// One connection of a transport, as drivers see it.
pub trait Flow {
    /// Hands bytes over; how many were taken.
    ///
    /// # Errors
    /// `WouldBlock` when none are taken now; anything else ends the flow.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Takes bytes; how many, 0 at the end.
    ///
    /// # Errors
    /// As [`Flow::send`].
    fn receive(&self, scratch: &ReceiveScratch) -> io::Result<usize>;

    /// Says that nothing more will be sent.
    fn end(&self);
}
