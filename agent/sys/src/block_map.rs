//! A file in memory: blocks are copied from and to a shared mapping.
//!
//! Where the file has become shorter, or its device fails, the kernel answers an access with `SIGBUS`. A handler puts a
//! page of zeros in the place that failed, and the access is told to have failed.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::Once;

use crate::block_memory::BlockMemory;
use crate::buffer::Mapping;

/// chosen: mappings at a time.
const MOST: usize = 4096;

struct Place {
    start: AtomicUsize,
    end: AtomicUsize,
    failures: AtomicU64,
}

static PLACES: [Place; MOST] =
    [const { Place { start: AtomicUsize::new(0), end: AtomicUsize::new(0), failures: AtomicU64::new(0) } };
        MOST];

/// Length of a page of this host; found out before the handler runs, which may not ask.
static PAGE: AtomicUsize = AtomicUsize::new(4096);

extern "C" fn mend(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands a valid one to a handler of this kind.
    let address = unsafe { (*info).si_addr() } as usize;
    for place in &PLACES {
        if place.start.load(Relaxed) <= address && address < place.end.load(Relaxed) {
            let length = PAGE.load(Relaxed);
            let page = address & !(length - 1);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            // SAFETY: replaces one page of a mapping of this module, which nobody holds a reference into.
            let mapped = unsafe { libc::mmap(page as *mut libc::c_void, length, access, flags, -1, 0) };
            if mapped != libc::MAP_FAILED {
                place.failures.fetch_add(1, Relaxed);
                return;
            }
        }
    }
    // Not ours: the access is made again and ends the process, as it would have.
    // SAFETY: sets the default action.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}

fn install() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        PAGE.store(rustix::param::page_size(), Relaxed);
        // SAFETY: an all-zero sigaction is valid; the handler calls what a handler may call.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = mend as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
        }
    });
}

/// A range of a file, mapped.
pub struct BlockMap {
    mapping: Mapping,
    offset: u64,
    number: usize,
}

impl BlockMap {
    /// Maps `length` bytes from `offset`, a multiple of the page size.
    ///
    /// # Errors
    /// What the kernel said; `ENFILE` beyond some thousand mappings.
    pub fn new(file: BorrowedFd<'_>, offset: u64, length: usize, write: bool) -> io::Result<Self> {
        install();
        let mapping = Mapping::shared_with(file, length, offset, write)?;
        let start = mapping.start().as_ptr() as usize;
        let free = |place: &&Place| place.start.compare_exchange(0, start, Relaxed, Relaxed).is_ok();
        let Some(number) = PLACES.iter().position(|place| free(&place)) else {
            return Err(io::Error::from_raw_os_error(libc::ENFILE));
        };
        PLACES[number].failures.store(0, Relaxed);
        PLACES[number].end.store(start + length, Relaxed);
        Ok(BlockMap { mapping, offset, number })
    }

    #[inline]
    fn copy(&self, offset: u64, length: usize, copy: impl FnOnce(*mut u8)) -> Result<usize, i32> {
        let from = offset.checked_sub(self.offset).map(|from| from as usize).unwrap_or(usize::MAX);
        if from.checked_add(length).is_none_or(|end| end > self.mapping.length()) {
            return Err(libc::EINVAL);
        }
        let failures = &PLACES[self.number].failures;
        let before = failures.load(Relaxed);
        copy(self.mapping.start().as_ptr().wrapping_add(from));
        if failures.load(Relaxed) == before {
            Ok(length)
        } else {
            Err(libc::EIO)
        }
    }

    /// Copies a block into a slot.
    ///
    /// # Errors
    /// `EIO` where the file had none of it, `EINVAL` outside of the mapping.
    #[inline]
    pub fn read(
        &self,
        memory: &mut BlockMemory,
        slot: usize,
        length: usize,
        offset: u64,
    ) -> Result<usize, i32> {
        let to = memory.place(slot, length);
        // SAFETY: both ranges have this length, and are apart: one is private memory, the other a mapped file.
        self.copy(offset, length, |from| unsafe { std::ptr::copy_nonoverlapping(from, to, length) })
    }

    /// Copies a block from a slot.
    ///
    /// # Errors
    /// As [`BlockMap::read`].
    #[inline]
    pub fn write(&self, memory: &BlockMemory, slot: usize, length: usize, offset: u64) -> Result<usize, i32> {
        let from = memory.place(slot, length);
        // SAFETY: as in `read`; the mapping is writable where the job writes.
        self.copy(offset, length, |to| unsafe { std::ptr::copy_nonoverlapping(from, to, length) })
    }

    /// `msync` of the whole: what was written is durable.
    ///
    /// # Errors
    /// The kernel's number.
    pub fn synchronise(&self) -> Result<(), i32> {
        // SAFETY: the mapping is this long.
        let outcome = unsafe {
            libc::msync(self.mapping.start().as_ptr().cast(), self.mapping.length(), libc::MS_SYNC)
        };
        if outcome != 0 {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
        }
        Ok(())
    }
}

impl Drop for BlockMap {
    fn drop(&mut self) {
        PLACES[self.number].end.store(0, Relaxed);
        PLACES[self.number].start.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_that_became_shorter_fails_and_does_not_kill() {
        let path = std::env::temp_dir().join(format!("iodyno-block-map-{}", std::process::id()));
        let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(65_536).unwrap();
        let map = BlockMap::new(file.as_fd(), 4096, 61_440, true).unwrap();
        let mut memory = BlockMemory::new(2, 4096).unwrap();
        memory.bytes(0).fill(9);
        assert_eq!(map.write(&memory, 0, 4096, 32_768), Ok(4096));
        assert_eq!(map.read(&mut memory, 1, 4096, 32_768), Ok(4096));
        assert!(memory.bytes(1).iter().all(|byte| *byte == 9));
        assert_eq!(map.read(&mut memory, 1, 4096, 0), Err(libc::EINVAL));
        assert_eq!(map.write(&memory, 1, 4096, 65_536), Err(libc::EINVAL));
        file.set_len(8192).unwrap();
        assert_eq!(map.read(&mut memory, 1, 4096, 32_768), Err(libc::EIO));
        assert_eq!(map.read(&mut memory, 1, 4096, 4096), Ok(4096));
    }
}
