//! Agents as processes: one program for all tests that may run side by side.

#[path = "../agent/mod.rs"]
mod agent;

mod check;
mod disk;
mod guard;
mod schema;
mod script;
mod wire;
