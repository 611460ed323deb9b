//! Programs of file operations: what each thread does to the files of a directory, flowop by flowop, as Filebench's
//! workload model has it.
//!
//! A *fileset* is a tree of files below the program's directory; which of them exist changes while the program runs. A
//! *thread* does its *flowops* in order, over and over. Where a flowop names no file, one is picked. A *process* only
//! groups threads here: all are threads of one agent, with one table of open files each.
//!
//! Numbers may be *variables*, drawn anew at each use ([`crate::file_variable`]). What a program did is told in
//! [`crate::file_account`].

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::file_flowop::{FileCall, FileFlowop};
use crate::file_variable::{Real, Value, Variable};
use crate::limits::JobError;
use crate::units::Bytes;

/// Most files of a program. chosen: some 24 bytes each in memory.
pub const MAX_FILES: u64 = 50_000_000;
/// Most threads of a program. chosen: what this many stacks and buffers need fits into a few GB.
pub const MAX_THREADS: u64 = 16_384;
/// Most flowops of a program, those within composites too. chosen: each has histograms, some 80 KB.
pub const MAX_FLOWOPS: usize = 4_096;
/// Largest file descriptor number that a flowop may name. chosen: eight times what Filebench has.
pub const MAX_DESCRIPTOR: u32 = 1_023;
/// Longest transfer of one call.
pub const MAX_IO_BYTES: u64 = 1 << 30;
/// Composites may lie this deep in each other. chosen: far more than anybody reads.
pub const MAX_DEPTH: usize = 16;
/// Length of one call of a whole-file flowop that does not say it. chosen: what the shipped personalities use.
pub const WHOLE_FILE_IO_BYTES: u64 = 1 << 20;

/// A program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileProgram {
    /// Directory on this host, absolute; it exists, and nothing outside of it is ever touched.
    pub directory: String,
    /// Seed of everything that is drawn.
    #[serde(default)]
    pub seed: u64,
    /// What numbers may refer to.
    #[serde(default)]
    pub variables: Vec<Variable>,
    /// Trees of files.
    pub filesets: Vec<Fileset>,
    /// Groups of threads.
    pub processes: Vec<Process>,
    /// Events of the generator that `eventlimit`, `opslimit`, `iopslimit` and `bwlimit` take; absent or 0: they do not
    /// limit.
    #[serde(default)]
    pub events_per_s: Option<Value>,
    /// When the program is over.
    #[serde(default)]
    pub quit: Quit,
    /// Whether the filesets are removed when the job is over.
    #[serde(default)]
    pub remove_after: bool,
}

/// When a program is over; with the job's windows in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quit {
    /// With the windows. A thread that has nothing left to do, or is done by its count, ends the program for all.
    #[default]
    Timeout,
    /// When every thread has nothing left to do, or is done by its count.
    AllDone,
    /// When the first thread is.
    FirstDone,
}

/// What a fileset is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FilesetKind {
    /// A tree of files, `path/name/...`.
    #[default]
    Fileset,
    /// One file, `path/name`.
    File,
}

/// A tree of files, or one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fileset {
    /// Its name: one component of a path.
    pub name: String,
    /// A tree or one file.
    #[serde(default)]
    pub kind: FilesetKind,
    /// Where it lies below the program's directory: `a/b`, or nothing.
    #[serde(default)]
    pub path: String,
    /// Number of files, those included that do not exist at first.
    #[serde(default = "one_64")]
    pub entries: u64,
    /// Size of each, drawn for each.
    #[serde(default)]
    pub size_bytes: Value,
    /// Mean number of entries of a directory; 0: all files in one.
    #[serde(default)]
    pub dir_width: u64,
    /// Shape of the gamma law of directories' widths; 0: all alike.
    #[serde(default = "gamma")]
    pub dir_gamma: Real,
    /// Depth of the directories that hold files, drawn for each; absent: what entries and width ask for.
    #[serde(default)]
    pub dir_depth: Option<Value>,
    /// Number of directories without files, for `makedir` and `removedir`.
    #[serde(default)]
    pub leaf_dirs: u64,
    /// How many of the files, and of the leaf directories, exist at first, in percent.
    #[serde(default)]
    pub prealloc_percent: u32,
    /// Whether they are made by several threads.
    #[serde(default = "yes")]
    pub parallel: bool,
    /// Whether what an earlier job made is used again, after a check; otherwise it is made anew.
    #[serde(default)]
    pub reuse: bool,
    /// Whether files are opened for reading only.
    #[serde(default)]
    pub read_only: bool,
    /// Whether files are opened for writing only.
    #[serde(default)]
    pub write_only: bool,
    /// Whether the check on reuse is left out.
    #[serde(default)]
    pub trust_tree: bool,
}

