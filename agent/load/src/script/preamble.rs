//! What a connection of a script shows before it counts.
//!
//! | bytes | preamble |
//! | --- | --- |
//! | 0..8 | `iodynosc` |
//! | 8..24 | token |
//! | 24..28 | what it is: 1 the link of the two ends, 2 a connection of a thread, 3 that one acknowledged (datagrams) |
//! | 28..32 | thread |
//! | 32..36 | number of the connection in the thread |
//! | 36..40 | how many the thread had opened before under this number |
//!
//! Numbers are little-endian. A stream goes on with the script's bytes; over UDP it is a datagram of its own, sent
//! again until it is acknowledged, and from then on the addresses tell whose datagrams they are.

/// Length of a preamble.
pub(super) const BYTES: usize = 40;
const MAGIC: [u8; 8] = *b"iodynosc";

/// Who opens a connection, or acknowledges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Preamble {
    pub kind: Kind,
    pub thread: u32,
    pub connection: u32,
    pub serial: u32,
}

/// What a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Link = 1,
    Data = 2,
    Acknowledged = 3,
}

impl Preamble {
    /// Of the link.
    pub(super) const LINK: Preamble = Preamble { kind: Kind::Link, thread: 0, connection: 0, serial: 0 };

    pub(super) fn bytes(self, token: [u8; 16]) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..24].copy_from_slice(&token);
        let numbers = [self.kind as u32, self.thread, self.connection, self.serial];
        for (place, number) in bytes[24..].chunks_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// `None`: it is none of this trial's.
    pub(super) fn of(bytes: &[u8], token: [u8; 16]) -> Option<Preamble> {
        let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let kind = match number(24)? {
            1 => Kind::Link,
            2 => Kind::Data,
            3 => Kind::Acknowledged,
            _ => return None,
        };
        let found = Preamble { kind, thread: number(28)?, connection: number(32)?, serial: number(36)? };
        (bytes == found.bytes(token)).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn only_the_right_token_and_form_count(
            token in any::<[u8; 16]>(), thread in any::<u32>(), connection in any::<u32>(), serial in any::<u32>(),
            at in 0usize..24, flip in 1u8..=255,
        ) {
            let shown = Preamble { kind: Kind::Data, thread, connection, serial };
            let mut bytes = shown.bytes(token);
            prop_assert_eq!(Preamble::of(&bytes, token), Some(shown));
            prop_assert_eq!(Preamble::of(&bytes[1..], token), None);
            bytes[at] ^= flip;
            prop_assert_eq!(Preamble::of(&bytes, token), None);
        }
    }
}
