//! How the two ends of a job find each other: every connection shows the trial's token before it counts.
//!
//! | bytes | preamble, from the sender |
//! | --- | --- |
//! | 0..8 | `iodynold` |
//! | 8..12 | version of the handshake, little-endian |
//! | 12..28 | token |
//! | 28..32 | number of the connection at the receiver, little-endian |
//!
//! The receiver answers one byte, [`ACKNOWLEDGED`], or closes.

pub(crate) use options::ask as ask_again;

mod accept;
pub(crate) mod datagram;
mod dial;
mod listener;
pub(crate) mod options;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};

use iodyno_core::job::Job;
use iodyno_core::message::ErrorCode;
use iodyno_core::network::{Engine, Network, Role, SocketOptionsObtained, Transport};
use iodyno_core::units::Nanos;
use iodyno_sys::{clock, errno, limits, socket};

use crate::cancel::Cancel;
use crate::connections::Connections;
use crate::error::LoadError;
use crate::prepared::Prepared;
use crate::transport::calls::Calls;
use crate::transport::tls::{self, Session};
pub use listener::Listener;

const MAGIC: [u8; 8] = *b"iodynold";
const VERSION: u32 = 1;
pub(crate) const PREAMBLE_BYTES: usize = 32;
const ACKNOWLEDGED: u8 = 0x06;

/// How long one wait for the network lasts, so that a cancelled job is noticed.
const LOOK: Nanos = Nanos(20_000_000);
/// Files that the agent has open besides the data connections: sensors, epoll instances, stdio, and foreign
/// connections that have not been turned away yet.
const OTHER_DESCRIPTORS: u64 = 2048;

/// Listens as the receiver of `job`.
///
/// # Errors
/// `Job` for a job that is not allowed or not a receiver's, `Address` for an address that cannot be listened
/// on, `Limit` for too few descriptors.
pub fn listen(job: &Job<Network>, cancel: &Cancel) -> Result<Listener, LoadError> {
    job.load.check()?;
    crate::supported::supports(&job.load)?;
    if job.load.role != Role::Receive || job.load.transport == Transport::Null {
        return Err(wrong_role("a receiver"));
    }
    make_room(job)?;
    Listener::open(job, cancel)
}

/// Connects as the sender of `job`, proves every connection and parks the threads.
///
/// # Errors
/// `Job`, `Address`, `Limit`, `ConnectTimeout`; `Transport` when it was cancelled.
pub fn connect(job: &Job<Network>, cancel: &Cancel) -> Result<Prepared, LoadError> {
    job.load.check()?;
    crate::supported::supports(&job.load)?;
    if job.load.role != Role::Send {
        return Err(wrong_role("a sender"));
    }
    if job.load.transport == Transport::Null {
        let none = Connections::new(job, Vec::new(), Vec::new(), None, cancel)?;
        return Prepared::new(none, SocketOptionsObtained::default(), 0);
    }
    make_room(job)?;
    let (sockets, obtained) =
        if job.load.transport.is_datagram() { datagram::all(job, cancel)? } else { dial::all(job, cancel)? };
    // Of connections that come anew with each request, these have only shown that both ends find each other.
    let sockets = if job.load.connects_anew() { Vec::new() } else { sockets };
    let sessions = sessions(job, &sockets, cancel)?;
    Prepared::new(Connections::new(job, sockets, sessions, None, cancel)?, obtained, 0)
}

/// What the connections of a job over TLS need.
fn sessions(job: &Job<Network>, sockets: &[OwnedFd], cancel: &Cancel) -> Result<Vec<Session>, LoadError> {
    if job.load.transport != Transport::Tls {
        return Ok(Vec::new());
    }
    let until = clock::monotonic().plus(time_for_all(job.load.connections));
    tls::establish(job, sockets, blocking(job.load.engine), until, cancel)
}

fn wrong_role(wanted: &str) -> LoadError {
    LoadError::new(ErrorCode::Job, format!("this job is not that of {wanted}"), "role", "use the other call")
}

pub(crate) fn address_of(address: Option<&str>) -> Result<SocketAddr, LoadError> {
    let address = address.unwrap_or("nothing");
    address.parse().map_err(|_| {
        LoadError::new(
            ErrorCode::Job,
            format!("invalid value {address}"),
            "address",
            "give a numeric address with port",
        )
    })
}

/// Has connection number `index` come from its share of the job's local addresses.
pub(crate) fn come_from(socket: BorrowedFd<'_>, job: &Job<Network>, index: usize) -> std::io::Result<()> {
    let addresses = &job.load.local_addresses;
    let Some(address) = (!addresses.is_empty()).then(|| &addresses[index % addresses.len()]) else {
        return Ok(());
    };
    // Checked with the job.
    address.parse().map_or(Ok(()), |address| socket::bind_without_port(socket, address))
}

/// Gives a socket that is to be reached its own address, and no other; every one of this host, where it has not got that one: the
/// others then reach it through a translation of addresses.
pub(crate) fn be_at(socket: BorrowedFd<'_>, address: &SocketAddr) -> std::io::Result<()> {
    match socket::bind(socket, address) {
        Err(error) if error.raw_os_error() == Some(errno::EADDRNOTAVAIL) => {
            let any =
                if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            socket::bind(socket, &SocketAddr::new(any, address.port()))
        }
        bound => bound,
    }
}

/// Raises the limit of open files to what the job needs.
fn make_room(job: &Job<Network>) -> Result<(), LoadError> {
    let connections = u64::from(job.load.connections) * (1 + Calls::descriptors(job.load.syscalls));
    let needed = connections + OTHER_DESCRIPTORS;
    let limit = limits::raise_descriptors(needed);
    // A host that is a little short of the reserve may do; one that lacks the connections themselves cannot.
    if limit < connections + 64 {
        return Err(LoadError::new(
            ErrorCode::Limit,
            format!(
                "{} connections need {connections} open files, and this process may have {limit}",
                job.load.connections
            ),
            "connections",
            limits::advice(needed),
        ));
    }
    Ok(())
}

/// How long all connections together may take: chosen 10 s, and 1 ms for each.
fn time_for_all(connections: u32) -> Nanos {
    Nanos::SECOND.plus(Nanos(9_000_000_000 + u64::from(connections) * 1_000_000))
}

/// Calls that wait: for the engines that block, and for `io_uring`, which gives up otherwise instead of waiting itself.
fn blocking(engine: Engine) -> bool {
    matches!(engine, Engine::Threads | Engine::RoundRobin | Engine::IoUring)
}

pub(crate) fn preamble(token: [u8; 16], connection: u32) -> [u8; PREAMBLE_BYTES] {
    let mut bytes = [0; PREAMBLE_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..28].copy_from_slice(&token);
    bytes[28..].copy_from_slice(&connection.to_le_bytes());
    bytes
}

/// The index of the connection, when the preamble is right in everything else.
pub(crate) fn index_in(bytes: [u8; PREAMBLE_BYTES], token: [u8; 16]) -> Option<u32> {
    let index = u32::from_le_bytes([bytes[28], bytes[29], bytes[30], bytes[31]]);
    (bytes == preamble(token, index)).then_some(index)
}

fn too_few(up: usize, connections: u32, address: &dyn Display, advice: &str) -> LoadError {
    let seconds = time_for_all(connections).0 as f64 / 1e9;
    LoadError::new(
        ErrorCode::ConnectTimeout,
        format!("{up} of {connections} connections came up within {seconds:.1} s"),
        address.to_string(),
        advice,
    )
}
