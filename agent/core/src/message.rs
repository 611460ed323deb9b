//! What the lab and an agent say to each other.
//!
//! ```text
//! lab                                   agent
//!                                    ◀─ hello          who I am, what I can and cannot do, and why
//! probe (many)                       ─▶ probe_reply     clock offset
//! prepare (a job)                    ─▶ listening       (receiver) the data port
//!                                       ready           connected, proven, threads parked
//! arm (a start time)                 ─▶ armed           slack left
//!                                    ◀─ record          one an interval
//!                                    ◀─ drain           the measured window is over
//!                                    ◀─ profile         call stacks, where the job asked for them
//!                                    ◀─ result          totals, and how many records there were
//! heartbeat                         ◀─▶ heartbeat       at any time, both ways
//! abort                              ─▶ aborted         load stopped, ready for another job
//! bye                                ─▶ (ends)
//! ```
//! An agent answers what it cannot do with one `error`. A broken frame ends it; a job that failed does not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::account::ScriptAccount;
use crate::disk::{ClassCounts, DiskAccount};
use crate::file_account::FileAccount;
use crate::histogram::Histogram;
use crate::job::{CpuQuotaObtained, Job};
use crate::metric::Reading;
use crate::phase::Window;
use crate::profile::Profile;
use crate::socket_options::SocketOptionsObtained;
use crate::units::{Bytes, Nanos};

/// Version of the wire; both ends must have the same. History: `schema/VERSIONS.md`.
pub const WIRE_VERSION: u32 = 7;

/// From the lab to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Answer at once with the time.
    Probe {
        /// Comes back in the reply.
        id: u32,
    },
    /// Get ready for a job.
    Prepare {
        /// The job.
        job: Box<Job>,
    },
    /// Start the prepared job at an instant of the agent's own `CLOCK_MONOTONIC`.
    Arm {
        /// The start.
        start_ns: Nanos,
    },
    /// Stop whatever is going on, drop the job.
    Abort {
        /// Why, for the record.
        reason: String,
    },
    /// The lab lives.
    Heartbeat {},
    /// Nothing more will come: end.
    Bye {},
}

/// From an agent to the lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Message {
    /// First message of an agent.
    Hello(Box<Hello>),
    /// Answer to `probe`.
    ProbeReply {
        /// The probe's.
        id: u32,
        /// When the probe was read.
        received_ns: Nanos,
        /// When this reply was written.
        sent_ns: Nanos,
    },
    /// The receiver waits for connections.
    Listening {
        /// The job's.
        trial: String,
        /// Port it listens on.
        port: u16,
    },
    /// Every connection is up and proven, every thread is parked.
    Ready(Ready),
    /// The start is scheduled.
    Armed {
        /// The job's.
        trial: String,
        /// Time left to the start when the agent was done arming.
        slack_ns: Nanos,
        /// Whether the starting threads run under `SCHED_FIFO`.
        realtime: bool,
    },
    /// What a lab that watches needs of the record that follows at once, so that it may take that one apart when no load
    /// runs beside it.
    Progress(Progress),
    /// One interval.
    Record(Box<Record>),
    /// The measured window is over; the load goes on for the drain window and then stops.
    Drain {
        /// The job's.
        trial: String,
        /// When.
        at_ns: Nanos,
    },
    /// Call stacks of the measured window, where the job asked for them; after the last record.
    Profile(Box<Profile>),
    /// The job is done.
    Result(Box<JobResult>),
    /// The job was dropped on the lab's word.
    Aborted {
        /// The job's, or empty when there was none.
        trial: String,
    },
    /// Something cannot be done.
    Error(WireError),
    /// The agent lives.
    Heartbeat {},
}

/// Something the agent may or may not be able to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capability {
    /// Name: `realtime`, `cycles`, `sensor.tcp_info`, ...
    pub name: String,
    /// Whether it can.
    pub available: bool,
    /// Why not, where it cannot; or how, where there are several ways.
    #[serde(default)]
    pub reason: Option<String>,
}

