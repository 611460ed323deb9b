//! Filesets as they are laid out, found again, repaired, refused and removed; rates; programs that cannot go on; programs
//! that somebody has made up.

use std::fs;
use std::os::unix::fs::symlink;

use crate::programs::{counted, files_in, fileset, flowop, on, process, program, run, thread, Scratch};
use iodyno_core::file_account::FileEnd;
use iodyno_core::file_program::{FileCall, FileFlowop, FileProgram, Fileset, FilesetKind};
use iodyno_core::file_variable::{Real, Value, ValueLaw, Variable};
use iodyno_core::message::ErrorCode;
use iodyno_storage::program as programs_of_files;
use proptest::prelude::*;

/// One stat, and done.
fn glance() -> Vec<FileFlowop> {
    vec![
        on(FileCall::StatFile, "set"),
        FileFlowop { value: Value::Fixed(1), ..flowop(FileCall::FinishOnCount) },
    ]
}

fn reused(set: Fileset) -> Fileset {
    Fileset { reuse: true, ..set }
}

#[test]
fn sizes_follow_their_law_and_only_a_share_exists() {
    let scratch = Scratch::new();
    let law = ValueLaw::Gamma { mean: Real(2_000.0), gamma: Real(1.5), least: Real(0.0) };
    let size =
        Variable { name: "size".to_owned(), law, least: None, greatest: None, round: None, seed: None };
    let set = Fileset { size_bytes: Value::of("size"), dir_width: 20, ..fileset("set", 2_000, 0, 80) };
    let laid = FileProgram { variables: vec![size], ..program(&scratch, vec![set], glance()) };
    let account = run(laid, 60_000).unwrap().account.filesets[0].clone();
    let files = files_in(&scratch.0);
    let bytes: u64 = files.iter().map(|(_, length)| length).sum();
    assert_eq!((files.len(), account.existing, account.bytes.0), (1_600, 1_600, bytes));
    let mean = bytes as f64 / 1_600.0;
    // Deviation 2000 / sqrt(1.5) = 1633: standard error 41; five of those.
    assert!((mean - 2_000.0).abs() < 205.0, "{mean}");
    assert!(account.directories > 50 && account.depth == 2, "{account:?}");
}

#[test]
fn a_directory_is_made_where_the_one_above_it_is_there() {
    let scratch = Scratch::new();
    let new = scratch.0.join("new");
    let inside = |directory: &std::path::Path| FileProgram {
        directory: directory.to_str().unwrap().to_owned(),
        ..program(&scratch, vec![fileset("set", 1, 0, 100)], glance())
    };
    run(inside(&new), 60_000).unwrap();
    assert!(new.join("set").is_dir());
    let error = run(inside(&scratch.0.join("mistyped/new")), 60_000).err().unwrap();
    assert!(error.what.contains("make the directory"), "{}", error.what);
}

#[test]
fn what_was_laid_out_is_used_again_repaired_or_made_anew() {
    let scratch = Scratch::new();
    let set = || reused(Fileset { dir_width: 5, ..fileset("set", 40, 3_000, 50) });
    let again = |set: Fileset| {
        run(program(&scratch, vec![set], glance()), 60_000).unwrap().account.filesets[0].clone()
    };
    let first = again(set());
    assert!(!first.reused);
    let before = files_in(&scratch.0);
    let second = again(set());
    assert_eq!((second.reused, second.repaired), (true, 0));
    // Trials of a campaign draw each their own numbers, and use one tree.
    let drawn = FileProgram { seed: 4711, ..program(&scratch, vec![set()], glance()) };
    assert!(run(drawn, 60_000).unwrap().account.filesets[0].reused);
    // One is longer, one shorter, one gone, as a program leaves them that was killed in its run.
    killed(&scratch);
    let path = |at: usize| scratch.0.join(&before[at].0);
    fs::write(path(0), vec![0; 5_000]).unwrap();
    fs::write(path(1), vec![0; 10]).unwrap();
    fs::remove_file(path(2)).unwrap();
    let third = again(set());
    assert_eq!((third.reused, third.repaired, files_in(&scratch.0)), (true, 3, before.clone()));
    let other = again(Fileset { entries: 41, ..set() });
    assert!(!other.reused);
    assert!(!again(Fileset { reuse: false, ..set() }).reused);
    assert_eq!(files_in(&scratch.0), before);
}

