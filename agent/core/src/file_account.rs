//! What a file program did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file_program::FileCall;
use crate::units::{Bytes, Nanos};

/// How a program ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileEnd {
    /// With the job's windows.
    #[default]
    Windows,
    /// A thread was done by its count or bytes.
    Count,
    /// A thread had no file left that it could take.
    NoFile,
    /// Every thread was done.
    AllDone,
    /// Somebody stopped it.
    Stopped,
}

/// What a job's file program did, from start to end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileAccount {
    /// How it ended.
    pub end: FileEnd,
    /// Thread and flowop that ended it before its windows, where one did.
    #[serde(default)]
    pub ended_by: Option<String>,
    /// From the start to the end of the last flowop.
    pub elapsed_ns: Nanos,
    /// Processes of the program; all of them are threads of the one agent.
    pub processes: u32,
    /// Its threads.
    pub threads: u32,
    /// Threads that ended before the program did.
    pub threads_done: u32,
    /// Each flowop.
    pub flowops: Vec<FlowopAccount>,
    /// The first error of all.
    #[serde(default)]
    pub first_error: Option<String>,
    /// Each fileset as it was laid out.
    pub filesets: Vec<FilesetAccount>,
    /// What was asked for and is done in another way, or not, and why.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What a flowop did, in all threads that have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowopAccount {
    /// Its name in records.
    pub class: String,
    /// Name of its process.
    pub process: String,
    /// Name of its thread.
    pub thread: String,
    /// Its own name.
    pub name: String,
    /// What it does.
    pub call: FileCall,
    /// How often it was done.
    pub operations: u64,
    /// How often it failed.
    pub errors: u64,
    /// Bytes that it moved.
    pub bytes: Bytes,
    /// Shortest time.
    #[serde(default)]
    pub least_ns: Option<Nanos>,
    /// Longest time.
    #[serde(default)]
    pub greatest_ns: Option<Nanos>,
    /// Sum of the times.
    pub total_ns: Nanos,
    /// Why it failed first.
    #[serde(default)]
    pub first_error: Option<String>,
}

/// A fileset as it was laid out before the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilesetAccount {
    /// Its name.
    pub name: String,
    /// Files, those that do not exist included.
    pub entries: u64,
    /// Files that existed at the start.
    pub existing: u64,
    /// Their bytes.
    pub bytes: Bytes,
    /// Directories, leaf directories not included.
    pub directories: u64,
    /// Leaf directories that existed at the start.
    pub leaf_directories: u64,
    /// Depth of the deepest directory below the fileset's.
    pub depth: u32,
    /// Whether what an earlier job made was used.
    pub reused: bool,
    /// Files that had to be made, cut, lengthened or removed so that it could.
    pub repaired: u64,
    /// How long this took.
    pub layout_ns: Nanos,
}
