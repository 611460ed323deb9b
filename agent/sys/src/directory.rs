//! Files and directories below a directory that is held open. Every name is one component, and no symbolic link is
//! ever followed: what is asked for lies in that directory or is not there.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use iodyno_core::units::Bytes;

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
    fn flags(self) -> libc::c_int {
        let access = match (self.read, self.write) {
            (_, false) => libc::O_RDONLY,
            (false, true) => libc::O_WRONLY,
            (true, true) => libc::O_RDWR,
        };
        let mut flags = access | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        for (wanted, flag) in [
            (self.create, libc::O_CREAT | libc::O_EXCL),
            (self.direct, libc::O_DIRECT),
            (self.dsync, libc::O_DSYNC),
        ] {
            if wanted {
                flags |= flag;
            }
        }
        flags
    }
}

fn done(outcome: libc::c_int) -> io::Result<()> {
    if outcome < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn descriptor(outcome: libc::c_int) -> io::Result<OwnedFd> {
    done(outcome)?;
    // SAFETY: the kernel has just given this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(outcome) })
}

fn attributes_of(status: &libc::stat) -> Attributes {
    let kind = match status.st_mode & libc::S_IFMT {
        libc::S_IFREG => Kind::File,
        libc::S_IFDIR => Kind::Directory,
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
        use std::os::unix::fs::OpenOptionsExt;
        let file = File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_CLOEXEC).open(path)?;
        Ok(Directory(file.into()))
    }

    /// The directory of this name in it.
    ///
    /// # Errors
    /// What the kernel said; `ELOOP` or `ENOTDIR` where it is a link.
    pub fn directory(&self, name: &CStr) -> io::Result<Self> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: `name` ends with a zero, and the kernel only reads it.
        descriptor(unsafe { libc::openat(self.0.as_raw_fd(), name.as_ptr(), flags) }).map(Directory)
    }

    /// The same, and never one of another mount: neither another file system's nor a part of this one that is mounted there.
    ///
    /// # Errors
    /// What the kernel said; `EXDEV` where something is mounted on it.
    pub fn directory_of_its_mount(&self, name: &CStr) -> io::Result<Self> {
        // SAFETY: an all-zero open_how is a valid one.
        let mut how: libc::open_how = unsafe { std::mem::zeroed() };
        how.flags = (libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC) as u64;
        how.resolve = libc::RESOLVE_NO_XDEV | libc::RESOLVE_NO_SYMLINKS;
        let (place, size) = (&raw const how, std::mem::size_of_val(&how));
        // SAFETY: `name` ends with a zero, `how` is this long, and the kernel only reads both.
        let outcome = unsafe {
            libc::syscall(libc::SYS_openat2, self.0.as_raw_fd(), name.as_ptr(), place, size) as libc::c_int
        };
        match descriptor(outcome) {
            // Kernels before 5.6 do not have the call, and some sandboxes do not allow it: there the number of the file
            // system tells most of it.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                let found = self.directory(name)?;
                if found.own_attributes()?.device == self.own_attributes()?.device {
                    return Ok(found);
                }
                Err(io::Error::from_raw_os_error(libc::EXDEV))
            }
            opened => opened.map(Directory),
        }
    }

    /// Whether this host's own kernel gives the times of what is changed in it. That of a server may come later than the
    /// change, with the write-back.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn has_own_times(&self) -> io::Result<bool> {
        // SAFETY: an all-zero statfs is a valid one.
        let mut status: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: `status` is a valid place for one statfs.
        done(unsafe { libc::fstatfs(self.0.as_raw_fd(), &mut status) })?;
        // `statfs(2)` and `fs/*`: NFS, CIFS, SMB2, FUSE, 9p, Ceph, AFS.
        const OF_OTHERS: [u32; 7] =
            [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x6573_5546, 0x0102_1997, 0x00c3_6400, 0x5346_414f];
        Ok(!OF_OTHERS.contains(&(status.f_type as u32)))
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
        let mode: libc::c_uint = 0o644;
        // SAFETY: `name` ends with a zero, and the kernel only reads it.
        let outcome = unsafe { libc::openat(self.0.as_raw_fd(), name.as_ptr(), opening.flags(), mode) };
        descriptor(outcome).map(File::from)
    }

    /// Makes a directory in it.
    ///
    /// # Errors
    /// What the kernel said.
    #[inline]
    pub fn make_directory(&self, name: &CStr) -> io::Result<()> {
        // SAFETY: `name` ends with a zero, and the kernel only reads it.
        done(unsafe { libc::mkdirat(self.0.as_raw_fd(), name.as_ptr(), 0o755) })
    }

    /// Removes an empty directory in it.
    ///
    /// # Errors
    /// What the kernel said.
    #[inline]
    pub fn remove_directory(&self, name: &CStr) -> io::Result<()> {
        // SAFETY: `name` ends with a zero, and the kernel only reads it.
        done(unsafe { libc::unlinkat(self.0.as_raw_fd(), name.as_ptr(), libc::AT_REMOVEDIR) })
    }

    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// What the kernel said.
    #[inline]
    pub fn remove_file(&self, name: &CStr) -> io::Result<()> {
        // SAFETY: `name` ends with a zero, and the kernel only reads it.
        done(unsafe { libc::unlinkat(self.0.as_raw_fd(), name.as_ptr(), 0) })
    }

    /// Gives what has a name here another one in `there`; what has that one is replaced.
    ///
    /// # Errors
    /// What the kernel said.
    #[inline]
    pub fn rename(&self, name: &CStr, there: &Directory, new: &CStr) -> io::Result<()> {
        let (from, to) = (self.0.as_raw_fd(), there.0.as_raw_fd());
        // SAFETY: both names end with a zero, and the kernel only reads them.
        done(unsafe { libc::renameat(from, name.as_ptr(), to, new.as_ptr()) })
    }

    /// What is known of a name; of a link itself.
    ///
    /// # Errors
    /// What the kernel said.
    #[inline]
    pub fn attributes(&self, name: &CStr) -> io::Result<Attributes> {
        // SAFETY: an all-zero stat is a valid one.
        let mut status: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `name` ends with a zero; `status` is a valid place for one stat.
        done(unsafe {
            libc::fstatat(self.0.as_raw_fd(), name.as_ptr(), &mut status, libc::AT_SYMLINK_NOFOLLOW)
        })?;
        Ok(attributes_of(&status))
    }

    /// What is known of itself.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn own_attributes(&self) -> io::Result<Attributes> {
        // SAFETY: an all-zero stat is a valid one.
        let mut status: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `status` is a valid place for one stat.
        done(unsafe { libc::fstat(self.0.as_raw_fd(), &mut status) })?;
        Ok(attributes_of(&status))
    }

    /// Goes through all names from the first, `.` and `..` included; bytes of their entries (`getdents64`). Allocates
    /// nothing.
    ///
    /// # Errors
    /// What the kernel said; what was seen until then was.
    pub fn list(&self, mut seen: impl FnMut(&CStr)) -> io::Result<Bytes> {
        // SAFETY: takes integers only.
        if unsafe { libc::lseek(self.0.as_raw_fd(), 0, libc::SEEK_SET) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // Words, so that entries are aligned. chosen: what C libraries read at a time.
        let mut buffer = [0_u64; 4096];
        let size = std::mem::size_of_val(&buffer);
        let mut total = 0;
        loop {
            // SAFETY: the buffer is this long and writable.
            let got =
                unsafe { libc::syscall(libc::SYS_getdents64, self.0.as_raw_fd(), buffer.as_mut_ptr(), size) };
            if got < 0 {
                return Err(io::Error::last_os_error());
            }
            if got == 0 {
                return Ok(Bytes(total));
            }
            total += got as u64;
            // SAFETY: the kernel has written this many bytes of a buffer that is longer.
            let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), got as usize) };
            // An entry (getdents64(2)): inode 8, offset 8, length 2, type 1, name with its zero.
            let mut at = 0;
            while let Some(length) = bytes.get(at + 16..at + 18) {
                let length = usize::from(u16::from_ne_bytes([length[0], length[1]]));
                let Some(name) = bytes.get(at + 19..at + length) else { break };
                if let Ok(name) = CStr::from_bytes_until_nul(name) {
                    seen(name);
                }
                at += length;
            }
        }
    }

    /// Space that an ordinary user may still take on its file system, and names that may still be made there (0: the
    /// file system does not count them).
    ///
    /// # Errors
    /// What the kernel said.
    pub fn free(&self) -> io::Result<(Bytes, u64)> {
        // SAFETY: an all-zero statvfs is a valid one.
        let mut status: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: `status` is a valid place for one statvfs.
        done(unsafe { libc::fstatvfs(self.0.as_raw_fd(), &mut status) })?;
        let names = if status.f_files == 0 { 0 } else { status.f_favail as u64 };
        Ok((Bytes((status.f_bavail as u64).saturating_mul(status.f_frsize as u64)), names))
    }

    /// Whether this process may make files in it.
    ///
    /// # Errors
    /// What the kernel said, such as that its file system is mounted for reading only.
    pub fn may_be_written(&self) -> io::Result<()> {
        let (name, mode) = (c".", libc::W_OK | libc::X_OK);
        // SAFETY: `name` ends with a zero, and the kernel only reads it.
        done(unsafe { libc::faccessat(self.0.as_raw_fd(), name.as_ptr(), mode, libc::AT_EACCESS) })
    }

    /// Has everything of its file system written to the device.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn synchronise_file_system(&self) -> io::Result<()> {
        // SAFETY: takes an integer.
        done(unsafe { libc::syncfs(self.0.as_raw_fd()) })
    }

    /// Has its names written to the device.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn synchronise(&self) -> io::Result<()> {
        // SAFETY: takes an integer.
        done(unsafe { libc::fsync(self.0.as_raw_fd()) })
    }
}

/// Tells the kernel that reads of `file` will be at random places (`POSIX_FADV_RANDOM`).
///
/// # Errors
/// What the kernel said.
pub fn expect_random_reads(file: &File) -> io::Result<()> {
    // SAFETY: takes integers only.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
