//! To what the control groups of the agent hold each disk: the least of each limit, of the group and those above it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use iodyno_core::metric::{Metric, Value};

use crate::cgroup;
use crate::sensor::{gauge, put, Entry, Opened, Roots, SenseError, Sensor, Subject};

const FILES: &str = "io.max, blkio.throttle.* of the control group";
const LABEL: &str = "dev=sda,way=read";

const OPERATIONS: Metric = gauge(
    "cgroup.disk_operations_per_s",
    "operations_per_s",
    FILES,
    LABEL,
    "Operations that the group may do; none: no limit.",
);
const BYTES: Metric =
    gauge("cgroup.disk_bytes_per_s", "bytes_per_s", FILES, LABEL, "Bytes that the group may move.");

pub(crate) const ENTRY: Entry = Entry { name: "cgroup_disk", metrics: &[OPERATIONS, BYTES], open };

/// Key in `io.max`, file of version 1, metric, way.
const LIMITS: [(&str, &str, &Metric, &str); 4] = [
    ("riops", "blkio.throttle.read_iops_device", &OPERATIONS, "read"),
    ("wiops", "blkio.throttle.write_iops_device", &OPERATIONS, "write"),
    ("rbps", "blkio.throttle.read_bps_device", &BYTES, "read"),
    ("wbps", "blkio.throttle.write_bps_device", &BYTES, "write"),
];

/// Groups are looked up again each time: an agent may be moved to one, and a group's limits set, while it is ready.
struct CgroupDisk {
    roots: Roots,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    groups(roots)?;
    Ok(Box::new(CgroupDisk { roots: roots.clone() }))
}

fn groups(roots: &Roots) -> Result<Vec<PathBuf>, SenseError> {
    let found = [cgroup::directories(roots, "blkio"), cgroup::directories(roots, "io")].concat();
    if found.is_empty() {
        return Err(SenseError::Unavailable("no control group of the agent holds a disk".to_owned()));
    }
    Ok(found)
}

impl Sensor for CgroupDisk {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut least: BTreeMap<(usize, String), u64> = BTreeMap::new();
        for group in groups(&self.roots)? {
            for (which, disk, number) in limits_of(&group) {
                let limit = least.entry((which, disk)).or_insert(number);
                *limit = number.min(*limit);
            }
        }
        for ((which, disk), number) in least {
            let (_, _, metric, way) = LIMITS[which];
            let link = fs::read_link(self.roots.sys.join("dev/block").join(&disk)).ok();
            let name = link.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
            let name = name.unwrap_or(&disk).replace([',', '='], "_");
            put(out, metric, format!("dev={name},way={way}"), number);
        }
        Ok(None)
    }
}

/// The limits that a group sets itself: which of [`LIMITS`], of which disk, and how much.
fn limits_of(group: &Path) -> Vec<(usize, String, u64)> {
    let lines = |file: &str| fs::read_to_string(group.join(file)).unwrap_or_default();
    let mut found = Vec::new();
    for (which, (key, file, _, _)) in LIMITS.iter().enumerate() {
        for line in lines(file).lines() {
            let mut words = line.split_whitespace();
            if let (Some(disk), Some(Ok(number))) = (words.next(), words.next().map(str::parse)) {
                found.push((which, disk.to_owned(), number));
            }
        }
        for line in lines("io.max").lines() {
            let mut words = line.split_whitespace();
            let Some(disk) = words.next() else { continue };
            // `max`: no limit.
            let number = words.find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok());
            found.extend(number.map(|number| (which, disk.to_owned(), number)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_either_version_are_read() {
        let group = std::env::temp_dir().join(format!("iodyno-cgroup-disk-{}", std::process::id()));
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("io.max"), "8:16 rbps=max wbps=1000 riops=max wiops=120\n").unwrap();
        fs::write(group.join("blkio.throttle.read_iops_device"), "254:0 300\n8:16 400\n").unwrap();
        let found = limits_of(&group);
        fs::remove_dir_all(&group).unwrap();
        let of = |which, disk: &str, number| (which, disk.to_owned(), number);
        assert_eq!(found, [of(0, "254:0", 300), of(0, "8:16", 400), of(1, "8:16", 120), of(3, "8:16", 1000)]);
    }
}
