//! Where CPU time went, by sampling: call stacks with how often each was seen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// Whose task was on the CPU. Interrupts run on top of whichever task is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// A thread of the agent: the load.
    App,
    /// Any other task, threads of the kernel included.
    Other,
    /// No task: an interrupt on an idle CPU.
    Idle,
}

/// What the CPU executed when the sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// User code.
    User,
    /// The kernel.
    Kernel,
}

/// A function, as far as its symbol is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// Its symbol, demangled; `[unknown]` where there is none, `[hidden]` where the kernel does not tell it,
    /// `[dropped]` for stacks that did not fit into the message.
    pub name: String,
    /// Where it lies: `kernel`, the name of a kernel module (`bpf` for BPF programs), or of a program or library
    /// file; `[anonymous]` for memory without a file.
    pub module: String,
}

/// One call stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// Whose task it was.
    pub owner: Owner,
    /// What was executed.
    pub mode: Mode,
    /// Indexes into `functions`, the outermost caller first, the function that ran last.
    pub frames: Vec<u32>,
    /// Samples.
    pub count: u64,
}

/// The samples of the measured window on the trial's CPUs of one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The job's.
    pub trial: String,
    /// Samples asked for per second and CPU.
    pub hz: u32,
    /// What made the samples: `cycles` (hardware), `cpu-clock` (a timer of the kernel, which cannot interrupt code
    /// that runs with interrupts off: its time is booked to where they come on again), or `none`.
    pub event: String,
    /// From when, on the host's monotonic axis.
    pub begin_ns: Nanos,
    /// Until when.
    pub end_ns: Nanos,
    /// Samples of busy CPUs: the sum over `stacks`.
    pub samples: u64,
    /// Samples of idle CPUs, which have no stack here. An interrupt on an idle CPU is not idle.
    pub idle_samples: u64,
    /// Samples that did not fit into a ring or into the agent's memory, or could not be read.
    pub lost: u64,
    /// Functions that the stacks are made of.
    pub functions: Vec<Function>,
    /// Stacks, the most frequent first.
    pub stacks: Vec<Stack>,
    /// CPU time that the agent took to read the samples; what the kernel took to make them is not in it.
    pub cost_ns: Nanos,
    /// CPU time that the agent took, after the load, to find the symbols.
    pub symbolise_ns: Nanos,
    /// What is missing and why: no right to sample, hidden symbols.
    #[serde(default)]
    pub missing: Option<String>,
}
