//! Time of each CPU of the trial in each class, exact to the nanosecond at which the kernel changes between them.

use iodyno_core::metric::Metric;

use crate::sensor::{counter, gauge, Entry};

const SOURCE: &str = "BPF programs at tracepoints";

pub(super) const APP: Metric =
    time("exact.app_ns", "Time in tasks of the agent, user and kernel, without the interrupts on top.");
pub(super) const APP_USER: Metric =
    time("exact.app_user_ns", "Its part in user mode; absent where no sample tells.");
pub(super) const OTHER: Metric = time(
    "exact.other_ns",
    "Time in other tasks, those of the kernel included, without the interrupts on top.",
);
pub(super) const IDLE: Metric = time("exact.idle_ns", "Time in no task and no interrupt.");
pub(super) const HARDIRQ: Metric =
    time("exact.hardirq_ns", "Time in hard interrupts, those of the processor's own timer included.");
pub(super) const SOFTIRQ: Metric = counter(
    "exact.softirq_ns",
    "ns",
    SOURCE,
    "cpu=0,vector=NET_RX",
    "Time in soft interrupts of a vector, wherever they ran, without the hard interrupts on top.",
);
pub(super) const SOFTIRQ_COUNT: Metric = counter(
    "exact.softirq_count",
    "1",
    SOURCE,
    "cpu=0,vector=NET_RX",
    "Times that soft interrupts of a vector ran.",
);
pub(super) const SPLIT_SAMPLES: Metric =
    count("exact.split_samples", "Samples that the share of user mode rests on; 0 or absent: it is exact.");
pub(super) const EVENTS: Metric = count("exact.events", "Events of the kernel that this sensor handled.");
pub(super) const OBSERVER: Metric =
    time(
    "exact.observer_ns",
    "What this sensor took: events times the time of one, measured in the warm-up, and interrupts for samples.",
);
pub(super) const POLLS: Metric = count("napi.polls", "Polls of network devices.");
pub(super) const PACKETS: Metric = count("napi.packets", "Packets that these polls took.");
pub(super) const FULL_POLLS: Metric = count("napi.full_polls", "Polls that used their whole budget.");
pub(super) const WAKEUPS: Metric = count("sched.wakeups", "Tasks woken.");
pub(super) const CONTENTIONS: Metric =
    count("lock.contentions", "Waits for a lock of the kernel by tasks of the agent.");
pub(super) const CONTENDED: Metric = time("lock.contended_ns", "Time of these waits.");
pub(super) const POLLS_RATE: Metric = slice(
    "napi.polls_per_s",
    "per_s",
    "Polls of network devices, where they are counted in the warm-up only.",
);
pub(super) const PACKETS_RATE: Metric =
    slice("napi.packets_per_s", "per_s", "Packets that these polls took, likewise.");
pub(super) const FULL_POLLS_RATE: Metric =
    slice("napi.full_polls_per_s", "per_s", "Polls that used their whole budget, likewise.");
pub(super) const WAKEUPS_RATE: Metric = slice("sched.wakeups_per_s", "per_s", "Tasks woken, likewise.");
pub(super) const CONTENDED_RATE: Metric = slice(
    "lock.contended_ns_per_s",
    "ns_per_s",
    "Waits of the agent's tasks for locks of the kernel, likewise.",
);
pub(super) const SYSCALLS: Metric = gauge(
    "syscalls.rate_per_s",
    "per_s",
    SOURCE,
    "",
    "System calls of the agent on the trial's CPUs, counted for a short time in the warm-up window.",
);

const METRICS: [Metric; 22] = [
    APP,
    APP_USER,
    OTHER,
    IDLE,
    HARDIRQ,
    SOFTIRQ,
    SOFTIRQ_COUNT,
    SPLIT_SAMPLES,
    EVENTS,
    OBSERVER,
    POLLS,
    PACKETS,
    FULL_POLLS,
    WAKEUPS,
    CONTENTIONS,
    CONTENDED,
    POLLS_RATE,
    PACKETS_RATE,
    FULL_POLLS_RATE,
    WAKEUPS_RATE,
    CONTENDED_RATE,
    SYSCALLS,
];

pub(crate) const ENTRY: Entry = Entry { name: "cpu_exact", metrics: &METRICS, open: sensor::open };

const fn time(name: &'static str, help: &'static str) -> Metric {
    counter(name, "ns", SOURCE, "cpu=0", help)
}

const fn count(name: &'static str, help: &'static str) -> Metric {
    counter(name, "1", SOURCE, "cpu=0", help)
}

const fn slice(name: &'static str, unit: &'static str, help: &'static str) -> Metric {
    gauge(name, unit, SOURCE, "cpu=0", help)
}

#[cfg(has_bpf)]
mod sensor;

#[cfg(not(has_bpf))]
mod sensor {
    use crate::sensor::{Opened, Roots, SenseError, Subject};

    pub(super) fn open(_: &Roots, _: &Subject) -> Opened {
        let why = match cfg!(feature = "bpf") {
            true => {
                "this agent was built without clang: build it again where clang and libbpf-dev are installed"
            }
            false => "this agent was built without the feature `bpf`",
        };
        Err(SenseError::Unavailable(why.to_owned()))
    }
}
