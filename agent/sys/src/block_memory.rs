//! Memory for blocks: page-aligned, present before the load begins, and divided into slots of one length.

use std::io;
use std::ops::Range;

use crate::buffer::Mapping;

/// Slots start at multiples of this: what every device takes without the page cache.
const PAGE: usize = 4096;

/// The blocks of one thread.
pub struct BlockMemory {
    mapping: Mapping,
    stride: usize,
    length: usize,
    slots: usize,
}

impl BlockMemory {
    /// `slots` blocks of `length` bytes, all in memory already.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn new(slots: usize, length: usize) -> io::Result<Self> {
        let refused = || io::Error::from_raw_os_error(libc::ENOMEM);
        let stride = length.max(1).checked_next_multiple_of(PAGE).ok_or_else(refused)?;
        let whole = stride.checked_mul(slots.max(1)).ok_or_else(refused)?;
        let mapping = Mapping::new(whole)?;
        // Large pages make copies of large blocks cheaper; where there are none it changes nothing.
        // SAFETY: the mapping is this long and belongs to this value.
        unsafe { libc::madvise(mapping.start().as_ptr().cast(), whole, libc::MADV_HUGEPAGE) };
        let mut memory = BlockMemory { mapping, stride, length: length.max(1), slots: slots.max(1) };
        for slot in 0..memory.slots {
            for page in memory.bytes(slot).chunks_mut(PAGE) {
                page[0] = 1;
            }
        }
        Ok(memory)
    }

    /// Number of slots.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Bytes of a slot.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// The bytes of a slot. Nobody else uses them meanwhile: who hands them to the kernel holds this value.
    ///
    /// # Panics
    /// There is no such slot.
    #[must_use]
    pub fn bytes(&mut self, slot: usize) -> &mut [u8] {
        let start = self.place(slot, self.length);
        // SAFETY: the range lies in the mapping, which is readable and writable; `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(start, self.length) }
    }

    /// The first `length` bytes of a slot, to be read.
    #[inline]
    pub(crate) fn shown(&self, slot: usize, length: usize) -> &[u8] {
        // SAFETY: the range lies in the mapping, whose bytes are initialised; nobody writes to it while `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.place(slot, length), length) }
    }

    /// Address of a slot, of which `length` bytes are used.
    #[inline]
    pub(crate) fn place(&self, slot: usize, length: usize) -> *mut u8 {
        assert!(slot < self.slots && length <= self.length, "a block outside of the memory for blocks");
        self.mapping.start().as_ptr().wrapping_add(slot * self.stride)
    }

    /// The whole, as addresses.
    pub(crate) fn range(&self) -> Range<usize> {
        let start = self.mapping.start().as_ptr() as usize;
        start..start + self.stride * self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_aligned_and_apart() {
        let mut memory = BlockMemory::new(3, 5000).unwrap();
        for slot in 0..3 {
            memory.bytes(slot).fill(slot as u8 + 1);
        }
        for slot in 0..3 {
            assert_eq!(memory.bytes(slot).as_ptr() as usize % 4096, 0);
            assert!(memory.bytes(slot).iter().all(|byte| *byte == slot as u8 + 1));
        }
        assert!(BlockMemory::new(usize::MAX, 4096).is_err());
    }
}
