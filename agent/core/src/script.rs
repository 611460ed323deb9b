//! Scripts: what each thread of an end does, call by call, as uperf's profiles have it.
//!
//! Both ends get their own list, made by the lab: where one writes, the other reads. A thread has
//! connections of its own; thread i of a group at one end speaks to thread i of that group at the other. The
//! transactions of a group run one after the other, and the threads of a group wait for each other, at both ends,
//! between two of them.
//!
//! Random sizes are drawn alike at both ends, so that a receiver knows how long each message is; they are drawn
//! anew for each connection. What a script did is told in [`crate::account`].

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{JobError, MAX_CONNECTIONS, MAX_DATAGRAM_BYTES, MAX_MESSAGE_BYTES};
use crate::socket_options::SocketOptions;
use crate::units::{Bytes, Nanos};

/// Most groups of a script. chosen: what uperf allows.
pub const MAX_GROUPS: usize = 1024;
/// Most operations in all transactions of a script. chosen: each takes up to 190 KB for histograms.
pub const MAX_OPERATIONS: usize = 2_000;
/// Most connections of a thread, by their number. chosen: more than any profile lists.
pub const MAX_CONNECTION_NUMBER: u32 = 1023;
/// Most other ends beside the first. chosen: more than any profile names.
pub const MAX_REMOTES: u32 = 255;

/// What one end does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Groups of threads; they all begin at the start and know nothing of each other.
    pub groups: Vec<Group>,
}

/// Threads that do the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name in the account and in errors.
    pub name: String,
    /// Number of threads.
    pub threads: u32,
    /// Done in this order.
    pub transactions: Vec<Transaction>,
}

/// Operations that are done over and over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    /// When a thread is done with it.
    pub until: Until,
    /// How often a thread begins an iteration; absent: as soon as the one before it is over. Only the end whose first
    /// operation does not wait for the other end keeps the rate.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// Done in this order in each iteration.
    pub operations: Vec<FlowOp>,
}

/// When a thread is done with a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Until {
    /// After so many iterations.
    Iterations {
        /// How many.
        iterations: u64,
    },
    /// After this time from the begin of the transaction; the sending end of the job (`role: send`) measures it.
    Duration {
        /// How long.
        duration_ns: Nanos,
    },
}

/// Iterations at equal distances of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// So many ...
    pub iterations: u64,
    /// ... in this time, by each thread.
    pub period_ns: Nanos,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Opens a connection to the other end, which accepts it.
    Connect,
    /// Takes the connection that the other end opens.
    Accept,
    /// Closes a connection.
    Disconnect,
    /// Takes a message with `read`.
    Read,
    /// Sends a message with `write`.
    Write,
    /// Sends a message with `send`.
    Send,
    /// Takes a message with `recv`.
    Recv,
    /// Sends a message with `sendto`.
    Sendto,
    /// Takes a message with `recvfrom`.
    Recvfrom,
    /// Sends a message out of files, the next file each time, with `sendfile`.
    Sendfile,
    /// Sends a message that is put together from all files, each an equal part, with one `sendfile` each.
    Sendfilev,
    /// Pauses, or computes, for `duration_ns`.
    Think,
    /// Does nothing.
    Nop,
}

/// What a connection travels on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP: a connected socket at both ends; the payload is the message. Its first 16 bytes, where it has so many, tell which
    /// one it is.
    Udp,
    /// A stream socket of the Unix domain; both ends on one host, in one network namespace.
    Unix,
    /// TLS over TCP.
    Tls,
    /// A stream socket between virtual machines and their host.
    Vsock,
    /// SCTP.
    Sctp,
}

/// Length of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "law", rename_all = "snake_case", deny_unknown_fields)]
pub enum Size {
    /// All alike.
    Fixed {
        /// Length of each.
        bytes: Bytes,
    },
    /// Every length from the least to the greatest is as likely.
    Uniform {
        /// Least length, 1 at least.
        least_bytes: Bytes,
        /// Greatest length.
        greatest_bytes: Bytes,
    },
}

impl Size {
    /// Longest message.
    #[must_use]
    pub fn greatest(self) -> u64 {
        match self {
            Size::Fixed { bytes } => bytes.0,
            Size::Uniform { greatest_bytes, .. } => greatest_bytes.0,
        }
    }
}

/// How time passes in a `think`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Think {
    /// Asleep.
    #[default]
    Idle,
    /// Computing.
    Busy,
}

