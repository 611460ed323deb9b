//! Packet sockets with rings that they share with this process: `TPACKET_V2` and `TPACKET_V3` to receive, and
//! either to send.
//!
//! The two are sockets of their own: one socket has one version for both ways. To send, V3 has frames as V2 has, with
//! another header.
//! What the kernel writes into a ring is read by offset; layout: `include/uapi/linux/if_packet.h`.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

use crate::buffer::Mapping;
use crate::socket::KernelAddress;
use crate::socket_option;

/// `TP_STATUS_KERNEL` of a received frame or block, `TP_STATUS_AVAILABLE` of one to send: 0 in both.
const FREE: u32 = 0;
const READY: u32 = libc::TP_STATUS_USER;
const TO_SEND: u32 = libc::TP_STATUS_SEND_REQUEST;
const SENDING: u32 = libc::TP_STATUS_SENDING;
const WRONG_FORMAT: u32 = libc::TP_STATUS_WRONG_FORMAT;
/// The block was handed over by its timeout and not because it was full.
const BY_TIMEOUT: u32 = 1 << 5;

/// `struct tpacket2_hdr`: status, then the lengths; `tp_mac` says where the frame begins.
const V2_LENGTHS: usize = 4;
const V2_SNAP_LENGTH: usize = 8;
const V2_MAC: usize = 12;
/// `TPACKET2_HDRLEN - sizeof(struct sockaddr_ll)`: where a frame to send begins.
const V2_SEND_DATA: usize = 32;
/// The same of `TPACKET3_HDRLEN`; and where the lengths and the status of such a frame are.
const V3_SEND_DATA: usize = 48;
const V3_LENGTHS: usize = 12;
const V3_STATUS: usize = 20;
/// chosen: shortest slot of a frame to send, so that short frames lie close together.
const LEAST_SLOT_BYTES: usize = 128;

/// `struct tpacket_block_desc`.
const BLOCK_STATUS: usize = 8;
const BLOCK_PACKETS: usize = 12;
const BLOCK_FIRST: usize = 16;
/// `BLK_HDR_LEN`.
const BLOCK_HEADER_BYTES: usize = 48;
/// `struct tpacket3_hdr`.
const V3_NEXT: usize = 0;
const V3_SNAP_LENGTH: usize = 12;
const V3_MAC: usize = 24;
/// Where the network header of a frame begins: the header and the address of the sender, 16 bytes for the link's
/// header, up to the next 16 (`tpacket_rcv`).
const V3_NETWORK: usize = 96;
const V2_NETWORK: usize = 80;
const ETHERNET_BYTES: usize = 14;

/// What is to be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Index of the device.
    pub device: u32,
    /// Datagrams to this address and port, whole ones only.
    pub to: SocketAddrV4,
    /// Whether those that come from it are meant instead.
    pub back: bool,
    /// Length of the longest frame.
    pub frame_bytes: usize,
}

/// The shape of a ring of received packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One frame at a time.
    V2 {
        /// Frames that the ring holds.
        frames: usize,
    },
    /// A block at a time, once it is full or some time after its last hand-over.
    V3 {
        /// Packets of the longest frame that a block holds.
        block_packets: usize,
        /// Blocks that the ring holds.
        blocks: usize,
        /// After which a block that is not full is handed over, in milliseconds.
        timeout_ms: u32,
    },
}

/// What one look at a ring took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Packets.
    pub packets: usize,
    /// Whether they came in a block that was not full (V3).
    pub by_timeout: bool,
}

/// Receives.
#[derive(Debug)]
pub struct Receiver {
    socket: OwnedFd,
    ring: Mapping,
    version: libc::c_int,
    /// Bytes of a frame (V2) or block (V3), and how many there are.
    unit_bytes: usize,
    units: usize,
    /// Which one the kernel fills next.
    next: usize,
}

/// Sends.
#[derive(Debug)]
pub struct Sender {
    socket: OwnedFd,
    ring: Mapping,
    slot_bytes: usize,
    /// Where the frame begins in its slot, where its lengths are, and where its status is.
    data: usize,
    lengths: usize,
    status: usize,
    slots: usize,
    next: usize,
}

