//! Time of each CPU in each state.

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};

use crate::auxv::KernelUnits;
use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, put, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

/// In the order of the columns. Guest time, which follows, is part of user and nice already.
const METRICS: [Metric; 8] = [
    state("cpu.user_ns", "Time in user mode, guests included; on most kernels sampled at the timer tick."),
    state("cpu.nice_ns", "Time in user mode of threads with a positive nice value, guests included."),
    state(
        "cpu.system_ns",
        "Time in the kernel on behalf of threads; on most kernels sampled at the timer tick.",
    ),
    state(
        "cpu.idle_ns",
        "Time idle with no disk I/O outstanding; exact, also where the other states are sampled.",
    ),
    state("cpu.iowait_ns", "Time idle with disk I/O outstanding that began on this CPU."),
    state("cpu.irq_ns", "Time in interrupt handlers; 0 where the kernel does not account it apart."),
    state(
        "cpu.softirq_ns",
        "Time in soft interrupts; sampled where the kernel does not account interrupts apart.",
    ),
    state("cpu.steal_ns", "Time in which the hypervisor ran something else although this CPU had work."),
];

pub(crate) const ENTRY: Entry = Entry { name: "cpu_times", metrics: &METRICS, open };

const fn state(name: &'static str, help: &'static str) -> Metric {
    counter(name, "ns", "/proc/stat", "cpu=0", help)
}

struct CpuTimes {
    stat: Source,
    tick_ns: u64,
    growths: Growths<(u32, usize)>,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    let stat = Source::open(roots.proc.join("stat"))?;
    let tick_ns = KernelUnits::of(&roots.proc).tick_ns;
    Ok(Box::new(CpuTimes { stat, tick_ns, growths: Growths::default() }))
}

impl Sensor for CpuTimes {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let mut cpus = 0;
        let text = self.stat.text()?;
        self.growths.begin();
        for line in text.lines() {
            let Some((cpu, columns)) = cpu_line(line) else { continue };
            cpus += 1;
            let mut ticks = columns.split_whitespace();
            for (column, metric) in METRICS.iter().enumerate() {
                let Some(now) = ticks.next().and_then(|word| word.parse().ok()) else {
                    missing.add(format!("{} of CPU {cpu} is not in the file", metric.name));
                    continue;
                };
                let grown = self.growths.since_last(
                    (cpu, column),
                    now,
                    Width::Bits64,
                    metric.name,
                    format_args!("CPU {cpu}"),
                );
                if let Some(grown) = grown {
                    put(out, metric, format!("cpu={cpu}"), grown.saturating_mul(self.tick_ns));
                }
            }
        }
        self.growths.tell_gone(|(cpu, _)| format!("CPU {cpu}"));
        missing.add_any(self.growths.unknown());
        match cpus {
            0 => Err(self.stat.nonsense("has no line for any CPU (cpu0 ...)")),
            _ => Ok(missing.sentence()),
        }
    }
}

/// Number and columns of a line such as `cpu0 9767 0 3696`; `None` for any other line.
fn cpu_line(line: &str) -> Option<(u32, &str)> {
    let (number, columns) = line.strip_prefix("cpu")?.split_once(' ')?;
    Some((number.parse().ok()?, columns))
}
