//! Load generation: a workload on a transport, submitted by a driver, on workers.
//!
//! [`listen`] and [`connect`] bring every connection up, prove it and park one thread a worker;
//! [`Prepared::arm`] tells the threads when to start. From then on a worker allocates nothing, takes no lock and
//! says nothing: it writes to counters that a [`Meter`] reads from another thread.

#![forbid(unsafe_code)]

mod cancel;
mod counters;
mod crew;
mod driver;
mod error;
mod establish;
mod null;
mod preamble;
mod transport;
mod workload;

pub use cancel::Cancel;
pub use counters::{Meter, Totals};
pub use crew::{Finished, Prepared, Running};
pub use error::LoadError;
pub use establish::accepting::{listen, Listener};
pub use establish::connecting::connect;
pub use null::null_cost;
