//! Memory that the kernel had to take back before it could give any: whoever asked waited for it.

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};

use crate::auxv::KernelUnits;
use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

const VMSTAT: &str = "/proc/vmstat";

const STALLS: Metric =
    counter("reclaim.direct_stalls", "1", VMSTAT, "", "Times that a task took memory back itself.");
const SCANNED: Metric = counter(
    "reclaim.direct_scanned_bytes",
    "bytes",
    VMSTAT,
    "",
    "Memory that tasks looked through for something to take back.",
);
const SWAPPED: Metric = counter("reclaim.swapped_bytes", "bytes", VMSTAT, "", "Memory swapped in and out.");
const OOM_KILLS: Metric =
    counter("reclaim.oom_kills", "1", VMSTAT, "", "Processes killed for want of memory.");

pub(crate) const ENTRY: Entry =
    Entry { name: "reclaim", metrics: &[STALLS, SCANNED, SWAPPED, OOM_KILLS], open };

struct Reclaim {
    vmstat: Source,
    page_bytes: u64,
    growths: Growths<(&'static str, String)>,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    let vmstat = Source::open(roots.proc.join("vmstat"))?;
    let page_bytes = KernelUnits::of(&roots.proc).page_bytes;
    Ok(Box::new(Reclaim { vmstat, page_bytes, growths: Growths::default() }))
}

impl Sensor for Reclaim {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let text = self.vmstat.text()?;
        let found = Found::in_file(&text);
        let counters = [
            (&STALLS, found.stalls, 1),
            (&SCANNED, found.scanned, self.page_bytes),
            (&SWAPPED, found.swapped, self.page_bytes),
            (&OOM_KILLS, found.oom_kills, 1),
        ];
        if counters.iter().all(|(_, now, _)| now.is_none()) {
            drop(text);
            return Err(self.vmstat.nonsense("has no line allocstall or pgscan_direct"));
        }
        self.growths.begin();
        for (metric, now, unit) in counters {
            match now {
                Some(now) => self.growths.put_times(out, metric, "", now, Width::Bits64, unit),
                None => missing.add(format!("{} is not in the file", metric.name)),
            }
        }
        missing.add_any(self.growths.unknown());
        Ok(missing.sentence())
    }
}

/// What the file says of it; `None`: nothing. Some counters are the sum of several lines.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    stalls: Option<u64>,
    scanned: Option<u64>,
    swapped: Option<u64>,
    oom_kills: Option<u64>,
}

impl Found {
    /// Reads lines `key number`, each once: there are 200, read in the middle of a load.
    fn in_file(text: &str) -> Found {
        let mut found = Found::default();
        for (key, number) in text.lines().filter_map(|line| line.split_once(' ')) {
            let sum = match key {
                "pgscan_direct" => &mut found.scanned,
                "pswpin" | "pswpout" => &mut found.swapped,
                "oom_kill" => &mut found.oom_kills,
                // The kernel counts stalls for each zone of memory apart (`allocstall_normal`, ...).
                _ if key.starts_with("allocstall") => &mut found.stalls,
                _ => continue,
            };
            if let Ok(number) = number.trim().parse() {
                *sum = Some(sum.unwrap_or(0_u64).saturating_add(number));
            }
        }
        found
    }
}
