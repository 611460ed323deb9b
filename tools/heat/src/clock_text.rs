//! Times as clocks are written: of a day, and of the calendar.

use crate::unit::Unit;

const SECONDS_A_DAY: i64 = 86_400;
const NS: i64 = 1_000_000_000;

/// `HH:MM:SS[.fraction]` in nanoseconds since midnight.
#[must_use]
pub fn time_of_day(text: &[u8]) -> Option<i64> {
    let mut parts = text.splitn(3, |byte| *byte == b':');
    let (hours, minutes, seconds) = (two(parts.next()?)?, two(parts.next()?)?, parts.next()?);
    let whole = seconds.split(|byte| *byte == b'.').next()?;
    // 60 is a leap second.
    if hours > 24
        || minutes > 59
        || two(whole)? > 60
        || seconds.iter().any(|byte| !byte.is_ascii_digit() && *byte != b'.')
    {
        return None;
    }
    Some((hours * 3600 + minutes * 60) * NS + Unit::S.time_of(seconds).ok()?)
}

const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";

/// `YYYY-MM-DD[T ]HH:MM:SS[.fraction][Z|+HH:MM]` in nanoseconds since 1970 (ISO 8601; without a zone, as if it were UTC), or
/// `YYYY Mon DD HH:MM:SS`, as DTrace writes a `%Y`.
#[must_use]
pub fn calendar(text: &[u8]) -> Option<i64> {
    if text.get(4) == Some(&b' ') {
        let month = MONTHS.chunks(3).position(|name| text.get(5..8) == Some(name))? + 1;
        let day = std::str::from_utf8(text.get(8..11)?).ok()?.trim().parse::<u8>().ok()?;
        let year = std::str::from_utf8(&text[..4]).ok()?;
        let clock = std::str::from_utf8(text.get(11..)?).ok()?;
        return calendar(format!("{year}-{month:02}-{day:02}{clock}").as_bytes());
    }
    let (date, rest) = text.split_at_checked(10)?;
    let (b'-', b'-') = (date[4], date[7]) else { return None };
    let year = two(&date[..2])? * 100 + two(&date[2..4])?;
    let (month, day) = (two(&date[5..7])?, two(&date[8..])?);
    if !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || !matches!(rest.first(), Some(b'T' | b' ' | b't'))
    {
        return None;
    }
    let rest = &rest[1..];
    let zone = rest.iter().position(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-')).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(zone);
    let offset_s = match zone {
        [] | [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), hours @ ..] if hours.len() >= 2 => {
            let minutes = hours[2..].strip_prefix(b":").unwrap_or(&hours[2..]);
            let magnitude =
                two(&hours[..2])? * 3600 + if minutes.is_empty() { 0 } else { two(minutes)? * 60 };
            if *sign == b'-' {
                -magnitude
            } else {
                magnitude
            }
        }
        _ => return None,
    };
    let seconds = days_since_1970(year, month, day) * SECONDS_A_DAY - offset_s;
    seconds.checked_mul(NS)?.checked_add(time_of_day(clock)?)
}

/// Days from 1970-01-01 in the Gregorian calendar: days of a year that begins in March, so that the leap day is its last,
/// plus leap years (by definition: every fourth, not every hundredth, but every four-hundredth).
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    // 153 days are five months from March on, or from August on.
    let in_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + in_year - 719_468
}

fn two(digits: &[u8]) -> Option<i64> {
    match digits {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
            Some(i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
        }
        _ => None,
    }
}

/// Times of day that go on after midnight.
#[derive(Default)]
pub struct Midnights {
    last_ns: Option<i64>,
    days: i64,
}

impl Midnights {
    /// The time since the first midnight: half a day back is the next day, as traces are nearly in order.
    pub fn since_first(&mut self, time_ns: i64) -> i64 {
        let half = SECONDS_A_DAY / 2 * NS;
        if let Some(last) = self.last_ns {
            if time_ns < last - half {
                self.days += 1;
            } else if time_ns > last + half {
                self.days -= 1;
            }
        }
        self.last_ns = Some(time_ns);
        time_ns.saturating_add(self.days.saturating_mul(SECONDS_A_DAY * NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn clocks_are_read() {
        assert_eq!(time_of_day(b"01:02:03.5"), Some(3_723_500_000_000));
        assert_eq!(time_of_day(b"1:02:03"), None);
        assert_eq!(time_of_day(b"01:02"), None);
        assert_eq!(time_of_day(b"01:02:03.4.5"), None);
        assert_eq!(calendar(b"1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(calendar(b"2000-02-29 12:00:00.25+01:30"), Some(951_820_200_250_000_000));
        assert_eq!(calendar(b"2024-13-01T00:00:00"), None);
        assert_eq!(calendar(b"1970 Jan  2 00:00:01"), Some(86_401_000_000_000));
        assert_eq!(calendar(b"2000 Feb 29 12:00:00"), calendar(b"2000-02-29 12:00:00"));
        assert_eq!(calendar(b"2000 Smarch 1 12:00"), None);
    }

    #[test]
    fn midnight_is_passed() {
        let mut days = Midnights::default();
        assert_eq!(days.since_first(86_399 * NS), 86_399 * NS);
        assert_eq!(days.since_first(NS), 86_401 * NS);
        assert_eq!(days.since_first(86_399 * NS), 86_399 * NS);
    }

    proptest! {
        #[test]
        fn no_bytes_make_them_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = time_of_day(&bytes);
            let _ = calendar(&bytes);
        }

        #[test]
        fn days_follow_each_other(year in 1i64..3000, month in 1i64..13) {
            let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            let leap = month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = lengths[month as usize - 1] + i64::from(leap);
            let next = if month == 12 { days_since_1970(year + 1, 1, 1) } else { days_since_1970(year, month + 1, 1) };
            prop_assert_eq!(next - days_since_1970(year, month, 1), length);
        }
    }
}
