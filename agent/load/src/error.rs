//! What keeps a load from being prepared or carried out.

use std::io;

use iodyno_core::message::ErrorCode;

/// What is wrong, where, and what to try; becomes an `error` on the wire.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct LoadError {
    /// Which kind.
    pub code: ErrorCode,
    /// What is wrong.
    pub what: String,
    /// Where.
    pub place: String,
    /// What to try.
    pub advice: String,
}

impl LoadError {
    pub(crate) fn new(
        code: ErrorCode,
        what: impl Into<String>,
        place: impl Into<String>,
        advice: &str,
    ) -> Self {
        LoadError { code, what: what.into(), place: place.into(), advice: advice.to_owned() }
    }

    pub(crate) fn cancelled() -> Self {
        LoadError::new(ErrorCode::Transport, "the job was dropped", "job", "")
    }

    /// An error of the kernel while connections are brought up at `place`.
    pub(crate) fn from_kernel(error: &io::Error, doing: &str, place: &str) -> Self {
        use io::ErrorKind as K;
        let (code, advice) = match (error.kind(), error.raw_os_error().unwrap_or(0)) {
            (_, EMFILE | ENFILE) => {
                (ErrorCode::Limit, "raise the limit of open files (ulimit -n), or use fewer connections")
            }
            (_, ENOBUFS | ENOMEM) => (ErrorCode::Limit, "free memory, or use fewer connections"),
            (K::AddrInUse, _) => (ErrorCode::Address, "name another data_port, or none"),
            (K::AddrNotAvailable, _) if doing == "connect" => {
                (ErrorCode::Limit, "widen net.ipv4.ip_local_port_range, or use fewer connections")
            }
            (K::AddrNotAvailable, _) => (ErrorCode::Address, "name an address of this host"),
            (K::ConnectionRefused, _) => {
                (ErrorCode::Address, "look for a firewall between the hosts, and whether the receiver is up")
            }
            (K::PermissionDenied, _) => (ErrorCode::Address, "name a data_port above 1023"),
            _ => (ErrorCode::Address, "look at address and route of both hosts (ip route get)"),
        };
        LoadError::new(code, format!("cannot {doing}: {error}"), place, advice)
    }
}

// Numbers of Linux that std has no kind for; the same on every architecture that the agent runs on.
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOBUFS: i32 = 105;
