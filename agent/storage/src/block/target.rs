//! Targets: opened, looked at, and refused with a reason before anything is done to them.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use iodyno_core::block_pattern::Extent;
use iodyno_core::disk::{Cache, Disk, Pattern, Sync, Target, TargetAccount, TargetKind};
use iodyno_core::message::ErrorCode;
use iodyno_core::units::Bytes;
use iodyno_load::{Cancel, LoadError};
use iodyno_sys::block_target::{self, Opening};
use iodyno_sys::errno;

use super::fault;
use crate::targets;

/// chosen: how much of a null target there is, where the job does not say.
const NULL_BYTES: u64 = 1 << 30;
/// chosen: pieces in which a region is read into the page cache.
const WARM_BYTES: usize = 1 << 20;

/// A target that is open.
pub(crate) struct Opened {
    pub file: File,
    pub extent: Extent,
    pub account: TargetAccount,
}

/// Opens one target for the job.
pub(crate) fn open(disk: &Disk, target: &Target, cancel: &Cancel) -> Result<Opened, LoadError> {
    let null = target.kind == TargetKind::Null;
    let path = Path::new(if null { "/dev/null" } else { &target.path });
    let place = path.display().to_string();
    let before = if target.create { None } else { Some(std::fs::metadata(path)) };
    match before {
        Some(Err(error)) => return Err(refused(&error, &place)),
        // Before it is opened: to open a pipe waits, and to open a tape moves it.
        Some(Ok(found)) if !null => is_of_its_kind(&found, target.kind, &place)?,
        _ => {}
    }
    let writes = disk.writes() || target.create;
    let opening = Opening {
        write: writes && !null,
        direct: disk.direct && !null,
        sync: disk.sync,
        create: target.create,
    };
    let file = block_target::open(path, opening).map_err(|error| match error.raw_os_error() {
        Some(errno::EINVAL) if opening.direct => fault(
            ErrorCode::Target,
            "its file system cannot go without the page cache (O_DIRECT)",
            &place,
            "leave direct away, or take a target on another file system",
        ),
        _ => refused(&error, &place),
    })?;
    let found = file.metadata().map_err(|error| refused(&error, &place))?;
    if !null {
        is_of_its_kind(&found, target.kind, &place)?;
    }
    if target.create {
        create(&file, found.len(), target, path)?;
    }
    let size = match target.kind {
        TargetKind::Null => target.size_bytes.map_or(NULL_BYTES, |size| size.0),
        TargetKind::Device => {
            block_target::device_bytes(file.as_fd()).map_err(|error| refused(&error, &place))?
        }
        TargetKind::File => file.metadata().map_err(|error| refused(&error, &place))?.len(),
    };
    let extent = extent(disk, target, size, &place)?;
    let mut account = TargetAccount {
        path: place.clone(),
        kind: target.kind,
        size_bytes: Bytes(size),
        ..Default::default()
    };
    if !null {
        account.flags = block_target::flags(file.as_fd()).map_err(|error| refused(&error, &place))?;
        look_at_alignment(disk, &file, extent, &mut account)?;
        if disk.pattern == Pattern::Append && disk.replay.is_none() {
            targets::append_again(&file);
            file.set_len(extent.offset).map_err(|error| refused(&error, &place))?;
        }
        prepare_cache(disk.cache, &file, path, extent, cancel)?;
        if disk.advised {
            let in_order = !disk.pattern.is_scattered() && disk.random_ratio_ppm == 0;
            block_target::advise(file.as_fd(), extent.offset, extent.length, in_order)
                .map_err(|error| refused(&error, &place))?;
        }
        note_resident(&file, extent, &mut account, true);
    }
    Ok(Opened { file, extent, account })
}

fn is_of_its_kind(found: &std::fs::Metadata, kind: TargetKind, place: &str) -> Result<(), LoadError> {
    let kind_found = found.file_type();
    let (fits, wanted) = match kind {
        TargetKind::Device => (kind_found.is_block_device(), "a block device"),
        _ => (kind_found.is_file(), "a regular file"),
    };
    if fits {
        return Ok(());
    }
    let is = match () {
        () if kind_found.is_block_device() => "a block device",
        () if kind_found.is_file() => "a regular file",
        () if kind_found.is_dir() => "a directory",
        () if kind_found.is_char_device() => "a character device",
        () => "neither a file nor a block device",
    };
    let advice = format!("name {wanted}, or say that the target is {is}");
    Err(fault(ErrorCode::Target, format!("it is {is}, and the job asks for {wanted}"), place, advice))
}

