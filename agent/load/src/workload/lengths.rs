//! How long the next message is.

use iodyno_core::network::Network;
use iodyno_core::sizes::SizeStream;

/// Lengths of the messages or requests of a connection, in order.
pub(crate) enum Lengths {
    Same(u64),
    /// The stream, and what was drawn from it for messages that were not made, the first of them last.
    Drawn(SizeStream, Vec<u64>),
}

impl Lengths {
    /// Those of a connection of `job`; both ends have the same.
    pub(crate) fn of(load: &Network, connection: usize) -> Self {
        match &load.message_sizes {
            None => Lengths::Same(load.message_bytes.0),
            Some(sizes) => {
                Lengths::Drawn(SizeStream::new(sizes, load.seed, load.number_of(connection)), Vec::new())
            }
        }
    }

    /// The next one, in bytes.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        match self {
            Lengths::Same(bytes) => *bytes,
            Lengths::Drawn(stream, again) => again.pop().unwrap_or_else(|| stream.draw()),
        }
    }

    /// The message that a length was drawn for was not made: the next one has it. Of several, the last comes first.
    pub(crate) fn take_back(&mut self, bytes: u64) {
        if let Lengths::Drawn(_, again) = self {
            again.push(bytes);
        }
    }
}
