//! What the tests of file programs have in common: a directory, programs, runs.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use iodyno_core::file_program::{FileCall, FileFlowop, FileProgram, Fileset, Process, ProgramThread};
use iodyno_core::file_variable::Value;
use iodyno_core::job::Job;
use iodyno_core::phase::Windows;
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{Cancel, LoadError};
use iodyno_storage::program::{self, Finished};

/// A directory that is gone when dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        // Memory where there is some: laying out ends with a write-back of the whole file system.
        let memory = PathBuf::from("/dev/shm");
        let home = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let path = home.join(format!("iodyno-program-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    pub fn text(&self) -> String {
        self.0.to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn fileset(name: &str, entries: u64, size: u64, prealloc_percent: u32) -> Fileset {
    Fileset {
        name: name.to_owned(),
        entries,
        size_bytes: Value::Fixed(size),
        prealloc_percent,
        ..Fileset::default()
    }
}

pub fn flowop(call: FileCall) -> FileFlowop {
    FileFlowop::new(call.name(), call)
}

/// On files of a fileset.
pub fn on(call: FileCall, fileset: &str) -> FileFlowop {
    FileFlowop { fileset: Some(fileset.to_owned()), ..flowop(call) }
}

pub fn thread(flowops: Vec<FileFlowop>, instances: u32) -> ProgramThread {
    ProgramThread { name: "thread".to_owned(), instances, memory_bytes: Bytes(0), io_priority: None, flowops }
}

pub fn process(name: &str, threads: Vec<ProgramThread>) -> Process {
    Process { name: name.to_owned(), instances: 1, nice: 0, threads }
}

/// A program with one thread.
pub fn program(scratch: &Scratch, filesets: Vec<Fileset>, flowops: Vec<FileFlowop>) -> FileProgram {
    FileProgram {
        directory: scratch.text(),
        filesets,
        processes: vec![process("process", vec![thread(flowops, 1)])],
        ..FileProgram::default()
    }
}

pub fn job(program: FileProgram, milliseconds: u64) -> Job<FileProgram> {
    Job {
        token: "0".repeat(32),
        load: program,
        windows: Windows {
            warm_up_ns: Nanos(0),
            measured_ns: Nanos(milliseconds * 1_000_000),
            drain_ns: Nanos(0),
            interval_ns: Nanos(1_000_000_000),
        },
        ..Job::default()
    }
}

/// Carries a program out for so long at most.
pub fn run(program: FileProgram, milliseconds: u64) -> Result<Finished, LoadError> {
    let job = job(program, milliseconds);
    job.load.check()?;
    let prepared = program::prepare(&job, &Cancel::default())?;
    let running = prepared.arm(iodyno_sys::clock::monotonic().plus(Nanos(5_000_000)));
    let finished = running.join();
    match finished.failure.clone() {
        Some(failure) => Err(failure),
        None => Ok(finished),
    }
}

/// Operations and errors of a flowop by its class.
#[allow(dead_code, reason = "not every test file asks")]
pub fn counted(finished: &Finished, class: &str) -> (u64, u64) {
    let flowop = finished.account.flowops.iter().find(|flowop| flowop.class == class).unwrap();
    (flowop.operations, flowop.errors)
}

/// Every file below a directory, with its length, by its path there.
#[allow(dead_code, reason = "not every test file asks")]
pub fn files_in(directory: &std::path::Path) -> Vec<(String, u64)> {
    fn walk(at: &std::path::Path, root: &std::path::Path, into: &mut Vec<(String, u64)>) {
        for entry in fs::read_dir(at).unwrap() {
            let entry = entry.unwrap();
            let status = entry.path().symlink_metadata().unwrap();
            if status.is_dir() {
                walk(&entry.path(), root, into);
            } else if !entry.file_name().to_string_lossy().contains(".iodyno") {
                into.push((entry.path().strip_prefix(root).unwrap().display().to_string(), status.len()));
            }
        }
    }
    let mut all = Vec::new();
    walk(directory, directory, &mut all);
    all.sort();
    all
}
