//! What was written into the page cache, and what the kernel wrote from it to devices.

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};

use super::memory::keyed_number;
use crate::auxv::KernelUnits;
use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, gauge, put, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

const VMSTAT: &str = "/proc/vmstat";

const DIRTIED: Metric =
    counter("writeback.dirtied_bytes", "bytes", VMSTAT, "", "Pages of files that became dirty.");
const WRITTEN: Metric =
    counter("writeback.written_bytes", "bytes", VMSTAT, "", "Pages of files written back, and of swap.");
const DIRTY: Metric =
    gauge("writeback.dirty_bytes", "bytes", VMSTAT, "", "Pages that wait to be written back.");
const UNDER_WAY: Metric =
    gauge("writeback.under_way_bytes", "bytes", VMSTAT, "", "Pages that are being written back.");
const LIMIT: Metric =
    gauge("writeback.dirty_limit_bytes", "bytes", VMSTAT, "", "Dirty pages above which every writer waits.");
const BACKGROUND: Metric = gauge(
    "writeback.background_limit_bytes",
    "bytes",
    VMSTAT,
    "",
    "Dirty pages above which the kernel writes back by itself.",
);

/// Key in the file, metric, and whether it only grows.
const VALUES: [(&str, Metric, bool); 6] = [
    ("nr_dirtied ", DIRTIED, true),
    ("nr_written ", WRITTEN, true),
    ("nr_dirty ", DIRTY, false),
    ("nr_writeback ", UNDER_WAY, false),
    ("nr_dirty_threshold ", LIMIT, false),
    ("nr_dirty_background_threshold ", BACKGROUND, false),
];

pub(crate) const ENTRY: Entry =
    Entry { name: "writeback", metrics: &[DIRTIED, WRITTEN, DIRTY, UNDER_WAY, LIMIT, BACKGROUND], open };

struct Writeback {
    vmstat: Source,
    page_bytes: u64,
    growths: Growths<(&'static str, String)>,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    let vmstat = Source::open(roots.proc.join("vmstat"))?;
    let page_bytes = KernelUnits::of(&roots.proc).page_bytes;
    Ok(Box::new(Writeback { vmstat, page_bytes, growths: Growths::default() }))
}

impl Sensor for Writeback {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let text = self.vmstat.text()?;
        let found = VALUES.map(|(key, _, _)| keyed_number(&text, key));
        if found.iter().all(Option::is_none) {
            drop(text);
            return Err(self.vmstat.nonsense("has no line nr_dirtied or nr_dirty"));
        }
        self.growths.begin();
        for ((key, metric, grows), now) in VALUES.iter().zip(found) {
            match now {
                Some(pages) if *grows => {
                    self.growths.put_times(out, metric, "", pages, Width::Bits64, self.page_bytes);
                }
                Some(pages) => put(out, metric, "", pages.saturating_mul(self.page_bytes)),
                None => missing.add(format!("{} is not in the file", key.trim())),
            }
        }
        missing.add_any(self.growths.unknown());
        Ok(missing.sentence())
    }
}
