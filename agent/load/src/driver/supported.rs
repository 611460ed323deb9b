//! Which loads can be made: one row for each group of combinations.

use iodyno_core::job::{Direction, Driver, Interface, Job, Role, Transport, Workload};
use iodyno_core::message::ErrorCode;

use iodyno_sys::{stream_ring, vsock};

use crate::error::LoadError;
use crate::workload::script;

/// Combinations that one way of making load covers: every one of each list with every one of the others.
struct Row {
    workloads: &'static [Workload],
    transports: &'static [Transport],
    drivers: &'static [Driver],
    interfaces: &'static [Interface],
}

/// Connections that are sockets and carry bytes as they are.
const SOCKETS: &[Transport] = &[Transport::Tcp, Transport::Unix, Transport::Vsock];
const READINESS: &[Driver] = &[Driver::Threads, Driver::Epoll];

/// Everything that can be made.
const ROWS: &[Row] = &[
    Row {
        workloads: &[Workload::Stream],
        transports: &[Transport::Tcp],
        drivers: READINESS,
        interfaces: &[
            Interface::ReadWrite,
            Interface::Message,
            Interface::Batch,
            Interface::ZeroCopy,
            Interface::Sendfile,
            Interface::Splice,
        ],
    },
    // The kernel has no sends without a copy on these.
    Row {
        workloads: &[Workload::Stream],
        transports: &[Transport::Unix],
        drivers: READINESS,
        interfaces: &[
            Interface::ReadWrite,
            Interface::Message,
            Interface::Batch,
            Interface::Sendfile,
            Interface::Splice,
        ],
    },
    Row {
        workloads: &[Workload::Stream],
        transports: &[Transport::Vsock],
        drivers: READINESS,
        interfaces: &[Interface::ReadWrite, Interface::Message, Interface::Batch],
    },
    Row {
        workloads: &[Workload::RequestResponse],
        transports: SOCKETS,
        drivers: READINESS,
        interfaces: &[Interface::ReadWrite, Interface::Message],
    },
    Row {
        workloads: &[Workload::Stream],
        transports: SOCKETS,
        drivers: &[Driver::RoundRobin],
        interfaces: &[Interface::ReadWrite],
    },
    Row {
        workloads: &[Workload::Stream, Workload::RequestResponse],
        transports: &[Transport::Tcp],
        drivers: &[Driver::IoUring],
        interfaces: &[Interface::ReadWrite, Interface::ZeroCopy],
    },
    Row {
        workloads: &[Workload::Stream, Workload::RequestResponse],
        transports: &[Transport::Unix, Transport::Vsock],
        drivers: &[Driver::IoUring],
        interfaces: &[Interface::ReadWrite],
    },
    Row {
        workloads: &[Workload::Stream],
        transports: SOCKETS,
        drivers: &[Driver::IoUring],
        interfaces: &[Interface::Batch],
    },
    Row {
        workloads: &[Workload::ConnectRequestResponse],
        transports: &[Transport::Tcp, Transport::Unix, Transport::Vsock, Transport::Tls],
        drivers: READINESS,
        interfaces: &[Interface::ReadWrite],
    },
    // Its records are made in the agent: no other call would move them differently.
    Row {
        workloads: &[Workload::Stream, Workload::RequestResponse],
        transports: &[Transport::Tls],
        drivers: READINESS,
        interfaces: &[Interface::ReadWrite],
    },
    // Several messages fill its records.
    Row {
        workloads: &[Workload::Stream],
        transports: &[Transport::Tls],
        drivers: READINESS,
        interfaces: &[Interface::Batch],
    },
    Row {
        workloads: &[Workload::Stream],
        transports: &[Transport::Null],
        drivers: READINESS,
        interfaces: &[Interface::ReadWrite],
    },
];

