//! Units as types: a duration cannot be added to a size, and every wire key ends in its unit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Nanoseconds: a duration, or an instant on one host's `CLOCK_MONOTONIC` axis.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// Bytes: a size or a count of bytes moved.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Nanos {
    /// One second.
    pub const SECOND: Nanos = Nanos(1_000_000_000);
    /// One millisecond.
    pub const MILLISECOND: Nanos = Nanos(1_000_000);

    /// Whether it is none.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// `self + other`, stopping at the largest value instead of wrapping.
    #[must_use]
    pub const fn plus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }

    /// `self - other`, or zero where `other` is later.
    #[must_use]
    pub const fn minus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}
