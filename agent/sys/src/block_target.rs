//! What a file or block device is and needs, and what the page cache holds of it.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use iodyno_core::disk::Sync;
use rustix::fs::{
    fadvise, fallocate, fcntl_getfl, fgetxattr, fsetxattr, fstatvfs, statx, Advice, AtFlags, FallocateFlags,
    OFlags, StatxFlags, XattrFlags,
};

use crate::directory::DSYNC;
use crate::socket::checked;

/// From the kernel's `linux/fs.h`: `BLKGETSIZE64`.
const BLKGETSIZE64: libc::Ioctl = 0x8008_1272_u32 as libc::Ioctl;
/// From the kernel's `linux/loop.h`: `LOOP_GET_STATUS64`, and the length of `struct loop_info64` in words of 64 bits.
const LOOP_GET_STATUS64: libc::Ioctl = 0x4c05;
const LOOP_INFO_WORDS: usize = 29;
/// From the kernel's table of system calls, the same number on every architecture (Linux 6.5).
const SYS_CACHESTAT: libc::c_long = 451;

/// How a target is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening {
    /// For writing, too.
    pub write: bool,
    /// With `O_DIRECT`.
    pub direct: bool,
    /// With `O_DSYNC` or `O_SYNC`.
    pub sync: Sync,
    /// Makes the file where there is none.
    pub create: bool,
}

/// Opens a target. Never a terminal that controls this process, never left to a child.
///
/// # Errors
/// What the kernel said: `ENOENT`, `EACCES`, `EROFS`, `EINVAL` where the file system cannot go without the page cache.
pub fn open(path: &Path, opening: Opening) -> io::Result<File> {
    let sync = match opening.sync {
        Sync::ODsync => libc::O_DSYNC,
        Sync::OSync => libc::O_SYNC,
        Sync::None | Sync::Fsync | Sync::Fdatasync => 0,
    };
    let direct = if opening.direct { libc::O_DIRECT } else { 0 };
    let with = |more| {
        OpenOptions::new()
            .read(true)
            .write(opening.write)
            .create(opening.create && opening.write)
            .truncate(false)
            .custom_flags(sync | direct | libc::O_NOCTTY | libc::O_CLOEXEC | more)
            .open(path)
    };
    // A load that reads is not to write times of access. They are the owner's to leave alone, and root's.
    match with(libc::O_NOATIME) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => with(0),
        opened => opened,
    }
}

/// Flags of an open file as read back: `direct`, `dsync`, `sync`.
///
/// # Errors
/// What the kernel said.
pub fn flags(file: BorrowedFd<'_>) -> io::Result<Vec<String>> {
    let word = fcntl_getfl(file)?;
    let mut names = Vec::new();
    if word.contains(OFlags::DIRECT) {
        names.push("direct".to_owned());
    }
    if word.contains(OFlags::SYNC) {
        names.push("sync".to_owned());
    } else if word.contains(DSYNC) {
        names.push("dsync".to_owned());
    }
    Ok(names)
}

/// Length of a block device in bytes.
///
/// # Errors
/// `ENOTTY` where it is none.
pub fn device_bytes(device: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes = 0_u64;
    // SAFETY: the kernel writes one word of 64 bits.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), BLKGETSIZE64, &raw mut bytes) })?;
    Ok(bytes)
}

/// The file that a loop device holds, by the numbers of its file system and in that; an error where none is attached.
///
/// # Errors
/// `ENXIO` where nothing is attached, `ENOTTY` where it is no loop device.
pub fn loop_file(device: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let mut info = [0_u64; LOOP_INFO_WORDS];
    // SAFETY: the kernel writes one `struct loop_info64`, which is this long.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, info.as_mut_ptr()) })?;
    // `huge_encode_dev` of the kernel's `linux/kdev_t.h`; `lo_device` is not in the form of the C library.
    let (major, minor) = (info[0] >> 8 & 0xfff, info[0] & 0xff | info[0] >> 12 & 0xfff00);
    Ok((libc::makedev(major as u32, minor as u32), info[1]))
}

/// Length of a logical sector of a block device in bytes.
///
/// # Errors
/// `ENOTTY` where it is none.
pub fn sector_bytes(device: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(u64::from(rustix::fs::ioctl_blksszget(device)?))
}

/// What offsets, and addresses of memory, must be multiples of without the page cache; `None`: the kernel does not say.
#[must_use]
pub fn direct_alignment(file: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let told = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let known = told.stx_mask & StatxFlags::DIOALIGN.bits() != 0 && told.stx_dio_offset_align != 0;
    known.then(|| (u64::from(told.stx_dio_offset_align), u64::from(told.stx_dio_mem_align)))
}

