//! Limits of the process.

use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

/// Open files this process may have.
#[must_use]
pub fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The most open files that any process may be given, `fs.nr_open`.
fn most_descriptors() -> u64 {
    let written = std::fs::read_to_string("/proc/sys/fs/nr_open").unwrap_or_default();
    written.trim().parse().unwrap_or(u64::MAX)
}

/// What lets this process open `needed` files: the limit that stands in the way.
#[must_use]
pub fn advice(needed: u64) -> &'static str {
    if needed > most_descriptors() {
        "raise the sysctl fs.nr_open, and the hard limit of open files (ulimit -Hn)"
    } else {
        "raise the hard limit of open files (ulimit -Hn), which the agent does itself with CAP_SYS_RESOURCE; or use more hosts"
    }
}

/// Raises the number of files this process may open: the soft limit to the hard one, and where that is less
/// than `wanted` and the caller is privileged, both to `wanted` or what the system allows. Gives the limit that holds
/// afterwards, read back.
pub fn raise_descriptors(wanted: u64) -> u64 {
    let hard = getrlimit(Resource::Nofile).maximum;
    let set = |both| setrlimit(Resource::Nofile, Rlimit { current: both, maximum: both });
    if descriptors() < hard.unwrap_or(u64::MAX) {
        // Refused only where the system's own limit was lowered meanwhile; what is read back tells.
        let _ = set(hard);
    }
    if hard.is_some_and(|hard| hard < wanted) {
        // Refused without privilege; likewise.
        let _ = set(Some(wanted.min(most_descriptors()).max(hard.unwrap_or(0))));
    }
    descriptors()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_stands_in_the_way_is_named() {
        assert!(advice(u64::MAX).contains("fs.nr_open"));
        assert!(!advice(1).contains("fs.nr_open"));
    }

    #[test]
    fn raising_never_lowers() {
        let before = descriptors();
        let after = raise_descriptors(before);
        assert!(after >= before);
        assert_eq!(descriptors(), after);
    }
}
