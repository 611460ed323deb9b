//! Decimal numbers in text: exact, and without a copy.
//!
//! A number is digits times a power of ten until it is known what it is for: a time is a whole number of nanoseconds,
//! rounded down, so that no column is missed by a rounding; a value is the double that is nearest to the decimal times
//! its unit, so that it equals what any exact arithmetic makes of the same text.

/// Why a field is no number that can be counted.
pub type Reason = &'static str;

/// Powers of ten that a double holds exactly.
const EXACT: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];
/// Digits that always fit an u64.
const DIGITS: u32 = 19;

/// A decimal: `digits` * 10^`exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// Whether it is below zero.
    pub negative: bool,
    /// The digits as a number.
    pub digits: u64,
    /// Power of ten.
    pub exponent: i32,
    /// Digits after the 19th were left out, and were not all zero.
    pub cut: bool,
}

impl Decimal {
    /// Reads the whole of `text`: sign, digits, point, exponent.
    ///
    /// # Errors
    /// Empty text, NaN, infinity, or anything else that is no number.
    pub fn parse(text: &[u8]) -> Result<Self, Reason> {
        let (negative, unsigned) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let mut found = Decimal { negative, digits: 0, exponent: 0, cut: false };
        let (mut seen, mut kept, mut at, mut point) = (0_u32, 0_u32, 0, false);
        while let Some(&byte) = unsigned.get(at) {
            match byte {
                b'0'..=b'9' => {
                    seen += 1;
                    let digit = u64::from(byte - b'0');
                    if kept < DIGITS {
                        found.digits = found.digits * 10 + digit;
                        kept += u32::from(found.digits != 0);
                        found.exponent -= i32::from(point);
                    } else {
                        found.cut |= digit != 0;
                        found.exponent += i32::from(!point);
                    }
                }
                b'.' if !point => point = true,
                b'e' | b'E' if seen > 0 => {
                    found.exponent = found.exponent.saturating_add(exponent_of(&unsigned[at + 1..])?);
                    at = unsigned.len();
                    break;
                }
                _ => break,
            }
            at += 1;
        }
        if seen == 0 || at < unsigned.len() {
            return Err(no_number(unsigned));
        }
        Ok(found)
    }

    /// Nanoseconds, rounded down, of a number in units of 10^`power` ns; `None` where they do not fit.
    #[must_use]
    pub fn nanoseconds(self, power: i32) -> Option<i64> {
        let exponent = self.exponent.checked_add(power)?;
        let digits = i128::from(self.digits);
        let magnitude = match u32::try_from(exponent) {
            Ok(exponent) if self.digits != 0 => digits.checked_mul(10_i128.checked_pow(exponent)?)?,
            Ok(_) => 0,
            Err(_) => match 10_i128.checked_pow(exponent.unsigned_abs()) {
                None => i128::from(self.negative && self.digits != 0),
                Some(divisor) => {
                    let (whole, rest) = (digits / divisor, digits % divisor);
                    whole + i128::from(self.negative && (rest != 0 || self.cut))
                }
            },
        };
        i64::try_from(if self.negative { -magnitude } else { magnitude }).ok()
    }

    /// The double that is nearest to the number times 10^`power`.
    #[must_use]
    pub fn value(self, power: i32) -> f64 {
        let exponent = self.exponent.saturating_add(power);
        let magnitude = exact(self.digits, exponent).filter(|_| !self.cut).unwrap_or_else(|| {
            // The standard library rounds correctly; what was cut can only matter on a tie, which a last 1 decides.
            let text = format!("{}{}e{exponent}", self.digits, if self.cut { ".1" } else { "" });
            text.parse().unwrap_or(f64::INFINITY)
        });
        if self.negative {
            -magnitude
        } else {
            magnitude
        }
    }
}