/// Bytes that one frame takes in a block: its header, padding, the frame, up to the next 8.
#[must_use]
pub fn block_slot_bytes(frame_bytes: usize) -> usize {
    (V3_NETWORK - ETHERNET_BYTES + frame_bytes).next_multiple_of(8)
}

/// Opens the socket, and receives from now on.
///
/// # Errors
/// `EPERM` without the right to packet sockets (`CAP_NET_RAW`), `ENODEV`, `ENOMEM`.
pub fn receive(wanted: &Wanted, shape: Shape) -> io::Result<Receiver> {
    let socket = open(if matches!(shape, Shape::V2 { .. }) { 1 } else { 2 })?;
    socket_option::set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32)?;
    filter(&socket, wanted.to, wanted.back)?;
    let (unit_bytes, units, version) = match shape {
        Shape::V2 { frames } => {
            let frame_bytes = (V2_NETWORK + wanted.frame_bytes).next_power_of_two().max(2048);
            let (block_bytes, per_block) = blocks_of(frame_bytes);
            let blocks = frames.div_ceil(per_block).max(1);
            let request = libc::tpacket_req {
                tp_block_size: block_bytes as u32,
                tp_block_nr: blocks as u32,
                tp_frame_size: frame_bytes as u32,
                tp_frame_nr: (blocks * per_block) as u32,
            };
            socket_option::set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
            (frame_bytes, blocks * per_block, 1)
        }
        Shape::V3 { block_packets, blocks, timeout_ms } => {
            let slot = block_slot_bytes(wanted.frame_bytes);
            // A block is whole pages. What is too much is given to the area in front of the packets that the kernel
            // leaves to the owner, so that exactly so many packets fit. The kernel fills up to the last byte but one.
            let needed = block_packets.max(1) * slot + 8;
            let block_bytes = (BLOCK_HEADER_BYTES + needed).next_multiple_of(rustix::param::page_size());
            let request = libc::tpacket_req3 {
                tp_block_size: block_bytes as u32,
                tp_block_nr: blocks as u32,
                tp_frame_size: block_bytes as u32,
                tp_frame_nr: blocks as u32,
                tp_retire_blk_tov: timeout_ms,
                tp_sizeof_priv: (block_bytes - BLOCK_HEADER_BYTES - needed) as u32,
                tp_feature_req_word: 0,
            };
            socket_option::set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
            (block_bytes, blocks, 2)
        }
    };
    let ring = Mapping::shared(socket.as_fd(), unit_bytes * units, 0)?;
    // Everything there is: what asks for IP alone is given nothing of what is dropped before the stack.
    bind(&socket, wanted.device, libc::ETH_P_ALL as u16)?;
    Ok(Receiver { socket, ring, version, unit_bytes, units, next: 0 })
}

/// A socket that gives copies of the datagrams that this host sends by a device to this address and port.
///
/// # Errors
/// As for [`receive`].
pub fn watch_outgoing(device: u32, to: SocketAddrV4) -> io::Result<OwnedFd> {
    let socket = open(1)?;
    filter(&socket, to, false)?;
    bind(&socket, device, libc::ETH_P_ALL as u16)?;
    Ok(socket)
}

/// Opens the socket with room for `slots` frames of `frame_bytes`, which pass the device's queueing discipline by.
///
/// # Errors
/// As for [`receive`].
pub fn send(device: u32, frame_bytes: usize, slots: usize) -> io::Result<Sender> {
    send_by(2, device, frame_bytes, slots)
}

