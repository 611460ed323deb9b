//! Waiting for one descriptor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use iodyno_core::units::Nanos;

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
    let mut entry = libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let timeout = libc::timespec {
        tv_sec: (longest.0 / 1_000_000_000) as libc::time_t,
        tv_nsec: (longest.0 % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the kernel reads and writes one entry and reads one time, which both live; no signal mask is given.
    let ready = unsafe { libc::ppoll(&mut entry, 1, &timeout, std::ptr::null()) };
    match ready {
        0 => Ok(Ended::Nothing),
        1 if entry.revents & libc::POLLIN != 0 => Ok(Ended::Readable),
        1 => Ok(Ended::Failed),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EINTR) => Ok(Ended::Nothing),
            error => Err(error),
        },
    }
}
