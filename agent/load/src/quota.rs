//! A CPU quota: the agent puts itself into a control group that has one, and takes itself out again.
//!
//! The group is named after the agent, with its start time, so that what an agent that was killed leaves behind is
//! known for what it is: the next agent removes it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iodyno_core::job::CpuQuotaObtained;
use iodyno_core::message::ErrorCode;
use iodyno_core::units::Nanos;
use iodyno_sys::control_group::{hierarchies, Hierarchy, Version};

use crate::error::LoadError;

/// chosen: period of the quota. The kernel's usual one of 100 ms would stop the load for most of an interval; a
/// much shorter one costs CPU time of its own.
const PERIOD_US: u64 = 10_000;
/// Least quota that the kernel takes in a period (`min_cfs_quota_period` in `kernel/sched/core.c`): smaller
/// shares need longer periods.
const LEAST_QUOTA_US: u64 = 1_000;
/// chosen: real-time share of the group, in each period of the kernel's (one second, usually). A kernel with
/// `RT_GROUP_SCHED` gives a new group none, and the agent starts on time and reports on time by a little of it.
const REALTIME_US: u64 = 50_000;
/// chosen: many times what the end of a thread takes on a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(2);
/// What the names of groups begin with.
const PREFIX: &str = "iodyno-agent-";
const PLACE: &str = "cpu_quota_percent";

/// A control group with a quota, made for a job. When dropped, the agent is back where it was and the group gone.
pub struct Quota {
    group: PathBuf,
    /// `cgroup.procs` of the group that the agent was in. Kept open: the way back must not depend on a path.
    before: File,
    obtained: CpuQuotaObtained,
}

impl Quota {
    /// Makes a group that may take `percent` of one CPU.
    ///
    /// # Errors
    /// `Limit` where the host has no CPU controller or does not let this process make a group.
    pub fn new(percent: u32) -> Result<Self, LoadError> {
        Quota::below(Path::new("/proc"), Path::new("/sys"), percent)
    }

    fn below(proc: &Path, sys: &Path, percent: u32) -> Result<Self, LoadError> {
        let refused = |what: String| {
            let advice =
                "run the agent as root, or where it may make control groups (a delegated one with the \
                          cpu controller: systemd-run --user --scope -p Delegate=yes)";
            LoadError::new(ErrorCode::Limit, what, PLACE, advice)
        };
        let (quota_us, period_us) = quota_and_period_us(percent);
        let name = name_of(proc, std::process::id()).unwrap_or_else(|| format!("{PREFIX}unknown"));
        let mut last = "no control group here has the cpu controller".to_owned();
        for (version, parent, own) in places(&hierarchies(proc, sys, "cpu")) {
            let group = parent.join(&name);
            match make(version, &group, quota_us, period_us).and_then(|obtained| {
                Ok((obtained, fs::OpenOptions::new().write(true).open(own.join("cgroup.procs"))?))
            }) {
                Ok((obtained, before)) => return Ok(Quota { group, before, obtained }),
                Err(error) => {
                    last = format!("the control group {} cannot be made: {error}", group.display());
                    // There may be none, and nothing is in it.
                    let _ = fs::remove_dir(&group);
                }
            }
        }
        Err(refused(last))
    }

    /// Puts this process into the group, with all of its threads.
    ///
    /// # Errors
    /// `Limit` where the kernel refuses it.
    pub fn enter(&self) -> Result<(), LoadError> {
        fs::write(self.group.join("cgroup.procs"), std::process::id().to_string()).map_err(|error| {
            let what = format!("the agent cannot enter the control group {}: {error}", self.group.display());
            LoadError::new(ErrorCode::Limit, what, PLACE, "run the agent as root")
        })
    }