/// The same by `TPACKET_V3` (Linux 4.11) where `version` is 3.
///
/// # Errors
/// As for [`receive`]; `EINVAL` where the kernel is older.
pub fn send_by(version: u32, device: u32, frame_bytes: usize, slots: usize) -> io::Result<Sender> {
    let third = version == 3;
    let (data, lengths, status) =
        if third { (V3_SEND_DATA, V3_LENGTHS, V3_STATUS) } else { (V2_SEND_DATA, V2_LENGTHS, 0) };
    let socket = open(if third { 2 } else { 1 })?;
    socket_option::set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)?;
    let slot_bytes = (data + frame_bytes).next_power_of_two().max(LEAST_SLOT_BYTES);
    let (block_bytes, per_block) = blocks_of(slot_bytes);
    let blocks = slots.div_ceil(per_block).max(1);
    let request = libc::tpacket_req3 {
        tp_block_size: block_bytes as u32,
        tp_block_nr: blocks as u32,
        tp_frame_size: slot_bytes as u32,
        tp_frame_nr: (blocks * per_block) as u32,
        // Of use for receiving only.
        tp_retire_blk_tov: 0,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    };
    if third {
        socket_option::set(&socket, libc::SOL_PACKET, libc::PACKET_TX_RING, &request)?;
    } else {
        let request = libc::tpacket_req {
            tp_block_size: request.tp_block_size,
            tp_block_nr: request.tp_block_nr,
            tp_frame_size: request.tp_frame_size,
            tp_frame_nr: request.tp_frame_nr,
        };
        socket_option::set(&socket, libc::SOL_PACKET, libc::PACKET_TX_RING, &request)?;
    }
    let ring = Mapping::shared(socket.as_fd(), block_bytes * blocks, 0)?;
    // Nothing is to be received here.
    bind(&socket, device, 0)?;
    Ok(Sender { socket, ring, slot_bytes, data, lengths, status, slots: blocks * per_block, next: 0 })
}

/// Joins sockets that receive the same, so that each packet goes to one of them, at first to the first. They are told
/// apart by [`turn_to`].
///
/// # Errors
/// What the kernel said.
pub fn join(receivers: &[Receiver]) -> io::Result<()> {
    /// `PACKET_FANOUT_CBPF`, `PACKET_FANOUT_FLAG_UNIQUEID`, `PACKET_FANOUT_FLAG_IGNORE_OUTGOING`.
    const BY_PROGRAM: u32 = 6;
    const UNIQUE: u32 = 0x2000;
    const IGNORE_OUTGOING: u32 = 0x4000;
    let mut group = 0_u32;
    for receiver in receivers {
        let kind = BY_PROGRAM | IGNORE_OUTGOING | if group == 0 { UNIQUE } else { 0 };
        socket_option::set(
            &receiver.socket,
            libc::SOL_PACKET,
            libc::PACKET_FANOUT,
            &(group & 0xffff | kind << 16),
        )?;
        if group == 0 {
            let socket = receiver.socket.as_raw_fd();
            let (told, _) = socket_option::get(socket, libc::SOL_PACKET, libc::PACKET_FANOUT)?;
            group = u32::from_ne_bytes(told);
        }
    }
    receivers.first().map_or(Ok(()), |first| turn_to(first, 0))
}

/// Has every packet from now on go to the socket that was joined as number `at`, whichever of them is asked.
///
/// # Errors
/// What the kernel said.
pub fn turn_to(any: &Receiver, at: usize) -> io::Result<()> {
    let program = [libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: at as u32 }];
    let handed = libc::sock_fprog { len: 1, filter: program.as_ptr().cast_mut() };
    socket_option::set(&any.socket, libc::SOL_PACKET, libc::PACKET_FANOUT_DATA, &handed)
}

impl Receiver {
    /// Shows `each` frame that is ready, in the order of arrival: up to `most` of them (V2) or those of one block
    /// (V3). They are the kernel's again afterwards.
    #[inline]
    pub fn take(&mut self, most: usize, each: impl FnMut(&[u8])) -> Taken {
        if self.version == 1 {
            self.take_frames(most, each)
        } else {
            self.take_block(each)
        }
    }

    fn take_frames(&mut self, most: usize, mut each: impl FnMut(&[u8])) -> Taken {
        let mut packets = 0;
        while packets < most {
            let unit = self.next * self.unit_bytes;
            let status = self.word(unit);
            if status.load(Ordering::Acquire) & READY == 0 {
                break;
            }
            let length = self.read_u32(unit + V2_SNAP_LENGTH) as usize;
            let begin = usize::from(self.read_u16(unit + V2_MAC));
            each(self.bytes(self.next, begin, length));
            self.word(unit).store(FREE, Ordering::Release);
            self.next = if self.next + 1 == self.units { 0 } else { self.next + 1 };
            packets += 1;
        }
        Taken { packets, by_timeout: false }
    }

