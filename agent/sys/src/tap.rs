//! Tap devices: Ethernet devices whose frames a process reads and writes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};

use crate::network_device;
use crate::socket::checked;

const TUNSETIFF: libc::c_ulong = 0x4004_54ca; // linux/if_tun.h, as are the others
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
const TUNSETVNETHDRSZ: libc::c_ulong = 0x4004_54d8;
const IFF_TAP: libc::c_short = 0x0002;
const IFF_NO_PI: libc::c_short = 0x1000;
const IFF_VNET_HDR: libc::c_short = 0x4000;
const TUN_F_CSUM: libc::c_ulong = 0x01;
const TUN_F_TSO4: libc::c_ulong = 0x02;
const TUN_F_TSO6: libc::c_ulong = 0x04;
const TUN_F_USO4: libc::c_ulong = 0x20;
const TUN_F_USO6: libc::c_ulong = 0x40;

/// Bytes of the header before each frame of a device with offload (`struct virtio_net_hdr`).
pub const HEADER_BYTES: usize = 10;

/// Moves the calling thread into the network namespace of an open entry of `/run/netns` (setns(2)).
///
/// # Errors
/// What the kernel said.
pub fn enter_network_namespace(namespace: &File) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Makes the tap device `name` in the caller's network namespace. It is gone when the file is closed.
///
/// With `offload` each frame has a header of [`HEADER_BYTES`] before it, checksums may be missing and segments
/// may be larger than the MTU, of TCP and, where the kernel can, of UDP (6.2 and newer).
///
/// # Errors
/// What the kernel said; a name that is too long is an invalid input.
pub fn open(name: &str, offload: bool) -> io::Result<File> {
    if name.len() >= libc::IF_NAMESIZE || name.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let device = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    let [low, high] = (IFF_TAP | IFF_NO_PI | if offload { IFF_VNET_HDR } else { 0 }).to_ne_bytes();
    let mut request = network_device::request(name);
    request[network_device::BEHIND_NAME] = u32::from_ne_bytes([low, high, 0, 0]);
    // SAFETY: the call reads and writes one ifreq, as long as `request`.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), TUNSETIFF as _, request.as_mut_ptr()) })?;
    if offload {
        let size = HEADER_BYTES as libc::c_int;
        // SAFETY: the call reads one int, which `size` is.
        checked(unsafe { libc::ioctl(device.as_raw_fd(), TUNSETVNETHDRSZ as _, &size) })?;
        let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
        set_offload(&device, tcp | TUN_F_USO4 | TUN_F_USO6).or_else(|_| set_offload(&device, tcp))?;
    }
    Ok(device)
}

fn set_offload(device: &File, features: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the call takes its argument by value and touches no memory of this process.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), TUNSETOFFLOAD as _, features) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_does_not_fit_is_refused() {
        assert_eq!(open("a-name-that-is-too-long", false).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
