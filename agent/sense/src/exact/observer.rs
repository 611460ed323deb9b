//! The kernel-side programs: loaded, attached, told what to do, and read.

use std::os::fd::{AsFd, RawFd};

use aya::maps::{HashMap, MapData, PerCpuArray};
use aya::programs::perf_event::{
    PerfEventConfig, PerfEventLink, PerfEventScope, SamplePolicy, SoftwareEvent,
};
use aya::programs::raw_trace_point::RawTracePointLink;
use aya::programs::{PerfEvent, Program, RawTracePoint, RawTracePointRunOptions, TestRun};
use aya::{include_bytes_aligned, Ebpf, EbpfError, EbpfLoader, VerifierLogLevel};

use iodyno_sys::perf_samples;

use super::account::{Account, Words};
use super::refusal::Refusal;

/// The programs, as clang has compiled them.
static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/cpu.bpf.o"));

/// Tracepoints without which time would go to the wrong class: program and tracepoint.
const CORE: [(&str, &str); 5] = [
    ("task_switch", "sched_switch"),
    ("softirq_begin", "softirq_entry"),
    ("softirq_end", "softirq_exit"),
    ("irq_begin", "irq_handler_entry"),
    ("irq_end", "irq_handler_exit"),
];

/// Interrupts that the processor raises by itself, which have tracepoints of their own. A kernel may have been
/// built without some of them; on arm64 all but `ipi` come as ordinary interrupts.
#[cfg(target_arch = "x86_64")]
const VECTORS: [&str; 8] = [
    "local_timer",
    "reschedule",
    "call_function",
    "call_function_single",
    "irq_work",
    "thermal_apic",
    "error_apic",
    "spurious_apic",
];
#[cfg(not(target_arch = "x86_64"))]
const VECTORS: [&str; 1] = ["ipi"];

/// Counters, which the accounting does not need.
const COUNTERS: [(&str, &str); 4] = [
    ("poll_end", "napi_poll"),
    ("wakeup", "sched_wakeup"),
    ("wait_begin", "contention_begin"),
    ("wait_end", "contention_end"),
];

/// Samples per second and CPU that user and kernel time of the agent are told apart by.
///
/// A prime number, so that they do not fall into step with timers of the load or the kernel, which divide a
/// second evenly. Chosen: a standard error of 1 % of the agent's time over 10 s at half a CPU; 997, as profiles
/// have it, took 0.8 % of a CPU on a virtual machine, where a timer's interrupt is dear.
const SAMPLES_PER_S: u64 = 499;

/// What `control` is told, as in `bpf/account.h`.
#[derive(Clone, Copy)]
enum Order {
    Introduce = 0,
    Begin = 1,
    Read = 2,
    End = 3,
}

/// What `control` answers when it came in the middle of an event of the same CPU.
const BUSY: u32 = 1;
/// How often it is asked again. An event takes some 50 ns, so a second time is rare.
const TRIES: usize = 100;

/// Loaded programs, and where they are attached.
pub(crate) struct Observer {
    ebpf: Ebpf,
    snapshots: PerCpuArray<MapData, Words>,
    waits: HashMap<MapData, u32, [u64; 2]>,
    core: Vec<RawTracePointLink>,
    counters: Vec<(&'static str, RawTracePointLink)>,
    samples: Vec<PerfEventLink>,
    syscalls: Option<RawTracePointLink>,
}

/// What the programs took so far, while the kernel kept count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Runs of all programs.
    pub runs: u64,
    /// Time in them.
    pub ns: u64,
    /// Its part in the counters.
    pub counters_ns: u64,
}

impl Spent {
    /// What was added since.
    pub fn since(self, before: Spent) -> Spent {
        Spent {
            runs: self.runs - before.runs,
            ns: self.ns - before.ns,
            counters_ns: self.counters_ns - before.counters_ns,
        }
    }
}

impl Observer {
    /// Loads the programs; none of them runs yet.
    pub fn load() -> Result<Observer, Refusal> {
        Observer::load_object(OBJECT)
    }

