//! Whether a CPU quota stopped the agent: the innermost of its control groups that has one.

use std::fs;
use std::path::PathBuf;

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};

use super::memory::keyed_number;
use crate::cgroup;
use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, put, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

const STAT: &str = "cpu.stat of the control group";

const PERIODS: Metric =
    counter("cgroup.periods", "1", STAT, "", "Periods of the quota in which the group ran; 0: no quota.");
const THROTTLED: Metric =
    counter("cgroup.throttled_periods", "1", STAT, "", "Periods in which the quota was used up.");
const THROTTLED_NS: Metric = counter(
    "cgroup.throttled_ns",
    "ns",
    STAT,
    "",
    "Time for which the group was stopped, summed over its CPUs.",
);

pub(crate) const ENTRY: Entry =
    Entry { name: "cgroup_cpu", metrics: &[PERIODS, THROTTLED, THROTTLED_NS], open };

struct CgroupCpu {
    /// `None`: no group counts periods, as none has the controller, and none can have a quota.
    stat: Option<Source>,
    growths: Growths<(&'static str, String)>,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    let stat = |group: PathBuf| Some((fs::read_to_string(group.join("cpu.stat")).ok()?, group));
    let mut seen: Vec<_> = cgroup::directories(roots, "cpu").into_iter().rev().filter_map(stat).collect();
    if seen.is_empty() {
        return Err(SenseError::Unavailable("no control group of the agent can be seen".to_owned()));
    }
    seen.retain(|(text, _)| text.contains("nr_periods"));
    let limited = seen.iter().find(|(_, group)| cgroup::quota_of(group).is_some());
    let stat = limited.or(seen.first()).map(|(_, group)| Source::open(group.join("cpu.stat")));
    Ok(Box::new(CgroupCpu { stat: stat.transpose()?, growths: Growths::default() }))
}

impl Sensor for CgroupCpu {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let Some(stat) = &mut self.stat else {
            for metric in [&PERIODS, &THROTTLED, &THROTTLED_NS] {
                put(out, metric, "", 0);
            }
            return Ok(None);
        };
        let text = stat.text()?;
        let number = |key: &str| keyed_number(&text, key);
        // Version 1 of control groups counts nanoseconds, version 2 microseconds.
        let throttled_ns = number("throttled_time ")
            .or_else(|| number("throttled_usec ").map(|us| us.saturating_mul(1_000)));
        let counters = [
            (&PERIODS, number("nr_periods ")),
            (&THROTTLED, number("nr_throttled ")),
            (&THROTTLED_NS, throttled_ns),
        ];
        if counters.iter().all(|(_, now)| now.is_none()) {
            drop(text);
            return Err(stat.nonsense("has no line nr_periods"));
        }
        self.growths.begin();
        for (metric, now) in counters {
            match now {
                Some(now) => self.growths.put(out, metric, "", now, Width::Bits64),
                None => missing.add(format!("{} is not in the file", metric.name)),
            }
        }
        missing.add_any(self.growths.unknown());
        Ok(missing.sentence())
    }
}
