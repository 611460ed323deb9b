//! What one agent does in a trial.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::phase::Windows;
use crate::units::{Bytes, Nanos};

/// Most connections that one job may open: what one address pair and one port can carry.
pub const MAX_CONNECTIONS: u32 = 60_000;
/// Largest message: what one write may hand to the kernel.
pub const MAX_MESSAGE_BYTES: u64 = 1 << 30;
/// Most samples of call stacks per second and CPU. chosen: ten times what is useful; each takes some microseconds.
pub const MAX_PROFILE_HZ: u32 = 10_000;

/// Longest computation before a write: longer ones keep the load on long after it is due to stop.
pub const MAX_COMPUTE: Nanos = Nanos(1_000_000_000);
/// Longest pause of a connection. It ends early when the load is due to stop.
pub const MAX_THINK: Nanos = Nanos(10_000_000_000);
/// Largest quota, in percent of one CPU: a thousand CPUs.
pub const MAX_CPU_QUOTA_PERCENT: u32 = 100_000;

/// Which end of the workload this agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Connects and sends.
    Send,
    /// Listens and receives.
    Receive,
    /// Generates nothing and reads the sensors: how the background of an idle machine is measured.
    Idle,
}

/// What is done on each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Bulk transmit: messages of one size, one after the other, as fast as they are accepted.
    Stream,
    /// Requests of one size, each answered: one outstanding on each connection.
    RequestResponse,
}

/// What the bytes travel on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP over IPv4 or IPv6.
    Tcp,
    /// Nothing: every message is accepted at once. Shows the cost of the load loop itself.
    Null,
}

/// How operations are submitted to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// One thread a connection, blocking calls.
    Threads,
    /// One pinned worker a CPU, many connections each, `epoll` and non-blocking calls.
    Epoll,
}

/// Socket options as asked for. Absent: left as the kernel has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SocketOptions {
    /// `SO_SNDBUF` (the kernel doubles it for its own bookkeeping).
    #[serde(default)]
    pub send_buffer_bytes: Option<Bytes>,
    /// `SO_RCVBUF` (likewise).
    #[serde(default)]
    pub receive_buffer_bytes: Option<Bytes>,
    /// Whether Nagle's algorithm is on (`TCP_NODELAY` off).
    #[serde(default)]
    pub nagle: Option<bool>,
    /// `TCP_CONGESTION`.
    #[serde(default)]
    pub congestion_control: Option<String>,
}

/// Socket options as read back from the kernel, from the first connection; `differing` counts connections
/// that read back otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SocketOptionsObtained {
    /// `SO_SNDBUF` as read back.
    pub send_buffer_bytes: Option<Bytes>,
    /// `SO_RCVBUF` as read back.
    pub receive_buffer_bytes: Option<Bytes>,
    /// Whether Nagle's algorithm is on.
    pub nagle: Option<bool>,
    /// Congestion control in force.
    pub congestion_control: Option<String>,
    /// `TCP_MAXSEG`: payload of a full segment.
    pub segment_bytes: Option<Bytes>,
    /// Connections whose options differ from the first one's.
    pub differing: u32,
}

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

/// The part of a trial that one agent carries out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Name of the trial; comes back in every message about it.
    pub trial: String,
    /// 32 hexadecimal digits drawn for this trial. A connection that does not show them does not count.
    pub token: String,
    /// Which end this agent is.
    pub role: Role,
    /// What is done on each connection.
    pub workload: Workload,
    /// What the bytes travel on.
    pub transport: Transport,
    /// How operations are submitted.
    pub driver: Driver,
    /// Number of connections, 1 to [`MAX_CONNECTIONS`].
    pub connections: u32,
    /// Payload of one write or request, 1 to [`MAX_MESSAGE_BYTES`].
    pub message_bytes: Bytes,
    /// Payload of an answer ([`Workload::RequestResponse`]), 1 to [`MAX_MESSAGE_BYTES`].
    #[serde(default = "one_byte")]
    pub answer_bytes: Bytes,
    /// Where to connect (`Send`) or what to listen on (`Receive`): a numeric address with port; port 0
    /// lets the kernel choose. Names are resolved by the lab.
    #[serde(default)]
    pub address: Option<String>,
    /// Socket options to ask for.
    #[serde(default)]
    pub socket: SocketOptions,
    /// Windows and interval.
    pub windows: Windows,
    /// CPUs of this host that the trial's cost is counted on and its workers are pinned to; empty: all.
    #[serde(default)]
    pub cpus: Vec<u32>,
    /// Sensors to read; absent: every one that is available.
    #[serde(default)]
    pub sensors: Option<Vec<String>>,
    /// CPU time that the sender's own code takes before each write: an application that computes.
    #[serde(default)]
    pub compute_ns: Nanos,
    /// Pause of each connection after each of its operations: an application that waits.
    #[serde(default)]
    pub think_ns: Nanos,
    /// Whether all workers of this job take one lock around each call of an operation.
    #[serde(default)]
    pub serialised: bool,
    /// CPU time that the agent may take, in percent of one CPU, by a control group; absent: no quota.
    #[serde(default)]
    pub cpu_quota_percent: Option<u32>,
    /// Samples of call stacks per second and CPU, up to [`MAX_PROFILE_HZ`]; 0: none.
    #[serde(default)]
    pub profile_hz: u32,
}

fn one_byte() -> Bytes {
    Bytes(1)
}

/// Why a job cannot be taken: which key, what was found, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: found {found}, allowed: {allowed}")]
pub struct JobError {
    /// Key in the job.
    pub key: &'static str,
    /// What it held.
    pub found: String,
    /// What it may hold.
    pub allowed: String,
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
        if self.role == Role::Idle {
            return Ok(());
        }
        if self.compute_ns > if self.role == Role::Send { MAX_COMPUTE } else { Nanos(0) } {
            let allowed = format!("0 to {} for a sender, 0 for others", MAX_COMPUTE.0);
            return error("compute_ns", &self.compute_ns.0, &allowed);
        }
        if self.think_ns > MAX_THINK {
            return error("think_ns", &self.think_ns.0, &format!("0 to {}", MAX_THINK.0));
        }
        if !(1..=MAX_CONNECTIONS).contains(&self.connections) {
            return error("connections", &self.connections, &format!("1 to {MAX_CONNECTIONS}"));
        }
        if !(1..=MAX_MESSAGE_BYTES).contains(&self.message_bytes.0) {
            return error("message_bytes", &self.message_bytes.0, &format!("1 to {MAX_MESSAGE_BYTES}"));
        }
        if !(1..=MAX_MESSAGE_BYTES).contains(&self.answer_bytes.0) {
            return error("answer_bytes", &self.answer_bytes.0, &format!("1 to {MAX_MESSAGE_BYTES}"));
        }
        if self.transport == Transport::Null && self.workload == Workload::RequestResponse {
            return error("transport", &"null", "tcp: nobody answers on the null transport");
        }
        if self.transport == Transport::Tcp {
            let address = self.address.as_deref().unwrap_or("nothing");
            let Ok(parsed) = address.parse::<core::net::SocketAddr>() else {
                return error("address", &address, "a numeric address with port, such as 10.0.0.2:5201");
            };
            if self.role == Role::Send && parsed.port() == 0 {
                return error("address", &address, "a port other than 0 to connect to");
            }
        }
        Ok(())
    }

    /// Whether the load behaves like an application with work, pauses or a lock of its own.
    #[must_use]
    pub fn plays_application(&self) -> bool {
        self.compute_ns.0 > 0 || self.think_ns.0 > 0 || self.serialised
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