/// Whether `job` is one of those that [`super::work`] carries out; otherwise it says what is missing, and what to
/// take.
///
/// # Errors
/// `Unsupported`.
pub fn supports(job: &Job) -> Result<(), LoadError> {
    if matches!(job.role, Role::Idle | Role::Alone) {
        return Ok(());
    }
    if let Some(script) = &job.script {
        return script::supports(job, script);
    }
    if job.transport.is_datagram() && job.workload != Workload::ConnectRequestResponse {
        return crate::datagram::supports(job);
    }
    // The lists are narrowed key by key, so that the key that is named is the first one that fits no row.
    let mut rows: Vec<&Row> = ROWS.iter().collect();
    narrow(&mut rows, "workload", job.workload, |row| row.workloads)?;
    narrow(&mut rows, "transport", job.transport, |row| row.transports)?;
    narrow(&mut rows, "driver", job.driver, |row| row.drivers)?;
    narrow(&mut rows, "interface", job.interface, |row| row.interfaces)?;
    if job.driver == Driver::IoUring {
        stream_ring::available().map_err(|why| {
            LoadError::new(ErrorCode::Unsupported, why, "driver", "take epoll or threads on this host")
        })?;
    }
    if job.transport == Transport::Vsock {
        let context = job.address.as_deref().and_then(|address| address.split_once(':')?.0.parse().ok());
        if let Some(why) = vsock::refusal(context.unwrap_or(vsock::THIS_MACHINE)) {
            let advice = "load the kernel's module vsock_loopback on this machine, or take tcp or unix";
            return Err(LoadError::new(ErrorCode::Unsupported, why, "transport", advice));
        }
    }
    fits_together(job)
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
        return Err(refusal(key, &word(&asked), &format!("take one of {}", names.join(", "))));
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

fn refusal(key: &str, found: &str, advice: &str) -> LoadError {
    let what = format!("the load cannot be made with {found} here");
    LoadError::new(ErrorCode::Unsupported, what, key, advice)
}

/// What the rows do not say: options that go with some combinations only.
fn fits_together(job: &Job) -> Result<(), LoadError> {
    let stream = job.workload == Workload::Stream;
    if job.direction != Direction::Forward && (!stream || job.transport == Transport::Null) {
        return Err(refusal("direction", &word(&job.direction), "take forward, or a stream over a network"));
    }
    if job.direction == Direction::Both && job.plays_application() {
        let advice =
            "take forward or reverse, or leave compute, think and serialised away: they are for one way";
        return Err(refusal("direction", "both and an application that computes, thinks or locks", advice));
    }
    if job.connects_anew() && job.plays_application() {
        let advice = "leave compute, think and serialised away";
        return Err(refusal("workload", "an application around connections that come and go", advice));
    }
    if job.tls_resumption && !(job.connects_anew() && job.transport == Transport::Tls) {
        let advice = "take connect_request_response over tls: other connections shake hands once";
        return Err(refusal("tls_resumption", "sessions that are taken up again", advice));
    }
    if job.cork && matches!(job.transport, Transport::Unix | Transport::Vsock | Transport::Tls) {
        return Err(refusal("cork", "corking where nothing is joined", "take tcp"));
    }
    if job.cork && job.driver == Driver::IoUring {
        return Err(refusal("cork", "corking by io_uring", "take threads or epoll"));
    }
    if job.cork
        && !(stream
            && matches!(
                job.interface,
                Interface::ReadWrite
                    | Interface::Message
                    | Interface::Batch
                    | Interface::ZeroCopy
                    | Interface::Splice
            ))
    {
        let advice =
            "cork a stream by read_write, message, batch, zero_copy or splice; the end of a request must not wait";
        return Err(refusal("cork", "corking", advice));
    }
    if stream && job.interface == Interface::Batch && (job.plays_application() || job.burst > 1) {
        let advice =
            "take read_write, or leave compute, think, serialised and burst away: they are for one message";
        return Err(refusal("interface", "batches of messages and an application or bursts", advice));
    }
    if job.discards && !(stream && job.transport == Transport::Tcp) {
        let advice = "leave it away, or take a stream over tcp: elsewhere the kernel drops nothing uncopied";
        return Err(refusal("discards", "discarding what comes", advice));
    }
    if job.socket.receive_low_water_bytes.is_some() && !(stream && job.transport == Transport::Tcp) {
        let advice = "leave it away, or take a stream over tcp; a reader of requests must not wait for more";
        return Err(refusal("socket.receive_low_water_bytes", "a low-water mark", advice));
    }
    if job.spins && (job.driver != Driver::Epoll || job.workload != Workload::RequestResponse) {
        let advice =
            "take request_response with driver epoll: blocking calls and io_uring sleep in the kernel";
        return Err(refusal("spins", "looking again and again", advice));
    }
    if job.multiplexed {
        let refuse = |found, advice| Err(refusal("multiplexed", found, advice));
        if job.workload != Workload::RequestResponse {
            return refuse("identifiers of requests", "take request_response");
        }
        if job.driver == Driver::IoUring || job.role == Role::Send && job.driver == Driver::Threads {
            return refuse("identifiers by a driver that does not wait for either way", "take driver epoll");
        }
        if !SOCKETS.contains(&job.transport) || job.interface != Interface::ReadWrite {
            return refuse(
                "identifiers in bytes that are forgotten",
                "take read_write over tcp, unix or vsock",
            );
        }
        if job.arrivals.is_some() || job.burst > 1 {
            return refuse("identifiers and arrivals", "take a closed loop");
        }
        if job.plays_application() {
            return refuse("identifiers and pauses or locks", "take more connections");
        }
    }
    if job.driver == Driver::RoundRobin {
        let refuse = |key, found, advice| Err(refusal(key, found, advice));
        if job.direction == Direction::Both {
            let advice = "take threads or epoll: a writer that waits does not read";
            return refuse("direction", "payload both ways by round robin", advice);
        }
        if job.message_sizes.is_some() {
            let advice = "take one size, or threads or epoll";
            return refuse("message_sizes", "turns that have unlike sizes at the two ends", advice);
        }
        if job.cork || job.discards {
            let advice = "leave cork and `receive: discard` away, or take threads or epoll";
            return refuse("driver", "corking or discarding by round robin", advice);
        }
        if job.arrivals.is_some() || job.burst > 1 || job.plays_application() {
            let advice = "take threads or epoll: who waits for one connection is late for the others";
            return refuse("driver", "arrivals, bursts, pauses or locks by round robin", advice);
        }
    }
    if job.outstanding > 1 {
        let found = format!("{} requests under way on a connection", job.outstanding);
        let refuse = |more: &str, advice| Err(refusal("outstanding", &format!("{found}{more}"), advice));
        if job.workload != Workload::RequestResponse {
            return refuse("", "take request_response");
        }
        if job.driver == Driver::IoUring {
            return refuse(" by io_uring", "take epoll");
        }
        if job.role == Role::Send && job.driver == Driver::Threads {
            // While it blocks in a send it does not read, and the other end, which it waits for, blocks, too.
            return refuse(" and blocking threads", "take driver epoll");
        }
        if job.arrivals.is_some() {
            return refuse(" and arrivals", "take more connections");
        }
        if job.plays_application() {
            return refuse(" and pauses or locks", "take more connections");
        }
    }
    if job.arrivals.is_some() && job.driver == Driver::IoUring {
        return Err(refusal("arrivals", "arrivals by io_uring", "take threads or epoll"));
    }
    if job.burst > 1 && job.connects_anew() {
        let found = "bursts of operations that each have a connection of their own";
        return Err(refusal("burst", found, "leave burst away, or take request_response"));
    }
    if (job.arrivals.is_some() || job.burst > 1) && job.direction == Direction::Both {
        let found = "arrivals or bursts, with payload both ways";
        return Err(refusal("arrivals", found, "take a closed loop"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_that_is_named_is_the_one_to_change() {
        let job = Job { role: Role::Send, ..Job::default() };
        assert_eq!(supports(&job), Ok(()));
        let anew = Job { workload: Workload::ConnectRequestResponse, ..job.clone() };
        let nowhere = Job { transport: Transport::Null, ..anew };
        assert_eq!(supports(&nowhere).unwrap_err().place, "transport");
        let files =
            Job { workload: Workload::RequestResponse, interface: Interface::Sendfile, ..job.clone() };
        let refused = supports(&files).unwrap_err();
        assert_eq!((refused.place.as_str(), refused.code), ("interface", ErrorCode::Unsupported));
        assert!(refused.what.contains("sendfile") && refused.advice.contains("read_write"), "{refused}");
        let round_robin = Job { driver: Driver::RoundRobin, ..job.clone() };
        assert_eq!(supports(&round_robin), Ok(()));
        let ways = Job { direction: Direction::Both, ..round_robin.clone() };
        assert_eq!(supports(&ways).unwrap_err().place, "direction");
        let asking = Job { workload: Workload::RequestResponse, ..round_robin };
        assert_eq!(supports(&asking).unwrap_err().place, "driver");
        let both = Job { direction: Direction::Both, compute_ns: iodyno_core::units::Nanos(1), ..job };
        assert_eq!(supports(&both).unwrap_err().place, "direction");
    }
}
