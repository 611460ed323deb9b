//! An agent that was built without programs for the kernel.

use super::{BlockEvent, Untold};

/// There is none.
pub enum BlockTrace {}

impl BlockTrace {
    /// Says why there is none.
    pub fn start() -> Result<BlockTrace, String> {
        Err("this agent was built without programs for the kernel: install clang and libbpf-dev, and build it again"
            .to_owned())
    }

    /// Cannot be called.
    pub fn read(&mut self, _: impl FnMut(BlockEvent)) {
        match *self {}
    }

    /// Cannot be called.
    #[must_use]
    pub fn untold(&self) -> Untold {
        match *self {}
    }
}
