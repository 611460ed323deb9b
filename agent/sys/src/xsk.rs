//! `AF_XDP` sockets in copy mode: frames that a program at the device has redirected, and frames to be sent, in memory
//! that is shared with the kernel.
//!
//! The memory has two halves, one for each way, so that each way is an object of its own. Layout:
//! `include/uapi/linux/if_xdp.h`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XdpDesc, XdpRingOffset, XdpUmemReg, XdpUmemRegFlags,
    XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING,
};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

use crate::buffer::Mapping;

/// Bytes of a piece of the shared memory: what the kernel takes at most on machines with pages of 4 KiB.
pub const CHUNK_BYTES: usize = 4096;
/// In front of a received frame the kernel leaves this room (`XDP_PACKET_HEADROOM`).
const HEADROOM_BYTES: usize = 256;
/// Longest frame that is received or sent.
pub const LONGEST_FRAME_BYTES: usize = CHUNK_BYTES - HEADROOM_BYTES;
/// chosen: calls that one flush makes at most; each sends 32 frames (`MAX_TX_BUDGET`), and 1024 lie in the ring.
const MOST_CALLS: usize = 64;

struct Socket {
    fd: OwnedFd,
    memory: Mapping,
}

/// One ring of descriptions, of which this process writes one end and the kernel the other.
struct Ring {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    entries: usize,
    mask: u32,
    entry_bytes: usize,
}

/// Receives.
pub struct Receiver {
    socket: Arc<Socket>,
    fill: Ring,
    arrived: Ring,
}

/// Sends.
pub struct Sender {
    socket: Arc<Socket>,
    outgoing: Ring,
    completed: Ring,
    /// Offsets of pieces that may be written.
    free: Vec<u64>,
    slots: usize,
}

/// Opens a socket on one queue of a device, with room for so many frames each way; rounded up to powers of two.
///
/// # Errors
/// `EPERM` without `CAP_NET_RAW`, `EAFNOSUPPORT` where the kernel has no `AF_XDP`, `ENOMEM`, `EBUSY` when the queue has
/// such a socket already.
pub fn open(device: u32, queue: u32, receive: usize, send: usize) -> io::Result<(Receiver, Sender)> {
    let (receive, send) = (receive.next_power_of_two(), send.next_power_of_two());
    let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
    let fd = rustix::net::socket_with(AddressFamily::XDP, kind, flags, None)?;
    let memory = Mapping::new((receive + send) * CHUNK_BYTES)?;
    let registration = XdpUmemReg {
        addr: memory.start().as_ptr() as u64,
        len: memory.length() as u64,
        chunk_size: CHUNK_BYTES as u32,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    sockopt::set_xdp_umem_reg(&fd, registration)?;
    sockopt::set_xdp_umem_fill_ring_size(&fd, receive as u32)?;
    sockopt::set_xdp_umem_completion_ring_size(&fd, send as u32)?;
    sockopt::set_xdp_rx_ring_size(&fd, receive as u32)?;
    sockopt::set_xdp_tx_ring_size(&fd, send as u32)?;
    // What is in flight is bounded by the rings. The socket's own bound would be reached earlier, by answers of several
    // frames. Where it may not be raised, flushing takes several rounds.
    let _ = sockopt::set_socket_send_buffer_size_force(&fd, send * CHUNK_BYTES * 2);
    let offsets = sockopt::xdp_mmap_offsets(&fd)?;
    let address = size_of::<u64>();
    let description = size_of::<XdpDesc>();
    let mut fill = Ring::map(&fd, XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, receive, address)?;
    let completed = Ring::map(&fd, XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, send, address)?;
    let arrived = Ring::map(&fd, 0, &offsets.rx, receive, description)?;
    let outgoing = Ring::map(&fd, XDP_PGOFF_TX_RING, &offsets.tx, send, description)?;
    for chunk in 0..receive {
        fill.put(chunk as u32, 0, (chunk * CHUNK_BYTES) as u64);
    }
    fill.produce(receive as u32);
    // The devices that need no copy would need rings of their own kind of memory: not built here.
    rustix::net::bind(&fd, &SocketAddrXdp::new(SocketAddrXdpFlags::XDP_COPY, device, queue))?;
    let socket = Arc::new(Socket { fd, memory });
    let free = (receive..receive + send).rev().map(|chunk| (chunk * CHUNK_BYTES) as u64).collect();
    Ok((
        Receiver { socket: Arc::clone(&socket), fill, arrived },
        Sender { socket, outgoing, completed, free, slots: send },
    ))
}

impl Receiver {
    /// Shows `each` frame that has arrived, up to `most`. Their memory is the kernel's again afterwards.
    #[inline]
    pub fn take(&mut self, most: usize, mut each: impl FnMut(&[u8])) -> usize {
        let begin = self.arrived.consumer().load(Ordering::Relaxed);
        let end = self.arrived.producer().load(Ordering::Acquire);
        let count = (end.wrapping_sub(begin) as usize).min(most);
        let refill = self.fill.producer().load(Ordering::Relaxed);
        for number in 0..count as u32 {
            let at = begin.wrapping_add(number);
            let offset = self.arrived.get(at, 0);
            let length = (self.arrived.get(at, 8) & 0xffff_ffff) as usize;
            each(self.socket.frame(offset, length));
            // The piece that the frame lies in, from its first byte.
            self.fill.put(refill.wrapping_add(number), 0, offset & !(CHUNK_BYTES as u64 - 1));
        }
        if count > 0 {
            self.arrived.consumer().store(begin.wrapping_add(count as u32), Ordering::Release);
            self.fill.produce(count as u32);
        }
        count
    }

    /// To be waited for, and to be named in the map of the program at the device.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.fd.as_fd()
    }

    /// Frames lost so far for want of room.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn dropped(&self) -> io::Result<u64> {
        Ok(sockopt::xdp_statistics(&self.socket.fd)?.rx_dropped)
    }
}

