//! What a job asks of its sockets, and what the kernel said it gave.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Nanos};

/// An option of a socket that is one number; in a job under its name, in the unit that stands here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SocketNumber {
    /// `TCP_MAXSEG`: payload of a segment at most, in bytes.
    Mss,
    /// Differentiated services code point of what is sent (RFC 2474; `IP_TOS`, `IPV6_TCLASS`).
    Dscp,
    /// `SO_MAX_PACING_RATE`, in bit/s.
    PacingRate,
    /// `TCP_QUICKACK`, after the handshake: 1 acknowledges at once, 0 waits for data to go with. The kernel goes on to judge
    /// that by itself.
    QuickAck,
    /// `TCP_USER_TIMEOUT`, in nanoseconds: after so long without an acknowledgement the connection is given up.
    UserTimeout,
    /// `SO_PRIORITY`.
    Priority,
    /// `SO_REUSEPORT`, 0 or 1.
    ReusePort,
    /// `SO_INCOMING_CPU`: CPU whose packets a listener is chosen for.
    IncomingCpu,
    /// `TCP_NOTSENT_LOWAT`: who writes waits while more than so many bytes are not sent yet.
    NotSentLowWater,
}

impl SocketNumber {
    /// Its name in a job.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SocketNumber::Mss => "mss",
            SocketNumber::Dscp => "dscp",
            SocketNumber::PacingRate => "pacing_rate",
            SocketNumber::QuickAck => "quick_ack",
            SocketNumber::UserTimeout => "user_timeout",
            SocketNumber::Priority => "priority",
            SocketNumber::ReusePort => "reuse_port",
            SocketNumber::IncomingCpu => "incoming_cpu",
            SocketNumber::NotSentLowWater => "not_sent_low_water",
        }
    }

    /// Whether sockets of TCP alone have it.
    #[must_use]
    pub fn is_of_tcp(self) -> bool {
        use SocketNumber::{Mss, NotSentLowWater, QuickAck, UserTimeout};
        matches!(self, Mss | QuickAck | UserTimeout | NotSentLowWater)
    }
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
    /// `SO_BUSY_POLL`: how long a call looks at the device's queue before it sleeps.
    #[serde(default)]
    pub busy_poll_ns: Option<Nanos>,
    /// `SO_RCVLOWAT`, after the handshake: who reads is woken when so much has come.
    #[serde(default)]
    pub receive_low_water_bytes: Option<Bytes>,
    /// Options that are one number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<SocketNumber, i64>,
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
    /// `SO_BUSY_POLL` as read back.
    #[serde(default)]
    pub busy_poll_ns: Option<Nanos>,
    /// `SO_RCVLOWAT` as read back.
    #[serde(default)]
    pub receive_low_water_bytes: Option<Bytes>,
    /// Options that are one number and were asked for, as read back; without those that the kernel does not keep.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<SocketNumber, i64>,
    /// `TCP_MAXSEG`: payload of a full segment.
    pub segment_bytes: Option<Bytes>,
    /// Connections whose options differ from the first one's.
    pub differing: u32,
}