    /// Loads programs; tests bring other ones.
    pub fn load_object(object: &[u8]) -> Result<Observer, Refusal> {
        let mut ebpf = EbpfLoader::new().verifier_log_level(VerifierLogLevel::DEBUG).load(object)?;
        for (_, program) in ebpf.programs_mut() {
            match program {
                Program::RawTracePoint(program) => program.load()?,
                Program::PerfEvent(program) => program.load()?,
                _ => return Err(Refusal::Defect("a program of another kind")),
            }
        }
        let mut map = |name| ebpf.take_map(name).ok_or(Refusal::Defect("a map is not in the object"));
        let mut observer = Observer {
            snapshots: PerCpuArray::try_from(map("snapshots")?).map_err(EbpfError::from)?,
            waits: HashMap::try_from(map("waits")?).map_err(EbpfError::from)?,
            ebpf,
            core: Vec::new(),
            counters: Vec::new(),
            samples: Vec::new(),
            syscalls: None,
        };
        observer.order(Order::Introduce, None)?;
        Ok(observer)
    }

    /// Has the accounting run at its tracepoints; names the interrupts that this kernel has no tracepoints for.
    /// Where it fails, [`Observer::detach`] takes back what was done.
    pub fn attach(&mut self) -> Result<Vec<&'static str>, Refusal> {
        for (program, tracepoint) in CORE {
            let link = self.at(program, tracepoint)?;
            self.core.push(link);
        }
        let mut absent = Vec::new();
        for vector in VECTORS {
            // The end comes first: an end without its begin is harmless.
            for (program, moment) in [("irq_end", "exit"), ("irq_begin", "entry")] {
                match self.at(program, &format!("{vector}_{moment}")) {
                    Ok(link) => self.core.push(link),
                    Err(Refusal::Absent) => {
                        absent.push(vector);
                        break;
                    }
                    Err(refusal) => return Err(refusal),
                }
            }
        }
        Ok(absent)
    }

    /// Has a program run at soft interrupts that is only there to be measured against: `empty`, or `least`, which reads
    /// the clock; [`Observer::detach`] takes it away.
    pub fn attach_yardstick(&mut self, program: &str) -> Result<(), Refusal> {
        for tracepoint in ["softirq_entry", "softirq_exit"] {
            let link = self.at(program, tracepoint)?;
            self.core.push(link);
        }
        Ok(())
    }

    /// Has the counters run; names those that this kernel has no tracepoints for.
    pub fn attach_counters(&mut self) -> Result<Vec<&'static str>, Refusal> {
        // A wait that began in an earlier trial and whose end nobody saw would hide later ones.
        let stale: Vec<u32> = self.waits.keys().flatten().collect();
        for thread in stale {
            let _ = self.waits.remove(&thread);
        }
        let mut absent = Vec::new();
        for (program, tracepoint) in COUNTERS {
            match self.at(program, tracepoint) {
                Ok(link) => self.counters.push((tracepoint, link)),
                Err(Refusal::Absent) => absent.push(tracepoint),
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(absent)
    }

    /// Takes the counters away again.
    pub fn detach_counters(&mut self) {
        self.counters.clear();
    }

    /// Whether what is counted at a tracepoint is counted now.
    pub fn counts(&self, tracepoint: &str) -> bool {
        self.counters.iter().any(|(attached, _)| *attached == tracepoint)
    }

    /// Has a CPU sampled for user and kernel time: by a timer that samples it anyway, or else by one of its own.
    pub fn attach_samples(&mut self, cpu: u32, timer: Option<RawFd>) -> Result<(), Refusal> {
        let program: &mut PerfEvent = self.program("sample")?.try_into()?;
        if let Some(timer) = timer {
            let descriptor = program.fd()?.as_fd();
            return perf_samples::run_program(timer, descriptor)
                .map_err(|error| Refusal::Other(error.to_string()));
        }
        let link = program.attach(
            PerfEventConfig::Software(SoftwareEvent::CpuClock),
            PerfEventScope::AllProcessesOneCpu { cpu },
            SamplePolicy::Frequency(SAMPLES_PER_S),
            false,
        )?;
        let link = program.take_link(link)?;
        self.samples.push(link);
        Ok(())
    }

    /// Begins to count system calls. They take the slow path as long as this lasts.
    pub fn attach_syscalls(&mut self) -> Result<(), Refusal> {
        self.syscalls = Some(self.at("syscall_begin", "sys_enter")?);
        Ok(())
    }

    /// Ends to count system calls.
    pub fn detach_syscalls(&mut self) {
        self.syscalls = None;
    }

    /// Takes all programs away; they stay loaded and cost nothing.
    pub fn detach(&mut self) {
        self.core.clear();
        self.samples.clear();
        self.detach_counters();
        self.detach_syscalls();
    }

    /// Begins to account a CPU.
    pub fn begin(&mut self, cpu: u32) -> Result<(), Refusal> {
        self.order(Order::Begin, Some(cpu))
    }

    /// Ends to account a CPU; one that is not online does not run anything anyway.
    pub fn end(&mut self, cpu: u32) {
        let _ = self.order(Order::End, Some(cpu));
    }

    /// Has each of these CPUs bring its account up to date, and gives it, or why not.
    pub fn read(&mut self, cpus: &[u32]) -> Result<Vec<Result<Account, Refusal>>, Refusal> {
        let read: Vec<_> = cpus.iter().map(|&cpu| self.order(Order::Read, Some(cpu))).collect();
        let snapshots = self.snapshots.get(&0, 0).map_err(EbpfError::from)?;
        let account = |cpu: u32| snapshots.get(cpu as usize).map(Account::new).ok_or(Refusal::Offline);
        Ok(cpus.iter().zip(read).map(|(&cpu, read)| read.and_then(|()| account(cpu))).collect())
    }

    /// What the programs that run at events took so far, where the kernel keeps count.
    pub fn spent(&self) -> Result<Spent, Refusal> {
        let mut spent = Spent::default();
        for (name, program) in self.ebpf.programs() {
            if name == "control" || name == "sample" {
                continue;
            }
            let info = program.info()?;
            let ns = info.run_time().as_nanos() as u64;
            spent.runs += info.run_count();
            spent.ns += ns;
            if COUNTERS.iter().any(|(counter, _)| *counter == name) {
                spent.counters_ns += ns;
            }
        }
        Ok(spent)
    }

    /// What some programs took so far, where the kernel keeps count.
    pub fn spent_in(&self, programs: &[&str]) -> Result<Spent, Refusal> {
        let mut spent = Spent::default();
        for (_, program) in self.ebpf.programs().filter(|(name, _)| programs.contains(name)) {
            let info = program.info()?;
            spent.runs += info.run_count();
            spent.ns += info.run_time().as_nanos() as u64;
        }
        Ok(spent)
    }

    fn program(&mut self, name: &str) -> Result<&mut Program, Refusal> {
        self.ebpf.program_mut(name).ok_or(Refusal::Defect("a program is not in the object"))
    }

    /// Attaches a program to a tracepoint for as long as the link lives.
    fn at(&mut self, program: &str, tracepoint: &str) -> Result<RawTracePointLink, Refusal> {
        let program: &mut RawTracePoint = self.program(program)?.try_into()?;
        let link = program.attach(tracepoint)?;
        Ok(program.take_link(link)?)
    }

    /// Runs `control` on a CPU, or here.
    fn order(&mut self, order: Order, cpu: Option<u32>) -> Result<(), Refusal> {
        let program: &mut RawTracePoint = self.program("control")?.try_into()?;
        for _ in 0..TRIES {
            let mut options = RawTracePointRunOptions::new();
            options.args[0] = order as u64;
            options.cpu = cpu;
            match program.test_run(options)?.return_value {
                0 => return Ok(()),
                BUSY => {}
                _ => return Err(Refusal::Defect("control failed")),
            }
        }
        Err(Refusal::Defect("a CPU is busy with one event without end"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_the_verifier_refuses_is_told_with_its_reason() {
        let refused = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/refused.bpf.o"));
        match Observer::load_object(refused) {
            Err(Refusal::Verifier(why)) => assert!(why.contains("invalid mem access"), "{why}"),
            // Then there is nothing to be tested but that.
            Err(Refusal::NotAllowed) => {}
            other => panic!("{:?}", other.err()),
        }
        assert!(Observer::load_object(b"no object").is_err());
    }
}
