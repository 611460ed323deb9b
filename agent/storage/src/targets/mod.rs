//! Targets before a load: what lies there, whether it may be used, and the working set laid out in it.
//!
//! ```text
//! Wanted ─▶ make_ready ─▶ Ready
//!    file: layout (stamped, used again)     device: looked at (users, content)
//! ```
//! Nothing but the named target is ever written, and nothing of somebody else's without his word.

pub(crate) mod below;
mod checked;
mod device;
mod layout;
pub mod signatures;
mod stamp;

use std::io;
use std::path::Path;

use iodyno_load::Cancel;
use iodyno_sys::errno;
use serde::{Deserialize, Serialize};

pub use checked::{mark, Checked};
pub(crate) use layout::{append_again, rest};
pub use stamp::{unit_content, Stamp, State, STAMP_BYTES, UNIT_BYTES};

/// What is done to a file that nobody needs any more.
const REMOVED: &str = "removed";

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
    fn new(what: impl Into<String>, place: &Path, advice: impl Into<String>) -> Self {
        Self { what: what.into(), place: place.display().to_string(), advice: advice.into(), stopped: false }
    }

    /// An error of the file system in words, of a working set that was to be laid out.
    fn of(error: &io::Error, place: &Path) -> Self {
        Self::of_doing(error, place, "laid out")
    }

    /// The same of whatever was to be done.
    fn of_doing(error: &io::Error, place: &Path, done: &str) -> Self {
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
fn said(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Looks at the target and lays its working set out. `progress` hears of bytes laid out, and of how many there are.
///
/// # Errors
/// Why it must not or cannot be used. What was begun and then stopped is removed.
pub fn make_ready(
    wanted: &Wanted,
    progress: &mut dyn FnMut(u64, u64),
    cancel: &Cancel,
) -> Result<Ready, Refusal> {
    let path = Path::new(&wanted.path);
    if wanted.kind == Kind::Device {
        let why = device::look(path, wanted)?;
        let kept = wanted.checks.as_ref().filter(|_| !wanted.destroy);
        let checked = kept.map(|checks| checked::found_on(path, checks)).transpose();
        let checked = checked.map_err(|error| Refusal::of(&error, path))?.unwrap_or(false);
        return Ok(Ready { checked, why, ..see(path, Kind::Device)? });
    }
    let (action, why) = if wanted.appends {
        layout::lay_empty(path, wanted.destroy)?
    } else {
        let size = wanted
            .size_bytes
            .ok_or_else(|| Refusal::new("needs a size", path, "say how many bytes of it are used"))?;
        layout::lay_out(path, size, wanted, progress, cancel)?
    };
    let stamp = stamp_of(path).map_err(|error| Refusal::of(&error, path))?;
    let held = stamp.and_then(|stamp| stamp.checked);
    let checked = wanted.checks.is_some_and(|checks| held.is_some_and(|held| held.holds(&checks)));
    Ok(Ready { action, why, checked, ..see(path, Kind::File)? })
}

/// A target as it is.
///
/// # Errors
/// It cannot be looked at.
pub fn see(path: &Path, kind: Kind) -> Result<Ready, Refusal> {
    let below = below::under(path).map_err(|error| {
        Refusal::new(format!("cannot be looked at: {}", said(&error)), path, "name a target that is there")
    })?;
    Ok(Ready {
        path: path.display().to_string(),
        kind,
        action: Action::None,
        why: String::new(),
        in_memory: below.in_memory(),
        device: below.device,
        file_system: below.file_system,
        checked: false,
    })
}

/// Removes a file that was laid out here; whether there was one.
///
/// # Errors
/// It is somebody else's, or the file system refuses.
pub fn remove(path: &Path) -> Result<bool, Refusal> {
    layout::remove(path)
}

/// The stamp of a file; `None`: it has none, and so is not of this program.
///
/// # Errors
/// What the kernel said.
pub fn stamp_of(path: &Path) -> io::Result<Option<Stamp>> {
    stamp::read(&std::fs::File::open(path)?)
}
