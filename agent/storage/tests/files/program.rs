//! What each flowop does to real files, and how programs end.

use std::fs;

use crate::programs::{counted, files_in, fileset, flowop, on, process, program, run, thread, Scratch};
use iodyno_core::file_account::FileEnd;
use iodyno_core::file_program::{FileCall, FileFlowop, FileProgram, Fileset, FilesetKind, Quit};
use iodyno_core::file_variable::Value;

fn fd(number: u32, flowop: FileFlowop) -> FileFlowop {
    FileFlowop { fd: Some(number), ..flowop }
}

fn io(bytes: u64, flowop: FileFlowop) -> FileFlowop {
    FileFlowop { io_bytes: Some(Value::Fixed(bytes)), ..flowop }
}

fn times(count: u64, flowop: FileFlowop) -> FileFlowop {
    FileFlowop { iterations: Value::Fixed(count), ..flowop }
}

fn named(name: &str, flowop: FileFlowop) -> FileFlowop {
    FileFlowop { name: name.to_owned(), ..flowop }
}

/// Ends a thread after one pass.
fn once() -> FileFlowop {
    FileFlowop { value: Value::Fixed(0), ..flowop(FileCall::FinishOnCount) }
}

#[test]
fn files_are_made_written_copied_and_read() {
    let scratch = Scratch::new();
    let flowops = vec![
        fd(1, on(FileCall::CreateFile, "set")),
        fd(1, io(4096, flowop(FileCall::WriteWholeFile))),
        fd(1, flowop(FileCall::Fsync)),
        fd(1, flowop(FileCall::Fdatasync)),
        on(FileCall::FsyncSet, "set"),
        fd(1, flowop(FileCall::CloseFile)),
        fd(1, on(FileCall::OpenFile, "old")),
        fd(2, on(FileCall::CreateFile, "copy")),
        fd(1, flowop(FileCall::ReadWholeFile)),
        FileFlowop {
            srcfd: Some(1),
            ..fd(2, io(1 << 20, named("copied", flowop(FileCall::WriteWholeFile))))
        },
        fd(1, named("close 1", flowop(FileCall::CloseFile))),
        fd(2, named("close 2", flowop(FileCall::CloseFile))),
        once(),
    ];
    let sets = vec![fileset("set", 3, 10_000, 0), fileset("old", 1, 54_321, 100), fileset("copy", 1, 7, 0)];
    let finished = run(program(&scratch, sets, flowops), 10_000).unwrap();
    assert_eq!((finished.account.end, finished.account.first_error.clone()), (FileEnd::Count, None));
    let expected = [("copy/00000001", 54_321), ("old/00000001", 54_321), ("set/00000001", 10_000)];
    assert_eq!(files_in(&scratch.0), expected.map(|(name, bytes)| (name.to_owned(), bytes)));
    // 12 flowops that ask the file system for something; the end is none.
    assert_eq!((finished.totals.operations, finished.totals.bytes), (12, 10_000 + 2 * 54_321));
    assert!(fs::read(scratch.0.join("copy/00000001")).unwrap().iter().any(|byte| *byte != 0));
}

#[test]
fn an_end_is_counted_with_what_was_done_before_it() {
    let scratch = Scratch::new();
    let end = |name: &str, value| {
        named(name, FileFlowop { value: Value::Fixed(value), ..flowop(FileCall::FinishOnCount) })
    };
    let flowops = vec![on(FileCall::StatFile, "set"), end("end", 8)];
    let finished = run(program(&scratch, vec![fileset("set", 1, 0, 100)], flowops), 10_000).unwrap();
    assert_eq!((counted(&finished, "statfile"), counted(&finished, "end")), ((8, 0), (8, 0)));

    // A file that is open is not removed: nothing is done, and the end after it is none of something.
    let scratch = Scratch::new();
    let flowops = vec![
        fd(1, on(FileCall::OpenFile, "set")),
        end("opened", 100),
        on(FileCall::DeleteFile, "set"),
        end("not removed", 100),
        fd(1, flowop(FileCall::CloseFile)),
        end("closed", 20),
    ];
    let finished = run(program(&scratch, vec![fileset("set", 1, 0, 100)], flowops), 10_000).unwrap();
    let each = ["openfile", "opened", "deletefile", "not removed", "closefile", "closed"];
    assert_eq!(each.map(|class| counted(&finished, class).0), [10, 10, 0, 0, 10, 10]);
}

#[test]
fn reads_in_order_end_at_the_end_of_the_file_and_begin_again_after_an_empty_one() {
    let scratch = Scratch::new();
    let flowops = vec![fd(1, io(4096, times(7, on(FileCall::Read, "set")))), once()];
    let finished = run(program(&scratch, vec![fileset("set", 1, 10_000, 100)], flowops), 10_000).unwrap();
    // 4096, 4096, 1808 and 0 bytes, and three more of the next round: as many calls as Filebench makes.
    assert_eq!((finished.totals.operations, finished.totals.bytes), (7, 2 * 10_000));
}

