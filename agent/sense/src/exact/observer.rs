//! The kernel-side programs: attached, told what to do, and read.

use std::os::fd::{OwnedFd, RawFd};

use aya::include_bytes_aligned;
use aya::EbpfError;

use iodyno_sys::{bpf, perf_samples, process};

use super::account::Account;
use super::refusal::Refusal;
use super::shared::{self, build_of, Membership, Offer, Set, Turn};

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
/// have it, took 0.8 % of a CPU on a virtual machine, where a timer's interrupt is costly.
const SAMPLES_PER_S: u32 = 499;

/// What `control` is told, as in `bpf/account.h`.
#[derive(Clone, Copy)]
pub(super) enum Order {
    Join = 0,
    Begin = 1,
    Read = 2,
    End = 3,
    Leave = 4,
}

/// What `control` answers when it came in the middle of an event of the same CPU.
const BUSY: u32 = 1;
/// How often it is asked again. An event takes some 50 ns, so a second time is rare.
const TRIES: usize = 100;

/// Programs, and where they are attached for a trial.
#[derive(Default)]
pub(crate) struct Observer {
    /// Loaded by this process or another agent, at the first trial that needs them: that takes most of its time.
    own: Option<Set>,
    /// Those of another agent of the machine, while a trial uses them.
    joined: Option<Set>,
    /// The trial's place among the agents that share the programs; absent where they are for it alone.
    membership: Option<Membership>,
    /// Other processes that count as this one.
    alike: Vec<u32>,
    /// CPUs that are accounted for it, by the programs that it uses.
    begun: Vec<u32>,
    core: Vec<OwnedFd>,
    counters: Vec<(&'static str, OwnedFd)>,
    samples: Vec<OwnedFd>,
    syscalls: Option<OwnedFd>,
}

/// What the kernel lacks of what could be attached.
pub(crate) struct Attached {
    /// Interrupts without tracepoints.
    pub absent: Vec<&'static str>,
    /// Counters without tracepoints; an error: none of them counts.
    pub counters: Result<Vec<&'static str>, Refusal>,
}

/// What the programs took so far, while the kernel kept count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Runs of all programs.
    pub runs: u64,
    /// Time in them.
    pub ns: u64,
    /// Runs of the counters among them.
    pub counters_runs: u64,
    /// Time in the counters.
    pub counters_ns: u64,
}

impl Spent {
    /// What was added since.
    pub fn since(self, before: Spent) -> Spent {
        Spent {
            runs: self.runs - before.runs,
            ns: self.ns - before.ns,
            counters_runs: self.counters_runs - before.counters_runs,
            counters_ns: self.counters_ns - before.counters_ns,
        }
    }
}

/// Whether a program is one that time would go to the wrong class without.
pub(crate) fn is_accounting(program: &str) -> bool {
    CORE.iter().any(|(name, _)| *name == program)
}

impl Observer {
    /// Loads programs for this process alone; none of them runs yet.
    pub fn load() -> Result<Observer, Refusal> {
        Observer::load_object(OBJECT)
    }

    /// Likewise; tests bring other ones.
    pub fn load_object(object: &[u8]) -> Result<Observer, Refusal> {
        Ok(Observer { own: Some(Set::load(object)?), ..Observer::default() })
    }

