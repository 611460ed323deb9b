//! The only unsafe code of the agent: the kernel calls that it makes, each behind a safe function.
//!
//! A function here does one kernel call and says what the kernel said. It knows nothing of trials.

pub mod affinity;
pub mod buffer;
pub mod clock;
pub mod control_group;
pub mod epoll;
pub mod errno;
pub mod limits;
pub mod operation_clock;
pub mod perf_event;
pub mod perf_samples;
pub mod process;
pub mod qdisc;
pub mod realtime;
pub mod socket;
pub mod tcp_info;
