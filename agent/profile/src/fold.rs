//! Counts equal samples, while the load runs: addresses only, in bounded memory.

use std::collections::HashMap;

use iodyno_core::profile::Mode;

use crate::records::{Record, Records};

/// Most different stacks that are kept. chosen: ten times what a busy minute brings, some 20 MB at worst.
const STACKS: usize = 65_536;

/// Samples that were taken out of the rings.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    /// How often each stack was seen. Its first word is [`Head::packed`], the others are the chain of callers.
    stacks: HashMap<Box<[u64]>, u64>,
    /// The stack in hand, kept for its memory.
    stack: Vec<u64>,
    /// Samples that did not fit into a ring or in here, and records that could not be read.
    pub lost: u64,
    /// How often the kernel suspended sampling.
    pub throttled: u64,
}

/// Who ran in which mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub process: u32,
    pub mode: Mode,
}

impl Head {
    fn packed(self) -> u64 {
        u64::from(self.process) << 1 | u64::from(self.mode == Mode::User)
    }

    fn unpacked(word: u64) -> Head {
        Head { process: (word >> 1) as u32, mode: if word & 1 == 1 { Mode::User } else { Mode::Kernel } }
    }
}

impl Fold {
    /// Counts the samples among `words`.
    pub fn add(&mut self, words: &[u64]) {
        for record in Records(words) {
            match record {
                Record::Sample(sample) => {
                    let head = Head { process: sample.process, mode: sample.mode };
                    self.stack.clear();
                    self.stack.push(head.packed());
                    match sample.chain {
                        [] => self.stack.push(sample.instruction),
                        chain => self.stack.extend_from_slice(chain),
                    }
                    self.count_stack();
                }
                Record::Lost(samples) => self.lost = self.lost.saturating_add(samples),
                Record::Throttled => self.throttled += 1,
                Record::Broken => self.lost = self.lost.saturating_add(1),
                Record::Other => {}
            }
        }
    }

    fn count_stack(&mut self) {
        if let Some(count) = self.stacks.get_mut(self.stack.as_slice()) {
            *count += 1;
        } else if self.stacks.len() < STACKS {
            self.stacks.insert(self.stack.as_slice().into(), 1);
        } else {
            self.lost = self.lost.saturating_add(1);
        }
    }

    /// Every stack: who, the chain of callers, and how often it was seen.
    pub fn stacks(&self) -> impl Iterator<Item = (Head, &[u64], u64)> {
        self.stacks.iter().filter_map(|(stack, count)| {
            let (head, chain) = stack.split_first()?;
            Some((Head::unpacked(*head), chain, *count))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::tests::{record, sample_of};

    #[test]
    fn equal_samples_are_counted_and_losses_told() {
        let mut fold = Fold::default();
        let words = [
            sample_of(7, Mode::User, &[1, 2]),
            sample_of(7, Mode::Kernel, &[1, 2]),
            sample_of(8, Mode::User, &[1, 2]),
            sample_of(7, Mode::User, &[]),
            record(2, 0, &[0, 40]),
            record(5, 0, &[]),
        ]
        .concat();
        fold.add(&words);
        fold.add(&words[..words.len() - 1]);
        fold.add(&[0]);
        let mut stacks: Vec<_> = fold.stacks().collect();
        stacks.sort_by_key(|(head, chain, _)| (head.process, head.mode == Mode::Kernel, chain.len()));
        let head = |process, mode| Head { process, mode };
        assert_eq!(
            stacks,
            [
                (head(7, Mode::User), &[7][..], 2),
                (head(7, Mode::User), &[1, 2][..], 2),
                (head(7, Mode::Kernel), &[1, 2][..], 2),
                (head(8, Mode::User), &[1, 2][..], 2),
            ]
        );
        assert_eq!((fold.lost, fold.throttled), (81, 1));
    }

    #[test]
    fn memory_is_bounded_and_what_does_not_fit_is_counted() {
        let mut fold = Fold::default();
        for address in 0..STACKS as u64 + 10 {
            fold.add(&sample_of(1, Mode::User, &[address]));
        }
        fold.add(&sample_of(1, Mode::User, &[0]));
        assert_eq!((fold.stacks().count(), fold.lost), (STACKS, 10));
    }
}
