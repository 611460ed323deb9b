//! Files that loads use and programs of file operations: one program for all tests that may run side by side.

#[path = "../folder/mod.rs"]
mod folder;
mod programs;

mod faults;
mod program;
mod program_layout;
mod targets;
