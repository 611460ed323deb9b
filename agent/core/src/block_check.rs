//! The check that a written block carries: who wrote it, for which place, how often, and a sum of all its bytes.
//!
//! Each unit of the job's alignment begins with 40 bytes, little-endian: magic, sum, offset, generation, seed, target,
//! length. The sum is CRC-32C (Castagnoli; RFC 3720, appendix B.4) of everything after itself, to the unit's end.

use std::fmt;

/// Bytes of the header.
const HEADER: usize = 40;
/// First bytes of a unit that carries a check.
const MAGIC: [u8; 4] = *b"iodB";

/// What a unit should be, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitCheck {
    /// Where it lies in its target, in bytes.
    pub offset: u64,
    /// Which writing of it this is; 0: any.
    pub generation: u64,
    /// Seed of the job that wrote it.
    pub seed: u64,
    /// Index of the target.
    pub target: u32,
}

impl fmt::Display for UnitCheck {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "offset {}, target {}, seed {}", self.offset, self.target, self.seed)?;
        if self.generation == 0 {
            return write!(out, ", any generation");
        }
        write!(out, ", generation {}", self.generation)
    }
}

/// What was found instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// No check at its begin: the first 8 bytes.
    Foreign(u64),
    /// The bytes are not those that were summed: the sum that stands there, and theirs.
    Damaged {
        /// What the header says; it may be damaged, too.
        header: UnitCheck,
        /// The sum in it.
        stored: u32,
        /// That of the bytes.
        computed: u32,
    },
    /// A whole unit, but another one.
    Other(UnitCheck),
}

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Foreign(first) => write!(out, "no check: the first 8 bytes are {first:#018x}"),
            Wrong::Damaged { header, stored, computed } => {
                write!(out, "sum {stored:#010x} of bytes whose sum is {computed:#010x} ({header})")
            }
            Wrong::Other(found) => write!(out, "{found}"),
        }
    }
}

fn word(unit: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&unit[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// Writes the check of a unit into its begin. Units are not shorter than 512 bytes.
///
/// # Panics
/// The unit is shorter than the header.
pub fn stamp(unit: &mut [u8], check: UnitCheck) {
    let length = unit.len() as u64;
    unit[8..16].copy_from_slice(&check.offset.to_le_bytes());
    unit[16..24].copy_from_slice(&check.generation.to_le_bytes());
    unit[24..32].copy_from_slice(&check.seed.to_le_bytes());
    unit[32..HEADER].copy_from_slice(&(u64::from(check.target) << 32 | length & 0xffff_ffff).to_le_bytes());
    let sum = crc32c::crc32c(&unit[8..]);
    unit[..4].copy_from_slice(&MAGIC);
    unit[4..8].copy_from_slice(&sum.to_le_bytes());
}

/// Whether bytes begin with a check for this offset, whatever became of the rest of the unit.
#[must_use]
pub fn is_at(bytes: &[u8], offset: u64) -> bool {
    bytes.len() >= HEADER && bytes[..4] == MAGIC && word(bytes, 8) == offset
}

/// Whether a unit is what it should be. An expected generation of 0 means any.
///
/// # Errors
/// What it is instead.
///
/// # Panics
/// The unit is shorter than the header.
pub fn examine(unit: &[u8], expected: UnitCheck) -> Result<(), Wrong> {
    if unit[..4] != MAGIC {
        return Err(Wrong::Foreign(word(unit, 0)));
    }
    let found = UnitCheck {
        offset: word(unit, 8),
        generation: word(unit, 16),
        seed: word(unit, 24),
        target: (word(unit, 32) >> 32) as u32,
    };
    let (stored, computed) = ((word(unit, 0) >> 32) as u32, crc32c::crc32c(&unit[8..]));
    if stored != computed || word(unit, 32) as u32 != unit.len() as u32 {
        return Err(Wrong::Damaged { header: found, stored, computed });
    }
    let generation = if expected.generation == 0 { found.generation } else { expected.generation };
    if found == (UnitCheck { generation, ..expected }) {
        Ok(())
    } else {
        Err(Wrong::Other(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHECK: UnitCheck = UnitCheck { offset: 8192, generation: 3, seed: 77, target: 1 };

    #[test]
    fn the_sum_is_that_of_the_standard() {
        // RFC 3720, B.4: 32 bytes of zeros, and the bytes 0 to 31.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c::crc32c(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
    }

    #[test]
    fn another_unit_in_its_place_is_told() {
        let mut unit = vec![5; 4096];
        stamp(&mut unit, CHECK);
        assert_eq!(examine(&unit, CHECK), Ok(()));
        assert_eq!(examine(&unit, UnitCheck { generation: 0, ..CHECK }), Ok(()));
        for other in [
            UnitCheck { offset: 4096, ..CHECK },
            UnitCheck { generation: 4, ..CHECK },
            UnitCheck { seed: 1, ..CHECK },
            UnitCheck { target: 0, ..CHECK },
        ] {
            assert_eq!(examine(&unit, other), Err(Wrong::Other(CHECK)));
        }
        assert!(matches!(examine(&unit[..2048], CHECK), Err(Wrong::Damaged { .. })));
        assert_eq!(examine(&[0; 512], CHECK), Err(Wrong::Foreign(0)));
        assert!(is_at(&unit[..64], 8192) && !is_at(&unit, 4096) && !is_at(&unit[..39], 8192));
        let told = Wrong::Other(CHECK).to_string();
        assert_eq!(told, "offset 8192, target 1, seed 77, generation 3");
    }

    proptest! {
        #[test]
        fn every_changed_bit_is_found(length in 512_usize..5000, at in any::<prop::sample::Index>(), bit in 0_u8..8) {
            let mut unit = vec![0xa5; length];
            stamp(&mut unit, CHECK);
            unit[at.index(length)] ^= 1 << bit;
            prop_assert!(examine(&unit, CHECK).is_err());
        }
    }
}
