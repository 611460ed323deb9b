//! Storage load: what is done to files and block devices, and the account of it.
//!
//! An *operation* reads or writes one block at an offset of one target. Each *worker* is a thread; it has `queue_depth`
//! operations in flight at a time where the calls are asynchronous, and one where it is not. A target is read and
//! written within the job's region and nowhere else.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arrivals::{Arrivals, Sizes};
pub use crate::disk_account::{
    ClassCounts, Degraded, DiskAccount, DiskFailure, TargetAccount, VerifyFailure,
};
use crate::units::{Bytes, Nanos};

/// Most threads of a storage job. chosen: ten times what a hundred clients' threads need.
pub const MAX_WORKERS: u32 = 4096;
/// Most operations that a worker has in flight: what an io_uring takes (`IORING_MAX_ENTRIES`).
pub const MAX_QUEUE_DEPTH: u32 = 32_768;
/// Longest block: what one call to the kernel takes, less a page (`MAX_RW_COUNT`), rounded down.
pub const MAX_BLOCK_BYTES: u64 = 1 << 30;
/// Most memory for the blocks of a job. chosen: more is a mistake in queue_depth, workers or block.
pub const MAX_MEMORY_BYTES: u64 = 8 << 30;
/// Most targets of a job.
pub const MAX_TARGETS: usize = 4096;
/// A whole, where shares are counted in millionths.
pub const WHOLE_PPM: u32 = 1_000_000;
/// Bytes that a block's own check takes at its begin; blocks that carry one are not shorter than a sector.
pub const LEAST_CHECKED_BYTES: u64 = 512;

/// What a target is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// A regular file that exists and is long enough.
    #[default]
    File,
    /// A block device.
    Device,
    /// Nothing: every operation is complete at once, without a call. Shows the cost of the load loop itself.
    Null,
}

/// One file or device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Where it is on this host.
    #[serde(default)]
    pub path: String,
    /// What it is; a path that is something else is refused.
    #[serde(default)]
    pub kind: TargetKind,
    /// How much of it may be used, from its begin; absent: all of it. A shorter one is refused.
    #[serde(default)]
    pub size_bytes: Option<Bytes>,
    /// Makes the file where there is none, and gives it its size (without blocks): a job that lays it out.
    #[serde(default)]
    pub create: bool,
}

/// Which offsets come one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Each block after the one before it, reads and writes each by themselves; from the begin again at the end.
    #[default]
    Sequential,
    /// Any place is as likely as any other, independent of those before.
    Random,
    /// Every block once, in a random order; then in another one.
    Shuffled,
    /// Each block `stride_bytes` after the one before it; from the begin again at the end.
    Strided,
    /// Places by Zipf's law with exponent `zipf_theta_ppm`; which are the frequent ones is scattered over the region.
    Zipf,
    /// Places by a bell curve, the mean of twelve even numbers and an even one `normal_deviation_ppm` of the region wide;
    /// which are the frequent ones is scattered over the region.
    Normal,
    /// A share of the operations goes to a share of the space, in the same way within that share, and so on: the one of
    /// `zones`. Which places are the frequent ones is scattered over the region.
    SelfSimilar,
    /// The region in parts, each with its share of the operations, alike within a part: `zones`.
    Zones,
    /// Writes that make the file longer, up to the region's end; then it is cut to the region's begin. One worker.
    Append,
}

impl Pattern {
    /// Whether each place is drawn, whatever came before.
    #[must_use]
    pub fn is_scattered(self) -> bool {
        matches!(
            self,
            Pattern::Random
                | Pattern::Shuffled
                | Pattern::Zipf
                | Pattern::Normal
                | Pattern::SelfSimilar
                | Pattern::Zones
        )
    }
}

/// How several workers go through one target in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sequence {
    /// Each has a part of the region to itself, all parts of one length.
    #[default]
    Split,
    /// They take blocks from one cursor: the target is gone through once by all together.
    Shared,
    /// Each goes through the whole region.
    Each,
}

/// A part of the region, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// How much of the region it is, from the end of the zone before it.
    pub share_of_space_ppm: u32,
    /// How many of the operations go there.
    pub share_of_operations_ppm: u32,
}

impl Zone {
    /// Half of the operations in half of the space.
    pub const EVEN: Zone = Zone { share_of_space_ppm: WHOLE_PPM / 2, share_of_operations_ppm: WHOLE_PPM / 2 };

    /// Whether both shares are between none and all.
    #[must_use]
    pub fn is_partial(self) -> bool {
        let partial = 1..WHOLE_PPM;
        partial.contains(&self.share_of_space_ppm) && partial.contains(&self.share_of_operations_ppm)
    }
}

