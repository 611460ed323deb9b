//! Counters of the kernel's performance events: `perf_event_open`, in counting mode. Sampling mode is in
//! [`crate::perf_samples`].
//!
//! The kernel time-shares hardware counters when more are asked for than the CPU has. Every count therefore
//! comes with the time it was asked for and the time it really counted, and is never scaled up silently.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

use iodyno_core::units::Nanos;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// CPU cycles: needs a hardware counter, which many guests do not have.
    Cycles,
    /// Nanoseconds of the CPU's clock: a software event, there on every machine.
    CpuClock,
    /// Loads that memory answered; few CPUs count them.
    NodeLoads,
    /// Those that the memory of another NUMA node answered.
    NodeLoadMisses,
}

/// Where it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything on one CPU, whoever runs: needs `CAP_PERFMON` or `kernel.perf_event_paranoid` <= 0.
    Cpu(u32),
    /// The calling thread, on whichever CPU it runs.
    ThisThread,
    /// The calling thread and those that it starts from then on, while they run on that CPU. A sampled event
    /// of many threads has to be one of a single CPU.
    Descendants(u32),
}

/// What a counter says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Events counted, not scaled.
    pub value: u64,
    /// How long the event was asked for.
    pub enabled: Nanos,
    /// How long it really counted; less than `enabled` where hardware counters were time-shared.
    pub running: Nanos,
}

/// An open counter; it counts from when it is opened to when it is dropped.
#[derive(Debug)]
pub struct Counter(File);

/// `struct perf_event_attr` as of its first version, which every kernel accepts. With flags 0: enabled at
/// once, not inherited by threads started later, user and kernel and idle all counted.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Attributes {
    pub(crate) kind: u32,
    pub(crate) size: u32,
    pub(crate) config: u64,
    /// Or how often per second, with the flag for it.
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    /// Or bytes, with the flag for it.
    pub(crate) wakeup_events: u32,
    pub(crate) breakpoint_type: u32,
    pub(crate) config1: u64,
}

