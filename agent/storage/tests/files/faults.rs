//! What a target can be that it should not, or become: one error each, with what to try.

#![allow(clippy::print_stderr, reason = "a test says what it skips")]

use crate::folder::{carry_out, is_here, job, mixed, target, Folder, MS, SYSCALLS};
use iodyno_core::disk::{Disk, DiskSyscalls, Region, Target, TargetKind};
use iodyno_core::message::ErrorCode;
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{Cancel, LoadError};
use iodyno_storage::block;
use iodyno_sys::clock;

fn refused(disk: Disk) -> LoadError {
    let error = carry_out(&job(disk, 100)).err().expect("a refusal");
    assert!(!error.place.is_empty() && !error.advice.is_empty(), "{error}");
    error
}

#[test]
fn a_target_that_is_not_as_the_job_has_it() {
    let folder = Folder::new("refused");
    let file = folder.file("file", &vec![0; 64 << 10]);
    let of = |target: Target| mixed(target, DiskSyscalls::Pread);
    let missing = refused(of(target(&folder.path("missing"))));
    assert_eq!(missing.code, ErrorCode::Target);
    assert!(missing.what.contains("No such file") && missing.advice.contains("may create it"), "{missing}");
    let short = refused(of(Target { size_bytes: Some(Bytes(1 << 20)), ..file.clone() }));
    assert!(short.what.contains("65536 bytes long, and the job needs 1048576"), "{short}");
    let region = Region { offset_bytes: Bytes(61_440), length_bytes: Bytes(8192) };
    let outside = refused(Disk { region: Some(region), ..of(file.clone()) });
    assert!(outside.what.contains("the job needs 69632"), "{outside}");
    let folder_itself = refused(of(target(&folder.0)));
    assert!(folder_itself.what.contains("a directory"), "{folder_itself}");
    let device = refused(of(Target { kind: TargetKind::Device, ..file.clone() }));
    assert!(device.what.contains("a regular file, and the job asks for a block device"), "{device}");
    let pipe = refused(of(target(std::path::Path::new("/dev/zero"))));
    assert!(pipe.what.contains("a character device"), "{pipe}");
    let huge = Target { size_bytes: Some(Bytes(1 << 60)), create: true, ..target(&folder.path("huge")) };
    let full = refused(of(huge));
    assert!(full.what.contains("its file system has"), "{full}");
    assert!(!folder.path("huge").exists());
    let many = refused(Disk { workers: 17, pattern: iodyno_core::disk::Pattern::Sequential, ..of(file) });
    assert!(many.what.contains("17 workers share 65536 bytes"), "{many}");
}

#[test]
fn a_file_that_becomes_shorter_while_the_load_is_on() {
    let folder = Folder::new("shorter");
    for syscalls in SYSCALLS.into_iter().filter(|syscalls| is_here(*syscalls)) {
        let file = folder.file("file", &vec![1; 1 << 20]);
        let path = folder.path("file");
        let job = job(Disk { read_ratio_ppm: 1_000_000, ..mixed(file, syscalls) }, 60_000);
        let running = block::prepare(&job, &Cancel::default()).unwrap().arm(clock::monotonic());
        while running.read().operations < 100 {
            std::thread::yield_now();
        }
        std::fs::File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
        let done = running.join();
        let failure = done.failure.expect("it ended");
        assert_eq!(failure.code, ErrorCode::Target);
        assert!(failure.what.starts_with("read of 4096 bytes at offset "), "{syscalls:?}: {failure}");
        assert!(done.account.errors > 0 && done.account.first_error.is_some());
        // It ended with its first error, not with its window.
        assert!(!done.account.complete);
    }
}

