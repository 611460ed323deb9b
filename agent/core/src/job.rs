//! What one agent does in a trial.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arrivals::{Arrivals, Sizes};
use crate::disk::Disk;
use crate::file_program::FileProgram;
pub use crate::interface::{Driver, Interface, Ring};
use crate::phase::Windows;
use crate::script::Script;
pub use crate::socket_options::{SocketOptions, SocketOptionsObtained};
use crate::units::{Bytes, Nanos};

/// Most connections that one job may open. One pair of addresses and one port carry up to 64 512 of them (the ports
/// from 1024 on), so that more need several local addresses.
pub const MAX_CONNECTIONS: u32 = 1_000_000;
/// Largest message: what one write may hand to the kernel.
pub const MAX_MESSAGE_BYTES: u64 = 1 << 30;
/// Most samples of call stacks per second and CPU. chosen: ten times what is useful; each takes some microseconds.
pub const MAX_PROFILE_HZ: u32 = 10_000;

/// Longest computation before a write: longer ones keep the load on long after it is due to stop.
pub const MAX_COMPUTE: Nanos = Nanos(1_000_000_000);
/// Longest pause of a connection. It ends early when the load is due to stop.
pub const MAX_THINK: Nanos = Nanos(10_000_000_000);
/// Most messages of one call. chosen: what the kernel takes at most in one call (`UIO_MAXIOV`).
pub const MAX_BATCH: u32 = 1024;
/// Most requests under way on a connection. chosen: more than any path holds.
pub const MAX_OUTSTANDING: u32 = 65_536;
/// Bytes that each datagram spends on the trial's token, its flow and its number.
pub const DATAGRAM_HEADER_BYTES: u64 = 24;
/// Bytes that each multiplexed request and answer spends on its identifier and its length.
pub const MULTIPLEX_HEADER_BYTES: u64 = 8;
/// Longest multiplexed message: it lies in memory whole.
pub const MAX_MULTIPLEXED_BYTES: u64 = 1 << 20;
/// Longest datagram: what UDP over IPv4 can carry.
pub const MAX_DATAGRAM_BYTES: u64 = 65_507;

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
    /// The only end: its load needs no other agent.
    Alone,
    /// Generates nothing and reads the sensors: how the background of an idle machine is measured.
    Idle,
}

/// What is done on each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Bulk transmit: messages of one size, one after the other, as fast as they are accepted.
    Stream,
    /// Requests of one size, each answered: `outstanding` at a time on each connection.
    RequestResponse,
    /// A connection for each request: connect, request, answer, close.
    ConnectRequestResponse,
    /// What the job's `script` says.
    Script,
    /// What the job's `disk` says: reads and writes of files and block devices.
    Disk,
    /// What the job's `files` says: a program of file operations.
    Files,
}

impl Workload {
    /// Whether it has one end and no connections.
    #[must_use]
    pub fn is_alone(self) -> bool {
        matches!(self, Workload::Disk | Workload::Files)
    }
}

/// What the bytes travel on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP over IPv4 or IPv6.
    Tcp,
    /// UDP over IPv4 or IPv6; every datagram shows the trial's token (`docs/background/architecture.md`, "Datagrams").
    Udp,
    /// A stream socket of the Unix domain.
    Unix,
    /// A stream socket between virtual machines and their host.
    Vsock,
    /// TLS 1.3 over TCP, with a certificate made for the trial.
    Tls,
    /// UDP at the other end, and packet sockets with a shared ring (`PF_PACKET`) at this one.
    Packet,
    /// UDP at the other end, and `AF_XDP` at this one.
    Xdp,
    /// Nothing: every message is accepted at once. Shows the cost of the load loop itself.
    Null,
}

impl Transport {
    /// Whether messages travel as datagrams, each of which may be lost.
    #[must_use]
    pub fn is_datagram(self) -> bool {
        matches!(self, Transport::Udp | Transport::Packet | Transport::Xdp)
    }

    /// Whether its addresses are numbers with a port.
    #[must_use]
    pub fn is_numeric(self) -> bool {
        self.is_datagram() || matches!(self, Transport::Tcp | Transport::Tls)
    }
}

/// The cipher of TLS: the one suite that both ends offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TlsCipher {
    /// `TLS_AES_128_GCM_SHA256`, which every implementation must have (RFC 8446, 9.1).
    #[default]
    #[serde(rename = "aes_128_gcm")]
    Aes128Gcm,
    /// `TLS_AES_256_GCM_SHA384`.
    #[serde(rename = "aes_256_gcm")]
    Aes256Gcm,
    /// `TLS_CHACHA20_POLY1305_SHA256`.
    Chacha20,
}

