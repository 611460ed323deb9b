//! The working set in a file: laid out once with known content, stamped, used again when the stamp matches.
//!
//! The file is as long as the working set and one block more, which holds the stamp. It says `building` before the first byte
//! of content is written and `complete` after the last one is on the disk, so that a layout which was killed is known for
//! what it is, and laid out anew. A file that has bytes and no stamp belongs to somebody else: it is read as it is, and never
//! written without an explicit word. A load that appends leaves no stamp: what it has written is known by a mark beside the
//! content, an extended attribute, which says how the file was left.

use std::ffi::CStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use iodyno_core::random::Random;
use iodyno_load::Cancel;
use iodyno_sys::{block_target, errno, file_lock};

use super::device::look_at_users_of;
use super::stamp::{
    chunk, place, read, unit_content, Stamp, State, CHUNK_BYTES, SEED, STAMP_BYTES, UNIT_BYTES, VERSION,
};
use super::wanted::{Action, Refusal, Wanted, REMOVED};

/// Outlives the stamp: a load that appends cuts the file. So it does when somebody else cuts it.
const MARK: &CStr = c"user.iodyno.target";
/// A load appends to the file, or was killed while it did.
const APPENDING: &str = "1";
/// The file is known by its stamp, and not without it.
const STAMPED: &str = "stamped";
/// Blocks that are looked at before a layout is used again. chosen: a file that is wrong in a tenth of its blocks passes
/// with a chance of one in a thousand.
const SAMPLES: u64 = 64;
/// What a file system needs beside the content. chosen: some blocks of its own tables.
const SPARE_BYTES: u64 = 1 << 20;
/// Share of a layout that must be on the disk: file systems that keep small pieces elsewhere count fewer blocks. chosen.
const ON_DISK_PERCENT: u64 = 99;
/// How often it is looked whether another layout of the file is done. chosen: a moment for people.
const LOOKED_EVERY: Duration = Duration::from_millis(20);
/// Length of a block as `st_blocks` counts (stat(2)).
const COUNTED_BYTES: u64 = 512;

type Done = Result<(Action, String), Refusal>;

/// Makes the file hold a working set of `size` bytes, or finds that it does.
pub(super) fn lay_out(
    path: &Path,
    size: u64,
    wanted: &Wanted,
    progress: &mut dyn FnMut(u64, u64),
    cancel: &Cancel,
) -> Done {
    let told = |error: io::Error| Refusal::of(&error, path);
    if existing(path)?.is_none() {
        check_room(path, size, 0)?;
    }
    if wanted.writes || wanted.destroy {
        look_at_users_of(path)?;
    }
    // Held until this is done: two labs that lay out one file would each have half of it.
    let (file, found) = hold(path, cancel)?;
    let mut build = |held: u64| {
        look_at_users_of(path)?;
        check_room(path, size, held)?;
        build(path, size, wanted.writes, progress, cancel)
    };
    if found.len() == 0 {
        build(0)?;
        return Ok((Action::Made, String::new()));
    }
    let stamp = read(&file).map_err(told)?;
    if !wanted.destroy && !is_ours(&file).map_err(told)? {
        return foreign(path, &found, size, wanted.writes);
    }
    let why = match &stamp {
        None => Some("it has lost its stamp".to_owned()),
        // What was written with checks is evidence, whatever has become of it: the load tells what is wrong with it.
        Some(stamp) if kept(stamp, size, wanted) => None,
        Some(stamp) => wrong_with(&file, &found, stamp, size).map_err(told)?,
    };
    let Some(why) = why else {
        if let Some(stamp) = stamp.filter(|_| wanted.writes) {
            let checked = stamp.checked.filter(|_| kept(&stamp, size, wanted));
            let now = Stamp { pristine: false, checked, ..stamp };
            if now != stamp {
                let told = |error: io::Error| Refusal::of_doing(&error, path, "written");
                let file = OpenOptions::new().write(true).open(path).map_err(told)?;
                now.write(&file).and_then(|()| file.sync_all()).map_err(told)?;
            }
        }
        return Ok((Action::Reused, String::new()));
    };
    build(found.blocks() * COUNTED_BYTES)?;
    Ok((Action::Rebuilt, why))
}

/// The file, made where there is none, and locked against other layouts: waits for one that is under way. It may have
/// removed the file in the meantime, hence the second look.
fn hold(path: &Path, cancel: &Cancel) -> Result<(File, Metadata), Refusal> {
    let told = |error: io::Error| Refusal::of(&error, path);
    loop {
        if existing(path)?.is_none() {
            match open(path, true) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => drop(made.map_err(told)?),
            }
        }
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened.map_err(told)?,
        };
        // A file system without locks is used without.
        while matches!(file_lock::try_exclusive(&file), Ok(false)) {
            if cancel.is_cancelled() {
                return Err(stopped(path));
            }
            std::thread::sleep(LOOKED_EVERY);
        }
        let found = file.metadata().map_err(told)?;
        if existing(path)?.is_some_and(|there| (there.dev(), there.ino()) == (found.dev(), found.ino())) {
            return Ok((file, found));
        }
    }
}

