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
        Decimal::parse(text)?.nanoseconds(self.power).ok_or("it is more than 292 years")
    }
}