    /// Has the accounting and the counters run for a trial: by the programs that another agent of this machine has
    /// attached, or else by its own, which others may join from then on.
    /// Where it fails, [`Observer::detach`] takes back what was done.
    pub fn share(&mut self) -> Result<Attached, Refusal> {
        let turn = Turn::take();
        if let Some(joined) = turn.as_ref().and_then(|turn| shared::join(OBJECT, turn)) {
            self.joined = Some(joined.set);
            self.membership = Some(joined.membership);
            self.order(Order::Join, None)?;
            let absent = joined.offer.absent;
            let absent = VECTORS.iter().enumerate().filter(|(bit, _)| absent >> bit & 1 == 1);
            let absent = absent.map(|(_, vector)| *vector).collect();
            for (program, link) in joined.links {
                match COUNTERS.iter().find(|(name, _)| *name == program) {
                    Some((_, tracepoint)) => self.counters.push((tracepoint, link)),
                    None if is_accounting(&program) => self.core.push(link),
                    None => {}
                }
            }
            return Ok(Attached { absent, counters: self.attach_counters() });
        }
        // While this has the turn, nobody attaches what is idle. Without it there is no telling who takes what was offered once.
        let idle = turn.as_ref().and_then(|turn| {
            self.own.take().filter(Set::is_idle).or_else(|| shared::find_idle(OBJECT, turn))
        });
        let own = match idle {
            Some(set) => set,
            None => Set::load(OBJECT)?,
        };
        let own = self.own.insert(own);
        own.forget_members();
        self.membership = turn.as_ref().and_then(|_| Membership::take(own));
        let absent = self.attach()?;
        let counters = self.attach_counters();
        if self.membership.is_some() {
            let bits = VECTORS.iter().enumerate().filter(|(_, vector)| absent.contains(vector));
            let offer = Offer {
                build: build_of(OBJECT),
                links: self.core.len() as u64,
                absent: bits.map(|(bit, _)| 1 << bit).sum(),
            };
            self.own.as_mut().map_or(Ok(()), |own| own.offer(offer))?;
        }
        Ok(Attached { absent, counters })
    }

    /// Has tasks of other processes count as those of this agent, for as long as the programs run for it.
    pub fn count_alike(&mut self, processes: &[u32]) -> Result<(), Refusal> {
        // The kernel knows processes by the numbers that they have at the top.
        if !processes.is_empty() && !process::sees_all() {
            return Err(Refusal::Other("the kernel's numbers of processes are not known here".to_owned()));
        }
        let number = self.number();
        for &process in processes {
            self.set_mut()?.members.insert(process, number, 0).map_err(EbpfError::from)?;
            self.alike.push(process);
        }
        Ok(())
    }

    /// Has the accounting of its own programs run at its tracepoints; names the interrupts that this kernel has no
    /// tracepoints for. Where it fails, [`Observer::detach`] takes back what was done.
    pub fn attach(&mut self) -> Result<Vec<&'static str>, Refusal> {
        if let Some(own) = self.own.as_mut() {
            own.forget_members();
            own.offer(Offer { build: 0, links: 0, absent: 0 })?;
        }
        self.order(Order::Join, None)?;
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

    /// Has those counters run that do not yet; names those that this kernel has no tracepoints for.
    pub fn attach_counters(&mut self) -> Result<Vec<&'static str>, Refusal> {
        // A wait that began in an earlier trial and whose end nobody saw would hide later ones.
        let (number, set) = (u64::from(self.number()), self.set_mut()?);
        let waits: Vec<_> = set.waits.iter().flatten().collect();
        for (thread, _) in waits.into_iter().filter(|(_, [_, _, member])| *member == number) {
            let _ = set.waits.remove(&thread);
        }
        let mut absent = Vec::new();
        for (program, tracepoint) in COUNTERS {
            if self.counts(tracepoint) {
                continue;
            }
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
        let program = self.set()?.program("sample")?;
        if let Some(timer) = timer {
            return perf_samples::run_program(timer, program)
                .map_err(|error| Refusal::Other(error.to_string()));
        }
        let timer = perf_samples::run_at_timer(cpu, SAMPLES_PER_S, program).map_err(Refusal::of_io)?;
        self.samples.push(timer);
        Ok(())
    }

    /// Begins to count system calls. They take the slow path as long as this lasts.
    pub fn attach_syscalls(&mut self) -> Result<(), Refusal> {
        const PROGRAM: &str = "syscall_begin";
        if self.membership.is_none() {
            self.syscalls = Some(self.at(PROGRAM, "sys_enter")?);
            return Ok(());
        }
        // Attached twice it would count twice: whoever comes second holds what is there.
        let _turn = Turn::take().ok_or(Refusal::Other("other agents attach programs".to_owned()))?;
        let there = self.set()?.attached().into_iter().find(|(program, _)| program == PROGRAM);
        self.syscalls = Some(match there {
            Some((_, link)) => link,
            None => self.at(PROGRAM, "sys_enter")?,
        });
        Ok(())
    }

    /// Ends to count system calls.
    pub fn detach_syscalls(&mut self) {
        self.syscalls = None;
    }

