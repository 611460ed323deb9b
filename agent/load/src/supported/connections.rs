//! Loads on connections, which have an order and an end.

use iodyno_core::network::{
    Direction, Engine, Network, Role, Stream, Syscalls, Traffic, TrafficKind, Transport,
};
use iodyno_sys::{stream_ring, vsock};

use super::{hold, unsupported};
use crate::error::LoadError;

/// Combinations that one way of making load covers: every one of each list with every one of the others.
struct Row {
    workloads: &'static [TrafficKind],
    transports: &'static [Transport],
    engines: &'static [Engine],
    syscalls: &'static [Syscalls],
}

/// Connections that are sockets and carry bytes as they are.
const SOCKETS: &[Transport] = &[Transport::Tcp, Transport::Unix, Transport::Vsock];
const READINESS: &[Engine] = &[Engine::Threads, Engine::Epoll];

/// Everything that can be made.
const ROWS: &[Row] = &[
    Row {
        workloads: &[TrafficKind::Stream],
        transports: &[Transport::Tcp],
        engines: READINESS,
        syscalls: &[
            Syscalls::ReadWrite,
            Syscalls::Message,
            Syscalls::Batch,
            Syscalls::ZeroCopy,
            Syscalls::Sendfile,
            Syscalls::Splice,
        ],
    },
    // The kernel has no sends without a copy on these.
    Row {
        workloads: &[TrafficKind::Stream],
        transports: &[Transport::Unix],
        engines: READINESS,
        syscalls: &[
            Syscalls::ReadWrite,
            Syscalls::Message,
            Syscalls::Batch,
            Syscalls::Sendfile,
            Syscalls::Splice,
        ],
    },
    Row {
        workloads: &[TrafficKind::Stream],
        transports: &[Transport::Vsock],
        engines: READINESS,
        syscalls: &[Syscalls::ReadWrite, Syscalls::Message, Syscalls::Batch],
    },
    Row {
        workloads: &[TrafficKind::RequestResponse],
        transports: SOCKETS,
        engines: READINESS,
        syscalls: &[Syscalls::ReadWrite, Syscalls::Message],
    },
    Row {
        workloads: &[TrafficKind::Stream],
        transports: SOCKETS,
        engines: &[Engine::RoundRobin],
        syscalls: &[Syscalls::ReadWrite],
    },
    Row {
        workloads: &[TrafficKind::Stream, TrafficKind::RequestResponse],
        transports: &[Transport::Tcp],
        engines: &[Engine::IoUring],
        syscalls: &[Syscalls::ReadWrite, Syscalls::ZeroCopy],
    },
    Row {
        workloads: &[TrafficKind::Stream, TrafficKind::RequestResponse],
        transports: &[Transport::Unix, Transport::Vsock],
        engines: &[Engine::IoUring],
        syscalls: &[Syscalls::ReadWrite],
    },
    Row {
        workloads: &[TrafficKind::Stream],
        transports: SOCKETS,
        engines: &[Engine::IoUring],
        syscalls: &[Syscalls::Batch],
    },
    Row {
        workloads: &[TrafficKind::ConnectRequestResponse],
        transports: &[Transport::Tcp, Transport::Unix, Transport::Vsock, Transport::Tls],
        engines: READINESS,
        syscalls: &[Syscalls::ReadWrite],
    },
    // Its records are made in the agent: no other call would move them differently.
    Row {
        workloads: &[TrafficKind::Stream, TrafficKind::RequestResponse],
        transports: &[Transport::Tls],
        engines: READINESS,
        syscalls: &[Syscalls::ReadWrite],
    },
    // Several messages fill its records.
    Row {
        workloads: &[TrafficKind::Stream],
        transports: &[Transport::Tls],
        engines: READINESS,
        syscalls: &[Syscalls::Batch],
    },
    Row {
        workloads: &[TrafficKind::Stream],
        transports: &[Transport::Null],
        engines: READINESS,
        syscalls: &[Syscalls::ReadWrite],
    },
];

pub(super) fn goes_together(load: &Network) -> Result<(), LoadError> {
    // The lists are narrowed key by key, so that the key that is named is the first one that fits no row.
    let mut rows: Vec<&Row> = ROWS.iter().collect();
    narrow(&mut rows, "workload", load.kind(), |row| row.workloads)?;
    narrow(&mut rows, "transport", load.transport, |row| row.transports)?;
    narrow(&mut rows, "engine", load.engine, |row| row.engines)?;
    narrow(&mut rows, "syscalls", load.syscalls, |row| row.syscalls)?;
    match &load.traffic {
        Traffic::Stream(stream) => streams(load, stream)?,
        Traffic::RequestResponse(_) => exchanges(load)?,
        Traffic::ConnectRequestResponse(anew) => {
            let advice = "take it over tls: other connections shake hands once";
            let found = "sessions that are taken up again";
            hold(
                &[(anew.tls_resumption && load.transport != Transport::Tls, "tls_resumption", found, advice)],
                says,
            )?;
        }
    }
    let by_io_uring = load.arrivals.is_some() && load.engine == Engine::IoUring;
    hold(&[(by_io_uring, "arrivals", "arrivals by io_uring", "take threads or epoll")], says)
}

