//! Columns and rows: chosen from what is asked for and what the first pass found.

use serde::{Deserialize, Serialize};

use crate::failure::Mistake;
use crate::survey::Survey;
use crate::unit::{self, trimmed};

/// Rows where nobody said. Chosen: at 8 pixels each they fit a screen; trace2heatmap.pl has as many.
pub const ROWS: usize = 50;
/// Columns at most, where the width is chosen. Chosen: at 8 pixels each they fit a screen.
pub const AUTOMATIC_COLUMNS: i64 = 200;
/// Columns at most, where the width is given.
pub const MAX_COLUMNS: i64 = 100_000;
/// Rows at most.
pub const MAX_ROWS: usize = 10_000;
/// Cells at most. Chosen: 64 MiB of counts, as far as they are touched.
const MAX_CELLS: i64 = 8 << 20;
/// Share of the values that the rows reach up to, where nobody said; what is above is counted in the overflow row.
pub const HIGH_QUANTILE: f64 = 0.999;
/// Ratio of the greatest and the least edge of logarithmic rows, at most.
const MAX_RATIO: f64 = 1e15;
/// A time so far from the bulk is of another clock or unit, if it is also a thousand times the bulk's span away: a year.
const FAR_NS: i128 = 366 * 86_400 * 1_000_000_000;
const SECOND: i64 = 1_000_000_000;

/// How rows are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scale {
    /// In equal steps.
    Linear,
    /// In equal ratios.
    Log,
}

/// A time that the user named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Nanoseconds after the earliest event.
    AfterFirst(i64),
    /// On the clock of the trace.
    OnClock(i64),
}

/// What the user asked for of columns and rows; values are in the base unit.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Width of a column.
    pub column_ns: Option<i64>,
    /// Columns at most.
    pub max_columns: i64,
    /// Lower edge of the rows.
    pub low: Option<f64>,
    /// Upper edge of the rows.
    pub high: Option<f64>,
    /// Share of the values up to which the rows reach.
    pub high_quantile: f64,
    /// How many rows.
    pub rows: Option<usize>,
    /// Height of a row.
    pub row_step: Option<f64>,
    /// How they are cut; `None`: in equal steps, but where these would hold most values in one row.
    pub scale: Option<Scale>,
    /// Only events from here on.
    pub from: Option<Mark>,
    /// Only events before this.
    pub to: Option<Mark>,
    /// Columns are seconds, rows are offsets within them.
    pub sub_second: bool,
}

impl Default for Asked {
    fn default() -> Self {
        Asked {
            column_ns: None,
            max_columns: MAX_COLUMNS,
            low: None,
            high: None,
            high_quantile: HIGH_QUANTILE,
            rows: None,
            row_step: None,
            scale: None,
            from: None,
            to: None,
            sub_second: false,
        }
    }
}

/// Columns and rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// Where the first column begins.
    pub begin_ns: i64,
    /// Width of a column.
    pub column_ns: i64,
    /// How many.
    pub columns: usize,
    /// Only events from here on are counted.
    pub from_ns: i64,
    /// And those up to this one, itself with them.
    pub last_ns: i64,
    /// Edges of the rows, ascending; written as their bits, so that none is rounded.
    #[serde(with = "bits")]
    pub edges: Vec<f64>,
    /// How they are cut.
    pub scale: Scale,
    /// Rows are offsets within a second.
    pub sub_second: bool,
    /// What was chosen, in words.
    pub notes: Vec<String>,
}

mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(values: &[f64], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(|value| value.to_bits()))
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<f64>, D::Error> {
        Ok(Vec::<u64>::deserialize(from)?.into_iter().map(f64::from_bits).collect())
    }
}

impl Frame {
    /// Whether the same events are in the same cells of both, whatever was said of how they were chosen.
    #[must_use]
    pub fn is_same(&self, other: &Frame) -> bool {
        let place =
            |frame: &Frame| (frame.begin_ns, frame.column_ns, frame.columns, frame.from_ns, frame.last_ns);
        place(self) == place(other)
            && self.edges == other.edges
            && self.scale == other.scale
            && self.sub_second == other.sub_second
    }
}

