//! Memory that only the kernel looks into: what is sent, and where received bytes go to be forgotten.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A mapping of whole pages, given back when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping belongs to the process; its memory is only handed on as a raw pointer, by whoever says what it is for.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Memory of this process alone, zero-filled.
    pub(crate) fn new(length: usize) -> io::Result<Self> {
        Mapping::map(
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    }

    /// Memory that is shared with the kernel through a descriptor, which may offer several pieces at different offsets.
    pub(crate) fn shared(descriptor: BorrowedFd<'_>, length: usize, offset: u64) -> io::Result<Self> {
        Mapping::shared_with(descriptor, length, offset, true)
    }

    /// As [`Mapping::shared`], only readable where it is not to be written.
    pub(crate) fn shared_with(
        descriptor: BorrowedFd<'_>,
        length: usize,
        offset: u64,
        write: bool,
    ) -> io::Result<Self> {
        let access = if write { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        Mapping::map(length, access, libc::MAP_SHARED, descriptor.as_raw_fd(), offset)
    }

    /// Its first byte, at the begin of a page.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Length in bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    fn map(
        length: usize,
        access: libc::c_int,
        flags: libc::c_int,
        descriptor: libc::c_int,
        offset: u64,
    ) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, descriptor, offset as i64) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Mapping { start, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this address and length and is not used after this.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Bytes to send: a fixed pattern that does not repeat within a page, so that nothing on the way can
/// compress it or mistake one part for another. Never changed after it was made.
pub struct SendSource(Mapping);

impl SendSource {
    /// A source of `length` bytes, at least 1.
    ///
    /// # Errors
    /// `ENOMEM` when there is no memory.
    pub fn new(length: usize) -> io::Result<Self> {
        let mapping = Mapping::new(length.max(1))?;
        // SAFETY: the mapping is this long, writable, zero-filled and not shared yet.
        let bytes = unsafe { std::slice::from_raw_parts_mut(mapping.start.as_ptr(), mapping.length) };
        // xorshift64 (Marsaglia 2003): cheap, and looks like noise to a compressor.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for chunk in bytes.chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
        }
        Ok(SendSource(mapping))
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is this long, initialised, and nothing writes to it as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr(), self.0.length) }
    }
}

/// Where received bytes are put. Nobody reads them, so several threads may have the kernel write to one
/// scratch at the same time; it is only ever handed on as a raw pointer, never as a reference.
pub struct ReceiveScratch(Mapping);

impl ReceiveScratch {
    /// A scratch of `length` bytes, at least 1.
    ///
    /// # Errors
    /// `ENOMEM` when there is no memory.
    pub fn new(length: usize) -> io::Result<Self> {
        Mapping::new(length.max(1)).map(ReceiveScratch)
    }

    /// Length in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.length
    }

    pub(crate) fn start(&self) -> *mut libc::c_void {
        self.0.start.as_ptr().cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_is_as_long_as_asked_and_not_constant() {
        for length in [1, 7, 4096, 100_001] {
            assert_eq!(SendSource::new(length).unwrap().bytes().len(), length);
        }
        let source = SendSource::new(8192).unwrap();
        assert_ne!(source.bytes()[..4096], source.bytes()[4096..]);
    }
}
