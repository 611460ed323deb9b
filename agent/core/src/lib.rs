//! Values and arithmetic of the agent.
//!
//! Everything in this crate is deterministic: it reads no clock, makes no system call, starts no thread and
//! prints nothing, so that all of it can be tested as mathematics. What the agent says and hears on its
//! stdin and stdout is defined here ([`message`], [`job`], [`frame`]); the JSON Schemas that the lab checks
//! against are generated from these types and from nothing else.

#![forbid(unsafe_code)]

pub mod counter;
pub mod frame;
pub mod histogram;
pub mod job;
pub mod message;
pub mod metric;
pub mod phase;
pub mod profile;
pub mod units;
