//! What bytes travel on: one file each.

pub(crate) mod calls;
pub(crate) mod datagram;
pub(crate) mod frame;
pub(crate) mod null;
pub(crate) mod plain;
pub(crate) mod rendezvous;
pub(crate) mod tls;

use std::io;
use std::os::fd::BorrowedFd;

use iodyno_sys::buffer::ReceiveScratch;
use iodyno_sys::errno;

/// One connection of a transport, as a workload sees it.
pub(crate) trait Link {
    /// Hands bytes over; gives how many were accepted.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Takes bytes and forgets them; 0 at the end of the stream.
    fn receive(&self, scratch: &ReceiveScratch) -> io::Result<usize>;
    /// As [`Link::receive`], `bytes` at most; waits until there are some.
    ///
    /// # Errors
    /// `EOPNOTSUPP` on a transport that does not wait; jobs are checked for those.
    fn receive_at_most(&self, _scratch: &ReceiveScratch, _bytes: usize) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(errno::EOPNOTSUPP))
    }
    /// Takes bytes into `place`, to be looked at; 0 at the end of the stream.
    ///
    /// # Errors
    /// `EOPNOTSUPP` on a transport that forgets what it takes; jobs are checked for those.
    fn receive_into(&self, _place: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(errno::EOPNOTSUPP))
    }
    /// Nothing more will be sent.
    fn finish(&self);
    /// Takes what the kernel reports of calls that are over, as an error that is none. `true`: this transport has such
    /// reports, so that a descriptor with an error need not be broken.
    fn tend(&self) -> bool {
        false
    }
    /// Whether a send was submitted whose outcome nobody has asked for.
    fn is_sending(&self) -> bool {
        false
    }
    /// What to wait on; `None`: it is always ready.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}
