//! Targets whose blocks all carry checks (`iodyno_core::block_check`): known from the stamp of a file, from its last blocks on
//! a device, so that what an earlier load wrote is read and checked, and not written again.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use iodyno_core::block_check::{examine, UnitCheck};

use super::stamp::{self, Stamp};
use super::wanted::{Checked, Refusal};

/// Units of a device that are looked at, from the end. chosen: some damaged ones must not have all others written anew.
const LAST_UNITS: u64 = 64;

/// Whether a device carries the checks. It has no stamp; they are written from its begin to its end, so that a right one among
/// the last says that all were there, whatever has become of the others.
pub(super) fn found_on(path: &Path, wanted: &Checked) -> io::Result<bool> {
    let device = File::open(path)?;
    let units = wanted.length_bytes.checked_div(wanted.unit_bytes).unwrap_or(0);
    let mut held = vec![0; wanted.unit_bytes as usize];
    for unit in units.saturating_sub(LAST_UNITS)..units {
        let offset = wanted.offset_bytes + unit * wanted.unit_bytes;
        let expected = UnitCheck { offset, generation: 0, seed: wanted.seed, target: wanted.target };
        // One that cannot be read is for the load to tell.
        if device.read_exact_at(&mut held, offset).is_ok() && examine(&held, expected).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Notes in the stamp of a file that all units of a part carry checks now.
///
/// # Errors
/// It has no stamp, or the file system refuses.
pub fn mark(path: &Path, checked: &Checked) -> Result<(), Refusal> {
    let told = |error: io::Error| Refusal::of(&error, path);
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(told)?;
    let Some(found) = stamp::read(&file).map_err(told)? else {
        return Err(Refusal::new("has lost its stamp", path, "run it again: it is laid out anew"));
    };
    // First all blocks, then the word that they are there.
    file.sync_all()
        .and_then(|()| Stamp { pristine: false, checked: Some(*checked), ..found }.write(&file))
        .and_then(|()| file.sync_all())
        .map_err(told)
}
