//! Readiness of many descriptors at once.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use iodyno_core::units::Nanos;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::clock;

/// What to wait for. All are level-triggered; a hang-up (of both directions) or an error is reported always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read, or the end of the stream.
    Readable,
    /// Room to write.
    Writable,
    /// Something to read, or room to write.
    Either,
    /// A hang-up or an error only.
    Nothing,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Interest::Readable => EventFlags::IN,
            Interest::Writable => EventFlags::OUT,
            Interest::Either => EventFlags::IN | EventFlags::OUT,
            Interest::Nothing => EventFlags::empty(),
        }
    }
}

/// An epoll instance.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
    /// Whether the kernel takes a timeout in nanoseconds (Linux 5.11).
    precise: Cell<bool>,
}

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

    /// Whether one of those is over in both directions, as one that broke is; an error alone may be a completion.
    ///
    /// # Panics
    /// Beyond the room that was made.
    #[inline]
    #[must_use]
    pub fn hung_up(&self, at: usize) -> bool {
        self.entries[at].events & libc::EPOLLHUP as u32 != 0
    }

    /// Takes the outcome of a wait; an interruption reported nothing.
    fn fill(&mut self, count: i64) -> io::Result<()> {
        self.filled = usize::try_from(count).unwrap_or(0);
        match io::Error::last_os_error() {
            error if count < 0 && error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// The keys that the last wait reported.
    pub fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.entries[..self.filled].iter().map(|entry| entry.u64)
    }
}

impl AsFd for Epoll {
    /// Readable when any of its descriptors is ready.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Epoll {
    /// A new instance.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn new() -> io::Result<Self> {
        Ok(Epoll { fd: epoll::create(CreateFlags::CLOEXEC)?, precise: Cell::new(true) })
    }

    /// Waits for `interest` of `fd` from now on and reports it under `key`.
    ///
    /// # Errors
    /// `EEXIST` when it is already waited for, `ENOMEM`, `ENOSPC` (`fs.epoll.max_user_watches`).
    pub fn add(&self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        Ok(epoll::add(&self.fd, fd, EventData::new_u64(key), interest.flags())?)
    }

    /// Waits for something to accept on `fd`, which other instances wait on, too: the kernel wakes one of them.
    ///
    /// # Errors
    /// As [`Epoll::add`].
    pub fn add_exclusive(&self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
        Ok(epoll::add(&self.fd, fd, EventData::new_u64(key), flags)?)
    }

    /// Waits for something else of `fd`.
    ///
    /// # Errors
    /// `ENOENT` when it is not waited for.
    pub fn change(&self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        Ok(epoll::modify(&self.fd, fd, EventData::new_u64(key), interest.flags())?)
    }

    /// Forgets `fd`.
    ///
    /// # Errors
    /// `ENOENT` when it is not waited for.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.fd, fd)?)
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
                self.fd.as_raw_fd(),
                events.entries.as_mut_ptr(),
                i32::try_from(events.entries.len()).unwrap_or(i32::MAX),
                timeout_ms,
            )
        };
        events.fill(i64::from(count))
    }

    /// Like [`Epoll::wait`], for a time that is not rounded to milliseconds where the kernel can (Linux 5.11)
    /// and up to a whole one where it cannot; `None`: for ever.
    ///
    /// # Errors
    /// What the kernel said, other than an interruption.
    pub fn wait_for(&self, events: &mut Events, timeout: Option<Nanos>) -> io::Result<()> {
        if self.precise.get() {
            let given = timeout.map(clock::timespec);
            let given = given.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            // SAFETY: the kernel writes at most as many entries as there are; the timeout is null or a timespec
            // that lives until after the call; a null signal mask leaves the mask alone.
            let count = unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    self.fd.as_raw_fd(),
                    events.entries.as_mut_ptr(),
                    i32::try_from(events.entries.len()).unwrap_or(i32::MAX),
                    given,
                    std::ptr::null::<libc::sigset_t>(),
                    0_usize,
                )
            };
            match events.fill(count) {
                // Filters of system calls answer EPERM for those that they do not know; the kernel itself never does here.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                    self.precise.set(false);
                }
                outcome => return outcome,
            }
        }
        let rounded = |time: Nanos| i32::try_from(time.0.div_ceil(1_000_000)).unwrap_or(i32::MAX);
        self.wait(events, timeout.map_or(-1, rounded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

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
        epoll.change(far.as_fd(), Interest::Nothing, 77).unwrap();
        epoll.wait_for(&mut events, Some(Nanos(1))).unwrap();
        assert_eq!(events.count(), 0);
        epoll.change(far.as_fd(), Interest::Writable, 78).unwrap();
        epoll.wait(&mut events, 1_000).unwrap();
        assert_eq!(events.keys().collect::<Vec<_>>(), [78]);
        for precise in [true, false] {
            epoll.precise.set(precise);
            epoll.wait_for(&mut events, None).unwrap();
            assert_eq!(events.count(), 1);
        }
        epoll.remove(far.as_fd()).unwrap();
        epoll.wait(&mut events, 0).unwrap();
        assert_eq!(events.keys().count(), 0);
    }
}