#[test]
fn writes_in_order_make_a_file_longer_whatever_its_size() {
    let scratch = Scratch::new();
    let write =
        FileFlowop { working_set_bytes: Some(Value::Fixed(8192)), ..times(7, on(FileCall::Write, "set")) };
    let flowops = vec![fd(1, io(4096, write)), once()];
    run(program(&scratch, vec![fileset("set", 1, 10_000, 100)], flowops), 10_000).unwrap();
    assert_eq!(files_in(&scratch.0), [("set/00000001".to_owned(), 7 * 4096)]);
}

#[test]
fn all_threads_take_turns_through_the_files() {
    let scratch = Scratch::new();
    let flowops = vec![
        fd(1, on(FileCall::OpenFile, "set")),
        fd(1, io(1, flowop(FileCall::AppendFile))),
        fd(1, flowop(FileCall::CloseFile)),
        FileFlowop { value: Value::Fixed(4 * 20), ..named("end", flowop(FileCall::FinishOnCount)) },
    ];
    let threads = vec![thread(flowops, 4)];
    let asked = FileProgram {
        directory: scratch.text(),
        filesets: vec![fileset("set", 80, 10, 100)],
        processes: vec![process("process", threads)],
        ..FileProgram::default()
    };
    run(asked, 10_000).unwrap();
    let lengths = files_in(&scratch.0).into_iter().map(|(_, bytes)| bytes);
    // Each file once before any has a second turn, whoever took it; threads at work at the end had one more each at most.
    let appended: Vec<u64> = lengths.map(|bytes| bytes - 10).collect();
    assert!(appended.iter().max().unwrap() - appended.iter().min().unwrap() <= 1, "{appended:?}");
}

#[test]
fn appends_make_a_file_longer_and_random_ones_by_less() {
    let scratch = Scratch::new();
    let flowops = vec![
        times(10, io(1_000, on(FileCall::AppendFile, "set"))),
        times(50, io(100, on(FileCall::AppendFileRand, "other"))),
        once(),
    ];
    let sets = vec![fileset("set", 1, 500, 100), fileset("other", 1, 0, 100)];
    let finished = run(program(&scratch, sets, flowops), 10_000).unwrap();
    assert_eq!(fs::metadata(scratch.0.join("set/00000001")).unwrap().len(), 10_500);
    let length = fs::metadata(scratch.0.join("other/00000001")).unwrap().len();
    assert_eq!(length, finished.totals.bytes - 10_000);
    // Mean 50.5, deviation 28.9 each: five standard errors of 50.
    assert!(length.abs_diff(2_525) < 1_022, "{length}");
}

#[test]
fn random_places_are_multiples_within_the_working_set_and_all_as_likely() {
    let scratch = Scratch::new();
    let write = FileFlowop {
        random: true,
        working_set_bytes: Some(Value::Fixed(16 * 512)),
        ..io(512, on(FileCall::Write, "set"))
    };
    let flowops = vec![times(400, write), once()];
    run(program(&scratch, vec![fileset("set", 1, 0, 100)], flowops), 10_000).unwrap();
    let bytes = fs::read(scratch.0.join("set/00000001")).unwrap();
    assert_eq!(bytes.len(), 16 * 512);
    // 400 draws of 16 places: one is missed with a chance of 16 * (15/16)^400 = 1e-10.
    assert!(bytes.chunks(512).all(|block| block.iter().any(|byte| *byte != 0)));
}

#[test]
fn files_come_and_go_and_none_is_left_in_between() {
    let scratch = Scratch::new();
    let flowops = vec![
        on(FileCall::DeleteFile, "set"),
        fd(1, on(FileCall::CreateFile, "set")),
        fd(1, flowop(FileCall::CloseFile)),
        on(FileCall::StatFile, "set"),
        on(FileCall::RenameFile, "set"),
        on(FileCall::ListDir, "set"),
    ];
    let set = Fileset { dir_width: 4, ..fileset("set", 60, 0, 50) };
    let mut all = program(&scratch, vec![set], flowops);
    all.processes[0].threads[0].instances = 4;
    let finished = run(all, 200).unwrap();
    assert_eq!(finished.account.first_error, None);
    assert_eq!(finished.account.end, FileEnd::Windows);
    for call in ["deletefile", "createfile", "statfile", "renamefile", "listdir"] {
        assert!(counted(&finished, call).0 > 100, "{call}");
    }
    let (made, removed) = (counted(&finished, "createfile").0, counted(&finished, "deletefile").0);
    assert_eq!(files_in(&scratch.0).len() as u64, 30 + made - removed);
}

