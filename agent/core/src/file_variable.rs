//! Numbers of a file program that vary: laws, and streams of values drawn from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::random::Random;

/// A number with a fraction. JSON has neither infinities nor "not a number", so that equal is what looks equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Real(pub f64);

impl Eq for Real {}

/// A whole number, or a variable that it is drawn from at each use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// Always this.
    Fixed(u64),
    /// Drawn.
    Drawn(Reference),
}

/// Names a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Its name.
    pub variable: String,
}

impl Default for Value {
    fn default() -> Self {
        Value::Fixed(0)
    }
}

impl Value {
    /// A value that is drawn from the variable of this name.
    #[must_use]
    pub fn of(variable: &str) -> Self {
        Value::Drawn(Reference { variable: variable.to_owned() })
    }

    /// The variable it is drawn from.
    #[must_use]
    pub fn variable(&self) -> Option<&str> {
        match self {
            Value::Fixed(_) => None,
            Value::Drawn(reference) => Some(&reference.variable),
        }
    }
}

/// A row of a table of ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// How often a value comes from this range, against the other rows.
    pub weight: Real,
    /// Where the range begins.
    pub least: Real,
    /// Where it ends; every value in it is as likely.
    pub greatest: Real,
}

/// How values are distributed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ValueLaw {
    /// Always the same.
    Fixed {
        /// This.
        value: Real,
    },
    /// Every value from the least to the greatest is as likely.
    Uniform {
        /// Least.
        least: Real,
        /// Greatest.
        greatest: Real,
    },
    /// The least, and a gamma value above it.
    Gamma {
        /// Mean of the whole.
        mean: Real,
        /// Shape.
        gamma: Real,
        /// Where it begins.
        #[serde(default)]
        least: Real,
    },
    /// Ranges with weights.
    Tabular {
        /// The ranges.
        rows: Vec<Row>,
    },
    /// Normal.
    Normal {
        /// Mean.
        mean: Real,
        /// Standard deviation.
        sigma: Real,
    },
    /// The exponential of a normal value.
    Lognormal {
        /// Mean of the logarithm.
        mu: Real,
        /// Standard deviation of the logarithm.
        sigma: Real,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: Real,
    },
    /// The sum of so many exponential values.
    Erlang {
        /// How many.
        shape: u32,
        /// One over the mean of each.
        rate: Real,
    },
    /// Weibull.
    Weibull {
        /// Shape.
        shape: Real,
        /// Scale.
        scale: Real,
    },
    /// Triangular.
    Triangular {
        /// Least.
        least: Real,
        /// Greatest.
        greatest: Real,
        /// Most likely.
        mode: Real,
    },
}

/// A number that varies, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// What values refer to it by.
    pub name: String,
    /// How it is distributed.
    pub law: ValueLaw,
    /// Values below are set to this.
    #[serde(default)]
    pub least: Option<Real>,
    /// Values above are set to this.
    #[serde(default)]
    pub greatest: Option<Real>,
    /// Values are rounded to the nearest multiple of this, within the bounds; absent, 0 or 1: down to whole numbers.
    #[serde(default)]
    pub round: Option<u64>,
    /// Seed of its own; absent: the program's.
    #[serde(default)]
    pub seed: Option<u64>,
}

/// chosen: most stages of an Erlang law: with more it is a constant for all purposes, and drawing takes time.
const MAX_STAGES: u32 = 1_000;
/// Largest number of a law; whole numbers are exact up to 2^53, and sizes of files end at 2^63.
const LARGEST: f64 = 9.2e18;

