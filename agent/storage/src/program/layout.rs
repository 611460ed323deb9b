//! Filesets are made before the start, found again, repaired and removed.
//!
//! Each has a *marker* beside its files that says whose they are, how they were laid out and whether that was finished.
//! A place without one is somebody else's, and stays as it is.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use iodyno_core::file_account::FilesetAccount;
use iodyno_core::file_program::{FileProgram, Fileset};
use iodyno_core::file_variable::Value;
use iodyno_core::message::ErrorCode;
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{Cancel, LoadError};
use iodyno_sys::buffer::SendSource;
use iodyno_sys::clock;
use iodyno_sys::directory::{Directory, Kind, Opening};
use iodyno_sys::lock::locked;

use super::fileset::{name_of, LiveFileset};
use super::place::{Marker, Place, FORM};
use super::plan::{layout_seed, Plan};
use super::tree::exists_at_first;

/// Bytes of one write of a layout.
const PIECE_BYTES: usize = 1 << 20;
/// Files that a thread takes at a time.
const BATCH: u64 = 32;
/// chosen: threads that lay out; file systems gain little beyond it.
const MOST_THREADS: usize = 8;
/// chosen: how much of the free space is left: a file system that is full to the last byte is another one.
const SPARE_SHARE: u64 = 50;

/// How much of the free space may be written.
pub(super) fn without_spare(free: u64) -> u64 {
    free - free / SPARE_SHARE
}

/// What the kernel refused while doing something with a fileset.
pub(super) fn refused(error: &io::Error, doing: &str, place: &str) -> LoadError {
    use iodyno_sys::errno;
    let advice = match error.raw_os_error().unwrap_or(0) {
        errno::ENOENT => "make the directory first, or name another one",
        errno::EACCES | errno::EPERM => "give the agent's user the right to write there",
        errno::ENOSPC => "make room, or use fewer or smaller files",
        errno::EMFILE | errno::ENFILE => "raise the limit of open files (ulimit -Hn, fs.file-max)",
        _ if error.kind() == io::ErrorKind::ReadOnlyFilesystem => "name a directory that can be written to",
        _ if error.kind() == io::ErrorKind::NotADirectory => "name a directory, not a link in its place",
        _ => "see the kernel log of this host (dmesg)",
    };
    failure(format!("cannot {doing}: {error}"), place, advice)
}

pub(super) fn failure(what: impl Into<String>, place: &str, advice: impl Into<String>) -> LoadError {
    LoadError { code: ErrorCode::Target, what: what.into(), place: place.to_owned(), advice: advice.into() }
}

fn cancelled() -> LoadError {
    let (what, advice) = ("the job was cancelled", "prepare it again");
    LoadError { code: ErrorCode::Transport, what: what.into(), place: "job".into(), advice: advice.into() }
}

/// A fileset that is ready, and how it came to be.
pub(super) struct Laid {
    pub live: LiveFileset,
    pub account: FilesetAccount,
}

/// Lays out every fileset of a program. Nothing is written where they are larger than the free space.
pub(super) fn lay_out(program: &FileProgram, cancel: &Cancel) -> Result<Vec<Laid>, LoadError> {
    let place = program.directory.as_str();
    // Only the last part of it: a mistyped path is not made into a tree.
    if let Some(error) = std::fs::create_dir(place).err().filter(|e| e.kind() == io::ErrorKind::NotFound) {
        return Err(refused(&error, "make the directory", place));
    }
    let root =
        Directory::open(Path::new(place)).map_err(|error| refused(&error, "open the directory", place))?;
    let plans: Vec<Plan> = program.filesets.iter().map(|fileset| Plan::of(program, fileset)).collect();
    let mut places = Vec::new();
    for fileset in &program.filesets {
        let place = Place::of(program, &root, fileset)?;
        let lying = what_lies(program, fileset, &place)?;
        places.push((place, lying));
    }
    // Only when there is nothing of somebody else's in any of them.
    let mut reused = Vec::new();
    for (place, lying) in &places {
        if let Lying::Stale(marker) = lying {
            place
                .remove(marker)
                .map_err(|error| refused(&error, "remove what an earlier job has left", &place.text))?;
        }
        reused.push(matches!(lying, Lying::Usable));
    }
    refuse_larger(&root, program, &plans, &reused, 0)?;
    let mut all = Vec::new();
    for (((fileset, plan), (place, _)), reused) in program.filesets.iter().zip(plans).zip(&places).zip(reused)
    {
        all.push(make(program, fileset, plan, place, reused, cancel)?);
    }
    Ok(all)
}