/// A group of threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// How many there are.
    #[serde(default = "one_32")]
    pub instances: u32,
    /// Nice value of its threads, -20 to 19.
    #[serde(default)]
    pub nice: i32,
    /// Its threads.
    pub threads: Vec<ProgramThread>,
}

/// Threads that do the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramThread {
    /// Their name.
    pub name: String,
    /// How many there are in each instance of the process.
    #[serde(default = "one_32")]
    pub instances: u32,
    /// Memory that data is moved to and from, at random places in it.
    #[serde(default)]
    pub memory_bytes: Bytes,
    /// Best-effort I/O priority, 0 (first) to 7; absent: as the agent has it.
    #[serde(default)]
    pub io_priority: Option<u32>,
    /// Done in this order, over and over.
    pub flowops: Vec<FileFlowop>,
}

fn one_64() -> u64 {
    1
}

fn one_32() -> u32 {
    1
}

fn gamma() -> Real {
    Real(1.5)
}

fn yes() -> bool {
    true
}

impl Default for Fileset {
    /// A tree of one empty file that does not exist.
    fn default() -> Self {
        Fileset {
            name: String::new(),
            kind: FilesetKind::Fileset,
            path: String::new(),
            entries: 1,
            size_bytes: Value::Fixed(0),
            dir_width: 0,
            dir_gamma: gamma(),
            dir_depth: None,
            leaf_dirs: 0,
            prealloc_percent: 0,
            parallel: true,
            reuse: false,
            read_only: false,
            write_only: false,
            trust_tree: false,
        }
    }
}

/// A flowop of a program, in the order of the program, composites before what they hold.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// Index of its process.
    pub process: usize,
    /// Index of its thread there.
    pub thread: usize,
    /// How many composites it lies in.
    pub depth: usize,
    /// The flowop.
    pub flowop: &'a FileFlowop,
}

fn refuse<T>(key: &'static str, found: impl ToString, allowed: impl ToString) -> Result<T, JobError> {
    Err(JobError { key, found: found.to_string(), allowed: allowed.to_string() })
}

/// Whether it may be a component of a path: not empty, no `/`, no NUL, neither `.` nor `..`, 200 bytes at most.
fn is_component(name: &str) -> bool {
    !name.is_empty() && name.len() <= 200 && !name.contains(['/', '\0']) && name != "." && name != ".."
}

