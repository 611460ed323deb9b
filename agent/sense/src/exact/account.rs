//! What the kernel-side programs account a CPU for: `struct account` of `bpf/account.h`, word by word.

use std::array::from_fn;

/// Classes of time: tasks of the agent, other tasks, idle, hard interrupts, and one for each vector of soft
/// interrupts.
pub(crate) const CLASSES: usize = SOFTIRQ + VECTORS;
/// Tasks of the agent.
pub(crate) const APP: usize = 0;
/// Other tasks.
pub(crate) const OTHER: usize = 1;
/// No task.
pub(crate) const IDLE: usize = 2;
/// Hard interrupts.
pub(crate) const HARDIRQ: usize = 3;
/// First vector of soft interrupts.
pub(crate) const SOFTIRQ: usize = 4;
/// Vectors that there is room for.
const VECTORS: usize = 16;

/// Words of an account.
pub(crate) const WORDS: usize = 1 + CLASSES + VECTORS + 11;
/// An account as the kernel hands it over.
pub(crate) type Words = [u64; WORDS];

/// Names of the vectors, in the order of `enum` in `include/linux/interrupt.h`, as `/proc/softirqs` has them.
const VECTOR_NAMES: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// The account of a CPU, or its growth between two instants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// Accounted up to this instant (growth: over this span).
    pub until_ns: u64,
    /// Time in each class.
    pub ns: [u64; CLASSES],
    /// Times that each vector ran.
    pub softirqs: [u64; VECTORS],
    /// Events that were handled.
    pub events: u64,
    /// Time of the interrupts that carried a sample.
    pub sample_ns: u64,
    /// Samples that found a task of the agent, outside of soft interrupts.
    pub samples: u64,
    /// Of them in user mode.
    pub user_samples: u64,
    /// Polls of network devices.
    pub polls: u64,
    /// Packets that these took.
    pub packets: u64,
    /// Polls that took as many as they may.
    pub full_polls: u64,
    /// Tasks woken.
    pub wakeups: u64,
    /// Waits for a kernel lock by tasks of the agent.
    pub contentions: u64,
    /// Time of these waits.
    pub contended_ns: u64,
    /// System calls of the agent.
    pub syscalls: u64,
}

impl Account {
    /// Reads an account.
    pub fn new(words: &Words) -> Self {
        let mut words = words.iter().copied();
        let mut next = || words.next().unwrap_or_default();
        Account {
            until_ns: next(),
            events: next(),
            ns: from_fn(|_| next()),
            softirqs: from_fn(|_| next()),
            sample_ns: next(),
            samples: next(),
            user_samples: next(),
            polls: next(),
            packets: next(),
            full_polls: next(),
            wakeups: next(),
            contentions: next(),
            contended_ns: next(),
            syscalls: next(),
        }
    }

    /// What was added since an earlier account of the same CPU.
    pub fn since(&self, before: &Account) -> Account {
        // No counter goes backwards: 0 stands for an impossible step back.
        let grown = |now: u64, before: u64| now.saturating_sub(before);
        Account {
            until_ns: grown(self.until_ns, before.until_ns),
            ns: from_fn(|class| grown(self.ns[class], before.ns[class])),
            softirqs: from_fn(|vector| grown(self.softirqs[vector], before.softirqs[vector])),
            events: grown(self.events, before.events),
            sample_ns: grown(self.sample_ns, before.sample_ns),
            samples: grown(self.samples, before.samples),
            user_samples: grown(self.user_samples, before.user_samples),
            polls: grown(self.polls, before.polls),
            packets: grown(self.packets, before.packets),
            full_polls: grown(self.full_polls, before.full_polls),
            wakeups: grown(self.wakeups, before.wakeups),
            contentions: grown(self.contentions, before.contentions),
            contended_ns: grown(self.contended_ns, before.contended_ns),
            syscalls: grown(self.syscalls, before.syscalls),
        }
    }

    /// The vectors that ran: name, times, time.
    pub fn vectors(&self) -> impl Iterator<Item = (String, u64, u64)> + '_ {
        (0..VECTORS).filter(|&vector| self.softirqs[vector] != 0 || self.ns[SOFTIRQ + vector] != 0).map(
            |vector| {
                let name =
                    VECTOR_NAMES.get(vector).map_or_else(|| vector.to_string(), |name| (*name).to_owned());
                (name, self.softirqs[vector], self.ns[SOFTIRQ + vector])
            },
        )
    }
}
