//! `TCP_INFO` of a socket: what the kernel keeps about one TCP connection.
//!
//! The kernel copies as many bytes of `struct tcp_info` as it has and says how many; every kernel appends
//! fields and moves none. Fields are therefore read by offset out of those bytes, and a field that an older
//! kernel does not have is `None`, never zero. Offsets: `include/uapi/linux/tcp.h`, checked against the BTF
//! of a 6.18 kernel (280 bytes).

use std::io;
use std::os::fd::RawFd;

use iodyno_core::units::{Bytes, Nanos};

use crate::socket_option;

/// Room for the kernel's answer: more than any kernel gives today, so that nothing is cut off.
const ROOM: usize = 512;

/// The kernel's answer for one socket.
#[derive(Clone, Debug)]
pub struct TcpInfo {
    bytes: [u8; ROOM],
    length: usize,
}

/// Asks the kernel about a TCP socket.
///
/// # Errors
/// `EBADF` or `ENOTSOCK` when the descriptor is no socket any more, `EOPNOTSUPP` or `ENOPROTOOPT` when it
/// is a socket of another kind.
pub fn read(socket: RawFd) -> io::Result<TcpInfo> {
    let (bytes, length) = socket_option::get(socket, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    Ok(TcpInfo { bytes, length })
}

/// A field of the given width at an offset, with its documentation.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $width:ty, $offset:literal;)*) => {
        impl TcpInfo {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(&self) -> Option<$width> {
                    self.field($offset).map(<$width>::from_ne_bytes)
                }
            )*
        }
    };
}

fields! {
    /// State of the connection, as `TCP_ESTABLISHED` = 1.
    state: u8, 0;
    /// Payload of the segments it sends, in bytes.
    snd_mss: u32, 16;
    /// Payload of the segments it receives, as estimated, in bytes.
    rcv_mss: u32, 20;
    /// Segments sent and not acknowledged.
    unacked: u32, 24;
    /// Smoothed round-trip time in microseconds; 0 before the first sample.
    rtt_us: u32, 68;
    /// Congestion window in segments.
    snd_cwnd: u32, 80;
    /// Bytes that the receiver's application takes in a round trip, by which the receive buffer is sized.
    rcv_space: u32, 96;
    /// Segments retransmitted so far.
    total_retrans: u32, 100;
    /// Payload bytes that the peer acknowledged so far (Linux 4.1).
    bytes_acked: u64, 120;
    /// Payload bytes received in order so far (Linux 4.1).
    bytes_received: u64, 128;
    /// Segments sent so far, with or without payload (Linux 4.2).
    segs_out: u32, 136;
    /// Segments received so far, with or without payload (Linux 4.2).
    segs_in: u32, 140;
    /// Bytes written that were not handed to the network yet (Linux 4.6).
    notsent_bytes: u32, 144;
    /// Smallest round-trip time lately, in microseconds; all ones before the first sample (Linux 4.6).
    min_rtt_us: u32, 148;
    /// Segments with payload received so far (Linux 4.6).
    data_segs_in: u32, 152;
    /// Segments with payload sent so far (Linux 4.6).
    data_segs_out: u32, 156;
    /// Delivery rate of the latest sample in bytes per second; 0 before the first one (Linux 4.9).
    delivery_rate: u64, 160;
    /// Time with data outstanding so far, in microseconds that advance with the timer tick (Linux 4.10).
    busy_time_us: u64, 168;
    /// The part of `busy_time_us` in which the peer's window was full (Linux 4.10).
    rwnd_limited_us: u64, 176;
    /// The part of `busy_time_us` in which the send buffer was too small (Linux 4.10).
    sndbuf_limited_us: u64, 184;
    /// Segments that the peer saw marked by a congested router so far (Linux 4.18).
    delivered_ce: u32, 196;
    /// Payload bytes retransmitted so far (Linux 4.19).
    bytes_retrans: u64, 208;
    /// Segments received out of order so far (Linux 5.4).
    rcv_ooopack: u32, 224;
    /// Window that the peer advertises, in bytes (Linux 5.4).
    snd_wnd: u32, 228;
    /// Window that this end advertises, in bytes (Linux 6.2).
    rcv_wnd: u32, 232;
}

