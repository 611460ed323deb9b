//! Which numbers of a stream's flow came: a window of the last ones, so that one that comes late is told from one that
//! never does.

/// chosen: numbers that a datagram may be late by before it counts as lost: nearly as many as TCP gives them at most
/// (`tcp_max_reordering`: 300), and at low rates a loss is known soon.
const WORDS: usize = 4;

/// What the arrival of a number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It came for the first time.
    New {
        /// Numbers that are now too old to come, and did not.
        lost: u64,
        /// A higher one came before it.
        reordered: bool,
    },
    /// It came before.
    Duplicate,
    /// It was counted as lost, or it came before: it is too old to know.
    Late,
}

/// The numbers of one flow, with a window of `N` times 64. Each number below `next` either came, or was counted as lost, or is
/// still waited for.
pub(crate) struct Sequence<const N: usize = WORDS> {
    /// One more than the highest number that came.
    next: u64,
    /// Whether each of the last numbers below `next` came, at its number modulo the window. Those below 0 count as if they had.
    came: [u64; N],
}

impl<const N: usize> Default for Sequence<N> {
    fn default() -> Self {
        Sequence { next: 0, came: [u64::MAX; N] }
    }
}

impl<const N: usize> Sequence<N> {
    const WINDOW: u64 = 64 * N as u64;

    fn bit(number: u64) -> (usize, u64) {
        ((number % Self::WINDOW / 64) as usize, 1 << (number % 64))
    }

    /// Number `number` came.
    #[inline]
    pub(crate) fn arrive(&mut self, number: u64) -> Arrival {
        if number >= self.next {
            let lost = self.advance(number) + self.advance(number + 1);
            let (word, bit) = Self::bit(number);
            self.came[word] |= bit;
            return Arrival::New { lost, reordered: false };
        }
        if number + Self::WINDOW < self.next {
            return Arrival::Late;
        }
        let (word, bit) = Self::bit(number);
        if self.came[word] & bit != 0 {
            return Arrival::Duplicate;
        }
        self.came[word] |= bit;
        Arrival::New { lost: 0, reordered: true }
    }

    /// Nothing more comes of the `total` that were sent; `None`: nobody said how many. Gives how many did not come that
    /// were not counted yet.
    pub(crate) fn end(&mut self, total: Option<u64>) -> u64 {
        let total = total.unwrap_or(self.next).max(self.next);
        self.advance(total) + self.advance(total.saturating_add(Self::WINDOW))
    }

    /// The first number from `from` on that has not come, as far as that is known.
    pub(crate) fn first_missing(&self, from: u64) -> u64 {
        let mut known = from.max(self.next.saturating_sub(Self::WINDOW))..self.next.max(from);
        let missing = known.find(|number| {
            let (word, bit) = Self::bit(*number);
            self.came[word] & bit == 0
        });
        missing.unwrap_or(self.next.max(from))
    }

    /// Moves on to `to`; gives how many numbers fell out of the window that did not come. None of those between came.
    #[inline]
    fn advance(&mut self, to: u64) -> u64 {
        let skipped = to - self.next;
        let mut lost = 0;
        if skipped >= Self::WINDOW {
            lost = self.came.iter().map(|word| u64::from(word.count_zeros())).sum::<u64>() + skipped
                - Self::WINDOW;
            self.came = [0; N];
        } else {
            for number in self.next..to {
                let (word, bit) = Self::bit(number);
                lost += u64::from(self.came[word] & bit == 0);
                self.came[word] &= !bit;
            }
        }
        self.next = to;
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const WINDOW: u64 = Sequence::<WORDS>::WINDOW;

    #[test]
    fn a_late_one_is_not_lost_and_a_second_one_not_new() {
        let mut flow = <Sequence>::default();
        let new = |lost, reordered| Arrival::New { lost, reordered };
        assert_eq!(flow.arrive(0), new(0, false));
        assert_eq!(flow.arrive(3), new(0, false));
        assert_eq!(flow.arrive(1), new(0, true));
        assert_eq!(flow.arrive(1), Arrival::Duplicate);
        assert_eq!(flow.arrive(3), Arrival::Duplicate);
        assert_eq!([0, 3, 4].map(|from| flow.first_missing(from)), [2, 4, 4]);
        // 2 is still waited for until it is a window behind.
        assert_eq!(flow.arrive(WINDOW + 1), new(0, false));
        assert_eq!(flow.arrive(WINDOW + 2), new(1, false));
        assert_eq!(flow.arrive(2), Arrival::Late);
        assert_eq!(flow.end(Some(WINDOW + 6)), WINDOW + 1 - 4 + 3);
    }

    proptest! {
        #[test]
        fn what_was_sent_came_or_was_lost(
            dropped in prop::collection::btree_set(0u64..6000, 0..3000),
            swaps in prop::collection::vec((0usize..6000, 1usize..700), 0..200),
            total in 1u64..6000, said in any::<bool>()
        ) {
            let mut numbers: Vec<u64> = (0..total).filter(|number| !dropped.contains(number)).collect();
            for (from, by) in swaps {
                if from + by < numbers.len() {
                    numbers.swap(from, from + by);
                }
            }
            let (mut flow, mut received, mut lost, mut late) = (<Sequence>::default(), 0, 0, 0);
            let mut seen = BTreeSet::new();
            for number in numbers.iter().flat_map(|number| [*number, *number]) {
                match flow.arrive(number) {
                    Arrival::New { lost: more, .. } => {
                        prop_assert!(seen.insert(number));
                        received += 1;
                        lost += more;
                    }
                    Arrival::Duplicate => prop_assert!(seen.contains(&number)),
                    Arrival::Late => late += 1,
                }
            }
            lost += flow.end(said.then_some(total));
            let sent = if said { total } else { numbers.iter().max().map_or(0, |highest| highest + 1) };
            prop_assert_eq!(received + lost, sent);
            prop_assert!(late % 2 == 0 || late > 0);
        }
    }
}
