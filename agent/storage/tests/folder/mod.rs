//! A folder for the files of a test, and jobs on them.

#![allow(dead_code, reason = "every test file uses a part of it")]

use std::path::{Path, PathBuf};

use iodyno_core::disk::{Disk, DiskSyscalls, Target, TargetKind};
use iodyno_core::job::Job;
use iodyno_core::phase::Windows;
use iodyno_core::units::Nanos;
use iodyno_load::{Cancel, LoadError};
use iodyno_storage::block::{self, Finished};
use iodyno_sys::clock;

/// Nanoseconds of a millisecond.
pub const MS: u64 = 1_000_000;

/// Every kind of system call.
pub const SYSCALLS: [DiskSyscalls; 5] = [
    DiskSyscalls::Pread,
    DiskSyscalls::Preadv2,
    DiskSyscalls::IoUring,
    DiskSyscalls::Aio,
    DiskSyscalls::Mmap,
];

/// A folder that is gone with this value. On a disk, where the package's target is: tmpfs has no `O_DIRECT`.
pub struct Folder(pub PathBuf);

impl Folder {
    /// A new one.
    pub fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A file with these bytes.
    pub fn file(&self, name: &str, bytes: &[u8]) -> Target {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        target(&path)
    }

    /// Path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A file as a target.
pub fn target(path: &Path) -> Target {
    Target {
        path: path.to_str().unwrap().to_owned(),
        kind: TargetKind::File,
        size_bytes: None,
        create: false,
    }
}

/// A job of so many milliseconds.
pub fn job(disk: Disk, milliseconds: u64) -> Job<Disk> {
    Job {
        trial: "00001-1".to_owned(),
        token: "0f".repeat(16),
        load: disk,
        windows: Windows {
            warm_up_ns: Nanos(0),
            measured_ns: Nanos(milliseconds * MS),
            drain_ns: Nanos(0),
            interval_ns: Nanos(100 * MS),
        },
        ..Job::default()
    }
}

/// Random reads and writes, half and half, of blocks of 4 KiB.
pub fn mixed(target: Target, syscalls: DiskSyscalls) -> Disk {
    let queues = matches!(syscalls, DiskSyscalls::IoUring | DiskSyscalls::Aio);
    Disk {
        targets: vec![target],
        pattern: iodyno_core::disk::Pattern::Random,
        read_ratio_ppm: 500_000,
        syscalls,
        queue_depth: if queues { 8 } else { 1 },
        ..Disk::default()
    }
}

/// Whether this host lets the test use an syscalls.
pub fn is_here(syscalls: DiskSyscalls) -> bool {
    syscalls != DiskSyscalls::IoUring || iodyno_sys::stream_ring::available().is_ok()
}

/// Carries a job out.
pub fn carry_out(job: &Job<Disk>) -> Result<Finished, LoadError> {
    job.load.check()?;
    let prepared = block::prepare(job, &Cancel::default())?;
    let finished = prepared.arm(clock::monotonic().plus(Nanos(5 * MS))).join();
    match &finished.failure {
        Some(failure) => Err(failure.clone()),
        None => Ok(finished),
    }
}
