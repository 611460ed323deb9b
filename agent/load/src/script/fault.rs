//! Why an operation was not done, and why a thread goes no further.

use std::io;

use iodyno_core::script::{FlowOp, Protocol};
use iodyno_sys::errno;

/// Why a thread goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// The windows are over, the job was stopped, or the script has failed.
    Over,
    /// The other end makes no iteration that this one would answer to.
    Level,
}

/// What became of an operation that was not done.
#[derive(Debug)]
pub(super) enum Fault {
    Halt(Halt),
    /// It did not end within its timeout.
    Timeout,
    /// The kernel reported an error.
    Os(io::Error),
    /// The peer closed the connection.
    Ended,
    /// There is no connection of that number.
    NotOpen,
    /// A datagram did not come.
    Lost,
    /// The other end has gone on without it.
    Passed,
    /// The time of its transaction ended before it did.
    Cut,
}

pub(super) fn halt_of(fault: Fault) -> Halt {
    match fault {
        Fault::Halt(halt) => halt,
        _ => Halt::Over,
    }
}

impl Fault {
    /// For an error.
    pub(super) fn told(&self, operation: &FlowOp) -> String {
        let connection = operation.connection;
        match self {
            Fault::Halt(_) | Fault::Passed | Fault::Cut => String::new(),
            Fault::Timeout => "it did not end within its timeout".to_owned(),
            Fault::Os(error) => match why(error, operation) {
                Some(why) => format!("connection {connection}: {error}: {why}"),
                None => format!("connection {connection}: {error}"),
            },
            Fault::Ended => format!("connection {connection}: the peer closed it"),
            Fault::NotOpen => format!("connection {connection} is not open"),
            Fault::Lost => "a datagram did not come".to_owned(),
        }
    }
}

/// What the kernel means, where its error alone would not tell.
fn why(error: &io::Error, operation: &FlowOp) -> Option<&'static str> {
    match (operation.protocol, error.raw_os_error()?) {
        (Protocol::Udp, errno::ENOBUFS) => {
            Some("the datagram, in its fragments, is longer than its send buffer (wndsz) has room for")
        }
        (Protocol::Udp, errno::EMSGSIZE) => {
            Some("the datagram is longer than its send buffer (wndsz) or than UDP can carry")
        }
        (Protocol::Sctp, errno::EMSGSIZE) => {
            Some("a message of SCTP goes out whole, and this one is longer than its send buffer (wndsz)")
        }
        (Protocol::Sctp, errno::EINVAL) if operation.call.sends() => {
            Some("the association has no such stream (sctp_stream_id, sctp_out_streams, and sctp_in_streams there)")
        }
        _ => None,
    }
}
