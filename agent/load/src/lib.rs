//! Load generation: a workload (what is done on a connection) on a transport (what it travels on), submitted
//! by an engine (how calls are made).
//!
//! ```text
//! listen ─▶ accept_all ─┐
//!                       ├─▶ Prepared ── arm(start) ─▶ Running ── join ─▶ Finished
//! connect ──────────────┘    connections proven,        Meter::read at any time
//!                            threads parked
//! ```
//! Everything that can fail or takes memory happens before the start. From the start on, a worker calls the
//! kernel, reads the clock and adds to counters, and does nothing else.

#![forbid(unsafe_code)]

mod calibration;
mod cancel;
mod connections;
mod datagram;
mod engine;
mod error;
mod handshake;
mod joining;
mod prepared;
mod quota;
mod rings;
mod script;
mod supported;
mod transport;
mod worker;
mod workload;

pub use calibration::{null_cost, null_cost_open};
pub use cancel::Cancel;
pub use datagram::counters::DatagramTotals;
pub use error::LoadError;
pub use handshake::{connect, listen, Listener};
pub use prepared::{Finished, Prepared, Running};
pub use quota::{remove_leftovers, Quota};
pub use script::{connect_script, listen_script, script_goes_together, script_supports, ScriptListener};
pub use supported::{goes_together, supports};
pub use worker::alarm::Alarm;
pub use worker::counters::{Meter, Totals};
pub use worker::open_loop::{OpenLoop, OpenTimes, OpenTotals};
pub use worker::rare::RareTotals;
