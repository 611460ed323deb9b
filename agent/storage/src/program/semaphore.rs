//! Semaphores, at which threads of a program wait for each other: one that counts and one for wake-ups, for every flowop that
//! waits, in every thread that has it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use iodyno_sys::lock::locked;
use std::sync::{Condvar, Mutex, PoisonError};

/// What all waits of a program have in common.
#[derive(Debug, Default)]
pub(super) struct Waits {
    stopped: AtomicBool,
    /// Threads that wait for others, and for which nothing has changed since they looked: one that may go on, and has had
    /// no CPU for it yet, is not among them.
    waiting: AtomicU64,
    /// Grows whenever a thread is let go, or ends.
    moves: AtomicU64,
}

impl Waits {
    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(SeqCst)
    }

    /// Threads that wait for others, and how often one was let go so far.
    pub(super) fn state(&self) -> (u64, u64) {
        (self.waiting.load(SeqCst), self.moves.load(SeqCst))
    }

    /// A thread has ended: one that waits less can be hoped for.
    pub(super) fn moved(&self) {
        self.moves.fetch_add(1, SeqCst);
    }
}

#[derive(Debug, Default)]
struct State {
    /// Wake-ups that came since the last wait, one at most.
    woken: bool,
    /// What was posted and not taken.
    low: u64,
    /// What may still be posted before a blocking post waits.
    high: u64,
    /// How often something has changed, and how many threads wait that have looked since.
    changes: u64,
    unchanged: u64,
}

/// A semaphore that counts, and a binary one for wake-ups.
#[derive(Debug, Default)]
pub(super) struct Semaphore {
    state: Mutex<State>,
    bell: Condvar,
}

impl Semaphore {
    /// One that holds `high_water` before a blocking post waits.
    pub(super) fn new(high_water: u64) -> Self {
        Semaphore { state: Mutex::new(State { high: high_water, ..State::default() }), bell: Condvar::new() }
    }

    /// Waits until `ready`; `false`: the program was stopped first.
    fn wait(&self, waits: &Waits, mut ready: impl FnMut(&mut State) -> bool) -> bool {
        let mut state = locked(&self.state);
        if ready(&mut state) {
            return true;
        }
        let mut seen = None;
        let outcome = loop {
            if waits.is_stopped() {
                break false;
            }
            if seen != Some(state.changes) {
                seen = Some(state.changes);
                state.unchanged += 1;
                waits.waiting.fetch_add(1, SeqCst);
            }
            state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
            if ready(&mut state) {
                break true;
            }
        };
        waits.moves.fetch_add(1, SeqCst);
        if seen == Some(state.changes) {
            state.unchanged -= 1;
            waits.waiting.fetch_sub(1, SeqCst);
        }
        outcome
    }

    /// Changes what is waited for, and has those who wait look.
    fn change(&self, waits: &Waits, change: impl FnOnce(&mut State)) {
        let mut state = locked(&self.state);
        change(&mut state);
        let_go(&mut state, waits);
        drop(state);
        self.bell.notify_all();
    }

    /// Waits for a wake-up; one that came since the last wait counts, so that none is lost.
    pub(super) fn block(&self, waits: &Waits) -> bool {
        self.wait(waits, |state| std::mem::take(&mut state.woken))
    }

    /// Ends the wait of whoever blocks here, or will.
    pub(super) fn wake(&self, waits: &Waits) {
        self.change(waits, |state| state.woken = true);
    }

    /// Lets `value` more be posted, and waits until as much was.
    pub(super) fn take(&self, waits: &Waits, value: u64) -> bool {
        self.change(waits, |state| state.high = state.high.saturating_add(value));
        self.wait(waits, |state| {
            let enough = state.low >= value;
            if enough {
                state.low -= value;
            }
            enough
        })
    }

    /// Posts `value`; a blocking post waits until there is room for it.
    pub(super) fn post(&self, waits: &Waits, value: u64, blocking: bool) -> bool {
        if blocking {
            let posted = self.wait(waits, |state| {
                let room = state.high >= value;
                if room {
                    state.high -= value;
                    state.low = state.low.saturating_add(value);
                }
                room
            });
            self.change(waits, |_| {});
            return posted;
        }
        self.change(waits, |state| state.low = state.low.saturating_add(value));
        true
    }
}

/// Those who wait are about to look: none of them waits for another thread until it has.
fn let_go(state: &mut State, waits: &Waits) {
    state.changes += 1;
    waits.waiting.fetch_sub(std::mem::take(&mut state.unchanged), SeqCst);
    waits.moves.fetch_add(1, SeqCst);
}

/// Ends every wait, now and from now on.
pub(super) fn stop<'a>(waits: &Waits, semaphores: impl Iterator<Item = &'a Semaphore>) {
    waits.stopped.store(true, SeqCst);
    for semaphore in semaphores {
        // Taking the lock orders this after a waiter's look and before its sleep, or before its look.
        drop(locked(&semaphore.state));
        semaphore.bell.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_that_comes_first_is_not_lost_and_counts_once() {
        let (waits, semaphore) = (Waits::default(), Semaphore::default());
        semaphore.wake(&waits);
        semaphore.wake(&waits);
        assert!(semaphore.block(&waits));
        std::thread::scope(|scope| {
            let blocked = scope.spawn(|| semaphore.block(&waits));
            while waits.state().0 == 0 {
                std::thread::yield_now();
            }
            stop(&waits, [&semaphore].into_iter());
            assert!(!blocked.join().unwrap());
        });
    }

    #[test]
    fn a_thread_that_was_let_go_waits_for_nobody_though_it_has_had_no_cpu_yet() {
        let (waits, semaphore) = (Waits::default(), Semaphore::default());
        std::thread::scope(|scope| {
            let blocked = scope.spawn(|| semaphore.block(&waits));
            while waits.state().0 == 0 {
                std::thread::yield_now();
            }
            // It cannot go on while this lock is held, and nobody else will ever do anything for it.
            let moves = waits.state().1;
            let mut state = locked(&semaphore.state);
            state.woken = true;
            let_go(&mut state, &waits);
            assert_eq!((waits.state().0, waits.state().1 > moves), (0, true));
            drop(state);
            semaphore.bell.notify_all();
            assert!(blocked.join().unwrap());
        });
        assert_eq!(waits.state().0, 0);
    }

    #[test]
    fn posts_wait_for_room_and_taking_makes_room() {
        let (waits, semaphore) = (Waits::default(), Semaphore::new(2));
        std::thread::scope(|scope| {
            let poster = scope.spawn(|| (0..10).all(|_| semaphore.post(&waits, 1, true)));
            while waits.state().0 == 0 {
                std::thread::yield_now();
            }
            assert_eq!(locked(&semaphore.state).low, 2);
            // 5 more than the two may be posted: the poster stops at the seventh, five of them are taken.
            assert!(semaphore.take(&waits, 5));
            assert!(semaphore.take(&waits, 5));
            assert!(poster.join().unwrap());
        });
        assert!(semaphore.post(&waits, 100, false));
        assert!(semaphore.take(&waits, 100));
    }
}