    /// Lets go of all programs. Where no other agent holds them they are attached no longer and cost nothing; those that it
    /// loaded or found stay loaded.
    pub fn detach(&mut self) {
        // All that concerns this agent alone goes first: once nothing is attached another agent may take the programs.
        for cpu in self.begun.clone() {
            self.end(cpu);
        }
        for process in std::mem::take(&mut self.alike) {
            // Its programs may be gone.
            let _ = self.set_mut().map(|set| set.members.remove(&process));
        }
        // There may have been no place to leave.
        let _ = self.order(Order::Leave, None);
        self.samples.clear();
        self.detach_counters();
        self.detach_syscalls();
        self.core.clear();
        self.joined = None;
        self.membership = None;
    }

    /// Begins to account a CPU. One that was away meanwhile is accounted still.
    pub fn begin(&mut self, cpu: u32) -> Result<(), Refusal> {
        if self.begun.contains(&cpu) {
            return Ok(());
        }
        self.order(Order::Begin, Some(cpu))?;
        self.begun.push(cpu);
        Ok(())
    }

    /// Ends to account a CPU, if that has begun; one that is not online does not run anything anyway.
    pub fn end(&mut self, cpu: u32) {
        if let Some(place) = self.begun.iter().position(|begun| *begun == cpu) {
            self.begun.swap_remove(place);
            let _ = self.order(Order::End, Some(cpu));
        }
    }

    /// Has each of these CPUs bring its account up to date, and gives it, or why not.
    pub fn read(&self, cpus: &[u32]) -> Result<Vec<Result<Account, Refusal>>, Refusal> {
        let read: Vec<_> = cpus.iter().map(|&cpu| self.order(Order::Read, Some(cpu))).collect();
        let snapshots = self.set()?.snapshots.get(&self.number(), 0).map_err(EbpfError::from)?;
        let account = |cpu: u32| snapshots.get(cpu as usize).map(Account::new).ok_or(Refusal::Offline);
        Ok(cpus.iter().zip(read).map(|(&cpu, read)| read.and_then(|()| account(cpu))).collect())
    }

    /// What the programs that run at events took so far, where the kernel keeps count.
    pub fn spent(&self) -> Result<Spent, Refusal> {
        let mut spent = Spent::default();
        for (name, info) in self.set()?.infos()? {
            if name == "control" || name == "sample" {
                continue;
            }
            let ns = info.run_time().as_nanos() as u64;
            spent.runs += info.run_count();
            spent.ns += ns;
            if COUNTERS.iter().any(|(counter, _)| *counter == name) {
                spent.counters_runs += info.run_count();
                spent.counters_ns += ns;
            }
        }
        Ok(spent)
    }

    /// What some programs took so far, where the kernel keeps count.
    pub fn spent_in(&self, programs: &[&str]) -> Result<Spent, Refusal> {
        let mut spent = Spent::default();
        for (_, info) in self.set()?.infos()?.into_iter().filter(|(name, _)| programs.contains(name)) {
            spent.runs += info.run_count();
            spent.ns += info.run_time().as_nanos() as u64;
        }
        Ok(spent)
    }

    /// The programs that a trial uses.
    fn set(&self) -> Result<&Set, Refusal> {
        self.joined.as_ref().or(self.own.as_ref()).ok_or(Refusal::Defect("no programs"))
    }

    fn set_mut(&mut self) -> Result<&mut Set, Refusal> {
        self.joined.as_mut().or(self.own.as_mut()).ok_or(Refusal::Defect("no programs"))
    }

    /// By which the programs know this agent.
    fn number(&self) -> u32 {
        self.membership.as_ref().map_or(0, |membership| membership.number)
    }

    /// Attaches a program to a tracepoint for as long as the link lives.
    fn at(&self, program: &str, tracepoint: &str) -> Result<OwnedFd, Refusal> {
        bpf::attach_raw_tracepoint(self.set()?.program(program)?, tracepoint).map_err(Refusal::of_io)
    }

