//! Datagrams over `io_uring`: one receive that goes on for all that comes, and sends that are handed over together.
//!
//! - Receives are multishot (Linux 6.0) and take buffers that the ring provides: a datagram lies in one of them until it
//!   is given back.
//! - A quiet send never waits: it is carried out while it is handed over, and completes only if it fails. So its memory
//!   is free again when the call that handed it over comes back.
//! - A counted send waits for room in the socket's buffer, and completes one way or the other.
//! - A send without a copy is taken from registered memory, which is free when the kernel says so.
//!
//! The ring owns all memory that the kernel uses, as [`crate::stream_ring`] does.

use std::io;
use std::mem::{size_of, ManuallyDrop};
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{BufRingEntry, Fixed, SubmitArgs, Timespec};
use io_uring::{cqueue, opcode, IoUring, Probe};

use iodyno_core::units::Nanos;

use crate::buffer::Mapping;
use crate::datagram::{Address, Calls, Outgoing, Peer};
use crate::ring_common::{cancel_all, publish, GROUP, REPORT_USAGE, USAGE_COPIED};
use crate::socket::blank_message;
use crate::stream_ring;

/// chosen: memory for datagrams that came and were not looked at, and bounds of how many.
const RECEIVED_BYTES: usize = 4 << 20;
const LEAST_BUFFERS: usize = 64;
const MOST_BUFFERS: usize = 1024;
/// `struct io_uring_recvmsg_out`: lengths of name, control and payload, and flags.
const OUT_BYTES: usize = 16;

/// What a request was, in the lowest bits of its number; above it the slot of a send, and above that its tag.
const RECEIVE: u64 = 0;
const QUIET: u64 = 1;
const COUNTED: u64 = 2;
const KIND_BITS: u32 = 2;
const SLOT_BITS: u32 = 16;

/// What a ring is to be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Room for a datagram that comes.
    pub received_bytes: usize,
    /// Whether it is asked where datagrams come from, which a connected socket knows.
    pub named: bool,
    /// Datagrams that can be on their way to the kernel at a time, up to 65 536.
    pub slots: usize,
    /// Room for each of them.
    pub sent_bytes: usize,
    /// Whether they are sent without a copy.
    pub zero_copy: bool,
}

/// A datagram that came, until it is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    buffer: u16,
    bytes: u32,
}

/// What the kernel said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A datagram came on a socket, named by its place.
    Received(u32, Came),
    /// A socket gave nothing: an empty datagram, or it was shut.
    Nothing(u32),
    /// A socket broke; the error number. Nothing more is received on it.
    Broken(u32, i32),
    /// A counted send with this tag and slot was accepted, or the error number.
    Sent(u32, u32, Result<(), i32>),
    /// A quiet send with this tag failed; the error number.
    Refused(u32, i32),
    /// The kernel needs the bytes of a send without a copy no longer; whether it copied them after all.
    Released(bool),
}

/// Whether this host's `io_uring` has what datagrams need.
///
/// # Errors
/// Why not.
pub fn available() -> Result<(), String> {
    stream_ring::available()?;
    let mut probe = Probe::new();
    let asked = IoUring::new(2).and_then(|ring| ring.submitter().register_probe(&mut probe));
    // Multishot receives cannot be asked for; they came with the same kernel as sends without a copy.
    match asked {
        Ok(()) if probe.is_supported(opcode::SendZc::CODE) => Ok(()),
        _ => Err("this kernel's io_uring has no multishot receive (Linux 6.0)".to_owned()),
    }
}

/// The buffers that receives take, as the kernel sees them.
struct Provided {
    entries: Mapping,
    memory: Mapping,
    buffer_bytes: usize,
    count: u16,
    tail: u16,
}

impl Provided {
    fn new(ring: &IoUring, buffer_bytes: usize) -> io::Result<Self> {
        let most = (RECEIVED_BYTES / buffer_bytes).clamp(LEAST_BUFFERS, MOST_BUFFERS);
        // Rounded down to a power of two, as the kernel wants it.
        let count = 1_usize << most.ilog2();
        let entries = Mapping::new(count * size_of::<BufRingEntry>())?;
        let memory = Mapping::new(count * buffer_bytes)?;
        let mut provided = Provided { entries, memory, buffer_bytes, count: count as u16, tail: 0 };
        // SAFETY: the mapping lives as long as the ring: `DatagramRing` drops the ring first.
        unsafe {
            let start = provided.entries.start().as_ptr() as u64;
            ring.submitter().register_buf_ring_with_flags(start, provided.count, GROUP, 0)?;
        }
        (0..provided.count).for_each(|number| provided.give(number));
        provided.publish();
        Ok(provided)
    }