#[test]
fn a_layout_that_was_cut_short_is_made_anew() {
    let scratch = Scratch::new();
    run(program(&scratch, vec![reused(fileset("set", 10, 100, 100))], glance()), 60_000).unwrap();
    let marker = scratch.0.join("set/.iodyno.json");
    let text = fs::read_to_string(&marker).unwrap();
    assert!(text.contains("\"complete\":true"));
    // As a kill in the middle leaves it.
    killed(&scratch);
    let text = text.replace(",\"at_rest\":true", "");
    fs::write(&marker, text.replace("\"complete\":true", "\"complete\":false")).unwrap();
    fs::write(scratch.0.join("set/00000003"), b"half").unwrap();
    fs::remove_file(scratch.0.join("set/00000009")).unwrap();
    let set = vec![reused(fileset("set", 10, 100, 100))];
    assert!(!run(program(&scratch, set, glance()), 60_000).unwrap().account.filesets[0].reused);
    assert!(files_in(&scratch.0).iter().all(|(_, length)| *length == 100));
}

#[test]
fn what_is_somebody_elses_stays_and_links_lead_nowhere() {
    let (scratch, outside) = (Scratch::new(), Scratch::new());
    fs::write(outside.0.join("precious"), b"kept").unwrap();
    fs::create_dir(scratch.0.join("set")).unwrap();
    fs::write(scratch.0.join("set/mine"), b"kept").unwrap();
    let error = run(program(&scratch, vec![fileset("set", 2, 10, 100)], glance()), 1_000).err().unwrap();
    assert_eq!(error.code, ErrorCode::Target);
    assert!(error.what.contains("no file program has made"), "{error}");
    assert_eq!(files_in(&scratch.0), [("set/mine".to_owned(), 4)]);
    fs::remove_dir_all(scratch.0.join("set")).unwrap();
    for (link, path) in [("set", ""), ("above", "above")] {
        symlink(&outside.0, scratch.0.join(link)).unwrap();
        let set = Fileset { path: path.to_owned(), ..fileset("set", 2, 10, 100) };
        assert!(run(program(&scratch, vec![set], glance()), 1_000).is_err());
        fs::remove_file(scratch.0.join(link)).unwrap();
    }
    // A link put into a tree that is ours is neither followed nor removed, whatever its name.
    let set = || program(&scratch, vec![fileset("set", 2, 10, 100)], glance());
    run(set(), 1_000).unwrap();
    for name in ["set/link", "set/00000001"] {
        let _ = fs::remove_file(scratch.0.join(name));
        symlink(&outside.0, scratch.0.join(name)).unwrap();
        assert!(run(set(), 1_000).err().unwrap().what.contains("is not of this fileset"));
        fs::remove_file(scratch.0.join(name)).unwrap();
    }
    run(FileProgram { remove_after: true, ..set() }, 1_000).unwrap();
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0);
    assert_eq!(fs::read(outside.0.join("precious")).unwrap(), b"kept");
}

/// Everything below a directory, by its path there.
fn everything(at: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            all.extend(everything(&entry));
        }
        all.push(entry);
    }
    all.sort();
    all
}