impl Sender {
    /// The next frame to be written; `None`: none is free before the next [`Sender::flush`]. It holds what was last
    /// written there.
    #[inline]
    pub fn frame(&mut self) -> Option<&mut [u8]> {
        if self.free.is_empty() {
            self.reclaim();
        }
        let offset = *self.free.last()? as usize;
        // SAFETY: the piece lies in the mapping, the kernel has given it back, and `&mut self` keeps everybody else from it:
        // the receiver has its own half.
        Some(unsafe {
            let start = self.socket.memory.start().add(offset);
            std::slice::from_raw_parts_mut(start.as_ptr(), CHUNK_BYTES)
        })
    }

    /// Has the frame that was written last sent with the next [`Sender::flush`].
    #[inline]
    pub fn commit(&mut self, length: usize) {
        let Some(offset) = self.free.pop() else { return };
        let at = self.outgoing.producer().load(Ordering::Relaxed);
        self.outgoing.put(at, 0, offset);
        // Length, and no options above it.
        self.outgoing.put(at, 8, length as u64);
        self.outgoing.produce(1);
    }

    /// Leaves the next frame as it is, so that the one behind it is the next.
    pub fn pass_over(&mut self) {
        self.free.rotate_right(1);
    }

    /// Sends what was handed over.
    ///
    /// # Errors
    /// `EAGAIN`, `ENOBUFS`: some of it is still to be sent; `ENETDOWN`, `ENXIO`: the device is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        let mut outcome = Ok(());
        for _ in 0..MOST_CALLS {
            let (end, begin) = (self.outgoing.producer(), self.outgoing.consumer());
            if end.load(Ordering::Relaxed) == begin.load(Ordering::Acquire) {
                outcome = Ok(());
                break;
            }
            // No bytes are handed over; they lie in the ring.
            if let Err(error) = rustix::net::send(&self.socket.fd, &[], SendFlags::DONTWAIT) {
                outcome = Err(error.into());
                if !matches!(error, Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) {
                    break;
                }
            }
        }
        self.reclaim();
        outcome
    }

    /// How many frames can be on their way.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Takes back what was sent.
    #[inline]
    fn reclaim(&mut self) {
        let begin = self.completed.consumer().load(Ordering::Relaxed);
        let end = self.completed.producer().load(Ordering::Acquire);
        let count = end.wrapping_sub(begin);
        for number in 0..count {
            // Never more than there are, so that the list does not grow.
            self.free.push(self.completed.get(begin.wrapping_add(number), 0));
        }
        if count > 0 {
            self.completed.consumer().store(end, Ordering::Release);
        }
    }
}

impl Socket {
    #[inline]
    fn frame(&self, offset: u64, length: usize) -> &[u8] {
        let begin = (offset as usize).min(self.memory.length());
        let length = length.min(self.memory.length() - begin);
        // SAFETY: the range lies in the mapping, and the kernel does not write to it before it is given back.
        unsafe { std::slice::from_raw_parts(self.memory.start().add(begin).as_ptr(), length) }
    }
}

impl Ring {
    fn map(
        fd: &OwnedFd,
        offset: u64,
        places: &XdpRingOffset,
        size: usize,
        entry_bytes: usize,
    ) -> io::Result<Ring> {
        let entries = places.desc as usize;
        let mapping = Mapping::shared(fd.as_fd(), entries + size * entry_bytes, offset)?;
        let (producer, consumer) = (places.producer as usize, places.consumer as usize);
        Ok(Ring { mapping, producer, consumer, entries, mask: size as u32 - 1, entry_bytes })
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: the kernel has said that the word lies here, aligned, and both sides access it as a word.
        unsafe { AtomicU32::from_ptr(self.mapping.start().add(self.producer).as_ptr().cast()) }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.mapping.start().add(self.consumer).as_ptr().cast()) }
    }

    /// The place of eight bytes of the entry with this running number.
    #[inline]
    fn place(&self, number: u32, within: usize) -> *mut u64 {
        let at = self.entries + (number & self.mask) as usize * self.entry_bytes + within;
        // SAFETY: the mask keeps it inside of the mapping, which is as long as all entries.
        unsafe { self.mapping.start().add(at).as_ptr().cast() }
    }

    #[inline]
    fn get(&self, number: u32, within: usize) -> u64 {
        // SAFETY: it lies in the mapping, entries are aligned to 8 bytes, and the kernel has handed this one over.
        unsafe { self.place(number, within).read() }
    }

    #[inline]
    fn put(&mut self, number: u32, within: usize, value: u64) {
        // SAFETY: as above; this one has not been handed over to the kernel yet.
        unsafe { self.place(number, within).write(value) }
    }

    /// Hands the next `count` entries over.
    #[inline]
    fn produce(&mut self, count: u32) {
        let producer = self.producer();
        producer.store(producer.load(Ordering::Relaxed).wrapping_add(count), Ordering::Release);
    }
}
