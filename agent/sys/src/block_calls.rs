//! Reads and writes of blocks, one call each.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use iodyno_core::disk::CallFlag;
use rustix::io::{Errno, ReadWriteFlags};

use crate::block_memory::BlockMemory;

/// From the kernel's `linux/fs.h`.
const UNCACHED: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// Flags of `preadv2` and `pwritev2` as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallFlags(pub(crate) ReadWriteFlags);

impl CallFlags {
    /// Those of a read or a write: what is of writes only is left away for a read.
    #[must_use]
    pub fn of(flags: &[CallFlag], write: bool) -> Self {
        CallFlags(flags.iter().fold(ReadWriteFlags::empty(), |word, flag| {
            word | match flag {
                CallFlag::Hipri => ReadWriteFlags::HIPRI,
                CallFlag::Nowait => ReadWriteFlags::NOWAIT,
                CallFlag::Dsync if write => ReadWriteFlags::DSYNC,
                CallFlag::Sync if write => ReadWriteFlags::SYNC,
                CallFlag::Uncached => UNCACHED,
                CallFlag::Dsync | CallFlag::Sync => ReadWriteFlags::empty(),
            }
        }))
    }

    /// Without [`CallFlag::Nowait`].
    #[must_use]
    pub fn waiting(self) -> Self {
        CallFlags(self.0 - ReadWriteFlags::NOWAIT)
    }
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
    rustix::io::pread(file, &mut memory.bytes(slot)[..length], offset).map_err(Errno::raw_os_error)
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
    rustix::io::pwrite(file, memory.shown(slot, length), offset).map_err(Errno::raw_os_error)
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
    let mut place = [IoSliceMut::new(&mut memory.bytes(slot)[..length])];
    rustix::io::preadv2(file, &mut place, offset, flags.0).map_err(Errno::raw_os_error)
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
    let bytes = [IoSlice::new(memory.shown(slot, length))];
    rustix::io::pwritev2(file, &bytes, offset, flags.0).map_err(Errno::raw_os_error)
}

/// `fsync`, or `fdatasync`.
///
/// # Errors
/// The kernel's number.
pub fn synchronise(file: BorrowedFd<'_>, data_only: bool) -> Result<(), i32> {
    if data_only { rustix::fs::fdatasync(file) } else { rustix::fs::fsync(file) }.map_err(Errno::raw_os_error)
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
