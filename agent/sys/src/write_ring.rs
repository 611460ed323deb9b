//! Writes that a thread begins and waits for later, by `io_uring`: all of them are in flight at a time, up to a number.
//!
//! The ring owns what the kernel uses until a write is complete: its bytes, and the file.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::types::Fd;
use io_uring::{opcode, IoUring};

use crate::buffer::SendSource;
use crate::ring_common::cancel_all;

/// A write that is in flight: what of it is not written yet.
struct Rest {
    file: Arc<File>,
    offset: u64,
    length: usize,
}

/// The writes of one thread.
pub struct WriteRing {
    // In this order: the ring ends before the bytes and the files that it uses.
    ring: ManuallyDrop<IoUring>,
    source: ManuallyDrop<SendSource>,
    slots: ManuallyDrop<Vec<Option<Rest>>>,
    free: Vec<usize>,
    longest: usize,
    failure: Option<io::Error>,
}

impl WriteRing {
    /// For `most` writes in flight at a time, each of up to `longest` bytes; longer ones are made of several.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn new(most: u32, longest: usize) -> io::Result<Self> {
        let ring = IoUring::builder().setup_clamp().build(most.max(2))?;
        let count = ring.params().sq_entries() as usize;
        Ok(WriteRing {
            ring: ManuallyDrop::new(ring),
            source: ManuallyDrop::new(SendSource::new(longest.max(1))?),
            slots: ManuallyDrop::new((0..count).map(|_| None).collect()),
            free: (0..count).rev().collect(),
            longest: longest.max(1),
            failure: None,
        })
    }

    /// Begins to write; waits only where as many as may be are in flight.
    ///
    /// # Errors
    /// What the kernel said when it was handed over.
    pub fn begin(&mut self, file: &Arc<File>, offset: u64, length: usize) -> io::Result<()> {
        let mut begun = 0;
        while begun < length {
            let piece = (length - begun).min(self.longest);
            let slot = loop {
                if let Some(slot) = self.free.pop() {
                    break slot;
                }
                self.collect()?;
            };
            self.slots[slot] =
                Some(Rest { file: Arc::clone(file), offset: offset + begun as u64, length: piece });
            self.hand_over(slot)?;
            begun += piece;
        }
        Ok(())
    }

    /// Waits until all that was begun is done.
    ///
    /// # Errors
    /// Why the first of them failed.
    pub fn wait(&mut self) -> io::Result<()> {
        while self.free.len() < self.slots.len() {
            self.collect()?;
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    fn hand_over(&mut self, slot: usize) -> io::Result<()> {
        let Some(rest) = &self.slots[slot] else { return Ok(()) };
        let bytes = &self.source.bytes()[..rest.length];
        let entry = opcode::Write::new(Fd(rest.file.as_raw_fd()), bytes.as_ptr(), rest.length as u32)
            .offset(rest.offset)
            .build()
            .user_data(slot as u64);
        // SAFETY: the bytes are the ring's, are never changed, and outlive the request, as does the file: the slot is
        // emptied when the request is complete, and `drop` ends the ring before both.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.ring.submit()?;
        }
        loop {
            match self.ring.submit() {
                Ok(_) => return Ok(()),
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) =>
                {
                    // No room for completions: some have to be taken first.
                    self.take()?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for at least one of the writes that are in flight.
    fn collect(&mut self) -> io::Result<()> {
        match self.ring.submit_and_wait(1) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {
                return Err(error);
            }
            _ => {}
        }
        self.take()
    }

    fn take(&mut self) -> io::Result<()> {
        let done: Vec<(usize, i32)> =
            self.ring.completion().map(|entry| (entry.user_data() as usize, entry.result())).collect();
        for (slot, result) in done {
            let Some(mut rest) = self.slots[slot].take() else { continue };
            match usize::try_from(result) {
                Ok(0) => {
                    let short = io::Error::from(io::ErrorKind::WriteZero);
                    self.failure.get_or_insert(short);
                    self.free.push(slot);
                }
                Ok(written) if written < rest.length => {
                    rest.offset += written as u64;
                    rest.length -= written;
                    self.slots[slot] = Some(rest);
                    self.hand_over(slot)?;
                }
                Ok(_) => self.free.push(slot),
                Err(_) => {
                    self.failure.get_or_insert(io::Error::from_raw_os_error(-result));
                    self.free.push(slot);
                }
            }
        }
        Ok(())
    }
}

impl Drop for WriteRing {
    fn drop(&mut self) {
        let named = 0..self.slots.len() as u64;
        let quiet = self.free.len() == self.slots.len() || cancel_all(&mut self.ring, named);
        // SAFETY: none of them is used after this.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            // Where writes may still be on their way, their bytes and files stay.
            if quiet {
                ManuallyDrop::drop(&mut self.source);
                ManuallyDrop::drop(&mut self.slots);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom};

    use super::*;

    #[test]
    fn what_was_begun_is_there_once_it_was_waited_for() {
        let Ok(mut ring) = WriteRing::new(8, 4096) else { return };
        let path = std::env::temp_dir().join(format!("iodyno-write-ring-{}", std::process::id()));
        let mut file =
            File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let shared = Arc::new(file.try_clone().unwrap());
        // More at a time than there is room for, and longer than a piece.
        for number in 0..40 {
            ring.begin(&shared, number * 10_000, 10_000).unwrap();
        }
        ring.wait().unwrap();
        let mut all = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 400_000);
        let source = SendSource::new(4096).unwrap();
        for piece in all.chunks(10_000) {
            assert!(piece.chunks(4096).all(|part| part == &source.bytes()[..part.len()]));
        }
    }

    #[test]
    fn the_first_failure_is_told_once() {
        let Ok(mut ring) = WriteRing::new(8, 4096) else { return };
        let read_only = Arc::new(File::open("/dev/null").unwrap());
        ring.begin(&read_only, 0, 10_000).unwrap();
        assert_eq!(ring.wait().unwrap_err().raw_os_error(), Some(libc::EBADF));
        ring.wait().unwrap();
    }
}
