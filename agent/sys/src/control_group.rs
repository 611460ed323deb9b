//! The control groups that this process is in.

use std::fs;
use std::path::{Path, PathBuf};

/// Version of a hierarchy of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy for some controllers.
    One,
    /// The one hierarchy for all others.
    Two,
}

/// A hierarchy of control groups, from the point of view of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Its version.
    pub version: Version,
    /// Directories of the groups: the top first, the group of this process last. In a container the path may
    /// name groups that are not mounted; those are left out.
    pub groups: Vec<PathBuf>,
}

/// The hierarchies that have `controller` or, in version 2, may have it; `proc` and `sys` are where the trees
/// of those names are. Empty where none is mounted.
#[must_use]
pub fn hierarchies(proc: &Path, sys: &Path, controller: &str) -> Vec<Hierarchy> {
    let mount = mount(proc, sys);
    let memberships = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    let mut found = Vec::new();
    for line in memberships.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (version, top) = match controllers {
            "" if mount.join("unified").is_dir() => (Version::Two, mount.join("unified")),
            "" => (Version::Two, mount.clone()),
            _ if controllers.split(',').any(|name| name == controller) => {
                (Version::One, mount.join(controllers))
            }
            _ => continue,
        };
        let mut groups = vec![top.clone()];
        let mut group = top;
        for name in path.split('/').filter(|name| !name.is_empty() && *name != "..") {
            group.push(name);
            groups.push(group.clone());
        }
        groups.retain(|group| group.is_dir());
        if !groups.is_empty() {
            found.push(Hierarchy { version, groups });
        }
    }
    found
}

/// Where the hierarchies are mounted. `ip netns exec` puts a fresh `/sys` over the one that has them; the parent
/// of this process, which is then outside, still sees them.
fn mount(proc: &Path, sys: &Path) -> PathBuf {
    let own = sys.join("fs/cgroup");
    let parent = proc.join(std::os::unix::process::parent_id().to_string()).join("root/sys/fs/cgroup");
    let filled = |place: &Path| fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_some());
    if !filled(&own) && filled(&parent) {
        parent
    } else {
        own
    }
}