    fn take_block(&mut self, mut each: impl FnMut(&[u8])) -> Taken {
        let unit = self.next * self.unit_bytes;
        let status = self.word(unit + BLOCK_STATUS).load(Ordering::Acquire);
        if status & READY == 0 {
            return Taken::default();
        }
        let packets = self.read_u32(unit + BLOCK_PACKETS) as usize;
        let mut at = self.read_u32(unit + BLOCK_FIRST) as usize;
        for _ in 0..packets {
            if at + V3_NETWORK > self.unit_bytes {
                break;
            }
            let length = self.read_u32(unit + at + V3_SNAP_LENGTH) as usize;
            let begin = usize::from(self.read_u16(unit + at + V3_MAC));
            each(self.bytes(self.next, at + begin, length));
            at += self.read_u32(unit + at + V3_NEXT) as usize;
        }
        self.word(unit + BLOCK_STATUS).store(FREE, Ordering::Release);
        self.next = if self.next + 1 == self.units { 0 } else { self.next + 1 };
        Taken { packets, by_timeout: status & BY_TIMEOUT != 0 }
    }

    /// Blocks that are ready behind each other, from the next one on, because they got full (V3).
    #[must_use]
    pub fn full(&self) -> usize {
        let is_full = |behind: &usize| {
            let unit = (self.next + behind) % self.units * self.unit_bytes;
            let status = self.word(unit + BLOCK_STATUS).load(Ordering::Relaxed);
            status & (READY | BY_TIMEOUT) == READY
        };
        (0..self.units).take_while(is_full).count()
    }

    /// Packets that found the ring full since the last question.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn dropped(&self) -> io::Result<u32> {
        // `struct tpacket_stats`, and of the third version one count more: packets, of these dropped.
        let (socket, level) = (self.socket.as_raw_fd(), libc::SOL_PACKET);
        let (counts, _) = socket_option::get::<12>(socket, level, libc::PACKET_STATISTICS)?;
        Ok(u32::from_ne_bytes([counts[4], counts[5], counts[6], counts[7]]))
    }

    /// To be waited for.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// A part of a frame or block; as much of it as lies inside.
    #[inline]
    fn bytes(&self, unit: usize, begin: usize, length: usize) -> &[u8] {
        let begin = begin.min(self.unit_bytes);
        let length = length.min(self.unit_bytes - begin);
        // SAFETY: the range lies in the mapping, and the kernel does not write into what is ready.
        unsafe {
            let start = self.ring.start().add(unit * self.unit_bytes + begin);
            std::slice::from_raw_parts(start.as_ptr(), length)
        }
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU32 {
        word(&self.ring, at)
    }

    #[inline]
    fn read_u32(&self, at: usize) -> u32 {
        self.word(at).load(Ordering::Relaxed)
    }

    #[inline]
    fn read_u16(&self, at: usize) -> u16 {
        // The two halves of a word in the machine's order.
        let bytes = self.read_u32(at & !3).to_ne_bytes();
        u16::from_ne_bytes([bytes[at & 2], bytes[(at & 2) + 1]])
    }
}

impl Sender {
    /// The next frame to be written; `None`: the kernel has not sent it yet. It holds what was last written there.
    #[inline]
    pub fn frame(&mut self) -> Option<&mut [u8]> {
        let begin = self.next * self.slot_bytes;
        let status = word(&self.ring, begin + self.status).load(Ordering::Acquire);
        if status & (TO_SEND | SENDING) != 0 {
            return None;
        }
        if status & WRONG_FORMAT != 0 {
            // It was refused, which does not happen to frames that fit the device.
            word(&self.ring, begin + self.status).store(FREE, Ordering::Relaxed);
        }
        // SAFETY: the slot lies in the mapping, it is this process's until it is handed over, and `&mut self` keeps
        // everybody else from it.
        Some(unsafe {
            let start = self.ring.start().add(begin + self.data);
            std::slice::from_raw_parts_mut(start.as_ptr(), self.slot_bytes - self.data)
        })
    }