/// Whether this host's kernel has what the load takes.
pub(super) fn has_kernel_for(load: &Network) -> Result<(), LoadError> {
    if load.engine == Engine::IoUring {
        stream_ring::available()
            .map_err(|why| unsupported(why, "engine", "take epoll or threads on this host"))?;
    }
    if load.transport == Transport::Vsock {
        let context = load.address.as_deref().and_then(|address| address.split_once(':')?.0.parse().ok());
        if let Some(why) = vsock::refusal(context.unwrap_or(vsock::THIS_MACHINE)) {
            let advice = "load the kernel's module vsock_loopback on this machine, or take tcp or unix";
            return Err(unsupported(why, "transport", advice));
        }
    }
    Ok(())
}

fn narrow<T: Copy + PartialEq + std::fmt::Debug + 'static>(
    rows: &mut Vec<&Row>,
    key: &str,
    asked: T,
    list: impl Fn(&Row) -> &'static [T],
) -> Result<(), LoadError> {
    let mut allowed: Vec<T> = Vec::new();
    for item in rows.iter().flat_map(|row| list(row)) {
        if !allowed.contains(item) {
            allowed.push(*item);
        }
    }
    if !allowed.contains(&asked) {
        let names: Vec<String> = allowed.iter().map(|item| word(item)).collect();
        let found = says(&word(&asked));
        return Err(unsupported(found, key, &format!("take one of {}", names.join(", "))));
    }
    rows.retain(|row| list(row).contains(&asked));
    Ok(())
}

/// As the wire and the experiment spell it.
fn word(item: &impl std::fmt::Debug) -> String {
    let mut word = String::new();
    for (at, letter) in format!("{item:?}").char_indices() {
        if letter.is_uppercase() && at > 0 {
            word.push('_');
        }
        word.extend(letter.to_lowercase());
    }
    word
}

fn says(found: &str) -> String {
    format!("the load cannot be made with {found} here")
}

fn streams(load: &Network, stream: &Stream) -> Result<(), LoadError> {
    let application = stream.application;
    let (round_robin, bursts) = (load.engine == Engine::RoundRobin, application.burst > 1);
    let both = stream.direction == Direction::Both;
    let joins =
        [Syscalls::ReadWrite, Syscalls::Message, Syscalls::Batch, Syscalls::ZeroCopy, Syscalls::Splice];
    let rules = [
        (
            stream.direction != Direction::Forward && load.transport == Transport::Null,
            "direction",
            &*word(&stream.direction),
            "take forward, or a stream over a network",
        ),
        (
            both && application.is_any(),
            "direction",
            "both and an application that computes, thinks or locks",
            "take forward or reverse, or leave compute, think and serialised away: they are for one way",
        ),
        (
            stream.cork && matches!(load.transport, Transport::Unix | Transport::Vsock | Transport::Tls),
            "cork",
            "corking where nothing is joined",
            "take tcp",
        ),
        (
            stream.cork && load.engine == Engine::IoUring,
            "cork",
            "corking by io_uring",
            "take threads or epoll",
        ),
        (
            stream.cork && !joins.contains(&load.syscalls),
            "cork",
            "corking",
            "take read_write, message, batch, zero_copy or splice",
        ),
        (
            load.syscalls == Syscalls::Batch && (application.is_any() || bursts),
            "syscalls",
            "batches of messages and an application or bursts",
            "take read_write, or leave compute, think, serialised and burst away: they are for one message",
        ),
        (
            stream.discards && load.transport != Transport::Tcp,
            "discards",
            "discarding what comes",
            "leave it away, or take tcp: elsewhere the kernel drops nothing uncopied",
        ),
        (
            load.socket.receive_low_water_bytes.is_some() && load.transport != Transport::Tcp,
            "socket.receive_low_water_bytes",
            "a low-water mark",
            "leave it away, or take tcp",
        ),
        (
            round_robin && both,
            "direction",
            "payload both ways by round robin",
            "take threads or epoll: a writer that waits does not read",
        ),
        (
            round_robin && load.message_sizes.is_some(),
            "message_sizes",
            "turns that have unlike sizes at the two ends",
            "take one size, or threads or epoll",
        ),
        (
            round_robin && (stream.cork || stream.discards),
            "engine",
            "corking or discarding by round robin",
            "leave cork and `receive: discard` away, or take threads or epoll",
        ),
        (
            round_robin && (load.arrivals.is_some() || bursts || application.is_any()),
            "engine",
            "arrivals, bursts, pauses or locks by round robin",
            "take threads or epoll: who waits for one connection is late for the others",
        ),
        (
            both && (load.arrivals.is_some() || bursts),
            "arrivals",
            "arrivals or bursts, with payload both ways",
            "take a closed loop",
        ),
    ];
    hold(&rules, says)
}

