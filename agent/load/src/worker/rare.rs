//! Counts of a whole job that every worker adds to: rare events, or ones that each cost microseconds anyway.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use iodyno_sys::stream_calls::Completions;

/// Counters that all workers of a job share.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct RareEvents {
    opened: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    without_port: AtomicU64,
    completed: AtomicU64,
    copied: AtomicU64,
}

/// What [`RareEvents`] held at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RareTotals {
    /// Connections opened while the load was on (accepted and proven, at the receiver).
    pub opened: u64,
    /// Connections that the other end refused, or at the receiver: that did not show the token.
    pub refused: u64,
    /// Connections that broke before their answer was there.
    pub failed: u64,
    /// Attempts to connect that found no local port left, and were made again later.
    pub without_port: u64,
    /// Sends without a copy that the kernel is done with.
    pub completed: u64,
    /// Of these, how many were copied after all.
    pub copied: u64,
}

impl RareEvents {
    pub(crate) fn opened(&self) {
        self.opened.fetch_add(1, Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    pub(crate) fn without_port(&self) {
        self.without_port.fetch_add(1, Relaxed);
    }

    pub(crate) fn zero_copy(&self, found: Completions) {
        if found.completed > 0 {
            self.completed.fetch_add(found.completed, Relaxed);
            self.copied.fetch_add(found.copied, Relaxed);
        }
    }

    pub(crate) fn read(&self) -> RareTotals {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        RareTotals {
            opened: of(&self.opened),
            refused: of(&self.refused),
            failed: of(&self.failed),
            without_port: of(&self.without_port),
            completed: of(&self.completed),
            copied: of(&self.copied),
        }
    }
}
