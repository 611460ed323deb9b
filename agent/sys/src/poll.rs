//! Waiting for one descriptor.

use std::io;
use std::os::fd::BorrowedFd;

use iodyno_core::units::Nanos;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::clock;

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// There is something to take.
    Readable,
    /// An error waits on the descriptor.
    Failed,
    /// The time was up, or a signal came.
    Nothing,
}

/// Waits until there is something to read, at most this long.
///
/// # Errors
/// `ENOMEM`.
pub fn readable(descriptor: BorrowedFd<'_>, longest: Nanos) -> io::Result<Ended> {
    match wait(descriptor, PollFlags::IN, longest) {
        Ok(found) if found.is_empty() => Ok(Ended::Nothing),
        Ok(found) if found.contains(PollFlags::IN) => Ok(Ended::Readable),
        Ok(_) => Ok(Ended::Failed),
        Err(Errno::INTR) => Ok(Ended::Nothing),
        Err(error) => Err(error.into()),
    }
}

/// Waits for any of these, at most this long; what there is of them, or failed.
pub(crate) fn wait(
    descriptor: BorrowedFd<'_>,
    wanted: PollFlags,
    longest: Nanos,
) -> Result<PollFlags, Errno> {
    let mut entry = [PollFd::from_borrowed_fd(descriptor, wanted)];
    rustix::event::poll(&mut entry, Some(&clock::timespec(longest)))?;
    Ok(entry[0].revents())
}
