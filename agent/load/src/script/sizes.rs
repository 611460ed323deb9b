//! How long the messages of a connection are.

use iodyno_core::random::SplitMix;
use iodyno_core::script::Size;

/// Sizes of messages in one direction of a connection; both ends draw the same.
pub(super) struct Sizes(pub SplitMix);

impl Sizes {
    #[inline]
    pub(super) fn next(&mut self, size: Option<Size>) -> u64 {
        match size {
            None => 0,
            Some(Size::Fixed { bytes }) => bytes.0,
            Some(Size::Uniform { least_bytes, greatest_bytes }) => {
                // The remainder favours small values by less than 2^-34, as sizes are below 2^30.
                least_bytes.0 + self.0.bits() % (greatest_bytes.0 - least_bytes.0 + 1)
            }
        }
    }
}
