//! Operations of the block layer one by one, as the kernel's tracepoints tell them (`bpf/block.bpf.c`).

#[cfg(has_bpf)]
pub(crate) mod cost;
mod events;
#[cfg(has_bpf)]
mod kernel;
#[cfg(not(has_bpf))]
mod no_programs;
#[cfg(has_bpf)]
pub(crate) mod times;

pub use events::{BlockEvent, BlockOperation};
#[cfg(has_bpf)]
pub use kernel::BlockTrace;
#[cfg(not(has_bpf))]
pub use no_programs::BlockTrace;

/// Operations that could not be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untold {
    /// There was no room in the ring.
    pub no_room: u64,
    /// They had begun before the trace did.
    pub begun_before: u64,
    /// Their end was not seen: the kernel told none, or they have not ended yet.
    pub unseen: u64,
}