/// One operation of a transaction (uperf: flowop).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowOp {
    /// What it does.
    pub call: Call,
    /// Its name in the account and in errors, such as `write`, or `write 2` for a second one.
    pub label: String,
    /// Which connection of the thread, 0 to [`MAX_CONNECTION_NUMBER`].
    #[serde(default)]
    pub connection: u32,
    /// Which other end: 0, the job's `address`, or the so many-th of its `remote_addresses`. The receiving end knows one,
    /// and does nothing where this is not 0: that is between the sender and another end.
    #[serde(default)]
    pub remote: u32,
    /// What the connection travels on; the same in all operations on it.
    #[serde(default)]
    pub protocol: Protocol,
    /// Length of a message; needed where one is sent or taken. At the receiving end the sender's. Absent of `sendfile`: a
    /// whole file; of `sendfilev`: so many whole files; of the `read` that takes them: what the other end announces.
    #[serde(default)]
    pub size: Option<Size>,
    /// Most bytes that one call sends or takes of a message (uperf's `rsize` at the receiving end); absent: the
    /// whole message.
    #[serde(default)]
    pub call_bytes: Option<Bytes>,
    /// How often it is done in one iteration. One sample of the time of the operation covers all of it.
    #[serde(default = "once")]
    pub count: u64,
    /// How often each of these is repeated; as `count` in all, kept apart because profiles have both.
    #[serde(default = "once")]
    pub repeat: u64,
    /// How long it may wait. A datagram that does not come in time is lost where the other end has sent it; everything else
    /// then fails. Absent: a connection may take 10 s to come up; a datagram, after the other end was to send it, the job's
    /// `response_timeout_ns` or ten round trips of the path, whichever is longer; all else what it takes.
    #[serde(default)]
    pub timeout_ns: Option<Nanos>,
    /// How long a `think` lasts.
    #[serde(default)]
    pub duration_ns: Nanos,
    /// How time passes in a `think`.
    #[serde(default)]
    pub think: Think,
    /// Whether its failure is counted and the script goes on; otherwise it ends the job.
    #[serde(default)]
    pub can_fail: bool,
    /// Whether calls do not wait: where one would, `poll` is asked when it is worth while again, as programs with
    /// non-blocking sockets do.
    #[serde(default)]
    pub non_blocking: bool,
    /// Options of the socket (`connect` and `accept`).
    #[serde(default)]
    pub socket: SocketOptions,
    /// What is asked of SCTP: of its associations (`connect` and `accept`), and of the messages that are sent.
    #[serde(default)]
    pub sctp: Option<Sctp>,
    /// Directory on this host with the files of `sendfile`; absent: files made for the job and removed after it.
    #[serde(default)]
    pub directory: Option<String>,
    /// How many of its files go with one `sendfilev`, in the order of their names. `sendfile` takes one after the other of
    /// all, and this many where they are made.
    #[serde(default = "once_32")]
    pub files: u32,
}

/// What may be asked of SCTP (RFC 6458, section 8.1). Absent: the kernel's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sctp {
    /// Whether messages go out without waiting for more.
    pub nodelay: bool,
    /// First timeout of a retransmission, in milliseconds.
    pub rto_initial_ms: Option<u32>,
    /// Least timeout.
    pub rto_min_ms: Option<u32>,
    /// Greatest timeout.
    pub rto_max_ms: Option<u32>,
    /// How long an acknowledgement may wait.
    pub sack_delay_ms: Option<u32>,
    /// After how many packets one does not wait.
    pub sack_frequency: Option<u32>,
    /// Most packets that go out at once.
    pub max_burst: Option<u32>,
    /// Longest piece that a message is cut into.
    pub max_fragment_bytes: Option<u32>,
    /// Time between heartbeats.
    pub hb_interval_ms: Option<u32>,
    /// Packets' length, in the place of what the path is found to carry.
    pub path_mtu_bytes: Option<u32>,
    /// Streams that may come in.
    pub in_streams: Option<u16>,
    /// Streams that go out.
    pub out_streams: Option<u16>,
    /// The stream that a message goes out on.
    pub stream: u16,
    /// Whether a message may overtake others.
    pub unordered: bool,
}

fn once() -> u64 {
    1
}

fn once_32() -> u32 {
    1
}

impl Call {
    /// Whether it sends a message.
    #[must_use]
    pub fn sends(self) -> bool {
        matches!(self, Call::Write | Call::Send | Call::Sendto | Call::Sendfile | Call::Sendfilev)
    }

    /// Whether it takes a message.
    #[must_use]
    pub fn takes(self) -> bool {
        matches!(self, Call::Read | Call::Recv | Call::Recvfrom)
    }

    /// Whether it waits until the other end has done something.
    #[must_use]
    pub fn waits(self) -> bool {
        self.takes() || self == Call::Accept
    }
}

