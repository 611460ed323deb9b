//! Which block device lies under a file, and which file system it is on.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use iodyno_sys::block_target::parts_of;

const IN_MEMORY: [&str; 4] = ["tmpfs", "ramfs", "hugetlbfs", "devtmpfs"];

/// What a target lies on: the device's name as the kernel counts it, `None` where there is none; its file system.
pub(super) struct Below {
    pub device: Option<String>,
    pub file_system: Option<String>,
}

impl Below {
    /// Whether it is memory and nothing else.
    pub fn in_memory(&self) -> bool {
        self.device.is_none() && self.file_system.as_deref().is_some_and(|name| IN_MEMORY.contains(&name))
    }
}

/// What the file, or the device, is on.
pub(super) fn under(path: &Path) -> io::Result<Below> {
    let found = fs::metadata(path)?;
    if found.file_type().is_block_device() {
        return Ok(Below { device: name_of(found.rdev()), file_system: None });
    }
    let mount = mount_of(&fs::canonicalize(path)?);
    // Files of some file systems have a number of their own (btrfs): the mount says what it is made of.
    let named = || {
        let source = mount.as_ref()?.source.strip_prefix("/dev/")?;
        name_of(fs::metadata(Path::new("/dev").join(source)).ok()?.rdev())
    };
    let device = name_of(found.dev()).or_else(named);
    Ok(Below { device, file_system: mount.map(|mount| mount.file_system) })
}

/// The kernel's name of a device number; `None`: it is no block device (a file system in memory or on a network).
pub(super) fn name_of(number: u64) -> Option<String> {
    let (major, minor) = parts_of(number);
    let link = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}

/// A line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// `major:minor` of the files on it.
    pub number: String,
    pub point: String,
    pub file_system: String,
    pub source: String,
}

/// All mounts that this process sees, the later ones over the earlier ones.
pub(crate) fn mounts() -> Vec<Mount> {
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(2);
    let mut after = after.split(' ');
    Some(Mount {
        number: before.next()?.to_owned(),
        point: unescaped(before.nth(1)?),
        file_system: after.next()?.to_owned(),
        source: unescaped(after.next()?),
    })
}

/// Blanks and backslashes are written as three octal digits.
pub(super) fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[3..]);
            }
            None => {
                bytes.push(b'\\');
                bytes.extend(part.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The mount that a path is on: that of the longest mount point above it, the last of several.
fn mount_of(real: &Path) -> Option<Mount> {
    let above = |mount: &Mount| real.starts_with(&mount.point);
    mounts().into_iter().filter(above).max_by_key(|mount| mount.point.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_with_its_blanks() {
        let line = r"36 35 98:0 /mnt1 /mnt\040a\134b rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let mount = parse(line).unwrap();
        assert_eq!(mount.number, "98:0");
        assert_eq!(mount.point, r"/mnt a\b");
        assert_eq!((mount.file_system.as_str(), mount.source.as_str()), ("ext3", "/dev/root"));
        assert_eq!(parse("36 35 98:0 / / rw - proc none rw").unwrap().file_system, "proc");
        assert_eq!(parse("torn line"), None);
        assert_eq!(unescaped(r"a\b\04"), r"a\b\04");
    }

    #[test]
    fn memory_is_told_from_a_disk() {
        let on = |device: Option<&str>, name: &str| Below {
            device: device.map(str::to_owned),
            file_system: Some(name.to_owned()),
        };
        assert!(on(None, "tmpfs").in_memory());
        assert!(!on(None, "nfs").in_memory() && !on(Some("sda"), "tmpfs").in_memory());
        assert!(under(Path::new("/proc/self/mountinfo")).unwrap().file_system.is_some());
    }
}