#[test]
fn errors_that_are_allowed_are_counted() {
    let folder = Folder::new("allowed");
    let file = folder.file("file", &vec![1; 1 << 20]);
    let disk =
        Disk { read_ratio_ppm: 1_000_000, errors_allowed: u64::MAX, ..mixed(file, DiskSyscalls::Pread) };
    let job = job(disk, 60_000);
    let running = block::prepare(&job, &Cancel::default()).unwrap().arm(clock::monotonic());
    while running.read().operations == 0 {
        std::thread::yield_now();
    }
    std::fs::File::options().write(true).open(folder.path("file")).unwrap().set_len(512 << 10).unwrap();
    while running.read().classes.iter().all(|class| class.errors == 0) {
        std::thread::yield_now();
    }
    running.stop();
    let done = running.join();
    assert!(done.failure.is_none());
    let read = done.totals.classes.iter().find(|class| class.name == "read").unwrap();
    assert_eq!(read.errors, done.account.errors);
    assert!(read.errors > 0 && read.operations > 0);
    assert_eq!(done.account.first_error.unwrap().error, 0);
}

#[test]
fn a_full_disk_is_one_error() {
    // /dev/full is no block device; a file of a limited length does the same to the caller.
    let folder = Folder::new("full");
    let script = format!("mount -t tmpfs -o size=1m none {0} && exec sleep 600", folder.0.display());
    let mounted = std::process::Command::new("unshare").args(["-m", "sh", "-c", &script]).spawn();
    let Ok(mut child) = mounted else {
        eprintln!("skipped: no unshare here");
        return;
    };
    let inside = format!("/proc/{}/root{}", child.id(), folder.0.display());
    let is_there = || std::fs::read_to_string(format!("/proc/{}/mounts", child.id())).unwrap_or_default();
    let until = clock::monotonic().plus(Nanos(60_000 * MS));
    let here = folder.0.to_str().unwrap().to_owned();
    while !is_there().contains(&here) && clock::monotonic() < until {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let mounted = is_there().contains(&here);
    if mounted {
        let path = std::path::Path::new(&inside).join("file");
        std::fs::File::create(&path).unwrap().set_len(8 << 20).unwrap();
        for syscalls in [DiskSyscalls::Pread, DiskSyscalls::IoUring] {
            if is_here(syscalls) {
                let disk = Disk { read_ratio_ppm: 0, ..mixed(target(&path), syscalls) };
                let error = carry_out(&job(disk, 10_000)).err().expect("1 MiB is less than 8");
                assert!(
                    error.what.contains("No space left") && error.advice.contains("free some"),
                    "{error}"
                );
            }
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    if !mounted {
        eprintln!("skipped: a tmpfs cannot be mounted here (needs root)");
    }
}

/// A loop device on a file, detached with this value.
struct Loop(String);

impl Loop {
    fn on(path: &std::path::Path) -> Option<Loop> {
        let told = std::process::Command::new("losetup").args(["-f", "--show"]).arg(path).output().ok()?;
        let name = String::from_utf8(told.stdout).ok()?.trim().to_owned();
        (told.status.success() && !name.is_empty()).then_some(Loop(name))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["-d", &self.0]).status();
    }
}

#[test]
fn a_device_that_reports_errors() {
    let folder = Folder::new("device");
    for syscalls in [DiskSyscalls::Pread, DiskSyscalls::IoUring, DiskSyscalls::Aio] {
        if !is_here(syscalls) {
            continue;
        }
        folder.file("backing", &vec![1; 4 << 20]);
        let path = folder.path("backing");
        let Some(device) = Loop::on(&path) else {
            eprintln!("skipped: no loop device can be had here (needs root and losetup)");
            return;
        };
        let on_it = Target { kind: TargetKind::Device, ..target(std::path::Path::new(&device.0)) };
        let disk = Disk { direct: true, read_ratio_ppm: 1_000_000, ..mixed(on_it, syscalls) };
        let odd = Disk { block_bytes: Bytes(1024), align_bytes: Some(Bytes(256)), ..disk.clone() };
        let error = refused(odd);
        assert!(error.what.contains("multiples of 512 bytes"), "{error}");
        let job = job(disk, 60_000);
        let running = block::prepare(&job, &Cancel::default()).unwrap().arm(clock::monotonic());
        while running.read().operations < 100 {
            std::thread::yield_now();
        }
        // The device goes on being 4 MiB long, and has nothing behind 4 KiB of it.
        std::fs::File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
        let failure = running.join().failure.expect("it ended");
        assert!(failure.what.contains("Input/output error"), "{syscalls:?}: {failure}");
        assert!(failure.place.starts_with("/dev/loop") && failure.advice.contains("dmesg"), "{failure}");
    }
}
