//! Both ends of a script in one process: one program for all tests of scripts.

mod relay;
mod scripted;

mod datagrams;
mod faults;
mod fuzz;
mod hosts;
mod impaired;
mod whole;
