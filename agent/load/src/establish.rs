//! Bringing connections up and proving them, thousands at a time, without waiting for any one of them.

pub mod accepting;
pub mod connecting;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use iodyno_core::job::Job;
use iodyno_core::units::Nanos;

use crate::crew::Prepared;
use crate::driver;
use crate::error::LoadError;
use crate::transport::tcp;

/// All connections must be up within this, and a bit for each.
fn deadline(connections: u32, now: Nanos) -> Nanos {
    now.plus(Nanos(10_000_000_000 + 1_000_000 * u64::from(connections)))
}

/// From proven sockets to parked workers.
fn prepare(job: &Job, sockets: Vec<OwnedFd>, foreign_refused: u32) -> Result<Prepared, LoadError> {
    let obtained = tcp::read_back(&sockets);
    let sockets: Arc<[OwnedFd]> = sockets.into();
    let (counters, works) = driver::works(job, &sockets)?;
    Prepared::new(job, counters, sockets, works, obtained, foreign_refused)
}
