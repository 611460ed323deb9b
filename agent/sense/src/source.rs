//! A text file of the kernel that is read again and again.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::sensor::SenseError;

/// More than any kernel file that a sensor reads; a longer one is cut, so that memory stays bounded.
const LENGTH_MAX: usize = 16 << 20;
/// First room for the text; grows with the file.
const LENGTH_FIRST: usize = 8 << 10;

/// The content of a file that is shorter than `buffer`, read at once: for the thousands that there may be of it, each with a
/// line of numbers.
///
/// # Errors
/// What the kernel said, such as that the thread that it is of has ended; or the content is no text.
pub(crate) fn short<'a>(file: &File, buffer: &'a mut [u8]) -> io::Result<&'a str> {
    let length = file.read_at(buffer, 0)?;
    std::str::from_utf8(&buffer[..length]).map_err(io::Error::other)
}

/// A file that stays open, so that a reading costs no path walk and stays with the same network namespace
/// and the same thread.
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
}

impl Source {
    /// Opens the file.
    pub fn open(path: PathBuf) -> Result<Self, SenseError> {
        match File::open(&path) {
            Ok(file) => Ok(Source { path, file, buffer: vec![0; LENGTH_FIRST] }),
            Err(error) => Err(SenseError::Read { path, error }),
        }
    }

    /// The error that the content is not what it should be.
    pub fn nonsense(&self, what: &'static str) -> SenseError {
        SenseError::Content { path: self.path.clone(), what }
    }

    /// The content now, from the begin. Bytes that are no UTF-8 (a device may be named so) are replaced.
    pub fn text(&mut self) -> Result<Cow<'_, str>, SenseError> {
        let mut length = 0;
        loop {
            // The kernel fills what it can: room for one more page is room for at least one more record.
            if self.buffer.len() < length + 4096 && self.buffer.len() < LENGTH_MAX {
                self.buffer.resize((2 * self.buffer.len()).min(LENGTH_MAX), 0);
            }
            match self.file.read_at(&mut self.buffer[length..], length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(SenseError::Read { path: self.path.clone(), error }),
            }
        }
        Ok(String::from_utf8_lossy(&self.buffer[..length]))
    }
}