/// Whether every fileset of a program can be laid out, or lies there already: nothing is made, written or removed.
pub(super) fn look(program: &FileProgram) -> Result<(), LoadError> {
    let place = Path::new(&program.directory);
    let plans: Vec<Plan> = program.filesets.iter().map(|fileset| Plan::of(program, fileset)).collect();
    let text = program.directory.as_str();
    let mut reused = vec![false; plans.len()];
    let mut held = 0;
    let root = match Directory::open(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // It will be made in the one above.
            let above = place.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."));
            Directory::open(above).map_err(|error| refused(&error, "make the directory", text))?
        }
        found => {
            let root = found.map_err(|error| refused(&error, "open the directory", text))?;
            for (fileset, reused) in program.filesets.iter().zip(&mut reused) {
                let Some(there) = Place::found(program, &root, fileset)? else { continue };
                match what_lies(program, fileset, &there)? {
                    Lying::Nothing => {}
                    Lying::Usable => *reused = true,
                    Lying::Stale(_) => {
                        held += there.bytes().map_err(|error| {
                            refused(&error, "look at what an earlier job has left", &there.text)
                        })?;
                    }
                }
            }
            root
        }
    };
    if !reused.iter().all(|reused| *reused) {
        root.may_be_written().map_err(|error| refused(&error, "write in the directory", text))?;
    }
    refuse_larger(&root, program, &plans, &reused, held)
}

/// What lies in a fileset's place.
enum Lying {
    Nothing,
    /// The fileset, as it is wanted.
    Usable,
    /// Something of ours that is to be made anew, with its marker.
    Stale(Box<Marker>),
}

/// What lies in the place. What is not ours, or has something in it that is not, is refused.
fn what_lies(program: &FileProgram, fileset: &Fileset, place: &Place) -> Result<Lying, LoadError> {
    let Some(attributes) = place.attributes()? else {
        return Ok(Lying::Nothing);
    };
    let wanted = if place.inside { Kind::Directory } else { Kind::File };
    let Some(marker) = place.marker().filter(|_| attributes.kind == wanted) else {
        let empty = attributes.kind == Kind::Directory && place.inside && is_empty(place).unwrap_or(false);
        if empty {
            return Ok(Lying::Nothing);
        }
        return Err(failure(
            "something is there that no file program has made; it stays as it is",
            &place.text,
            "name another directory, or remove it yourself",
        ));
    };
    let usable =
        fileset.reuse && Marker { at_rest: marker.at_rest, ..marker_of(program, fileset, true) } == marker;
    if !(usable && fileset.trust_tree) {
        place.refuse_foreign(&marker, usable)?;
    }
    Ok(if usable { Lying::Usable } else { Lying::Stale(Box::new(marker)) })
}

fn is_empty(place: &Place) -> io::Result<bool> {
    let mut count = 0;
    place.parent.directory(&place.name)?.list(|_| count += 1)?;
    Ok(count == 2)
}

fn marker_of(program: &FileProgram, fileset: &Fileset, complete: bool) -> Marker {
    let seed = layout_seed(program, fileset);
    // What does not change what lies on the disk is left out.
    let fileset = Fileset {
        parallel: true,
        reuse: true,
        trust_tree: false,
        read_only: false,
        write_only: false,
        ..fileset.clone()
    };
    let used = [Some(&fileset.size_bytes), fileset.dir_depth.as_ref()];
    let used: Vec<&str> = used.into_iter().flatten().filter_map(Value::variable).collect();
    let variables = program.variables.iter().filter(|variable| used.contains(&variable.name.as_str()));
    let variables = variables.cloned().collect();
    Marker { iodyno_fileset: FORM, complete, at_rest: false, seed, fileset, variables }
}

