//! Samples the CPUs of a trial in its measured window.

use std::io;
use std::os::fd::RawFd;

use iodyno_core::profile::Profile;
use iodyno_core::units::Nanos;
use iodyno_sys::perf_event::{Event, Scope};
use iodyno_sys::perf_samples::{self, Sampler, Sampling};
use iodyno_sys::{clock, perf_event};

use crate::compose::{self, compose, DROPPED};
use crate::fold::Fold;
use crate::price::affordable;
use crate::symbols::Names;

/// Pages of a ring, as a power of two: with its control page 516 KiB of pages of 4 KiB, which is what
/// `kernel.perf_event_mlock_kb` gives every user for each CPU.
const RING_ORDER: u32 = 7;
/// Filled to this share, a ring is emptied. chosen: early, so that what is read still lies in the cache; half a
/// megabyte a second is the most that 1000 samples of 127 callers make.
const FILLED: f64 = 0.125;
/// The limit of the kernel on `hz`; it lowers it by itself where samples take long.
const RATE_LIMIT: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

/// Which samples can be had: the first of these that is allowed is taken.
const REACHES: [Reach; 3] = [Reach::All, Reach::Own, Reach::OwnUser];
/// What makes samples: the first of these that the machine has is taken.
pub(crate) const EVENTS: [Event; 2] = [Event::Cycles, Event::CpuClock];

/// What is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Everything.
    All,
    /// The threads of this process, and the kernel as far as it works for them.
    Own,
    /// The threads of this process, and of them user code only.
    OwnUser,
}

impl Reach {
    fn scope(self, cpu: u32) -> Scope {
        match self {
            Reach::All => Scope::Cpu(cpu),
            Reach::Own | Reach::OwnUser => Scope::Descendants(cpu),
        }
    }

    /// What a profile of this reach does not have.
    fn missing(self) -> Option<String> {
        let lacks = match self {
            Reach::All => return None,
            Reach::Own => "only the agent's own threads are sampled",
            Reach::OwnUser => "only user code of the agent's own threads is sampled",
        };
        Some(format!("{lacks}: run with CAP_PERFMON, or set kernel.perf_event_paranoid to 0"))
    }
}

/// Samples of a job, from its preparation to its end.
#[derive(Debug)]
pub struct Profiler {
    hz: u32,
    event: Option<Event>,
    samplers: Vec<Sampler>,
    /// CPUs on which a timer makes samples of everything that runs, in the order of `samplers`; else empty.
    timed: Vec<u32>,
    fold: Fold,
    /// What was taken out of a ring; kept for its memory.
    words: Vec<u64>,
    begin_ns: Nanos,
    end_ns: Nanos,
    cost_ns: Nanos,
    missing: Vec<String>,
    /// Processes whose samples are the load's.
    own: Vec<u32>,
}

impl Profiler {
    /// Gets ready to take `hz` samples a second on each of `cpus`; 0: none are taken. Fewer where a timer's are costly.
    ///
    /// To be called by the thread that starts the workers, before it does: without the right to see everything,
    /// only threads that are started later are sampled.
    #[must_use]
    pub fn open(hz: u32, cpus: &[u32]) -> Profiler {
        let mut profiler = Profiler {
            hz,
            event: None,
            samplers: Vec::new(),
            timed: Vec::new(),
            fold: Fold::default(),
            words: Vec::new(),
            begin_ns: Nanos::default(),
            end_ns: Nanos::default(),
            cost_ns: Nanos::default(),
            missing: Vec::new(),
            own: vec![std::process::id()],
        };
        if hz > 0 {
            match open_affordable(allowed_hz(hz, &mut profiler.missing), cpus) {
                Ok((opened, hz)) => {
                    profiler.hz = hz;
                    profiler.event = Some(opened.event);
                    profiler.timed = opened.timed;
                    profiler.samplers = opened.samplers;
                    profiler.missing.extend(opened.reach.missing());
                    profiler.missing.extend(opened.refused);
                }
                Err(why) => profiler.missing.push(why),
            }
        }
        profiler
    }

    /// The timers that make the samples, each with its CPU: descriptors of events that sample everything there while
    /// the measured window lasts. Others may use them, so that no CPU needs two timers. Empty where they do not
    /// sample everything, or hardware makes the samples.
    #[must_use]
    pub fn timers(&self) -> Vec<(u32, RawFd)> {
        self.timed.iter().zip(&self.samplers).map(|(&cpu, sampler)| (cpu, sampler.descriptor())).collect()
    }

    /// Has samples of other processes count as those of this agent.
    pub fn count_alike(&mut self, processes: &[u32]) {
        self.own.extend(processes);
    }

    /// The measured window begins.
    pub fn begin(&mut self) {
        self.begin_ns = clock::monotonic();
        self.switch("begin", Sampler::enable);
    }

    /// Empties the rings that fill up. To be called some times a second.
    pub fn keep_up(&mut self) {
        if self.samplers.iter().any(|sampler| sampler.filled() > FILLED) {
            self.drain();
        }
    }

    /// The measured window is over.
    pub fn end(&mut self) {
        self.switch("end", Sampler::disable);
        self.end_ns = clock::monotonic();
        self.drain();
    }

