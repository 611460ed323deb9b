//! Histograms of times as the kernel's programs count them (`bpf/buckets.h`).

use iodyno_core::histogram::{bucket_of, Histogram};

/// Layout of the histograms, as there.
const SUB_BITS: u32 = 5;
const TOP_BITS: u32 = 40;
/// Buckets of one of them.
pub(crate) const BUCKETS: usize = (((TOP_BITS - SUB_BITS - 1) as usize) << SUB_BITS) + (2 << SUB_BITS);

/// Two counts of 32 bits that lie in a word, as the machine orders its bytes.
pub(crate) fn counts(word: u64) -> [u32; 2] {
    let bytes = word.to_ne_bytes();
    [0, 4].map(|at| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
}

/// The growth in the agent's own layout: what fell into one of the kernel's buckets goes to that in whose range its middle
/// lies, at most 1.6 % from any of its values. The sum is exact.
pub(crate) fn growth(now: &[u32], before: &[u32], sum_ns: u64) -> Histogram {
    let mut grown = Histogram { sum_ns, ..Histogram::default() };
    for (index, (now, before)) in now.iter().zip(before).enumerate() {
        let count = u64::from(now.wrapping_sub(*before));
        if count > 0 {
            grown.count += count;
            grown.buckets.push(bucket_of(middle(index)) as u32);
            grown.counts.push(count);
        }
    }
    grown
}

/// A value in the middle of one of the kernel's buckets.
fn middle(index: usize) -> u64 {
    if index < (2 << SUB_BITS) {
        return index as u64;
    }
    let shift = (index >> SUB_BITS) - 1;
    let mantissa = (index - (shift << SUB_BITS)) as u64;
    (mantissa << shift) + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_the_kernels_buckets_is_told_to_within_two_percent() {
        // The kernel's own rule, written down a second time.
        let kernel = |value: u64| {
            let shift = (64 - (value >> (SUB_BITS + 1)).leading_zeros()) as usize;
            (shift << SUB_BITS) + (value >> shift) as usize
        };
        for value in (0..40).flat_map(|power| [1 << power, (1 << power) * 3 / 2, (2 << power) - 1]) {
            let told = middle(kernel(value)) as f64;
            assert!((told - value as f64).abs() <= 0.016 * value as f64, "{value} is told as {told}");
        }
        assert_eq!(kernel((1 << TOP_BITS) - 1), BUCKETS - 1);
    }
}