impl TcpInfo {
    /// An answer made of the given bytes, cut off where the kernel's longest answer ends.
    #[must_use]
    pub fn from_bytes(given: &[u8]) -> Self {
        let length = given.len().min(ROOM);
        let mut bytes = [0; ROOM];
        bytes[..length].copy_from_slice(&given[..length]);
        TcpInfo { bytes, length }
    }

    /// How many bytes the kernel gave: tells which fields it has.
    #[must_use]
    pub fn length(&self) -> Bytes {
        Bytes(self.length as u64)
    }

    /// Smoothed round-trip time; `None` before the first sample.
    #[must_use]
    pub fn rtt(&self) -> Option<Nanos> {
        self.rtt_us().filter(|&us| us != 0).map(|us| Nanos(u64::from(us) * 1_000))
    }

    /// Smallest round-trip time lately; `None` before the first sample.
    #[must_use]
    pub fn min_rtt(&self) -> Option<Nanos> {
        self.min_rtt_us().filter(|&us| us != u32::MAX).map(|us| Nanos(u64::from(us) * 1_000))
    }

    /// Whether the latest delivery rate was limited by the application having nothing to send (Linux 4.9).
    #[must_use]
    pub fn app_limited(&self) -> Option<bool> {
        // The flag shares its byte with older fields; it means something only where `delivery_rate` exists.
        self.delivery_rate()?;
        let [flags] = self.field(7)?;
        // The first bit field of a byte is its lowest bit on little-endian machines and its highest on others.
        Some(if cfg!(target_endian = "little") { flags & 1 } else { flags >> 7 } == 1)
    }

    /// The bytes at an offset, where the kernel gave all of them.
    fn field<const WIDTH: usize>(&self, offset: usize) -> Option<[u8; WIDTH]> {
        self.bytes[..self.length].get(offset..offset + WIDTH)?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_loopback_connection_counts_what_was_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        sender.write_all(&[7; 10_000]).unwrap();
        receiver.read_exact(&mut [0; 10_000]).unwrap();

        let sent = read(sender.as_raw_fd()).unwrap();
        let received = read(receiver.as_raw_fd()).unwrap();

        assert!(sent.length().0 >= 192, "{:?}", sent.length());
        assert_eq!(sent.state(), Some(1));
        assert_eq!(received.bytes_received(), Some(10_000));
        // One for the SYN, as the kernel counts sequence numbers; an acknowledgement may be outstanding.
        assert!(sent.bytes_acked().unwrap() <= 10_001);
        assert!(sent.data_segs_out().unwrap() >= 1);
        assert!(sent.segs_out().unwrap() > sent.data_segs_out().unwrap());
        assert!(sent.snd_mss().unwrap() > 500);
        assert!(sent.snd_cwnd().unwrap() >= 1);
        assert!(sent.rtt().unwrap().0 < 1_000_000_000);
        assert!(sent.busy_time_us().is_some());
        assert!(sent.app_limited().is_some());
    }

    #[test]
    fn an_older_kernel_gives_fewer_fields() {
        let mut bytes = [0xff; 192];
        bytes[68..72].copy_from_slice(&250_u32.to_ne_bytes());
        let old = TcpInfo::from_bytes(&bytes);
        assert_eq!(old.rtt(), Some(Nanos(250_000)));
        assert_eq!(old.min_rtt(), None, "all ones is no sample");
        assert_eq!(old.sndbuf_limited_us(), Some(u64::MAX));
        assert_eq!(old.bytes_retrans(), None);
        let cut_inside_a_field = TcpInfo::from_bytes(&bytes[..187]);
        assert_eq!(cut_inside_a_field.sndbuf_limited_us(), None);
        assert_eq!(TcpInfo::from_bytes(&[]).app_limited(), None);
        assert_eq!(TcpInfo::from_bytes(&[1; 4 * ROOM]).length(), Bytes(ROOM as u64));
    }

    #[test]
    fn what_is_no_tcp_socket_is_an_error() {
        assert_eq!(read(-1).unwrap_err().raw_os_error(), Some(libc::EBADF));
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        assert_eq!(read(file.as_raw_fd()).unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
    }
}
