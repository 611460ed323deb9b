//! Traces of any size and form, counted into a grid of time and a quantity.
//!
//! A trace is read by content: its packing ([`source`]), its form ([`formats`]). Its lines become operations and these
//! become events of the quantity that is wanted ([`event`]). A first pass finds where times and values lie ([`survey`]),
//! from which columns and rows are chosen ([`frame`]); a second one counts ([`counts`]). Memory is bounded by the grid, not
//! by the trace: a pipe is copied to a file without a name while it is read for the first time.
//!
//! Nothing is lost: events = cells + under + over + outside + unreadable, which [`reduce`] asserts.
//!
//! No clock and no printing here; the program does both.

#![forbid(unsafe_code)]

pub mod clock_text;
pub mod counts;
pub mod derived;
pub mod event;
pub mod failure;
pub mod formats;
pub mod frame;
pub mod number;
pub mod pairing;
pub mod parts;
pub mod pass;
pub mod reduce;
pub mod region;
pub mod source;
mod spool;
pub mod survey;
pub mod unit;