    /// Puts a buffer where the kernel takes it once [`Provided::publish`] says so.
    #[inline]
    fn give(&mut self, number: u16) {
        let base = self.entries.start().cast::<BufRingEntry>();
        // SAFETY: the mask keeps the entry within the mapping; the kernel does not read it before the tail is behind it.
        // Its last two bytes, which are the tail in the first entry, are not written.
        unsafe {
            let entry = base.add(usize::from(self.tail & (self.count - 1))).as_mut();
            let place = self.memory.start().add(usize::from(number) * self.buffer_bytes);
            entry.set_addr(place.as_ptr() as u64);
            entry.set_len(self.buffer_bytes as u32);
            entry.set_bid(number);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    #[inline]
    fn publish(&mut self) {
        let base = self.entries.start().cast::<BufRingEntry>();
        // SAFETY: `base` is the first entry, and this thread alone has the ring.
        unsafe { publish(base, self.tail) };
    }

    /// A part of a buffer; as much of it as lies inside.
    #[inline]
    fn bytes(&self, number: u16, begin: usize, length: usize) -> &[u8] {
        let begin = begin.min(self.buffer_bytes);
        let length = length.min(self.buffer_bytes - begin);
        let number = usize::from(number % self.count);
        // SAFETY: the range lies in the mapping, whose bytes are initialised, and the kernel does not write into a buffer
        // that it has handed over.
        unsafe {
            let start = self.memory.start().add(number * self.buffer_bytes + begin);
            std::slice::from_raw_parts(start.as_ptr(), length)
        }
    }
}

/// A ring for the datagrams of one thread.
pub struct DatagramRing {
    // In this order: the ring ends before the memory that it uses.
    ring: ManuallyDrop<IoUring>,
    provided: ManuallyDrop<Provided>,
    outgoing: ManuallyDrop<Outgoing>,
    /// What a receive with a name asks for; its address is the kernel's until the receive ends.
    asked: ManuallyDrop<Box<libc::msghdr>>,
    shape: Shape,
    /// Slots of sends that are free.
    free: Vec<u16>,
    /// Those of quiet sends that were not handed over yet.
    handed: Vec<u16>,
    /// Sockets that receive nothing, and are to do so again.
    idle: Vec<u32>,
    /// Whether buffers were given back that the kernel does not know of.
    given: bool,
}

// SAFETY: the pointers inside lead to memory that the value owns; it is used by one thread at a time.
unsafe impl Send for DatagramRing {}

impl DatagramRing {
    /// A ring for `sockets`, which requests name by their place, with datagrams to be sent that are filled with
    /// `pattern`. Receives from the first [`DatagramRing::wait`] on. Must be made by the thread that uses it.
    ///
    /// # Errors
    /// `ENOMEM` (also: the limit of locked memory), `EMFILE`, or what [`available`] says.
    pub fn new(sockets: &[BorrowedFd<'_>], shape: Shape, pattern: &[u8]) -> io::Result<Self> {
        let slots = shape.slots.clamp(1, 1 << SLOT_BITS);
        let shape = Shape { slots, ..shape };
        let outgoing = Outgoing::new(Calls::Batch, slots, shape.sent_bytes, pattern)?;
        let requests = slots + sockets.len();
        let ring = stream_ring::build(requests, 2 * requests + MOST_BUFFERS)?;
        let numbers: Vec<i32> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
        ring.submitter().register_files(&numbers)?;
        if shape.zero_copy {
            let (start, length) = outgoing.whole();
            let part = libc::iovec { iov_base: start.as_ptr().cast(), iov_len: length };
            // SAFETY: the memory lives as long as the ring.
            unsafe { ring.submitter().register_buffers(&[part])? };
        }
        let name_bytes = if shape.named { size_of::<Address>() } else { 0 };
        let front = if shape.named { OUT_BYTES + name_bytes } else { 0 };
        let provided = Provided::new(&ring, (front + shape.received_bytes.max(1)).next_multiple_of(8))?;
        let mut asked = Box::new(blank_message());
        asked.msg_namelen = name_bytes as libc::socklen_t;
        Ok(DatagramRing {
            ring: ManuallyDrop::new(ring),
            provided: ManuallyDrop::new(provided),
            outgoing: ManuallyDrop::new(outgoing),
            asked: ManuallyDrop::new(asked),
            shape,
            free: (0..slots).rev().map(|slot| slot as u16).collect(),
            handed: Vec::with_capacity(slots),
            idle: (0..sockets.len() as u32).collect(),
            given: false,
        })
    }

    fn submit(&mut self, entry: Entry, number: u64) -> io::Result<()> {
        let entry = entry.user_data(number);
        // SAFETY: every entry that gets here names memory of this ring only, which outlives the request.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.ring.submit()?;
            self.handed_over();
        }
        Ok(())
    }

    /// What was handed over was carried out: quiet sends need their memory no longer.
    #[inline]
    fn handed_over(&mut self) {
        if !self.handed.is_empty() && self.ring.submission().is_empty() {
            self.free.append(&mut self.handed);
        }
    }

    /// Takes a free slot for a datagram of `bytes`; `None`: all are on their way.
    ///
    /// # Panics
    /// Where `bytes` are more than the ring was made for.
    #[inline]
    pub fn slot(&mut self, bytes: usize) -> Option<u16> {
        let slot = self.free.pop()?;
        self.outgoing.set_length(usize::from(slot), bytes);
        Some(slot)
    }

    /// The datagram of a slot, to be written to.
    #[inline]
    pub fn message(&mut self, slot: u16) -> &mut [u8] {
        self.outgoing.message(usize::from(slot))
    }

    /// Whom it is for: whom `came` is from. Without, to whom the socket is connected.
    #[inline]
    pub fn address(&mut self, slot: u16, came: Came) {
        let peer = self.peer(came);
        self.outgoing.address(usize::from(slot), &peer);
    }

    /// Gives a slot back that is not to be sent.
    #[inline]
    pub fn leave(&mut self, slot: u16) {
        self.free.push(slot);
    }

    /// Has the datagram of a slot sent by the socket at `place`. `counted`: it may wait, and completes either way.
    ///
    /// # Errors
    /// What the kernel said when the queue was full and had to be handed over.
    #[inline]
    pub fn send(&mut self, place: u32, slot: u16, tag: u32, counted: bool) -> io::Result<()> {
        let header = self.outgoing.header(usize::from(slot));
        // SAFETY: the header and what it points to live as long as the ring.
        let (start, length, name, name_bytes) = unsafe {
            let vector = &*(*header).msg_iov;
            (vector.iov_base, vector.iov_len as u32, (*header).msg_name, (*header).msg_namelen)
        };
        let patience = if counted { 0 } else { libc::MSG_DONTWAIT };
        let flags = libc::MSG_NOSIGNAL | patience;
        let number = (u64::from(tag) << (KIND_BITS + SLOT_BITS)) | (u64::from(slot) << KIND_BITS);
        if self.shape.zero_copy {
            let entry = opcode::SendZc::new(Fixed(place), start.cast(), length)
                .buf_index(Some(0))
                .dest_addr(name.cast_const().cast())
                .dest_addr_len(name_bytes)
                .zc_flags(REPORT_USAGE)
                .flags(flags)
                .build();
            return self.submit(entry, number | if counted { COUNTED } else { QUIET });
        }
        let entry = if name.is_null() {
            opcode::Send::new(Fixed(place), start.cast(), length).flags(flags).build()
        } else {
            opcode::SendMsg::new(Fixed(place), header).flags(flags as u32).build()
        };
        if counted {
            return self.submit(entry, number | COUNTED);
        }
        self.handed.push(slot);
        self.submit(entry.flags(Flags::SKIP_SUCCESS), number | QUIET)
    }

    /// Hands over what was asked for, and waits until `least` requests are complete or `timeout` has passed.
    ///
    /// # Errors
    /// What the kernel said; that the time has passed or a signal came is none.
    #[inline]
    pub fn wait(&mut self, least: usize, timeout: Option<Nanos>) -> io::Result<()> {
        if std::mem::take(&mut self.given) {
            self.provided.publish();
        }
        while let Some(place) = self.idle.pop() {
            let entry = if self.shape.named {
                let asked: *const libc::msghdr = &**self.asked;
                opcode::RecvMsgMulti::new(Fixed(place), asked, GROUP).build()
            } else {
                opcode::RecvMulti::new(Fixed(place), GROUP).build()
            };
            self.submit(entry, u64::from(place) << (KIND_BITS + SLOT_BITS) | RECEIVE)?;
        }
        let outcome = match timeout {
            None => self.ring.submit_and_wait(least),
            Some(span) => {
                let time = Timespec::new().sec(span.0 / 1_000_000_000).nsec((span.0 % 1_000_000_000) as u32);
                self.ring.submitter().submit_with_args(least, &SubmitArgs::new().timespec(&time))
            }
        };
        self.handed_over();
        match outcome {
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
            Ok(_) => Ok(()),
        }
    }

    /// The next completion that was not looked at.
    #[inline]
    pub fn take(&mut self) -> Option<Happened> {
        loop {
            let entry = self.ring.completion().next()?;
            if let Some(happened) = self.read(&entry) {
                return Some(happened);
            }
        }
    }

    /// `None`: it is no matter to anybody else.
    #[inline]
    fn read(&mut self, entry: &cqueue::Entry) -> Option<Happened> {
        let (number, flags, result) = (entry.user_data(), entry.flags(), entry.result());
        let tag = (number >> (KIND_BITS + SLOT_BITS)) as u32;
        let slot = (number >> KIND_BITS) as u16;
        if cqueue::notif(flags) {
            self.free.push(slot);
            return Some(Happened::Released(result as u32 & USAGE_COPIED != 0));
        }
        let kind = number & ((1 << KIND_BITS) - 1);
        if kind == RECEIVE {
            return self.received(tag, flags, result);
        }
        // Without a copy, the word that the memory is free comes later, if the kernel began at all.
        if self.shape.zero_copy && !cqueue::more(flags) || !self.shape.zero_copy && kind == COUNTED {
            self.free.push(slot);
        }
        let outcome = if result < 0 { Err(-result) } else { Ok(()) };
        match outcome {
            _ if kind == COUNTED => Some(Happened::Sent(tag, u32::from(slot), outcome)),
            Err(refused) => Some(Happened::Refused(tag, refused)),
            Ok(()) => None,
        }
    }

    #[inline]
    fn received(&mut self, place: u32, flags: u32, result: i32) -> Option<Happened> {
        let more = cqueue::more(flags);
        match (result, cqueue::buffer_select(flags)) {
            (1.., Some(buffer)) => {
                if !more {
                    self.idle.push(place);
                }
                let front = if self.shape.named { OUT_BYTES + size_of::<Address>() } else { 0 };
                let bytes = (result as u32).saturating_sub(front as u32);
                Some(Happened::Received(place, Came { buffer, bytes }))
            }
            // All buffers were taken, or a signal came: it is asked anew.
            (_, _) if matches!(-result, libc::ENOBUFS | libc::EAGAIN | libc::EINTR) => {
                self.idle.push(place);
                None
            }
            (0, given) => {
                given.into_iter().for_each(|buffer| self.give_back(Came { buffer, bytes: 0 }));
                if !more {
                    self.idle.push(place);
                }
                Some(Happened::Nothing(place))
            }
            _ => Some(Happened::Broken(place, -result)),
        }
    }

    /// The bytes of a datagram.
    #[inline]
    #[must_use]
    pub fn datagram(&self, came: Came) -> &[u8] {
        let front = if self.shape.named { OUT_BYTES + size_of::<Address>() } else { 0 };
        self.provided.bytes(came.buffer, front, came.bytes as usize)
    }

    /// Where it came from; of use only where the ring was made to ask.
    #[inline]
    #[must_use]
    pub fn peer(&self, came: Came) -> Peer {
        let lengths = self.provided.bytes(came.buffer, 0, 4);
        let said = lengths.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes)) as usize;
        let length = said.min(size_of::<Address>());
        Peer::of_bytes(self.provided.bytes(came.buffer, OUT_BYTES, length))
    }

