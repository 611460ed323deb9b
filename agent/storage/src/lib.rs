//! Storage load: what is done to files and block devices.
//!
//! ```text
//! block::prepare ─▶ Prepared ── arm(start) ─▶ Running ── join ─▶ Finished
//!    targets opened,   threads parked           read at any time
//!    checked, cached
//! ```
//! `program::prepare` does the same for programs of file operations. `targets` makes files and devices ready before any of them.
//! As with the network's load, everything that can fail or takes memory happens before the start. From then on a worker
//! calls the kernel, reads the clock and adds to counters, and does nothing else.

#![forbid(unsafe_code)]

use iodyno_core::units::Nanos;

pub mod block;
pub mod classes;
pub mod program;
pub mod targets;

/// chosen: an operation that has not ended so long after the load was to stop is given up. A device that resets itself
/// takes up to 30 s for it (the kernel's timeout of SCSI and NVMe commands).
pub const GRACE: Nanos = Nanos(31_000_000_000);