fn exchanges(load: &Network) -> Result<(), LoadError> {
    let Traffic::RequestResponse(exchange) = &load.traffic else { return Ok(()) };
    let (application, by_io_uring) = (exchange.application, load.engine == Engine::IoUring);
    // While it blocks in a send it does not read, and the other end, which it waits for, blocks, too.
    let blocks = load.role == Role::Send && load.engine == Engine::Threads;
    let (multiplexed, pipelined) = (exchange.multiplexed, exchange.queue_depth > 1);
    let under_way = format!("{} requests in flight on a connection", exchange.queue_depth);
    let with = |more| format!("{under_way} {more}");
    let (ringed, blocked) = (with("by io_uring"), with("and blocking threads"));
    let (arriving, pausing) = (with("and arrivals"), with("and pauses or locks"));
    let rules = [
        (
            load.socket.receive_low_water_bytes.is_some(),
            "socket.receive_low_water_bytes",
            "a low-water mark",
            "leave it away, or take a stream over tcp; a reader of requests must not wait for more",
        ),
        (
            exchange.busy_wait && load.engine != Engine::Epoll,
            "busy_wait",
            "looking again and again",
            "take engine epoll: blocking calls and io_uring sleep in the kernel",
        ),
        (
            multiplexed && (by_io_uring || blocks),
            "multiplexed",
            "identifiers by an engine that does not wait for either way",
            "take engine epoll",
        ),
        (
            multiplexed && (!SOCKETS.contains(&load.transport) || load.syscalls != Syscalls::ReadWrite),
            "multiplexed",
            "identifiers in bytes that are forgotten",
            "take read_write over tcp, unix or vsock",
        ),
        (
            multiplexed && (load.arrivals.is_some() || application.burst > 1),
            "multiplexed",
            "identifiers and arrivals",
            "take a closed loop",
        ),
        (
            multiplexed && application.is_any(),
            "multiplexed",
            "identifiers and pauses or locks",
            "take more connections",
        ),
        (pipelined && by_io_uring, "queue_depth", &*ringed, "take epoll"),
        (pipelined && blocks, "queue_depth", &*blocked, "take engine epoll"),
        (pipelined && load.arrivals.is_some(), "queue_depth", &*arriving, "take more connections"),
        (pipelined && application.is_any(), "queue_depth", &*pausing, "take more connections"),
    ];
    hold(&rules, says)
}

#[cfg(test)]
mod tests {
    use iodyno_core::message::ErrorCode;
    use iodyno_core::network::Application;
    use iodyno_core::units::Nanos;

    use super::{goes_together as supports, *};

    #[test]
    fn the_key_that_is_named_is_the_one_to_change() {
        let place = |load: &Network| supports(load).unwrap_err().place;
        let load = Network::default();
        assert_eq!(supports(&load), Ok(()));
        let anew = Network { traffic: TrafficKind::ConnectRequestResponse.into(), ..load.clone() };
        assert_eq!(place(&Network { transport: Transport::Null, ..anew }), "transport");
        let asking = TrafficKind::RequestResponse.into();
        let files = Network { traffic: asking, syscalls: Syscalls::Sendfile, ..load.clone() };
        let refused = supports(&files).unwrap_err();
        assert_eq!((refused.place.as_str(), refused.code), ("syscalls", ErrorCode::Unsupported));
        assert!(refused.what.contains("sendfile") && refused.advice.contains("read_write"), "{refused}");
        let round_robin = Network { engine: Engine::RoundRobin, ..load.clone() };
        assert_eq!(supports(&round_robin), Ok(()));
        let both = Stream { direction: Direction::Both, ..Stream::default() };
        let traffic = Traffic::Stream(both.clone());
        assert_eq!(place(&Network { traffic, ..round_robin.clone() }), "direction");
        let traffic = TrafficKind::RequestResponse.into();
        assert_eq!(place(&Network { traffic, ..round_robin }), "engine");
        let application = Application { compute_ns: Nanos(1), ..Application::default() };
        let traffic = Traffic::Stream(Stream { application, ..both });
        assert_eq!(place(&Network { traffic, ..load }), "direction");
    }
}
