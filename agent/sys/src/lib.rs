//! The only unsafe code of the agent: the kernel calls that it makes, each behind a safe function.
//!
//! A function here does one kernel call and says what the kernel said. It knows nothing of trials.

pub mod clock;
pub mod perf_event;
pub mod tcp_info;