#[test]
fn leaf_directories_are_made_and_removed_until_there_is_none() {
    let scratch = Scratch::new();
    let set = Fileset { leaf_dirs: 25, dir_width: 5, entries: 0, ..fileset("set", 0, 0, 0) };
    let made = run(program(&scratch, vec![set.clone()], vec![on(FileCall::MakeDir, "set")]), 10_000).unwrap();
    assert_eq!((counted(&made, "makedir"), made.account.end), ((25, 0), FileEnd::NoFile));
    let full = Fileset { prealloc_percent: 100, ..set };
    let removed = run(program(&scratch, vec![full], vec![on(FileCall::RemoveDir, "set")]), 10_000).unwrap();
    assert_eq!((counted(&removed, "removedir"), removed.account.end), ((25, 0), FileEnd::NoFile));
    assert_eq!(removed.account.filesets[0].leaf_directories, 25);
}

#[test]
fn files_in_turn_have_a_descriptor_each() {
    let scratch = Scratch::new();
    let write = FileFlowop { open_next: true, ..io(100, on(FileCall::Write, "set")) };
    let flowops = vec![times(15, write), once()];
    run(program(&scratch, vec![fileset("set", 5, 1_000, 100)], flowops), 10_000).unwrap();
    // Three each; they would be longer than 300 only where one had got another's.
    assert!(files_in(&scratch.0).iter().all(|(_, length)| *length == 1_000));
    let scratch = Scratch::new();
    let write = FileFlowop { open_next: true, ..io(100, on(FileCall::AppendFile, "set")) };
    run(program(&scratch, vec![fileset("set", 5, 0, 100)], vec![times(15, write), once()]), 10_000).unwrap();
    assert!(files_in(&scratch.0).iter().all(|(_, length)| *length == 300));
}

#[test]
fn begun_writes_are_done_when_they_were_waited_for() {
    let scratch = Scratch::new();
    let flowops =
        vec![times(40, io(4_096, on(FileCall::AioWrite, "set"))), flowop(FileCall::AioWait), once()];
    let finished = run(program(&scratch, vec![fileset("set", 1, 40 * 4_096, 100)], flowops), 10_000).unwrap();
    assert_eq!((counted(&finished, "aiowrite"), counted(&finished, "aiowait")), ((40, 0), (1, 0)));
    assert_eq!(finished.totals.bytes, 40 * 4_096);
    assert!(finished.account.notes.iter().any(|note| note.contains("aiowrite")));
}

#[test]
fn a_program_ends_with_its_first_thread_or_with_its_last() {
    // Where the first one ends it, the last one would take three seconds: the first has time to begin beside others.
    for (quit, end, more, removed) in [
        (Quit::Timeout, FileEnd::NoFile, 300, 3..=200),
        (Quit::FirstDone, FileEnd::NoFile, 300, 3..=200),
        (Quit::AllDone, FileEnd::AllDone, 10, 13..=13),
    ] {
        let mut times = Vec::new();
        // The next second would be waited for each time, a CPU only at one time or another.
        for _ in 0..3 {
            let scratch = Scratch::new();
            let pause = FileFlowop { unit_ns: 10_000_000, ..flowop(FileCall::Delay) };
            let fast = thread(vec![on(FileCall::DeleteFile, "few")], 1);
            let slow = thread(vec![on(FileCall::DeleteFile, "more"), pause], 1);
            let program = FileProgram {
                quit,
                processes: vec![process("fast", vec![fast]), process("slow", vec![slow])],
                ..program(&scratch, vec![fileset("few", 3, 0, 100), fileset("more", more, 0, 100)], vec![])
            };
            let finished = run(program, 30_000).unwrap();
            assert_eq!(finished.account.end, end, "{quit:?}");
            assert!(removed.contains(&finished.totals.operations), "{quit:?} {}", finished.totals.operations);
            times.push(finished.account.elapsed_ns.0);
        }
        // To the last flowop, and not to the next second.
        assert!(times.iter().any(|each| *each < 900_000_000), "{quit:?} {times:?}");
    }
}

#[test]
fn a_count_is_that_of_all_threads_of_a_process() {
    let scratch = Scratch::new();
    let count = FileFlowop {
        value: Value::Fixed(1_000),
        target: Some("statfile".to_owned()),
        ..flowop(FileCall::FinishOnCount)
    };
    let mut all = program(
        &scratch,
        vec![fileset("set", 10, 0, 100)],
        vec![on(FileCall::StatFile, "set"), on(FileCall::ListDir, "set"), count],
    );
    all.processes[0].threads[0].instances = 4;
    let finished = run(all, 30_000).unwrap();
    let stats = counted(&finished, "statfile").0;
    // Each thread may have one in flight when the last one is counted.
    assert!((1_000..=1_003).contains(&stats), "{stats}");
    assert_eq!(finished.account.end, FileEnd::Count);
    assert!(finished.account.ended_by.unwrap().contains("finishoncount"));
}

