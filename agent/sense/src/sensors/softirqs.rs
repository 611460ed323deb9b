//! Soft interrupts that each CPU ran.

use iodyno_core::metric::{Metric, Value};

use crate::cpu_table::CpuTable;
use crate::missing::Missing;
use crate::sensor::{counter, put, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

const COUNT: Metric = counter(
    "softirqs.count",
    "1",
    "/proc/softirqs",
    "cpu=0,vector=NET_RX",
    "Soft interrupts run; vectors that did not move are left out.",
);

pub(crate) const ENTRY: Entry = Entry { name: "softirqs", metrics: &[COUNT], open };

struct Softirqs {
    file: Source,
    table: CpuTable,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    let file = Source::open(roots.proc.join("softirqs"))?;
    Ok(Box::new(Softirqs { file, table: CpuTable::default() }))
}

impl Sensor for Softirqs {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let text = self.file.text()?;
        let Some(moved) = self.table.advance(&text, &mut missing) else {
            drop(text);
            return Err(self.file.nonsense("has no heading CPU0 CPU1 ..."));
        };
        for row in moved {
            for (cpu, grown) in row.growth {
                put(out, &COUNT, format!("cpu={cpu},vector={}", row.name), grown);
            }
        }
        Ok(missing.sentence())
    }
}
