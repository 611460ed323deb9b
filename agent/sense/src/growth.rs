//! Growth of a family of counters, and which of them it is not known for.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::hash::Hash;

use iodyno_core::counter::{growth, Width};

use iodyno_core::metric::{Metric, Value};

use crate::missing::Missing;
use crate::sensor::put;

/// Where each counter stood at the last reading.
///
/// A counter that was not in the last reading is new: what it shows may have grown at any time before, so
/// its growth is not known. This is why counters that are absent from one reading are forgotten.
#[derive(Debug)]
pub(crate) struct Growths<K> {
    last: HashMap<K, (u64, u64)>,
    reading: u64,
    unknown: Missing,
}

impl<K> Default for Growths<K> {
    fn default() -> Self {
        Growths { last: HashMap::new(), reading: 0, unknown: Missing::default() }
    }
}

impl<K: Eq + Hash> Growths<K> {
    /// Begins a reading; to be called once its source has been read.
    pub fn begin(&mut self) {
        let last = self.reading;
        self.last.retain(|_, (reading, _)| *reading == last);
        self.reading += 1;
        self.unknown = Missing::default();
    }

    /// Whether this is the first reading, whose values mean nothing.
    pub fn first(&self) -> bool {
        self.reading == 1
    }

    /// Growth since the last reading; `None` in the first one, and for a counter that is new or was reset,
    /// which is then told in [`Growths::unknown`]. `metric` and `owner` (a CPU, a device) are for the telling.
    pub fn since_last(
        &mut self,
        key: K,
        now: u64,
        width: Width,
        metric: &str,
        owner: impl Display,
    ) -> Option<u64> {
        let Some((_, before)) = self.last.insert(key, (self.reading, now)) else {
            if !self.first() {
                self.unknown.add(format!("{owner} is new: growth not known"));
            }
            return None;
        };
        let grown = growth(before, now, width);
        if grown.is_none() {
            self.unknown.add(format!("{metric} of {owner} went backwards: growth not known"));
        }
        grown
    }

    /// Counters of the last reading that are not in this one, to be asked when all of this one were given.
    pub fn gone(&self) -> impl Iterator<Item = &K> + '_ {
        self.last.iter().filter(|(_, (reading, _))| *reading != self.reading).map(|(key, _)| key)
    }

    /// Tells, once, whose counters have vanished: they grew by what nobody knows since the last reading.
    pub fn tell_gone<O: Display + Ord>(&mut self, owner: impl Fn(&K) -> O) {
        let owners: BTreeSet<O> = self.gone().map(owner).collect();
        for owner in owners {
            self.unknown.add(format!("{owner} is gone: growth not known"));
        }
    }

    /// Which counters the growth of is not known in this reading.
    pub fn unknown(&mut self) -> Option<String> {
        std::mem::take(&mut self.unknown).sentence()
    }
}

/// Counters that have a name of their own.
impl Growths<String> {
    /// Like [`Growths::since_last`], without a copy of a name that is known already.
    pub fn since_last_named(&mut self, name: &str, now: u64, width: Width, metric: &str) -> Option<u64> {
        match self.last.get_mut(name) {
            Some(last) => {
                let (_, before) = std::mem::replace(last, (self.reading, now));
                let grown = growth(before, now, width);
                if grown.is_none() {
                    self.unknown.add(format!("{metric} of {name} went backwards: growth not known"));
                }
                grown
            }
            None => self.since_last(name.to_owned(), now, width, metric, name),
        }
    }
}

/// Counters of a sensor that each have a label.
impl Growths<(&'static str, String)> {
    /// Puts the growth of a counter down, where it is known. `label` is the owner, or empty for the machine.
    pub fn put(&mut self, out: &mut Vec<Value>, metric: &Metric, label: &str, now: u64, width: Width) {
        self.put_times(out, metric, label, now, width, 1);
    }

    /// Likewise for a counter in a larger unit than the metric's: `unit` of the metric's each.
    pub fn put_times(
        &mut self,
        out: &mut Vec<Value>,
        metric: &Metric,
        label: &str,
        now: u64,
        width: Width,
        unit: u64,
    ) {
        let owner = if label.is_empty() { "the machine" } else { label };
        if let Some(grown) = self.since_last((metric.name, label.to_owned()), now, width, metric.name, owner)
        {
            put(out, metric, label, grown.saturating_mul(unit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_was_away_or_reset_is_named_and_not_counted() {
        let mut growths = Growths::default();
        growths.begin();
        assert_eq!(growths.since_last(0, 10, Width::Bits64, "rx_bytes", "eth0"), None);
        assert_eq!(growths.unknown(), None, "the first reading has nothing to be compared with");
        growths.begin();
        assert_eq!(growths.since_last(0, 12, Width::Bits64, "rx_bytes", "eth0"), Some(2));
        growths.begin();
        assert_eq!(growths.since_last(0, 3, Width::Bits64, "rx_bytes", "eth0"), None);
        assert_eq!(growths.unknown().unwrap(), "rx_bytes of eth0 went backwards: growth not known");
        growths.begin();
        assert_eq!(growths.gone().collect::<Vec<_>>(), [&0]);
        growths.tell_gone(|number| format!("eth{number}"));
        assert_eq!(growths.unknown().unwrap(), "eth0 is gone: growth not known");
        growths.begin();
        assert_eq!(growths.gone().count(), 0, "it was told once");
        assert_eq!(growths.since_last(0, 90, Width::Bits64, "rx_bytes", "eth0"), None);
        assert_eq!(growths.unknown().unwrap(), "eth0 is new: growth not known");
    }
}
