//! Monotone counters read from elsewhere: what a pair of readings says about the interval between them.

/// How wide the source keeps its counter; a narrower one wraps sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 32 bits: wraps at 4 294 967 296.
    Bits32,
    /// 64 bits: never wraps in practice.
    Bits64,
}

/// Growth of a counter between two readings.
///
/// A 64-bit counter that went backwards was reset (an interface re-created, a module reloaded): the growth
/// is then unknown, which is not the same as zero. A 32-bit counter that went backwards is taken to have
/// wrapped once.
#[must_use]
pub fn growth(before: u64, now: u64, width: Width) -> Option<u64> {
    match (now.checked_sub(before), width) {
        (Some(grown), _) => Some(grown),
        // More than the width is no such counter, and gives nothing.
        (None, Width::Bits32) => now.checked_add(1 << 32)?.checked_sub(before),
        (None, Width::Bits64) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_grows_wraps_or_is_reset() {
        assert_eq!(growth(10, 15, Width::Bits64), Some(5));
        assert_eq!(growth(u64::from(u32::MAX), 4, Width::Bits32), Some(5));
        assert_eq!(growth(15, 10, Width::Bits64), None);
    }
}