/// Which calls carry the operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiskSyscalls {
    /// `pread` and `pwrite`.
    #[default]
    Pread,
    /// `preadv2` and `pwritev2`, with `flags`.
    Preadv2,
    /// `io_uring`.
    IoUring,
    /// Linux AIO (`io_submit`, `io_getevents`).
    Aio,
    /// A mapping of the region; blocks are copied from and to it.
    Mmap,
}

/// Flags of one call (`RWF_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallFlag {
    /// `RWF_HIPRI`: poll for completion.
    Hipri,
    /// `RWF_NOWAIT`: what would have to wait fails; it is counted and made again without the flag.
    Nowait,
    /// `RWF_DSYNC`, of writes.
    Dsync,
    /// `RWF_SYNC`, of writes.
    Sync,
    /// `RWF_DONTCACHE`: leaves the page cache as it was.
    Uncached,
}

/// How an `io_uring` is set up. What this kernel does not have is left away and told in the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Uring {
    /// Whether files are registered.
    #[serde(default = "yes")]
    pub registered_files: bool,
    /// Whether buffers are registered.
    #[serde(default = "yes")]
    pub registered_buffers: bool,
    /// Whether a thread of the kernel takes submissions (`IORING_SETUP_SQPOLL`).
    #[serde(default)]
    pub sqpoll: bool,
    /// Whether completions are polled for (`IORING_SETUP_IOPOLL`); needs `direct` and a device with poll queues.
    #[serde(default)]
    pub iopoll: bool,
}

impl Default for Uring {
    fn default() -> Self {
        Uring { registered_files: true, registered_buffers: true, sqpoll: false, iopoll: false }
    }
}

/// How writes are made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sync {
    /// Not by the load.
    #[default]
    None,
    /// Targets are opened with `O_DSYNC`.
    ODsync,
    /// Targets are opened with `O_SYNC`.
    OSync,
    /// `fsync` (`msync` of a mapping) after every `sync_every` writes of a worker, when none is in flight.
    Fsync,
    /// `fdatasync`, likewise.
    Fdatasync,
}

/// Whether blocks carry their own check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// No.
    #[default]
    None,
    /// Blocks that are written do; what is read is not looked at.
    Write,
    /// Blocks that are written do, and each one that is read must have a right one.
    Read,
}

/// What the bytes of a written block are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Nothing that could be compressed.
    #[default]
    Random,
    /// Zeros.
    Zero,
    /// `compressible_ppm` of each 4 KiB are zeros, the rest is random.
    Compressible,
}

/// What is done with the page cache of the region before the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// Nothing.
    #[default]
    Leave,
    /// The region is written back and dropped from it.
    Drop,
    /// As `drop`, and again whenever a worker is at the begin of its pattern again.
    EachPass,
    /// The region is read once.
    Warm,
}

/// Where the load may go in every target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Its begin.
    pub offset_bytes: Bytes,
    /// Its length.
    pub length_bytes: Bytes,
}

/// What an operation of a replayed trace does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplayedKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// `fsync`; its offset and length mean nothing.
    Fsync,
}

/// Operations as they are in a trace, instead of a pattern; lists of one length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// When each is to begin, after the start, ascending; empty: as soon as one before it is complete.
    #[serde(default)]
    pub at_ns: Vec<Nanos>,
    /// What each does.
    pub kinds: Vec<ReplayedKind>,
    /// Where, in the region.
    pub offsets_bytes: Vec<Bytes>,
    /// How much.
    pub lengths_bytes: Vec<Bytes>,
    /// On which target, by index; empty: all on the first.
    #[serde(default)]
    pub targets: Vec<u32>,
}

