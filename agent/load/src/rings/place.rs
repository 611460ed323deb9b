//! Where a server on a ring stands: the address that it answers for, the device that has it, the lengths of frames.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;

use iodyno_core::job::{Job, Role, Transport, Workload};
use iodyno_core::message::ErrorCode;
use iodyno_sys::network_device::{self, Device};
use iodyno_sys::{errno, socket};

use crate::error::LoadError;
use crate::transport::frame::{Cut, HEADERS_BYTES};
use crate::worker::shared::Shared;

/// A server's place.
pub(super) struct Place {
    pub device: Device,
    pub address: SocketAddrV4,
    /// Length of the longest frame with a request.
    pub request_frame_bytes: usize,
    /// How answers are cut into frames.
    pub cut: Cut,
}

/// Whether a job on rings is one that a server can carry out; what it cannot is said before a port is opened.
///
/// # Errors
/// `Unsupported`.
pub(crate) fn check(job: &Job) -> Result<(), LoadError> {
    let refuse = |key: &str, found: String, advice: &str| Err(unsupported(found, key, advice));
    if !matches!(job.workload, Workload::RequestResponse | Workload::Stream) {
        let found = "packet rings and AF_XDP carry datagrams".to_owned();
        return refuse("workload", found, "take request_response or stream");
    }
    if !matches!(job.transport, Transport::Packet | Transport::Xdp) {
        let found = "a ring holds the frames of packet sockets or of AF_XDP".to_owned();
        return refuse("transport", found, "take packet or xdp");
    }
    if job.think_ns.0 > 0 || job.serialised {
        let found = "an end on a ring neither pauses nor shares a lock".to_owned();
        return refuse("think_ns", found, "leave reader_think and serialised out");
    }
    let version = job.ring.map_or(0, |ring| ring.version);
    if job.transport == Transport::Packet && !(2..=3).contains(&version) {
        let found = format!("packet rings of version {version} do not exist");
        return refuse("ring.version", found, "take packet_v2 or packet_v3");
    }
    if job.ring.is_some_and(|ring| ring.version == 3 && ring.block_timeout_ns.0 % 1_000_000 != 0) {
        let found = "the kernel counts the timeout of a block in whole milliseconds".to_owned();
        return refuse("ring.block_timeout_ns", found, "take whole milliseconds");
    }
    if job.ring.is_some_and(|ring| ring.adaptive && (ring.version != 3 || job.role != Role::Receive)) {
        let found =
            "only a ring of blocks (packet_v3) has packets per block, and a server fits them".to_owned();
        return refuse("ring.adaptive", found, "leave adaptive out, or take packet_v3 as `server:`");
    }
    Ok(())
}

pub(super) fn unsupported(what: String, place: &str, advice: &str) -> LoadError {
    LoadError::new(ErrorCode::Unsupported, what, place, advice)
}

impl Place {
    /// That of the server whose socket is bound, with frames of at most `longest_frame`.
    pub fn of(shared: &Shared, longest_frame: usize) -> Result<Self, LoadError> {
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
        let request_frame_bytes = HEADERS_BYTES + job.message_bytes.0 as usize;
        let longest_request = device.mtu_bytes + 14;
        if request_frame_bytes > longest_request.min(longest_frame) {
            let what = format!(
                "datagrams of {} bytes do not fit into one frame of {}, and a server on a ring puts no fragments together",
                job.message_bytes.0, device.name
            );
            return Err(unsupported(what, "message_bytes", "take smaller ones or a larger MTU"));
        }
        let cut = Cut::new(job.answer_bytes.0 as usize, device.mtu_bytes, longest_frame);
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
    use iodyno_core::job::{Driver, Ring};
    use iodyno_core::units::Nanos;

    use super::*;

    fn server(version: u32, transport: Transport) -> Job {
        let ring = Ring { version, block_packets: 32, block_timeout_ns: Nanos(10_000_000), adaptive: false };
        Job {
            role: Role::Receive,
            workload: Workload::RequestResponse,
            transport,
            driver: Driver::Rings,
            ring: Some(ring),
            ..Job::default()
        }
    }

    #[test]
    fn what_a_ring_cannot_do_is_unsupported_with_the_key_that_says_it() {
        for (version, transport) in [(2, Transport::Packet), (3, Transport::Packet), (0, Transport::Xdp)] {
            assert_eq!(check(&server(version, transport)), Ok(()));
            assert_eq!(check(&Job { workload: Workload::Stream, ..server(version, transport) }), Ok(()));
        }
        let of = |change: &dyn Fn(&mut Job)| {
            let mut job = server(2, Transport::Packet);
            change(&mut job);
            let refused = check(&job).unwrap_err();
            assert_eq!(refused.code, ErrorCode::Unsupported);
            refused.place
        };
        assert_eq!(of(&|job| job.workload = Workload::ConnectRequestResponse), "workload");
        assert_eq!(of(&|job| (job.role, job.workload) = (Role::Send, Workload::Disk)), "workload");
        let mut sender = Job { role: Role::Send, ..server(3, Transport::Packet) };
        for workload in [Workload::Stream, Workload::RequestResponse] {
            sender.workload = workload;
            assert_eq!(check(&sender), Ok(()));
        }
        sender.ring.as_mut().unwrap().adaptive = true;
        assert_eq!(check(&sender).unwrap_err().place, "ring.adaptive");
        assert_eq!(of(&|job| job.transport = Transport::Udp), "transport");
        assert_eq!(of(&|job| job.think_ns = Nanos(1)), "think_ns");
        assert_eq!(of(&|job| job.ring = None), "ring.version");
        assert_eq!(of(&|job| job.ring.as_mut().unwrap().adaptive = true), "ring.adaptive");
        let uneven = |job: &mut Job| {
            let ring = job.ring.as_mut().unwrap();
            (ring.version, ring.block_timeout_ns) = (3, Nanos(1_500_000));
        };
        assert_eq!(of(&uneven), "ring.block_timeout_ns");
    }

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
