//! Units that the kernel counts in: its auxiliary vector says them without a system call.

use std::path::Path;

/// `AT_PAGESZ` of `include/uapi/linux/auxvec.h`.
const PAGE_BYTES: u64 = 6;
/// `AT_CLKTCK` of the same.
const TICKS_PER_SECOND: u64 = 17;

/// Units of this kernel's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelUnits {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Nanoseconds of a tick of `USER_HZ`.
    pub tick_ns: u64,
}

impl KernelUnits {
    /// Reads them from `self/auxv`; what it does not say is 4096 bytes and 100 Hz, as on nearly every machine.
    pub fn of(proc: &Path) -> Self {
        let bytes = std::fs::read(proc.join("self/auxv")).unwrap_or_default();
        let mut units = KernelUnits { page_bytes: 4096, tick_ns: 10_000_000 };
        for pair in bytes.chunks_exact(2 * size_of::<usize>()) {
            let (key, value) = pair.split_at(size_of::<usize>());
            match (word(key), word(value)) {
                (PAGE_BYTES, bytes @ 1..) => units.page_bytes = bytes,
                (TICKS_PER_SECOND, hertz @ 1..=1_000_000) => units.tick_ns = 1_000_000_000 / hertz,
                _ => {}
            }
        }
        units
    }
}

/// A machine word; 0 when there are not enough bytes.
fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, usize::from_ne_bytes) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_says_its_units() {
        let units = KernelUnits::of(Path::new("/proc"));
        assert!(units.page_bytes.is_power_of_two() && units.page_bytes >= 4096);
        assert!((1_000_000..=1_000_000_000).contains(&units.tick_ns));
    }

    #[test]
    fn without_the_vector_the_usual_units_hold() {
        let units = KernelUnits::of(Path::new("/nonexistent"));
        assert_eq!(units, KernelUnits { page_bytes: 4096, tick_ns: 10_000_000 });
    }
}
