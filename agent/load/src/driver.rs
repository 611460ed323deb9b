//! How operations are submitted: which worker serves which connections, and with which calls.

pub mod epoll;
pub mod threads;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use iodyno_core::job::{Driver, Job, Role};
use iodyno_core::message::ErrorCode;
use iodyno_core::units::{Bytes, Nanos};
use iodyno_sys::buffer::{ReceiveScratch, SendSource};

use crate::counters::Counters;
use crate::crew::{cpus_of, Work};
use crate::error::LoadError;

/// Bytes that one read asks for. Measured: 64 to 256 KiB are alike, less costs more calls a byte.
const RECEIVE_BYTES: usize = 128 << 10;
/// The stream may end this much before the sender's due stop: the two clocks differ, and the sender may be
/// between two messages.
const EARLY: Nanos = Nanos(20_000_000);

/// What every worker of a job shares.
pub struct Shared {
    pub sockets: Arc<[OwnedFd]>,
    pub message: SendSource,
    pub scratches: Vec<ReceiveScratch>,
    pub role: Role,
    /// From the start to the stop of the load.
    pub load: Nanos,
}

impl Shared {
    fn new(job: &Job, sockets: Arc<[OwnedFd]>) -> Result<Self, LoadError> {
        let failed = |error: std::io::Error| LoadError::from_kernel(&error, "reserve memory", "buffers");
        // A thread that waits in a read holds no data, so threads share scratches. A few for each CPU, lest
        // two CPUs write to the same lines at once.
        let scratches = if job.role == Role::Receive { 4 * cpus_of(job).len().max(1) } else { 0 };
        let Bytes(size) = job.message_bytes;
        Ok(Shared {
            sockets,
            message: SendSource::new(if job.role == Role::Send { size as usize } else { 1 })
                .map_err(failed)?,
            scratches: (0..scratches)
                .map(|_| ReceiveScratch::new(RECEIVE_BYTES))
                .collect::<Result<_, _>>()
                .map_err(failed)?,
            role: job.role,
            load: job.windows.load_ns(),
        })
    }

    /// Whether a stream that ends at `now` ends too early.
    fn is_early(&self, start: Nanos, now: Nanos) -> bool {
        now.plus(EARLY) < start.plus(self.load)
    }
}

type Works = (Arc<Counters>, Vec<(Vec<u32>, Work)>);

/// The work of each worker of `job` on `sockets`, with the CPUs that it may use.
pub fn works(job: &Job, sockets: &Arc<[OwnedFd]>) -> Result<Works, LoadError> {
    let shared = Arc::new(Shared::new(job, Arc::clone(sockets))?);
    let cpus = cpus_of(job);
    let works = match job.driver {
        Driver::Threads => threads::works(&shared, &cpus)?,
        Driver::Epoll => epoll::works(&shared, &cpus)?,
    };
    Ok((Arc::new(Counters::new(sockets.len(), works.len())), works))
}

/// The same on the null transport.
pub fn null_works(job: &Job) -> Result<Works, LoadError> {
    if job.role != Role::Send {
        let what = "the null transport has no receiving end";
        return Err(LoadError::new(ErrorCode::Job, what, "transport", "use it on a sender only"));
    }
    let shared = Arc::new(Shared::new(job, Arc::new([]))?);
    let cpus = cpus_of(job);
    let works: Vec<_> = match job.driver {
        Driver::Threads => threads::null_works(&shared, job.connections as usize, &cpus),
        Driver::Epoll => epoll::null_works(&shared, job.connections as usize, &cpus),
    };
    Ok((Arc::new(Counters::new(job.connections as usize, works.len())), works))
}
