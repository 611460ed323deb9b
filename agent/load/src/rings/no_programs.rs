//! In the place of `programs.rs` in an agent that was built without clang.

use std::net::SocketAddrV4;
use std::os::fd::BorrowedFd;

use super::place::unsupported;
use crate::error::LoadError;

/// There are none.
pub(super) struct Programs;

fn without<T>() -> Result<T, LoadError> {
    let what =
        "this agent was built without clang, and so without the programs that take a port from the kernel";
    Err(unsupported(what.to_owned(), "server", "install clang and libbpf-dev, and build it again"))
}

pub(super) fn drop_at(_: &str, _: SocketAddrV4) -> Result<Programs, LoadError> {
    without()
}

pub(super) fn redirect_at(_: &str, _: SocketAddrV4, _: BorrowedFd<'_>) -> Result<Programs, LoadError> {
    without()
}

pub(super) fn drop_from(_: &str, _: SocketAddrV4) -> Result<Programs, LoadError> {
    without()
}

pub(super) fn redirect_from(_: &str, _: SocketAddrV4, _: BorrowedFd<'_>) -> Result<Programs, LoadError> {
    without()
}

/// As [`Programs`].
pub(super) struct Loops;

pub(super) fn reflect_at(_: &str, _: SocketAddrV4, _: u64, _: u32) -> Result<Loops, LoadError> {
    without()
}

impl Loops {
    pub fn begin(&mut self, _: u32, _: u64) -> Result<(), LoadError> {
        without()
    }

    pub fn counts(&self, _: u32) -> (u64, u64) {
        (0, 0)
    }
}
