//! Files and directories below a directory that is held open. Every name is one component, and no symbolic link is
//! ever followed: what is asked for lies in that directory or is not there.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use iodyno_core::units::Bytes;
use rustix::fs::{
    accessat, fstat, mkdirat, openat, openat2, renameat, seek, statat, unlinkat, Access, Advice, AtFlags,
    FileType, Mode, OFlags, RawDir, ResolveFlags, SeekFrom, Stat,
};
use rustix::io::Errno;

/// A directory that is held open.
#[derive(Debug)]
pub struct Directory(OwnedFd);

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Something else: a link, a device, a pipe, a socket.
    Other,
}

/// What is known of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// What it stands for.
    pub kind: Kind,
    /// Its length.
    pub bytes: u64,
    /// The file system that it lies on.
    pub device: u64,
    /// When its content, name or owner was last changed, by the clock of its file system.
    pub changed_ns: i128,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Whether it is made; it must not exist.
    pub create: bool,
    /// `O_DIRECT`.
    pub direct: bool,
    /// `O_DSYNC`.
    pub dsync: bool,
}

impl Opening {
    fn flags(self) -> OFlags {
        let access = match (self.read, self.write) {
            (_, false) => OFlags::RDONLY,
            (false, true) => OFlags::WRONLY,
            (true, true) => OFlags::RDWR,
        };
        let mut flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        flags.set(OFlags::CREATE | OFlags::EXCL, self.create);
        flags.set(OFlags::DIRECT, self.direct);
        flags.set(DSYNC, self.dsync);
        flags
    }
}

/// `O_DSYNC`, which the library takes for `O_SYNC`.
pub(crate) const DSYNC: OFlags = OFlags::from_bits_retain(libc::O_DSYNC as u32);

/// How a directory that is not to be a link is opened.
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn attributes_of(status: &Stat) -> Attributes {
    let kind = match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        _ => Kind::Other,
    };
    let changed_ns = i128::from(status.st_ctime) * 1_000_000_000 + i128::from(status.st_ctime_nsec);
    Attributes { kind, bytes: status.st_size as u64, device: status.st_dev, changed_ns }
}

impl Directory {
    /// The directory at `path`, which may lead over links: somebody named it.
    ///
    /// # Errors
    /// What the kernel said, such as that there is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Directory(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// The directory of this name in it.
    ///
    /// # Errors
    /// What the kernel said; `ELOOP` or `ENOTDIR` where it is a link.
    pub fn directory(&self, name: &CStr) -> io::Result<Self> {
        Ok(Directory(openat(&self.0, name, DIRECTORY, Mode::empty())?))
    }

    /// The same, and never one of another mount: neither another file system's nor a part of this one that is mounted there.
    ///
    /// # Errors
    /// What the kernel said; `EXDEV` where something is mounted on it.
    pub fn directory_of_its_mount(&self, name: &CStr) -> io::Result<Self> {
        let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
        match openat2(&self.0, name, DIRECTORY, Mode::empty(), resolve) {
            // Kernels before 5.6 do not have the call, and some sandboxes do not allow it: there the number of the file
            // system tells most of it.
            Err(Errno::NOSYS | Errno::PERM) => {
                let found = self.directory(name)?;
                if found.own_attributes()?.device == self.own_attributes()?.device {
                    return Ok(found);
                }
                Err(Errno::XDEV.into())
            }
            opened => Ok(Directory(opened?)),
        }
    }