/// Chooses columns and rows. `line_of` names a place for messages; `unit` is that of values.
///
/// # Errors
/// No event in the time range, more columns or rows than can be drawn, times that cannot be of one clock, limits that
/// leave no room.
pub fn choose(
    asked: &Asked,
    survey: &Survey,
    unit: &str,
    line_of: &dyn Fn(u64) -> String,
) -> Result<Frame, Mistake> {
    let Some([(earliest, earliest_at), (latest, latest_at)]) = survey.times else {
        return Err(Mistake::new(
            "there is no event in it",
            "look at its lines, or name its form with --format",
        ));
    };
    let clock = |mark: Mark| match mark {
        Mark::AfterFirst(ns) => earliest.saturating_add(ns),
        Mark::OnClock(ns) => ns,
    };
    let from_ns = asked.from.map_or(earliest, clock);
    let last_ns = asked.to.map_or(latest, |mark| clock(mark).saturating_sub(1));
    if from_ns > last_ns || from_ns > latest || last_ns < earliest {
        return Err(Mistake::new(
            format!(
                "no event lies in the time range: they lie from {} s to {} s on its clock",
                seconds(i128::from(earliest)),
                seconds(i128::from(latest))
            ),
            "--from and --to count in seconds from the first event; with @ before them on the trace's own clock",
        ));
    }
    if asked.from.is_none() && asked.to.is_none() {
        mixed(survey, [(earliest, earliest_at), (latest, latest_at)], line_of)?;
    }
    let span = i128::from(last_ns) - i128::from(from_ns);
    let mut notes = Vec::new();
    let column_ns = match asked.column_ns {
        _ if asked.sub_second => SECOND,
        Some(width) => width,
        None => round_width(span, AUTOMATIC_COLUMNS.min(asked.max_columns)),
    };
    let begin_ns = if asked.sub_second { from_ns.div_euclid(SECOND) * SECOND } else { from_ns };
    let columns = (i128::from(last_ns) - i128::from(begin_ns)) / i128::from(column_ns) + 1;
    if columns > i128::from(asked.max_columns) {
        return Err(Mistake::new(
            format!(
                "{} s in columns of {} s are {columns} columns, and there can be {}; the earliest event is {}, the latest {}",
                seconds(span),
                seconds(i128::from(column_ns)),
                asked.max_columns,
                line_of(earliest_at),
                line_of(latest_at)
            ),
            "wider columns (--column), a part of the time (--from, --to), or another --time-unit: seconds read as \
             microseconds, or years beside them, look like this",
        ));
    }
    let (edges, scale) = if asked.sub_second {
        let rows = asked.rows.unwrap_or(ROWS);
        (linear(0.0, SECOND as f64, rows), Scale::Linear)
    } else {
        let scale = asked.scale.unwrap_or_else(|| scale_for(asked, survey, unit, &mut notes));
        (rows(asked, scale, survey, unit, &mut notes)?, scale)
    };
    let rows = edges.len() - 1;
    if rows > MAX_ROWS || columns * (rows as i128 + 2) > i128::from(MAX_CELLS) {
        return Err(Mistake::new(
            format!("{columns} columns of {rows} rows are more cells than can be counted ({MAX_CELLS})"),
            "fewer --rows, or wider columns (--column)",
        ));
    }
    Ok(Frame {
        begin_ns,
        column_ns,
        columns: columns as usize,
        from_ns,
        last_ns,
        edges,
        scale,
        sub_second: asked.sub_second,
        notes,
    })
}

/// Refuses times that cannot be of one clock, and names the line that is far from the others.
fn mixed(survey: &Survey, times: [(i64, u64); 2], line_of: &dyn Fn(u64) -> String) -> Result<(), Mistake> {
    let Some([first, last]) = survey.bulk() else { return Ok(()) };
    let advice =
        "mend that line, or choose the time that is meant with --from and --to (with @ on the trace's own clock)";
    let span = i128::from(last) - i128::from(first);
    let far = FAR_NS.max(span * 1000);
    let away = |time: i64, edge: i64| (i128::from(time) - i128::from(edge)).abs();
    let years = |ns: i128| ns as f64 / FAR_NS as f64;
    if survey.events <= 2 {
        return Ok(());
    }
    for ((time, at), edge) in [(times[0], first), (times[1], last)] {
        if away(time, edge) > far {
            // Of three events the bulk is the one in the middle, which has no span to tell.
            let others = if span == 0 {
                format!("at about {} s", seconds(i128::from(edge)))
            } else {
                format!("which lie within {} s", seconds(span))
            };
            return Err(Mistake::new(
                format!(
                    "{} is {:.1} years from the others, {others}: units or clocks are mixed",
                    line_of(at),
                    years(away(time, edge)),
                ),
                advice,
            ));
        }
    }
    // Half of a trace in another unit: two heaps, and years of nothing between them.
    if let Some([before, after]) = survey.longest_gap() {
        let gap = away(before, after);
        if gap > FAR_NS.max((away(times[0].0, times[1].0) - gap) * 1000) {
            return Err(Mistake::new(
                format!(
                    "some events end at {} s and the others begin at {} s, {:.1} years later: units or clocks are mixed; the \
                     earliest event is {}, the latest {}",
                    seconds(i128::from(before)),
                    seconds(i128::from(after)),
                    years(gap),
                    line_of(times[0].1),
                    line_of(times[1].1),
                ),
                advice,
            ));
        }
    }
    Ok(())
}

