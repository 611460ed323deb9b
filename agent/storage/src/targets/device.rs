//! Block devices as targets: who uses one now, and what lies on it. Looking changes nothing.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

use iodyno_core::block_check;
use iodyno_core::random::Random;
use iodyno_sys::block_target;

use super::below::{mounts, name_of, unescaped, Mount};
use super::signatures;
use super::wanted::{said, Refusal, Wanted};
use crate::block::content::is_marked;

/// How data of no known kind is looked for: at either end of the device this much,
const END_BYTES: u64 = 1 << 20;
/// in a working set up to this length all of it,
const WHOLE_BYTES: u64 = 16 << 20;
/// in a longer one in as many places, one in each of its equal parts. chosen: a disk that turns goes through them in 2 s, and data
/// in a hundredth of it is found in 92 of 100 cases.
const PLACES: u64 = 256;
/// chosen: what file systems allocate at a time, so that there are zeros beside data.
const PIECE_BYTES: u64 = 4096;

/// A raw device. One in use is refused, whatever is said; one with content, unless it is named to be destroyed. Says how data was
/// looked for where none was found.
pub(super) fn look(path: &Path, wanted: &Wanted) -> Result<String, Refusal> {
    let told = |error: io::Error| {
        let what = format!("cannot be opened: {}", said(&error));
        Refusal::new(what, path, "name a device that is there, as root")
    };
    let found = fs::metadata(path).map_err(told)?;
    if !found.file_type().is_block_device() {
        let advice = "name a file that is not in /dev, or a block device";
        return Err(Refusal::new("is no block device", path, advice));
    }
    let name = name_of(found.rdev());
    let used = users(path, name.as_deref());
    if !used.is_empty() {
        return Err(Refusal::new(used.join("; "), path, "unmount or release it, or name another device"));
    }
    let device = File::open(path).map_err(told)?;
    let length = block_target::device_bytes(device.as_fd()).map_err(told)?;
    let mut held = content(&device, length, name.as_deref()).map_err(told)?;
    let overwritten = (wanted.writes || wanted.appends || wanted.checks.is_some()) && !wanted.destroy;
    let mut why = String::new();
    if held.is_empty() && overwritten {
        let end = wanted.size_bytes.map_or(length, |size| size.min(length));
        match data_at(&device, length, end) {
            Some(at) => held.push(format!("holds data of no known kind (byte {at})")),
            None => why = format!("nobody's data in {}", looked_at(end)),
        }
    }
    if !held.is_empty() && !wanted.destroy {
        let advice = format!(
            "name a device whose content nobody needs, or give this one up with --destroy {}",
            path.display()
        );
        return Err(Refusal::new(held.join("; "), path, advice));
    }
    if length == 0 {
        return Err(Refusal::new("has no size: nothing is attached to it", path, "attach it first"));
    }
    if let Some(size) = wanted.size_bytes.filter(|size| *size > length) {
        let what = format!("has {length} bytes, fewer than the {size} of the working set");
        return Err(Refusal::new(what, path, "take a smaller working set"));
    }
    Ok(why)
}

/// Where there is data: neither zeros nor what a load wrote. `end`: of the working set. What cannot be read is for the load to tell.
fn data_at(device: &File, length: u64, end: u64) -> Option<u64> {
    let piece = |at: u64, until: u64| {
        let mut bytes = vec![0; PIECE_BYTES.min(until - at) as usize];
        device.read_exact_at(&mut bytes, at).ok()?;
        let first = bytes.iter().position(|byte| *byte != 0)?;
        let ours = is_marked(&bytes) || block_check::is_at(&bytes[first..], at + first as u64);
        (!ours).then_some(at + first as u64)
    };
    let all =
        |from: u64, until: u64| (from..until).step_by(PIECE_BYTES as usize).find_map(|at| piece(at, until));
    let begin_of_last = length.saturating_sub(END_BYTES) & !(PIECE_BYTES - 1);
    all(0, length.min(END_BYTES)).or_else(|| all(begin_of_last, length)).or_else(|| {
        if end <= WHOLE_BYTES {
            return all(0, end);
        }
        let (part, mut random) = (end / PLACES, Random::new(0, 0));
        let place = |number: u64| (number * part + random.below(part)) & !(PIECE_BYTES - 1);
        (0..PLACES).map(place).find_map(|at| piece(at, end))
    })
}

