//! A set of numbers that many threads take from and give to without a lock.
//!
//! Two levels of bits: a word of the upper one says which of 64 words below are not empty, so that the next number of
//! a set of millions is found in some hundred nanoseconds. A number is *taken* by whoever clears its bit.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The set.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    below: u64,
    words: Box<[AtomicU64]>,
    /// Bit w % 64 of word w / 64: `words[w]` may hold something. Never clear where it does, but for a moment.
    upper: Box<[AtomicU64]>,
}

fn empty(length: usize) -> Box<[AtomicU64]> {
    (0..length).map(|_| AtomicU64::new(0)).collect()
}

impl Numbers {
    /// For numbers from 0 to `below`, itself not; empty.
    pub(super) fn new(below: u64) -> Self {
        let words = below.div_ceil(64) as usize;
        Numbers { below, words: empty(words), upper: empty(words.div_ceil(64)) }
    }

    #[inline]
    pub(super) fn contains(&self, number: u64) -> bool {
        self.words[(number / 64) as usize].load(SeqCst) >> (number % 64) & 1 == 1
    }

    /// Puts a number in.
    #[inline]
    pub(super) fn give(&self, number: u64) {
        let word = (number / 64) as usize;
        if self.words[word].fetch_or(1 << (number % 64), SeqCst) == 0 {
            self.upper[word / 64].fetch_or(1 << (word % 64), SeqCst);
        }
    }

    /// Takes a number out; whether the caller was the one to do it.
    #[inline]
    pub(super) fn take(&self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        let before = self.words[word].fetch_and(!bit, SeqCst);
        if before == bit {
            self.upper[word / 64].fetch_and(!(1 << (word % 64)), SeqCst);
            // Somebody may have given one between the two, and set the upper bit before it was cleared.
            if self.words[word].load(SeqCst) != 0 {
                self.upper[word / 64].fetch_or(1 << (word % 64), SeqCst);
            }
        }
        before & bit != 0
    }

    /// The least number of the set from `from` on, or from 0 on where there is none.
    pub(super) fn next(&self, from: u64) -> Option<u64> {
        let from = if from < self.below { from } else { 0 };
        // The upper level may be wrong for a moment: where it finds nothing, every word is looked at.
        let found = self.next_up(from).or_else(|| if from > 0 { self.next_up(0) } else { None });
        found.or_else(|| {
            self.words.iter().enumerate().find_map(|(word, bits)| lowest(word, bits.load(SeqCst)))
        })
    }

    /// From `from` on, without going back to 0.
    fn next_up(&self, from: u64) -> Option<u64> {
        let word = (from / 64) as usize;
        let bits = self.words.get(word)?.load(SeqCst) & (u64::MAX << (from % 64));
        if let Some(found) = lowest(word, bits) {
            return Some(found);
        }
        let after = word + 1;
        let mut group = after / 64;
        let mut mask = u64::MAX << (after % 64);
        while let Some(upper) = self.upper.get(group) {
            let mut filled = upper.load(SeqCst) & mask;
            while filled != 0 {
                let word = group * 64 + filled.trailing_zeros() as usize;
                if let Some(found) = lowest(word, self.words[word].load(SeqCst)) {
                    return Some(found);
                }
                filled &= filled - 1;
            }
            mask = u64::MAX;
            group += 1;
        }
        None
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.load(SeqCst).count_ones())).sum()
    }
}

fn lowest(word: usize, bits: u64) -> Option<u64> {
    (bits != 0).then(|| word as u64 * 64 + u64::from(bits.trailing_zeros()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_the_set_that_a_tree_would_be(
            below in 1_u64..20_000, steps in proptest::collection::vec((0_u8..3, any::<u64>()), 1..200)
        ) {
            let (set, mut oracle) = (Numbers::new(below), BTreeSet::new());
            for (what, number) in steps {
                let number = number % below;
                match what {
                    0 => {
                        set.give(number);
                        oracle.insert(number);
                    }
                    1 => prop_assert_eq!(set.take(number), oracle.remove(&number)),
                    _ => {
                        let expected = oracle.range(number..).next().or_else(|| oracle.iter().next());
                        prop_assert_eq!(set.next(number), expected.copied());
                    }
                }
                prop_assert_eq!(set.count(), oracle.len() as u64);
            }
        }
    }

    #[test]
    fn numbers_are_neither_lost_nor_taken_twice_by_threads() {
        const COUNT: u64 = 10_000;
        let (from, to) = (Numbers::new(COUNT), Numbers::new(COUNT));
        (0..COUNT).for_each(|number| from.give(number));
        let moved: u64 = std::thread::scope(|scope| {
            let work = |start: u64| {
                let (mut moved, mut at) = (0, start);
                while let Some(number) = from.next(at) {
                    if from.take(number) {
                        to.give(number);
                        moved += 1;
                    }
                    at = number + 1;
                }
                moved
            };
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread * 2_500))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((moved, to.count(), from.count()), (COUNT, COUNT, 0));
    }
}
