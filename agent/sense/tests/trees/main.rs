//! Sensors on trees of files: one program for all tests of them.

mod hostile;
mod recorded;
mod tree;
