//! Memory of other NUMA nodes: pages that were given from there, and, where the hardware counts them, loads that went there.

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};
use iodyno_sys::perf_event::Event;

use super::cycles::CpuCounters;
use crate::cpu_list;
use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

const NUMASTAT: &str = "/sys/devices/system/node/node*/numastat";

const LOCAL: Metric = counter(
    "numa.local_pages",
    "1",
    NUMASTAT,
    "node=0",
    "Pages of the node that CPUs of its own were given.",
);
const REMOTE: Metric = counter(
    "numa.remote_pages",
    "1",
    NUMASTAT,
    "node=0",
    "Pages of the node that CPUs of others were given.",
);
const LOADS: Metric = counter(
    "numa.loads",
    "1",
    "perf_event_open",
    "cpu=0",
    "Loads that memory answered, of any node (PERF_COUNT_HW_CACHE_NODE).",
);
const REMOTE_LOADS: Metric = counter(
    "numa.remote_loads",
    "1",
    "perf_event_open",
    "cpu=0",
    "Those that the memory of another node answered.",
);

pub(crate) const ENTRY: Entry = Entry { name: "numa", metrics: &[LOCAL, REMOTE, LOADS, REMOTE_LOADS], open };

struct Numa {
    nodes: Vec<(String, Source)>,
    growths: Growths<(&'static str, String)>,
    counters: Vec<(&'static Metric, CpuCounters)>,
    /// Why loads are not counted.
    uncounted: Option<String>,
}

fn open(roots: &Roots, subject: &Subject) -> Opened {
    let folder = roots.sys.join("devices/system/node");
    // Also those with memory alone.
    let nodes = cpu_list::parse(&std::fs::read_to_string(folder.join("online")).unwrap_or_default());
    if nodes.len() < 2 {
        return Err(SenseError::Unavailable("the machine has one NUMA node".to_owned()));
    }
    let opened = nodes.iter().map(|node| {
        let source = Source::open(folder.join(format!("node{node}/numastat")))?;
        Ok((format!("node={node}"), source))
    });
    let nodes = opened.collect::<Result<_, SenseError>>()?;
    let cpus = if subject.cpus.is_empty() { cpu_list::online(&roots.sys) } else { subject.cpus.clone() };
    let events = [(&LOADS, Event::NodeLoads), (&REMOTE_LOADS, Event::NodeLoadMisses)];
    let counters: Result<Vec<_>, SenseError> =
        events.into_iter().map(|(metric, event)| Ok((metric, CpuCounters::new(event, &cpus)?))).collect();
    let (counters, uncounted) = match counters {
        Ok(counters) => (counters, None),
        Err(error) => (Vec::new(), Some(format!("loads from memory: {error}"))),
    };
    Ok(Box::new(Numa { nodes, growths: Growths::default(), counters, uncounted }))
}

impl Sensor for Numa {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        self.growths.begin();
        for (name, source) in &mut self.nodes {
            let (local, remote) = pages(&source.text()?);
            let (Some(local), Some(remote)) = (local, remote) else {
                return Err(source.nonsense("has no lines local_node and other_node"));
            };
            self.growths.put(out, &LOCAL, name, local, Width::Bits64);
            self.growths.put(out, &REMOTE, name, remote, Width::Bits64);
        }
        missing.add_any(self.growths.unknown());
        for (metric, counters) in &mut self.counters {
            counters.read(metric, out, &mut missing);
        }
        missing.add_any(self.uncounted.clone());
        Ok(missing.sentence())
    }
}

/// `local_node` and `other_node` (Documentation/admin-guide/numastat.rst).
fn pages(text: &str) -> (Option<u64>, Option<u64>) {
    let number = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.and_then(|number| number.trim().parse().ok())
    };
    (number("local_node"), number("other_node"))
}