/// `PERF_FLAG_FD_CLOEXEC` of `include/uapi/linux/perf_event.h`; so are the other constants here.
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING`.
const WITH_TIMES: u64 = 1 | 2;

impl Event {
    /// As perf(1) calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Event::Cycles => "cycles",
            Event::CpuClock => "cpu-clock",
            Event::NodeLoads => "node-loads",
            Event::NodeLoadMisses => "node-load-misses",
        }
    }

    /// `type` and `config` of the event.
    const fn numbers(self) -> (u32, u64) {
        match self {
            Event::Cycles => (0, 0),
            Event::CpuClock => (1, 0),
            // PERF_TYPE_HW_CACHE: PERF_COUNT_HW_CACHE_NODE, reads (0 << 8), all of them or (1 << 16) the misses.
            Event::NodeLoads => (3, 6),
            Event::NodeLoadMisses => (3, 6 | 1 << 16),
        }
    }
}

/// Opens a counter.
///
/// # Errors
/// `ENOENT` or `EOPNOTSUPP`: no hardware counter for it. `EACCES` or `EPERM`: not allowed. `ENODEV`: no such
/// CPU. `ENOSYS`: a kernel without performance events.
pub fn open(event: Event, scope: Scope) -> io::Result<Counter> {
    open_file(event, scope, Attributes { read_format: WITH_TIMES, ..Attributes::default() }).map(Counter)
}

/// Opens an event; `attributes` need not hold which one. Errors as those of [`open`].
pub(crate) fn open_file(event: Event, scope: Scope, attributes: Attributes) -> io::Result<File> {
    let (kind, config) = event.numbers();
    let attributes = Attributes { kind, config, size: size_of::<Attributes>() as u32, ..attributes };
    let number = |cpu| libc::c_int::try_from(cpu).unwrap_or(libc::c_int::MAX);
    let (process, cpu): (libc::pid_t, libc::c_int) = match scope {
        Scope::Cpu(cpu) => (-1, number(cpu)),
        Scope::ThisThread => (0, -1),
        Scope::Descendants(cpu) => (0, number(cpu)),
    };
    let no_group: libc::c_int = -1;
    // SAFETY: `attributes` outlives the call, is initialised, and its `size` is its own; the other arguments
    // are numbers. The descriptor that the kernel gives is ours, and nobody else knows it.
    unsafe {
        let call = libc::SYS_perf_event_open;
        match libc::syscall(call, &raw const attributes, process, cpu, no_group, CLOSE_ON_EXEC) {
            ..0 => Err(io::Error::last_os_error()),
            descriptor => Ok(File::from_raw_fd(descriptor as libc::c_int)),
        }
    }
}

/// What an error of [`open`] means, and what to try.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT) => "no hardware counters here (guests often have none)".to_owned(),
        Some(libc::EOPNOTSUPP) => "no hardware counters for it here".to_owned(),
        Some(libc::ENOSYS) => "no performance events in the kernel".to_owned(),
        Some(libc::EACCES | libc::EPERM) => {
            "not allowed: run with CAP_PERFMON, or set kernel.perf_event_paranoid to 0".to_owned()
        }
        Some(libc::ENODEV) => "not online".to_owned(),
        _ => error.to_string(),
    }
}

impl Counter {
    /// Reads the counter; it goes on counting.
    ///
    /// # Errors
    /// What `read` said; `UnexpectedEof` when the kernel could not keep the event scheduled.
    pub fn read(&mut self) -> io::Result<Count> {
        let mut bytes = [0; 24];
        self.0.read_exact(&mut bytes)?;
        let word = |index: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[index * 8..index * 8 + 8]);
            u64::from_ne_bytes(word)
        };
        Ok(Count { value: word(0), enabled: Nanos(word(1)), running: Nanos(word(2)) })
    }
}

impl Count {
    /// What was counted since an earlier count of the same counter.
    #[must_use]
    pub fn since(self, before: Count) -> Count {
        Count {
            value: self.value.saturating_sub(before.value),
            enabled: self.enabled.minus(before.enabled),
            running: self.running.minus(before.running),
        }
    }

    /// Whether the counter was time-shared, so that `value` covers only a part of the time.
    #[must_use]
    pub fn shared(self) -> bool {
        self.running < self.enabled
    }

    /// The value scaled up to the whole time it was asked for; `None` when it never counted.
    #[must_use]
    pub fn scaled(self) -> Option<u64> {
        if self.running.0 == 0 {
            return None;
        }
        let scaled = u128::from(self.value) * u128::from(self.enabled.0) / u128::from(self.running.0);
        u64::try_from(scaled).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Keeps the CPU busy.
    fn spin(time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_software_event_of_this_thread_counts_its_time() {
        let mut counter = match open(Event::CpuClock, Scope::ThisThread) {
            Ok(counter) => counter,
            // A container may forbid the call altogether: then there is nothing to test but the errno.
            Err(error) => return assert!(matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES))),
        };
        let before = counter.read().unwrap();
        spin(Duration::from_millis(20));
        let grown = counter.read().unwrap().since(before);
        assert!(grown.value > 0 && grown.value <= 10_000_000_000, "{grown:?}");
        assert!(!grown.shared());
        assert_eq!(grown.scaled(), Some(grown.value));
    }

    #[test]
    fn cycles_are_counted_or_refused_with_a_known_errno() {
        match open(Event::Cycles, Scope::Cpu(0)) {
            Ok(mut counter) => {
                spin(Duration::from_millis(5));
                assert!(counter.read().unwrap().enabled.0 > 0);
            }
            Err(error) => {
                let known = [libc::ENOENT, libc::EOPNOTSUPP, libc::EACCES, libc::EPERM, libc::ENOSYS];
                assert!(known.contains(&error.raw_os_error().unwrap()), "{error}");
            }
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        assert!(open(Event::CpuClock, Scope::Cpu(u32::MAX)).is_err());
    }

    #[test]
    fn an_errno_is_told_in_words() {
        let told = |errno| reason(&io::Error::from_raw_os_error(errno));
        assert!(told(libc::ENOENT).contains("no hardware counters"));
        assert!(told(libc::EOPNOTSUPP).contains("no hardware counters"));
        assert!(told(libc::EACCES).contains("CAP_PERFMON") && told(libc::EPERM).contains("CAP_PERFMON"));
        assert_eq!(told(libc::ENODEV), "not online");
    }

    #[test]
    fn a_shared_counter_is_scaled_to_its_whole_time() {
        let half = Count { value: 500, enabled: Nanos(1_000), running: Nanos(500) };
        assert!(half.shared());
        assert_eq!(half.scaled(), Some(1_000));
        assert_eq!(Count { running: Nanos(0), ..half }.scaled(), None);
    }
}