#[test]
fn what_a_user_puts_into_a_fileset_is_named_before_anything_is_removed() {
    let scratch = Scratch::new();
    let set = || {
        let tree = Fileset { dir_width: 5, leaf_dirs: 3, ..fileset("tree", 40, 100, 50) };
        program(&scratch, vec![fileset("set", 3, 10, 100), tree], glance())
    };
    let put = |name: &str| {
        let path = scratch.0.join("tree").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"kept").unwrap();
    };
    // The last ones have the form of the fileset's own names, and numbers that it does not give.
    for (file, named) in [
        ("mine.txt", "mine.txt"),
        ("mydir/z", "mydir"),
        ("00000001/mine", "00000001/mine"),
        ("20240101", "20240101"),
        ("1", "1"),
        ("00000000", "00000000"),
    ] {
        run(set(), 1_000).unwrap();
        put(file);
        let before = everything(&scratch.0);
        let looked = programs_of_files::look(&set()).unwrap_err();
        let ran = run(set(), 1_000).err().unwrap();
        let removed = programs_of_files::remove(&set()).unwrap_err();
        for error in [looked, ran, removed] {
            assert!(error.what.contains(&format!("{named} in it is not of this fileset")), "{file}: {error}");
            assert!(error.advice.contains("move that away"), "{error}");
        }
        assert_eq!(everything(&scratch.0), before, "{file}");
        let at = scratch.0.join("tree").join(named);
        fs::remove_file(&at).or_else(|_| fs::remove_dir_all(&at)).unwrap();
    }
    programs_of_files::remove(&set()).unwrap();
    assert_eq!(everything(&scratch.0), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_fileset_that_is_used_again_leaves_what_else_lies_there() {
    let scratch = Scratch::new();
    let set = || program(&scratch, vec![reused(fileset("set", 3, 10, 100))], glance());
    run(set(), 1_000).unwrap();
    fs::write(scratch.0.join("set/mine.txt"), b"kept").unwrap();
    assert!(run(set(), 1_000).unwrap().account.filesets[0].reused);
    assert_eq!(fs::read(scratch.0.join("set/mine.txt")).unwrap(), b"kept");
}

/// A run of the program that was there ended with a kill: its marker does not say that it is at rest.
fn killed(scratch: &Scratch) {
    for name in ["set/.iodyno.json", ".one.iodyno.json"] {
        let path = scratch.0.join(name);
        if let Ok(text) = fs::read_to_string(&path) {
            assert!(text.contains(",\"at_rest\":true"), "{text}");
            fs::write(&path, text.replace(",\"at_rest\":true", "")).unwrap();
        }
    }
}

#[test]
fn a_file_that_was_changed_since_its_run_is_refused_and_one_that_a_killed_run_left_is_not() {
    let scratch = Scratch::new();
    let one = |reuse| Fileset { kind: FilesetKind::File, reuse, ..fileset("one", 1, 8_192, 100) };
    let both = |reuse| {
        let flowops = vec![
            FileFlowop { io_bytes: Some(Value::Fixed(4_096)), ..on(FileCall::Write, "one") },
            FileFlowop { io_bytes: Some(Value::Fixed(100)), ..on(FileCall::AppendFile, "set") },
            FileFlowop { value: Value::Fixed(4), ..flowop(FileCall::FinishOnCount) },
        ];
        program(&scratch, vec![one(reuse), Fileset { reuse, ..fileset("set", 3, 100, 100) }], flowops)
    };
    for reuse in [false, true] {
        for (name, left) in [("one", "it was changed"), ("set/00000002", "00000002 in it was changed")] {
            // What the program itself has written is its own.
            run(both(reuse), 60_000).unwrap();
            run(both(reuse), 60_000).unwrap();
            let path = scratch.0.join(name);
            // Later than the end of the run by the clock of the file system, whose step is a tick of the kernel.
            std::thread::sleep(std::time::Duration::from_millis(20));
            fs::write(&path, b"hello").unwrap();
            for error in [
                programs_of_files::look(&both(reuse)).unwrap_err(),
                run(both(reuse), 1_000).err().unwrap(),
                programs_of_files::remove(&both(reuse)).unwrap_err(),
            ] {
                assert!(error.what.contains(left), "{error}");
            }
            assert_eq!(fs::read(&path).unwrap(), b"hello");
            killed(&scratch);
            run(both(reuse), 60_000).unwrap();
            assert!(fs::metadata(&path).unwrap().len() >= 100);
        }
    }
    programs_of_files::remove(&both(true)).unwrap();
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0);
}

#[test]
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn what_is_mounted_in_a_fileset_is_never_gone_into() {
    let (scratch, outside) = (Scratch::new(), Scratch::new());
    let set = || program(&scratch, vec![Fileset { dir_width: 5, ..fileset("set", 40, 10, 100) }], glance());
    run(set(), 1_000).unwrap();
    fs::write(outside.0.join("00000001"), b"kept").unwrap();
    let mounted = |on: &str| {
        let on = scratch.0.join(on);
        let done = std::process::Command::new("mount").arg("--bind").arg(&outside.0).arg(&on).output();
        done.is_ok_and(|done| done.status.success()).then_some(on)
    };
    // A part of the same file system, on a name of the fileset's own.
    let Some(on) = mounted("set/00000001") else {
        eprintln!("skipped: nothing can be mounted here");
        return;
    };
    let before = files_in(&scratch.0);
    let errors = [run(set(), 1_000).err().unwrap(), programs_of_files::remove(&set()).unwrap_err()];
    let after = files_in(&scratch.0);
    assert!(std::process::Command::new("umount").arg(&on).status().unwrap().success());
    for error in errors {
        assert!(error.what.contains("something is mounted in it, at"), "{error}");
    }
    assert_eq!(before, after);
    assert_eq!(fs::read(outside.0.join("00000001")).unwrap(), b"kept");
    run(FileProgram { remove_after: true, ..set() }, 1_000).unwrap();
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0);
}

#[test]
fn more_than_there_is_room_for_is_refused_before_anything_is_written() {
    let scratch = Scratch::new();
    let error =
        run(program(&scratch, vec![fileset("set", 1_000, 1 << 50, 100)], glance()), 1_000).err().unwrap();
    assert_eq!(error.code, ErrorCode::Target);
    assert!(error.what.contains("nothing was"), "{error}");
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0);
    let missing = FileProgram {
        directory: format!("{}/no/deeper", scratch.text()),
        ..program(&scratch, vec![], glance())
    };
    let nowhere = FileProgram { filesets: vec![fileset("set", 1, 0, 100)], ..missing };
    assert!(run(nowhere, 1_000).err().unwrap().advice.contains("make the directory first"));
}

