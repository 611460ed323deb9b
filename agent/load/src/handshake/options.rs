//! Socket options: ask, read back, record.

use std::os::fd::BorrowedFd;

use iodyno_core::job::Job;
use iodyno_core::message::ErrorCode;
use iodyno_core::network::{Network, SocketNumber, SocketOptions, SocketOptionsObtained, TrafficKind};
use iodyno_core::units::{Bytes, Nanos};
use iodyno_sys::errno;
use iodyno_sys::socket::{self, Setting};
use iodyno_sys::socket_number;

use crate::error::LoadError;

/// Asks for the options of a job. Must come before connect and listen, so that the window scale fits.
pub(crate) fn ask(socket: BorrowedFd<'_>, options: &SocketOptions) -> Result<(), LoadError> {
    ask_any(socket, options)?;
    if let Some(nagle) = options.nagle {
        socket::set(socket, Setting::NoDelay, i32::from(!nagle))
            .map_err(|error| LoadError::refused(&error, "set it", "socket.nagle"))?;
    }
    let Some(name) = &options.congestion_control else { return Ok(()) };
    socket::set_congestion_control(socket, name).map_err(|error| {
        let list = if error.raw_os_error() == Some(errno::EPERM) { "allowed" } else { "available" };
        let path = format!("/proc/sys/net/ipv4/tcp_{list}_congestion_control");
        let names = std::fs::read_to_string(path).unwrap_or_default();
        LoadError::new(
            ErrorCode::Job,
            format!("the kernel refuses the congestion control {name:?}: {error}"),
            "socket.congestion_control",
            format!("{list} are: {}", names.trim()),
        )
    })
}

/// Asks for the options that sockets of every kind have.
pub(crate) fn ask_any(socket: BorrowedFd<'_>, options: &SocketOptions) -> Result<(), LoadError> {
    let integers = [
        (Setting::SendBuffer, options.send_buffer_bytes.map(clamped), "socket.send_buffer_bytes"),
        (Setting::ReceiveBuffer, options.receive_buffer_bytes.map(clamped), "socket.receive_buffer_bytes"),
    ];
    for (setting, value, key) in integers {
        if let Some(value) = value {
            socket::set(socket, setting, value)
                .map_err(|error| LoadError::refused(&error, &format!("set it to {value}"), key))?;
        }
    }
    for (&number, &value) in &options.numbers {
        if number != SocketNumber::QuickAck {
            ask_number(socket, number, value)?;
        }
    }
    let Some(time) = options.busy_poll_ns else { return Ok(()) };
    // The kernel counts microseconds.
    let microseconds = i32::try_from(time.0.div_ceil(1000)).unwrap_or(i32::MAX);
    socket::set(socket, Setting::BusyPoll, microseconds).map_err(|error| {
        LoadError::new(
            ErrorCode::Unsupported,
            format!("the kernel refuses SO_BUSY_POLL of {microseconds} us: {error}"),
            "socket.busy_poll_ns",
            "give the agent CAP_NET_ADMIN, or leave busy_poll out",
        )
    })
}

/// Asks for what must wait until the connection has done its handshake, and undoes what that left.
pub(super) fn ask_last(socket: BorrowedFd<'_>, job: &Job<Network>) -> Result<(), LoadError> {
    // The answer to the preamble makes the kernel take the connection for a dialogue, whose acknowledgements wait for an
    // answer to travel with. A stream has none: by Nagle's rule, its sender would hold back the end of each message until the
    // next one arrives. Kernels and sockets that have no such word have no such rule.
    if job.load.kind() == TrafficKind::Stream {
        let _ = socket::set(socket, Setting::QuickAck, 1);
    }
    // What a connection does not have from its listener.
    for number in [SocketNumber::QuickAck, SocketNumber::Priority] {
        if let Some(&value) = job.load.socket.numbers.get(&number) {
            ask_number(socket, number, value)?;
        }
    }
    // A mark above the handshake's short messages would keep them from being read.
    let Some(bytes) = job.load.socket.receive_low_water_bytes else { return Ok(()) };
    socket::set(socket, Setting::ReceiveLowWater, clamped(bytes)).map_err(|error| {
        LoadError::refused(&error, &format!("set it to {}", bytes.0), "socket.receive_low_water_bytes")
    })
}

