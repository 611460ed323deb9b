//! The sensor where the agent has the kernel-side programs.

use std::os::fd::AsFd;

use aya::maps::{MapData, PerCpuArray};
use aya::programs::{BtfTracePoint, Program, RawTracePoint};
use aya::{include_bytes_aligned, Ebpf, EbpfError, EbpfLoader, VerifierLogLevel};
use iodyno_core::metric::{Times, Value};
use iodyno_sys::bpf;

use super::{BYTES, CALLS, ERRORS, LEFT_OUT};
use crate::exact::refusal::Refusal;
use crate::kernel_buckets::{counts, growth, BUCKETS};
use crate::kernel_types;
use crate::sensor::{put, Opened, Roots, SenseError, Sensor, Subject};

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/syscall_times.bpf.o"));

/// Program and tracepoint. The begin comes last: every call that has one has an end.
const PROGRAMS: [(&str, &str); 2] = [("ended", "sys_exit"), ("begun", "sys_enter")];
/// What calls do, by number from 1, as in `bpf/syscall_times.h`.
const OPERATIONS: [&str; 6] = ["read", "write", "sync", "receive", "send", "copy"];
/// Words of 64 bits before the histogram of a series.
const HEAD: usize = 4;
const WORDS: usize = HEAD + BUCKETS / 2;

/// The programs run as long as this is there.
struct SyscallTimes {
    series: PerCpuArray<MapData, [u64; WORDS]>,
    left_out: PerCpuArray<MapData, u64>,
    last: Option<State>,
    times: Vec<Times>,
    _programs: Ebpf,
}

struct State {
    series: Vec<Series>,
    left_out: u64,
}

/// Counts of an operation so far, of all CPUs: calls, bytes, errors, nanoseconds; times.
#[derive(Clone, PartialEq)]
struct Series {
    head: [u64; HEAD],
    times: Vec<u32>,
}

pub(super) fn open(roots: &Roots, subject: &Subject) -> Opened {
    if !subject.storage {
        // Asked only whether it could be, by one who does not name it.
        kernel_types::look(&roots.sys)?;
        return Ok(Box::new(Asked));
    }
    Ok(Box::new(SyscallTimes::attached(roots)?))
}

/// Of one who does not name it.
struct Asked;

impl Sensor for Asked {
    fn read(&mut self, _: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        Ok(None)
    }
}

impl SyscallTimes {
    fn attached(roots: &Roots) -> Result<SyscallTimes, Refusal> {
        let btf = kernel_types::read(&roots.sys)?;
        let mut programs = EbpfLoader::new()
            .btf(Some(&btf))
            // Storage of tasks, which only the programs look into.
            .allow_unsupported_maps()
            .verifier_log_level(VerifierLogLevel::DEBUG)
            .load(OBJECT)?;
        let agent: &mut RawTracePoint = program(&mut programs, "this_is_the_agent")?.try_into()?;
        agent.load()?;
        bpf::run_raw_tracepoint(agent.fd()?.as_fd(), &[0], None).map_err(Refusal::of_io)?;
        for (name, tracepoint) in PROGRAMS {
            let program: &mut BtfTracePoint = program(&mut programs, name)?.try_into()?;
            program.load(tracepoint, &btf)?;
        }
        for (name, _) in PROGRAMS {
            let program: &mut BtfTracePoint = program(&mut programs, name)?.try_into()?;
            program.attach()?;
        }
        let mut map = |name| programs.take_map(name).ok_or(Refusal::Defect("a map is not in the object"));
        Ok(SyscallTimes {
            series: PerCpuArray::try_from(map("series")?).map_err(EbpfError::from)?,
            left_out: PerCpuArray::try_from(map("left_out")?).map_err(EbpfError::from)?,
            last: None,
            times: Vec::new(),
            _programs: programs,
        })
    }

    fn state(&self) -> Result<State, Refusal> {
        let series = (1..).zip(OPERATIONS).map(|(number, _)| self.series_of(number));
        let left_out = self.left_out.get(&0, 0).map_err(EbpfError::from)?.iter().sum();
        Ok(State { series: series.collect::<Result<_, _>>()?, left_out })
    }

    fn series_of(&self, number: u32) -> Result<Series, Refusal> {
        let mut sum = Series { head: [0; HEAD], times: vec![0; BUCKETS] };
        for words in self.series.get(&number, 0).map_err(EbpfError::from)?.iter() {
            for (sum, word) in sum.head.iter_mut().zip(words) {
                *sum = sum.wrapping_add(*word);
            }
            for (sum, count) in sum.times.iter_mut().zip(words[HEAD..].iter().copied().flat_map(counts)) {
                *sum = sum.wrapping_add(count);
            }
        }
        Ok(sum)
    }
}

impl Sensor for SyscallTimes {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        self.times.clear();
        let now = self.state()?;
        if let Some(before) = self.last.take() {
            for (operation, (now, before)) in OPERATIONS.iter().zip(now.series.iter().zip(&before.series)) {
                if now == before {
                    continue;
                }
                let label = format!("operation={operation}");
                let [calls, bytes, errors, time_ns] =
                    std::array::from_fn(|at| now.head[at].wrapping_sub(before.head[at]));
                for (metric, count) in [(&CALLS, calls), (&BYTES, bytes), (&ERRORS, errors)] {
                    put(out, metric, label.clone(), count);
                }
                let times = growth(&now.times, &before.times, time_ns);
                self.times.push(Times { metric: "syscall.time_ns".to_owned(), label, times });
            }
            put(out, &LEFT_OUT, "", now.left_out - before.left_out);
        }
        self.last = Some(now);
        Ok(None)
    }

    fn times(&mut self) -> Vec<Times> {
        std::mem::take(&mut self.times)
    }
}

fn program<'a>(programs: &'a mut Ebpf, name: &str) -> Result<&'a mut Program, Refusal> {
    programs.program_mut(name).ok_or(Refusal::Defect("a program is not in the object"))
}
