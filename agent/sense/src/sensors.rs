//! The list of sensors.

use iodyno_core::message::Capability;
use iodyno_core::metric::Metric;

use crate::facts;
use crate::sensor::{Entry, Roots, SenseError, Subject};

mod block_times;
mod cgroup_cpu;
mod cgroup_disk;
mod context_switches;
mod cpu_exact;
mod cpu_times;
mod cycles;
mod disks;
mod file_systems;
mod interrupts;
mod memory;
mod net_devices;
mod nfs_slots;
#[cfg(not(has_bpf))]
mod no_programs;
mod numa;
mod pressure;
mod process;
mod qdisc;
mod reclaim;
mod roles;
mod softirqs;
mod softnet;
mod syscall_times;
mod tcp_info;
mod tcp_ip;
mod threads;
mod waits;
mod writeback;

/// Every sensor, in the order in which they are read.
///
/// Those whose growth is divided by the load's come first, so that they are read closest to when the load
/// was counted.
pub(crate) static SENSORS: &[Entry] = &[
    cpu_exact::ENTRY,
    cpu_times::ENTRY,
    cycles::ENTRY,
    threads::ENTRY,
    process::ENTRY,
    net_devices::ENTRY,
    tcp_info::ENTRY,
    tcp_ip::ENTRY,
    softnet::ENTRY,
    softirqs::ENTRY,
    interrupts::ENTRY,
    context_switches::ENTRY,
    memory::ENTRY,
    numa::ENTRY,
    cgroup_cpu::ENTRY,
    qdisc::ENTRY,
    pressure::ENTRY,
    reclaim::ENTRY,
    writeback::ENTRY,
    disks::ENTRY,
    cgroup_disk::ENTRY,
    nfs_slots::ENTRY,
    file_systems::NFS_OPERATIONS,
    file_systems::NFSD_OPERATIONS,
    file_systems::ZFS_CACHE,
    file_systems::CEPH_REQUESTS,
    block_times::ENTRY,
    syscall_times::ENTRY,
    roles::ENTRY,
    waits::ENTRY,
];

/// Those that have something to say of loads on files and devices only; of another load they are read when they are named.
pub(crate) const OF_STORAGE: [&str; 8] = [
    block_times::ENTRY.name,
    cgroup_disk::ENTRY.name,
    nfs_slots::ENTRY.name,
    waits::ENTRY.name,
    file_systems::NFS_OPERATIONS.name,
    file_systems::NFSD_OPERATIONS.name,
    file_systems::ZFS_CACHE.name,
    file_systems::CEPH_REQUESTS.name,
];

/// Those that are read only where they are named, whatever the load is on: they cost calls of every process.
pub(crate) const NAMED: [&str; 1] = [syscall_times::ENTRY.name];

/// Those that ask for each connection or thread by itself. Where there are thousands, these need not be read each time.
pub(crate) const OF_EACH: [&str; 3] = [process::ENTRY.name, tcp_info::ENTRY.name, threads::ENTRY.name];

/// Every sensor with its metrics, for the reference.
#[must_use]
pub fn catalogue() -> Vec<(&'static str, &'static [Metric])> {
    SENSORS.iter().map(|entry| (entry.name, entry.metrics)).collect()
}

/// Which sensors this host has (`sensor.NAME`), how cycles can be counted (`cycles`), and how CPU time is had
/// (`cpu_accounting`).
///
/// A sensor is taken to be available when it opens and gives a first reading.
#[must_use]
pub fn available(roots: &Roots) -> Vec<Capability> {
    let mut capabilities = Vec::new();
    for entry in SENSORS {
        let outcome = (entry.open)(roots, &Subject::default())
            .and_then(|mut sensor| sensor.read(&mut Vec::new()).map(|_| ()));
        let reason = outcome.err().map(|error| error.to_string());
        if entry.name == cycles::ENTRY.name {
            let tier = reason.clone().unwrap_or_else(|| "pmu".to_owned());
            capabilities.push(Capability {
                name: "cycles".to_owned(),
                available: reason.is_none(),
                reason: Some(tier),
            });
        }
        let name = format!("sensor.{}", entry.name);
        capabilities.push(Capability { name, available: reason.is_none(), reason });
    }
    let exact = format!("sensor.{}", cpu_exact::ENTRY.name);
    let exact = capabilities.iter().any(|capability| capability.name == exact && capability.available);
    let tier = match (exact, facts::host_facts(roots).irq_time_accounting) {
        (true, _) => "bpf",
        (false, Some(true)) => "irq_time",
        (false, Some(false)) => "tick",
        (false, None) => "unknown",
    };
    let (name, reason) = ("cpu_accounting".to_owned(), Some(tier.to_owned()));
    capabilities.push(Capability { name, available: true, reason });
    capabilities
}

/// The entry of that name.
pub(crate) fn find(name: &str) -> Result<&'static Entry, SenseError> {
    SENSORS.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&'static str> = SENSORS.iter().map(|entry| entry.name).collect();
        let nearest = names.iter().min_by_key(|other| edits(name, other)).copied().unwrap_or("none");
        SenseError::Unknown { name: name.to_owned(), nearest, all: names.join(", ") }
    })
}

/// Letters that must be inserted, deleted or replaced to make one name of the other (Levenshtein 1966). Only
/// the first 64 letters count, so that a job cannot make it slow.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut costs: Vec<usize> = (0..=to.len()).collect();
    for (row, letter) in from.chars().take(64).enumerate() {
        let mut diagonal = costs[0];
        costs[0] = row + 1;
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = costs[column + 1];
            costs[column + 1] = replaced.min(diagonal + 1).min(costs[column] + 1);
        }
    }
    costs[to.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_metrics_end_in_their_unit() {
        let mut names = HashSet::new();
        for (sensor, metrics) in catalogue() {
            assert!(names.insert(sensor), "{sensor}");
            assert!(!metrics.is_empty(), "{sensor}");
            for metric in metrics {
                assert!(names.insert(metric.name), "{}", metric.name);
                if metric.unit != "1" {
                    assert!(metric.name.ends_with(&format!("_{}", metric.unit)), "{metric:?}");
                }
                assert!(metric.help.ends_with('.') && !metric.source.is_empty(), "{metric:?}");
            }
        }
    }

    #[test]
    fn an_unknown_sensor_is_answered_with_the_nearest_and_with_all() {
        let Err(error) = find("tcp_nfo") else { panic!("it does not exist") };
        let text = error.to_string();
        assert!(
            text.contains("did you mean tcp_info?") && text.contains("cpu_exact, cpu_times, cycles"),
            "{text}"
        );
        assert_eq!(edits("kitten", "sitting"), 3);
    }

    #[test]
    fn every_sensor_is_available_or_says_why_not() {
        let here = available(&Roots::default());
        assert_eq!(here.len(), SENSORS.len() + 2);
        for capability in &here {
            assert!(capability.available || capability.reason.is_some(), "{capability:?}");
        }
        let nowhere =
            Roots { proc: "/nonexistent".into(), sys: "/nonexistent".into(), boot: "/nonexistent".into() };
        let none = available(&nowhere);
        let cpu_times = none.iter().find(|capability| capability.name == "sensor.cpu_times").unwrap();
        assert!(cpu_times.reason.as_ref().unwrap().contains("/nonexistent/stat"), "{cpu_times:?}");
    }
}