impl Variable {
    /// Checks the numbers of its law.
    ///
    /// # Errors
    /// What was found, and what is allowed.
    pub fn check(&self) -> Result<(), (String, String)> {
        let no = |found: &str, allowed: &str| Err((found.to_owned(), allowed.to_owned()));
        let positive = |value: Real| value.0 > 0.0 && value.0 <= LARGEST;
        let ordered =
            |low: Real, high: Real| low.0.abs() <= LARGEST && high.0.abs() <= LARGEST && low.0 <= high.0;
        if let (Some(least), Some(greatest)) = (self.least, self.greatest) {
            if !ordered(least, greatest) {
                return no("a least value above the greatest", "the least first");
            }
        }
        match &self.law {
            ValueLaw::Fixed { value } if value.0.abs() > LARGEST => no("a value too large", "9.2e18 at most"),
            ValueLaw::Uniform { least, greatest } if !ordered(*least, *greatest) => {
                no("a least value above the greatest", "the least first")
            }
            ValueLaw::Gamma { mean, gamma, least } => {
                if !positive(*gamma) || least.0.abs() > LARGEST || mean.0 > LARGEST || mean.0 < least.0 {
                    return no(
                        "a gamma law without spread or mean",
                        "gamma above 0, a mean not below the least",
                    );
                }
                Ok(())
            }
            ValueLaw::Tabular { rows } => {
                let fit = |row: &Row| {
                    row.weight.0 >= 0.0 && row.weight.0 <= LARGEST && ordered(row.least, row.greatest)
                };
                if !rows.iter().all(fit) || rows.iter().map(|row| row.weight.0).sum::<f64>() <= 0.0 {
                    return no(
                        "a table without weights or with ranges turned round",
                        "rows of weight, least, greatest",
                    );
                }
                Ok(())
            }
            ValueLaw::Normal { mean, sigma }
                if mean.0.abs() > LARGEST || !(0.0..=LARGEST).contains(&sigma.0) =>
            {
                no("a negative spread", "0 or more")
            }
            ValueLaw::Lognormal { mu, sigma } if mu.0.abs() > 1e3 || !(0.0..=1e3).contains(&sigma.0) => {
                no("a logarithm of more than 1000 or with a negative spread", "0 to 1000")
            }
            ValueLaw::Exponential { mean } if !positive(*mean) => {
                no("a mean that is not above 0", "more than 0")
            }
            ValueLaw::Erlang { shape, rate } if !positive(*rate) || !(1..=MAX_STAGES).contains(shape) => {
                no("an Erlang law without rate or stages", "a rate above 0, 1 to 1000 stages")
            }
            ValueLaw::Weibull { shape, scale } if !positive(*shape) || !positive(*scale) => {
                no("a shape or scale that is not above 0", "more than 0")
            }
            ValueLaw::Triangular { least, greatest, mode }
                if !ordered(*least, *mode) || !ordered(*mode, *greatest) =>
            {
                no("a mode outside of the range", "least, mode, greatest in this order")
            }
            _ => Ok(()),
        }
    }

    /// The greatest value that it can have, if there is a bound.
    #[must_use]
    pub fn bound(&self) -> Option<u64> {
        let of_law = match &self.law {
            ValueLaw::Fixed { value } => Some(value.0),
            ValueLaw::Uniform { greatest, .. } | ValueLaw::Triangular { greatest, .. } => Some(greatest.0),
            ValueLaw::Tabular { rows } => rows.iter().map(|row| row.greatest.0).reduce(f64::max),
            _ => None,
        };
        let set = self.greatest.map(|greatest| greatest.0);
        let bound = match (of_law, set) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        bound.map(|bound| bound.max(self.least.map_or(0.0, |least| least.0)) as u64)
    }
}

/// Values of a variable, one after the other.
#[derive(Clone, Debug)]
pub struct ValueStream {
    law: ValueLaw,
    least: f64,
    greatest: f64,
    round: u64,
    random: Random,
    /// The second of two normal numbers, which are drawn in pairs.
    spare: Option<f64>,
    weights: f64,
}

impl ValueStream {
    /// Stream number `stream` of a variable; `seed` is the program's.
    #[must_use]
    pub fn new(variable: &Variable, seed: u64, stream: u64) -> Self {
        let weights = match &variable.law {
            ValueLaw::Tabular { rows } => rows.iter().map(|row| row.weight.0).sum(),
            _ => 0.0,
        };
        ValueStream {
            law: variable.law.clone(),
            least: variable.least.map_or(0.0, |least| least.0.max(0.0)),
            greatest: variable.greatest.map_or(LARGEST, |greatest| greatest.0.min(LARGEST)),
            round: variable.round.unwrap_or(1).max(1),
            random: Random::new(variable.seed.unwrap_or(seed), stream),
            spare: None,
            weights,
        }
    }