/// Equal steps; equal ratios where nobody asked for a range, no value is zero and the lowest of the steps would hold more
/// than half of the values, so that a picture of them would be one line.
fn scale_for(asked: &Asked, survey: &Survey, unit: &str, notes: &mut Vec<String>) -> Scale {
    let any = [asked.low, asked.high, asked.row_step].iter().any(Option::is_some);
    let (Some(half), Some(reached)) = (survey.quantile(0.5), survey.quantile(asked.high_quantile)) else {
        return Scale::Linear;
    };
    let least = survey.values.map_or(0.0, |[least, _]| least);
    let counted = matches!(unit, "count" | "ratio");
    if any || counted || least <= 0.0 || half * ROWS as f64 >= reached || reached / least > MAX_RATIO / 100.0
    {
        return Scale::Linear;
    }
    notes.push(format!(
        "rows are logarithmic: half of the values are below {}, the highest are {} times as great",
        unit::said(half, unit),
        trimmed((reached / half).round())
    ));
    Scale::Log
}

fn rows(
    asked: &Asked,
    scale: Scale,
    survey: &Survey,
    unit: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<f64>, Mistake> {
    let [_, greatest] = survey.values.unwrap_or([0.0, 0.0]);
    let high = asked.high.unwrap_or_else(|| {
        let reached = survey.quantile(asked.high_quantile).unwrap_or(greatest);
        // A tail of no more than the same height again is drawn rather than cut off.
        let most = unit::said(greatest, unit);
        let (reached, why) = if greatest <= 2.0 * reached {
            (greatest, format!("the greatest value is {most}"))
        } else {
            let share = trimmed(asked.high_quantile * 100.0);
            (reached, format!("{share} % of the values are no greater, the greatest is {most}"))
        };
        let least = asked.low.filter(|low| reached <= *low).map_or(reached, |low| low * 2.0);
        let high = round_up(if least > 0.0 { least } else { 1.0 });
        notes.push(format!("rows end at {}: {why}", unit::said(high, unit)));
        high
    });
    let low = match (asked.low, scale) {
        (Some(low), _) => low,
        (None, Scale::Linear) => 0.0,
        (None, Scale::Log) => {
            let least = survey.least_above_zero.unwrap_or(high / 10.0).min(high / 10.0).max(high / MAX_RATIO);
            let decade = 10_f64.powi(least.log10().floor() as i32);
            notes.push(format!("rows begin at {}, below the least value", unit::said(decade, unit)));
            decade
        }
    };
    if !(low.is_finite() && high.is_finite() && low < high) {
        return Err(Mistake::new(
            format!("rows from {} to {} leave no room", unit::said(low, unit), unit::said(high, unit)),
            "a --min that is below --max; without them they are found",
        ));
    }
    if scale == Scale::Log {
        if low <= 0.0 || high / low > MAX_RATIO {
            return Err(Mistake::new(
                format!(
                    "rows from {} to {} cannot be logarithmic",
                    unit::said(low, unit),
                    unit::said(high, unit)
                ),
                "a --min above zero, at most fifteen decades below --max; or --scale linear",
            ));
        }
        return distinct(logarithmic(low, high, asked.rows.unwrap_or(ROWS)));
    }
    if let Some(step) = asked.row_step {
        let count = ((high - low) / step).ceil();
        if !(count >= 1.0 && count <= MAX_ROWS as f64) {
            return Err(Mistake::new(
                format!(
                    "rows of {} from {} to {} are {count}, and there can be {MAX_ROWS}",
                    unit::said(step, unit),
                    unit::said(low, unit),
                    unit::said(high, unit)
                ),
                "a greater --row-step",
            ));
        }
        return distinct((0..=count as usize).map(|row| low + step * row as f64).collect());
    }
    distinct(linear(low, high, asked.rows.unwrap_or(ROWS)))
}

fn distinct(edges: Vec<f64>) -> Result<Vec<f64>, Mistake> {
    if edges.windows(2).all(|pair| pair[0] < pair[1]) {
        return Ok(edges);
    }
    Err(Mistake::new(
        "the rows are so many and so narrow that their edges fall together",
        "fewer --rows, or a wider range",
    ))
}

fn linear(low: f64, high: f64, rows: usize) -> Vec<f64> {
    (0..=rows)
        .map(|row| if row == rows { high } else { low + (high - low) * row as f64 / rows as f64 })
        .collect()
}

fn logarithmic(low: f64, high: f64, rows: usize) -> Vec<f64> {
    let ratio = (high / low).ln();
    (0..=rows)
        .map(|row| match row {
            0 => low,
            _ if row == rows => high,
            _ => low * (ratio * row as f64 / rows as f64).exp(),
        })
        .collect()
}

/// The narrowest width of 1, 2 or 5 times a power of ten nanoseconds that needs at most `columns` columns.
pub(crate) fn round_width(span: i128, columns: i64) -> i64 {
    let mut decade = 1_i64;
    loop {
        for step in [1, 2, 5] {
            let width = decade.saturating_mul(step);
            if span / i128::from(width) < i128::from(columns) || width == i64::MAX {
                return width;
            }
        }
        decade = decade.saturating_mul(10);
    }
}

/// The least number of few digits that is not below `value`.
fn round_up(value: f64) -> f64 {
    let exponent = value.log10().floor() as i32 - 1;
    let decade = |tens: f64| {
        if exponent >= 0 {
            tens * 10_f64.powi(exponent)
        } else {
            tens / 10_f64.powi(-exponent)
        }
    };
    [10.0, 12.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0, 120.0]
        .into_iter()
        .map(decade)
        .find(|rounded| *rounded >= value)
        .filter(|rounded| rounded.is_finite())
        .unwrap_or(value)
}

fn seconds(ns: i128) -> String {
    trimmed(ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Batch, Event};
    use crate::pass::Sink;
    use proptest::prelude::*;

    /// What is said of events at these seconds.
    fn refused(at: impl IntoIterator<Item = i64>) -> Option<String> {
        let times: Vec<i64> = at.into_iter().map(|second| second * SECOND).collect();
        let mut survey = Survey::default();
        let events = times
            .iter()
            .zip(0..)
            .map(|(&time_ns, line)| Event { time_ns, value: 1.0, weight: 1, line })
            .collect();
        survey.take(&Batch { events, ..Batch::default() }, 0, b"").unwrap();
        let ends = [(*times.iter().min().unwrap(), 0), (*times.iter().max().unwrap(), 0)];
        mixed(&survey, ends, &|_| "a line".to_owned()).err().map(|mistake| mistake.what)
    }

    #[test]
    fn years_of_nothing_between_two_heaps_are_no_trace() {
        let year = 366 * 86_400;
        let heaps = (0..500).chain((0..500).map(|second| 50 * year + second));
        assert!(refused(heaps)
            .unwrap()
            .starts_with("some events end at 499 s and the others begin at 1581120000 s, 50.0 years"));
        assert!(refused([1, 2, 50 * year]).unwrap().contains("from the others, at about 2 s"));
        // A trace of years with holes of weeks, two events that are all there is, and an idle half a year are pictures.
        assert_eq!(refused((0..3000).map(|week| week * 7 * 86_400)), None);
        assert_eq!(refused([1, 50 * year]), None);
        assert_eq!(refused((0..100).chain([year / 2])), None);
    }

    #[test]
    fn widths_are_round() {
        assert_eq!(round_width(0, 200), 1);
        assert_eq!(round_width(120 * i128::from(SECOND), 200), SECOND);
        assert_eq!(round_width(199 * i128::from(SECOND), 200), SECOND);
        assert_eq!(round_width(200 * i128::from(SECOND), 200), 2 * SECOND);
        assert!(round_width(i128::from(u64::MAX), 200) > 0);
    }

    proptest! {
        #[test]
        fn a_rounded_number_is_not_below_and_not_far_above(value in prop_oneof![1e-9..1e15f64, 1.0..1e4f64]) {
            let rounded = round_up(value);
            prop_assert!(rounded >= value && rounded <= value * 1.34, "{} for {}", rounded, value);
        }
    }
}
