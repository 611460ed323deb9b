//! Network devices of this process's namespace.

use std::ffi::{CStr, CString};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

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
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the C library writes one pointer; the list is given back below.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = None;
    let mut at = first;
    while !at.is_null() && found.is_none() {
        // SAFETY: a pointer of the list that is not null points to an entry, as long as the list lives.
        let entry = unsafe { &*at };
        at = entry.ifa_next;
        if entry.ifa_addr.is_null() {
            continue;
        }
        // SAFETY: not null, and every address begins with its family; it is read as the longer form only when the
        // family says that it has it.
        let of_device = unsafe {
            (i32::from((*entry.ifa_addr).sa_family) == libc::AF_INET)
                .then(|| (*entry.ifa_addr.cast::<libc::sockaddr_in>()).sin_addr.s_addr)
        };
        if of_device.map(u32::from_be).map(Ipv4Addr::from) == Some(address) {
            // SAFETY: the name of an entry is a string with a closing 0.
            found = Some(unsafe { CStr::from_ptr(entry.ifa_name) }.to_owned());
        }
    }
    // SAFETY: the list came from getifaddrs and is not used after this.
    unsafe { libc::freeifaddrs(first) };
    found.map(described).transpose()
}

fn described(name: CString) -> io::Result<Device> {
    // SAFETY: touches no memory of this process.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` is open and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(name.to_bytes().iter().take(libc::IF_NAMESIZE - 1)) {
        *place = *byte as libc::c_char;
    }
    // SAFETY: the kernel reads and writes one ifreq, which lives.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as libc::Ioctl, &mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just written this member.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    // SAFETY: the C library reads a string with a closing 0.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    let name = name.to_string_lossy().into_owned();
    Ok(Device { name, index, mtu_bytes: usize::try_from(mtu).unwrap_or(0) })
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
