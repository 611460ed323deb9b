//! Traces whose truth is known: one program for all forms.

mod clocks;
mod forms;
mod mutated;
mod packets_and_histograms;