impl FlowOp {
    /// An operation with this call and label, and everything else as where nothing is said.
    #[must_use]
    pub fn new(call: Call, label: &str) -> Self {
        FlowOp {
            call,
            label: label.to_owned(),
            connection: 0,
            remote: 0,
            protocol: Protocol::Tcp,
            size: None,
            call_bytes: None,
            count: 1,
            repeat: 1,
            timeout_ns: None,
            duration_ns: Nanos(0),
            think: Think::Idle,
            can_fail: false,
            non_blocking: false,
            socket: SocketOptions::default(),
            sctp: None,
            directory: None,
            files: 1,
        }
    }

    /// How often it is done in one iteration.
    #[must_use]
    pub fn times(&self) -> u64 {
        self.count.saturating_mul(self.repeat)
    }

    fn check(&self) -> Result<(), JobError> {
        if self.connection > MAX_CONNECTION_NUMBER {
            return refuse("connection", self.connection, format!("0 to {MAX_CONNECTION_NUMBER}"));
        }
        if self.remote > MAX_REMOTES {
            return refuse("remote", self.remote, format!("0 to {MAX_REMOTES}"));
        }
        if self.count == 0 || self.repeat == 0 {
            return refuse("count", 0, "1 or more");
        }
        if self.timeout_ns == Some(Nanos(0)) {
            return refuse("timeout_ns", 0, "more than 0, or nothing");
        }
        if self.call_bytes == Some(Bytes(0)) {
            return refuse("call_bytes", 0, "1 or more, or nothing");
        }
        if self.call.sends() || self.call.takes() {
            return self.check_size();
        }
        Ok(())
    }

    fn check_size(&self) -> Result<(), JobError> {
        let files = matches!(self.call, Call::Sendfile | Call::Sendfilev);
        let Some(size) = self.size else {
            if (files || self.call == Call::Read) && self.files > 0 && self.protocol != Protocol::Udp {
                return Ok(());
            }
            return refuse("size", "nothing", "the length of its messages");
        };
        let most = if self.protocol == Protocol::Udp { MAX_DATAGRAM_BYTES } else { MAX_MESSAGE_BYTES };
        let least = match size {
            Size::Fixed { bytes } => bytes.0,
            Size::Uniform { least_bytes, .. } => least_bytes.0,
        };
        if least == 0 || least > size.greatest() || size.greatest() > most {
            let found = format!("{least} to {}", size.greatest());
            return refuse("size", found, format!("1 to {most} bytes, the least first"));
        }
        if files && (self.files == 0 || self.protocol == Protocol::Udp) {
            return refuse("files", self.files, "1 or more, over a stream");
        }
        Ok(())
    }
}

fn refuse<T>(key: &'static str, found: impl ToString, allowed: impl Into<String>) -> Result<T, JobError> {
    Err(JobError { key, found: found.to_string(), allowed: allowed.into() })
}

impl Script {
    /// Threads in all.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.threads)).sum()
    }

    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first thing that is not allowed, and where it is.
    pub fn check(&self) -> Result<(), JobError> {
        if self.groups.is_empty() || self.groups.len() > MAX_GROUPS {
            return refuse("script.groups", self.groups.len(), format!("1 to {MAX_GROUPS}"));
        }
        let threads = self.threads();
        if self.groups.iter().any(|group| group.threads == 0) || threads > u64::from(MAX_CONNECTIONS) {
            let allowed = format!("1 or more in each group, {MAX_CONNECTIONS} in all");
            return refuse("script.groups.threads", threads, allowed);
        }
        let operations: usize =
            self.transactions().map(|(_, _, transaction)| transaction.operations.len()).sum();
        if operations > MAX_OPERATIONS {
            return refuse("script", format!("{operations} operations"), format!("{MAX_OPERATIONS} in all"));
        }
        for (group, number, transaction) in self.transactions() {
            let within = |error: JobError, inner: &str| JobError {
                key: "script",
                found: format!(
                    "{} {} in group {:?}, transaction {number}{inner}",
                    error.key, error.found, group.name
                ),
                allowed: error.allowed,
            };
            transaction.check().map_err(|error| within(error, ""))?;
            for operation in &transaction.operations {
                operation.check().map_err(|error| within(error, &format!(", {}", operation.label)))?;
            }
        }
        Ok(())
    }

    /// Every transaction with its group and its number in it, from 1.
    pub fn transactions(&self) -> impl Iterator<Item = (&Group, usize, &Transaction)> {
        self.groups.iter().flat_map(|group| {
            group
                .transactions
                .iter()
                .enumerate()
                .map(move |(index, transaction)| (group, index + 1, transaction))
        })
    }

    /// The greatest number of another end in it.
    #[must_use]
    pub fn greatest_remote(&self) -> u32 {
        let operations = self.transactions().flat_map(|(_, _, transaction)| &transaction.operations);
        operations.map(|operation| operation.remote).max().unwrap_or(0)
    }

    /// What its connections travel on.
    #[must_use]
    pub fn protocols(&self) -> Vec<Protocol> {
        let operations = self.transactions().flat_map(|(_, _, transaction)| &transaction.operations);
        let of_connections =
            operations.filter(|operation| !matches!(operation.call, Call::Think | Call::Nop));
        let names: BTreeSet<u8> = of_connections.map(|operation| operation.protocol as u8).collect();
        let all =
            [Protocol::Tcp, Protocol::Udp, Protocol::Unix, Protocol::Tls, Protocol::Vsock, Protocol::Sctp];
        all.into_iter().filter(|protocol| names.contains(&(*protocol as u8))).collect()
    }
}

