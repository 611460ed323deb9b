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
mod wanted;

use std::io;
use std::path::Path;

use iodyno_load::Cancel;

use wanted::said;

pub use checked::mark;
pub(crate) use layout::{append_again, rest};
pub use stamp::{unit_content, Stamp, State, STAMP_BYTES, UNIT_BYTES};
pub use wanted::{Action, Checked, Kind, Ready, Refusal, Wanted};

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
