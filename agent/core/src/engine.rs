//! How operations are handed to the kernel: by whom (the engine) and by which calls (the syscalls).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// Who makes the calls, and how it learns when to make the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// One thread a connection, blocking calls. A server of datagrams has one thread for all of its flows, which
    /// falls back to `poll` when there is nothing to take.
    Threads,
    /// One pinned worker a CPU, many connections each, `epoll` and non-blocking calls.
    Epoll,
    /// One pinned worker a CPU, many connections each, blocking calls: a message of one, then one of the next.
    RoundRobin,
    /// One pinned worker a CPU, many connections each; operations are submitted to and completed by `io_uring`.
    IoUring,
    /// One pinned worker a CPU on a ring that it shares with the kernel: packet sockets and `AF_XDP`.
    Rings,
    /// A program in the kernel that turns every answer into the next request: a client without a process.
    Reflector,
}

/// Which calls move the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Syscalls {
    /// `send` and `recv`, `sendto` and `recvfrom`.
    #[default]
    ReadWrite,
    /// `sendmsg` and `recvmsg`.
    Message,
    /// `sendmmsg` and `recvmmsg`, up to `batch` messages a call; of a stream of bytes, `batch` messages that lie one
    /// behind the other by one `send`.
    Batch,
    /// `send` with `MSG_ZEROCOPY`; `io_uring`: `SEND_ZC`.
    ZeroCopy,
    /// `sendfile` from a file in memory.
    Sendfile,
    /// `splice` from a file in memory through a pipe.
    Splice,
    /// UDP segmentation offload: up to `batch` datagrams a call, cut by the kernel or the device; the receiver takes
    /// what was joined again (`UDP_SEGMENT`, `UDP_GRO`).
    Segments,
}

/// The shape of a ring shared with the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ring {
    /// `TPACKET_V2` or `TPACKET_V3` of packet sockets; 0 for `AF_XDP`.
    pub version: u32,
    /// Packets that a block is to hold (V3: the block's size is made so that it holds this many of the load's packets).
    pub block_packets: u32,
    /// After which a block that is not full is handed over (V3).
    pub block_timeout_ns: Nanos,
    /// Whether the server changes the packets per block with the load (V3).
    #[serde(default)]
    pub adaptive: bool,
}
