//! The kernel's own account of its types (BTF), which programs at typed tracepoints need.

use std::path::{Path, PathBuf};

use aya::Btf;

use crate::exact::refusal::Refusal;
use crate::sensor::SenseError;

fn path(sys: &Path) -> PathBuf {
    sys.join("kernel/btf/vmlinux")
}

/// Reads it.
///
/// # Errors
/// That the kernel has none.
pub(crate) fn read(sys: &Path) -> Result<Btf, Refusal> {
    let path = path(sys);
    Btf::parse_file(&path, aya::Endianness::default()).map_err(|error| {
        Refusal::Other(format!(
            "{}: {error}; programs at typed tracepoints need a kernel with type information (CONFIG_DEBUG_INFO_BTF)",
            path.display()
        ))
    })
}

/// Tells whether it is there, without a look into it.
///
/// # Errors
/// Those of the file.
pub(crate) fn look(sys: &Path) -> Result<(), SenseError> {
    let path = path(sys);
    match std::fs::metadata(&path) {
        Ok(_) => Ok(()),
        Err(error) => Err(SenseError::Read { path, error }),
    }
}