#[test]
fn a_look_tells_what_a_layout_would_refuse_and_touches_nothing() {
    let scratch = Scratch::new();
    let look = |set| iodyno_storage::program::look(&program(&scratch, vec![set], glance()));
    let listed = || fs::read_dir(&scratch.0).unwrap().count();
    look(fileset("set", 3, 4096, 100)).unwrap();
    assert!(look(fileset("set", 1_000, 1 << 50, 100)).unwrap_err().what.contains("nothing was"));
    assert_eq!(listed(), 0);
    // What an earlier job has left makes room for the next: it goes first.
    run(program(&scratch, vec![fileset("set", 3, 4096, 100)], glance()), 1_000).unwrap();
    look(fileset("set", 5, 4096, 100)).unwrap();
    assert_eq!(files_in(&scratch.0).len(), 3);
    let below = |name: &str| FileProgram {
        directory: format!("{}/{name}", scratch.text()),
        ..program(&scratch, vec![fileset("set", 1, 1, 100)], glance())
    };
    iodyno_storage::program::look(&below("new")).unwrap();
    let nowhere = iodyno_storage::program::look(&below("no/deeper")).unwrap_err();
    assert!(nowhere.advice.contains("make the directory first"), "{nowhere}");
    assert_eq!(listed(), 1);
    fs::create_dir_all(scratch.0.join("theirs/set/precious")).unwrap();
    let theirs = iodyno_storage::program::look(&below("theirs")).unwrap_err();
    assert!(theirs.what.contains("no file program has made"), "{theirs}");
}

#[test]
fn events_come_at_their_rate_without_a_burst() {
    let scratch = Scratch::new();
    let limited = |call| {
        let mut all = program(
            &scratch,
            vec![fileset("set", 50, 4_096, 100)],
            vec![on(FileCall::StatFile, "set"), on(FileCall::StatFile, "set"), flowop(call)],
        );
        all.events_per_s = Some(Value::Fixed(150));
        all.processes[0].threads[0].instances = 3;
        run(all, 400).unwrap()
    };
    // 60 events in 0.4 s, two stats for each, and those of each thread before its first. Never more; less where the
    // machine was busy, which is not looked at.
    let by_events = limited(FileCall::EventLimit);
    assert!(by_events.totals.operations <= 2 * 60 + 2 * 3 + 2, "{}", by_events.totals.operations);
    assert!(by_events.totals.operations > 6);
    let open = by_events.totals.open_loop.unwrap();
    assert!((59..=61).contains(&open.due), "{}", open.due);
    assert_eq!(open.lateness.count(), open.begun);
    let by_operations = limited(FileCall::OpsLimit);
    assert!(by_operations.totals.operations <= 60 + 2 * 3 + 2, "{}", by_operations.totals.operations);
}

#[test]
fn threads_that_all_wait_for_each_other_are_named() {
    let scratch = Scratch::new();
    let block = flowop(FileCall::Block);
    let wake = FileFlowop { target: Some("block".to_owned()), ..flowop(FileCall::Wakeup) };
    let stuck = FileProgram {
        processes: vec![process("left", vec![thread(vec![block, wake], 2)])],
        ..program(&scratch, vec![], vec![])
    };
    let error = run(stuck, 60_000).err().unwrap();
    assert_eq!(error.code, ErrorCode::Job);
    assert!(error.what.contains("can never go on"), "{error}");
    assert!(error.what.contains("left-1.thread-1 in block, left-1.thread-2 in block"), "{error}");
}

#[test]
fn semaphores_and_wake_ups_keep_threads_in_step() {
    let scratch = Scratch::new();
    let with = |call, target: &str| FileFlowop { target: Some(target.to_owned()), ..flowop(call) };
    let stat = |name: &str| FileFlowop { name: name.to_owned(), ..on(FileCall::StatFile, "set") };
    let post = FileFlowop { blocking: true, ..with(FileCall::SemPost, "semblock") };
    let take =
        FileFlowop { value: Value::Fixed(4), high_water: Value::Fixed(8), ..flowop(FileCall::SemBlock) };
    let end = |name: &str| FileFlowop { value: Value::Fixed(200), ..with(FileCall::FinishOnCount, name) };
    let program = FileProgram {
        processes: vec![
            process("giver", vec![thread(vec![stat("given"), post, end("given")], 1)]),
            process("taker", vec![thread(vec![take, stat("taken")], 1)]),
        ],
        ..program(&scratch, vec![fileset("set", 5, 0, 100)], vec![])
    };
    let finished = run(program, 60_000).unwrap();
    let (given, taken) = (counted(&finished, "given").0, counted(&finished, "taken").0);
    assert_eq!((given, finished.account.end), (200, FileEnd::Count));
    // Four posts for each; the poster may be 8 and 4 ahead, and one is in flight.
    assert!(given <= taken * 4 + 13 && taken * 4 <= given, "{given} {taken}");
}

