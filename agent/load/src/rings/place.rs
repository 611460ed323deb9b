//! Where a server on a ring stands: the address that it answers for, the device that has it, the lengths of frames.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;

use iodyno_core::message::ErrorCode;
use iodyno_sys::network_device::{self, Device};
use iodyno_sys::{errno, socket};

use crate::connections::Connections;
use crate::error::LoadError;
use crate::transport::frame::{Cut, HEADERS_BYTES};

/// A server's place.
pub(super) struct Place {
    pub device: Device,
    pub address: SocketAddrV4,
    /// Length of the longest frame with a request.
    pub request_frame_bytes: usize,
    /// How answers are cut into frames.
    pub cut: Cut,
}

pub(super) fn unsupported(what: String, place: &str, advice: &str) -> LoadError {
    LoadError::new(ErrorCode::Unsupported, what, place, advice)
}

impl Place {
    /// That of the server whose socket is bound, with frames of at most `longest_frame`.
    pub fn of(shared: &Connections, longest_frame: usize) -> Result<Self, LoadError> {
        let job = &shared.job;
        let bound = shared.sockets.first().map(|socket| socket::local_address(socket.as_fd()));
        let address = match bound {
            Some(Ok(SocketAddr::V4(address))) if !address.ip().is_unspecified() => address,
            Some(Ok(address)) => {
                let what = format!("a server on a ring answers for one address of IPv4, not for {address}");
                return Err(unsupported(what, "address", "have it listen on the address of one device"));
            }
            _ => return Err(unsupported("there is no bound socket".to_owned(), "address", "")),
        };
        let place = address.to_string();
        let device = network_device::with_address(*address.ip())
            .map_err(|error| LoadError::refused(&error, "look for the device", &place))?
            .ok_or_else(|| {
                let what = format!("no network device here has the address {}", address.ip());
                unsupported(what, &place, "have the server listen on the address of a device")
            })?;
        if address.ip().is_loopback() {
            let what = "the kernel takes no frames with loopback addresses from a ring".to_owned();
            return Err(unsupported(what, &place, "have the server listen on another address"));
        }
        let request_frame_bytes = HEADERS_BYTES + job.load.message_bytes.0 as usize;
        let longest_request = device.mtu_bytes + 14;
        if request_frame_bytes > longest_request.min(longest_frame) {
            let what = format!(
                "datagrams of {} bytes do not fit into one frame of {}, and a server on a ring puts no fragments together",
                job.load.message_bytes.0, device.name
            );
            return Err(unsupported(what, "message_bytes", "take smaller ones or a larger MTU"));
        }
        let cut = Cut::new(job.load.response_bytes().0 as usize, device.mtu_bytes, longest_frame);
        Ok(Place { device, address, request_frame_bytes, cut })
    }

    /// The kernel refused `what`, for which one needs the `right`.
    pub fn refused(&self, error: &io::Error, what: &str, right: &str) -> LoadError {
        refused_at(&self.device, error, what, right)
    }
}

/// The kernel refused `what` at a device, for which one needs the `right`.
pub(super) fn refused_at(device: &Device, error: &io::Error, what: &str, right: &str) -> LoadError {
    {
        let place = format!("device {}", device.name);
        match error.raw_os_error().unwrap_or(0) {
            errno::EPERM | errno::EACCES => {
                let told = format!("the agent is not allowed to use {what}");
                unsupported(told, &place, &format!("run it as root, or with {right}"))
            }
            errno::EAFNOSUPPORT | errno::EINVAL | errno::ENOPROTOOPT | errno::EOPNOTSUPP => unsupported(
                format!("this kernel or device has no {what} of this kind: {error}"),
                &place,
                "take another client or server",
            ),
            _ => LoadError::refused(error, &format!("open {what}"), &place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_is_told_what_right_it_takes() {
        let place = Place {
            device: Device { name: "eth7".to_owned(), index: 7, mtu_bytes: 1500 },
            address: SocketAddrV4::new([192, 0, 2, 1].into(), 9),
            request_frame_bytes: 100,
            cut: Cut::new(100, 1500, usize::MAX),
        };
        let refused =
            place.refused(&io::Error::from_raw_os_error(errno::EPERM), "packet sockets", "CAP_NET_RAW");
        assert_eq!(refused.code, ErrorCode::Unsupported);
        assert_eq!(
            refused.to_string(),
            "device eth7: the agent is not allowed to use packet sockets; run it as root, or with CAP_NET_RAW"
        );
    }
}
