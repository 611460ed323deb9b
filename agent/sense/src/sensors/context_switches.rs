//! What the schedulers of all CPUs did.

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};

use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, gauge, put, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

const STAT: &str = "/proc/stat";

const CONTEXT_SWITCHES: Metric =
    counter("sched.context_switches", "1", STAT, "", "Switches from one thread to another, all CPUs.");
const FORKS: Metric = counter("sched.forks", "1", STAT, "", "Processes and threads started, whole machine.");
const RUNNABLE: Metric = gauge(
    "sched.runnable_threads",
    "1",
    STAT,
    "",
    "Threads running or waiting for a CPU, the one that reads this included.",
);
const BLOCKED: Metric = gauge("sched.blocked_threads", "1", STAT, "", "Threads waiting for disk I/O.");

/// Key in the file, and its metric.
const COUNTERS: [(&str, Metric); 2] = [("ctxt", CONTEXT_SWITCHES), ("processes", FORKS)];
const GAUGES: [(&str, Metric); 2] = [("procs_running", RUNNABLE), ("procs_blocked", BLOCKED)];

pub(crate) const ENTRY: Entry =
    Entry { name: "context_switches", metrics: &[CONTEXT_SWITCHES, FORKS, RUNNABLE, BLOCKED], open };

struct ContextSwitches {
    stat: Source,
    growths: Growths<(&'static str, String)>,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    let stat = Source::open(roots.proc.join("stat"))?;
    Ok(Box::new(ContextSwitches { stat, growths: Growths::default() }))
}

impl Sensor for ContextSwitches {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let text = self.stat.text()?;
        if !COUNTERS.iter().any(|(key, _)| line_value(&text, key).is_some()) {
            drop(text);
            return Err(self.stat.nonsense("has no line ctxt or processes"));
        }
        self.growths.begin();
        for (key, metric) in &COUNTERS {
            let Some(now) = line_value(&text, key) else {
                missing.add(format!("{} is not in the file", metric.name));
                continue;
            };
            self.growths.put(out, metric, "", now, Width::Bits64);
        }
        for (key, metric) in &GAUGES {
            match line_value(&text, key) {
                Some(now) => put(out, metric, "", now),
                None => missing.add(format!("{} is not in the file", metric.name)),
            }
        }
        missing.add_any(self.growths.unknown());
        Ok(missing.sentence())
    }
}

/// The number of the line `key number`.
fn line_value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}