fn any_call() -> impl Strategy<Value = FileCall> {
    use FileCall::*;
    prop::sample::select(vec![
        Read,
        Write,
        AppendFile,
        AppendFileRand,
        ReadWholeFile,
        WriteWholeFile,
        AioWrite,
        AioWait,
        OpenFile,
        CreateFile,
        CloseFile,
        DeleteFile,
        RenameFile,
        StatFile,
        MakeDir,
        RemoveDir,
        ListDir,
        Fsync,
        Fdatasync,
        FsyncSet,
        Hog,
        Delay,
        Block,
        Wakeup,
        SemBlock,
        SemPost,
        EventLimit,
        OpsLimit,
        IopsLimit,
        BwLimit,
        FinishOnCount,
        FinishOnBytes,
        Composite,
    ])
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![(0_u64..20_000).prop_map(Value::Fixed), Just(Value::of("v")), Just(Value::of("w"))]
}

fn any_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["set", "one", "..", "a/b", "", ".", "x\0y", "block", "semblock", "read"])
        .prop_map(str::to_owned)
}

prop_compose! {
    fn any_flowop()(
        call in any_call(), fileset in prop::option::of(any_name()), fd in prop::option::of(0_u32..4),
        srcfd in prop::option::weighted(0.2, 0_u32..4), open_next in any::<bool>(), random in any::<bool>(),
        direct in prop::bool::weighted(0.1), io in prop::option::weighted(0.9, any_value()),
        value in any_value(), blocking in any::<bool>(), target in prop::option::of(any_name()),
        working_set in prop::option::of(any_value()), index in prop::option::weighted(0.2, any_value())
    ) -> FileFlowop {
        let inner = if call == FileCall::Composite { vec![on(FileCall::StatFile, "set")] } else { vec![] };
        FileFlowop {
            fileset, fd, srcfd, open_next, random, direct, io_bytes: io, value, blocking, target, index,
            working_set_bytes: working_set, unit_ns: 1_000, flowops: inner, ..flowop(call)
        }
    }
}

proptest! {
    // chosen: few, as each is a run of 30 ms; the seeds differ from run to run of the tests.
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_program_holds_it_is_refused_or_runs_and_stays_in_its_directory(
        flowops in prop::collection::vec(any_flowop(), 1..8), names in (any_name(), any_name()), path in any_name(),
        threads in 1_u32..4, events in prop::option::of(0_u64..2_000), width in 0_u64..5, percent in 0_u32..101
    ) {
        let (scratch, inner) = (Scratch::new(), "target");
        fs::create_dir(scratch.0.join(inner)).unwrap();
        fs::write(scratch.0.join("precious"), b"kept").unwrap();
        let law = ValueLaw::Uniform { least: Real(0.0), greatest: Real(9_000.0) };
        let variable = Variable { name: "v".to_owned(), law, least: None, greatest: None, round: None, seed: None };
        let first = Fileset {
            path, dir_width: width, leaf_dirs: width, size_bytes: Value::of("v"), ..fileset("set", 12, 0, percent)
        };
        let second = Fileset { kind: FilesetKind::File, ..fileset(&names.0, 1, 100, 100) };
        let mut made = FileProgram {
            directory: scratch.0.join(inner).to_str().unwrap().to_owned(),
            variables: vec![variable],
            filesets: vec![first, second],
            processes: vec![process(&names.1, vec![thread(flowops, threads)])],
            remove_after: true,
            ..FileProgram::default()
        };
        made.events_per_s = events.map(Value::Fixed);
        let _ = run(made.clone(), 30);
        let text = serde_json::to_string(&made).unwrap();
        prop_assert_eq!(&serde_json::from_str::<FileProgram>(&text).unwrap(), &made);
        prop_assert_eq!(fs::read(scratch.0.join("precious")).unwrap(), b"kept");
        prop_assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 2);
        if made.check().is_ok() {
            programs_of_files::remove(&made).unwrap();
            prop_assert_eq!(files_in(&scratch.0.join(inner)), vec![]);
        }
    }
}
