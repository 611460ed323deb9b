//! What the rings of `io_uring` here have in common: how they end, the buffers that receives take, reports of copies.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering::Release};

use io_uring::types::{BufRingEntry, CancelBuilder, Timespec};
use io_uring::IoUring;

/// The only group of provided buffers of a ring.
pub(crate) const GROUP: u16 = 0;
/// From the kernel's `linux/io_uring.h`.
pub(crate) const REPORT_USAGE: u16 = 1 << 3;
/// In the result of a notification: a send without a copy was copied after all.
pub(crate) const USAGE_COPIED: u32 = 1 << 31;
/// chosen: how long the end of a ring waits until its requests are cancelled, before it leaves its memory to them.
const CANCEL_SECONDS: u64 = 1;

/// Cancels all requests, waiting for them; whether none is on its way any more, so that their memory can go. What was
/// not handed over yet will not be.
pub(crate) fn cancel_all(ring: &IoUring) -> bool {
    let time = Timespec::new().sec(CANCEL_SECONDS);
    match ring.submitter().register_sync_cancel(Some(time), CancelBuilder::any()) {
        Ok(()) => true,
        Err(error) => error.raw_os_error() == Some(libc::ENOENT),
    }
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
