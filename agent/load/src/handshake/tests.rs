//! The preamble itself; the handshake over real sockets is tested from outside, in `tests/`.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn only_the_right_token_and_form_give_an_index(
        token in any::<[u8; 16]>(), index in any::<u32>(), at in 0usize..28, flip in 1u8..=255
    ) {
        let mut bytes = preamble(token, index);
        prop_assert_eq!(index_in(bytes, token), Some(index));
        bytes[at] ^= flip;
        prop_assert_eq!(index_in(bytes, token), None);
    }
}
