//! Exact accounting of CPU time by programs in the kernel (`bpf/cpu.bpf.c`).

pub(crate) mod account;
pub(crate) mod observer;
pub(crate) mod own_cost;
pub(crate) mod pair_cost;
pub(crate) mod refusal;
pub(crate) mod shared;
