//! How long the next message is.

use iodyno_core::job::Job;
use iodyno_core::sizes::SizeStream;

/// Lengths of the messages or requests of a connection, in order.
pub(crate) enum Lengths {
    Same(u64),
    Drawn(SizeStream),
}

impl Lengths {
    /// Those of a connection of `job`; both ends have the same.
    pub(crate) fn of(job: &Job, connection: usize) -> Self {
        match &job.message_sizes {
            None => Lengths::Same(job.message_bytes.0),
            Some(sizes) => Lengths::Drawn(SizeStream::new(sizes, job.seed, connection as u32)),
        }
    }

    /// The next one, in bytes.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        match self {
            Lengths::Same(bytes) => *bytes,
            Lengths::Drawn(stream) => stream.draw(),
        }
    }
}