/// What the host is. Absent: could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostFacts {
    /// Host name.
    pub hostname: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Machine architecture.
    pub architecture: Option<String>,
    /// Boot id: two hosts with the same one are the same machine.
    pub boot_id: Option<String>,
    /// CPU model name.
    pub cpu_model: Option<String>,
    /// CPUs online.
    pub cpus_online: Vec<u32>,
    /// CPUs that this agent may run on.
    pub cpus_allowed: Vec<u32>,
    /// Memory in all.
    pub memory_bytes: Option<Bytes>,
    /// Memory that could be had without swapping.
    pub memory_available_bytes: Option<Bytes>,
    /// Open files this agent may have (after raising its limit).
    pub descriptors_limit: Option<u64>,
    /// Threads this agent may have.
    pub threads_limit: Option<u64>,
    /// Congestion controls that may be chosen.
    pub congestion_controls: Vec<String>,
    /// Whether the kernel accounts interrupt time apart (`IRQ_TIME_ACCOUNTING`); absent: not known.
    pub irq_time_accounting: Option<bool>,
    /// Frequency governor of CPU 0.
    pub governor: Option<String>,
    /// Whether SMT is active.
    pub smt: Option<bool>,
    /// Hypervisor, as the CPU names it.
    pub hypervisor: Option<String>,
    /// CPU quota of the control group, in CPUs.
    pub cpu_quota_cpus: Option<f64>,
    /// 1-minute load average when the agent started.
    pub load_average: Option<f64>,
    /// Effective user id.
    pub user_id: u32,
    /// Addresses by which other hosts may reach it, each with the length of its prefix: `10.88.0.5/16`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Runtime of the container that it is in, such as `podman`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Pod of Kubernetes that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Node, as a scheduler names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Job of Slurm that it runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// NUMA nodes that have CPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numa_nodes: Vec<NumaNode>,
}

/// CPUs, with the memory and the devices that are nearest to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NumaNode {
    /// Number of the node.
    pub node: u32,
    /// Its CPUs that are online.
    pub cpus: Vec<u32>,
    /// Network interfaces and disks that are attached to it, where the kernel tells.
    pub devices: Vec<String>,
}

/// The clocks of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClockFacts {
    /// Kernel clock source.
    pub clocksource: Option<String>,
    /// What operations are timed with: `tsc` or `clock_monotonic`.
    pub operations_timed_with: String,
    /// Frequency of the time-stamp counter, measured at start; absent: none that is constant and nonstop.
    pub tsc_hz: Option<u64>,
    /// Smallest nonzero step between two readings of the operation clock.
    pub step_ns: f64,
    /// Cost of one reading of the operation clock.
    pub read_cost_ns: f64,
}

/// First message of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// [`WIRE_VERSION`].
    pub wire_version: u32,
    /// Version of the agent.
    pub version: String,
    /// Hash of the sources that the agent was built from.
    pub build_hash: String,
    /// SHA-256 of the running program file.
    pub program_sha256: Option<String>,
    /// The host.
    pub host: HostFacts,
    /// Its clocks.
    pub clock: ClockFacts,
    /// What can be done, and what cannot and why.
    pub capabilities: Vec<Capability>,
    /// The agent's monotonic clock when this was written.
    pub now_ns: Nanos,
    /// The agent's wall clock then, in nanoseconds since 1970 (for people, never for arithmetic).
    pub wall_ns: Nanos,
}

/// Everything is up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// The job's.
    pub trial: String,
    /// Connections up and proven.
    pub connections: u32,
    /// Workers that will carry the load.
    pub workers: u32,
    /// Socket options as obtained.
    pub socket: SocketOptionsObtained,
    /// How long getting ready took.
    pub setup_ns: Nanos,
    /// Connections turned away because they did not show the token.
    pub foreign_refused: u32,
    /// The CPU quota in force; absent: the job asks for none.
    #[serde(default)]
    pub cpu_quota: Option<CpuQuotaObtained>,
}

/// What was done in an interval. Bytes and operations are counted when the kernel has accepted (sender) or
/// delivered (receiver) them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadCounts {
    /// Payload bytes.
    pub bytes: Bytes,
    /// Messages completed (sender) or read calls that returned data (receiver).
    pub operations: u64,
    /// Service time of those operations: from when they were begun.
    pub service_time: Histogram,
    /// Response time of those operations: from when they were to begin. Absent in a closed loop.
    #[serde(default)]
    pub response_time: Option<Histogram>,
    /// How long after they were to begin operations were begun, without the time in which no connection was free for
    /// them: how late the generator was. Absent in a closed loop.
    #[serde(default)]
    pub lateness: Option<Histogram>,
    /// How long operations waited for a connection to be free, of those that did. Absent in a closed loop.
    #[serde(default)]
    pub waiting: Option<Histogram>,
    /// Messages that one call or one look at a ring took, where a call may take several; not nanoseconds.
    #[serde(default)]
    pub batch: Option<Histogram>,
    /// Connections that moved at least one byte.
    pub connections_active: u32,
    /// Connections lost so far in the trial.
    pub connections_lost: u32,
}