/// Which way the payload of a stream goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the end that connects to the end that listens.
    #[default]
    Forward,
    /// Back.
    Reverse,
    /// Both ways at once on every connection.
    Both,
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
    /// Numeric addresses with a port of the other ends of the sender's script beside `address`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote_addresses: Vec<String>,
    /// Numeric addresses, without a port, that the sender's connections come from in turn; empty: the kernel chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub local_addresses: Vec<String>,
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
    /// Whether the trial's load is on files or devices, of this host or of another: what the block layer does is read then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub storage: bool,
    /// CPU time that this end's own code takes before each write or answer: an application that computes.
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
    /// Which calls move the bytes.
    #[serde(default)]
    pub interface: Interface,
    /// Messages of one call ([`Interface::Batch`], [`Interface::Segments`]), 1 to [`MAX_BATCH`]; a call of a stream
    /// of bytes has no more of them than fit into a MiB.
    #[serde(default = "one")]
    pub batch: u32,
    /// Whether the sender says that more follows (`MSG_MORE`), so that the kernel joins small messages.
    #[serde(default)]
    pub cork: bool,
    /// Whether who receives a stream has the kernel drop the bytes uncopied (`MSG_TRUNC`, over TCP).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub discards: bool,
    /// Whether who waits for requests or answers, on sockets or on a ring, looks again and again and never sleeps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spins: bool,
    /// Which way the payload of a stream goes.
    #[serde(default)]
    pub direction: Direction,
    /// Requests under way on a connection at a time, 1 to [`MAX_OUTSTANDING`].
    #[serde(default = "one")]
    pub outstanding: u32,
    /// Whether requests show identifiers, so that answers may come in any order; over a stream of bytes.
    #[serde(default)]
    pub multiplexed: bool,
    /// Operations made one after the other at each arrival, or between two pauses.
    #[serde(default = "one")]
    pub burst: u32,
    /// Sizes of messages or requests, where they are not all `message_bytes`, which is then the greatest.
    #[serde(default)]
    pub message_sizes: Option<Sizes>,
    /// Seed of drawn sizes; both ends of a trial have the same, as each must know the sizes of the other.
    #[serde(default)]
    pub seed: u64,
    /// When operations are to begin; absent: a closed loop.
    #[serde(default)]
    pub arrivals: Option<Arrivals>,
    /// How long the answer to a datagram is waited for before the request counts as lost.
    #[serde(default = "hundred_milliseconds")]
    pub answer_timeout_ns: Nanos,
    /// How often a request without an answer is sent again before it counts as lost: reliability in user space.
    #[serde(default)]
    pub retries: u32,
    /// The ring of [`Driver::Rings`].
    #[serde(default)]
    pub ring: Option<Ring>,
    /// The cipher of [`Transport::Tls`].
    #[serde(default)]
    pub tls_cipher: TlsCipher,
    /// Whether a connection takes up the session of an earlier one, by a ticket; for connections that come anew.
    #[serde(default)]
    pub tls_resumption: bool,
    /// What this end does ([`Workload::Script`]); `connections` is the number of its strands.
    #[serde(default)]
    pub script: Option<Script>,
    /// What is read and written ([`Workload::Disk`]).
    #[serde(default)]
    pub disk: Option<Disk>,
    /// What threads do to files ([`Workload::Files`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FileProgram>,
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

fn one() -> u32 {
    1
}

