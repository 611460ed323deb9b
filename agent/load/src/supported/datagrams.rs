//! Loads whose messages are datagrams.

use iodyno_core::network::{Direction, Engine, Network, Role, Syscalls, Transport};
use iodyno_sys::datagram_ring;

use super::{hold, unsupported};
use crate::error::LoadError;

pub(super) fn goes_together(load: &Network) -> Result<(), LoadError> {
    if load.engine == Engine::RoundRobin {
        let what = "datagrams that may never come are not waited for one flow after the other".to_owned();
        return Err(unsupported(what, "engine", "take threads or epoll"));
    }
    let (on_a_ring, by_io_uring) = (load.engine == Engine::Rings, load.engine == Engine::IoUring);
    let blocks = load.engine == Engine::Threads && load.role == Role::Send;
    let missing = "it is not there for datagrams";
    let reliable = "an answer may never come, and whoever waits for the lock would wait for it";
    let (application, stream) = (load.application(), load.stream().cloned().unwrap_or_default());
    let rules = [
        (load.transport != Transport::Udp && !on_a_ring, "engine", "its frames lie in a ring", "take rings"),
        (
            on_a_ring && load.syscalls != Syscalls::ReadWrite,
            "syscalls",
            "its frames lie in a ring, and no call moves them one by one",
            "take read_write",
        ),
        (
            by_io_uring && !matches!(load.syscalls, Syscalls::ReadWrite | Syscalls::ZeroCopy),
            "syscalls",
            "io_uring has calls of its own",
            "take read_write or zero_copy",
        ),
        (
            by_io_uring && load.socket.busy_poll_ns.is_some(),
            "socket.busy_poll_ns",
            "a wait on io_uring does not look at the device",
            "take threads",
        ),
        (
            matches!(load.engine, Engine::Threads | Engine::Epoll)
                && !matches!(
                    load.syscalls,
                    Syscalls::ReadWrite | Syscalls::Message | Syscalls::Batch | Syscalls::Segments
                ),
            "syscalls",
            missing,
            "take read_write, message, batch or segments",
        ),
        (load.direction() != Direction::Forward, "direction", "they go one way", "take forward"),
        (stream.discards, "discards", "each datagram shows the trial's token", "leave it away"),
        (
            load.busy_wait() && (by_io_uring || blocks),
            "busy_wait",
            "only who asks by epoll or on a ring, and who answers by calls or on one, can look again and again",
            "take the client epoll, and the server epoll, recvfrom, recvmsg, recvmmsg or segments",
        ),
        (
            load.exchange().is_some_and(|exchange| exchange.multiplexed),
            "multiplexed",
            "each datagram shows which request it belongs to as it is",
            "leave it out, or take tcp, unix or vsock",
        ),
        (stream.cork, "cork", "datagrams are not joined by the sender's kernel", "take segments"),
        (
            load.socket.congestion_control.is_some(),
            "socket.congestion_control",
            "UDP has no congestion control",
            "leave it out",
        ),
        (application.serialised, "serialised", reliable, "leave it out"),
        (application.think_ns.0 > 0, "think_ns", "neither a flow nor its reader pauses", "leave it out"),
        (application.burst > 1, "burst", "arrivals are of one datagram each", "take 1, or more queue_depth"),
        (
            load.message_sizes.is_some() && load.syscalls == Syscalls::Segments,
            "message_sizes",
            "the kernel cuts into segments of one size",
            "take other syscalls, or one size",
        ),
        (
            load.arrivals.is_some() && load.queue_depth() > 1 && load.engine == Engine::Threads,
            "queue_depth",
            "a thread that waits for an answer cannot begin another request in time",
            "take the engine epoll",
        ),
    ];
    hold(&rules, |found| format!("the load cannot be made like this over UDP: {found}"))
}

/// Whether this host's kernel has what the load takes.
pub(super) fn has_kernel_for(load: &Network) -> Result<(), LoadError> {
    if load.engine != Engine::IoUring {
        return Ok(());
    }
    datagram_ring::available().map_err(|why| unsupported(why, "engine", "take epoll or threads on this host"))
}