    /// Finds the names, which takes some tenths of a second of CPU time; `None` where no profile was asked for.
    #[must_use]
    pub fn report(mut self, trial: &str) -> Option<Profile> {
        if self.hz == 0 {
            return None;
        }
        // The rings go first: a CPU that still sampled would sample this.
        self.samplers.clear();
        let before = clock::thread_cpu();
        let places = self.fold.stacks().flat_map(|(head, chain, _)| compose::places(head, chain));
        let names = Names::look_up(places);
        let composed = compose(
            self.fold.stacks(),
            |place| names.of(place),
            &self.own,
            names.kernel_hidden,
            compose::ROOM_BYTES,
        );
        if self.fold.throttled > 0 {
            self.missing.push(format!(
                "the kernel suspended sampling {} times because it took too long",
                self.fold.throttled
            ));
        }
        self.missing.extend(names.missing);
        if composed.dropped_samples > 0 {
            self.missing.push(format!(
                "the rarest stacks, {} samples, did not fit into the message and are {DROPPED}",
                composed.dropped_samples
            ));
        }
        Some(Profile {
            trial: trial.to_owned(),
            hz: self.hz,
            event: self.event.map_or("none", Event::name).to_owned(),
            begin_ns: self.begin_ns,
            end_ns: self.end_ns,
            samples: composed.stacks.iter().map(|stack| stack.count).sum(),
            idle_samples: composed.idle_samples,
            lost: self.fold.lost,
            functions: composed.functions,
            stacks: composed.stacks,
            cost_ns: self.cost_ns,
            symbolise_ns: clock::thread_cpu().minus(before),
            missing: (!self.missing.is_empty()).then(|| self.missing.join("; ")),
        })
    }

    fn switch(&mut self, when: &str, request: fn(&mut Sampler) -> io::Result<()>) {
        let before = clock::thread_cpu();
        for sampler in &mut self.samplers {
            if let Err(error) = request(sampler) {
                self.missing.push(format!("at the {when} of the measured window: {error}"));
            }
        }
        self.cost_ns = self.cost_ns.plus(clock::thread_cpu().minus(before));
    }

    fn drain(&mut self) {
        let before = clock::thread_cpu();
        for sampler in &mut self.samplers {
            self.words.clear();
            sampler.drain(&mut self.words);
            self.fold.add(&self.words);
        }
        self.cost_ns = self.cost_ns.plus(clock::thread_cpu().minus(before));
    }
}

/// Whether CPUs of this host can be sampled: how, or why not.
///
/// # Errors
/// Why not, and what to try.
pub fn available(cpus: &[u32]) -> Result<String, String> {
    let opened = open_first(1, cpus)?;
    let name = opened.event.name();
    Ok(opened.reach.missing().map_or(name.to_owned(), |missing| format!("{name}; {missing}")))
}

/// As many samples a second as the kernel allows, `hz` at most.
fn allowed_hz(hz: u32, missing: &mut Vec<String>) -> u32 {
    let limit = std::fs::read_to_string(RATE_LIMIT).ok().and_then(|text| text.trim().parse().ok());
    match limit {
        Some(limit) if limit < hz => {
            missing.push(format!("kernel.perf_event_max_sample_rate allows {limit} samples a second"));
            limit
        }
        _ => hz,
    }
}

/// Samplers of the CPUs that can be sampled.
struct Opened {
    event: Event,
    reach: Reach,
    samplers: Vec<Sampler>,
    timed: Vec<u32>,
    /// CPUs that cannot, and why.
    refused: Vec<String>,
}

/// Opens them at the rate that this machine affords, and gives it.
fn open_affordable(hz: u32, cpus: &[u32]) -> Result<(Opened, u32), String> {
    let opened = open_first(hz, cpus)?;
    let affordable = affordable(hz, opened.event);
    if affordable == hz {
        return Ok((opened, hz));
    }
    drop(opened);
    open_first(affordable, cpus).map(|opened| (opened, affordable))
}

/// Opens the widest reach that is allowed, with the best event that there is. The error is that of the last try.
fn open_first(hz: u32, cpus: &[u32]) -> Result<Opened, String> {
    let mut last = "no CPU is known to be online".to_owned();
    for reach in REACHES {
        for event in EVENTS {
            match open_all(hz, cpus, reach, event) {
                Ok(opened) => return Ok(opened),
                Err(Some(why)) => last = why,
                Err(None) => {}
            }
        }
    }
    Err(last)
}

fn open_all(hz: u32, cpus: &[u32], reach: Reach, event: Event) -> Result<Opened, Option<String>> {
    let sampling = Sampling { event, hz, kernel: reach != Reach::OwnUser };
    let mut opened = Opened { event, reach, samplers: Vec::new(), timed: Vec::new(), refused: Vec::new() };
    let mut first = None;
    for &cpu in cpus {
        match perf_samples::open(sampling, reach.scope(cpu), RING_ORDER) {
            Ok(sampler) => {
                opened.samplers.push(sampler);
                if event == Event::CpuClock && reach == Reach::All {
                    opened.timed.push(cpu);
                }
            }
            Err(error) => {
                let why = perf_event::reason(&error);
                opened.refused.push(format!("CPU {cpu}: {why}"));
                first.get_or_insert(why);
            }
        }
    }
    if opened.samplers.is_empty() {
        return Err(first);
    }
    Ok(opened)
}
