//! Readiness of many descriptors at once.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What to wait for. All are level-triggered; a hang-up or an error is reported always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read, or the end of the stream.
    Readable,
    /// Room to write.
    Writable,
}

impl Interest {
    fn bits(self) -> u32 {
        match self {
            Interest::Readable => libc::EPOLLIN as u32,
            Interest::Writable => libc::EPOLLOUT as u32,
        }
    }
}

/// An epoll instance.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

/// Room for what one wait reports.
pub struct Events {
    entries: Vec<libc::epoll_event>,
    filled: usize,
}

impl Events {
    /// Room for `capacity` descriptors, at least 1.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Events { entries: vec![libc::epoll_event { events: 0, u64: 0 }; capacity.max(1)], filled: 0 }
    }

    /// How many descriptors the last wait reported.
    #[must_use]
    pub fn count(&self) -> usize {
        self.filled
    }

    /// The key of one of those, from 0 to [`Events::count`].
    ///
    /// # Panics
    /// Beyond the room that was made.
    #[inline]
    #[must_use]
    pub fn key(&self, at: usize) -> u64 {
        self.entries[at].u64
    }

    /// The keys that the last wait reported.
    pub fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.entries[..self.filled].iter().map(|entry| entry.u64)
    }
}

impl Epoll {
    /// A new instance.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn new() -> io::Result<Self> {
        // SAFETY: touches no memory of this process.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` is open and nobody else owns it.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn control(&self, operation: libc::c_int, fd: BorrowedFd<'_>, events: u32, key: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: key };
        // SAFETY: both descriptors are open as long as their borrows live; `event` is a valid epoll_event.
        if unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd.as_raw_fd(), &mut event) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Waits for `interest` of `fd` from now on and reports it under `key`.
    ///
    /// # Errors
    /// `EEXIST` when it is already waited for, `ENOMEM`, `ENOSPC` (`fs.epoll.max_user_watches`).
    pub fn add(&self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, interest.bits(), key)
    }

    /// Waits for something else of `fd`.
    ///
    /// # Errors
    /// `ENOENT` when it is not waited for.
    pub fn change(&self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, interest.bits(), key)
    }

    /// Forgets `fd`.
    ///
    /// # Errors
    /// `ENOENT` when it is not waited for.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    /// Waits until something is ready or `timeout_ms` have passed (negative: for ever). A signal ends the
    /// wait with nothing ready.
    ///
    /// # Errors
    /// What the kernel said, other than an interruption.
    pub fn wait(&self, events: &mut Events, timeout_ms: i32) -> io::Result<()> {
        // SAFETY: the kernel writes at most as many entries as there are.
        let count = unsafe {
            libc::epoll_wait(
                self.0.as_raw_fd(),
                events.entries.as_mut_ptr(),
                i32::try_from(events.entries.len()).unwrap_or(i32::MAX),
                timeout_ms,
            )
        };
        events.filled = usize::try_from(count).unwrap_or(0);
        if count < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn a_descriptor_is_reported_under_its_key_while_it_is_waited_for() {
        let (mut near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let (epoll, mut events) = (Epoll::new().unwrap(), Events::with_capacity(4));
        epoll.add(far.as_fd(), Interest::Readable, 77).unwrap();
        epoll.wait(&mut events, 0).unwrap();
        assert_eq!(events.keys().count(), 0);
        near.write_all(b"x").unwrap();
        epoll.wait(&mut events, 1_000).unwrap();
        assert_eq!(events.keys().collect::<Vec<_>>(), [77]);
        epoll.change(far.as_fd(), Interest::Writable, 78).unwrap();
        epoll.wait(&mut events, 1_000).unwrap();
        assert_eq!(events.keys().collect::<Vec<_>>(), [78]);
        epoll.remove(far.as_fd()).unwrap();
        epoll.wait(&mut events, 0).unwrap();
        assert_eq!(events.keys().count(), 0);
    }
}
