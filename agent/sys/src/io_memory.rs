//! Memory that data of files is moved to and from: aligned to pages, as `O_DIRECT` asks for, and without a pattern.

use std::io;

use crate::buffer::{Mapping, SendSource};

/// Writable memory of one thread.
#[derive(Debug)]
pub struct IoMemory(Mapping);

impl IoMemory {
    /// So many bytes, at least 1, filled with noise.
    ///
    /// # Errors
    /// `ENOMEM` when there is no memory.
    pub fn new(length: usize) -> io::Result<Self> {
        let mut memory = IoMemory(Mapping::new(length.max(1))?);
        // chosen: noise repeats after 1 MiB, more than any file system looks for; making it takes a millisecond.
        let noise = SendSource::new(length.clamp(1, 1 << 20))?;
        for piece in memory.bytes().chunks_mut(1 << 20) {
            piece.copy_from_slice(&noise.bytes()[..piece.len()]);
        }
        Ok(memory)
    }

    /// All of it.
    #[inline]
    #[must_use]
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is this long, readable, writable and initialised, and lent out once.
        unsafe { std::slice::from_raw_parts_mut(self.0.start().as_ptr(), self.0.length()) }
    }

    /// Length in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.length()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_aligned_and_not_empty() {
        let mut memory = IoMemory::new(3 << 20).unwrap();
        assert_eq!(memory.bytes().as_ptr() as usize % 4096, 0);
        assert_eq!(memory.length(), 3 << 20);
        assert!(memory.bytes()[..4096].iter().any(|byte| *byte != 0));
    }
}