/// Where what is to be written is more than there is room for. `held`: bytes that come free before.
fn refuse_larger(
    root: &Directory,
    program: &FileProgram,
    plans: &[Plan],
    reused: &[bool],
    held: u64,
) -> Result<(), LoadError> {
    let place = program.directory.as_str();
    let (free, names) = root.free().map_err(|error| refused(&error, "ask for the free space", place))?;
    let new = || plans.iter().zip(&program.filesets).zip(reused).filter(|(_, reused)| !**reused);
    let bytes: u128 = new().map(|((plan, _), _)| plan.bytes).sum();
    let room = without_spare(free.0).saturating_add(held);
    if bytes > u128::from(room) {
        return Err(failure(
            format!(
                "the filesets take {}, and {} may be written there; nothing was",
                // Up, so that what does not fit looks greater.
                mib(bytes.next_multiple_of(1 << 20)),
                mib(room.into())
            ),
            place,
            "use fewer or smaller files, or another directory",
        ));
    }
    let made: u64 =
        new().map(|((plan, _), _)| (plan.tree.leaves.len() + plan.tree.branches.len()) as u64).sum();
    if names > 0 && made > names {
        return Err(failure(
            format!(
                "the filesets have {made} files and directories, and the file system has room for {names}"
            ),
            place,
            "use fewer files, or a file system with more inodes (df -i)",
        ));
    }
    Ok(())
}

/// Whole MiB, in words.
fn mib(bytes: u128) -> String {
    format!("{} MiB", bytes >> 20)
}

fn make(
    program: &FileProgram,
    fileset: &Fileset,
    plan: Plan,
    place: &Place,
    reused: bool,
    cancel: &Cancel,
) -> Result<Laid, LoadError> {
    let began = clock::monotonic();
    let trouble = |error: io::Error| refused(&error, "lay out the fileset", &place.text);
    if !reused {
        if place.inside {
            match place.parent.make_directory(&place.name) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(trouble(error)),
                _ => {}
            }
        }
        place.mark(&marker_of(program, fileset, false)).map_err(trouble)?;
    }
    let home = place.home().map_err(trouble)?;
    let Plan { tree, sizes, .. } = plan;
    let mut live = LiveFileset::new(fileset, tree, sizes, home);
    for (index, branch) in live.tree.branches.iter().enumerate().skip(1) {
        if cancel.is_cancelled() {
            return Err(cancelled());
        }
        if reused && fileset.trust_tree {
            break;
        }
        let made = live.in_directory(branch.parent as usize, |parent| {
            parent.make_directory(name_of(branch.number, &mut [0; 12]))
        });
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(trouble(error)),
            _ => {}
        }
        debug_assert!(index > branch.parent as usize);
    }
    // Open while it is laid out, too: parents are looked up once.
    live.keep_open(descriptors_left()).map_err(trouble)?;
    let repaired = AtomicU64::new(0);
    if !(reused && fileset.trust_tree) {
        make_files(&live, fileset, reused, &repaired, cancel).map_err(|error| {
            if cancel.is_cancelled() {
                cancelled()
            } else {
                trouble(error)
            }
        })?;
    }
    let mut bytes = 0;
    for number in 0..fileset.entries {
        if exists_at_first(number, fileset.prealloc_percent) {
            live.files.existing.give(number);
            bytes += live.sizes[number as usize];
        } else {
            live.files.absent.give(number);
        }
    }
    for leaf in 0..fileset.leaf_dirs {
        if exists_at_first(leaf, fileset.prealloc_percent) {
            live.leaves.existing.give(leaf);
        } else {
            live.leaves.absent.give(leaf);
        }
    }
    if !reused || repaired.load(Relaxed) > 0 {
        // What is written now is not to be written back while it is measured.
        live.in_directory(0, Directory::synchronise_file_system).map_err(trouble)?;
    }
    // Also where it was whole before: from now on changes are the load's.
    place.mark(&marker_of(program, fileset, true)).map_err(trouble)?;
    let account = FilesetAccount {
        name: fileset.name.clone(),
        entries: fileset.entries,
        existing: live.files.existing.count(),
        bytes: Bytes(bytes),
        directories: live.tree.branches.len() as u64,
        leaf_directories: live.leaves.existing.count(),
        depth: live.tree.branches.iter().map(|branch| branch.depth).max().unwrap_or(0),
        reused,
        repaired: if reused { repaired.load(Relaxed) } else { 0 },
        layout_ns: clock::monotonic().minus(began).max(Nanos(1)),
    };
    Ok(Laid { live, account })
}

/// How many directories may be kept open: half of what the process may have; the files need the rest.
fn descriptors_left() -> usize {
    iodyno_sys::limits::raise_descriptors(65_536) as usize / 2
}