/// What `data_at` looks at.
fn looked_at(end: u64) -> String {
    let inside = if end > WHOLE_BYTES {
        format!("{PLACES} blocks of {PIECE_BYTES} bytes spread over the working set")
    } else {
        "the working set".to_owned()
    };
    format!("the first and the last MiB of the device and {inside}")
}

/// Who has the device in use now: mounts, swap, other devices made of it.
fn users(path: &Path, name: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    let mounts = mounts();
    let whole = name.map(str::to_owned);
    let parts = name.map(partitions).unwrap_or_default();
    for (part, name) in whole.iter().map(|name| (false, name)).chain(parts.iter().map(|name| (true, name))) {
        let of = if part { format!("its partition {name} ") } else { String::new() };
        found.extend(mount_points(&mounts, name).map(|point| format!("{of}is mounted at {point}")));
        if swaps().any(|swap| swap == *name) {
            found.push(format!("{of}is swap space in use"));
        }
        let holders = names_in(&format!("/sys/class/block/{name}/holders"));
        found.extend(holders.iter().map(|holder| format!("{of}is held by {holder}")));
    }
    if found.is_empty() && !block_target::is_free(path) {
        let what =
            "is in use: the kernel does not give it to anybody alone (a mount elsewhere, a RAID, a volume)";
        found.push(what.to_owned());
    }
    found
}

/// A file that is to be written or removed. One that a device is made of, or that is swap space, is refused, whatever is said.
pub(super) fn look_at_users_of(path: &Path) -> Result<(), Refusal> {
    let Ok(found) = fs::metadata(path) else { return Ok(()) };
    let this = |device: u64, inode: u64| (device, inode) == (found.dev(), found.ino());
    let is_it = |other: &Path| fs::metadata(other).is_ok_and(|other| this(other.dev(), other.ino()));
    let mut used = Vec::new();
    let mounts = mounts();
    for name in names_in("/sys/block").into_iter().filter(|name| name.starts_with("loop")) {
        let Ok(backing) = fs::read(format!("/sys/block/{name}/loop/backing_file")) else { continue };
        let node = Path::new("/dev").join(&name);
        // The kernel's numbers hold for a file that was renamed, removed, or lies in another mount; its path is what there is
        // for whoever may not open the device.
        let held = match File::open(&node).and_then(|device| block_target::loop_file(device.as_fd())) {
            Ok((device, inode)) => this(device, inode),
            Err(_) => is_it(Path::new(String::from_utf8_lossy(&backing).trim_end_matches('\n'))),
        };
        if held {
            let points: Vec<&str> = mount_points(&mounts, &name).collect();
            let mounted =
                if points.is_empty() { String::new() } else { format!(", mounted at {}", points.join(", ")) };
            used.push(format!("is what {} is made of{mounted}", node.display()));
        }
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let named = |line: &str| line.split_whitespace().next().map(unescaped);
    if swaps.lines().skip(1).filter_map(named).any(|swap| is_it(Path::new(&swap))) {
        used.push("is swap space in use".to_owned());
    }
    if used.is_empty() {
        return Ok(());
    }
    let advice = "unmount and release it (losetup -d, swapoff), or name another file";
    Err(Refusal::new(used.join("; "), path, advice))
}

/// What lies on the device: partitions, a file system, a volume.
fn content(device: &File, length: u64, name: Option<&str>) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let parts = name.map(partitions).unwrap_or_default();
    if !parts.is_empty() {
        found.push(format!("has the partitions {}", parts.join(", ")));
    }
    let mut read_at = |offset: u64, count: u64| {
        let mut bytes = vec![0; usize::try_from(count).unwrap_or(0)];
        device.read_exact_at(&mut bytes, offset).map(|()| bytes)
    };
    found.extend(signatures::signature_of(&mut read_at, length)?.map(|what| format!("holds {what}")));
    Ok(found)
}