impl FileProgram {
    /// Every flowop.
    #[must_use]
    pub fn placed(&self) -> Vec<Placed<'_>> {
        fn walk<'a>(into: &mut Vec<Placed<'a>>, flowops: &'a [FileFlowop], at: (usize, usize, usize)) {
            for flowop in flowops {
                let (process, thread, depth) = at;
                into.push(Placed { process, thread, depth, flowop });
                if depth < MAX_DEPTH {
                    walk(into, &flowop.flowops, (process, thread, depth + 1));
                }
            }
        }
        let mut placed = Vec::new();
        for (process, of_process) in self.processes.iter().enumerate() {
            for (thread, of_thread) in of_process.threads.iter().enumerate() {
                walk(&mut placed, &of_thread.flowops, (process, thread, 0));
            }
        }
        placed
    }

    /// Number of threads.
    #[must_use]
    pub fn threads(&self) -> u64 {
        let of = |process: &Process| {
            process.threads.iter().map(|thread| u64::from(thread.instances)).sum::<u64>()
                * u64::from(process.instances)
        };
        self.processes.iter().map(of).fold(0, u64::saturating_add)
    }

    /// The name of each of [`FileProgram::placed`] in records: its own where that is the only one, else with those of
    /// process and thread, and a number where that is not enough.
    #[must_use]
    pub fn class_names(&self) -> Vec<String> {
        let placed = self.placed();
        let own: Vec<&str> = placed.iter().map(|at| at.flowop.name.as_str()).collect();
        let mut counts = std::collections::BTreeMap::new();
        own.iter().for_each(|name| *counts.entry(*name).or_insert(0) += 1);
        let mut taken = BTreeSet::new();
        let mut names = Vec::with_capacity(placed.len());
        for at in &placed {
            let process = &self.processes[at.process];
            let thread = &process.threads[at.thread];
            let base = if counts[at.flowop.name.as_str()] > 1 {
                format!("{}.{}.{}", process.name, thread.name, at.flowop.name)
            } else {
                at.flowop.name.clone()
            };
            let mut name = base.clone();
            let mut number = 2;
            while !taken.insert(name.clone()) {
                name = format!("{base} {number}");
                number += 1;
            }
            names.push(name);
        }
        names
    }

    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first key that holds something that is not allowed.
    pub fn check(&self) -> Result<(), JobError> {
        if !self.directory.starts_with('/') || self.directory.contains('\0') || self.directory.len() > 3_000 {
            return refuse("files.directory", &self.directory, "an absolute path");
        }
        let mut names = BTreeSet::new();
        for variable in &self.variables {
            if !names.insert(variable.name.as_str()) {
                return refuse("files.variables", format!("{} twice", variable.name), "each name once");
            }
            if let Err((found, allowed)) = variable.check() {
                return refuse("files.variables", format!("{}: {found}", variable.name), allowed);
            }
        }
        let known = |value: &Value| value.variable().is_none_or(|name| names.contains(name));
        let unknown = |value: &Value| format!("the variable {}", value.variable().unwrap_or_default());
        if let Some(rate) = self.events_per_s.as_ref().filter(|rate| !known(rate)) {
            return refuse("files.events_per_s", unknown(rate), "a variable of the program");
        }
        self.check_filesets(&known)?;
        self.check_threads()?;
        let placed = self.placed();
        if placed.len() > MAX_FLOWOPS {
            return refuse(
                "files.processes",
                format!("{} flowops", placed.len()),
                format!("{MAX_FLOWOPS} at most"),
            );
        }
        for at in &placed {
            self.check_flowop(at, &placed, &known)?;
        }
        Ok(())
    }

    fn check_filesets(&self, known: &impl Fn(&Value) -> bool) -> Result<(), JobError> {
        let mut places: Vec<(String, &str)> = Vec::new();
        let mut names = BTreeSet::new();
        let mut files = 0_u64;
        for fileset in &self.filesets {
            let say = |what: &str| format!("{}: {what}", fileset.name);
            if !is_component(&fileset.name) {
                return refuse(
                    "files.filesets.name",
                    format!("{:?}", fileset.name),
                    "one component of a path",
                );
            }
            if fileset.path.len() > 1_000
                || !(fileset.path.is_empty() || fileset.path.split('/').all(is_component))
            {
                let allowed = "names with / between them, below the program's directory";
                return refuse("files.filesets.path", format!("{:?}", fileset.path), allowed);
            }
            if !names.insert(fileset.name.as_str()) {
                return refuse("files.filesets.name", format!("{} twice", fileset.name), "each name once");
            }
            let place = format!("{}/{}", fileset.path, fileset.name);
            let place = place.trim_start_matches('/').to_owned();
            let within = |one: &str, other: &str| one == other || one.starts_with(&format!("{other}/"));
            if let Some((_, other)) = places.iter().find(|(at, _)| within(at, &place) || within(&place, at)) {
                return refuse(
                    "files.filesets.path",
                    say(&format!("lies in the place of {other}")),
                    "places apart",
                );
            }
            places.push((place, &fileset.name));
            let of_file =
                fileset.kind == FilesetKind::File && (fileset.entries != 1 || fileset.leaf_dirs > 0);
            if fileset.entries == 0 && fileset.leaf_dirs == 0 || of_file {
                return refuse(
                    "files.filesets.entries",
                    say(&fileset.entries.to_string()),
                    "1 or more; 1 of a file",
                );
            }
            if fileset.prealloc_percent > 100 {
                return refuse("files.filesets.prealloc_percent", fileset.prealloc_percent, "0 to 100");
            }
            if !(0.0..=1e6).contains(&fileset.dir_gamma.0) {
                return refuse("files.filesets.dir_gamma", fileset.dir_gamma.0, "0 or more");
            }
            if fileset.read_only && fileset.write_only {
                return refuse("files.filesets", say("read_only and write_only"), "one of them");
            }
            let values = [Some(&fileset.size_bytes), fileset.dir_depth.as_ref()];
            if let Some(value) = values.into_iter().flatten().find(|value| !known(value)) {
                let found = say(value.variable().unwrap_or_default());
                return refuse("files.filesets", found, "variables of the program");
            }
            files = files.saturating_add(fileset.entries).saturating_add(fileset.leaf_dirs);
        }
        if files > MAX_FILES {
            return refuse("files.filesets.entries", files, format!("{MAX_FILES} at most in all"));
        }
        Ok(())
    }

    fn check_threads(&self) -> Result<(), JobError> {
        if !(1..=MAX_THREADS).contains(&self.threads()) {
            return refuse(
                "files.processes",
                format!("{} threads", self.threads()),
                format!("1 to {MAX_THREADS}"),
            );
        }
        for process in &self.processes {
            if !(-20..=19).contains(&process.nice) {
                return refuse("files.processes.nice", process.nice, "-20 to 19");
            }
            for thread in &process.threads {
                if thread.io_priority.is_some_and(|priority| priority > 7) {
                    return refuse(
                        "files.processes.threads.io_priority",
                        thread.io_priority.unwrap_or_default(),
                        "0 to 7",
                    );
                }
                if thread.flowops.is_empty() {
                    return refuse("files.processes.threads.flowops", &thread.name, "at least one flowop");
                }
            }
        }
        Ok(())
    }

    fn check_flowop(
        &self,
        at: &Placed<'_>,
        all: &[Placed<'_>],
        known: &impl Fn(&Value) -> bool,
    ) -> Result<(), JobError> {
        let flowop = at.flowop;
        let say = |what: &str| format!("{} ({}): {what}", flowop.name, flowop.call.name());
        if let Some(value) = flowop.values().find(|value| !known(value)) {
            let found = say(&format!("the variable {}", value.variable().unwrap_or_default()));
            return refuse("flowop", found, "variables of the program");
        }
        let fileset = match &flowop.fileset {
            None => None,
            Some(name) => match self.filesets.iter().find(|fileset| fileset.name == *name) {
                None => return refuse("flowop.fileset", say(name), "a fileset of the program"),
                found => found,
            },
        };
        if flowop.call.needs_fileset() && fileset.is_none() {
            return refuse("flowop.fileset", say("nothing"), "a fileset");
        }
        if flowop.open_next && flowop.fd.is_none() && fileset.is_none() {
            return refuse("flowop.open_next", say("no fileset"), "the fileset whose files are used in turn");
        }
        if [flowop.fd, flowop.srcfd].into_iter().flatten().any(|fd| fd > MAX_DESCRIPTOR) {
            return refuse("flowop.fd", say("a number too large"), format!("0 to {MAX_DESCRIPTOR}"));
        }
        match (&flowop.io_bytes, flowop.call.needs_length()) {
            (None, true) => return refuse("flowop.io_bytes", say("nothing"), "a length"),
            (Some(Value::Fixed(bytes)), true) if !(1..=MAX_IO_BYTES).contains(bytes) => {
                return refuse("flowop.io_bytes", say(&bytes.to_string()), format!("1 to {MAX_IO_BYTES}"));
            }
            (Some(Value::Fixed(bytes)), false) if *bytes > MAX_IO_BYTES => {
                return refuse("flowop.io_bytes", say(&bytes.to_string()), format!("{MAX_IO_BYTES} at most"));
            }
            _ => {}
        }
        match (flowop.call == FileCall::Composite, flowop.flowops.is_empty()) {
            (true, true) => return refuse("flowop.flowops", say("nothing"), "what the composite does"),
            (false, false) => return refuse("flowop.flowops", say("some"), "nothing but for a composite"),
            _ => {}
        }
        if at.depth >= MAX_DEPTH {
            return refuse(
                "flowop.flowops",
                say("too deep"),
                format!("{MAX_DEPTH} composites in each other at most"),
            );
        }
        match &flowop.target {
            None if flowop.call.needs_target() => refuse("flowop.target", say("nothing"), "a flowop's name"),
            Some(target) => {
                let fits = |other: &Placed<'_>| {
                    other.flowop.name == *target
                        && match flowop.call {
                            FileCall::Wakeup => other.flowop.call == FileCall::Block,
                            FileCall::SemPost => other.flowop.call == FileCall::SemBlock,
                            _ => true,
                        }
                };
                if all.iter().any(fits) {
                    return Ok(());
                }
                let kind = match flowop.call {
                    FileCall::Wakeup => "block",
                    FileCall::SemPost => "semblock",
                    _ => "flowop",
                };
                refuse("flowop.target", say(target), format!("the name of a {kind} of the program"))
            }
            None => Ok(()),
        }
    }
}
