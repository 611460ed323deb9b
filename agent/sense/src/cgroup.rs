//! Limits that the control group of the agent sets.

use std::path::{Path, PathBuf};

use iodyno_sys::control_group;

use crate::sensor::Roots;

/// CPU quota in CPUs: the smallest of the group and those above it. `None`: no limit, or not known.
pub(crate) fn cpu_quota(roots: &Roots) -> Option<f64> {
    directories(roots, "cpu").iter().filter_map(|group| quota_of(group)).min_by(f64::total_cmp)
}

/// CPU quota of one group in CPUs; `None`: it has none.
pub(crate) fn quota_of(group: &Path) -> Option<f64> {
    let read = |file: &str| std::fs::read_to_string(group.join(file)).ok();
    // Version 2 has `quota period` in one file, with `max` for no limit; version 1 has two files and -1.
    let text = match read("cpu.max") {
        Some(text) => text,
        None => read("cpu.cfs_quota_us")? + " " + &read("cpu.cfs_period_us")?,
    };
    let mut words = text.split_whitespace().map(str::parse::<u64>);
    let (quota, period) = (words.next()?.ok()?, words.next()?.ok()?);
    (period != 0).then(|| quota as f64 / period as f64)
}

/// Most threads: the smallest limit of the group and those above it. `None`: no limit, or not known.
pub(crate) fn threads_max(roots: &Roots) -> Option<u64> {
    let limits = directories(roots, "pids").into_iter();
    limits.filter_map(|place| std::fs::read_to_string(place.join("pids.max")).ok()?.trim().parse().ok()).min()
}

/// Directories of the agent's group and of those above it, in each hierarchy that has the controller.
pub(crate) fn directories(roots: &Roots, controller: &str) -> Vec<PathBuf> {
    let hierarchies = control_group::hierarchies(&roots.proc, &roots.sys, controller);
    hierarchies.into_iter().flat_map(|hierarchy| hierarchy.groups).collect()
}