    /// The next value: not negative, within its bounds, rounded.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        let raw = self.draw_raw().clamp(self.least.min(self.greatest), self.greatest.max(0.0));
        let whole = raw as u64;
        let below = whole - whole % self.round;
        let above = below.saturating_add(self.round);
        let nearer_above = above - whole <= whole - below;
        if self.round > 1 && nearer_above && above as f64 <= self.greatest {
            return above;
        }
        if (below as f64) < self.least && above as f64 <= self.greatest {
            return above;
        }
        below
    }

    fn draw_raw(&mut self) -> f64 {
        match &self.law {
            ValueLaw::Fixed { value } => value.0,
            ValueLaw::Uniform { least, greatest } => {
                // Whole numbers have the same chance each, both ends included.
                let span = (greatest.0.floor() - least.0.ceil()).max(0.0);
                least.0.ceil() + self.random.below((span as u64).saturating_add(1)) as f64
            }
            ValueLaw::Gamma { mean, gamma, least } => {
                let (mean, gamma, least) = (mean.0, gamma.0, least.0);
                least + self.gamma(gamma) * (mean - least) / gamma
            }
            ValueLaw::Tabular { rows } => {
                // `share` is never 0 and may be 1.
                let mut left = self.random.share() * self.weights;
                let mut chosen = None;
                for row in rows.iter().filter(|row| row.weight.0 > 0.0) {
                    chosen = Some(*row);
                    left -= row.weight.0;
                    if left <= 0.0 {
                        break;
                    }
                }
                let (least, greatest) = chosen.map_or((0.0, 0.0), |row| (row.least.0, row.greatest.0));
                let span = (greatest.floor() - least.ceil()).max(0.0);
                least.ceil() + self.random.below((span as u64).saturating_add(1)) as f64
            }
            ValueLaw::Normal { mean, sigma } => {
                let (mean, sigma) = (mean.0, sigma.0);
                mean + sigma * self.normal()
            }
            ValueLaw::Lognormal { mu, sigma } => {
                let (mu, sigma) = (mu.0, sigma.0);
                (mu + sigma * self.normal()).exp()
            }
            ValueLaw::Exponential { mean } => self.random.exponential(mean.0),
            ValueLaw::Erlang { shape, rate } => {
                (0..*shape).map(|_| self.random.exponential(1.0)).sum::<f64>() / rate.0
            }
            ValueLaw::Weibull { shape, scale } => scale.0 * (-self.random.share().ln()).powf(1.0 / shape.0),
            ValueLaw::Triangular { least, greatest, mode } => {
                // The inverse of the distribution function.
                let (least, greatest, mode) = (least.0, greatest.0, mode.0);
                let (span, share) = (greatest - least, self.random.share());
                if span <= 0.0 {
                    least
                } else if share < (mode - least) / span {
                    least + (share * span * (mode - least)).sqrt()
                } else {
                    greatest - ((1.0 - share) * span * (greatest - mode)).sqrt()
                }
            }
        }
    }

    /// Marsaglia and Bray, "A convenient method for generating normal variables", SIAM Review 6(3), 1964.
    fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (2.0 * self.random.share() - 1.0, 2.0 * self.random.share() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some(y * scale);
                return x * scale;
            }
        }
    }

    /// A gamma value of scale 1: Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26(3),
    /// 2000; shapes below 1 as in their section 6.
    fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let share = self.random.share();
            return self.gamma(shape + 1.0) * share.powf(1.0 / shape);
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && self.random.share().ln() < 0.5 * x * x + d * (1.0 - v + v.ln()) {
                return d * v;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COUNT: usize = 40_000;

    fn variable(law: ValueLaw) -> Variable {
        Variable { name: "v".to_owned(), law, least: None, greatest: None, round: None, seed: None }
    }

    /// Mean and standard deviation of what is drawn, against theory: five standard errors, and what rounding down takes.
    fn recovers(law: ValueLaw, mean: f64, deviation: f64) {
        let variable = variable(law.clone());
        variable.check().unwrap();
        let mut stream = ValueStream::new(&variable, 9, 1);
        let drawn: Vec<f64> = (0..COUNT).map(|_| stream.draw() as f64).collect();
        let found = drawn.iter().sum::<f64>() / COUNT as f64;
        let spread = (drawn.iter().map(|x| (x - found).powi(2)).sum::<f64>() / COUNT as f64).sqrt();
        let error = 5.0 * deviation / (COUNT as f64).sqrt() + 1.0;
        assert!((found - mean).abs() <= error, "{law:?}: mean {found} for {mean}");
        // The fourth moment of these laws is at most some 60 deviations^4: five standard errors of the spread.
        assert!(
            (spread / deviation.max(1e-9) - 1.0).abs() < 0.1 || deviation == 0.0,
            "{law:?}: {spread} for {deviation}"
        );
    }

    #[test]
    fn laws_have_their_means_and_spreads() {
        let r = Real;
        recovers(ValueLaw::Fixed { value: r(4096.0) }, 4096.0, 0.0);
        recovers(ValueLaw::Uniform { least: r(1000.0), greatest: r(9000.0) }, 5000.0, 8001.0 / 12_f64.sqrt());
        // Gamma: deviation is (mean - least) / sqrt(shape).
        let law = |gamma| ValueLaw::Gamma { mean: r(16_384.0), gamma: r(gamma), least: r(0.0) };
        recovers(law(1.5), 16_384.0, 16_384.0 / 1.5_f64.sqrt());
        recovers(law(0.7), 16_384.0, 16_384.0 / 0.7_f64.sqrt());
        let shifted = ValueLaw::Gamma { mean: r(20_000.0), gamma: r(2.0), least: r(10_000.0) };
        recovers(shifted, 20_000.0, 10_000.0 / 2_f64.sqrt());
        recovers(ValueLaw::Normal { mean: r(50_000.0), sigma: r(3_000.0) }, 50_000.0, 3_000.0);
        // Lognormal: mean exp(mu + s^2/2), variance (exp(s^2) - 1) mean^2.
        let mean = (10.0_f64 + 0.125).exp();
        let law = ValueLaw::Lognormal { mu: r(10.0), sigma: r(0.5) };
        recovers(law, mean, mean * (0.25_f64.exp() - 1.0).sqrt());
        recovers(ValueLaw::Exponential { mean: r(10_000.0) }, 10_000.0, 10_000.0);
        recovers(ValueLaw::Erlang { shape: 4, rate: r(0.001) }, 4_000.0, 2_000.0);
        // Weibull of shape 2: mean scale sqrt(pi) / 2, variance scale^2 (1 - pi / 4).
        let pi = std::f64::consts::PI;
        let (mean, deviation) = (10_000.0 * pi.sqrt() / 2.0, 10_000.0 * (1.0 - pi / 4.0).sqrt());
        recovers(ValueLaw::Weibull { shape: r(2.0), scale: r(10_000.0) }, mean, deviation);
        // Triangular: mean (a + b + c) / 3, variance (a^2 + b^2 + c^2 - ab - ac - bc) / 18.
        let law = ValueLaw::Triangular { least: r(0.0), greatest: r(9_000.0), mode: r(3_000.0) };
        recovers(law, 4_000.0, (63e6_f64 / 18.0).sqrt());
        let rows = [(25.0, 100.0, 200.0), (75.0, 1_000.0, 1_000.0)];
        let rows = rows.map(|(weight, least, greatest)| Row {
            weight: r(weight),
            least: r(least),
            greatest: r(greatest),
        });
        // A quarter from 100..200, the rest 1000: mean 787.5; the variance of the mixture.
        let variance = 0.25 * (101.0_f64.powi(2) / 12.0 + 150.0_f64.powi(2)) + 0.75 * 1e6 - 787.5_f64.powi(2);
        recovers(ValueLaw::Tabular { rows: rows.to_vec() }, 787.5, variance.sqrt());
    }

    #[test]
    fn values_are_bounded_and_rounded_to_the_nearest_multiple() {
        let mut bounded = variable(ValueLaw::Normal { mean: Real(1_000.0), sigma: Real(5_000.0) });
        bounded.least = Some(Real(512.0));
        bounded.greatest = Some(Real(4_100.0));
        bounded.round = Some(512);
        let mut stream = ValueStream::new(&bounded, 0, 0);
        let drawn: Vec<u64> = (0..10_000).map(|_| stream.draw()).collect();
        assert!(drawn.iter().all(|value| value % 512 == 0 && (512..=4_096).contains(value)));
        assert!(drawn.contains(&512) && drawn.contains(&4_096));
        assert_eq!(bounded.bound(), Some(4_100));
    }

    #[test]
    fn a_seed_of_its_own_and_the_stream_make_the_values() {
        let mut seeded = variable(ValueLaw::Uniform { least: Real(0.0), greatest: Real(1e15) });
        let first = |variable: &Variable, seed, stream| ValueStream::new(variable, seed, stream).draw();
        assert_ne!(first(&seeded, 1, 0), first(&seeded, 2, 0));
        assert_ne!(first(&seeded, 1, 0), first(&seeded, 1, 1));
        seeded.seed = Some(7);
        assert_eq!(first(&seeded, 1, 0), first(&seeded, 2, 0));
    }

    proptest! {
        #[test]
        fn whatever_passes_the_check_can_be_drawn(
            a in -1e19_f64..1e19, b in -1e19_f64..1e19, c in -1e19_f64..1e19, which in 0_usize..9, round in 0_u64..5_000
        ) {
            let (a, b, c) = (Real(a), Real(b), Real(c));
            let law = [
                ValueLaw::Uniform { least: a, greatest: b },
                ValueLaw::Gamma { mean: a, gamma: b, least: c },
                ValueLaw::Tabular { rows: vec![Row { weight: a, least: b, greatest: c }] },
                ValueLaw::Normal { mean: a, sigma: b },
                ValueLaw::Lognormal { mu: Real(a.0 / 1e16), sigma: Real(b.0 / 1e16) },
                ValueLaw::Exponential { mean: a },
                ValueLaw::Erlang { shape: (b.0 as u64 % 50) as u32, rate: a },
                ValueLaw::Weibull { shape: a, scale: b },
                ValueLaw::Triangular { least: a, greatest: b, mode: c },
            ][which].clone();
            let drawn = Variable { round: Some(round), ..variable(law) };
            if drawn.check().is_ok() {
                let mut stream = ValueStream::new(&drawn, 1, 2);
                for _ in 0..10 {
                    prop_assert_eq!(stream.draw() % round.max(1), 0);
                }
            }
        }
    }
}