/// Asks for an option that is one number.
fn ask_number(socket: BorrowedFd<'_>, number: SocketNumber, value: i64) -> Result<(), LoadError> {
    socket_number::set(socket, number, value).map_err(|error| {
        let key = format!("socket.numbers.{}", number.name());
        LoadError::refused(&error, &format!("set it to {value}"), &key)
    })
}

/// The kernel takes no more than an `int` and caps it further by itself, which the read-back shows.
fn clamped(bytes: Bytes) -> i32 {
    i32::try_from(bytes.0).unwrap_or(i32::MAX)
}

/// Options read back from connections, one after the other.
pub(super) struct ReadBack {
    first: Option<SocketOptionsObtained>,
    /// Those that were asked for and stay as they are.
    numbers: Vec<SocketNumber>,
}

impl ReadBack {
    /// To read back what a job asks for, and what every connection has.
    pub(super) fn of(options: &SocketOptions) -> Self {
        let kept = |number: &SocketNumber| *number != SocketNumber::QuickAck;
        ReadBack { first: None, numbers: options.numbers.keys().copied().filter(kept).collect() }
    }

    /// Reads those of one connection. What cannot be read is absent.
    pub(super) fn add(&mut self, socket: BorrowedFd<'_>) {
        let bytes = |setting| {
            socket::get(socket, setting).ok().and_then(|value| u64::try_from(value).ok()).map(Bytes)
        };
        let found = SocketOptionsObtained {
            send_buffer_bytes: bytes(Setting::SendBuffer),
            receive_buffer_bytes: bytes(Setting::ReceiveBuffer),
            nagle: socket::get(socket, Setting::NoDelay).ok().map(|no_delay| no_delay == 0),
            congestion_control: socket::congestion_control(socket).ok(),
            busy_poll_ns: socket::get(socket, Setting::BusyPoll)
                .ok()
                .and_then(|value| u64::try_from(value).ok())
                .map(|microseconds| Nanos(microseconds * 1000)),
            receive_low_water_bytes: bytes(Setting::ReceiveLowWater),
            numbers: self
                .numbers
                .iter()
                .filter_map(|&number| Some((number, socket_number::get(socket, number).ok()?)))
                .collect(),
            segment_bytes: bytes(Setting::Segment),
            differing: 0,
        };
        match &mut self.first {
            None => self.first = Some(found),
            Some(first) => {
                let differs = SocketOptionsObtained { differing: first.differing, ..found } != *first;
                first.differing += u32::from(differs);
            }
        }
    }

    pub(super) fn finish(self) -> SocketOptionsObtained {
        self.first.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_stream_is_not_left_as_a_dialogue() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let mut shown = [0; 32];
        near.write_all(&shown).unwrap();
        far.read_exact(&mut shown).unwrap();
        far.write_all(&[6]).unwrap();
        // Linux 6.x takes it for a dialogue now; an older one after some more answers.
        let of = |kind: TrafficKind| Job {
            load: Network { traffic: kind.into(), ..Network::default() },
            ..Job::default()
        };
        let before = socket::get(far.as_fd(), Setting::QuickAck).unwrap();
        ask_last(far.as_fd(), &of(TrafficKind::RequestResponse)).unwrap();
        assert_eq!(socket::get(far.as_fd(), Setting::QuickAck).unwrap(), before);
        ask_last(far.as_fd(), &of(TrafficKind::Stream)).unwrap();
        assert_eq!(socket::get(far.as_fd(), Setting::QuickAck).unwrap(), 1);
    }
}