/// Makes every file and leaf directory, or sees to it that they are as they were made.
fn make_files(
    live: &LiveFileset,
    fileset: &Fileset,
    check: bool,
    repaired: &AtomicU64,
    cancel: &Cancel,
) -> io::Result<()> {
    let source = SendSource::new(PIECE_BYTES)?;
    let next = AtomicU64::new(0);
    let trouble: Mutex<Option<io::Error>> = Mutex::new(None);
    let total = fileset.entries + fileset.leaf_dirs;
    let work = || loop {
        let from = next.fetch_add(BATCH, Relaxed);
        if from >= total || cancel.is_cancelled() {
            return;
        }
        for number in from..total.min(from + BATCH) {
            let outcome = if number < fileset.entries {
                make_file(live, number, fileset.prealloc_percent, check, &source, cancel)
            } else {
                make_leaf(live, number - fileset.entries, fileset.prealloc_percent)
            };
            match outcome {
                Ok(changed) => {
                    repaired.fetch_add(u64::from(changed), Relaxed);
                }
                Err(error) => {
                    locked(&trouble).get_or_insert(error);
                    next.store(total, Relaxed);
                    return;
                }
            }
        }
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if fileset.parallel { (2 * cpus).min(MOST_THREADS) } else { 1 };
    let threads = threads.min(total.div_ceil(BATCH).max(1) as usize);
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    if cancel.is_cancelled() {
        return Err(io::ErrorKind::Interrupted.into());
    }
    trouble.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Whether anything was changed.
fn make_file(
    live: &LiveFileset,
    number: u64,
    percent: u32,
    check: bool,
    source: &SendSource,
    cancel: &Cancel,
) -> io::Result<bool> {
    let (exists, size) = (exists_at_first(number, percent), live.sizes[number as usize]);
    let found = if check {
        match live.at_file(number, |directory, name| directory.attributes(name)) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        }
    } else {
        None
    };
    let opening = Opening { write: true, ..Opening::default() };
    match (exists, found) {
        (false, None) => Ok(false),
        (true, Some(found)) if found.kind == Kind::File && found.bytes == size => Ok(false),
        (true, Some(found)) if found.kind == Kind::File && found.bytes > size => {
            live.at_file(number, |directory, name| directory.file(name, opening))?.set_len(size)?;
            Ok(true)
        }
        (exists, found) => {
            if found.is_some() {
                live.at_file(number, |directory, name| directory.remove_file(name))?;
            }
            if exists {
                let made = Opening { create: true, ..opening };
                let file = live.at_file(number, |directory, name| directory.file(name, made))?;
                fill(&file, size, source, cancel)?;
            }
            Ok(true)
        }
    }
}

fn fill(file: &File, size: u64, source: &SendSource, cancel: &Cancel) -> io::Result<()> {
    let mut at = 0;
    while at < size {
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let length = (size - at).min(PIECE_BYTES as u64);
        file.write_all_at(&source.bytes()[..length as usize], at)?;
        at += length;
    }
    Ok(())
}

fn make_leaf(live: &LiveFileset, leaf: u64, percent: u32) -> io::Result<bool> {
    let outcome = if exists_at_first(leaf, percent) {
        live.at_leaf_directory(leaf, |directory, name| directory.make_directory(name))
    } else {
        live.at_leaf_directory(leaf, |directory, name| directory.remove_directory(name))
    };
    match outcome {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The places of a program's filesets.
fn places(program: &FileProgram) -> Result<Vec<Place>, LoadError> {
    let place = program.directory.as_str();
    let root =
        Directory::open(Path::new(place)).map_err(|error| refused(&error, "open the directory", place))?;
    let found = program.filesets.iter().map(|fileset| Place::found(program, &root, fileset));
    found.filter_map(Result::transpose).collect()
}

/// Removes every fileset of a program.
pub(super) fn remove(program: &FileProgram) -> Result<(), LoadError> {
    let mut found = Vec::new();
    for place in places(program)? {
        if let Some(marker) = place.marker() {
            place.refuse_foreign(&marker, false)?;
            found.push((place, marker));
        }
    }
    for (place, marker) in found {
        place.remove(&marker).map_err(|error| refused(&error, "remove the fileset", &place.text))?;
    }
    Ok(())
}

/// Notes of every fileset of a program that the run has ended.
pub(super) fn rest(program: &FileProgram) -> Result<(), LoadError> {
    for place in places(program)? {
        place.mark_rest().map_err(|error| refused(&error, "note that the run has ended", &place.text))?;
    }
    Ok(())
}
