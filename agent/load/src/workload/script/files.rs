//! Files that `sendfile` sends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use iodyno_core::message::ErrorCode;
use iodyno_core::script::FlowOp;
use iodyno_sys::buffer::SendSource;

use crate::error::LoadError;

/// chosen: length of a file that is made; a longer message is sent out of it several times. It stays in the page cache.
const MADE_BYTES: u64 = 1 << 20;

/// An open file that is not empty, and its length.
pub(super) struct Source {
    pub file: File,
    pub length: u64,
}

/// The files of an operation.
pub(super) fn of(operation: &FlowOp) -> Result<Vec<Source>, LoadError> {
    let wanted = operation.files as usize;
    match &operation.directory {
        None => {
            let length = operation.size.map_or(1, |size| size.greatest()).min(MADE_BYTES);
            (0..wanted).map(|_| make(length)).collect::<io::Result<_>>().map_err(|error| {
                let place = std::env::temp_dir().display().to_string();
                trouble(
                    &format!("cannot make a file to send: {error}"),
                    &place,
                    "name a directory with files",
                )
            })
        }
        Some(directory) => {
            let found = in_directory(Path::new(directory), wanted).map_err(|error| {
                trouble(
                    &format!("cannot read the files to send: {error}"),
                    directory,
                    "see whether it is there",
                )
            })?;
            if found.is_empty() {
                return Err(trouble("there is no file with anything in it", directory, "put files there"));
            }
            Ok(found)
        }
    }
}

fn trouble(what: &str, place: &str, advice: &str) -> LoadError {
    LoadError::new(ErrorCode::Job, what, place, advice)
}

fn in_directory(directory: &Path, wanted: usize) -> io::Result<Vec<Source>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let about = fs::metadata(&path)?;
        if found.len() < wanted && about.is_file() && about.len() > 0 {
            found.push(Source { file: File::open(&path)?, length: about.len() });
        }
    }
    Ok(found)
}

/// A file without a name: it is gone when it is closed, however this process ends.
fn make(length: u64) -> io::Result<Source> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let name = format!("iodyno-{}-{}", std::process::id(), MADE.fetch_add(1, Relaxed));
    let path = std::env::temp_dir().join(name);
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    file.write_all(SendSource::new(length as usize)?.bytes())?;
    Ok(Source { file, length })
}
