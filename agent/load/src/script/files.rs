//! Files that `sendfile` sends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use iodyno_core::message::ErrorCode;
use iodyno_core::script::{Call, FlowOp};
use iodyno_sys::buffer::SendSource;

use crate::error::LoadError;

/// chosen: length of a file that is made; a longer message is sent out of it several times. It stays in the page cache.
const MADE_BYTES: u64 = 1 << 20;
/// chosen: files of a directory that are opened; each takes a descriptor. What lies deeper is not looked for.
const MOST_FILES: usize = 1024;
const MOST_DEPTH: u32 = 32;

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
            let length = operation.size.map_or(MADE_BYTES, |size| size.greatest()).min(MADE_BYTES);
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
            let most = if operation.call == Call::Sendfilev { wanted.min(MOST_FILES) } else { MOST_FILES };
            let mut found = Vec::new();
            in_directory(Path::new(directory), most, 0, &mut found).map_err(|error| {
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

/// The files in and below a directory that can be read and hold something, in the order of their names.
fn in_directory(directory: &Path, most: usize, depth: u32, found: &mut Vec<Source>) -> io::Result<()> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    paths.sort();
    for path in paths {
        if found.len() == most {
            break;
        }
        // As in uperf, what cannot be read is left out.
        let Ok(about) = fs::metadata(&path) else { continue };
        if about.is_dir() && depth < MOST_DEPTH {
            // A link to a directory may lead round in a circle.
            if !path.is_symlink() {
                let _ = in_directory(&path, most, depth + 1, found);
            }
        } else if about.is_file() && about.len() > 0 {
            if let Ok(file) = File::open(&path) {
                found.push(Source { file, length: about.len() });
            }
        }
    }
    Ok(())
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
