//! What the rings of `io_uring` here have in common: how they end, the buffers that receives take, reports of copies.

use std::collections::HashSet;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering::Release};

use io_uring::types::{BufRingEntry, CancelBuilder, SubmitArgs, Timespec};
use io_uring::{cqueue, opcode, IoUring};
use iodyno_core::units::Nanos;

use crate::clock;

/// The only group of provided buffers of a ring.
pub(crate) const GROUP: u16 = 0;
/// From the kernel's `linux/io_uring.h`.
pub(crate) const REPORT_USAGE: u16 = 1 << 3;
/// In the result of a notification: a send without a copy was copied after all.
pub(crate) const USAGE_COPIED: u32 = 1 << 31;
/// chosen: how long the end of a ring waits until its requests are cancelled, before it leaves its memory to them.
const CANCEL_SECONDS: u64 = 1;

/// Cancels all requests, waiting for them; whether none is on its way any more, so that their memory can go. What was
/// not handed over yet will not be. `named`: what requests that use memory may be named (their user data), each one once.
pub(crate) fn cancel_all(ring: &mut IoUring, named: impl Iterator<Item = u64>) -> bool {
    let time = Timespec::new().sec(CANCEL_SECONDS);
    match ring.submitter().register_sync_cancel(Some(time), CancelBuilder::any()) {
        Ok(()) => true,
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT) => true,
            // Before Linux 6.0.
            Some(libc::EINVAL) => cancel_each(ring, named),
            _ => false,
        },
    }
}

/// Likewise, one by one: whether all that there was has ended in time.
fn cancel_each(ring: &mut IoUring, named: impl Iterator<Item = u64>) -> bool {
    let until = clock::monotonic().plus(Nanos(CANCEL_SECONDS * Nanos::SECOND.0));
    let slice = Timespec::new().nsec(10_000_000);
    // What has ended already is not found any more.
    ring.completion().for_each(drop);
    let (mut ended, mut found, mut answers) = (HashSet::new(), HashSet::new(), 0);
    // Of the answers to cancellations: no request that uses memory is named so high.
    const CANCELLATION: u64 = 1 << 62;
    let mut reap = |ring: &mut IoUring, answers: &mut usize| {
        for entry in ring.completion() {
            let name = entry.user_data();
            if name >> 62 != 1 {
                if !cqueue::more(entry.flags()) {
                    ended.insert(name);
                }
                continue;
            }
            *answers += 1;
            if entry.result() != -libc::ENOENT {
                found.insert(name & !CANCELLATION);
            }
        }
        found.iter().all(|name| ended.contains(name))
    };
    let mut asked = 0;
    for name in named {
        let entry = opcode::AsyncCancel::new(name).build().user_data(name | CANCELLATION);
        // SAFETY: a cancellation uses no memory.
        while unsafe { ring.submission().push(&entry) }.is_err() {
            if ring.submit().is_err() {
                return false;
            }
            reap(ring, &mut answers);
        }
        asked += 1;
    }
    while clock::monotonic() < until {
        let waited = ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&slice));
        let passes = |error: &io::Error| {
            matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN))
        };
        if waited.is_err_and(|error| !passes(&error)) {
            return false;
        }
        if reap(ring, &mut answers) && answers == asked {
            return true;
        }
    }
    false
}

/// Lets the kernel take the provided buffers up to `tail`.
///
/// # Safety
/// `base` is the first entry of a ring of provided buffers, whose tail no other thread writes.
#[inline]
pub(crate) unsafe fn publish(base: NonNull<BufRingEntry>, tail: u16) {
    // SAFETY: the tail lies in the first entry and is aligned; the caller holds the rest.
    unsafe { (*BufRingEntry::tail(base.as_ptr()).cast::<AtomicU16>()).store(tail, Release) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use io_uring::types::Fd;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn requests_are_cancelled_one_by_one_where_the_kernel_cannot_do_all_at_once() {
        let Ok(mut ring) = IoUring::new(4) else { return };
        let (near, _far) = UnixStream::pair().unwrap();
        let mut place = [0_u8; 8];
        for name in [5, 6, 7] {
            let entry =
                opcode::Recv::new(Fd(near.as_raw_fd()), place.as_mut_ptr(), 8).build().user_data(name);
            // SAFETY: the bytes live until no request is on its way.
            unsafe { ring.submission().push(&entry).unwrap() };
        }
        ring.submit().unwrap();
        // One that is not named is not waited for; more than there is room for are named.
        assert!(cancel_each(&mut ring, (0..20).filter(|name| *name != 6)));
        assert!(cancel_each(&mut ring, [6].into_iter()));
        assert!(cancel_all(&mut ring, [5, 6, 7].into_iter()));
    }
}
