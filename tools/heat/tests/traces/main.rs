//! Traces whose truth is known: one program for all forms, and the command line.

mod clocks;
mod command;
mod forms;
mod mutated;
mod packets_and_histograms;