    /// The datagram is not looked at any more.
    #[inline]
    pub fn give_back(&mut self, came: Came) {
        self.provided.give(came.buffer);
        self.given = true;
    }
}

impl Drop for DatagramRing {
    fn drop(&mut self) {
        // Where requests are to be named, there are no such rings.
        let cancelled = cancel_all(&mut self.ring, std::iter::empty());
        while self.take().is_some() {}
        // As of a stream's ring: not where the kernel may wait for who reads what was sent without a copy.
        if !self.shape.zero_copy || self.free.len() == self.shape.slots {
            let _ = self.ring.submitter().unregister_files();
        }
        // SAFETY: none of them is used after this.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            // Where requests may still be on their way, their memory stays.
            if cancelled {
                ManuallyDrop::drop(&mut self.provided);
                ManuallyDrop::drop(&mut self.outgoing);
                ManuallyDrop::drop(&mut self.asked);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{datagram, socket};
    use std::net::SocketAddr;
    use std::os::fd::AsFd;

    const SECOND: Option<Nanos> = Some(Nanos(1_000_000_000));

    fn shape(named: bool, zero_copy: bool) -> Shape {
        Shape { received_bytes: 400, named, slots: 8, sent_bytes: 300, zero_copy }
    }

    #[test]
    fn whole_datagrams_go_there_and_back_by_rings_and_their_memory_comes_back() {
        if available().is_err() {
            return;
        }
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        for zero_copy in [false, true] {
            let far = datagram::udp(&address).unwrap();
            socket::bind(far.as_fd(), &address).unwrap();
            let place = socket::local_address(far.as_fd()).unwrap();
            let near = datagram::udp(&place).unwrap();
            socket::connect(near.as_fd(), &place).unwrap();
            let mut asking = DatagramRing::new(&[near.as_fd()], shape(false, zero_copy), b"abc").unwrap();
            let mut serving = DatagramRing::new(&[far.as_fd()], shape(true, zero_copy), b"xyz").unwrap();
            serving.wait(0, Some(Nanos(0))).unwrap();
            // Far more than there are slots and buffers.
            for number in 0..3_000_u32 {
                let slot = loop {
                    match asking.slot(100 + number as usize % 200) {
                        Some(slot) => break slot,
                        None => {
                            asking.wait(1, SECOND).unwrap();
                            while asking.take().is_some() {}
                        }
                    }
                };
                asking.message(slot)[..4].copy_from_slice(&number.to_le_bytes());
                asking.send(0, slot, number, false).unwrap();
                asking.wait(0, Some(Nanos(0))).unwrap();
                let mut answered = false;
                while !answered {
                    serving.wait(1, SECOND).unwrap();
                    while let Some(happened) = serving.take() {
                        let Happened::Received(0, came) = happened else { continue };
                        let datagram = serving.datagram(came);
                        assert_eq!(datagram.len(), 100 + number as usize % 200);
                        assert_eq!(datagram[..4], number.to_le_bytes());
                        let slot = serving.slot(300).expect("a slot");
                        serving.message(slot)[..4].copy_from_slice(&number.to_le_bytes());
                        serving.address(slot, came);
                        serving.give_back(came);
                        serving.send(0, slot, 7, false).unwrap();
                        answered = true;
                    }
                }
                serving.wait(0, Some(Nanos(0))).unwrap();
                let mut came_back = false;
                while !came_back {
                    asking.wait(1, SECOND).unwrap();
                    while let Some(happened) = asking.take() {
                        if let Happened::Received(0, came) = happened {
                            assert_eq!(asking.datagram(came).len(), 300);
                            assert_eq!(asking.datagram(came)[..4], number.to_le_bytes());
                            asking.give_back(came);
                            came_back = true;
                        }
                    }
                }
                // What was sent without a copy is said to be free later.
                while zero_copy && serving.free.len() < 2 {
                    serving.wait(1, SECOND).unwrap();
                    while serving.take().is_some() {}
                }
            }
        }
    }

    #[test]
    fn a_counted_send_says_what_became_of_it_and_a_quiet_one_only_that_it_failed() {
        if available().is_err() {
            return;
        }
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let far = datagram::udp(&address).unwrap();
        socket::bind(far.as_fd(), &address).unwrap();
        let near = datagram::udp(&address).unwrap();
        socket::connect(near.as_fd(), &socket::local_address(far.as_fd()).unwrap()).unwrap();
        let mut ring = DatagramRing::new(&[near.as_fd()], shape(false, false), b"abc").unwrap();
        let slot = ring.slot(300).unwrap();
        ring.send(0, slot, 5, true).unwrap();
        ring.wait(1, SECOND).unwrap();
        assert_eq!(ring.take(), Some(Happened::Sent(5, u32::from(slot), Ok(()))));
        assert_eq!(ring.free.len(), 8);
        drop(far);
        // The first tells the kernel that nobody is there; what comes after it says so.
        let mut refused = Vec::new();
        for _ in 0..50 {
            let Some(slot) = ring.slot(300) else { break };
            ring.send(0, slot, 6, false).unwrap();
            ring.wait(0, Some(Nanos(1_000_000))).unwrap();
            refused.extend(std::iter::from_fn(|| ring.take()));
            if !refused.is_empty() {
                break;
            }
        }
        let gone = libc::ECONNREFUSED;
        let said =
            |one: &Happened| matches!(one, Happened::Refused(6, n) | Happened::Broken(0, n) if *n == gone);
        assert!(refused.iter().any(said), "{refused:?}");
        assert_eq!(ring.free.len(), 8);
    }
}
