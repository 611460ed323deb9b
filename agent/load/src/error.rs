//! Why a load cannot be made.

use std::io;

use iodyno_core::limits::JobError;
use iodyno_core::message::ErrorCode;

/// What is wrong, where, and what to try.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}; {advice}")]
pub struct LoadError {
    /// Which kind.
    pub code: ErrorCode,
    /// What is wrong.
    pub what: String,
    /// Where: a key of the job, an address.
    pub place: String,
    /// What to try.
    pub advice: String,
}

impl LoadError {
    pub(crate) fn new(
        code: ErrorCode,
        what: impl Into<String>,
        place: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        LoadError { code, what: what.into(), place: place.into(), advice: advice.into() }
    }

    pub(crate) fn cancelled() -> Self {
        LoadError::new(ErrorCode::Transport, "the job was cancelled", "job", "prepare it again")
    }

    /// What the kernel refused while `doing` something at `place`.
    pub(crate) fn refused(error: &io::Error, doing: &str, place: &str) -> Self {
        let (code, advice) = reading_of(error);
        LoadError::new(code, format!("cannot {doing}: {error}"), place, advice)
    }
}

impl From<JobError> for LoadError {
    fn from(error: JobError) -> Self {
        LoadError::new(
            ErrorCode::Job,
            format!("invalid value {}", error.found),
            error.key,
            format!("take {}", error.allowed),
        )
    }
}

/// What an error number of a socket call means for the person who planned the trial.
fn reading_of(error: &io::Error) -> (ErrorCode, &'static str) {
    use iodyno_sys::errno;
    match error.raw_os_error().unwrap_or(0) {
        errno::EADDRINUSE => (ErrorCode::Address, "choose another port, or 0 to let the kernel choose one"),
        errno::EADDRNOTAVAIL => (ErrorCode::Address, "name an address that this host has (ip address)"),
        errno::EACCES | errno::EPERM => {
            (ErrorCode::Address, "use a port above 1023 and look at the firewall of this host")
        }
        errno::ECONNREFUSED => (ErrorCode::Address, "start the receiver first and look at its port"),
        errno::EHOSTUNREACH | errno::ENETUNREACH | errno::ENETDOWN => {
            (ErrorCode::Address, "look at the routes and links of both hosts (ip route get)")
        }
        errno::ECONNRESET | errno::EPIPE => {
            (ErrorCode::Address, "see whether another program listens there, and what the receiver reported")
        }
        errno::ETIMEDOUT => (ErrorCode::ConnectTimeout, "look for a firewall that drops packets on the way"),
        errno::EAFNOSUPPORT => {
            (ErrorCode::Address, "this kernel lacks the address family; use the other one")
        }
        errno::EMFILE => (ErrorCode::Limit, "raise the hard limit of open files (ulimit -Hn)"),
        errno::ENFILE => (ErrorCode::Limit, "raise fs.file-max"),
        errno::ENOBUFS | errno::ENOMEM => (ErrorCode::Limit, "use fewer connections or smaller buffers"),
        errno::EMSGSIZE => {
            (ErrorCode::Job, "send shorter messages, or give sockets larger send buffers (wndsz)")
        }
        errno::ENOSPC => (ErrorCode::Limit, "raise fs.epoll.max_user_watches"),
        errno::EAGAIN => (
            ErrorCode::Limit,
            "raise the limit of threads (ulimit -u, kernel.threads-max, kernel.pid_max, vm.max_map_count, \
             pids.max of the control group) or use the epoll engine",
        ),
        _ => (ErrorCode::Transport, "see the kernel log of this host (dmesg)"),
    }
}