impl Transaction {
    fn check(&self) -> Result<(), JobError> {
        if self.operations.is_empty() {
            return refuse("operations", "none", "1 or more");
        }
        if let Until::Duration { duration_ns: Nanos(0) } = self.until {
            return refuse("duration_ns", 0, "more than 0");
        }
        if self.rate.is_some_and(|rate| rate.iterations == 0 || rate.period_ns.0 == 0) {
            return refuse("rate", "nothing", "some iterations in some time");
        }
        Ok(())
    }

    /// Whether all that moves in it is between the sender and other ends than this one, a receiving one.
    #[must_use]
    pub fn is_of_others(&self) -> bool {
        let waits_only = |operation: &FlowOp| matches!(operation.call, Call::Think | Call::Nop);
        self.operations.iter().any(|operation| operation.remote > 0)
            && self.operations.iter().all(|operation| operation.remote > 0 || waits_only(operation))
    }

    /// Whether this end keeps its rate: the end that waits is paced by the other.
    #[must_use]
    pub fn paces(&self) -> bool {
        let first =
            self.operations.iter().find(|operation| !matches!(operation.call, Call::Think | Call::Nop));
        self.rate.is_some() && first.is_none_or(|operation| !operation.call.waits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn script(operation: FlowOp, until: Until, threads: u32) -> Script {
        let transactions = vec![Transaction { until, rate: None, operations: vec![operation] }];
        Script { groups: vec![Group { name: "g".to_owned(), threads, transactions }] }
    }

    #[test]
    fn what_is_not_allowed_is_named_with_its_place() {
        let once = Until::Iterations { iterations: 1 };
        let refused = |operation: FlowOp| script(operation, once, 1).check().unwrap_err().to_string();
        let nothing = refused(FlowOp::new(Call::Write, "write 2"));
        assert!(nothing.contains("size nothing in group \"g\", transaction 1, write 2"), "{nothing}");
        let mut far = FlowOp::new(Call::Connect, "connect");
        far.remote = MAX_REMOTES + 1;
        assert!(refused(far).contains("remote"));
        assert!(script(FlowOp::new(Call::Nop, "nop"), once, 0).check().is_err());
        assert!(Script::default().check().is_err());
    }

    #[test]
    fn only_the_end_that_does_not_wait_keeps_a_rate() {
        let rate = Some(Rate { iterations: 10, period_ns: Nanos::SECOND });
        let paced = |calls: &[Call]| Transaction {
            until: Until::Iterations { iterations: 1 },
            rate,
            operations: calls.iter().map(|call| FlowOp::new(*call, "x")).collect(),
        };
        assert!(paced(&[Call::Write, Call::Read]).paces());
        assert!(!paced(&[Call::Read, Call::Write]).paces());
        assert!(!paced(&[Call::Think, Call::Accept]).paces());
        assert!(paced(&[Call::Think, Call::Connect]).paces());
    }

    proptest! {
        #[test]
        fn numbers_however_large_are_refused_or_taken_and_survive_json(
            call in 0usize..5, connection in any::<u32>(), bytes in any::<u64>(), least in any::<u64>(),
            count in any::<u64>(), repeat in any::<u64>(), duration in any::<u64>(), threads in any::<u32>(),
        ) {
            let call = [Call::Connect, Call::Write, Call::Recv, Call::Sendfile, Call::Think][call];
            let size = Some(Size::Uniform { least_bytes: Bytes(least), greatest_bytes: Bytes(bytes) });
            let operation = FlowOp { connection, size, count, repeat, ..FlowOp::new(call, "x") };
            let script = script(operation, Until::Duration { duration_ns: Nanos(duration) }, threads);
            let _ = script.check();
            let text = serde_json::to_string(&script).unwrap();
            prop_assert_eq!(serde_json::from_str::<Script>(&text).unwrap(), script);
        }
    }
}
