//! What a load wants of a target, what became of that, and why it cannot be had.

use std::io;
use std::path::Path;

use iodyno_sys::errno;
use serde::{Deserialize, Serialize};

/// What is done to a file that nobody needs any more.
pub(super) const REMOVED: &str = "removed";

/// A target, with the most that a load asks of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Where it is.
    pub path: String,
    /// What it is asked to be.
    pub kind: Kind,
    /// Length of the working set; a device may go without.
    pub size_bytes: Option<u64>,
    /// Whether the load writes, so that its content is not known from now on.
    pub writes: bool,
    /// Whether the load appends: it begins with an empty file.
    pub appends: bool,
    /// Whether it may be overwritten, whosever it is.
    pub destroy: bool,
    /// Where all loads that write carry checks: what is wanted of those, so that an earlier run's are known.
    #[serde(default)]
    pub checks: Option<Checked>,
}

/// What a target is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A regular file.
    #[default]
    File,
    /// A block device.
    Device,
}

/// What became of a working set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Nothing was to be done: a device, or a target that was only looked at.
    None,
    /// It was laid out.
    Made,
    /// It was there, as it was laid out.
    Reused,
    /// It was there, and was laid out anew.
    Rebuilt,
    /// It is somebody else's file, and is read as it is.
    Foreign,
}

/// A target that may be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ready {
    /// Where it is.
    pub path: String,
    /// What it is.
    pub kind: Kind,
    /// What became of its working set.
    pub action: Action,
    /// Why, where that is not plain.
    pub why: String,
    /// The block device that it is, or lies on; `None`: there is none.
    pub device: Option<String>,
    /// The file system that a file lies on.
    pub file_system: Option<String>,
    /// Whether it is nothing but memory.
    pub in_memory: bool,
    /// Whether all of its blocks carry the wanted checks already.
    pub checked: bool,
}

/// Why a target cannot be had, and what to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// What is wrong.
    pub what: String,
    /// With what.
    #[serde(rename = "where")]
    pub place: String,
    /// What to try.
    pub advice: String,
    /// Whether it was only stopped.
    pub stopped: bool,
}

impl Refusal {
    pub(super) fn new(what: impl Into<String>, place: &Path, advice: impl Into<String>) -> Self {
        Self { what: what.into(), place: place.display().to_string(), advice: advice.into(), stopped: false }
    }

    /// An error of the file system in words, of a working set that was to be laid out.
    pub(super) fn of(error: &io::Error, place: &Path) -> Self {
        Self::of_doing(error, place, "laid out")
    }

    /// The same of whatever was to be done.
    pub(super) fn of_doing(error: &io::Error, place: &Path, done: &str) -> Self {
        let number = error.raw_os_error().unwrap_or(0);
        let what = match number {
            errno::ENOENT => "the folder of the target is not there".to_owned(),
            errno::ENOSPC => "the disk is full".to_owned(),
            _ => format!("cannot be {done}: {}", said(error)),
        };
        let advice = match number {
            errno::ENOENT => "name a file in a folder that is there",
            errno::EACCES | errno::EPERM => "name a file that this account may write",
            errno::EROFS if done == REMOVED => "mount its file system for writing first",
            errno::EROFS => "name a file on a file system that can be written",
            errno::ENOSPC | errno::EDQUOT => "free space, or take a smaller working set",
            errno::EIO => "look at the log of the kernel: the disk may be broken",
            _ => "look at the file and its folder",
        };
        Self::new(what, place, advice)
    }
}

/// The kernel's words for an error, without the number that Rust puts behind them.
pub(super) fn said(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// A part of a target of which each unit carries its check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checked {
    /// Where the part begins.
    pub offset_bytes: u64,
    /// How long it is.
    pub length_bytes: u64,
    /// Length of a unit.
    pub unit_bytes: u64,
    /// Seed of the jobs that wrote it.
    pub seed: u64,
    /// Index of the target in those jobs.
    pub target: u32,
}

impl Checked {
    /// Whether all of the wanted part carries checks of that kind.
    pub(super) fn holds(&self, wanted: &Checked) -> bool {
        let end = |part: &Checked| part.offset_bytes.saturating_add(part.length_bytes);
        (self.unit_bytes, self.seed, self.target) == (wanted.unit_bytes, wanted.seed, wanted.target)
            && self.offset_bytes <= wanted.offset_bytes
            && end(wanted) <= end(self)
            && self.unit_bytes > 0
            && (wanted.offset_bytes - self.offset_bytes) % self.unit_bytes == 0
    }
}
