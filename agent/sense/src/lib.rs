//! Sensors: what the kernel counts while a trial runs, and what the host is.
//!
//! A sensor reads one source of counters and says how much each has grown since its last reading; all of
//! them together are the [`Panel`] of a trial. A sensor knows nothing of the load: it is handed sockets and
//! thread ids ([`Subject`]) and reads what the kernel keeps about them. Whatever it cannot read it names,
//! with the reason; an interface that vanishes or a thread that ends during a trial is not an error.
//!
//! A new sensor is one file in `sensors/` and its line in the list of `sensors.rs`.

#![forbid(unsafe_code)]

mod auxv;
mod blocks;
mod cgroup;
mod costs;
mod cpu_list;
mod cpu_table;
#[cfg(has_bpf)]
mod exact;
mod facts;
mod growth;
#[cfg(has_bpf)]
mod kernel_buckets;
#[cfg(has_bpf)]
mod kernel_types;
mod missing;
mod numa;
mod panel;
mod placement;
mod sensor;
mod sensors;
mod source;
mod tasks;

pub use blocks::{BlockEvent, BlockOperation, BlockTrace, Untold};
pub use costs::{block_operation_costs, costs, soft_interrupt_cost, BlockOperationCost, SoftInterruptCost};
pub use facts::{clocksource, cpus_online, host_facts};
pub use panel::Panel;
pub use sensor::{Roots, SenseError, Sensor, Subject};
pub use sensors::{available, catalogue};