fn hundred_milliseconds() -> Nanos {
    Nanos(100_000_000)
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

impl Default for Job {
    /// One connection of bulk transmit over TCP for a second, without a token or an address.
    fn default() -> Self {
        Job {
            trial: String::new(),
            token: String::new(),
            role: Role::Idle,
            workload: Workload::Stream,
            transport: Transport::Tcp,
            driver: Driver::Threads,
            connections: 1,
            message_bytes: Bytes(65_536),
            answer_bytes: Bytes(1),
            address: None,
            remote_addresses: Vec::new(),
            local_addresses: Vec::new(),
            socket: SocketOptions::default(),
            windows: Windows {
                warm_up_ns: Nanos(0),
                measured_ns: Nanos(1_000_000_000),
                drain_ns: Nanos(0),
                interval_ns: Nanos(1_000_000_000),
            },
            cpus: Vec::new(),
            sensors: None,
            storage: false,
            compute_ns: Nanos(0),
            think_ns: Nanos(0),
            serialised: false,
            cpu_quota_percent: None,
            profile_hz: 0,
            interface: Interface::ReadWrite,
            batch: 1,
            cork: false,
            discards: false,
            spins: false,
            direction: Direction::Forward,
            outstanding: 1,
            multiplexed: false,
            burst: 1,
            message_sizes: None,
            seed: 0,
            arrivals: None,
            answer_timeout_ns: hundred_milliseconds(),
            retries: 0,
            ring: None,
            tls_cipher: TlsCipher::default(),
            tls_resumption: false,
            script: None,
            disk: None,
            files: None,
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
        if self.role == Role::Idle {
            return Ok(());
        }
        if self.role == Role::Alone || self.workload.is_alone() {
            return self.check_alone();
        }
        if self.compute_ns > MAX_COMPUTE {
            return error("compute_ns", &self.compute_ns.0, &format!("0 to {}", MAX_COMPUTE.0));
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
        self.check_calls()?;
        self.check_script()?;
        self.check_address()
    }

    /// Checks a load that needs no other end; what is said of connections means nothing to it.
    fn check_alone(&self) -> Result<(), JobError> {
        let refuse = |key, found: &dyn std::fmt::Display, allowed: &str| {
            Err(JobError { key, found: found.to_string(), allowed: allowed.to_owned() })
        };
        if !self.workload.is_alone() {
            return refuse("role", &"alone", "send or receive: this workload has two ends");
        }
        if self.role != Role::Alone {
            return refuse("role", &"an end of two", "alone or idle: this workload has one end");
        }
        if let Some(Err((found, allowed))) = self.arrivals.as_ref().map(Arrivals::check) {
            return refuse("arrivals", &found, allowed);
        }
        match (self.workload, &self.disk) {
            (Workload::Disk, Some(disk)) if disk.replay.is_some() && self.arrivals.is_some() => {
                refuse("arrivals", &"arrivals and a replayed trace", "one of them")
            }
            (Workload::Disk, Some(disk)) => disk.check(),
            (Workload::Files, _) => match &self.files {
                Some(_) if self.arrivals.is_some() => {
                    refuse("arrivals", &"arrivals", "nothing: a file program has `events_per_s`")
                }
                Some(program) => program.check(),
                None => refuse("files", &"nothing", "what threads do to files"),
            },
            _ => refuse("disk", &"nothing", "what is read and written"),
        }
    }

    fn check_script(&self) -> Result<(), JobError> {
        let refuse = |key, found: &dyn std::fmt::Display, allowed: &str| {
            Err(JobError { key, found: found.to_string(), allowed: allowed.to_owned() })
        };
        match (&self.script, self.workload) {
            (None, Workload::Script) => refuse("script", &"nothing", "what the strands do"),
            (Some(_), workload) if workload != Workload::Script => {
                refuse("script", &"one", "nothing, but for the workload script")
            }
            (Some(script), _) => {
                script.check()?;
                self.check_remotes(script)?;
                if script.strands() != u64::from(self.connections) {
                    let allowed = format!("{}, the strands of the script", script.strands());
                    return refuse("connections", &self.connections, &allowed);
                }
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    /// That every other end of the script has an address; a receiving end knows the sender alone.
    fn check_remotes(&self, script: &Script) -> Result<(), JobError> {
        let refuse = |found: String, allowed: &str| {
            Err(JobError { key: "remote_addresses", found, allowed: allowed.to_owned() })
        };
        let (named, given) = (script.greatest_remote() as usize, self.remote_addresses.len());
        if self.role == Role::Receive {
            return if given == 0 {
                Ok(())
            } else {
                refuse(format!("{given}"), "none, at the receiving end")
            };
        }
        if named > given {
            return refuse(
                format!("{given}"),
                &format!("{named}: the script names other ends up to that one"),
            );
        }
        let foreign = |address: &&String| {
            address.parse::<core::net::SocketAddr>().map_or(true, |parsed| parsed.port() == 0)
        };
        match self.remote_addresses.iter().find(foreign) {
            Some(address) => refuse(address.clone(), "numeric addresses with a port to connect to"),
            None => Ok(()),
        }
    }

    fn check_address(&self) -> Result<(), JobError> {
        let error = |found: &str, allowed: &str| {
            Err(JobError { key: "address", found: found.to_owned(), allowed: allowed.to_owned() })
        };
        if self.transport.is_numeric() {
            let address = self.address.as_deref().unwrap_or("nothing");
            let Ok(parsed) = address.parse::<core::net::SocketAddr>() else {
                return error(address, "a numeric address with port, such as 10.0.0.2:5201");
            };
            if self.role == Role::Send && parsed.port() == 0 {
                return error(address, "a port other than 0 to connect to");
            }
        }
        let foreign = |address: &&String| address.parse::<core::net::IpAddr>().is_err();
        if let Some(address) = self.local_addresses.iter().find(foreign) {
            let (found, allowed) = (address.clone(), "numeric addresses without a port".to_owned());
            return Err(JobError { key: "local_addresses", found, allowed });
        }
        Ok(())
    }

    /// Whether each operation opens a connection of its own.
    #[must_use]
    pub fn connects_anew(&self) -> bool {
        self.workload == Workload::ConnectRequestResponse
    }

    /// Whether this end writes the payload of a stream.
    #[must_use]
    pub fn writes_stream(&self) -> bool {
        match self.direction {
            Direction::Forward => self.role == Role::Send,
            Direction::Reverse => self.role == Role::Receive,
            Direction::Both => matches!(self.role, Role::Send | Role::Receive),
        }
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
