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
        // The kernel counts stalls for each zone of memory apart (`allocstall_normal`, ...).
        let counters = [
            (&STALLS, sum(&text, |key| key.starts_with("allocstall")), 1),
            (&SCANNED, sum(&text, |key| key == "pgscan_direct"), self.page_bytes),
            (&SWAPPED, sum(&text, |key| key == "pswpin" || key == "pswpout"), self.page_bytes),
            (&OOM_KILLS, sum(&text, |key| key == "oom_kill"), 1),
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

/// Sum of the lines `key number` with such a key; `None`: there is none.
fn sum(text: &str, wanted: impl Fn(&str) -> bool) -> Option<u64> {
    let numbers = text.lines().filter_map(|line| {
        let (key, number) = line.split_once(' ')?;
        if wanted(key) {
            number.trim().parse::<u64>().ok()
        } else {
            None
        }
    });
    numbers.fold(None, |sum, number| Some(sum.unwrap_or(0_u64).saturating_add(number)))
}
