//! Limits of jobs, and the error of one that keeps to none of them.

use crate::units::Nanos;

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
/// Most requests in flight on a connection. chosen: more than any path holds.
pub const MAX_QUEUE_DEPTH: u32 = 65_536;
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

/// Why a job cannot be taken: which key, what was found, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid value {found} for {key}: expected {allowed}")]
pub struct JobError {
    /// Key in the job.
    pub key: &'static str,
    /// What it held.
    pub found: String,
    /// What it may hold.
    pub allowed: String,
}