fn names_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn partitions(name: &str) -> Vec<String> {
    let folder = format!("/sys/class/block/{name}");
    let is_one = |entry: &String| Path::new(&folder).join(entry).join("partition").is_file();
    names_in(&folder).into_iter().filter(is_one).collect()
}

fn mount_points<'a>(mounts: &'a [Mount], name: &str) -> impl Iterator<Item = &'a str> {
    let number = fs::read_to_string(format!("/sys/class/block/{name}/dev")).unwrap_or_default();
    let (number, place) = (number.trim().to_owned(), Path::new("/dev").join(name));
    let on_it = move |mount: &&Mount| {
        mount.number == number
            || (mount.source.starts_with("/dev/")
                && fs::canonicalize(&mount.source).is_ok_and(|source| source == place))
    };
    mounts.iter().filter(on_it).map(|mount| mount.point.as_str())
}

fn swaps() -> impl Iterator<Item = String> {
    let text = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let names: Vec<String> = text
        .lines()
        .skip(1)
        .filter_map(|line| fs::canonicalize(line.split_whitespace().next()?).ok())
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    names.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::content::fill;
    use crate::targets::Kind;
    use iodyno_core::block_check::{stamp, UnitCheck};
    use iodyno_core::disk::Disk;
    use std::path::PathBuf;

    const LENGTH: u64 = 40 << 20;

    /// A file of holes in place of a device, without a name.
    fn device(name: &str) -> File {
        let path: PathBuf = std::env::temp_dir().join(format!("iodyno-device-{name}-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        file.set_len(LENGTH).unwrap();
        file
    }

    #[test]
    fn somebodys_data_is_found_at_either_end_and_all_over_a_short_working_set() {
        for (at, end, found) in [
            (7, LENGTH, true),
            (LENGTH - 1, 4096, true),
            (LENGTH - END_BYTES, 4096, true),
            (10 << 20, WHOLE_BYTES, true),
            (WHOLE_BYTES - 1, WHOLE_BYTES, true),
            // Behind the working set nothing is written.
            (WHOLE_BYTES + 1, WHOLE_BYTES, false),
        ] {
            let device = device("data");
            assert_eq!(data_at(&device, LENGTH, end), None);
            device.write_all_at(&[1], at).unwrap();
            assert_eq!(data_at(&device, LENGTH, end), found.then_some(at), "byte {at} of {end}");
        }
        // A long one is looked at in places: data all over it is found, wherever they are.
        let device = device("long");
        (END_BYTES..LENGTH - END_BYTES).step_by(4096).for_each(|at| device.write_all_at(b"x", at).unwrap());
        assert!(data_at(&device, LENGTH, LENGTH).is_some());
    }

    #[test]
    fn what_a_load_wrote_is_nobodys() {
        let device = device("ours");
        let mut block = vec![0; 4096];
        fill(&mut block, &Disk::default(), 1);
        device.write_all_at(&block, 8192).unwrap();
        // A check holds for its own place alone: elsewhere somebody has copied it.
        stamp(&mut block, UnitCheck { offset: 16_384, generation: 1, seed: 1, target: 0 });
        block[40..].fill(5);
        device.write_all_at(&block, 16_384).unwrap();
        assert_eq!(data_at(&device, LENGTH, LENGTH), None);
        device.write_all_at(&block, 4096).unwrap();
        assert_eq!(data_at(&device, LENGTH, LENGTH), Some(4096));
    }

    #[test]
    fn what_is_no_device_is_refused() {
        let wanted = Wanted { kind: Kind::Device, writes: true, ..Wanted::default() };
        for (path, what) in [("/no/such/device", "cannot be opened"), ("/dev/null", "is no block device")] {
            let refusal = look(Path::new(path), &wanted).unwrap_err();
            assert!(refusal.what.contains(what), "{refusal:?}");
        }
    }
}