/// One interval of a trial on one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The job's.
    pub trial: String,
    /// 0, 1, 2, ...
    pub index: u32,
    /// Which window it lies in.
    pub window: Window,
    /// When the load was counted at its begin; the first one begins at the armed start.
    pub begin_ns: Nanos,
    /// When the load was counted at its end.
    pub end_ns: Nanos,
    /// What the load did.
    pub load: LoadCounts,
    /// The same by class of operation, where the load has classes; `load` is the sum of those that move data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassCounts>,
    /// What the sensors said.
    pub sensors: Vec<Reading>,
}

/// The load of one interval in a few numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// The record's.
    pub index: u32,
    /// The record's.
    pub window: Window,
    /// The record's.
    pub begin_ns: Nanos,
    /// The record's.
    pub end_ns: Nanos,
    /// The record's.
    pub bytes: Bytes,
    /// The record's.
    pub operations: u64,
}

impl From<&Record> for Progress {
    fn from(record: &Record) -> Progress {
        Progress {
            index: record.index,
            window: record.window,
            begin_ns: record.begin_ns,
            end_ns: record.end_ns,
            bytes: record.load.bytes,
            operations: record.load.operations,
        }
    }
}

/// Totals of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobResult {
    /// The job's.
    pub trial: String,
    /// Records sent: fewer arrived means that some were lost.
    pub records: u32,
    /// The start that was armed.
    pub start_ns: Nanos,
    /// First operation of any worker. Absent: none ran (an idle job).
    pub first_operation_ns: Option<Nanos>,
    /// First operation of the last worker.
    pub last_worker_started_ns: Option<Nanos>,
    /// When the last worker ended.
    pub stopped_ns: Nanos,
    /// Payload bytes from start to end.
    pub bytes: Bytes,
    /// Operations from start to end.
    pub operations: u64,
    /// Connections that carried at least one byte in the measured window.
    pub connections_carrying: u32,
    /// Connections lost before the load stopped.
    pub connections_lost: u32,
    /// Why the first of them was lost.
    #[serde(default)]
    pub lost_reason: Option<String>,
    /// Fewest and most bytes that one connection carried in the measured window.
    pub connection_bytes_min: Bytes,
    /// See `connection_bytes_min`.
    pub connection_bytes_max: Bytes,
    /// Jain's fairness index of those bytes in 10^-9: 1 where all connections carried the same, 1/n where one carried
    /// all. Absent: nothing was carried. A ratio and no sum, because the sum of the squares does not fit into 64 bits.
    #[serde(default)]
    pub connection_fairness_ppb: Option<u64>,
    /// CPU time of the agent process from start to stop, all threads.
    pub agent_cpu_ns: Nanos,
    /// Largest resident set of the agent process in this job.
    pub agent_rss_peak_bytes: Bytes,
    /// What the script did; absent where the job had none. A script may end before the windows do: there are fewer
    /// records then, and the last one ends with it.
    #[serde(default)]
    pub script: Option<ScriptAccount>,
    /// What was obtained of files and devices, and what went wrong there; absent where the job had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskAccount>,
    /// What a file program did; absent where the job had none. It may end before the windows do, as scripts may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FileAccount>,
}

/// Something cannot be done: what, where, what to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WireError {
    /// Which kind.
    pub code: ErrorCode,
    /// What is wrong.
    pub what: String,
    /// Where: a key, an address, a file.
    #[serde(rename = "where")]
    pub place: String,
    /// What to try.
    #[serde(rename = "try")]
    pub advice: String,
    /// The trial it concerns, if any.
    #[serde(default)]
    pub trial: Option<String>,
}

/// Kinds of error. The first group ends the agent, with the exit code in [`ErrorCode::exit_code`]; the
/// others end the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// A frame was malformed, too long, out of order or cut.
    Frame,
    /// A command was not understood or came at the wrong time.
    Protocol,
    /// Heartbeats of the lab stopped.
    LabLost,
    /// The job holds something that is not allowed.
    Job,
    /// The address cannot be listened on or reached.
    Address,
    /// A limit of the host is too low: descriptors, threads, memory.
    Limit,
    /// Connections did not come up in time.
    ConnectTimeout,
    /// The start was already past, or too close, when the job was armed.
    Late,
    /// The job asks for something that this agent, or the kernel it runs on, does not have.
    Unsupported,
    /// The transport failed while the load ran.
    Transport,
    /// A file or device cannot be had as the job needs it, or failed while the load ran.
    Target,
    /// A defect of the agent.
    Internal,
}

impl ErrorCode {
    /// Exit code of an agent that ends with this error; `None` for errors that only end the job.
    #[must_use]
    pub const fn exit_code(self) -> Option<u8> {
        match self {
            ErrorCode::Frame => Some(65),
            ErrorCode::Protocol => Some(76),
            ErrorCode::LabLost => Some(75),
            ErrorCode::Internal => Some(70),
            _ => None,
        }
    }
}
