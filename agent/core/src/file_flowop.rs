//! The steps of a thread of a file program.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file_variable::Value;

/// What a flowop does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileCall {
    /// Reads one piece, at the next place or a random one.
    Read,
    /// Writes one piece, likewise.
    Write,
    /// Writes one piece at the file's end.
    AppendFile,
    /// Likewise, of a length from 1 to `io_bytes`, each as likely.
    AppendFileRand,
    /// Reads a file from begin to end.
    ReadWholeFile,
    /// Writes a file from its begin, as long as the fileset says that it is.
    WriteWholeFile,
    /// Begins to write one piece.
    AioWrite,
    /// Waits for every write that was begun.
    AioWait,
    /// Opens a file that exists.
    OpenFile,
    /// Makes and opens a file that does not exist.
    CreateFile,
    /// Closes a file.
    CloseFile,
    /// Removes a file that exists.
    DeleteFile,
    /// Gives a file that exists the name of one that does not.
    RenameFile,
    /// Asks for the attributes of a file.
    StatFile,
    /// Makes a leaf directory that does not exist.
    MakeDir,
    /// Removes a leaf directory that exists.
    RemoveDir,
    /// Lists a directory.
    ListDir,
    /// `fsync` of an open file.
    Fsync,
    /// `fdatasync` of an open file.
    Fdatasync,
    /// `fsync` of every file of the fileset that this thread has open.
    FsyncSet,
    /// Computes: `value` loops, each a store.
    Hog,
    /// Pauses for `value` times `unit_ns`.
    Delay,
    /// Waits for a `wakeup`. One that came since the last `block` counts.
    Block,
    /// Ends the wait of every `block` named `target`.
    Wakeup,
    /// Takes `value` from its semaphore, as soon as there is as much.
    SemBlock,
    /// Gives `value` to the semaphore of every `semblock` named `target`.
    SemPost,
    /// Takes one event.
    EventLimit,
    /// Takes an event for every flowop done since the last time.
    OpsLimit,
    /// Takes an event for every read or write done since the last time.
    IopsLimit,
    /// Takes an event for every MiB moved since the last time.
    BwLimit,
    /// Ends the thread when its process has done `value` flowops.
    FinishOnCount,
    /// Ends the thread when its process has moved `value` bytes.
    FinishOnBytes,
    /// Does its own `flowops`.
    Composite,
}

/// One step of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileFlowop {
    /// Its name.
    pub name: String,
    /// What it does.
    pub call: FileCall,
    /// The fileset that its file comes from.
    #[serde(default)]
    pub fileset: Option<String>,
    /// Number of the open file; absent: the one of the fileset that this thread has open for flowops without a number.
    #[serde(default)]
    pub fd: Option<u32>,
    /// Number of an open file as long as which is written (`writewholefile`).
    #[serde(default)]
    pub srcfd: Option<u32>,
    /// Whether each time the next file of the fileset is used, each with a descriptor that stays open.
    #[serde(default)]
    pub open_next: bool,
    /// Picks the file by its number.
    #[serde(default)]
    pub index: Option<Value>,
    /// Length of one call.
    #[serde(default)]
    pub io_bytes: Option<Value>,
    /// How often it is done at a time.
    #[serde(default = "one")]
    pub iterations: Value,
    /// The part of the file, from its begin, that is used; absent or 0: all of it.
    #[serde(default)]
    pub working_set_bytes: Option<Value>,
    /// Whether places are random, multiples of the length.
    #[serde(default)]
    pub random: bool,
    /// Whether the file is opened with `O_DIRECT`.
    #[serde(default)]
    pub direct: bool,
    /// Whether the file is opened with `O_DSYNC`.
    #[serde(default)]
    pub dsync: bool,
    /// Whether the kernel is told that reads will be random (`POSIX_FADV_RANDOM`).
    #[serde(default)]
    pub no_readahead: bool,
    /// Name of the flowop that this one is about.
    #[serde(default)]
    pub target: Option<String>,
    /// See the call.
    #[serde(default = "one")]
    pub value: Value,
    /// Unit of a delay, in nanoseconds.
    #[serde(default = "second")]
    pub unit_ns: u64,
    /// How much a semaphore holds before a blocking `sempost` waits.
    #[serde(default = "one")]
    pub high_water: Value,
    /// Whether a `sempost` waits.
    #[serde(default)]
    pub blocking: bool,
    /// What a composite does.
    #[serde(default)]
    pub flowops: Vec<FileFlowop>,
}

