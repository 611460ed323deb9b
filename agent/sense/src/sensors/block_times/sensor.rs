//! The sensor where the agent has the kernel-side programs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use iodyno_core::metric::{Times, Value};
use iodyno_sys::lock::locked;

use super::{
    BYTES, COMPLETION, ERRORS, LEFT_OUT, OBSERVER, OPERATIONS, PROCESS_BYTES, PROCESS_OPERATIONS, SLOW,
    SLOWEST,
};
use crate::blocks::times::{BlockTimes, LeftOut, Process, Series, SeriesKey, SlowOperation, Spent};
use crate::kernel_types;
use crate::missing::Missing;
use crate::sensor::{put, Opened, Roots, SenseError, Sensor, Subject};

/// Most slow operations that a reading tells one by one.
const SLOWEST_MAX: usize = 32;
/// Most processes that a reading tells, those with the most operations.
const PROCESSES_MAX: usize = 16;

/// Programs that no trial uses at the moment: an agent loads them once.
static SPARE: Mutex<Vec<BlockTimes>> = Mutex::new(Vec::new());

struct BlockTimesSensor {
    /// Taken only when the sensor is dropped.
    programs: Option<BlockTimes>,
    sys: PathBuf,
    /// The state at the last reading.
    last: Option<State>,
    /// The kernel takes the time of programs as long as this is open: in the first interval of the warm-up.
    timed: Option<(std::os::fd::OwnedFd, Spent)>,
    warm_up: bool,
    completion_ns: Option<f64>,
    names: HashMap<(u32, u32), String>,
    times: Vec<Times>,
}

struct State {
    series: HashMap<SeriesKey, Series>,
    processes: Vec<Process>,
    left_out: LeftOut,
}

pub(super) fn open(roots: &Roots, subject: &Subject) -> Opened {
    if !subject.storage {
        // Asked only whether it could be: to load the programs takes longer than all else at an agent's start.
        kernel_types::look(&roots.sys)?;
        return Ok(Box::new(NothingToRead));
    }
    let spare = spare().pop();
    let programs = match spare {
        Some(programs) => programs,
        None => BlockTimes::load(&roots.sys)?,
    };
    // From here on what is attached is taken away again when it is dropped.
    let mut sensor = BlockTimesSensor {
        programs: Some(programs),
        sys: roots.sys.clone(),
        last: None,
        timed: None,
        warm_up: subject.warm_up.0 > 0,
        completion_ns: None,
        names: HashMap::new(),
        times: Vec::new(),
    };
    sensor.programs()?.attach()?;
    Ok(Box::new(sensor))
}

/// Of a load that is not on files or devices.
struct NothingToRead;

impl Sensor for NothingToRead {
    fn read(&mut self, _: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        Ok(None)
    }
}

fn spare() -> MutexGuard<'static, Vec<BlockTimes>> {
    locked(&SPARE)
}

impl BlockTimesSensor {
    fn programs(&mut self) -> Result<&mut BlockTimes, SenseError> {
        self.programs.as_mut().ok_or_else(|| SenseError::Unavailable("it has ended".to_owned()))
    }

    /// Begins or ends to take the time of the programs. Gives why it cannot be.
    fn time_programs(&mut self) -> Option<String> {
        let Some(programs) = &self.programs else { return None };
        if let Some((open, before)) = self.timed.take() {
            let now = programs.spent();
            drop(open);
            let now = now.ok()?;
            let completions = now.completions - before.completions;
            if completions > 0 {
                self.completion_ns = Some((now.ns - before.ns) as f64 / completions as f64);
            }
        } else if self.last.is_none() && self.warm_up {
            return match (aya::sys::enable_stats(aya::sys::Stats::RunTime), programs.spent()) {
                (Ok(open), Ok(before)) => {
                    self.timed = Some((open, before));
                    None
                }
                (Err(error), _) => Some(format!("cost of the sensor not measured: {error}")),
                (_, Err(error)) => Some(format!("cost of the sensor not measured: {error}")),
            };
        }
        None
    }