/// Gives a new file its length. A longer one is left as it is.
fn create(file: &File, found: u64, target: &Target, path: &Path) -> Result<(), LoadError> {
    let place = path.display().to_string();
    let wanted = target.size_bytes.map_or(0, |size| size.0);
    if found >= wanted {
        return Ok(());
    }
    let free = block_target::free_bytes(file.as_fd()).map_err(|error| refused(&error, &place))?;
    if wanted - found > free {
        let what = format!("{wanted} bytes are asked for, and its file system has {free} left");
        if found == 0 {
            // It was made a moment ago, or was empty; an empty file that stays is no harm.
            let _ = std::fs::remove_file(path);
        }
        return Err(fault(ErrorCode::Target, what, &place, "take a smaller size or another file system"));
    }
    file.set_len(wanted).map_err(|error| refused(&error, &place))
}

/// Where the load may go, where the job says how long the target is: it is taken to be as long, or to be made so.
pub(crate) fn told(disk: &Disk, target: &Target) -> Option<Result<Extent, LoadError>> {
    let asked = target.size_bytes.map(|size| size.0);
    let size = match target.kind {
        TargetKind::Null => asked.unwrap_or(NULL_BYTES),
        // It grows from nothing.
        _ if disk.pattern == Pattern::Append && disk.replay.is_none() => asked.map(|_| 0)?,
        _ => asked.or(disk.region.map(|region| region.offset_bytes.0 + region.length_bytes.0))?,
    };
    Some(extent(disk, target, size, "disk.region"))
}

/// Where the load may go.
fn extent(disk: &Disk, target: &Target, size: u64, place: &str) -> Result<Extent, LoadError> {
    let append = disk.pattern == Pattern::Append && disk.replay.is_none();
    let usable = target.size_bytes.map_or(size, |asked| asked.0);
    let too_small = |needed: u64| {
        let what = format!("it is {size} bytes long, and the job needs {needed}");
        fault(ErrorCode::Target, what, place, "make it longer, or ask for less")
    };
    if usable > size && !append {
        return Err(too_small(usable));
    }
    let extent = match disk.region {
        Some(region) => Extent { offset: region.offset_bytes.0, length: region.length_bytes.0 },
        None => Extent { offset: 0, length: usable },
    };
    let end = extent.offset + extent.length;
    if end > usable {
        return Err(too_small(end));
    }
    if append && size > end {
        let what = format!(
            "it is {size} bytes long, and what lies behind the region's end at {end} would be cut off"
        );
        return Err(fault(
            ErrorCode::Target,
            what,
            place,
            "take a new file, or a region up to the file's end",
        ));
    }
    if extent.length < disk.block_bytes.0 {
        return Err(too_small(extent.offset + disk.block_bytes.0));
    }
    if let Some(replay) = &disk.replay {
        let outside = replay
            .offsets_bytes
            .iter()
            .zip(&replay.lengths_bytes)
            .position(|(offset, length)| offset.0 < extent.offset || offset.0 + length.0 > end);
        if let Some(at) = outside {
            let what = format!(
                "operation {at} of the trace goes to {}, outside of its region",
                replay.offsets_bytes[at].0
            );
            return Err(fault(
                ErrorCode::Target,
                what,
                place,
                "take a longer target, or scale the offsets of the trace",
            ));
        }
    }
    Ok(extent)
}

