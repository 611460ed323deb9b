//! When a flow begins an operation in an open loop: it claims an arrival as soon as it has room, and begins when that is
//! due. For flows of datagrams, and for those that have a connection for each operation.

use super::open_loop::{OpenLoop, OpenTimes};
use super::shared::Shared;

/// The open loop of a job as one worker sees it.
#[derive(Clone, Copy)]
pub(crate) struct Arrivals<'a> {
    open: &'a OpenLoop,
    times: &'a OpenTimes,
}

/// What a flow has claimed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Claim {
    /// When the claimed arrival is due; 0: none is claimed.
    pub due: u64,
    /// When the flow had room for it, had the generator never been late.
    pub free: u64,
}

impl<'a> Arrivals<'a> {
    /// `None`: the loop is closed.
    pub(crate) fn of(shared: &'a Shared, worker: usize) -> Option<Self> {
        let open = shared.counters.open_loop.as_ref()?;
        Some(Arrivals { open, times: open.times(worker) })
    }

    /// The next arrival, for a flow that has room since `free`.
    #[inline]
    pub(crate) fn claim(self, flow: u32, free: u64) -> Claim {
        // 0 stands for none.
        Claim { due: self.open.claim(flow as usize).max(1), free }
    }

    /// The operation of a claim began at `begun`; how late that was.
    #[inline]
    pub(crate) fn begun(self, claim: Claim, begun: u64) -> u64 {
        let late = begun.saturating_sub(claim.due.max(claim.free));
        self.times.lateness.record(late);
        if claim.free > claim.due {
            self.times.waiting.record(claim.free - claim.due);
        }
        late
    }

    /// An operation that was due then ended `now`.
    #[inline]
    pub(crate) fn ended(self, due: u64, now: u64) {
        self.times.response.record(now.saturating_sub(due));
    }
}
