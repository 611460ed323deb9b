//! Locks that outlive a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also what a thread that panicked has left behind: that it panicked is said elsewhere, and what is locked here are
/// simple values, each as good as it was before.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_there_though_a_thread_panicked_with_it() {
        let value = Mutex::new(5);
        let ended = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    let _held = value.lock().unwrap();
                    std::panic::resume_unwind(Box::new(()));
                })
                .join()
        });
        assert!(ended.is_err() && value.is_poisoned());
        assert_eq!(*locked(&value), 5);
    }
}
