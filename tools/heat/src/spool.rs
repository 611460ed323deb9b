//! Where what must be read twice is kept meanwhile: copies of pipes, unpacked traces.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::failure::Mistake;

/// Bytes of an unpacked trace that are kept for the second pass. Chosen: what any folder for temporary files has room for.
pub(crate) const UNPACKED_MOST: u64 = 1 << 30;

/// A file that has no name any more: it is gone with this process, whatever ends it.
pub(crate) fn unnamed_file(folder: &Path) -> Result<File, Mistake> {
    // A name that is taken is that of a process that ended between two calls: the next number is tried.
    let made = (0..100).find_map(|number| {
        let path = folder.join(format!(".iodyno-heat-{}-{number}", std::process::id()));
        let made = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            made => Some(made.and_then(|file| fs::remove_file(&path).map(|()| file))),
        }
    });
    let made = made.unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()));
    made.map_err(|error| {
        Mistake::new(
            format!("a pipe must be copied to be read twice, and no file can be made: {error}"),
            "set TMPDIR to a folder with space, or give a file instead of a pipe",
        )
        .at(folder.display().to_string())
    })
}

/// Counts what it writes.
pub(crate) struct Counted<W: Write> {
    pub into: W,
    pub bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.into.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.into.flush()
    }
}

/// Keeps what is written to it as long as there is room, and never fails.
pub(crate) struct Attempt<W: Write> {
    pub into: W,
    pub bytes: u64,
    /// Whether all of it is there.
    pub whole: bool,
}

impl<W: Write> Write for Attempt<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        self.whole = self.whole && self.bytes <= UNPACKED_MOST && self.into.write_all(bytes).is_ok();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
