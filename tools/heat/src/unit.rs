//! Units of times and values, as people name them.

use crate::number::{Decimal, Reason};

/// A unit: how a number in it becomes one in its base unit, by a power of ten and a power of two, both exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// The base unit: "ns", "bytes", "count", "ratio" or "" where it is not known.
    pub base: &'static str,
    /// Power of ten.
    pub power: i32,
    /// What remains, a power of two.
    pub factor: f64,
}

/// Every unit by name.
pub const UNITS: &[(&str, Unit)] = &[
    ("s", decimal("ns", 9)),
    ("ms", decimal("ns", 6)),
    ("us", decimal("ns", 3)),
    ("ns", decimal("ns", 0)),
    ("bytes", decimal("bytes", 0)),
    ("B", decimal("bytes", 0)),
    ("kB", decimal("bytes", 3)),
    ("MB", decimal("bytes", 6)),
    ("KiB", binary("bytes", 1024.0)),
    ("MiB", binary("bytes", 1_048_576.0)),
    ("sectors", binary("bytes", 512.0)),
    ("count", decimal("count", 0)),
    ("ratio", decimal("ratio", 0)),
    ("percent", decimal("ratio", -2)),
];

const fn decimal(base: &'static str, power: i32) -> Unit {
    Unit { base, power, factor: 1.0 }
}

const fn binary(base: &'static str, factor: f64) -> Unit {
    Unit { base, power: 0, factor }
}

impl Unit {
    /// Where nobody said what a number is.
    pub const UNKNOWN: Unit = decimal("", 0);
    /// Seconds.
    pub const S: Unit = decimal("ns", 9);
    /// Milliseconds.
    pub const MS: Unit = decimal("ns", 6);
    /// Microseconds.
    pub const US: Unit = decimal("ns", 3);
    /// Nanoseconds.
    pub const NS: Unit = decimal("ns", 0);
    /// Bytes.
    pub const BYTES: Unit = decimal("bytes", 0);
    /// 1024 bytes.
    pub const KIB: Unit = binary("bytes", 1024.0);
    /// 512 bytes.
    pub const SECTORS: Unit = binary("bytes", 512.0);
    /// Things that are counted.
    pub const COUNT: Unit = decimal("count", 0);

    /// The unit of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Unit> {
        let name = if name == "µs" { "us" } else { name };
        UNITS.iter().find(|(known, _)| *known == name).map(|(_, unit)| *unit)
    }

    /// Names of units of time, which alone a time may have.
    #[must_use]
    pub fn is_time(self) -> bool {
        self.base == "ns"
    }

    /// Reads a value in this unit: zero or more, in the base unit.
    ///
    /// # Errors
    /// No number, or one below zero or too great.
    #[inline]
    pub fn value_of(self, text: &[u8]) -> Result<f64, Reason> {
        let decimal = Decimal::parse(text)?;
        if decimal.negative && decimal.digits != 0 {
            return Err("it is below zero");
        }
        let value = decimal.value(self.power).abs() * self.factor;
        if value.is_finite() {
            Ok(value)
        } else {
            Err("it is too great")
        }
    }

    /// Reads a time in this unit, in nanoseconds rounded down.
    ///
    /// # Errors
    /// No number, or one that 64 bits of nanoseconds do not hold (292 years).
    #[inline]
    pub fn time_of(self, text: &[u8]) -> Result<i64, Reason> {
        Decimal::parse(text)?
            .nanoseconds(self.power)
            .ok_or("it is more than 292 years (is it in ms, us or ns? --time-unit says so)")
    }
}

/// A value in its base unit as people say it: `2 ms`.
#[must_use]
pub fn said(value: f64, base: &str) -> String {
    let steps: &[(f64, &str)] = match base {
        "ns" => &[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")],
        "bytes" => &[(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1024.0, "KiB"), (1.0, "B")],
        "ratio" => &[(0.01, "%")],
        "count" => &[(1.0, "")],
        _ => &[],
    };
    let (factor, name) =
        steps.iter().find(|(factor, _)| value >= *factor).or(steps.last()).copied().unwrap_or((1.0, base));
    format!("{} {name}", trimmed(value / factor)).trim_end().to_owned()
}

/// A number without zeros at its end.
pub(crate) fn trimmed(value: f64) -> String {
    if value != 0.0 && !(1e-6..1e15).contains(&value.abs()) {
        return format!("{value:e}");
    }
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::said;

    #[test]
    fn a_value_is_said_in_the_unit_that_suits_it() {
        let shown = [
            (2e6, "ns"),
            (2.5e9, "ns"),
            (0.5, "ns"),
            (65536.0, "bytes"),
            (0.25, "ratio"),
            (7.0, "count"),
            (1e12, ""),
        ];
        let words: Vec<String> = shown.iter().map(|(value, unit)| said(*value, unit)).collect();
        assert_eq!(words, ["2 ms", "2.5 s", "0.5 ns", "64 KiB", "25 %", "7", "1000000000000"]);
    }
}
