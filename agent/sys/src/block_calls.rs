//! Reads and writes of blocks, one call each.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use iodyno_core::disk::CallFlag;

use crate::block_memory::BlockMemory;

/// From the kernel's `linux/fs.h`.
const RWF_DONTCACHE: i32 = 0x80;

/// Flags of `preadv2` and `pwritev2` as a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallFlags(pub(crate) i32);

impl CallFlags {
    /// Those of a read or a write: what is of writes only is left away for a read.
    #[must_use]
    pub fn of(flags: &[CallFlag], write: bool) -> Self {
        CallFlags(flags.iter().fold(0, |word, flag| {
            word | match flag {
                CallFlag::Hipri => libc::RWF_HIPRI,
                CallFlag::Nowait => libc::RWF_NOWAIT,
                CallFlag::Dsync if write => libc::RWF_DSYNC,
                CallFlag::Sync if write => libc::RWF_SYNC,
                CallFlag::Uncached => RWF_DONTCACHE,
                CallFlag::Dsync | CallFlag::Sync => 0,
            }
        }))
    }

    /// Without [`CallFlag::Nowait`].
    #[must_use]
    pub fn waiting(self) -> Self {
        CallFlags(self.0 & !libc::RWF_NOWAIT)
    }
}

#[inline]
fn outcome(returned: isize) -> Result<usize, i32> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// `pread` into a slot: how many bytes came, or the error number.
///
/// # Errors
/// The kernel's number.
#[inline]
pub fn read(
    file: BorrowedFd<'_>,
    memory: &mut BlockMemory,
    slot: usize,
    length: usize,
    offset: u64,
) -> Result<usize, i32> {
    let place = memory.place(slot, length);
    // SAFETY: the kernel writes at most `length` bytes to the slot, which has them and is borrowed alone.
    outcome(unsafe { libc::pread64(file.as_raw_fd(), place.cast(), length, offset as i64) })
}

/// `pwrite` from a slot: how many bytes the kernel took, or the error number.
///
/// # Errors
/// The kernel's number.
#[inline]
pub fn write(
    file: BorrowedFd<'_>,
    memory: &BlockMemory,
    slot: usize,
    length: usize,
    offset: u64,
) -> Result<usize, i32> {
    let place = memory.place(slot, length);
    // SAFETY: the kernel reads `length` bytes of the slot, which has them.
    outcome(unsafe { libc::pwrite64(file.as_raw_fd(), place.cast(), length, offset as i64) })
}

/// Arguments of `preadv2` that C libraries pass differently: the offset as two words.
#[inline]
fn vectored(
    call: libc::c_long,
    file: BorrowedFd<'_>,
    place: *mut u8,
    length: usize,
    offset: u64,
    flags: CallFlags,
) -> Result<usize, i32> {
    let vector = libc::iovec { iov_base: place.cast(), iov_len: length };
    let (low, high) = (offset as libc::c_long, (offset >> 32 >> 32) as libc::c_long);
    // SAFETY: one vector, which describes memory that the caller lent for the call; the kernel joins the two words of
    // the offset by shifting the high one out where a word holds all of it.
    outcome(unsafe {
        libc::syscall(
            call,
            libc::c_long::from(file.as_raw_fd()),
            &raw const vector,
            1 as libc::c_long,
            low,
            high,
            libc::c_long::from(flags.0),
        )
    } as isize)
}

/// `preadv2` into a slot.
///
/// # Errors
/// The kernel's number: `EAGAIN` where it would have to wait, `EOPNOTSUPP` where a flag is not possible.
#[inline]
pub fn read_with(
    file: BorrowedFd<'_>,
    memory: &mut BlockMemory,
    slot: usize,
    length: usize,
    offset: u64,
    flags: CallFlags,
) -> Result<usize, i32> {
    vectored(libc::SYS_preadv2, file, memory.place(slot, length), length, offset, flags)
}

/// `pwritev2` from a slot.
///
/// # Errors
/// As [`read_with`].
#[inline]
pub fn write_with(
    file: BorrowedFd<'_>,
    memory: &BlockMemory,
    slot: usize,
    length: usize,
    offset: u64,
    flags: CallFlags,
) -> Result<usize, i32> {
    vectored(libc::SYS_pwritev2, file, memory.place(slot, length), length, offset, flags)
}

/// `fsync`, or `fdatasync`.
///
/// # Errors
/// The kernel's number.
pub fn synchronise(file: BorrowedFd<'_>, data_only: bool) -> Result<(), i32> {
    let fd = file.as_raw_fd();
    // SAFETY: touches no memory of this process.
    outcome(unsafe {
        if data_only {
            libc::fdatasync(fd)
        } else {
            libc::fsync(fd)
        }
    } as isize)
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_was_written_is_read_at_its_offset() {
        let path = std::env::temp_dir().join(format!("iodyno-block-calls-{}", std::process::id()));
        let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut memory = BlockMemory::new(2, 4096).unwrap();
        memory.bytes(0).fill(7);
        let far = 5 << 32;
        assert_eq!(write(file.as_fd(), &memory, 0, 4096, 8192), Ok(4096));
        assert_eq!(read(file.as_fd(), &mut memory, 1, 4096, 8192), Ok(4096));
        assert!(memory.bytes(1).iter().all(|byte| *byte == 7));
        let flags = CallFlags::of(&[CallFlag::Dsync], true);
        assert_eq!(write_with(file.as_fd(), &memory, 0, 4096, far, flags), Ok(4096));
        memory.bytes(1).fill(0);
        let flags = CallFlags::of(&[CallFlag::Dsync], false);
        assert_eq!(read_with(file.as_fd(), &mut memory, 1, 4096, far, flags), Ok(4096));
        assert!(memory.bytes(1).iter().all(|byte| *byte == 7));
        assert_eq!(read(file.as_fd(), &mut memory, 1, 4096, far + 4096), Ok(0));
        synchronise(file.as_fd(), true).unwrap();
    }
}