    fn report(&mut self, out: &mut Vec<Value>, before: &State, now: &State) {
        let none = Series::default();
        let mut ended = 0;
        let mut keys: Vec<&SeriesKey> = now.series.keys().collect();
        keys.sort_unstable();
        for key in keys {
            let (now, before) = (&now.series[key], before.series.get(key).unwrap_or(&none));
            if now == before {
                continue;
            }
            let name = name_of(&mut self.names, &self.sys, key.device);
            let label = format!("dev={name},{}", key.label());
            let counts = [
                (&OPERATIONS, now.operations - before.operations),
                (&BYTES, now.bytes - before.bytes),
                (&ERRORS, now.errors - before.errors),
                (&SLOW, now.slow - before.slow),
            ];
            for (metric, count) in counts {
                put(out, metric, label.clone(), count);
            }
            ended += now.operations - before.operations;
            let times = [("queue", now.queue_since(before)), ("service", now.service_since(before))];
            self.times.extend(times.map(|(kind, times)| Times {
                metric: format!("block.{kind}_time_ns"),
                label: label.clone(),
                times,
            }));
        }
        if let Some(one) = self.completion_ns {
            put(out, &COMPLETION, "", one.round() as u64);
            put(out, &OBSERVER, "", (ended as f64 * one) as u64);
        }
    }

    fn report_slow(&mut self, out: &mut Vec<Value>, mut slow: Vec<SlowOperation>) {
        slow.sort_by_key(|one| std::cmp::Reverse(one.ended.minus(one.made)));
        for one in slow.iter().take(SLOWEST_MAX) {
            let name = name_of(&mut self.names, &self.sys, one.series.device);
            let kind = one.series.label();
            let operation = kind.split(',').next().unwrap_or_default();
            let label = format!(
                "dev={name},{operation},sector={},bytes={},queue_ns={},ended_ns={}",
                one.sector,
                one.bytes,
                one.issued.minus(one.made).0,
                one.ended.0
            );
            put(out, &SLOWEST, label, one.ended.minus(one.made).0);
        }
    }
}

impl Sensor for BlockTimesSensor {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        self.times.clear();
        let mut missing = Missing::default();
        missing.add_any(self.time_programs());
        let programs = self.programs()?;
        let now = State {
            series: programs.series()?,
            processes: programs.processes()?,
            left_out: programs.left_out()?,
        };
        let slow = programs.slow();
        if let Some(before) = self.last.take() {
            self.report(out, &before, &now);
            self.report_slow(out, slow);
            report_processes(out, &before.processes, &now.processes);
            let lost = |state: &State| state.left_out.no_room + state.left_out.unseen;
            put(out, &LEFT_OUT, "", lost(&now) - lost(&before));
            if now.left_out.unseen > before.left_out.unseen {
                self.programs()?.look_inside()?;
            }
        }
        self.last = Some(now);
        Ok(missing.sentence())
    }

    fn times(&mut self) -> Vec<Times> {
        std::mem::take(&mut self.times)
    }
}

impl Drop for BlockTimesSensor {
    fn drop(&mut self) {
        if let Some(mut programs) = self.programs.take() {
            programs.detach();
            spare().push(programs);
        }
    }
}

/// Puts down those that began most.
fn report_processes(out: &mut Vec<Value>, before: &[Process], now: &[Process]) {
    let mut grown: Vec<(u64, u64, &Process)> = now
        .iter()
        .map(|process| {
            let known = before.iter().find(|one| one.id == process.id);
            let (operations, bytes) = known.map_or((0, 0), |one| (one.operations, one.bytes));
            (process.operations.saturating_sub(operations), process.bytes.saturating_sub(bytes), process)
        })
        .filter(|(operations, _, _)| *operations > 0)
        .collect();
    grown.sort_by_key(|(operations, _, _)| std::cmp::Reverse(*operations));
    for (operations, bytes, process) in grown.into_iter().take(PROCESSES_MAX) {
        let label = format!("process={},id={}", process.name.replace([',', '='], "_"), process.id);
        put(out, &PROCESS_OPERATIONS, label.clone(), operations);
        put(out, &PROCESS_BYTES, label, bytes);
    }
}

/// A device's name, by its number, as `/proc/diskstats` has it; the number where the kernel does not tell.
fn name_of(names: &mut HashMap<(u32, u32), String>, sys: &Path, device: (u32, u32)) -> String {
    let (major, minor) = device;
    let told = || {
        let link = std::fs::read_link(sys.join(format!("dev/block/{major}:{minor}"))).ok()?;
        Some(link.file_name()?.to_string_lossy().replace([',', '='], "_"))
    };
    names.entry(device).or_insert_with(|| told().unwrap_or_else(|| format!("{major}:{minor}"))).clone()
}
