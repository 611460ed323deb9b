//! Readiness of many descriptors at once.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use iodyno_core::units::Nanos;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

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

/// The longest wait that is told in milliseconds.
const LONGEST: Nanos = Nanos(i32::MAX as u64 * 1_000_000);

/// Room for what one wait reports.
pub struct Events {
    entries: Vec<Event>,
    filled: usize,
}

impl Events {
    /// Room for `capacity` descriptors, at least 1.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let blank = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        Events { entries: vec![blank; capacity.max(1)], filled: 0 }
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
        self.entries[at].data.u64()
    }

    /// Whether one of those is over in both directions, as one that broke is; an error alone may be a completion.
    ///
    /// # Panics
    /// Beyond the room that was made.
    #[inline]
    #[must_use]
    pub fn hung_up(&self, at: usize) -> bool {
        let flags = self.entries[at].flags;
        flags.contains(EventFlags::HUP)
    }

    /// Takes the outcome of a wait; an interruption reported nothing.
    fn fill(&mut self, outcome: Result<usize, Errno>) -> io::Result<()> {
        self.filled = *outcome.as_ref().unwrap_or(&0);
        match outcome {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The keys that the last wait reported.
    pub fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.entries[..self.filled].iter().map(|entry| entry.data.u64())
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

    /// Waits until something is ready or the time has passed (`None`: for ever), which is not rounded to milliseconds
    /// where the kernel can (Linux 5.11) and up to a whole one where it cannot. A signal ends the wait with nothing
    /// ready.
    ///
    /// # Errors
    /// What the kernel said, other than an interruption.
    pub fn wait(&self, events: &mut Events, timeout: Option<Nanos>) -> io::Result<()> {
        if self.precise.get() {
            match self.wait_precisely(events, timeout) {
                // Filters of system calls answer EPERM for those that they do not know; the kernel itself never does here.
                Err(Errno::NOSYS | Errno::PERM) => self.precise.set(false),
                outcome => return events.fill(outcome),
            }
        }
        let given = timeout.map(|time| clock::timespec(time.min(LONGEST)));
        let outcome = epoll::wait(&self.fd, &mut events.entries[..], given.as_ref());
        events.fill(outcome)
    }

    /// The library has this call for kernels that are known to have it only.
    fn wait_precisely(&self, events: &mut Events, timeout: Option<Nanos>) -> Result<usize, Errno> {
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
        usize::try_from(count)
            .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL))
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
        epoll.wait(&mut events, Some(Nanos(0))).unwrap();
        assert_eq!(events.keys().count(), 0);
        near.write_all(b"x").unwrap();
        epoll.wait(&mut events, Some(Nanos(1_000_000_000))).unwrap();
        assert_eq!(events.keys().collect::<Vec<_>>(), [77]);
        epoll.change(far.as_fd(), Interest::Nothing, 77).unwrap();
        epoll.wait(&mut events, Some(Nanos(1))).unwrap();
        assert_eq!(events.count(), 0);
        epoll.change(far.as_fd(), Interest::Writable, 78).unwrap();
        epoll.wait(&mut events, Some(Nanos(1_000_000_000))).unwrap();
        assert_eq!(events.keys().collect::<Vec<_>>(), [78]);
        for precise in [true, false] {
            epoll.precise.set(precise);
            epoll.wait(&mut events, None).unwrap();
            assert_eq!(events.count(), 1);
        }
        epoll.remove(far.as_fd()).unwrap();
        epoll.wait(&mut events, Some(Nanos(0))).unwrap();
        assert_eq!(events.keys().count(), 0);
    }
}