/// Pages of a range that are in the page cache.
///
/// # Errors
/// `ENOSYS` before Linux 6.5.
pub fn resident_pages(file: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<u64> {
    let range = [offset, length];
    let mut counts = [0_u64; 5];
    // SAFETY: the kernel reads a `struct cachestat_range` (two words) and writes a `struct cachestat` (five).
    let outcome = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            libc::c_long::from(file.as_raw_fd()),
            range.as_ptr(),
            counts.as_mut_ptr(),
            0 as libc::c_long,
        )
    };
    if outcome < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(counts[0])
}

/// Drops a range from the page cache; what is not written back yet stays in it.
///
/// # Errors
/// What the kernel said.
pub fn drop_cached(file: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<()> {
    Ok(fadvise(file, offset, NonZeroU64::new(length), Advice::DontNeed)?)
}

/// Tells the kernel whether places of a range are in order, or random.
///
/// # Errors
/// `ESPIPE` where it is no file.
pub fn advise(file: BorrowedFd<'_>, offset: u64, length: u64, in_order: bool) -> io::Result<()> {
    let advice = if in_order { Advice::Sequential } else { Advice::Random };
    Ok(fadvise(file, offset, NonZeroU64::new(length), advice)?)
}

/// Bytes that are free for this process on the file system of a file.
///
/// # Errors
/// What the kernel said.
pub fn free_bytes(file: BorrowedFd<'_>) -> io::Result<u64> {
    let stat = fstatvfs(file)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Takes room for the first `length` bytes of a file before they are written.
///
/// # Errors
/// What the kernel said: `ENOSPC`; `EOPNOTSUPP` where the file system cannot do that.
pub fn reserve(file: BorrowedFd<'_>, length: u64) -> io::Result<()> {
    Ok(fallocate(file, FallocateFlags::empty(), 0, length)?)
}

/// Puts an extended attribute on a file.
///
/// # Errors
/// The file system has none, or the file is not to be written.
pub fn set_mark(file: BorrowedFd<'_>, name: &CStr, value: &str) -> io::Result<()> {
    Ok(fsetxattr(file, name, value.as_bytes(), XattrFlags::empty())?)
}

/// What [`set_mark`] has put on a file; none, or none that is so short: `None`.
#[must_use]
pub fn mark(file: BorrowedFd<'_>, name: &CStr) -> Option<String> {
    let mut held = [0_u8; 128];
    let length = fgetxattr(file, name, &mut held).ok()?;
    String::from_utf8(held[..length].to_vec()).ok()
}

/// Whether the kernel gives a block device to one user alone (open(2), `O_EXCL` without `O_CREAT`).
#[must_use]
pub fn is_free(device: &Path) -> bool {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_EXCL | libc::O_CLOEXEC).open(device);
    !opened.is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
}

/// The two parts of a device's number.
#[must_use]
pub fn parts_of(number: u64) -> (u32, u32) {
    (libc::major(number), libc::minor(number))
}

/// Length of a page of memory.
#[must_use]
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn reading_does_not_write_the_time_of_access() {
        use std::io::Read;
        use std::os::unix::fs::MetadataExt;
        let path = std::env::temp_dir().join(format!("iodyno-access-time-{}", std::process::id()));
        std::fs::write(&path, "read me").unwrap();
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
        let times = std::fs::FileTimes::new().set_accessed(long_ago);
        File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
        let mut text = String::new();
        open(&path, Opening::default()).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), std::fs::metadata(&path).unwrap().atime()), ("read me", 1));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_says_what_it_is() {
        let path = std::env::temp_dir().join(format!("iodyno-block-target-{}", std::process::id()));
        assert_eq!(open(&path, Opening::default()).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        let opening = Opening { write: true, create: true, sync: Sync::ODsync, ..Opening::default() };
        let mut file = open(&path, opening).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(&[7; 65_536]).unwrap();
        assert_eq!(flags(file.as_fd()).unwrap(), ["dsync"]);
        assert!(device_bytes(file.as_fd()).is_err() && sector_bytes(file.as_fd()).is_err());
        if let Some((offset, memory)) = direct_alignment(file.as_fd()) {
            assert!(offset.is_power_of_two() && memory.is_power_of_two());
        }
        if let Ok(pages) = resident_pages(file.as_fd(), 0, 65_536) {
            assert_eq!(pages * page_bytes(), 65_536);
        }
        let name = c"user.iodyno.test";
        assert_eq!(mark(file.as_fd(), name), None);
        // Not every file system has attributes, or can take room.
        let put = set_mark(file.as_fd(), name, "left as it is").is_ok();
        assert_eq!(mark(file.as_fd(), name).as_deref(), put.then_some("left as it is"));
        if reserve(file.as_fd(), 1 << 20).is_ok() {
            assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        }
        assert_eq!(parts_of(0x0803), (8, 3));
        file.sync_all().unwrap();
        drop_cached(file.as_fd(), 0, 65_536).unwrap();
    }
}