fn stopped(path: &Path) -> Refusal {
    Refusal { stopped: true, ..Refusal::new("stopped", path, "") }
}

/// Makes the file empty, and marks it as one of this program: what a load that appends begins with.
pub(super) fn lay_empty(path: &Path, destroy: bool) -> Done {
    let told = |error: io::Error| Refusal::of(&error, path);
    let found = existing(path)?;
    look_at_users_of(path)?;
    if let Some(found) = found.as_ref().filter(|found| found.len() > 0 && !destroy) {
        if !is_ours(&File::open(path).map_err(told)?).map_err(told)? {
            return foreign(path, found, 0, true);
        }
    }
    let file = open(path, false).map_err(told)?;
    // Before it is cut: a file that cannot be marked could not be told from somebody else's once it is longer.
    block_target::set_mark(file.as_fd(), MARK, APPENDING).map_err(told)?;
    file.set_len(0).map_err(told)?;
    let action = if found.is_none() { Action::Made } else { Action::Rebuilt };
    Ok((action, "a load that appends begins with nothing".to_owned()))
}

/// Removes a file that was laid out here; whether there was one.
pub(super) fn remove(path: &Path) -> Result<bool, Refusal> {
    let told = |error: io::Error| Refusal::of_doing(&error, path, REMOVED);
    let Some(found) = existing(path)? else { return Ok(false) };
    if found.len() > 0 && !is_ours(&File::open(path).map_err(told)?).map_err(told)? {
        let what = "was not laid out by iodyno, and is left alone";
        return Err(Refusal::new(what, path, "remove it yourself"));
    }
    look_at_users_of(path)?;
    std::fs::remove_file(path).map_err(told)?;
    Ok(true)
}

/// A load begins to append to a file that one before it, of another trial, has left, and that nobody has written to since.
/// Until it leaves the file, too, it is ours whatever becomes of it.
pub(crate) fn append_again(file: &File) {
    let left = block_target::mark(file.as_fd(), MARK);
    if left.is_some_and(|left| file.metadata().is_ok_and(|found| left == as_left(&found))) {
        // Without it the file is not ours after the load, as after somebody else's.
        let _ = block_target::set_mark(file.as_fd(), MARK, APPENDING);
    }
}

/// Notes how a load that appended has left a file, where it was made for one: once somebody else has written to it, it is not
/// ours any more.
pub(crate) fn rest(file: &File) {
    if block_target::mark(file.as_fd(), MARK).as_deref() == Some(APPENDING) {
        // Without it the file is ours whatever becomes of it, as after a load that was killed.
        let _ = file.metadata().and_then(|left| block_target::set_mark(file.as_fd(), MARK, &as_left(&left)));
    }
}

/// How a file was left: its length, and when it was last written to. The mark itself is no writing.
fn as_left(found: &Metadata) -> String {
    format!("left {} bytes at {}.{:09}", found.len(), found.mtime(), found.mtime_nsec())
}

fn is_ours(file: &File) -> io::Result<bool> {
    let marked = match block_target::mark(file.as_fd(), MARK).as_deref() {
        None | Some(STAMPED) => false,
        Some(APPENDING) => true,
        Some(left) => left == as_left(&file.metadata()?),
    };
    Ok(marked || read(file)?.is_some())
}

/// What is there, a regular file or nothing.
fn existing(path: &Path) -> Result<Option<Metadata>, Refusal> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(Some(found)),
        Ok(found) => {
            let kind = if found.is_dir() { "is a folder" } else { "is no regular file" };
            let advice = "name a file, which is made where it is not there, or a device in /dev";
            Err(Refusal::new(kind, path, advice))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if std::fs::symlink_metadata(path).is_ok() {
                return Err(Refusal::new("is a link to nothing", path, "name the file that it is to be"));
            }
            Ok(None)
        }
        Err(error) => Err(Refusal::of(&error, path)),
    }
}

fn foreign(path: &Path, found: &Metadata, size: u64, writes: bool) -> Done {
    if writes {
        return Err(Refusal::new(
            "holds bytes that iodyno did not write, and the load would overwrite them",
            path,
            format!("name another file, or give it up with --destroy {}", path.display()),
        ));
    }
    if found.len() < size {
        let what = format!("is {} bytes long, fewer than the {size} of the working set", found.len());
        return Err(Refusal::new(what, path, "take a smaller working set, or name another file"));
    }
    Ok((Action::Foreign, "it is read as it is".to_owned()))
}

/// Whether the file carries the wanted checks already.
fn kept(stamp: &Stamp, size: u64, wanted: &Wanted) -> bool {
    let whole = stamp.state == State::Complete && stamp.size_bytes >= size && !wanted.destroy;
    whole && wanted.checks.is_some_and(|checks| stamp.checked.is_some_and(|held| held.holds(&checks)))
}

