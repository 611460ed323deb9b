//! A thread, and what is known of the threads at the other ends that it works with.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use iodyno_core::units::Nanos;

use super::stall::{Judgement, Stall};
use iodyno_sys::lock::locked;

/// What one other end has said of its thread.
#[derive(Default)]
pub(super) struct Other {
    /// One more than the last transaction that it has said the end of.
    ended: AtomicU32,
    /// The iterations that it does of that.
    ended_iterations: AtomicU64,
    /// Whether to open no more connections to it for now.
    held: AtomicBool,
    /// What it waits for, when it has for a while.
    pub stall: Mutex<Option<Stall>>,
    /// What it has found of a stall of this end.
    pub judgement: Mutex<Judgement>,
    /// Datagrams that it has sent, by transaction and connection: of the one that this end is in, and perhaps the next.
    sent: Mutex<BTreeMap<(u32, u32), u64>>,
}

impl Other {
    /// Iterations that it does of a transaction, once it has said so.
    #[inline]
    pub(super) fn iterations(&self, transaction: usize) -> Option<u64> {
        (self.ended.load(SeqCst) as usize > transaction).then(|| self.ended_iterations.load(SeqCst))
    }

    pub(super) fn is_held(&self) -> bool {
        self.held.load(SeqCst)
    }

    /// It has sent so many datagrams on a connection in a transaction.
    pub(super) fn has_sent(&self, transaction: u32, connection: u32, datagrams: u64) {
        locked(&self.sent).insert((transaction, connection), datagrams);
    }

    /// How many that were. Asked once all have come to the end of the transaction: who had sent none has said nothing.
    pub(super) fn take_sent(&self, transaction: u32, connection: u32) -> u64 {
        locked(&self.sent).remove(&(transaction, connection)).unwrap_or(0)
    }

    /// Whether it has waited long for this end.
    pub(super) fn waits(&self) -> bool {
        locked(&self.stall).is_some()
    }
}

/// A thread and those that it works with: one at each other end.
pub(super) struct Pair {
    /// Index of its group.
    pub group: usize,
    /// Its number in the group.
    pub number: usize,
    /// By remote.
    pub others: Vec<Other>,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Pair {
    pub(super) fn new(group: usize, number: usize, remotes: usize) -> Self {
        let others = (0..remotes).map(|_| Other::default()).collect();
        Pair { group, number, others, lock: Mutex::default(), bell: Condvar::new() }
    }

    /// The most iterations that another end does of a transaction, once all have said so.
    pub(super) fn iterations_of_others(&self, transaction: usize) -> Option<u64> {
        self.others.iter().try_fold(0, |most, other| Some(other.iterations(transaction)?.max(most)))
    }

    /// Another end has said how many iterations of a transaction it does.
    pub(super) fn end(&self, remote: usize, transaction: u32, iterations: u64) {
        let Some(other) = self.others.get(remote) else { return };
        other.ended_iterations.store(iterations, SeqCst);
        other.ended.store(transaction + 1, SeqCst);
        self.ring();
    }

    /// Another end has said whether to open no more connections for now.
    pub(super) fn hold(&self, remote: usize, held: bool) {
        let Some(other) = self.others.get(remote) else { return };
        other.held.store(held, SeqCst);
        self.ring();
    }

    /// Has the thread look again.
    pub(super) fn ring(&self) {
        drop(locked(&self.lock));
        self.bell.notify_all();
    }

    /// Sleeps for a time, or until rung; not at all where it is `done`.
    pub(super) fn wait(&self, time: Nanos, done: impl Fn() -> bool) {
        let guard = locked(&self.lock);
        if !done() {
            drop(self.bell.wait_timeout(guard, Duration::from_nanos(time.0)));
        }
    }
}