/// Storage load of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// What is read and written, in turn.
    pub targets: Vec<Target>,
    /// Which offsets come one after the other.
    #[serde(default)]
    pub pattern: Pattern,
    /// Distance of [`Pattern::Strided`].
    #[serde(default)]
    pub stride_bytes: Option<Bytes>,
    /// Exponent of [`Pattern::Zipf`], in millionths.
    #[serde(default)]
    pub zipf_theta_ppm: Option<u32>,
    /// Width of [`Pattern::Normal`], in millionths of the region.
    #[serde(default)]
    pub normal_deviation_ppm: Option<u32>,
    /// Those of [`Pattern::Zones`], in order, which come to the whole; the one of [`Pattern::SelfSimilar`].
    #[serde(default)]
    pub zones: Vec<Zone>,
    /// How workers go through a target in order.
    #[serde(default)]
    pub sequence: Sequence,
    /// How many of the operations are reads.
    #[serde(default = "whole")]
    pub read_ratio_ppm: u32,
    /// How many of the operations are at random places, from which the others go on, of [`Pattern::Sequential`] and
    /// [`Pattern::Strided`].
    #[serde(default)]
    pub random_ratio_ppm: u32,
    /// Operations in order from each place on that is drawn, its own among them.
    #[serde(default = "one")]
    pub in_order: u32,
    /// Length of a block; the greatest, where there are several.
    pub block_bytes: Bytes,
    /// Lengths of blocks, where they are not all alike; rounded up to `align_bytes`.
    #[serde(default)]
    pub block_sizes: Option<Sizes>,
    /// Offsets are multiples of this; absent: of `block_bytes` where all blocks are alike, else of 512.
    #[serde(default)]
    pub align_bytes: Option<Bytes>,
    /// Threads.
    #[serde(default = "one")]
    pub workers: u32,
    /// Operations in flight, of each worker; more than 1 for [`DiskSyscalls::IoUring`] and [`DiskSyscalls::Aio`].
    #[serde(default = "one")]
    pub queue_depth: u32,
    /// Completions that a worker waits for at a time, up to `queue_depth`.
    #[serde(default = "one")]
    pub batch: u32,
    /// Which calls.
    #[serde(default)]
    pub syscalls: DiskSyscalls,
    /// Flags of each call ([`DiskSyscalls::Preadv2`] and [`DiskSyscalls::IoUring`]).
    #[serde(default)]
    pub flags: Vec<CallFlag>,
    /// How the ring is set up.
    #[serde(default)]
    pub io_uring: Uring,
    /// Whether targets are opened with `O_DIRECT`.
    #[serde(default)]
    pub direct: bool,
    /// How writes are made durable.
    #[serde(default)]
    pub sync: Sync,
    /// See [`Sync::Fsync`].
    #[serde(default = "one")]
    pub sync_every: u32,
    /// Whether blocks carry their own check, one for each `align_bytes`.
    #[serde(default)]
    pub verify: Verify,
    /// Where in each target; absent: everywhere.
    #[serde(default)]
    pub region: Option<Region>,
    /// Seed of everything that is drawn, and of checks.
    #[serde(default)]
    pub seed: u64,
    /// What written bytes are.
    #[serde(default)]
    pub content: Content,
    /// See [`Content::Compressible`].
    #[serde(default)]
    pub compressible_ppm: u32,
    /// What is done with the page cache before the start.
    #[serde(default)]
    pub cache: Cache,
    /// Whether the kernel is told if places are in order or not (`posix_fadvise`).
    #[serde(default)]
    pub advised: bool,
    /// The load ends after so many operations of all workers together, or with the windows; absent: with the windows.
    #[serde(default)]
    pub operations: Option<u64>,
    /// Operations that may fail; one more ends the job.
    #[serde(default)]
    pub errors_allowed: u64,
    /// Operations of a trace, instead of a pattern.
    #[serde(default)]
    pub replay: Option<Replay>,
    /// When operations are to begin; absent: a closed loop, or as the trace has it.
    #[serde(default)]
    pub arrivals: Option<Arrivals>,
    /// How long a worker pauses after every `think_every` operations, when none is in flight; of closed loops.
    #[serde(default)]
    pub think_ns: Nanos,
    /// See `think_ns`.
    #[serde(default = "one")]
    pub think_every: u32,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

fn whole() -> u32 {
    WHOLE_PPM
}

impl Default for Disk {
    /// 4 KiB reads in order of nothing.
    fn default() -> Self {
        Disk {
            targets: vec![Target { kind: TargetKind::Null, ..Target::default() }],
            pattern: Pattern::Sequential,
            stride_bytes: None,
            zipf_theta_ppm: None,
            normal_deviation_ppm: None,
            zones: Vec::new(),
            sequence: Sequence::Split,
            read_ratio_ppm: WHOLE_PPM,
            random_ratio_ppm: 0,
            in_order: 1,
            block_bytes: Bytes(4096),
            block_sizes: None,
            align_bytes: None,
            workers: 1,
            queue_depth: 1,
            batch: 1,
            syscalls: DiskSyscalls::Pread,
            flags: Vec::new(),
            io_uring: Uring::default(),
            direct: false,
            sync: Sync::None,
            sync_every: 1,
            verify: Verify::None,
            region: None,
            seed: 0,
            content: Content::Random,
            compressible_ppm: 0,
            cache: Cache::Leave,
            advised: false,
            operations: None,
            errors_allowed: 0,
            replay: None,
            arrivals: None,
            think_ns: Nanos(0),
            think_every: 1,
        }
    }
}

impl Disk {
    /// What offsets are multiples of, in bytes.
    #[must_use]
    pub fn alignment(&self) -> u64 {
        self.align_bytes.map_or_else(
            || if self.block_sizes.is_some() { 512.min(self.block_bytes.0) } else { self.block_bytes.0 },
            |align| align.0,
        )
    }

    /// Whether anything is written.
    #[must_use]
    pub fn writes(&self) -> bool {
        match &self.replay {
            Some(replay) => replay.kinds.contains(&ReplayedKind::Write),
            None => self.read_ratio_ppm < WHOLE_PPM,
        }
    }
}
