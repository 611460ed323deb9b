//! Whether this machine can carry vsock.

use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use iodyno_core::units::Nanos;
use rustix::net::AddressFamily;

use crate::endpoint::{self, Endpoint, ANY_CONTEXT};
use crate::{clock, errno, socket, timed};

/// The number of this machine (`VMADDR_CID_LOCAL`).
pub const THIS_MACHINE: u32 = 1;
/// A port that the kernel chooses (`VMADDR_PORT_ANY`).
const ANY_PORT: u32 = u32::MAX;
/// chosen: a connection within one machine is up in less than a millisecond; without a carrier, the kernel tries for 2 s.
const TIME_TO_CONNECT: Nanos = Nanos(200_000_000);

/// Why no connection by vsock reaches machine `context` from here; `None`: one may. Other machines than this one are not
/// asked.
#[must_use]
pub fn refusal(context: u32) -> Option<String> {
    if let Some(error) = socket::refusal(AddressFamily::VSOCK, None) {
        return Some(format!("the kernel refuses vsock sockets: {error}"));
    }
    if context != THIS_MACHINE {
        return None;
    }
    static WITHIN: OnceLock<Option<String>> = OnceLock::new();
    WITHIN
        .get_or_init(|| {
            let error = connect_within().err()?;
            Some(format!(
                "the kernel carries no vsock connection within this machine (vsock_loopback): {error}"
            ))
        })
        .clone()
}

/// Fails at once where nothing carries vsock within this machine: its number can be bound only where something does
/// (`vsock_find_cid` of Linux' `af_vsock.c`), while a connection would be tried at the hypervisor's, until the time is up.
fn carrier_within() -> io::Result<()> {
    let place = Endpoint::Vsock { context: THIS_MACHINE, port: ANY_PORT };
    endpoint::bind(place.socket(false)?.as_fd(), &place)
}

/// Connects to a listener of its own.
fn connect_within() -> io::Result<()> {
    carrier_within()?;
    let context = ANY_CONTEXT;
    // The kernel chooses the port (`VMADDR_PORT_ANY`), and does not say here which, so that one is tried by number.
    let listener = Endpoint::Vsock { context, port: 0 }.socket(false)?;
    let mut place = Endpoint::Vsock { context: THIS_MACHINE, port: 0 };
    let first = 60_001 + std::process::id() % 4_000;
    for port in first..first + 64 {
        match endpoint::bind(listener.as_fd(), &Endpoint::Vsock { context, port }) {
            Ok(()) => {
                place = Endpoint::Vsock { context: THIS_MACHINE, port };
                break;
            }
            Err(error) if error.raw_os_error() == Some(errno::EADDRINUSE) => {}
            Err(error) => return Err(error),
        }
    }
    socket::listen(listener.as_fd(), 1)?;
    let near = place.socket(false)?;
    if endpoint::connect(near.as_fd(), &place)? {
        return Ok(());
    }
    let until = clock::monotonic().plus(TIME_TO_CONNECT);
    while clock::monotonic() < until {
        if timed::wait_for(near.as_fd(), timed::Until::Writable, until.minus(clock::monotonic()))? {
            return socket::pending_error(near.as_fd())?.map_or(Ok(()), Err);
        }
    }
    Err(io::Error::from_raw_os_error(errno::ETIMEDOUT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_why_and_stays() {
        let first = refusal(THIS_MACHINE);
        assert_eq!(first, refusal(THIS_MACHINE));
        if let Some(why) = first {
            assert!(why.contains("vsock") && why.len() > 30, "{why}");
        }
    }
}
