//! Blocks of real files, by every kind of system call.

#![allow(clippy::print_stderr, reason = "a test says what it skips")]

mod folder;

use std::os::unix::fs::FileExt;

use folder::{carry_out, is_here, job, mixed, target, Folder, MS, SYSCALLS};
use iodyno_core::arrivals::{Arrivals, Law, Sizes};
use iodyno_core::disk::{
    Cache, CallFlag, Disk, DiskSyscalls, Pattern, Region, Replay, ReplayedKind, Sequence, Sync, Target,
    TargetKind, Verify,
};
use iodyno_core::histogram::Snapshot;
use iodyno_core::message::ErrorCode;
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::Cancel;
use iodyno_storage::block;
use iodyno_storage::classes::ClassTotals;
use iodyno_storage::targets::{make_ready, Action, Kind, Wanted};
use iodyno_sys::clock;

fn class<'a>(classes: &'a [ClassTotals], name: &str) -> &'a ClassTotals {
    classes.iter().find(|class| class.name == name).unwrap_or_else(|| panic!("no class {name}"))
}

#[test]
fn every_kind_of_call_reads_and_writes_within_the_region_and_counts_it() {
    let folder = Folder::new("within");
    for syscalls in SYSCALLS.into_iter().filter(|syscalls| is_here(*syscalls)) {
        let before = vec![0x5a; 1 << 20];
        let file = folder.file("file", &before);
        let region = Region { offset_bytes: Bytes(256 << 10), length_bytes: Bytes(512 << 10) };
        let disk =
            Disk { region: Some(region), workers: 2, operations: Some(2_000), ..mixed(file, syscalls) };
        let done = carry_out(&job(disk, 10_000)).unwrap();
        let (read, write) = (class(&done.totals.classes, "read"), class(&done.totals.classes, "write"));
        assert_eq!(read.operations + write.operations, 2_000, "{syscalls:?}");
        assert_eq!(done.totals.operations, 2_000);
        assert!(read.operations > 800 && write.operations > 800);
        assert_eq!(done.totals.bytes, 2_000 * 4096);
        for class in [read, write] {
            assert_eq!((class.bytes, class.errors), (class.operations * 4096, 0));
            assert_eq!(class.service_time.count(), class.operations);
            assert!(class.response_time.is_none());
        }
        let account = done.account;
        assert!(account.complete && account.first_error.is_none() && account.short_operations == 0);
        assert_eq!(account.targets[0].read_bytes.0 + account.targets[0].written_bytes.0, 2_000 * 4096);
        let after = std::fs::read(folder.path("file")).unwrap();
        assert_eq!(after.len(), before.len());
        assert!(after[..256 << 10] == before[..256 << 10], "{syscalls:?} wrote before the region");
        assert!(after[768 << 10..] == before[768 << 10..], "{syscalls:?} wrote behind the region");
        // 128 blocks were written 1000 times: all of them.
        assert!(after[256 << 10..768 << 10].chunks(4096).all(|block| block != &before[..4096]));
    }
}