    /// The quota as read back.
    #[must_use]
    pub fn obtained(&self) -> &CpuQuotaObtained {
        &self.obtained
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Fails when the group was removed meanwhile, with everything in it. The group that stays behind when
        // its removal fails is removed by the next agent.
        let _ = self.before.write_all(std::process::id().to_string().as_bytes());
        // A thread that was waited for is in the group until the kernel is done with it.
        let busy = || fs::remove_dir(&self.group).is_err_and(|why| why.kind() == io::ErrorKind::ResourceBusy);
        let given_up = Instant::now() + GONE_WITHIN;
        while busy() && Instant::now() < given_up {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Removes the groups of agents that are no more.
pub fn remove_leftovers() {
    remove_leftovers_below(Path::new("/proc"), Path::new("/sys"));
}

fn remove_leftovers_below(proc: &Path, sys: &Path) {
    let groups = hierarchies(proc, sys, "cpu").into_iter().flat_map(|hierarchy| hierarchy.groups);
    for entry in groups.filter_map(|group| fs::read_dir(group).ok()).flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(owner) = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok())
        else {
            continue;
        };
        if name_of(proc, owner).as_deref() != Some(&name) {
            // The kernel does not remove a group with a process in it, and nobody else may be allowed to.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Name of the group of the agent with that process id; `None`: there is no such process.
fn name_of(proc: &Path, process: u32) -> Option<String> {
    let stat = fs::read_to_string(proc.join(process.to_string()).join("stat")).ok()?;
    // Field 22, counted from behind the command, which may hold anything (proc_pid_stat(5)).
    let start_ticks = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.to_owned();
    Some(format!("{PREFIX}{process}-{start_ticks}"))
}

/// Where a group can be made, the best place first: below which group, and in which one this process is now.
///
/// In version 1 that is the agent's own group, so that limits above hold on. In version 2 a group with processes
/// has no groups with controllers below it, except the top: a place beside the own group is next.
fn places(hierarchies: &[Hierarchy]) -> Vec<(Version, PathBuf, PathBuf)> {
    let mut places = Vec::new();
    for hierarchy in hierarchies {
        let Some(own) = hierarchy.groups.last() else { continue };
        for group in hierarchy.groups.iter().rev() {
            let gives = |controllers: String| controllers.split_whitespace().any(|name| name == "cpu");
            let can = match hierarchy.version {
                Version::One => group == own,
                Version::Two => fs::read_to_string(group.join("cgroup.subtree_control")).is_ok_and(gives),
            };
            if can {
                places.push((hierarchy.version, group.clone(), own.clone()));
            }
        }
    }
    places
}

fn make(version: Version, group: &Path, quota_us: u64, period_us: u64) -> io::Result<CpuQuotaObtained> {
    match fs::create_dir(group) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let write = |file: &str, text: String| fs::write(group.join(file), text);
    let read = |file: &str| fs::read_to_string(group.join(file));
    let text = match version {
        Version::One => {
            // Not every kernel has it; without, the start is less exact and says so.
            let _ = write("cpu.rt_runtime_us", REALTIME_US.to_string());
            write("cpu.cfs_period_us", period_us.to_string())?;
            write("cpu.cfs_quota_us", quota_us.to_string())?;
            read("cpu.cfs_quota_us")? + " " + &read("cpu.cfs_period_us")?
        }
        Version::Two => {
            write("cpu.max", format!("{quota_us} {period_us}"))?;
            read("cpu.max")?
        }
    };
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(quota_us)), Some(Ok(period_us))) = (numbers.next(), numbers.next()) else {
        return Err(io::Error::other(format!("its quota reads {:?}", text.trim())));
    };
    let nanos = |us: u64| Nanos(us.saturating_mul(1_000));
    let group = group.display().to_string();
    Ok(CpuQuotaObtained { quota_ns: nanos(quota_us), period_ns: nanos(period_us), group })
}

/// Quota and period for a share of one CPU.
fn quota_and_period_us(percent: u32) -> (u64, u64) {
    let percent = u64::from(percent.max(1));
    let period_us = PERIOD_US.max((LEAST_QUOTA_US * 100).div_ceil(percent));
    (period_us * percent / 100, period_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up host whose trees are files; removed when dropped.
    struct Host(PathBuf);

    impl Host {
        fn new(name: &str, memberships: &str) -> Self {
            let host = Host(std::env::temp_dir().join(format!("iodyno-quota-{}-{name}", std::process::id())));
            let stat = format!("{} (a) b) R {}777 1\n", std::process::id(), "0 ".repeat(18));
            host.write(&format!("proc/{}/stat", std::process::id()), &stat);
            host.write("proc/self/cgroup", memberships);
            host
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.0.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn read(&self, file: &str) -> String {
            fs::read_to_string(self.0.join(file)).unwrap()
        }

        fn own_group(&self) -> String {
            format!("{PREFIX}{}-777", std::process::id())
        }

        fn quota(&self, percent: u32) -> Result<Quota, LoadError> {
            Quota::below(&self.0.join("proc"), &self.0.join("sys"), percent)
        }
    }

    impl Drop for Host {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn small_shares_have_a_longer_period() {
        assert_eq!(quota_and_period_us(20), (2_000, 10_000));
        assert_eq!(quota_and_period_us(150), (15_000, 10_000));
        assert_eq!(quota_and_period_us(1), (1_000, 100_000));
        assert_eq!(quota_and_period_us(3), (1_000, 33_334));
    }

    #[test]
    fn in_version_1_the_group_lies_below_the_own_one() {
        let host = Host::new("one", "3:cpu,cpuacct:/user.slice\n0::/\n");
        host.write("sys/fs/cgroup/cpu,cpuacct/user.slice/cgroup.procs", "");
        let quota = host.quota(50).unwrap();
        quota.enter().unwrap();
        let group = format!("sys/fs/cgroup/cpu,cpuacct/user.slice/{}", host.own_group());
        assert_eq!(host.read(&format!("{group}/cpu.cfs_quota_us")), "5000");
        assert_eq!(host.read(&format!("{group}/cgroup.procs")), std::process::id().to_string());
        assert_eq!(
            (quota.obtained().quota_ns, quota.obtained().period_ns),
            (Nanos(5_000_000), Nanos(10_000_000))
        );
        drop(quota);
        let before = host.read("sys/fs/cgroup/cpu,cpuacct/user.slice/cgroup.procs");
        assert_eq!(before, std::process::id().to_string());
    }

    #[test]
    fn in_version_2_the_group_lies_in_the_nearest_one_that_hands_the_controller_down() {
        let host = Host::new("two", "0::/user.slice/app.slice/agent.service\n");
        let slice = "sys/fs/cgroup/user.slice";
        host.write(&format!("{slice}/app.slice/agent.service/cgroup.procs"), "");
        host.write(&format!("{slice}/app.slice/agent.service/cgroup.subtree_control"), "");
        host.write(&format!("{slice}/app.slice/cgroup.subtree_control"), "memory pids\n");
        host.write(&format!("{slice}/cgroup.subtree_control"), "cpu memory\n");
        let quota = host.quota(200).unwrap();
        assert_eq!(host.read(&format!("{slice}/{}/cpu.max", host.own_group())), "20000 10000");
        assert!(quota.obtained().group.ends_with(&host.own_group()));
    }

    #[test]
    fn a_host_without_the_controller_is_told_what_to_do() {
        let host = Host::new("none", "0::/\n");
        let error = host.quota(50).err().unwrap();
        assert_eq!((error.code, error.place.as_str()), (ErrorCode::Limit, PLACE));
        assert!(error.what.contains("no control group here has the cpu controller"), "{error}");
    }

    #[test]
    fn only_groups_of_agents_that_are_no_more_are_removed() {
        let host = Host::new("left", "1:cpu:/\n");
        let names = [host.own_group(), format!("{PREFIX}{}-776", std::process::id()), "iodyno".to_owned()];
        for name in &names {
            fs::create_dir_all(host.0.join("sys/fs/cgroup/cpu").join(name)).unwrap();
        }
        remove_leftovers_below(&host.0.join("proc"), &host.0.join("sys"));
        let there = names.map(|name| host.0.join("sys/fs/cgroup/cpu").join(name).is_dir());
        assert_eq!(there, [true, false, true]);
    }
}
