//! The kernel-side programs: loaded, attached, told what to do, and read.

use aya::maps::{MapData, PerCpuArray};
use aya::programs::raw_trace_point::RawTracePointLinkId;
use aya::programs::{RawTracePoint, RawTracePointRunOptions, TestRun};
use aya::{include_bytes_aligned, Ebpf, EbpfError, EbpfLoader, VerifierLogLevel};

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

/// What `control` is told, as in `bpf/account.h`.
#[derive(Clone, Copy)]
enum Order {
    Introduce = 0,
    Begin = 1,
    Read = 2,
    #[expect(dead_code)]
    End = 3,
}

/// What `control` answers when it came in the middle of an event of the same CPU.
const BUSY: u32 = 1;
/// How often it is asked again. An event takes some 50 ns, so a second time is rare.
const TRIES: usize = 100;

/// Loaded programs.
pub(crate) struct Observer {
    ebpf: Ebpf,
    snapshots: PerCpuArray<MapData, Words>,
    /// What is attached: the program and its link.
    attached: Vec<(&'static str, RawTracePointLinkId)>,
    /// Tracepoints that this kernel does not have.
    absent: Vec<&'static str>,
}

impl Observer {
    /// Loads the programs; none of them runs yet.
    pub fn load() -> Result<Observer, Refusal> {
        let mut ebpf = EbpfLoader::new().verifier_log_level(VerifierLogLevel::DISABLE).load(OBJECT)?;
        let snapshots = ebpf.take_map("snapshots").ok_or(Refusal::Defect("no map of snapshots"))?;
        let snapshots = PerCpuArray::try_from(snapshots).map_err(EbpfError::from)?;
        for (_, program) in ebpf.programs_mut() {
            let program: &mut RawTracePoint = program.try_into()?;
            program.load()?;
        }
        let mut observer = Observer { ebpf, snapshots, attached: Vec::new(), absent: Vec::new() };
        observer.order(Order::Introduce, None)?;
        Ok(observer)
    }

    fn program(&mut self, name: &str) -> Result<&mut RawTracePoint, Refusal> {
        let program = self.ebpf.program_mut(name).ok_or(Refusal::Defect("a program is not in the object"))?;
        Ok(program.try_into()?)
    }

    /// Has the programs run at their tracepoints. Where it fails, [`Observer::detach`] takes back what was done.
    pub fn attach(&mut self) -> Result<(), Refusal> {
        self.absent.clear();
        for (program, tracepoint) in CORE {
            self.attach_one(program, tracepoint)?;
        }
        for vector in VECTORS {
            // The end comes first: an end without its begin is harmless.
            let end = self.attach_one("irq_end", &format!("{vector}_exit"));
            match end.and_then(|()| self.attach_one("irq_begin", &format!("{vector}_entry"))) {
                Ok(()) => {}
                Err(Refusal::Absent) => self.absent.push(vector),
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(())
    }

    fn attach_one(&mut self, name: &'static str, tracepoint: &str) -> Result<(), Refusal> {
        let link = self.program(name)?.attach(tracepoint)?;
        self.attached.push((name, link));
        Ok(())
    }

    /// Takes the programs from their tracepoints; they stay loaded.
    pub fn detach(&mut self) {
        for (name, link) in std::mem::take(&mut self.attached) {
            // A link is a descriptor: to close it cannot fail.
            let _ = self.program(name).map(|program| program.detach(link));
        }
    }

    /// Interrupts that this kernel has no tracepoints for, after [`Observer::attach`].
    pub fn absent(&self) -> &[&'static str] {
        &self.absent
    }

    /// Begins to account a CPU.
    pub fn begin(&mut self, cpu: u32) -> Result<(), Refusal> {
        self.order(Order::Begin, Some(cpu))
    }

    /// Has each of these CPUs bring its account up to date, and gives it, or why not.
    pub fn read(&mut self, cpus: &[u32]) -> Result<Vec<Result<Account, Refusal>>, Refusal> {
        let read: Vec<_> = cpus.iter().map(|&cpu| self.order(Order::Read, Some(cpu))).collect();
        let snapshots = self.snapshots.get(&0, 0).map_err(EbpfError::from)?;
        Ok(cpus
            .iter()
            .zip(read)
            .map(|(&cpu, read)| {
                read?;
                let words = snapshots.get(cpu as usize).ok_or(Refusal::Offline)?;
                Ok(Account::new(words))
            })
            .collect())
    }

    /// Runs `control` on a CPU, or here.
    fn order(&mut self, order: Order, cpu: Option<u32>) -> Result<(), Refusal> {
        let program = self.program("control")?;
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
