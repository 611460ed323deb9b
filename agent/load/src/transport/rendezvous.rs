//! The rendezvous of the two ends of a job: by its transport and its `address`.
//!
//! | transport | `address` | meets at |
//! | --- | --- | --- |
//! | tcp, tls | `10.0.0.2:5201` | that address and port |
//! | unix | nothing, or `@` | a name derived from the token, in the abstract namespace: no file, and nothing to tell |
//! | unix | `/folder/name` | that file, which the end that listens makes and removes |
//! | vsock | `1:5201` | context (1: this machine, 2: its host) and port; the end that listens does so for every context |

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use iodyno_core::job::Job;
use iodyno_core::message::ErrorCode;
use iodyno_core::network::{Network, Role, Transport};
use iodyno_sys::endpoint::{self, Endpoint, ANY_CONTEXT};
use iodyno_sys::errno;
use sha2::{Digest, Sha256};

use crate::error::LoadError;
use crate::handshake::{address_of, be_at};

/// chosen: ports of vsock that are tried where the job leaves the choice. The kernel would choose one of 32 bits, and
/// that which is told to the lab has 16.
const VSOCK_PORTS: std::ops::Range<u32> = 20_000..60_000;
const VSOCK_ATTEMPTS: u32 = 64;

/// Where the ends of `job` meet.
///
/// # Errors
/// `Job`: the address is none of its transport.
pub(crate) fn of(job: &Job<Network>) -> Result<Endpoint, LoadError> {
    of_connection(job, 0)
}

/// Where a connection of the sender of `job` meets its receiver.
///
/// # Errors
/// As [`of`].
pub(crate) fn of_connection(job: &Job<Network>, connection: usize) -> Result<Endpoint, LoadError> {
    let given = job.load.address_of(connection);
    let address = given.unwrap_or("@");
    match job.load.transport {
        Transport::Unix if address.starts_with('/') => Ok(Endpoint::File(PathBuf::from(address))),
        Transport::Unix => Ok(Endpoint::Abstract(name(job))),
        Transport::Vsock => {
            let numbers = address
                .split_once(':')
                .and_then(|(context, port)| Some((context.parse::<u32>().ok()?, port.parse::<u32>().ok()?)));
            let Some((context, port)) = numbers else {
                let advice = "give the number of the machine and a port, such as 1:5201";
                return Err(LoadError::new(
                    ErrorCode::Job,
                    format!("invalid value {address}"),
                    "address",
                    advice,
                ));
            };
            let context = if job.load.role == Role::Receive { ANY_CONTEXT } else { context };
            Ok(Endpoint::Vsock { context, port })
        }
        _ => address_of(given).map(Endpoint::Inet),
    }
}

/// Everybody may read the names in `/proc/net/unix`, so that they must not tell the token.
fn name(job: &Job<Network>) -> String {
    let digest = Sha256::new_with_prefix(b"iodyno unix socket ").chain_update(&job.token).finalize();
    let digits: String = digest[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("iodyno-{digits}")
}

/// A socket that listens, and the file that it is, if it is one; both end together.
pub(crate) struct Listening {
    socket: OwnedFd,
    _file: Option<SocketFile>,
}

/// The file of a Unix socket. It stays when the socket is closed.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        let _ = fs::remove_file(&self.0);
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Listening {
    /// The socket alone, of a transport without files.
    pub(crate) fn into_socket(self) -> OwnedFd {
        self.socket
    }
}

/// Gives `socket` its place.
///
/// # Errors
/// What the kernel said.
pub(crate) fn bind(socket: OwnedFd, asked: &Endpoint) -> std::io::Result<(Listening, Endpoint)> {
    if let Endpoint::Vsock { context, port: 0 } = *asked {
        // Multiplicative hashing (Knuth), so that agents that start together begin far apart.
        let first = (std::process::id().wrapping_mul(2_654_435_761)) % VSOCK_PORTS.len() as u32;
        let mut last = std::io::Error::from_raw_os_error(errno::EADDRINUSE);
        for attempt in 0..VSOCK_ATTEMPTS {
            let port = VSOCK_PORTS.start + (first + attempt * 7) % VSOCK_PORTS.len() as u32;
            let place = Endpoint::Vsock { context, port };
            match endpoint::bind(socket.as_fd(), &place) {
                Ok(()) => return Ok((Listening { socket, _file: None }, place)),
                Err(error) => last = error,
            }
        }
        return Err(last);
    }
    match asked {
        Endpoint::Inet(address) => be_at(socket.as_fd(), address)?,
        _ => endpoint::bind(socket.as_fd(), asked)?,
    }
    let place = endpoint::bound(socket.as_fd(), asked)?;
    let file = if let Endpoint::File(path) = asked { Some(SocketFile(path.clone())) } else { None };
    Ok((Listening { socket, _file: file }, place))
}

/// The port of a place that has one.
pub(crate) fn port(place: &Endpoint) -> u16 {
    match place {
        Endpoint::Inet(address) | Endpoint::Sctp(address) => address.port(),
        Endpoint::Vsock { port, .. } => u16::try_from(*port).unwrap_or(0),
        Endpoint::Abstract(_) | Endpoint::File(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(transport: Transport, address: Option<&str>) -> Job<Network> {
        let (address, token) = (address.map(str::to_owned), "0123456789abcdef".repeat(2));
        Job { token, load: Network { transport, address, ..Network::default() }, ..Job::default() }
    }

    #[test]
    fn both_ends_of_a_trial_find_one_name_and_those_of_another_do_not() {
        let near = of(&job(Transport::Unix, None)).unwrap();
        let mut far = job(Transport::Unix, Some("@"));
        far.load.role = Role::Receive;
        let far = of(&far).unwrap();
        assert_eq!(near, far);
        let other = of(&Job { token: "f".repeat(32), ..job(Transport::Unix, None) }).unwrap();
        assert_ne!(near, other);
        let Endpoint::Abstract(name) = near else { panic!("{near:?}") };
        assert!(!name.contains("01234567"), "{name} must not tell the token");
    }

    #[test]
    fn addresses_are_read_by_their_transport() {
        assert_eq!(
            of(&job(Transport::Unix, Some("/run/x"))).unwrap(),
            Endpoint::File(PathBuf::from("/run/x"))
        );
        assert_eq!(
            of(&job(Transport::Vsock, Some("2:77"))).unwrap(),
            Endpoint::Vsock { context: 2, port: 77 }
        );
        assert_eq!(
            of(&job(Transport::Tls, Some("127.0.0.1:5"))).unwrap(),
            Endpoint::Inet("127.0.0.1:5".parse().unwrap())
        );
        for (transport, address) in
            [(Transport::Vsock, None), (Transport::Vsock, Some("x:1")), (Transport::Tcp, None)]
        {
            assert_eq!(of(&job(transport, address)).unwrap_err().code, ErrorCode::Job);
        }
    }
}
