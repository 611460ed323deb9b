//! The first pass: where times and values lie, so that columns and rows can be chosen.

use std::io;

use serde::{Deserialize, Serialize};

use crate::event::{place, Batch, Place};
use crate::pass::{Forked, Sink};

/// Bits of a double that are kept to count it: 128 buckets an octave, so a quantile is at most 0.8 % too high. Chosen: as
/// fine as the agent's own histograms.
const SHIFT: u32 = 45;
/// Buckets of all doubles of zero and more.
const BUCKETS: usize = 1 << (63 - SHIFT);
/// Times that are kept to see where the bulk of them lies.
const SAMPLE: usize = 1024;

/// What the first pass found.
pub struct Survey {
    /// Events.
    pub events: u64,
    /// The earliest and the latest time, and where they are.
    pub times: Option<[(i64, Place); 2]>,
    /// The least and the greatest value.
    pub values: Option<[f64; 2]>,
    /// The least value above zero.
    pub least_above_zero: Option<f64>,
    counts: Vec<u64>,
    sample: Vec<i64>,
    /// One of so many events is in the sample, and how many are to come until the next.
    stride: u64,
    until_next: u64,
}

impl Default for Survey {
    fn default() -> Self {
        Survey {
            events: 0,
            times: None,
            values: None,
            least_above_zero: None,
            counts: vec![0; BUCKETS],
            sample: Vec::new(),
            stride: 1,
            until_next: 0,
        }
    }
}

impl Sink for Survey {
    fn take(&mut self, batch: &Batch, chunk: u64, _text: &[u8]) -> io::Result<()> {
        let Some(first) = batch.events.first() else { return Ok(()) };
        let (mut earliest, mut latest) = (first, first);
        let (mut least, mut greatest) = (first.value, first.value);
        let mut above_zero = f64::INFINITY;
        for event in &batch.events {
            if event.time_ns < earliest.time_ns {
                earliest = event;
            } else if event.time_ns > latest.time_ns {
                latest = event;
            }
            least = least.min(event.value);
            greatest = greatest.max(event.value);
            if event.value > 0.0 {
                above_zero = above_zero.min(event.value);
            }
            self.counts[(event.value.to_bits() >> SHIFT) as usize] += u64::from(event.weight);
            self.events += u64::from(event.weight);
            if self.until_next == 0 {
                self.sample_time(event.time_ns);
            }
            self.until_next -= 1;
        }
        self.widen(
            [(earliest.time_ns, place(chunk, earliest.line)), (latest.time_ns, place(chunk, latest.line))],
            [least, greatest],
        );
        if above_zero.is_finite() {
            self.least_above_zero =
                Some(self.least_above_zero.map_or(above_zero, |known| known.min(above_zero)));
        }
        Ok(())
    }
}

impl Forked for Survey {
    fn fork(&self) -> Self {
        Survey::default()
    }

    fn join(&mut self, other: Survey) {
        self.events += other.events;
        self.counts.iter_mut().zip(&other.counts).for_each(|(ours, theirs)| *ours += theirs);
        if let (Some(times), Some(values)) = (other.times, other.values) {
            self.widen(times, values);
        }
        if let Some(theirs) = other.least_above_zero {
            self.least_above_zero = Some(self.least_above_zero.map_or(theirs, |ours| ours.min(theirs)));
        }
        self.join_sample(other.sample, other.stride);
    }
}

/// A survey of one trace as it passes between processes; doubles are their bits, so that none is rounded.
#[derive(Serialize, Deserialize)]
pub struct Flat {
    events: u64,
    /// With the line of each.
    times: Option<[(i64, u64); 2]>,
    values: Option<[u64; 2]>,
    least_above_zero: Option<u64>,
    /// Bucket and count.
    counts: Vec<(u32, u64)>,
    sample: Vec<i64>,
    stride: u64,
}

impl Survey {
    /// What passes to another process; `line_of` says on which line of the trace a place is.
    #[must_use]
    pub fn flat(self, line_of: impl Fn(Place) -> u64) -> Flat {
        let counts = (0..).zip(self.counts).filter(|(_, count)| *count > 0);
        Flat {
            events: self.events,
            times: self.times.map(|ends| ends.map(|(time, place)| (time, line_of(place)))),
            values: self.values.map(|ends| ends.map(f64::to_bits)),
            least_above_zero: self.least_above_zero.map(f64::to_bits),
            counts: counts.collect(),
            sample: self.sample,
            stride: self.stride,
        }
    }

    /// Takes over what another process found; `place_of` makes a place of a line.
    pub fn join_flat(&mut self, flat: Flat, place_of: impl Fn(u64) -> Place) {
        let mut counts = vec![0; BUCKETS];
        flat.counts.into_iter().for_each(|(bucket, count)| counts[bucket as usize] = count);
        self.join(Survey {
            events: flat.events,
            times: flat.times.map(|ends| ends.map(|(time, line)| (time, place_of(line)))),
            values: flat.values.map(|ends| ends.map(f64::from_bits)),
            least_above_zero: flat.least_above_zero.map(f64::from_bits),
            counts,
            sample: flat.sample,
            stride: flat.stride,
            until_next: 0,
        });
    }

