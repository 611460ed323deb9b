//! Where CPU time goes, by sampling: which functions ran on the CPUs of a trial, and who called them.
//!
//! While the load runs, samples are only taken out of the kernel's rings and equal ones counted ([`Profiler`]);
//! what is kept is addresses. Names are looked up after the load, in the tables of the kernel and of the programs
//! that ran, because that takes a good part of a second of CPU time.
//!
//! A host that does not allow any of this gives a profile without samples that says so, never an error.
//!
//! ```text
//! ring ─▶ records ─▶ fold ─▶ │ symbols ─▶ compose ─▶ message
//!         under load         │ after it
//! ```

#![forbid(unsafe_code)]

mod compose;
mod fold;
mod price;
mod profiler;
mod records;
mod symbols;

pub use price::sample_cost;
pub use profiler::{available, Profiler};
