//! What one agent does in a trial.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::file_program::FileProgram;
use crate::limits::{JobError, MAX_CPU_QUOTA_PERCENT, MAX_PROFILE_HZ};
use crate::network::Network;
use crate::phase::Windows;
use crate::scripted::Scripted;
use crate::units::Nanos;

/// The control group of a job with a CPU quota, as read back from the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuQuotaObtained {
    /// CPU time that the agent may take in each period, over all CPUs.
    pub quota_ns: Nanos,
    /// The period.
    pub period_ns: Nanos,
    /// Directory of the control group.
    pub group: String,
}

/// A host that generates nothing and reads its sensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Idle {
    /// Whether the trial's load is on files or devices of another host: what the block layer does is read then.
    #[serde(default)]
    pub storage: bool,
}

/// What an agent does: one kind of load, with what belongs to that kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Nothing: how the background of an idle machine is measured.
    Idle(Idle),
    /// Streams, or requests and answers, on connections.
    Network(Box<Network>),
    /// Lists of calls on connections, one for each end.
    Script(Scripted),
    /// Reads and writes of files and block devices, by this end alone.
    Disk(Box<Disk>),
    /// A program of file operations, by this end alone.
    Files(Box<FileProgram>),
}

impl Default for Load {
    /// Nothing.
    fn default() -> Self {
        Load::Idle(Idle::default())
    }
}

impl Load {
    /// Whether it is on files or devices, of this host or of another.
    #[must_use]
    pub fn is_storage(&self) -> bool {
        matches!(self, Load::Idle(Idle { storage: true }) | Load::Disk(_) | Load::Files(_))
    }
}

/// The part of a trial that one agent carries out; `L`: its load, of any kind or of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Job")]
pub struct Job<L = Load> {
    /// Name of the trial; comes back in every message about it.
    pub trial: String,
    /// 32 hexadecimal digits drawn for this trial. A connection that does not show them does not count.
    pub token: String,
    /// What the agent does.
    pub load: L,
    /// Windows and interval.
    pub windows: Windows,
    /// CPUs of this host that the trial's cost is counted on and its workers are pinned to; empty: all.
    #[serde(default)]
    pub cpus: Vec<u32>,
    /// NUMA node that the memory of the job is to be of; absent: that of whoever touches it first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_node: Option<u32>,
    /// Sensors to read; absent: every one that is available.
    #[serde(default)]
    pub sensors: Option<Vec<String>>,
    /// CPU time that the agent may take, in percent of one CPU, by a control group; absent: no quota.
    #[serde(default)]
    pub cpu_quota_percent: Option<u32>,
    /// Samples of call stacks per second and CPU, up to [`MAX_PROFILE_HZ`]; 0: none.
    #[serde(default)]
    pub profile_hz: u32,
    /// Processes of this host that belong to what is measured and are not the agent's: their CPU time is read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watched: Vec<Watched>,
}

/// Processes with one role, such as the server of a protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Watched {
    /// What they are.
    pub role: String,
    /// Their process ids, as the agent sees them.
    pub process_ids: Vec<u32>,
}

impl<L: Default> Default for Job<L> {
    /// A second, without a token.
    fn default() -> Self {
        Job {
            trial: String::new(),
            token: String::new(),
            load: L::default(),
            windows: Windows {
                warm_up_ns: Nanos(0),
                measured_ns: Nanos(1_000_000_000),
                drain_ns: Nanos(0),
                interval_ns: Nanos(1_000_000_000),
            },
            cpus: Vec::new(),
            memory_node: None,
            sensors: None,
            cpu_quota_percent: None,
            profile_hz: 0,
            watched: Vec::new(),
        }
    }
}

impl Job {
    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first key that holds something that is not allowed.
    pub fn check(&self) -> Result<(), JobError> {
        let error = |key, found: &dyn std::fmt::Display, allowed: &str| {
            Err(JobError { key, found: found.to_string(), allowed: allowed.to_owned() })
        };
        if self.token_bytes().is_none() {
            return error("token", &format_args!("{} characters", self.token.len()), "32 hexadecimal digits");
        }
        if self.windows.measured_ns.0 == 0 {
            return error("windows.measured_ns", &0, "more than 0");
        }
        if self.windows.interval_ns.0 < 10_000_000 {
            return error("windows.interval_ns", &self.windows.interval_ns.0, "10 000 000 (10 ms) or more");
        }
        if self.windows.load_ns().0 > 7 * 86_400 * 1_000_000_000 {
            return error("windows", &self.windows.load_ns().0, "a week at most in all");
        }
        if self.cpu_quota_percent.is_some_and(|percent| !(1..=MAX_CPU_QUOTA_PERCENT).contains(&percent)) {
            let allowed = format!("1 to {MAX_CPU_QUOTA_PERCENT}, or nothing");
            return error("cpu_quota_percent", &self.cpu_quota_percent.unwrap_or_default(), &allowed);
        }
        if self.profile_hz > MAX_PROFILE_HZ {
            return error("profile_hz", &self.profile_hz, &format!("{MAX_PROFILE_HZ} at most"));
        }
        match &self.load {
            Load::Idle(_) => Ok(()),
            Load::Network(network) => network.check(),
            Load::Script(scripted) => scripted.check(),
            Load::Disk(disk) => disk.check(),
            Load::Files(program) => program.check(),
        }
    }
}

impl<L> Job<L> {
    /// The same with another load.
    pub fn with<M>(&self, load: M) -> Job<M> {
        Job {
            trial: self.trial.clone(),
            token: self.token.clone(),
            load,
            windows: self.windows,
            cpus: self.cpus.clone(),
            memory_node: self.memory_node,
            sensors: self.sensors.clone(),
            cpu_quota_percent: self.cpu_quota_percent,
            profile_hz: self.profile_hz,
            watched: self.watched.clone(),
        }
    }

    /// The token as bytes, or `None` when it is not 32 hexadecimal digits.
    #[must_use]
    pub fn token_bytes(&self) -> Option<[u8; 16]> {
        let digits = self.token.as_bytes();
        let mut bytes = [0; 16];
        if digits.len() != 32 {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let high = (pair[0] as char).to_digit(16)?;
            let low = (pair[1] as char).to_digit(16)?;
            *byte = (high * 16 + low) as u8;
        }
        Some(bytes)
    }
}
