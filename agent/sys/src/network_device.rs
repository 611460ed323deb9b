//! Network devices of this process's namespace.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use rustix::net::netdevice::index_to_name;
use rustix::net::{socket_with, AddressFamily, SocketFlags, SocketType};

use crate::netlink::{attributes, word, Netlink};
use crate::socket::checked;

/// Bytes of `struct ifaddrmsg`, and attributes behind it: the address of the other end, and the own one.
const IFADDRMSG_BYTES: usize = 8;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// Words of `struct ifreq`, and where what is asked for or told is in it, behind the name.
const REQUEST_WORDS: usize = 10;
pub(crate) const BEHIND_NAME: usize = libc::IF_NAMESIZE / 4;

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Longest IP packet that it takes.
    pub mtu_bytes: usize,
}

/// The device that has this address; `None`: no device of this namespace has it.
///
/// # Errors
/// What the kernel said.
pub fn with_address(address: Ipv4Addr) -> io::Result<Option<Device>> {
    let mut found = None;
    let take = |content: &[u8]| found = found.or_else(|| own(content, address));
    Netlink::open()?.dump::<IFADDRMSG_BYTES>(
        libc::RTM_GETADDR,
        libc::AF_INET as u8,
        libc::RTM_NEWADDR,
        take,
    )?;
    found.map(described).transpose()
}

/// Index of the device where this message says that it has the address.
fn own(message: &[u8], address: Ipv4Addr) -> Option<u32> {
    let of = |wanted| {
        attributes(message.get(IFADDRMSG_BYTES..)?).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
    };
    let value = of(IFA_LOCAL).or_else(|| of(IFA_ADDRESS))?;
    if *value == address.octets() {
        word(message, 4)
    } else {
        None
    }
}

/// A `struct ifreq` with a name that fits.
pub(crate) fn request(name: &str) -> [u32; REQUEST_WORDS] {
    let mut words = [0; REQUEST_WORDS];
    for (word, bytes) in words[..BEHIND_NAME].iter_mut().zip(name.as_bytes().chunks(4)) {
        let mut four = [0; 4];
        four[..bytes.len()].copy_from_slice(bytes);
        *word = u32::from_ne_bytes(four);
    }
    words
}

fn described(index: u32) -> io::Result<Device> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let name = index_to_name(&socket, index)?;
    let mut request = request(&name);
    let call = libc::SIOCGIFMTU as libc::Ioctl;
    // SAFETY: the kernel reads and writes one ifreq, which is this long.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), call, request.as_mut_ptr()) })?;
    Ok(Device { name, index, mtu_bytes: request[BEHIND_NAME] as usize })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_is_found_by_its_address() {
        let Some(device) = with_address(Ipv4Addr::LOCALHOST).unwrap() else { return };
        assert_eq!(device.name, "lo");
        assert!(device.index > 0 && device.mtu_bytes >= 1500);
        assert_eq!(with_address(Ipv4Addr::new(192, 0, 2, 1)).unwrap(), None);
    }
}
