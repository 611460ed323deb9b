//! Sizes of messages, drawn one after the other; both ends of a connection draw the same.

use std::sync::Arc;

use crate::arrivals::Sizes;
use crate::random::Random;
use crate::units::Bytes;

/// Random numbers of sizes are none of those of arrivals.
const STREAMS: u64 = 1 << 32;

/// The sizes of one connection's messages, in order.
#[derive(Clone, Debug)]
pub struct SizeStream {
    law: Drawn,
    random: Random,
}

#[derive(Clone, Debug)]
enum Drawn {
    Uniform {
        least: u64,
        span: u64,
    },
    Exponential {
        mean: f64,
        greatest: u64,
    },
    /// Sizes with the sum of the weights up to each.
    Mix {
        sizes: Arc<[(u64, u64)]>,
        total: u64,
    },
    Trace {
        sizes: Arc<[Bytes]>,
        index: usize,
    },
}

impl SizeStream {
    /// Sizes of `connection`, drawn with the job's seed.
    #[must_use]
    pub fn new(sizes: &Sizes, seed: u64, connection: u32) -> Self {
        let law = match sizes {
            Sizes::Uniform { least_bytes, greatest_bytes } => {
                Drawn::Uniform { least: least_bytes.0, span: greatest_bytes.0 - least_bytes.0 + 1 }
            }
            Sizes::Exponential { mean_bytes, greatest_bytes } => {
                Drawn::Exponential { mean: mean_bytes.0 as f64, greatest: greatest_bytes.0 }
            }
            Sizes::Mix { sizes_bytes, weights } => {
                let mut total = 0;
                let mut up_to = |(size, weight): (&Bytes, &u32)| {
                    total += u64::from(*weight);
                    (size.0, total)
                };
                let sizes = sizes_bytes.iter().zip(weights).map(&mut up_to).collect();
                Drawn::Mix { sizes, total }
            }
            Sizes::Trace { sizes_bytes } => Drawn::Trace { sizes: sizes_bytes.as_slice().into(), index: 0 },
        };
        SizeStream { law, random: Random::new(seed, STREAMS + u64::from(connection)) }
    }

    /// The size of the next message, in bytes.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        match &mut self.law {
            Drawn::Uniform { least, span } => *least + self.random.below(*span),
            Drawn::Exponential { mean, greatest } => {
                (self.random.exponential(*mean).round() as u64).clamp(1, *greatest)
            }
            Drawn::Mix { sizes, total } => {
                let drawn = self.random.below(*total);
                let at = sizes.partition_point(|(_, up_to)| *up_to <= drawn);
                sizes[at.min(sizes.len() - 1)].0
            }
            Drawn::Trace { sizes, index } => {
                let size = sizes[*index].0;
                *index = (*index + 1) % sizes.len();
                size
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drawn(sizes: &Sizes, seed: u64, connection: u32, count: usize) -> Vec<u64> {
        sizes.check(u64::MAX).unwrap();
        let mut stream = SizeStream::new(sizes, seed, connection);
        (0..count).map(|_| stream.draw()).collect()
    }

    fn bytes(sizes: &[u64]) -> Vec<Bytes> {
        sizes.iter().copied().map(Bytes).collect()
    }

    #[test]
    fn a_mix_has_its_shares_and_a_trace_its_order() {
        let mix = Sizes::Mix { sizes_bytes: bytes(&[64, 576, 1500]), weights: vec![7, 4, 1] };
        let found = drawn(&mix, 1, 0, 120_000);
        for (size, expected) in [(64, 70_000_i64), (576, 40_000), (1500, 10_000)] {
            let count = found.iter().filter(|found| **found == size).count() as i64;
            // The standard deviation is 171 at most; five of those.
            assert!((count - expected).abs() < 860, "{count} of {size}");
        }
        let trace = Sizes::Trace { sizes_bytes: bytes(&[9, 1, 5]) };
        assert_eq!(drawn(&trace, 1, 0, 7), [9, 1, 5, 9, 1, 5, 9]);
    }

    #[test]
    fn an_exponential_size_has_its_mean_and_its_tail() {
        let law = Sizes::Exponential { mean_bytes: Bytes(1000), greatest_bytes: Bytes(1 << 20) };
        let found = drawn(&law, 5, 2, 100_000);
        let mean = found.iter().sum::<u64>() as f64 / found.len() as f64;
        // Standard error 0.32 %; five of those.
        assert!((mean / 1000.0 - 1.0).abs() < 0.016, "{mean}");
        let over = found.iter().filter(|size| **size > 3000).count() as f64 / found.len() as f64;
        assert!((over - (-3.0_f64).exp()).abs() < 0.004, "{over}");
    }

    proptest! {
        #[test]
        fn sizes_stay_in_their_bounds_and_both_ends_draw_the_same(
            least in 1_u64..10_000, span in 0_u64..10_000, seed in any::<u64>(), connection in any::<u32>()
        ) {
            let (least_bytes, greatest_bytes) = (Bytes(least), Bytes(least + span));
            for law in [
                Sizes::Uniform { least_bytes, greatest_bytes },
                Sizes::Exponential { mean_bytes: least_bytes, greatest_bytes },
            ] {
                let low = if matches!(law, Sizes::Uniform { .. }) { least } else { 1 };
                let found = drawn(&law, seed, connection, 300);
                prop_assert!(found.iter().all(|size| (low..=least + span).contains(size)));
                prop_assert_eq!(&found, &drawn(&law, seed, connection, 300));
            }
        }
    }
}
