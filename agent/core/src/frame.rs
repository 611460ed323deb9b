//! How messages lie on the byte stream.
//!
//! A frame is a header of 16 bytes and a payload of UTF-8 JSON, one message:
//!
//! | bytes | content |
//! | --- | --- |
//! | 0..4 | `IODY` |
//! | 4..8 | length of the payload, little-endian |
//! | 8..12 | sequence number, little-endian: 0, 1, 2, ... in each direction |
//! | 12..16 | CRC-32 (IEEE) of the payload, little-endian |
//!
//! The sequence number shows a lost frame, the checksum a stray byte (a remote shell that prints into the
//! stream), the length a cut. [`Decoder`] is fed bytes as they come and never panics on any of them.

/// First bytes of every frame.
pub const MAGIC: [u8; 4] = *b"IODY";
/// Bytes before the payload.
pub const HEADER_BYTES: usize = 16;
/// Longest payload that either end accepts.
pub const MAX_PAYLOAD_BYTES: usize = 16 << 20;

/// What is wrong with a byte stream. All of it is final: after an error nothing can be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The stream does not hold a frame where one should begin.
    #[error("expected a frame, found the bytes {found:02x?}; something else writes into the stream")]
    Magic {
        /// What stood there.
        found: [u8; 4],
    },
    /// The frame says that it is longer than allowed.
    #[error("a frame of {length} bytes is longer than the {MAX_PAYLOAD_BYTES} allowed")]
    Oversized {
        /// Length in the header.
        length: u32,
    },
    /// A frame is missing or came twice.
    #[error("frame {found} came where {expected} was due; frames were lost or repeated")]
    Sequence {
        /// Sequence number due.
        expected: u32,
        /// Sequence number found.
        found: u32,
    },
    /// The payload is not what was sent.
    #[error("the checksum of frame {sequence} does not fit its content")]
    Checksum {
        /// Its sequence number.
        sequence: u32,
    },
    /// The stream ended inside a frame.
    #[error("the stream ended {missing} bytes short of the end of a frame")]
    Truncated {
        /// Bytes that did not come.
        missing: usize,
    },
}

/// Puts `payload` into a frame.
///
/// # Errors
/// [`FrameError::Oversized`] when it is longer than [`MAX_PAYLOAD_BYTES`].
pub fn encode(sequence: u32, payload: &[u8]) -> Result<Vec<u8>, FrameError> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    if payload.len() > MAX_PAYLOAD_BYTES {
        return Err(FrameError::Oversized { length });
    }
    let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
    frame.extend(MAGIC);
    frame.extend(length.to_le_bytes());
    frame.extend(sequence.to_le_bytes());
    frame.extend(crc32fast::hash(payload).to_le_bytes());
    frame.extend(payload);
    Ok(frame)
}

/// Takes a byte stream apart into payloads.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    next_sequence: u32,
}

impl Decoder {
    /// A decoder at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Decoder::default()
    }

    /// Takes bytes in.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next payload, `None` when more bytes are needed.
    ///
    /// # Errors
    /// See [`FrameError`]; do not call again after one.
    pub fn next_payload(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let Some(found) = self.word(0) else { return Ok(None) };
        if found != MAGIC {
            return Err(FrameError::Magic { found });
        }
        let Some(checksum) = self.word(12).map(u32::from_le_bytes) else { return Ok(None) };
        let length = u32::from_le_bytes(self.word(4).unwrap_or_default());
        let sequence = u32::from_le_bytes(self.word(8).unwrap_or_default());
        if length as usize > MAX_PAYLOAD_BYTES {
            return Err(FrameError::Oversized { length });
        }
        if sequence != self.next_sequence {
            return Err(FrameError::Sequence { expected: self.next_sequence, found: sequence });
        }
        let end = HEADER_BYTES + length as usize;
        if self.buffer.len() < end {
            return Ok(None);
        }
        let payload = self.buffer[HEADER_BYTES..end].to_vec();
        self.buffer.drain(..end);
        if crc32fast::hash(&payload) != checksum {
            return Err(FrameError::Checksum { sequence });
        }
        self.next_sequence = sequence.wrapping_add(1);
        Ok(Some(payload))
    }

    /// Call at the end of the stream.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] when the stream ended inside a frame.
    pub fn finish(&self) -> Result<(), FrameError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let length = self.word(4).map_or(0, u32::from_le_bytes) as usize;
        Err(FrameError::Truncated { missing: (HEADER_BYTES + length).saturating_sub(self.buffer.len()) })
    }

    fn word(&self, at: usize) -> Option<[u8; 4]> {
        self.buffer.get(at..at + 4)?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_survive_any_cutting_of_the_stream(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8), step in 1usize..40
        ) {
            let mut stream = Vec::new();
            for (sequence, payload) in (0..).zip(&payloads) {
                stream.extend(encode(sequence, payload).unwrap());
            }
            let mut decoder = Decoder::new();
            let mut found = Vec::new();
            for chunk in stream.chunks(step) {
                decoder.feed(chunk);
                while let Some(payload) = decoder.next_payload().unwrap() {
                    found.push(payload);
                }
            }
            prop_assert_eq!(found, payloads);
            prop_assert!(decoder.finish().is_ok());
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), honest in any::<bool>()) {
            let mut decoder = Decoder::new();
            if honest {
                decoder.feed(&MAGIC);
            }
            decoder.feed(&bytes);
            while let Ok(Some(_)) = decoder.next_payload() {}
            let _ = decoder.finish();
        }

        #[test]
        fn one_changed_byte_is_noticed(
            payload in prop::collection::vec(any::<u8>(), 1..100), at in any::<prop::sample::Index>(), flip in 1u8..=255
        ) {
            let mut frame = encode(0, &payload).unwrap();
            let at = at.index(frame.len());
            frame[at] ^= flip;
            let mut decoder = Decoder::new();
            decoder.feed(&frame);
            let outcome = decoder.next_payload();
            let noticed = outcome.is_err() || (outcome == Ok(None) && decoder.finish().is_err());
            prop_assert!(noticed, "a changed byte at {} went unnoticed", at);
        }
    }

    #[test]
    fn lost_oversized_and_cut_frames_are_named() {
        let mut decoder = Decoder::new();
        decoder.feed(&encode(3, b"{}").unwrap());
        assert_eq!(decoder.next_payload(), Err(FrameError::Sequence { expected: 0, found: 3 }));

        let mut decoder = Decoder::new();
        let mut frame = encode(0, b"{}").unwrap();
        frame[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        decoder.feed(&frame);
        assert_eq!(decoder.next_payload(), Err(FrameError::Oversized { length: u32::MAX }));

        let mut decoder = Decoder::new();
        decoder.feed(&encode(0, b"{\"a\":1}").unwrap()[..18]);
        assert_eq!(decoder.next_payload(), Ok(None));
        assert_eq!(decoder.finish(), Err(FrameError::Truncated { missing: 5 }));
    }
}