#[test]
fn what_is_written_in_order_is_all_there_and_reads_back() {
    let folder = Folder::new("verify");
    for syscalls in SYSCALLS.into_iter().filter(|syscalls| is_here(*syscalls)) {
        let path = folder.path("laid out");
        let made = Target { size_bytes: Some(Bytes(1 << 20)), create: true, ..target(&path) };
        let layout = Disk {
            targets: vec![made.clone()],
            pattern: Pattern::Sequential,
            sequence: Sequence::Shared,
            read_ratio_ppm: 0,
            workers: 2,
            block_bytes: Bytes(16 << 10),
            align_bytes: Some(Bytes(4096)),
            operations: Some(64),
            verify: Verify::Write,
            seed: 3,
            ..mixed(made.clone(), syscalls)
        };
        assert!(carry_out(&job(layout.clone(), 10_000)).unwrap().account.complete);
        let reads = Disk {
            read_ratio_ppm: 1_000_000,
            verify: Verify::Read,
            workers: 1,
            sync: Sync::None,
            ..layout.clone()
        };
        let done = carry_out(&job(reads.clone(), 10_000)).unwrap();
        assert_eq!(
            (done.account.verified_units, done.account.verify_skipped_units),
            (256, 0),
            "{syscalls:?}"
        );
        // Mixed load on it, where every read is checked against the last write.
        let both = Disk {
            pattern: Pattern::Random,
            read_ratio_ppm: 500_000,
            verify: Verify::Read,
            operations: Some(3_000),
            ..layout.clone()
        };
        let done = carry_out(&job(both, 10_000)).unwrap();
        assert!(done.account.verified_units > 2_000, "{syscalls:?} {:?}", done.account);
        // One bit is turned.
        let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, 123_456).unwrap();
        file.write_all_at(&[byte[0] ^ 4], 123_456).unwrap();
        let error = carry_out(&job(reads.clone(), 10_000)).err().expect("wrong data");
        assert_eq!(error.code, ErrorCode::Target);
        assert!(error.what.contains("wrong data at offset 122880"), "{error}");
        assert!(error.what.contains("expected offset 122880") && error.what.contains("found sum"), "{error}");
        // It is counted where it is allowed.
        let allowed = Disk { errors_allowed: 1, ..reads };
        let done = carry_out(&job(allowed, 10_000)).unwrap();
        assert_eq!((done.account.verify_failures, done.account.verified_units), (1, 252));
        assert_eq!(done.account.first_verify_failure.unwrap().offset_bytes, Bytes(122_880));
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn every_operation_of_a_checked_load_is_done_however_few_blocks_there_are() {
    let folder = Folder::new("few");
    for syscalls in SYSCALLS.into_iter().filter(|syscalls| is_here(*syscalls)) {
        let file = folder.file("file", &vec![0; 8 << 10]);
        // More is in flight than there are blocks, so that most find theirs in use.
        let disk = Disk {
            read_ratio_ppm: 0,
            verify: Verify::Write,
            workers: 4,
            operations: Some(2_000),
            ..mixed(file, syscalls)
        };
        let done = carry_out(&job(disk, 20_000)).unwrap();
        assert!(done.account.complete, "{syscalls:?}");
        assert_eq!(done.totals.operations, 2_000, "{syscalls:?}");
    }
}

#[test]
fn writes_are_made_durable_as_often_as_told() {
    let folder = Folder::new("sync");
    for syscalls in SYSCALLS.into_iter().filter(|syscalls| is_here(*syscalls)) {
        let file = folder.file("file", &vec![0; 256 << 10]);
        let disk = Disk {
            read_ratio_ppm: 0,
            sync: Sync::Fdatasync,
            sync_every: 10,
            operations: Some(40),
            ..mixed(file, syscalls)
        };
        let done = carry_out(&job(disk, 20_000)).unwrap();
        let name = if syscalls == DiskSyscalls::Mmap { "msync" } else { "fdatasync" };
        assert_eq!(class(&done.totals.classes, name).operations, 4, "{syscalls:?}");
        assert_eq!(done.totals.operations, 40);
    }
    let file = folder.file("file", &vec![0; 256 << 10]);
    let disk = Disk { sync: Sync::ODsync, operations: Some(5), ..mixed(file, DiskSyscalls::Pread) };
    assert_eq!(carry_out(&job(disk, 20_000)).unwrap().account.targets[0].flags, ["dsync"]);
}

#[test]
fn appended_blocks_make_the_file_longer_up_to_its_end() {
    let folder = Folder::new("append");
    for syscalls in [DiskSyscalls::Pread, DiskSyscalls::IoUring, DiskSyscalls::Aio] {
        if !is_here(syscalls) {
            continue;
        }
        let file = Target { size_bytes: Some(Bytes(10 * 4096)), ..folder.file("file", b"") };
        let disk = Disk {
            pattern: Pattern::Append,
            read_ratio_ppm: 0,
            operations: Some(23),
            ..mixed(file, syscalls)
        };
        let done = carry_out(&job(disk, 10_000)).unwrap();
        assert_eq!(class(&done.totals.classes, "truncate").operations, 2, "{syscalls:?}");
        assert_eq!(std::fs::metadata(folder.path("file")).unwrap().len(), 3 * 4096, "{syscalls:?}");
    }
    let file = folder.file("long", &vec![1; 20 * 4096]);
    let disk = Disk {
        targets: vec![Target { size_bytes: Some(Bytes(10 * 4096)), ..file }],
        pattern: Pattern::Append,
        read_ratio_ppm: 0,
        ..Disk::default()
    };
    let error = carry_out(&job(disk, 100)).err().expect("it would be cut");
    assert!(error.what.contains("would be cut off"), "{error}");
    assert_eq!(std::fs::metadata(folder.path("long")).unwrap().len(), 20 * 4096);
}

#[test]
fn what_was_appended_to_is_ours_until_somebody_else_writes_to_it() {
    let folder = Folder::new("appended");
    let path = folder.path("log");
    let wanted = Wanted {
        path: path.display().to_string(),
        kind: Kind::File,
        appends: true,
        writes: true,
        ..Wanted::default()
    };
    let ready = || make_ready(&wanted, &mut |_, _| {}, &Cancel::default());
    if let Err(refused) = ready() {
        // Without extended attributes.
        return assert!(refused.what.contains("cannot be laid out"), "{refused:?}");
    }
    let append = || {
        let target = Target {
            path: wanted.path.clone(),
            kind: TargetKind::File,
            size_bytes: Some(Bytes(1 << 20)),
            ..Target::default()
        };
        let disk =
            Disk { pattern: Pattern::Append, operations: Some(5), ..mixed(target, DiskSyscalls::Pread) };
        carry_out(&job(Disk { read_ratio_ppm: 0, ..disk }, 10_000)).unwrap()
    };
    append();
    assert_eq!(ready().unwrap().action, Action::Rebuilt);
    append();
    // The next trial of a campaign, for which nothing is laid out again, once the clock of the file system has moved on.
    std::thread::sleep(std::time::Duration::from_millis(50));
    append();
    assert_eq!(ready().unwrap().action, Action::Rebuilt);
    append();
    std::fs::write(&path, b"somebody's own").unwrap();
    assert!(ready().unwrap_err().what.contains("did not write"));
    assert_eq!(std::fs::read(&path).unwrap(), b"somebody's own");
}

#[test]
fn without_the_page_cache_lengths_must_fit_and_the_error_says_to_what() {
    let folder = Folder::new("direct");
    let file = folder.file("file", &vec![1; 1 << 20]);
    for syscalls in SYSCALLS.into_iter().filter(|syscalls| is_here(*syscalls)) {
        if syscalls == DiskSyscalls::Mmap {
            continue;
        }
        let disk = Disk { direct: true, operations: Some(50), ..mixed(file.clone(), syscalls) };
        match carry_out(&job(disk, 10_000)) {
            Ok(done) => {
                assert_eq!(done.account.targets[0].flags, ["direct"], "{syscalls:?}");
                assert!(done.account.targets[0].offset_align_bytes.is_some());
                assert_eq!(done.totals.operations, 50);
            }
            Err(error) => {
                assert!(error.what.contains("O_DIRECT"), "{error}");
                eprintln!("skipped: {error}");
                return;
            }
        }
    }
    let odd = Disk { direct: true, block_bytes: Bytes(1000), ..mixed(file, DiskSyscalls::Pread) };
    let error = carry_out(&job(odd, 100)).err().expect("1000 is no multiple of a sector");
    assert!(error.what.contains("takes multiples of") && error.what.contains("1000"), "{error}");
}

#[test]
fn an_open_loop_counts_from_the_instants_that_were_planned() {
    let folder = Folder::new("open");
    let file = folder.file("file", &vec![1; 1 << 20]);
    for (syscalls, workers) in [(DiskSyscalls::Pread, 2), (DiskSyscalls::IoUring, 1), (DiskSyscalls::Aio, 1)]
    {
        if !is_here(syscalls) {
            continue;
        }
        let disk = Disk { workers, read_ratio_ppm: 1_000_000, ..mixed(file.clone(), syscalls) };
        let arrivals = Arrivals {
            law: Law::Constant { earlier_ns: Nanos(0) },
            operations: 1_000,
            period_ns: Nanos(1_000 * MS),
            per_connection: false,
            seed: 1,
        };
        let job = job(Disk { arrivals: Some(arrivals), ..disk }, 400);
        let done = carry_out(&job).unwrap();
        let open = done.totals.open_loop.expect("an open loop");
        assert_eq!(open.due, 400, "{syscalls:?}");
        assert_eq!(open.begun + open.missed, open.due);
        // Those that were not begun at the stop lie within the wait of the oldest of them, however busy the machine is; each
        // operation that may be in flight can have claimed one more.
        let within = 1_000 * open.oldest_wait_ns.0 / (1_000 * MS) + 1;
        assert!(open.begun > 0 && open.missed <= within + 8, "{syscalls:?}: {} missed", open.missed);
        let read = class(&done.totals.classes, "read");
        assert_eq!(read.operations, open.begun);
        assert_eq!(open.response_time.count(), open.begun);
        let (service, response) = [&read.service_time, read.response_time.as_ref().unwrap()]
            .map(|times| times.since(&Snapshot::default()).sum_ns)
            .into();
        assert!(response >= service);
    }
}

#[test]
fn a_trace_is_replayed_in_its_order_and_at_its_times() {
    let folder = Folder::new("replay");
    let file = folder.file("file", &vec![0; 64 << 10]);
    let at_ns: Vec<Nanos> = [0, 10, 10, 60].map(|ms| Nanos(ms * MS)).into();
    let replay = Replay {
        at_ns,
        kinds: vec![ReplayedKind::Write, ReplayedKind::Read, ReplayedKind::Fsync, ReplayedKind::Write],
        offsets_bytes: [8192, 512, 0, 20_480].map(Bytes).into(),
        lengths_bytes: [512, 1024, 0, 4096].map(Bytes).into(),
        targets: Vec::new(),
    };
    for syscalls in [DiskSyscalls::Pread, DiskSyscalls::IoUring, DiskSyscalls::Aio] {
        if !is_here(syscalls) {
            continue;
        }
        std::fs::write(folder.path("file"), vec![0; 64 << 10]).unwrap();
        let disk = Disk { replay: Some(replay.clone()), ..mixed(file.clone(), syscalls) };
        let begun = clock::monotonic();
        let done = carry_out(&job(disk, 10_000)).unwrap();
        assert!(done.account.complete, "{syscalls:?}");
        // What a schedule would go on with after the trace is nothing that waits.
        let open = done.totals.open_loop.as_ref().unwrap();
        let counted = (open.due, open.begun, open.missed, open.backlog, open.oldest_wait_ns);
        assert_eq!(counted, (4, 4, 0, 0, Nanos(0)), "{syscalls:?}");
        let span = clock::monotonic().minus(begun);
        // It ends with the trace, and not with its window of 10 s.
        assert!(span >= Nanos(60 * MS) && span < Nanos(9_000 * MS), "{span:?}");
        let counts: Vec<_> =
            done.totals.classes.iter().map(|class| (class.name.as_str(), class.operations)).collect();
        assert_eq!(counts, [("read", 1), ("write", 2), ("fsync", 1)], "{syscalls:?}");
        let bytes = std::fs::read(folder.path("file")).unwrap();
        let changed: Vec<usize> =
            (0..128).filter(|at| bytes[at * 512..][..512].iter().any(|byte| *byte != 0)).collect();
        assert_eq!(changed, [16, 40, 41, 42, 43, 44, 45, 46, 47]);
    }
    let outside = Replay { offsets_bytes: [8192, 512, 0, 61_441].map(Bytes).into(), ..replay };
    let error =
        carry_out(&job(Disk { replay: Some(outside), ..mixed(file, DiskSyscalls::Pread) }, 100)).err();
    assert!(error.unwrap().what.contains("operation 3 of the trace goes to 61441"));
}

#[test]
fn blocks_of_several_lengths_and_several_targets() {
    let folder = Folder::new("several");
    let targets: Vec<Target> = (0..3).map(|at| folder.file(&format!("{at}"), &vec![0; 1 << 20])).collect();
    let disk = Disk {
        targets,
        block_bytes: Bytes(64 << 10),
        block_sizes: Some(Sizes::Mix {
            sizes_bytes: vec![Bytes(4096), Bytes(64 << 10)],
            weights: vec![3, 1],
        }),
        operations: Some(3_000),
        workers: 3,
        ..mixed(Target::default(), DiskSyscalls::Pread)
    };
    let done = carry_out(&job(disk, 20_000)).unwrap();
    // 3000 operations of 19 KiB in the mean, which has a standard deviation of 0.5 KiB; six of those.
    let mean = done.totals.bytes as f64 / 3_000.0;
    assert!((mean - 19.0 * 1024.0).abs() < 3.0 * 1024.0, "{mean}");
    assert!(done.totals.target_bytes.iter().all(|bytes| *bytes > 10 << 20), "{:?}", done.totals.target_bytes);
    // Each target has its own counts, and all together those of the job.
    assert_eq!(done.totals.targets.len(), 3);
    for (target, bytes) in done.totals.targets.iter().zip(&done.totals.target_bytes) {
        assert_eq!(target.iter().map(|class| class.bytes).sum::<u64>(), *bytes);
        assert!(target.iter().all(|class| class.service_time.count() == class.operations));
    }
    let of_all = |count: fn(&ClassTotals) -> u64| -> u64 {
        done.totals.targets.iter().map(|each| count(&each[0])).sum()
    };
    assert_eq!(of_all(|class| class.operations), done.totals.classes[0].operations);
    assert_eq!(of_all(|class| class.service_time.count()), done.totals.classes[0].service_time.count());
}

#[test]
fn the_page_cache_is_made_as_told_and_looked_at() {
    let folder = Folder::new("cache");
    let file = folder.file("file", &vec![1; 1 << 20]);
    let of = |cache| {
        let disk = Disk { cache, operations: Some(1), ..mixed(file.clone(), DiskSyscalls::Pread) };
        carry_out(&job(disk, 10_000)).unwrap().account.targets.remove(0)
    };
    let warm = of(Cache::Warm);
    if let Some(why) = warm.resident_missing {
        eprintln!("skipped: {why}");
        return;
    }
    assert_eq!(warm.resident_before_bytes, Some(Bytes(1 << 20)));
    let dropped = of(Cache::Drop).resident_before_bytes.unwrap();
    // A file system that keeps its files in memory has nowhere to drop them to.
    assert!(dropped == Bytes(0) || dropped == Bytes(1 << 20), "{dropped:?}");
}

#[test]
fn the_null_target_has_nothing_but_the_loop() {
    for syscalls in SYSCALLS {
        let null = Target { kind: TargetKind::Null, ..Target::default() };
        let done =
            carry_out(&job(Disk { operations: Some(10_000), ..mixed(null, syscalls) }, 10_000)).unwrap();
        assert_eq!(done.totals.operations, 10_000, "{syscalls:?}");
    }
}

#[test]
fn calls_that_would_wait_are_counted_and_made_again() {
    let folder = Folder::new("nowait");
    let file = folder.file("file", &vec![1; 1 << 20]);
    for syscalls in [DiskSyscalls::Preadv2, DiskSyscalls::IoUring] {
        if !is_here(syscalls) {
            continue;
        }
        let disk = Disk {
            flags: vec![CallFlag::Nowait],
            cache: Cache::Drop,
            read_ratio_ppm: 1_000_000,
            operations: Some(100),
            ..mixed(file.clone(), syscalls)
        };
        match carry_out(&job(disk, 10_000)) {
            Ok(done) => assert_eq!((done.totals.operations, done.account.errors), (100, 0), "{syscalls:?}"),
            Err(error) => assert_eq!(error.code, ErrorCode::Unsupported, "{error}"),
        }
    }
}

#[test]
fn a_dropped_job_ends_at_once() {
    let folder = Folder::new("dropped");
    for syscalls in SYSCALLS.into_iter().filter(|syscalls| is_here(*syscalls)) {
        let file = folder.file("file", &vec![1; 1 << 20]);
        let job = job(Disk { workers: 2, ..mixed(file, syscalls) }, 600_000);
        drop(block::prepare(&job, &Cancel::default()).unwrap());
        let running = block::prepare(&job, &Cancel::default()).unwrap().arm(clock::monotonic());
        while running.read().operations < 100 {
            std::thread::yield_now();
        }
        running.stop();
        let done = running.join();
        assert!(done.failure.is_none() && done.account.unfinished_operations == 0, "{syscalls:?}");
    }
}

/// Threads of this process with a real-time policy (41st field of `proc_pid_stat(5)`).
fn raised() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let policy = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        // The name of the thread ends with the last bracket; the third field follows.
        stat.rsplit_once(") ")?.1.split(' ').nth(38)?.parse::<u32>().ok()
    };
    tasks.filter_map(policy).filter(|policy| *policy != 0).count()
}

#[test]
fn who_has_begun_has_no_more_priority_than_others() {
    let folder = Folder::new("priority");
    for syscalls in SYSCALLS.into_iter().filter(|syscalls| is_here(*syscalls)) {
        let file = folder.file("file", &vec![1; 1 << 20]);
        let job = job(mixed(file, syscalls), 600_000);
        let running = block::prepare(&job, &Cancel::default()).unwrap().arm(clock::monotonic());
        while running.read().operations < 100 {
            std::thread::yield_now();
        }
        // Other tests of this process have workers that begin at this moment: one look without any is enough.
        let hung = clock::monotonic().plus(Nanos(60_000 * MS));
        while raised() > 0 {
            assert!(clock::monotonic() < hung, "{syscalls:?}");
            std::thread::yield_now();
        }
        running.stop();
        assert!(running.join().failure.is_none(), "{syscalls:?}");
    }
}
