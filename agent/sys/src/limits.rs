//! Limits of the process.

use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

/// Open files this process may have.
#[must_use]
pub fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the number of files this process may open: the soft limit to the hard one, and where that is less
/// than `wanted` and the caller is privileged, both to `wanted`. Gives the limit that holds afterwards, read
/// back.
pub fn raise_descriptors(wanted: u64) -> u64 {
    let hard = getrlimit(Resource::Nofile).maximum;
    let set = |both| setrlimit(Resource::Nofile, Rlimit { current: both, maximum: both });
    if descriptors() < hard.unwrap_or(u64::MAX) {
        // Refused only where the system's own limit was lowered meanwhile; what is read back tells.
        let _ = set(hard);
    }
    if hard.is_some_and(|hard| hard < wanted) {
        // Refused without privilege or above fs.nr_open; likewise.
        let _ = set(Some(wanted));
    }
    descriptors()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raising_never_lowers() {
        let before = descriptors();
        let after = raise_descriptors(before);
        assert!(after >= before);
        assert_eq!(descriptors(), after);
    }
}