    /// Joins two samples of one of so many events each: the same of so many of both, so that neither weighs more.
    fn join_sample(&mut self, mut sample: Vec<i64>, mut stride: u64) {
        while stride < self.stride {
            halve(&mut sample);
            stride *= 2;
        }
        while self.stride < stride || self.sample.len() + sample.len() > 2 * SAMPLE {
            if self.stride >= stride {
                halve(&mut sample);
                stride *= 2;
            }
            halve(&mut self.sample);
            self.stride *= 2;
        }
        self.sample.extend(sample);
    }

    fn widen(&mut self, times: [(i64, Place); 2], values: [f64; 2]) {
        self.times = Some(match self.times {
            None => times,
            // Among equal times the first line is named, whatever thread read it.
            Some([earliest, latest]) => [
                earliest.min(times[0]),
                if times[1].0 > latest.0 || (times[1].0 == latest.0 && times[1].1 < latest.1) {
                    times[1]
                } else {
                    latest
                },
            ],
        });
        self.values = Some(match self.values {
            None => values,
            Some([least, greatest]) => [least.min(values[0]), greatest.max(values[1])],
        });
    }

    fn sample_time(&mut self, time_ns: i64) {
        if self.sample.len() >= SAMPLE {
            halve(&mut self.sample);
            self.stride *= 2;
        }
        self.sample.push(time_ns);
        self.until_next = self.stride;
    }

    /// A value that at least a share `q` of all does not exceed, and at most 0.8 % above the least such; `None` without one.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let [_, greatest] = self.values?;
        let rank = ((self.events as f64 * q).ceil() as u64).clamp(1, self.events.max(1));
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(f64::from_bits(((bucket as u64 + 1) << SHIFT) - 1).min(greatest));
            }
        }
        Some(greatest)
    }

    /// The longest time without an event among those sampled: the last time before it and the first one after it.
    #[must_use]
    pub fn longest_gap(&self) -> Option<[i64; 2]> {
        let mut sample = self.sample.clone();
        sample.sort_unstable();
        let gaps = sample.windows(2).map(|pair| [pair[0], pair[1]]);
        gaps.max_by_key(|[before, after]| i128::from(*after) - i128::from(*before))
    }

    /// The time between which the bulk of the events lies: 98 of 100 of those sampled.
    #[must_use]
    pub fn bulk(&self) -> Option<[i64; 2]> {
        let mut sample = self.sample.clone();
        sample.sort_unstable();
        // One at each end may always be far away.
        let edge = if sample.len() < 3 { 0 } else { (sample.len() / 100).max(1) };
        Some([*sample.get(edge)?, *sample.get(sample.len().checked_sub(1 + edge)?)?])
    }
}

/// Every other one of a sample.
fn halve(sample: &mut Vec<i64>) {
    let mut at = 0;
    sample.retain(|_| {
        at += 1;
        at % 2 == 1
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use proptest::prelude::*;

    fn survey(values: &[f64]) -> Survey {
        let mut survey = Survey::default();
        let events = values
            .iter()
            .zip(0..)
            .map(|(&value, line)| Event { time_ns: i64::from(line), value, weight: 1, line })
            .collect();
        let batch = Batch { events, ..Batch::default() };
        survey.take(&batch, 0, b"").unwrap();
        survey
    }

    proptest! {
        #[test]
        fn a_quantile_is_reached_and_not_far_exceeded(
            mut values in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e12f64, 0.0..1.0f64], 1..300), q in 0.0..=1.0f64
        ) {
            let found = survey(&values).quantile(q).unwrap();
            values.sort_by(f64::total_cmp);
            let exact = values[((values.len() as f64 * q).ceil() as usize).clamp(1, values.len()) - 1];
            prop_assert!(found >= exact && found <= exact * (1.0 + 1.0 / 128.0) + f64::MIN_POSITIVE, "{} for {}", found, exact);
        }

        #[test]
        fn two_surveys_joined_are_one(a in prop::collection::vec(0.0..1e9f64, 0..50), b in prop::collection::vec(0.0..1e9f64, 0..50)) {
            let mut joined = survey(&a);
            joined.join(survey(&b));
            let both: Vec<f64> = a.iter().chain(&b).copied().collect();
            let whole = survey(&both);
            prop_assert_eq!(joined.values, whole.values);
            prop_assert_eq!(joined.events, whole.events);
            prop_assert_eq!(joined.quantile(0.9), whole.quantile(0.9));
        }

        #[test]
        fn a_sample_of_two_is_fair_to_both(many in 1usize..20_000, few in 1usize..20_000) {
            let mut joined = survey(&vec![1.0; many]);
            joined.join(survey(&vec![2.0; few]));
            let of_each = (many + few) / joined.stride as usize;
            prop_assert!(joined.sample.len().abs_diff(of_each) <= 30, "{} of {of_each}", joined.sample.len());
            prop_assert!(joined.sample.len() <= 2 * SAMPLE);
        }
    }
}
