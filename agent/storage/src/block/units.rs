//! Which writing of each unit is the last one, where blocks carry their own check.
//!
//! A unit that is being written is written by nobody else, so that two writings never mix; a read that met one is not
//! checked. A unit whose writing failed stays as being written: what is in it is not known.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use iodyno_core::block_check::{examine, stamp, UnitCheck, Wrong};
use iodyno_core::block_pattern::{Extent, Place};

/// chosen: 128 MB for their states.
pub(crate) const MOST_UNITS: u64 = 16 << 20;

/// Writings begun (high half) and ended.
#[derive(Default)]
struct State(AtomicU64);

fn halves(word: u64) -> (u64, u64) {
    (word >> 32, word & 0xffff_ffff)
}

/// The checked units of a job.
pub(crate) struct Units {
    unit: u64,
    seed: u64,
    /// Generations of this job are above those of earlier ones.
    base: u64,
    extents: Vec<Extent>,
    /// Empty where the job does not write.
    states: Vec<Box<[State]>>,
}

/// What a read has met at its begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    begun: u64,
    quiet: bool,
}

impl Units {
    /// `now_s`: of the wall clock, so that later jobs have higher generations.
    pub(crate) fn new(unit: u64, seed: u64, now_s: u64, extents: &[Extent], writes: bool) -> Self {
        let states = |extent: &Extent| (0..extent.length / unit).map(|_| State::default()).collect();
        Units {
            unit,
            seed,
            base: now_s << 32,
            extents: extents.to_vec(),
            states: if writes { extents.iter().map(states).collect() } else { Vec::new() },
        }
    }

    fn of(&self, place: &Place) -> &[State] {
        let target = place.target as usize;
        let first = ((place.offset - self.extents[target].offset) / self.unit) as usize;
        let count = (u64::from(place.length) / self.unit) as usize;
        self.states.get(target).map_or(&[], |states| &states[first..first + count])
    }

    /// Takes the units of a block for a writing, and writes their checks into it; false: one of them is being written.
    pub(crate) fn begin_write(&self, place: &Place, bytes: &mut [u8]) -> bool {
        let states = self.of(place);
        for (at, State(state)) in states.iter().enumerate() {
            let word = state.load(SeqCst);
            let (begun, ended) = halves(word);
            let taken = begun == ended
                && state.compare_exchange(word, (begun + 1) << 32 | ended, SeqCst, SeqCst).is_ok();
            if !taken {
                for State(other) in &states[..at] {
                    other.fetch_sub(1 << 32, SeqCst);
                }
                return false;
            }
            let unit = &mut bytes[at * self.unit as usize..(at + 1) * self.unit as usize];
            let offset = place.offset + at as u64 * self.unit;
            let generation = self.base | (begun + 1);
            stamp(unit, UnitCheck { offset, generation, seed: self.seed, target: place.target });
        }
        true
    }

    /// A writing ended well.
    pub(crate) fn end_write(&self, place: &Place) {
        for State(state) in self.of(place) {
            state.fetch_add(1, SeqCst);
        }
    }

    /// A read begins.
    pub(crate) fn begin_read(&self, place: &Place) -> Seen {
        let mut seen = Seen { begun: 0, quiet: true };
        for State(state) in self.of(place) {
            let (begun, ended) = halves(state.load(SeqCst));
            seen.begun += begun;
            seen.quiet &= begun == ended;
        }
        seen
    }

    /// Looks at what was read; `Ok(false)`: it was being written meanwhile.
    ///
    /// # Errors
    /// The first wrong unit: what was expected, what was found.
    pub(crate) fn end_read(
        &self,
        place: &Place,
        bytes: &[u8],
        seen: Seen,
    ) -> Result<bool, (UnitCheck, Wrong)> {
        if !seen.quiet || self.begin_read(place) != seen {
            return Ok(false);
        }
        let states = self.of(place);
        for (at, unit) in bytes.chunks_exact(self.unit as usize).enumerate() {
            let ended = states.get(at).map_or(0, |State(state)| halves(state.load(SeqCst)).1);
            let expected = UnitCheck {
                offset: place.offset + at as u64 * self.unit,
                generation: if ended > 0 { self.base | ended } else { 0 },
                seed: self.seed,
                target: place.target,
            };
            if let Err(wrong) = examine(unit, expected) {
                // Somebody may have begun to write it while it was looked at.
                return if self.begin_read(place) == seen { Err((expected, wrong)) } else { Ok(false) };
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_write_is_noticed_and_one_under_way_is_no_fault() {
        let extent = Extent { offset: 4096, length: 16_384 };
        let units = Units::new(512, 9, 100, &[extent], true);
        let place = Place { target: 0, offset: 8192, length: 1024, write: true, wrapped: false };
        let (mut first, mut second) = (vec![1; 1024], vec![2; 1024]);
        assert!(units.begin_write(&place, &mut first));
        assert!(!units.begin_write(&place, &mut second.clone()));
        // The neighbour is free, and stays so when a longer block could not have both.
        let beside = Place { offset: 7680, ..place };
        assert!(!units.begin_write(&beside, &mut second.clone()));
        let seen = units.begin_read(&place);
        assert_eq!(units.end_read(&place, &first, seen), Ok(false));
        units.end_write(&place);
        let seen = units.begin_read(&place);
        assert_eq!(units.end_read(&place, &first, seen), Ok(true));
        assert!(units.begin_write(&place, &mut second));
        assert_eq!(units.end_read(&place, &first, seen), Ok(false));
        units.end_write(&place);
        let seen = units.begin_read(&place);
        assert_eq!(units.end_read(&place, &second, seen), Ok(true));
        let (expected, wrong) = units.end_read(&place, &first, seen).unwrap_err();
        assert_eq!((expected.offset, expected.generation & 0xffff), (8192, 2));
        assert!(matches!(wrong, Wrong::Other(found) if found.generation & 0xffff == 1), "{wrong}");
    }
}
