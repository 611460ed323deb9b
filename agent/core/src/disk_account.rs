//! The account of a storage job: what was obtained, what was done, what went wrong.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::disk::{DiskSyscalls, TargetKind};
use crate::histogram::Histogram;
use crate::units::Bytes;

/// Operations of one class in an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassCounts {
    /// `read`, `write`, `fsync`, ...; of a file program, the flowop's name.
    pub name: String,
    /// Bytes that the kernel took or gave.
    pub bytes: Bytes,
    /// Operations that ended well.
    pub operations: u64,
    /// Operations that failed.
    pub errors: u64,
    /// From when they were handed to the kernel to their end, of those that ended well.
    pub service_time: Histogram,
    /// From when they were to begin to their end; absent in a closed loop.
    #[serde(default)]
    pub response_time: Option<Histogram>,
}

/// Something that was asked for and is not in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Degraded {
    /// What: `io_uring.iopoll`, `io_uring.registered_buffers`, ...
    pub name: String,
    /// Why.
    pub reason: String,
}

/// A target as it was obtained, and what was done to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetAccount {
    /// Its path.
    pub path: String,
    /// What it is.
    pub kind: TargetKind,
    /// How long it was when it was opened.
    pub size_bytes: Bytes,
    /// Flags of the open file as read back: `direct`, `dsync`, `sync`, `append`.
    pub flags: Vec<String>,
    /// What offsets and lengths must be multiples of without the page cache; absent: not known.
    pub offset_align_bytes: Option<Bytes>,
    /// What addresses of memory must be multiples of then; absent: not known.
    pub memory_align_bytes: Option<Bytes>,
    /// Bytes of the region in the page cache before the start; absent: not known, with the reason in `resident_missing`.
    pub resident_before_bytes: Option<Bytes>,
    /// The same after the end.
    pub resident_after_bytes: Option<Bytes>,
    /// Why they are not known.
    #[serde(default)]
    pub resident_missing: Option<String>,
    /// What has become of its path while the load was on, where that no longer leads to what was read and written: removed, or
    /// another file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// Bytes read in all.
    pub read_bytes: Bytes,
    /// Bytes written in all.
    pub written_bytes: Bytes,
}

/// An operation that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskFailure {
    /// Its class.
    pub class: String,
    /// Index of its target.
    pub target: u32,
    /// Where.
    pub offset_bytes: Bytes,
    /// How much was asked for.
    pub length_bytes: Bytes,
    /// The kernel's error number; 0: the target ended before the block did.
    pub error: i32,
    /// What that means.
    pub what: String,
}

/// A block that was not what it should have been.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyFailure {
    /// Index of its target.
    pub target: u32,
    /// Where the checked unit begins.
    pub offset_bytes: Bytes,
    /// What should have been there.
    pub expected: String,
    /// What was.
    pub found: String,
}

/// Totals of a storage job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskAccount {
    /// Which calls carried the operations.
    pub syscalls: DiskSyscalls,
    /// What was asked for and is not in force.
    pub degraded: Vec<Degraded>,
    /// In the job's order.
    pub targets: Vec<TargetAccount>,
    /// Operations that moved less than was asked, and something.
    pub short_operations: u64,
    /// Operations that would have waited (flag `nowait`), and were made again without the flag.
    pub would_block: u64,
    /// Operations that failed.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<DiskFailure>,
    /// Checks that were made.
    pub verified_units: u64,
    /// Units whose writing was in flight while they were read: not checked.
    pub verify_skipped_units: u64,
    /// Checks that failed.
    pub verify_failures: u64,
    /// The first of them.
    pub first_verify_failure: Option<VerifyFailure>,
    /// Whether the load ended with its operations, before the windows did.
    pub complete: bool,
    /// Operations that did not end within the time allowed after the stop.
    pub unfinished_operations: u64,
}
