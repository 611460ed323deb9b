//! One switch that ends whatever a job is doing.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use iodyno_core::units::Nanos;
use iodyno_sys::clock;
use iodyno_sys::lock::locked;

/// Connections by whoever may end a job and whoever carries it out. Once cancelled, it stays cancelled.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<Bell>);

#[derive(Debug, Default)]
struct Bell {
    cancelled: AtomicBool,
    lock: Mutex<()>,
    rung: Condvar,
}

impl Cancel {
    /// Ends every stage that waits or runs, within some 50 ms.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, SeqCst);
        self.ring();
    }

    /// Whether [`Cancel::cancel`] was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(SeqCst)
    }

    /// Has those who wait look again. Does not allocate.
    pub(crate) fn ring(&self) {
        // Taking the lock orders this after a waiter's look and before its sleep, or before its look.
        drop(locked(&self.0.lock));
        self.0.rung.notify_all();
    }

    /// Waits until `done`, cancelled, or `CLOCK_MONOTONIC` shows `until`; `None` waits for ever.
    pub fn wait(&self, until: Option<Nanos>, done: impl Fn() -> bool) {
        let mut guard = locked(&self.0.lock);
        while !done() && !self.is_cancelled() {
            let left = until.map_or(Nanos::SECOND, |until| until.minus(clock::monotonic()));
            if left.0 == 0 {
                return;
            }
            guard = match self.0.rung.wait_timeout(guard, Duration::from_nanos(left.0)) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}