fn one() -> Value {
    Value::Fixed(1)
}

fn second() -> u64 {
    1_000_000_000
}

impl FileCall {
    /// Its name in a program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FileCall::Read => "read",
            FileCall::Write => "write",
            FileCall::AppendFile => "appendfile",
            FileCall::AppendFileRand => "appendfilerand",
            FileCall::ReadWholeFile => "readwholefile",
            FileCall::WriteWholeFile => "writewholefile",
            FileCall::AioWrite => "aiowrite",
            FileCall::AioWait => "aiowait",
            FileCall::OpenFile => "openfile",
            FileCall::CreateFile => "createfile",
            FileCall::CloseFile => "closefile",
            FileCall::DeleteFile => "deletefile",
            FileCall::RenameFile => "renamefile",
            FileCall::StatFile => "statfile",
            FileCall::MakeDir => "makedir",
            FileCall::RemoveDir => "removedir",
            FileCall::ListDir => "listdir",
            FileCall::Fsync => "fsync",
            FileCall::Fdatasync => "fdatasync",
            FileCall::FsyncSet => "fsyncset",
            FileCall::Hog => "hog",
            FileCall::Delay => "delay",
            FileCall::Block => "block",
            FileCall::Wakeup => "wakeup",
            FileCall::SemBlock => "semblock",
            FileCall::SemPost => "sempost",
            FileCall::EventLimit => "eventlimit",
            FileCall::OpsLimit => "opslimit",
            FileCall::IopsLimit => "iopslimit",
            FileCall::BwLimit => "bwlimit",
            FileCall::FinishOnCount => "finishoncount",
            FileCall::FinishOnBytes => "finishonbytes",
            FileCall::Composite => "composite",
        }
    }

    /// Whether it moves the data of a file.
    #[must_use]
    pub fn moves_data(self) -> bool {
        use FileCall::{AioWrite, AppendFile, AppendFileRand, Read, ReadWholeFile, Write, WriteWholeFile};
        matches!(self, Read | Write | AppendFile | AppendFileRand | ReadWholeFile | WriteWholeFile | AioWrite)
    }

    /// Whether it asks the file system for something: what operations of a trial are counted from.
    #[must_use]
    pub fn is_operation(self) -> bool {
        use FileCall::{
            AioWait, CloseFile, CreateFile, DeleteFile, Fdatasync, Fsync, FsyncSet, ListDir, MakeDir,
            OpenFile, RemoveDir, RenameFile, StatFile,
        };
        self.moves_data()
            || matches!(
                self,
                AioWait
                    | OpenFile
                    | CreateFile
                    | CloseFile
                    | DeleteFile
                    | RenameFile
                    | StatFile
                    | MakeDir
                    | RemoveDir
                    | ListDir
                    | Fsync
                    | Fdatasync
                    | FsyncSet
            )
    }

    /// Whether it cannot do without a length.
    pub(crate) fn needs_length(self) -> bool {
        use FileCall::{AioWrite, AppendFile, AppendFileRand, Read, Write};
        matches!(self, Read | Write | AppendFile | AppendFileRand | AioWrite)
    }

    /// Whether it cannot do without a fileset.
    pub(crate) fn needs_fileset(self) -> bool {
        use FileCall::{CreateFile, ListDir, MakeDir, OpenFile, RemoveDir, RenameFile};
        matches!(self, OpenFile | CreateFile | RenameFile | MakeDir | RemoveDir | ListDir)
    }

    /// Whether it cannot do without a target.
    pub(crate) fn needs_target(self) -> bool {
        matches!(self, FileCall::Wakeup | FileCall::SemPost)
    }
}

impl FileFlowop {
    /// A flowop with this name and call, and everything else as where nothing is said.
    #[must_use]
    pub fn new(name: &str, call: FileCall) -> Self {
        FileFlowop {
            name: name.to_owned(),
            call,
            fileset: None,
            fd: None,
            srcfd: None,
            open_next: false,
            index: None,
            io_bytes: None,
            iterations: one(),
            working_set_bytes: None,
            random: false,
            direct: false,
            dsync: false,
            no_readahead: false,
            target: None,
            value: one(),
            unit_ns: second(),
            high_water: one(),
            blocking: false,
            flowops: Vec::new(),
        }
    }

    /// Every number of it that may vary.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Value> {
        let some = [&self.index, &self.io_bytes, &self.working_set_bytes];
        [&self.iterations, &self.value, &self.high_water]
            .into_iter()
            .chain(some.into_iter().filter_map(Option::as_ref))
    }
}
