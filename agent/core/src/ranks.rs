//! Places of which some come more often than others: the law of their ranks, and which place has which rank.

use crate::disk::{Disk, Pattern, Zone, WHOLE_PPM};
use crate::random::Random;

/// How often places come, of patterns that rank them.
#[derive(Clone, Debug)]
pub(crate) struct Ranks(Option<(Law, Scatter)>);

#[derive(Clone, Debug)]
enum Law {
    Zipf(Zipf),
    Normal(Normal),
    SelfSimilar(SelfSimilar),
}

impl Ranks {
    /// Those of a job over so many places of one target.
    pub(crate) fn new(disk: &Disk, places: u64) -> Self {
        let law = match disk.pattern {
            Pattern::Zipf => Law::Zipf(Zipf::new(places, f64::from(disk.zipf_theta_ppm.unwrap_or(1)) / 1e6)),
            Pattern::Normal => {
                let deviation = u128::from(disk.normal_deviation_ppm.unwrap_or(0));
                Law::Normal(Normal {
                    places,
                    width: (u128::from(places) * deviation).div_ceil(u128::from(WHOLE_PPM)) as u64,
                })
            }
            Pattern::SelfSimilar => {
                let zone = disk.zones.first().copied().unwrap_or(Zone::EVEN);
                Law::SelfSimilar(SelfSimilar::new(places, zone))
            }
            _ => return Ranks(None),
        };
        Ranks(Some((law, Scatter::new(places))))
    }

    /// A drawn place, from 0 on; 0 where places have no ranks.
    pub(crate) fn place(&self, random: &mut Random) -> u64 {
        let Some((law, scatter)) = &self.0 else { return 0 };
        let rank = match law {
            Law::Zipf(zipf) => zipf.rank(random) - 1,
            Law::Normal(normal) => normal.rank(random),
            Law::SelfSimilar(similar) => similar.rank(random),
        };
        scatter.place(rank)
    }
}

/// Which place has which rank: neighbouring ranks lie far apart, and every rank has a place of its own.
#[derive(Clone, Debug)]
struct Scatter {
    places: u64,
    step: u64,
}

impl Scatter {
    fn new(places: u64) -> Self {
        // Near the golden section, which spreads neighbouring ranks, and without a common factor with the places.
        let mut step = ((places as f64 * 0.618_033_988_75) as u64).max(1);
        while common_factor(step, places) > 1 {
            step += 1;
        }
        Scatter { places, step }
    }

    /// The place of a rank, both from 0 on.
    fn place(&self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(self.step) % u128::from(self.places)) as u64
    }
}

/// Ranks of which a share takes a share of the operations, the same holds within that share, and so on.
///
/// A uniform number to the power ln(space) / ln(operations): Gray et al., "Quickly generating billion-record synthetic
/// databases", SIGMOD 1994, section 3.2.
#[derive(Clone, Debug)]
struct SelfSimilar {
    places: u64,
    power: f64,
}

impl SelfSimilar {
    fn new(places: u64, zone: Zone) -> Self {
        let share = |ppm: u32| f64::from(ppm) / f64::from(WHOLE_PPM);
        let power = share(zone.share_of_space_ppm).ln() / share(zone.share_of_operations_ppm).ln();
        SelfSimilar { places, power }
    }

    /// A rank from 0 on.
    fn rank(&self, random: &mut Random) -> u64 {
        ((self.places as f64 * random.share().powf(self.power)) as u64).min(self.places - 1)
    }
}

/// Ranks by a bell curve: the mean of twelve even numbers, moved by an even one.
///
/// The law that fio calls normal (its `lib/gauss.c`), whose own deviation is a twelfth of the places.
#[derive(Clone, Debug)]
struct Normal {
    places: u64,
    /// Of the even number, in places.
    width: u64,
}

impl Normal {
    const NUMBERS: u64 = 12;

    /// A rank from 0 on.
    fn rank(&self, random: &mut Random) -> u64 {
        let sum: u64 = (0..Self::NUMBERS).map(|_| random.below(self.places + 1)).sum();
        let width = self.width.min(self.places / 2);
        let moved = sum.div_ceil(Self::NUMBERS) + random.below(width.max(1));
        moved.saturating_sub(width / 2).min(self.places - 1)
    }
}

/// Ranks by Zipf's law.
///
/// Rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
/// distributions", ACM TOMACS 6(3), 1996): exact for any exponent above 0, a constant number of steps, no table.
#[derive(Clone, Debug)]
struct Zipf {
    places: u64,
    exponent: f64,
    /// The integral of the density at 1.5, less the first probability; and at the end.
    low: f64,
    high: f64,
    sure: f64,
}

impl Zipf {
    fn new(places: u64, exponent: f64) -> Self {
        let mut zipf = Zipf { places, exponent, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(places as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// Of x^-exponent: (x^(1 - exponent) - 1) / (1 - exponent), ln x where the exponent is 1.
    fn integral(&self, x: f64) -> f64 {
        let (log, rest) = (x.ln(), 1.0 - self.exponent);
        if (rest * log).abs() < 1e-8 {
            return log * (1.0 + rest * log / 2.0);
        }
        (rest * log).exp_m1() / rest
    }

    fn inverse(&self, y: f64) -> f64 {
        let rest = 1.0 - self.exponent;
        if (rest * y).abs() < 1e-8 {
            return (y * (1.0 - rest * y / 2.0)).exp();
        }
        ((rest * y).max(-1.0).ln_1p() / rest).exp()
    }

    /// A rank from 1 on.
    fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let drawn = self.high + random.share() * (self.low - self.high);
            let x = self.inverse(drawn);
            let rank = (x + 0.5).clamp(1.0, self.places as f64).floor();
            if rank - x <= self.sure || drawn >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64;
            }
        }
    }
}

fn common_factor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranks_of_zipf_pass_a_test_of_their_frequencies() {
        let zipf = Zipf::new(1000, 0.8);
        let mut random = Random::new(11, 0);
        let mut counts = [0_f64; 20];
        let drawn = 300_000;
        let whole: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-0.8)).sum();
        let mut expected = [0.0; 20];
        for rank in 1..=1000_u32 {
            expected[(rank as usize - 1) / 50] += f64::from(rank).powf(-0.8) / whole * f64::from(drawn);
        }
        for _ in 0..drawn {
            counts[(zipf.rank(&mut random) as usize - 1) / 50] += 1.0;
        }
        let chi: f64 = counts.iter().zip(&expected).map(|(n, e)| (n - e) * (n - e) / e).sum();
        // The 0.9999 quantile of chi-square with 19 degrees of freedom.
        assert!(chi < 51.0, "{chi}");
    }
}