    /// Runs `control` on a CPU, or here.
    fn order(&self, order: Order, cpu: Option<u32>) -> Result<(), Refusal> {
        let program = self.set()?.program("control")?;
        let arguments = [order as u64, u64::from(self.number())];
        for _ in 0..TRIES {
            match bpf::run_raw_tracepoint(program, &arguments, cpu).map_err(Refusal::of_io)? {
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
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::{Child, Command, Stdio};
    use std::sync::{Mutex, MutexGuard};
    use std::time::Duration;

    use iodyno_sys::{affinity, lock::locked, process};

    use super::*;

    const CHILD: &str = "exact::observer::tests::offers_its_programs_until_its_input_ends";

    /// Naps of this thread, each of which is at least one switch of tasks on its CPU.
    const NAPS: u64 = 10;

    /// Events that the programs saw on this CPU while this thread took naps.
    fn events(observer: &mut Observer, cpu: u32) -> u64 {
        let look = || observer.read(&[cpu]).unwrap().remove(0).unwrap();
        let before = look();
        for _ in 0..NAPS {
            std::thread::sleep(Duration::from_millis(1));
        }
        look().since(&before).events
    }

    #[test]
    #[ignore = "a part of the test below, which starts it"]
    fn offers_its_programs_until_its_input_ends() {
        let mut observer = Observer::default();
        observer.share().unwrap();
        std::io::stdout().write_all(b"\noffers\n").unwrap();
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
    }

    /// Another process that offers its programs, until its input is dropped.
    fn offering() -> (Child, impl Sized) {
        let mut other = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", CHILD])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(other.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap() == "offers"));
        (other, said)
    }

    /// One test at a time, as a process has one place in a shared set; `None`, said loudly, where none can look for others.
    fn turn() -> Option<MutexGuard<'static, ()>> {
        static TURN: Mutex<()> = Mutex::new(());
        if process::effective_user() != 0 {
            std::io::stderr().write_all(b"SKIPPED: only root can share programs in the kernel\n").unwrap();
            return None;
        }
        Some(locked(&TURN))
    }

    #[test]
    fn members_that_were_killed_hold_neither_their_place_nor_their_cpus() {
        let Some(_turn) = turn() else { return };
        if !process::sees_all() {
            return;
        }
        let cpu = *affinity::allowed().unwrap().last().unwrap();
        affinity::restrict(&[cpu]).unwrap();
        let (mut other, _said) = offering();
        let mut observer = Observer::default();
        observer.share().unwrap();
        if let Some(set) = &mut observer.joined {
            let mut killed = Command::new("true").spawn().unwrap();
            killed.wait().unwrap();
            set.members.insert(killed.id(), 9, 0).unwrap();
            let control = set.program("control").unwrap();
            bpf::run_raw_tracepoint(control, &[Order::Begin as u64, 9], Some(cpu)).unwrap();
            // It is accounted for whoever is gone.
            assert!(events(&mut observer, cpu) > NAPS);
            observer.detach();
            observer.share().unwrap();
            let set = observer.joined.as_ref().expect("it is offered still");
            assert!(set.members.get(&killed.id(), 0).is_err());
            assert!(set.members.get(&std::process::id(), 0).is_ok());
            // The first that one sees may be what came before.
            assert!(events(&mut observer, cpu) < NAPS);
            observer.begin(cpu).unwrap();
            assert!(events(&mut observer, cpu) > NAPS);
        }
        observer.detach();
        drop(other.stdin.take());
        other.wait().unwrap();
    }

    #[test]
    fn who_withdraws_from_the_programs_of_another_can_account_by_its_own() {
        let Some(_turn) = turn() else { return };
        let cpu = *affinity::allowed().unwrap().last().unwrap();
        affinity::restrict(&[cpu]).unwrap();
        let mut observer = Observer::load().unwrap();
        let (mut other, _said) = offering();
        observer.share().unwrap();
        if observer.joined.is_some() {
            observer.begin(cpu).unwrap();
            assert!(events(&mut observer, cpu) > NAPS);
            // As where the accounting takes too much: it lets go at once, and the sensor ends its CPUs later.
            observer.detach();
            observer.end(cpu);
        }
        observer.detach();
        drop(other.stdin.take());
        other.wait().unwrap();
        for _ in 0..2 {
            observer.attach().unwrap();
            observer.begin(cpu).unwrap();
            assert!(events(&mut observer, cpu) > NAPS);
            observer.detach();
        }
    }

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
