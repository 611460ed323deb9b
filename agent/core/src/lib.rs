//! Values and arithmetic of the agent.
//!
//! Everything in this crate is deterministic: it reads no clock, makes no system call, starts no thread and
//! prints nothing, so that all of it can be tested as mathematics. What the agent says and hears on its
//! stdin and stdout is defined here ([`message`], [`job`], [`frame`]); the JSON Schemas that the lab checks
//! against are generated from these types and from nothing else.

#![forbid(unsafe_code)]

pub mod account;
pub mod arrivals;
pub mod block_check;
pub mod block_pattern;
pub mod counter;
pub mod disk;
pub mod disk_account;
mod disk_check;
pub mod engine;
pub mod file_account;
pub mod file_flowop;
pub mod file_program;
pub mod file_variable;
pub mod frame;
pub mod histogram;
pub mod job;
pub mod limits;
pub mod message;
pub mod metric;
pub mod network;
pub mod phase;
pub mod profile;
pub mod random;
mod ranks;
pub mod schedule;
pub mod script;
pub mod scripted;
pub mod sizes;
pub mod socket_options;
pub mod units;