/// Why a layout cannot be used again; `None`: it can.
fn wrong_with(file: &File, found: &Metadata, stamp: &Stamp, size: u64) -> io::Result<Option<String>> {
    if stamp.state != State::Complete {
        return Ok(Some("its layout was interrupted".to_owned()));
    }
    if stamp.size_bytes < size {
        return Ok(Some(format!("it was laid out for {} bytes, {size} are needed", stamp.size_bytes)));
    }
    if found.blocks() * COUNTED_BYTES < stamp.size_bytes / 100 * ON_DISK_PERCENT {
        return Ok(Some("parts of it are not on the disk: holes are read from nowhere".to_owned()));
    }
    if stamp.pristine && stamp.version != VERSION {
        return Ok(Some("an earlier iodyno laid it out, with other content".to_owned()));
    }
    let units = stamp.size_bytes / UNIT_BYTES;
    let mut random = Random::new(SEED, 1);
    let mut held = [0; UNIT_BYTES as usize];
    for unit in (0..SAMPLES.min(units)).map(|_| random.below(units)) {
        file.read_exact_at(&mut held, unit * UNIT_BYTES)?;
        if stamp.pristine && held[..] != unit_content(unit)[..] {
            let at = unit * UNIT_BYTES;
            return Ok(Some(format!("the block at {at} does not hold what was laid out")));
        }
    }
    Ok(None)
}

/// Refuses what does not fit before anything is written. `held`: bytes that the file gives back.
fn check_room(path: &Path, size: u64, held: u64) -> Result<(), Refusal> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(folder).map_err(|error| Refusal::of(&error, path))?;
    let free = block_target::free_bytes(folder.as_fd()).map_err(|error| Refusal::of(&error, path))?;
    let needed = u128::from(size) + u128::from(UNIT_BYTES + STAMP_BYTES + SPARE_BYTES);
    let have = free.saturating_add(held);
    if needed > u128::from(have) {
        let what = format!(
            "a working set of {} does not fit: with what its file system needs beside it, it takes {}, and {} are free there",
            mib(size.into(), false),
            mib(needed, true),
            mib(have.into(), false)
        );
        let advice = "take a smaller working set, free space, or name a file on another disk";
        return Err(Refusal::new(what, path, advice));
    }
    Ok(())
}

/// MiB with a decimal. What is needed is rounded up and what there is down, so that the greater one looks greater.
fn mib(bytes: u128, up: bool) -> String {
    let tenths = if up { (bytes * 10).div_ceil(1 << 20) } else { (bytes * 10) >> 20 };
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

fn open(path: &Path, fresh: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    if fresh {
        options.create_new(true);
    } else {
        options.create(true).truncate(false);
    }
    options.open(path)
}

fn build(
    path: &Path,
    size: u64,
    writes: bool,
    progress: &mut dyn FnMut(u64, u64),
    cancel: &Cancel,
) -> Result<(), Refusal> {
    let file = open(path, false).map_err(|error| Refusal::of(&error, path))?;
    write(&file, size, writes, progress, cancel).map_err(|error| {
        // Half of a working set is of no use to anybody, and takes room.
        let _ = std::fs::remove_file(path);
        if cancel.is_cancelled() {
            stopped(path)
        } else {
            Refusal::of(&error, path)
        }
    })
}

fn write(
    file: &File,
    size: u64,
    writes: bool,
    progress: &mut dyn FnMut(u64, u64),
    cancel: &Cancel,
) -> io::Result<()> {
    let end = place(size);
    // The stamp of an unfinished layout first: whatever happens from here on, the file is known as ours.
    file.set_len(0)?;
    Stamp::new(size, State::Building, true).write(file)?;
    // What appended to it earlier says nothing any more. A file system without attributes has nothing to forget.
    let _ = block_target::set_mark(file.as_fd(), MARK, STAMPED);
    file.sync_all()?;
    match block_target::reserve(file.as_fd(), end + STAMP_BYTES) {
        Err(error) if !cannot_reserve(&error) => return Err(error),
        _ => {}
    }
    let mut piece = chunk().to_vec();
    let mut at = 0;
    while at < end {
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let length = CHUNK_BYTES.min(end - at);
        for (number, unit) in (at / UNIT_BYTES..).zip(piece.chunks_mut(UNIT_BYTES as usize)) {
            unit[..8].copy_from_slice(&number.to_le_bytes());
        }
        file.write_all_at(&piece[..length as usize], at)?;
        at += length;
        progress(at.min(size), size);
    }
    file.sync_all()?;
    Stamp::new(size, State::Complete, !writes).write(file)?;
    file.sync_all()?;
    // Dropped, so that the first load finds the page cache as the next ones do.
    block_target::drop_cached(file.as_fd(), 0, 0)
}

fn cannot_reserve(error: &io::Error) -> bool {
    let numbers = [errno::EOPNOTSUPP, errno::EINVAL, errno::ENODEV, errno::ENOSYS];
    error.raw_os_error().is_some_and(|number| numbers.contains(&number))
}
