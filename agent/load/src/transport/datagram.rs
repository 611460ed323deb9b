//! What stands at the front of every datagram of a load, whoever carries it.
//!
//! | bytes | header, little-endian |
//! | --- | --- |
//! | 0..8 | first 8 bytes of the trial's token |
//! | 8..12 | flow: index of the connection |
//! | 12..16 | kind ([`Kind`]) |
//! | 16..24 | sequence number |

use iodyno_core::job::Job;
use iodyno_core::limits::DATAGRAM_HEADER_BYTES;
use iodyno_core::network::Network;

/// Length of the header.
pub(crate) const HEADER_BYTES: usize = DATAGRAM_HEADER_BYTES as usize;

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// Wants an answer with the same flow and sequence number.
    Request = 1,
    /// Answers the request with the same flow and sequence number.
    Answer = 2,
    /// One of a stream; numbers of a flow count from 0 without a gap.
    Stream = 3,
    /// Before the load: the flow is there. Sequence number 0 asks for [`Kind::HelloAcknowledged`]; 1: it came.
    Hello = 4,
    /// The flow is known.
    HelloAcknowledged = 5,
    /// After the load: the flow ends, after as many requests or datagrams of a stream as the sequence number says.
    /// Who receives it sends it back as it is.
    End = 6,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        [Kind::Request, Kind::Answer, Kind::Stream, Kind::Hello, Kind::HelloAcknowledged, Kind::End]
            .into_iter()
            .find(|kind| *kind as u32 == number)
    }
}

/// The token as it stands in every datagram of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl Mark {
    /// That of the trial of `job`.
    pub(crate) fn of(job: &Job<Network>) -> Self {
        let token = job.token_bytes().unwrap_or_default();
        Mark(u64::from_le_bytes([
            token[0], token[1], token[2], token[3], token[4], token[5], token[6], token[7],
        ]))
    }

    /// As a number, for who reads datagrams elsewhere than here.
    pub(crate) fn word(self) -> u64 {
        self.0
    }
}

/// The header of one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub flow: u32,
    pub kind: Kind,
    pub sequence: u64,
}

impl Header {
    /// Writes it to the front of `datagram`.
    ///
    /// # Panics
    /// Where `datagram` is shorter than a header, which jobs are checked for.
    #[inline]
    pub(crate) fn write(self, mark: Mark, datagram: &mut [u8]) {
        datagram[0..8].copy_from_slice(&mark.0.to_le_bytes());
        datagram[8..12].copy_from_slice(&self.flow.to_le_bytes());
        datagram[12..16].copy_from_slice(&(self.kind as u32).to_le_bytes());
        datagram[16..24].copy_from_slice(&self.sequence.to_le_bytes());
    }

    /// The header at the front of `datagram`; `None`: it is none of the trial's.
    #[inline]
    pub(crate) fn read(mark: Mark, datagram: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER_BYTES] = datagram.first_chunk()?;
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if long(0) != mark.0 {
            return None;
        }
        Some(Header { flow: word(8), kind: Kind::of(word(12))?, sequence: long(16) })
    }

    /// That of the answer to it.
    #[inline]
    pub(crate) fn answer(self) -> Self {
        Header { kind: Kind::Answer, ..self }
    }

    /// It alone, as a datagram.
    pub(crate) fn alone(self, mark: Mark) -> [u8; HEADER_BYTES] {
        let mut datagram = [0; HEADER_BYTES];
        self.write(mark, &mut datagram);
        datagram
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read_and_nothing_else(
            token in any::<u64>(), flow in any::<u32>(), kind in 1u32..=6, sequence in any::<u64>(),
            at in 0usize..8, flip in 1u8..=255, length in 0usize..HEADER_BYTES
        ) {
            let (mark, kind) = (Mark(token), Kind::of(kind).unwrap());
            let header = Header { flow, kind, sequence };
            let mut datagram = header.alone(mark);
            prop_assert_eq!(Header::read(mark, &datagram), Some(header));
            prop_assert_eq!(Header::read(mark, &datagram[..length]), None);
            prop_assert_eq!(header.answer(), Header { flow, kind: Kind::Answer, sequence });
            datagram[at] ^= flip;
            prop_assert_eq!(Header::read(mark, &datagram), None);
        }
    }

    #[test]
    fn a_kind_that_is_not_known_is_none_of_ours() {
        let mut datagram = Header { flow: 0, kind: Kind::End, sequence: 0 }.alone(Mark(1));
        for kind in [0, 7, 0x0100_0001] {
            datagram[12..16].copy_from_slice(&u32::to_le_bytes(kind));
            assert_eq!(Header::read(Mark(1), &datagram), None);
        }
    }
}
