//! The only unsafe code of the agent: the kernel calls that it makes, each behind a safe function.
//!
//! A function here does one kernel call and says what the kernel said. It knows nothing of trials.

pub mod affinity;
pub mod block_aio;
pub mod block_calls;
pub mod block_map;
pub mod block_memory;
pub mod block_ring;
pub mod block_target;
pub mod bpf;
pub mod buffer;
pub mod clock;
pub mod control_group;
pub mod datagram;
pub mod datagram_ring;
pub mod directory;
pub mod endpoint;
pub mod epoll;
pub mod errno;
pub mod file_lock;
pub mod io_memory;
pub mod limits;
pub mod lock;
pub mod net_namespace;
pub mod network_device;
pub mod open_sockets;
pub mod operation_clock;
pub mod packet_ring;
pub mod perf_event;
pub mod perf_samples;
pub mod poll;
pub mod priority;
pub mod process;
pub mod qdisc;
pub mod realtime;
mod ring_common;
pub mod sctp;
pub mod signals;
pub mod socket;
pub mod stream_calls;
pub mod stream_ring;
pub mod tap;
pub mod tcp_info;
pub mod timed;
pub mod vsock;
pub mod write_ring;
pub mod xsk;
