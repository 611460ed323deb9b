//! Whether a CPU quota stopped the agent: the innermost of its control groups that has one.

use std::path::{Path, PathBuf};

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};

use super::memory::keyed_number;
use crate::cgroup;
use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, Entry, Opened, Roots, SenseError, Sensor, Subject};
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
    stat: Source,
    growths: Growths<(&'static str, String)>,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    let counts = |group: &PathBuf| {
        std::fs::read_to_string(group.join("cpu.stat")).is_ok_and(|text| text.contains("nr_periods"))
    };
    let groups: Vec<PathBuf> = cgroup::directories(roots, "cpu").into_iter().rev().filter(counts).collect();
    let limited = groups.iter().find(|group| cgroup::quota_of(group).is_some());
    let Some(group) = limited.or(groups.first()) else {
        return Err(SenseError::Unavailable(
            "no control group of the agent counts periods of a CPU quota".to_owned(),
        ));
    };
    Ok(Box::new(CgroupCpu { stat: stat_of(group)?, growths: Growths::default() }))
}

fn stat_of(group: &Path) -> Result<Source, SenseError> {
    Source::open(group.join("cpu.stat"))
}

impl Sensor for CgroupCpu {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let text = self.stat.text()?;
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
            return Err(self.stat.nonsense("has no line nr_periods"));
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
