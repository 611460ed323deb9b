//! What a job asks of its sockets, and what the kernel said it gave.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Nanos};

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
    /// `TCP_MAXSEG`: payload of a full segment.
    pub segment_bytes: Option<Bytes>,
    /// Connections whose options differ from the first one's.
    pub differing: u32,
}