    /// Whether this host's own kernel gives the times of what is changed in it. That of a server may come later than the
    /// change, with the write-back.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn has_own_times(&self) -> io::Result<bool> {
        // `statfs(2)` and `fs/*`: NFS, CIFS, SMB2, FUSE, 9p, Ceph, AFS.
        const OF_OTHERS: [u32; 7] =
            [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x6573_5546, 0x0102_1997, 0x00c3_6400, 0x5346_414f];
        Ok(!OF_OTHERS.contains(&(rustix::fs::fstatfs(&self.0)?.f_type as u32)))
    }

    /// Its path, as this process has it now.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn path(&self) -> io::Result<std::path::PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// Another opening of it.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn again(&self) -> io::Result<Self> {
        self.directory(c".")
    }

    /// Opens a file in it.
    ///
    /// # Errors
    /// What the kernel said; `ELOOP` where the name is a link.
    #[inline]
    pub fn file(&self, name: &CStr, opening: Opening) -> io::Result<File> {
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        Ok(openat(&self.0, name, opening.flags(), mode)?.into())
    }

    /// Makes a directory in it.
    ///
    /// # Errors
    /// What the kernel said.
    #[inline]
    pub fn make_directory(&self, name: &CStr) -> io::Result<()> {
        Ok(mkdirat(&self.0, name, Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH)?)
    }

    /// Removes an empty directory in it.
    ///
    /// # Errors
    /// What the kernel said.
    #[inline]
    pub fn remove_directory(&self, name: &CStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// What the kernel said.
    #[inline]
    pub fn remove_file(&self, name: &CStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Gives what has a name here another one in `there`; what has that one is replaced.
    ///
    /// # Errors
    /// What the kernel said.
    #[inline]
    pub fn rename(&self, name: &CStr, there: &Directory, new: &CStr) -> io::Result<()> {
        Ok(renameat(&self.0, name, &there.0, new)?)
    }

    /// What is known of a name; of a link itself.
    ///
    /// # Errors
    /// What the kernel said.
    #[inline]
    pub fn attributes(&self, name: &CStr) -> io::Result<Attributes> {
        Ok(attributes_of(&statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// What is known of itself.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn own_attributes(&self) -> io::Result<Attributes> {
        Ok(attributes_of(&fstat(&self.0)?))
    }

    /// Goes through all names from the first, `.` and `..` included; bytes of their entries (`getdents64`). Allocates
    /// nothing.
    ///
    /// # Errors
    /// What the kernel said; what was seen until then was.
    pub fn list(&self, mut seen: impl FnMut(&CStr)) -> io::Result<Bytes> {
        seek(&self.0, SeekFrom::Start(0))?;
        // chosen: what C libraries read at a time.
        let mut buffer = [const { MaybeUninit::uninit() }; 32 << 10];
        let (mut entries, mut total) = (RawDir::new(&self.0, &mut buffer), 0);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            // An entry (getdents64(2)): inode 8, offset 8, length 2, type 1, name with its zero, up to the next 8.
            total += (19 + entry.file_name().count_bytes() as u64 + 1).next_multiple_of(8);
            seen(entry.file_name());
        }
        Ok(Bytes(total))
    }

    /// Space that an ordinary user may still take on its file system, and names that may still be made there (0: the
    /// file system does not count them).
    ///
    /// # Errors
    /// What the kernel said.
    pub fn free(&self) -> io::Result<(Bytes, u64)> {
        let status = rustix::fs::fstatvfs(&self.0)?;
        let names = if status.f_files == 0 { 0 } else { status.f_favail };
        Ok((Bytes(status.f_bavail.saturating_mul(status.f_frsize)), names))
    }

    /// Whether this process may make files in it.
    ///
    /// # Errors
    /// What the kernel said, such as that its file system is mounted for reading only.
    pub fn may_be_written(&self) -> io::Result<()> {
        Ok(accessat(&self.0, c".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
    }

    /// Has everything of its file system written to the device.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn synchronise_file_system(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }

    /// Has its names written to the device.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn synchronise(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }
}

/// Tells the kernel that reads of `file` will be at random places (`POSIX_FADV_RANDOM`).
///
/// # Errors
/// What the kernel said.
pub fn expect_random_reads(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, Advice::Random)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;

    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("iodyno-directory-{}-{name}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn names_are_made_listed_renamed_and_removed() {
        let scratch = Scratch::new("names");
        let root = Directory::open(&scratch.0).unwrap();
        root.make_directory(c"d").unwrap();
        let below = root.directory(c"d").unwrap();
        for number in 0..1_000 {
            let name = std::ffi::CString::new(format!("{number:08}")).unwrap();
            let opening = Opening { write: true, create: true, ..Opening::default() };
            below.file(&name, opening).unwrap();
        }
        for _ in 0..2 {
            let mut names = Vec::new();
            assert!(below.list(|name| names.push(name.to_owned())).unwrap().0 >= 1_002 * 24);
            assert_eq!(names.len(), 1_002);
        }
        below.rename(c"00000007", &root, c"seven").unwrap();
        assert_eq!(root.attributes(c"seven").unwrap().kind, Kind::File);
        assert_eq!(below.attributes(c"00000007").unwrap_err().raw_os_error(), Some(libc::ENOENT));
        root.remove_file(c"seven").unwrap();
        assert_eq!(root.remove_directory(c"d").unwrap_err().raw_os_error(), Some(libc::ENOTEMPTY));
        assert_eq!(below.attributes(c"00000008").unwrap().bytes, 0);
        assert!(root.free().unwrap().0 .0 > 0);
        let opening = Opening { write: true, create: true, dsync: true, ..Opening::default() };
        let synchronous = root.file(c"s", opening).unwrap();
        assert_eq!(crate::block_target::flags(synchronous.as_fd()).unwrap(), ["dsync"]);
    }

    #[test]
    fn links_are_not_followed() {
        let (scratch, outside) = (Scratch::new("links"), Scratch::new("outside"));
        fs::write(outside.0.join("precious"), b"kept").unwrap();
        std::os::unix::fs::symlink(&outside.0, scratch.0.join("d")).unwrap();
        std::os::unix::fs::symlink(outside.0.join("precious"), scratch.0.join("f")).unwrap();
        let root = Directory::open(&scratch.0).unwrap();
        assert!(root.directory(c"d").is_err());
        assert!(root.file(c"f", Opening { read: true, write: true, ..Opening::default() }).is_err());
        assert_eq!(root.attributes(c"f").unwrap().kind, Kind::Other);
        root.remove_file(c"f").unwrap();
        assert_eq!(fs::read(outside.0.join("precious")).unwrap(), b"kept");
    }
}
