//! The first bytes of every data connection: proof that it belongs to the trial.
//!
//! | bytes | content |
//! | --- | --- |
//! | 0..4 | `IODY` |
//! | 4..8 | 1, little-endian |
//! | 8..24 | the trial's token |
//! | 24..28 | index of the connection, little-endian |
//! | 28..32 | 0 |
//!
//! The receiver answers a right one with one byte and closes on a wrong one without a word.

/// Length of the preamble in bytes.
pub const LENGTH: usize = 32;
/// The receiver's answer.
pub const ACKNOWLEDGED: u8 = b'+';

const HEAD: [u8; 8] = *b"IODY\x01\0\0\0";

/// The preamble of connection number `index`.
pub fn write(token: &[u8; 16], index: u32) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[..8].copy_from_slice(&HEAD);
    bytes[8..24].copy_from_slice(token);
    bytes[24..28].copy_from_slice(&index.to_le_bytes());
    bytes
}

/// Index of the connection, or `None` when the bytes are not this trial's preamble.
pub fn read(bytes: &[u8; LENGTH], token: &[u8; 16]) -> Option<u32> {
    // Every byte is compared, whether or not one differed before: the time taken tells nothing of the token.
    let differing = bytes[8..24].iter().zip(token).fold(0, |sum, (a, b)| sum | (a ^ b));
    let index = u32::from_le_bytes([bytes[24], bytes[25], bytes[26], bytes[27]]);
    (bytes[..8] == HEAD && differing == 0 && bytes[28..] == [0; 4]).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn only_the_right_preamble_is_taken(token: [u8; 16], index: u32, at in 0usize..LENGTH, flip in 1u8..=255) {
            let mut bytes = write(&token, index);
            prop_assert_eq!(read(&bytes, &token), Some(index));
            bytes[at] ^= flip;
            prop_assert_ne!(read(&bytes, &token), Some(index));
        }
    }
}