    /// Has the frame that was written last sent with the next [`Sender::flush`].
    #[inline]
    pub fn commit(&mut self, length: usize) {
        let begin = self.next * self.slot_bytes;
        word(&self.ring, begin + self.lengths).store(length as u32, Ordering::Relaxed);
        word(&self.ring, begin + self.lengths + 4).store(length as u32, Ordering::Relaxed);
        word(&self.ring, begin + self.status).store(TO_SEND, Ordering::Release);
        self.next = if self.next + 1 == self.slots { 0 } else { self.next + 1 };
    }

    /// Leaves the next frame as it is and turns to the one behind it. Only before anything is handed over: the kernel
    /// goes through the frames in turn, and all of them must have been passed over at the end.
    pub fn pass_over(&mut self) {
        self.next = if self.next + 1 == self.slots { 0 } else { self.next + 1 };
    }

    /// Sends what was handed over.
    ///
    /// # Errors
    /// `ENOBUFS`, `EAGAIN`: some of it is still to be sent; `ENETDOWN`, `ENXIO`: the device is gone.
    pub fn flush(&self) -> io::Result<()> {
        // No bytes are handed over; they lie in the ring.
        rustix::net::send(&self.socket, &[], SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// How many slots there are.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }
}

#[inline]
fn word(ring: &Mapping, at: usize) -> &AtomicU32 {
    debug_assert!(at % 4 == 0 && at + 4 <= ring.length());
    // SAFETY: the word lies in the mapping (frames and blocks are as long as the kernel was told, and every caller stays
    // inside of one), it is aligned, and both sides access it as a word.
    unsafe { AtomicU32::from_ptr(ring.start().as_ptr().add(at).cast()) }
}

/// Length of the kernel's pieces of a ring of frames, and how many frames lie in each.
fn blocks_of(frame_bytes: usize) -> (usize, usize) {
    // chosen: 64 KiB, which the kernel finds in one piece on most machines.
    let block_bytes = (64 << 10_usize).max(frame_bytes);
    (block_bytes, block_bytes / frame_bytes)
}

fn open(version: libc::c_int) -> io::Result<OwnedFd> {
    // No protocol: nothing is received before it is bound.
    let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(AddressFamily::PACKET, kind, flags, None)?;
    socket_option::set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
    Ok(socket)
}

fn bind(socket: &OwnedFd, device: u32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: device as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    Ok(rustix::net::bind(socket, &KernelAddress(address))?)
}

/// Keeps everything else out of the ring. Classic BPF, because it needs no right to load programs.
fn filter(socket: &OwnedFd, to: SocketAddrV4, back: bool) -> io::Result<()> {
    const LOAD_WORD: u16 = 0x20;
    const LOAD_HALF: u16 = 0x28;
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_HALF_BEHIND_HEADER: u16 = 0x48;
    const HEADER_LENGTH: u16 = 0xb1;
    const EQUAL: u16 = 0x15;
    const ANY_BIT: u16 = 0x45;
    const GIVE: u16 = 0x06;
    let line = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // Of the one that it comes from, or of the one that it goes to.
    let (address_at, port_at) = if back { (26, 14) } else { (30, 16) };
    let program = [
        line(LOAD_HALF, 0, 0, 12),
        line(EQUAL, 0, 10, 0x0800),
        line(LOAD_BYTE, 0, 0, 23),
        line(EQUAL, 0, 8, libc::IPPROTO_UDP as u32),
        line(LOAD_WORD, 0, 0, address_at),
        line(EQUAL, 0, 6, u32::from(*to.ip())),
        line(LOAD_HALF, 0, 0, 20),
        // More fragments follow, or this is not the first one.
        line(ANY_BIT, 4, 0, 0x3fff),
        line(HEADER_LENGTH, 0, 0, 14),
        line(LOAD_HALF_BEHIND_HEADER, 0, 0, port_at),
        line(EQUAL, 0, 1, u32::from(to.port())),
        line(GIVE, 0, 0, u32::MAX),
        line(GIVE, 0, 0, 0),
    ];
    let handed = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    socket_option::set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &handed)
}