/// `digits` * 10^`exponent` by one operation on two exact doubles, which IEEE 754 rounds correctly; `None` otherwise.
#[inline]
#[must_use]
pub fn exact(digits: u64, exponent: i32) -> Option<f64> {
    if digits >> 53 != 0 {
        return None;
    }
    let power = *EXACT.get(exponent.unsigned_abs() as usize)?;
    Some(if exponent < 0 { digits as f64 / power } else { digits as f64 * power })
}

fn exponent_of(text: &[u8]) -> Result<i32, Reason> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse::<i32>().ok()).ok_or("it is no number")
}

fn no_number(text: &[u8]) -> Reason {
    let lower = text.to_ascii_lowercase();
    match lower.as_slice() {
        b"" => "it is empty",
        [b'n', b'a', b'n', ..] => "it is not a number (NaN)",
        b"inf" | b"infinity" => "it is infinite",
        _ => "it is no number",
    }
}

/// How many of the first eight bytes are digits, and the number that these make.
#[inline]
#[must_use]
pub fn leading_digits(eight: [u8; 8]) -> (u32, u64) {
    // Eight bytes at a time in one register: a byte is no digit where adding 0x46 or subtracting 0x30 sets its top bit.
    let bytes = u64::from_le_bytes(eight);
    let other = (bytes.wrapping_add(0x4646_4646_4646_4646) | bytes.wrapping_sub(0x3030_3030_3030_3030))
        & 0x8080_8080_8080_8080;
    let count = other.trailing_zeros() / 8;
    if count == 0 {
        return (0, 0);
    }
    let aligned = (bytes << (64 - 8 * count)) & 0x0f0f_0f0f_0f0f_0f0f;
    let pairs = (aligned.wrapping_mul(10).wrapping_add(aligned >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let all = (fours.wrapping_mul(10_000).wrapping_add(fours >> 32)) & 0xffff_ffff;
    (count, all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_number_says_why() {
        for (text, reason) in [
            ("", "it is empty"),
            ("-", "it is empty"),
            ("nan", "it is not a number (NaN)"),
            ("-NaN", "it is not a number (NaN)"),
            ("inf", "it is infinite"),
            ("-Infinity", "it is infinite"),
            ("1x", "it is no number"),
            ("1e", "it is no number"),
            ("1.2.3", "it is no number"),
            (".", "it is no number"),
            ("0x10", "it is no number"),
        ] {
            assert_eq!(Decimal::parse(text.as_bytes()), Err(reason), "{text}");
        }
    }

    #[test]
    fn times_are_rounded_down() {
        for (text, power, expected) in [
            ("1.5", 0, Some(1)),
            ("-1.5", 0, Some(-2)),
            ("-0", 9, Some(0)),
            ("1.0000000019", 9, Some(1_000_000_001)),
            ("1697040000.123456789", 9, Some(1_697_040_000_123_456_789)),
            ("1e3", 6, Some(1_000_000_000)),
            ("-1e-99", 9, Some(-1)),
            ("0e99", 9, Some(0)),
            ("9999999999", 9, None),
            ("1e400", 9, None),
        ] {
            assert_eq!(Decimal::parse(text.as_bytes()).unwrap().nanoseconds(power), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_value_is_the_one_the_standard_library_reads(
            whole in "[0-9]{1,25}", part in "(\\.[0-9]{0,25})?", exponent in -30i32..30, power in -9i32..10
        ) {
            let found = Decimal::parse(format!("{whole}{part}e{exponent}").as_bytes()).unwrap().value(power);
            let expected: f64 = format!("{whole}{part}e{}", exponent + power).parse().unwrap();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(found) = Decimal::parse(&bytes) {
                let _ = found.nanoseconds(9);
                let _ = found.value(9);
            }
        }

        #[test]
        fn digits_are_counted_and_read(text in "[0-9]{0,8}", after in "[ .,x\n/:]{8}") {
            let eight: [u8; 8] = format!("{text}{after}").as_bytes()[..8].try_into().unwrap();
            prop_assert_eq!(leading_digits(eight), (text.len() as u32, text.parse().unwrap_or(0)));
        }
    }
}
