//! Addresses of this network namespace, by rtnetlink.
//!
//! Layout: `include/uapi/linux/if_addr.h`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::netlink::{attributes, Netlink};

/// Bytes of `struct ifaddrmsg`: family, prefix length, flags, scope, index of the device.
const IFADDRMSG_BYTES: usize = 8;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// Addresses that other hosts may reach, with the length of their prefix; those of a link or the host alone are left out.
///
/// # Errors
/// `EPROTONOSUPPORT` where the kernel has no rtnetlink, or what it said.
pub fn addresses() -> io::Result<Vec<(IpAddr, u8)>> {
    let mut found = Vec::new();
    let take = |content: &[u8]| found.extend(address(content));
    Netlink::open()?.dump::<IFADDRMSG_BYTES>(libc::RTM_GETADDR, 0, libc::RTM_NEWADDR, take)?;
    Ok(found)
}

/// `struct ifaddrmsg` and the attributes behind it. Of a link between two, `IFA_ADDRESS` is that of the other end.
fn address(content: &[u8]) -> Option<(IpAddr, u8)> {
    let (prefix, scope) = (*content.get(1)?, *content.get(3)?);
    let of = |wanted| attributes(content.get(IFADDRMSG_BYTES..)?).find(|(kind, _)| *kind == wanted);
    let (_, bytes) = of(IFA_LOCAL).or_else(|| of(IFA_ADDRESS))?;
    let address = match bytes.len() {
        4 => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => return None,
    };
    (scope < libc::RT_SCOPE_LINK && !address.is_loopback()).then_some((address, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(family: u8, prefix: u8, scope: u8, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![family, prefix, 0, scope, 2, 0, 0, 0];
        for (kind, value) in attributes {
            bytes.extend((value.len() as u16 + 4).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(*value);
        }
        bytes
    }

    #[test]
    fn own_end_of_a_link_is_taken_and_what_nobody_else_reaches_is_left_out() {
        let (own, peer) = ([10, 88, 0, 5], [10, 88, 0, 6]);
        let link = told(2, 16, 0, &[(IFA_ADDRESS, &peer), (IFA_LOCAL, &own)]);
        assert_eq!(address(&link), Some((IpAddr::from(own), 16)));
        let wide: [u8; 16] = "fd19::2".parse::<Ipv6Addr>().unwrap().octets();
        assert_eq!(address(&told(10, 64, 0, &[(IFA_ADDRESS, &wide)])), Some((IpAddr::from(wide), 64)));
        assert_eq!(address(&told(10, 64, libc::RT_SCOPE_LINK, &[(IFA_ADDRESS, &wide)])), None);
        assert_eq!(address(&told(2, 8, 0, &[(IFA_LOCAL, &[127, 0, 0, 1])])), None);
        assert_eq!(address(&told(2, 8, 0, &[(IFA_LOCAL, &[1, 2])])), None);
        assert_eq!(address(&[2, 8]), None);
    }

    #[test]
    fn this_machine_tells_them() {
        assert!(addresses().unwrap().iter().all(|(address, _)| !address.is_loopback()));
    }
}
