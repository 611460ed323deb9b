//! Work of the receive path on each CPU: packets taken, dropped, and polls that ran out of budget.

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};

use crate::cpu_list;
use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, put, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

const PROCESSED: Metric =
    of_cpu("softnet.processed", "Packets that the CPU took from devices or from other CPUs.");
const DROPPED: Metric = of_cpu("softnet.dropped", "Packets dropped because the CPU's backlog was full.");
const TIME_SQUEEZE: Metric =
    of_cpu("softnet.time_squeeze", "Times that polling stopped with work left: budget or time used up.");
const RECEIVED_RPS: Metric =
    of_cpu("softnet.received_rps", "Times that another CPU woke this one to receive.");

/// Column in the file (`net/core/net-procfs.c`), and its metric.
const COLUMNS: [(usize, Metric); 4] = [(0, PROCESSED), (1, DROPPED), (2, TIME_SQUEEZE), (9, RECEIVED_RPS)];
/// Column with the number of the CPU (Linux 5.10).
const CPU: usize = 12;

pub(crate) const ENTRY: Entry =
    Entry { name: "softnet", metrics: &[PROCESSED, DROPPED, TIME_SQUEEZE, RECEIVED_RPS], open };

const fn of_cpu(name: &'static str, help: &'static str) -> Metric {
    counter(name, "1", "/proc/self/net/softnet_stat", "cpu=0", help)
}

struct Softnet {
    file: Source,
    online: Vec<u32>,
    growths: Growths<(u32, usize)>,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    let file = Source::open(roots.proc.join("self/net/softnet_stat"))?;
    Ok(Box::new(Softnet { file, online: cpu_list::online(&roots.sys), growths: Growths::default() }))
}

impl Sensor for Softnet {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let text = self.file.text()?;
        let rows: Vec<Vec<u32>> = text.lines().filter_map(hexadecimal).collect();
        if rows.is_empty() {
            drop(text);
            return Err(self.file.nonsense("has no line of hexadecimal numbers"));
        }
        self.growths.begin();
        for (index, row) in rows.iter().enumerate() {
            // Kernels that do not number the rows write one for each CPU online, in their order.
            let cpu = row.get(CPU).copied().or_else(|| self.online.get(index).copied());
            let Some(cpu) = cpu else {
                missing.add(format!("row {index} belongs to no CPU online"));
                continue;
            };
            for (column, metric) in &COLUMNS {
                let Some(&now) = row.get(*column) else {
                    missing.add(format!("{} of CPU {cpu} is not in the file", metric.name));
                    continue;
                };
                let grown = self.growths.since_last(
                    (cpu, *column),
                    u64::from(now),
                    Width::Bits32,
                    metric.name,
                    format_args!("CPU {cpu}"),
                );
                if let Some(grown) = grown {
                    put(out, metric, format!("cpu={cpu}"), grown);
                }
            }
        }
        self.growths.tell_gone(|(cpu, _)| format!("CPU {cpu}"));
        missing.add_any(self.growths.unknown());
        Ok(missing.sentence())
    }
}

/// Numbers of a line; `None` when a word is none.
fn hexadecimal(line: &str) -> Option<Vec<u32>> {
    let numbers: Option<Vec<u32>> =
        line.split_whitespace().map(|word| u32::from_str_radix(word, 16).ok()).collect();
    numbers.filter(|numbers| !numbers.is_empty())
}
