//! Random numbers for planned load: the same seed gives the same numbers on every machine.
//!
//! xoshiro256++ 1.0, seeded by SplitMix64, as its authors advise (Blackman and Vigna, "Scrambled linear
//! pseudorandom number generators", ACM TOMS 47(4), 2021; both are in the public domain). 32 bytes of state and a
//! nanosecond a number: each connection can have one of its own.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Stream number `stream` of `seed`; streams of one seed have nothing to do with each other.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut split = SplitMix(seed);
        // One round apart: neighbouring seeds and streams must not meet.
        let mut split = SplitMix(split.bits() ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Random { state: std::array::from_fn(|_| split.bits()) }
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number from 0 (never) to 1 (possible), evenly spread.
    #[inline]
    pub fn share(&mut self) -> f64 {
        // 53 bits: as many as the number can hold. The 1 keeps the logarithm of it finite.
        ((self.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// An exponential number with this mean: the inverse of its distribution function, of an even number.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -self.share().ln() * mean
    }

    /// A whole number from 0 to `below`, itself not; 0 for 0. Even to 1 part in 2^64 / `below`.
    #[inline]
    pub fn below(&mut self, below: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(below)) >> 64) as u64
    }
}

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014: a state of 8 bytes, which may be
/// any.
#[derive(Clone, Debug)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_reference_implementation() {
        // State 1, 2, 3, 4: the first numbers of xoshiro256plusplus.c.
        let mut random = Random { state: [1, 2, 3, 4] };
        let found: Vec<u64> = (0..4).map(|_| random.bits()).collect();
        assert_eq!(found, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
        // splitmix64.c from 1234567.
        let mut split = SplitMix(1_234_567);
        assert_eq!([split.bits(), split.bits()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn streams_differ_and_are_repeatable() {
        let first = |seed, stream| Random::new(seed, stream).bits();
        assert_eq!(first(7, 3), first(7, 3));
        let mut all: Vec<u64> = (0..100).flat_map(|seed| (0..100).map(move |at| first(seed, at))).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 10_000);
    }

    #[test]
    fn even_numbers_are_even() {
        let mut random = Random::new(1, 0);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        // 10 000 each with a standard deviation of 95; five of those.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 475), "{counts:?}");
        assert_eq!(random.below(0), 0);
    }
}
