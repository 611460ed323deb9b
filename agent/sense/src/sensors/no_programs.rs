//! In the place of a sensor's programs in an agent that was built without clang.

use crate::sensor::{Opened, Roots, SenseError, Subject};

pub(super) fn open(_: &Roots, _: &Subject) -> Opened {
    let why =
        "this agent was built without programs for the kernel: build it again where clang and libbpf-dev are";
    Err(SenseError::Unavailable(why.to_owned()))
}