fn look_at_alignment(
    disk: &Disk,
    file: &File,
    extent: Extent,
    account: &mut TargetAccount,
) -> Result<(), LoadError> {
    let told = block_target::direct_alignment(file.as_fd());
    let sector = || block_target::sector_bytes(file.as_fd()).ok();
    account.offset_align_bytes = told.map(|(offset, _)| offset).or_else(sector).map(Bytes);
    account.memory_align_bytes = told.map(|(_, memory)| Bytes(memory));
    let Some(needed) = account.offset_align_bytes.filter(|_| disk.direct) else { return Ok(()) };
    let alike = disk.block_sizes.is_none() && disk.replay.is_none();
    let unit = if alike { disk.alignment() } else { disk.alignment().min(needed.0) };
    let wrong = [("align_bytes", unit), ("region", extent.offset), ("block_bytes", disk.block_bytes.0)]
        .into_iter()
        .find(|(_, value)| *value % needed.0 != 0);
    if let Some((key, value)) = wrong {
        let what =
            format!("without the page cache it takes multiples of {} bytes, and {key} is {value}", needed.0);
        let advice = format!("take multiples of {}, or leave direct away", needed.0);
        return Err(fault(ErrorCode::Target, what, &account.path, advice));
    }
    Ok(())
}

fn prepare_cache(
    cache: Cache,
    file: &File,
    path: &Path,
    extent: Extent,
    cancel: &Cancel,
) -> Result<(), LoadError> {
    let place = path.display().to_string();
    match cache {
        Cache::Leave => Ok(()),
        Cache::Drop | Cache::EachPass => file
            .sync_data()
            .and_then(|()| block_target::drop_cached(file.as_fd(), extent.offset, extent.length))
            .map_err(|error| refused(&error, &place)),
        Cache::Warm => {
            use std::io::Seek;
            let read = || -> io::Result<()> {
                let mut through = File::open(path)?;
                through.seek(io::SeekFrom::Start(extent.offset))?;
                let mut buffer = vec![0; WARM_BYTES];
                let mut left = extent.length;
                while left > 0 && !cancel.is_cancelled() {
                    let piece = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    match through.read(&mut buffer[..piece])? {
                        0 => break,
                        came => left -= came as u64,
                    }
                }
                Ok(())
            };
            read().map_err(|error| refused(&error, &place))
        }
    }
}

/// Notes how much of the region is in the page cache.
pub(crate) fn note_resident(file: &File, extent: Extent, account: &mut TargetAccount, before: bool) {
    let pages = block_target::resident_pages(file.as_fd(), extent.offset, extent.length);
    let place = if before { &mut account.resident_before_bytes } else { &mut account.resident_after_bytes };
    match pages {
        Ok(pages) => *place = Some(Bytes((pages * block_target::page_bytes()).min(extent.length))),
        Err(error) => account.resident_missing = Some(format!("cachestat: {error}")),
    }
}

/// What has become of a target's path, where that no longer leads to what is open.
pub(crate) fn lost(file: &File, account: &TargetAccount) -> Option<String> {
    let open = file.metadata().ok()?;
    let other = match std::fs::metadata(&account.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Some("its name was removed while the load was on".to_owned());
        }
        // What cannot be looked at tells nothing.
        found => found.ok()?,
    };
    let same = match account.kind {
        TargetKind::Device => other.rdev() == open.rdev(),
        _ => (other.dev(), other.ino()) == (open.dev(), open.ino()),
    };
    (!same).then(|| "its name was given to another file while the load was on".to_owned())
}

/// What an error number means for a target.
pub(crate) fn refused(error: &io::Error, place: &str) -> LoadError {
    let advice = match error.raw_os_error().unwrap_or(0) {
        errno::ENOENT => "make it first, or say that the job may create it, with its size",
        errno::EACCES | errno::EPERM => "look at its owner and mode, or run the agent as root",
        errno::EROFS => "take a target that can be written, or reads only",
        errno::EBUSY => "see who uses the device (lsblk, fuser)",
        errno::ENXIO | errno::ENODEV => "the device is gone: look at the kernel log (dmesg)",
        errno::EIO => "look at the kernel log (dmesg): the device reports errors",
        errno::ENOSPC => "free some space, or take a smaller region",
        errno::EMFILE => "raise the hard limit of open files (ulimit -Hn)",
        _ => "see the kernel log of this host (dmesg)",
    };
    fault(ErrorCode::Target, error.to_string(), place, advice)
}

/// Whether the job makes its writes durable by calls of its own.
pub(crate) fn calls_sync(disk: &Disk) -> bool {
    matches!(disk.sync, Sync::Fsync | Sync::Fdatasync)
}
