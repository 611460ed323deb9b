//! TCP connections and their options.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use iodyno_core::job::{Job, SocketOptions, SocketOptionsObtained};
use iodyno_core::message::ErrorCode;
use iodyno_core::units::Bytes;
use iodyno_sys::buffer::ReceiveScratch;
use iodyno_sys::socket::{self, Direction, Setting};

use crate::error::LoadError;
use crate::transport::Flow;

/// A TCP connection of the job.
pub struct TcpFlow<'a>(pub BorrowedFd<'a>);

impl Flow for TcpFlow<'_> {
    #[inline]
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        socket::send(self.0, bytes)
    }

    #[inline]
    fn receive(&self, scratch: &ReceiveScratch) -> io::Result<usize> {
        socket::receive(self.0, scratch)
    }

    fn end(&self) {
        // Fails when the connection is already gone; the other end knows.
        let _ = socket::shutdown(self.0, Direction::Writing);
    }
}

/// The job's address.
pub fn address(job: &Job) -> Result<SocketAddr, LoadError> {
    let text = job.address.as_deref().unwrap_or_default();
    text.parse().map_err(|_| {
        let advice = "give a numeric address with port, such as 10.0.0.2:5201";
        LoadError::new(ErrorCode::Job, format!("{text:?} is no address"), "address", advice)
    })
}

/// Asks for the job's socket options.
pub fn ask(socket: BorrowedFd<'_>, wanted: &SocketOptions) -> io::Result<()> {
    let size = |bytes: Bytes| i32::try_from(bytes.0).unwrap_or(i32::MAX);
    if let Some(bytes) = wanted.send_buffer_bytes {
        socket::set(socket, Setting::SendBuffer, size(bytes))?;
    }
    if let Some(bytes) = wanted.receive_buffer_bytes {
        socket::set(socket, Setting::ReceiveBuffer, size(bytes))?;
    }
    if let Some(nagle) = wanted.nagle {
        socket::set(socket, Setting::NoDelay, i32::from(!nagle))?;
    }
    if let Some(name) = &wanted.congestion_control {
        socket::set_congestion_control(socket, name)
            .map_err(|error| io::Error::new(error.kind(), format!("congestion control {name}: {error}")))?;
    }
    Ok(())
}

/// What the kernel made of it, of the first connection, and how many differ from that.
pub fn read_back(sockets: &[OwnedFd]) -> SocketOptionsObtained {
    let Some(first) = sockets.first().map(|socket| obtained(socket.as_fd())) else {
        return SocketOptionsObtained::default();
    };
    let others = sockets.iter().skip(1).filter(|socket| obtained(socket.as_fd()) != first).count();
    SocketOptionsObtained { differing: others as u32, ..first }
}

fn obtained(socket: BorrowedFd<'_>) -> SocketOptionsObtained {
    let bytes = |setting| socket::get(socket, setting).ok().map(|value| Bytes(value.max(0) as u64));
    SocketOptionsObtained {
        send_buffer_bytes: bytes(Setting::SendBuffer),
        receive_buffer_bytes: bytes(Setting::ReceiveBuffer),
        nagle: socket::get(socket, Setting::NoDelay).ok().map(|value| value == 0),
        congestion_control: socket::congestion_control(socket).ok(),
        segment_bytes: bytes(Setting::Segment),
        differing: 0,
    }
}
