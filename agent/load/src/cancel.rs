//! Dropping a job while it is being prepared or runs.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

/// Shared word that a job was dropped. Every stage that can wait looks at it at least every 50 ms.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Drops the job.
    pub fn cancel(&self) {
        self.0.store(true, Relaxed);
    }

    /// Whether it was dropped.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Relaxed)
    }
}