#[test]
fn bytes_end_a_program_too() {
    let scratch = Scratch::new();
    let end = FileFlowop { value: Value::Fixed(1 << 20), ..flowop(FileCall::FinishOnBytes) };
    let flowops = vec![io(65_536, on(FileCall::Read, "set")), end];
    let finished = run(program(&scratch, vec![fileset("set", 1, 1 << 19, 100)], flowops), 30_000).unwrap();
    // Twice eight reads, and one that finds the end of the file.
    assert_eq!((finished.totals.bytes, finished.totals.operations), (1 << 20, 17));
}

#[test]
fn composites_count_their_passes_and_repeat_what_they_hold() {
    let scratch = Scratch::new();
    let inner = FileFlowop {
        iterations: Value::Fixed(3),
        flowops: vec![times(2, on(FileCall::StatFile, "set")), on(FileCall::ListDir, "set")],
        ..named("inner", flowop(FileCall::Composite))
    };
    let outer = FileFlowop { flowops: vec![inner], ..named("outer", flowop(FileCall::Composite)) };
    let finished =
        run(program(&scratch, vec![fileset("set", 4, 0, 100)], vec![times(2, outer), once()]), 10_000);
    let finished = finished.unwrap();
    let found = ["outer", "inner", "statfile", "listdir"].map(|name| counted(&finished, name).0);
    assert_eq!(found, [2, 6, 12, 6]);
    assert_eq!(finished.totals.operations, 18);
}

#[test]
fn one_file_lies_where_it_is_named() {
    let scratch = Scratch::new();
    let file = Fileset {
        kind: FilesetKind::File,
        path: "a/b".to_owned(),
        size_bytes: Value::Fixed(5_000),
        prealloc_percent: 100,
        name: "large file".to_owned(),
        ..Fileset::default()
    };
    let flowops = vec![
        on(FileCall::ReadWholeFile, "large file"),
        on(FileCall::StatFile, "large file"),
        flowop(FileCall::CloseFile),
        on(FileCall::DeleteFile, "large file"),
    ];
    let finished = run(program(&scratch, vec![file], flowops), 10_000).unwrap();
    assert_eq!((finished.totals.bytes, finished.totals.operations), (5_000, 4));
    assert_eq!(files_in(&scratch.0), []);
}

#[test]
fn what_fails_is_counted_and_told_once() {
    let scratch = Scratch::new();
    let flowops = vec![
        fd(1, on(FileCall::OpenFile, "set")),
        fd(1, named("again", on(FileCall::OpenFile, "set"))),
        fd(2, flowop(FileCall::CloseFile)),
        fd(1, named("close", flowop(FileCall::CloseFile))),
        once(),
    ];
    let finished = run(program(&scratch, vec![fileset("set", 2, 0, 100)], flowops), 10_000).unwrap();
    assert_eq!((counted(&finished, "again"), counted(&finished, "closefile")), ((0, 1), (0, 1)));
    assert_eq!(
        finished.account.first_error.unwrap(),
        "process-1.thread-1, flowop again (openfile): a file is open under its number; it must be closed first"
    );
    assert_eq!(finished.totals.operations, 2);
}

#[test]
fn a_number_stands_for_its_file_also_after_it_was_closed() {
    let scratch = Scratch::new();
    let flowops = vec![
        fd(1, on(FileCall::CreateFile, "set")),
        fd(1, flowop(FileCall::CloseFile)),
        fd(2, named("second", on(FileCall::CreateFile, "set"))),
        FileFlowop { srcfd: Some(1), ..fd(2, flowop(FileCall::WriteWholeFile)) },
        fd(1, flowop(FileCall::DeleteFile)),
        once(),
    ];
    let finished = run(program(&scratch, vec![fileset("set", 2, 700, 0)], flowops), 10_000).unwrap();
    assert_eq!(finished.account.first_error, None);
    assert_eq!(files_in(&scratch.0), [("set/00000002".to_owned(), 700)]);
}

#[test]
fn a_file_that_others_have_open_is_not_removed() {
    let scratch = Scratch::new();
    let flowops = vec![
        fd(1, on(FileCall::OpenFile, "set")),
        times(20, on(FileCall::DeleteFile, "set")),
        fd(1, named("own", flowop(FileCall::DeleteFile))),
        fd(1, flowop(FileCall::CloseFile)),
        once(),
    ];
    let finished = run(program(&scratch, vec![fileset("set", 1, 0, 100)], flowops), 10_000).unwrap();
    assert_eq!((counted(&finished, "deletefile"), counted(&finished, "own")), ((0, 0), (1, 0)));
    assert_eq!(files_in(&scratch.0), []);
}
