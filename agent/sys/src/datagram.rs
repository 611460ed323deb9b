//! UDP sockets: one datagram a call, several a call, or several cut and joined by the kernel.
//!
//! The memory of [`Incoming`] and [`Outgoing`] is taken when they are made; their calls take none.

use std::io;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{null_mut, NonNull};

use iodyno_core::units::Nanos;
use rustix::net::{ipproto, sockopt, SocketType};

use crate::buffer::Mapping;
use crate::socket::{self, blank_message, checked, count};
use crate::socket_option;

/// Most datagrams that the kernel cuts from one call: `UDP_MAX_SEGMENTS` of kernels before 6.9.
pub const MOST_SEGMENTS: usize = 64;
/// Most bytes of one call with segments, and of what was joined: what the length field of UDP over IPv4 holds.
pub const MOST_SEGMENTED_BYTES: usize = 65_507;

/// Which calls move datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// `sendto` and `recvfrom`.
    Plain,
    /// `sendmsg` and `recvmsg`.
    Message,
    /// `sendmmsg` and `recvmmsg`.
    Batch,
    /// `send` of many that the kernel cuts (`UDP_SEGMENT`), `recvmsg` of many that it joined (`UDP_GRO`).
    Segments,
}

/// What a call does when it cannot do anything at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// As the socket has it.
    Waits,
    /// It gives `EAGAIN`.
    Returns,
}

impl Patience {
    fn flag(self) -> libc::c_int {
        match self {
            Patience::Waits => 0,
            Patience::Returns => libc::MSG_DONTWAIT,
        }
    }
}

/// A non-blocking UDP socket of the family of `address`.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOBUFS`, `EAFNOSUPPORT`.
pub fn udp(address: &SocketAddr) -> io::Result<OwnedFd> {
    let (family, flags) = (socket::family(address), socket::flags(false));
    Ok(rustix::net::socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))?)
}

/// Has the kernel cut whatever is handed over in one call into datagrams of `bytes` (Linux 4.18).
///
/// # Errors
/// `ENOPROTOOPT` where the kernel cannot.
pub fn cut_into(socket: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    socket_option::set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, &i32::from(bytes))
}

/// Has the kernel hand over datagrams of one flow joined (Linux 5.0).
///
/// # Errors
/// `ENOPROTOOPT` where the kernel cannot.
pub fn join(socket: BorrowedFd<'_>) -> io::Result<()> {
    socket_option::set(socket, libc::SOL_UDP, libc::UDP_GRO, &1_i32)
}

/// Longest packet that the path of a connected socket takes, as this host knows it.
///
/// # Errors
/// `ENOTCONN`.
pub fn path_mtu(socket: BorrowedFd<'_>, ipv4: bool) -> io::Result<u32> {
    Ok(if ipv4 { sockopt::ip_mtu(socket) } else { sockopt::ipv6_mtu(socket) }?)
}

/// Has calls that wait to receive give `EAGAIN` after so long; the kernel rounds it up to its ticks.
///
/// # Errors
/// What the kernel said.
pub fn wait_at_most(socket: BorrowedFd<'_>, longest: Nanos) -> io::Result<()> {
    let mut time = socket::timeval(longest);
    // Not 0, which would mean for ever.
    time.tv_usec = time.tv_usec.max(1);
    socket_option::set(socket, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &time)
}

/// An address as the kernel writes it, of whichever family: as long as `struct sockaddr_in6`.
#[repr(C, align(4))]
#[derive(Clone, Copy)]
pub(crate) struct Address([u8; size_of::<libc::sockaddr_in6>()]);

/// Where a datagram came from.
#[derive(Clone, Copy)]
pub struct Peer {
    form: Address,
    length: libc::socklen_t,
}

impl Peer {
    fn blank() -> Self {
        Peer { form: Address([0; size_of::<Address>()]), length: size_of::<Address>() as libc::socklen_t }
    }

    /// That of an address as the kernel has written it; of what is longer, the beginning.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let mut peer = Peer::blank();
        let length = bytes.len().min(size_of::<Address>());
        peer.form.0[..length].copy_from_slice(&bytes[..length]);
        peer.length = length as libc::socklen_t;
        peer
    }
}

/// Sends one datagram to `peer` without waiting.
///
/// # Errors
/// `EAGAIN` and what the kernel said.
pub fn send_to(socket: BorrowedFd<'_>, datagram: &[u8], peer: &Peer) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let address = peer.form.0.as_ptr().cast();
    // SAFETY: the kernel reads the length of `datagram` and of the address, which have that many bytes.
    count(unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            datagram.as_ptr().cast(),
            datagram.len(),
            flags,
            address,
            peer.length,
        )
    })
}

/// What one entry of a call points to.
type Entry = libc::mmsghdr;

fn blank_entries(entries: usize) -> Box<[Entry]> {
    (0..entries).map(|_| libc::mmsghdr { msg_hdr: blank_message(), msg_len: 0 }).collect()
}

/// Room for one control message with an integer: its header, the integer, and what aligns it.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 32]);

/// Datagrams taken from a socket.
pub struct Incoming {
    calls: Calls,
    memory: Mapping,
    /// Room of one entry.
    room: usize,
    entries: Box<[Entry]>,
    // What the entries point to; a box does not move when its owner does.
    vectors: Box<[libc::iovec]>,
    peers: Box<[Peer]>,
    control: Box<Control>,
    /// Whether it is asked where datagrams come from.
    named: bool,
    /// Length of each datagram of what was joined.
    segment: usize,
    /// Bytes of the only entry of all calls but [`Calls::Batch`].
    length: usize,
}

// SAFETY: the pointers inside lead to memory that the value owns.
unsafe impl Send for Incoming {}

impl Incoming {
    /// Room for up to `messages` datagrams a call of `bytes` each, for `calls`. What is longer is cut off.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn new(calls: Calls, messages: usize, bytes: usize) -> io::Result<Self> {
        let (entries, room) = match calls {
            Calls::Plain | Calls::Message => (1, bytes),
            Calls::Batch => (messages.max(1), bytes),
            Calls::Segments => (1, 1 << 16),
        };
        let memory = Mapping::new((entries * room).max(1))?;
        let mut incoming = Incoming {
            calls,
            memory,
            room,
            entries: blank_entries(entries),
            vectors: vec![libc::iovec { iov_base: null_mut(), iov_len: 0 }; entries].into(),
            peers: vec![Peer::blank(); entries].into(),
            control: Box::new(Control([0; 32])),
            named: true,
            segment: 0,
            length: 0,
        };
        for at in 0..entries {
            let base = incoming.place(at * room);
            let vector = &mut incoming.vectors[at];
            *vector = libc::iovec { iov_base: base.as_ptr().cast(), iov_len: room };
            let header = &mut incoming.entries[at].msg_hdr;
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_name = std::ptr::from_mut(&mut incoming.peers[at].form).cast();
        }
        Ok(incoming)
    }

    /// Without asking where datagrams come from, which a connected socket knows.
    #[must_use]
    pub fn from_one_peer(mut self) -> Self {
        self.named = false;
        self.entries.iter_mut().for_each(|entry| entry.msg_hdr.msg_name = null_mut());
        self
    }

    fn place(&self, offset: usize) -> NonNull<u8> {
        // SAFETY: every offset that is asked for lies within the mapping.
        unsafe { self.memory.start().add(offset) }
    }

    /// Takes what there is, as many datagrams as one call gives; how many. 0: the socket was shut.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`, `ECONNREFUSED` (nobody listens at the other end), ...
    #[inline]
    pub fn receive(&mut self, socket: BorrowedFd<'_>, patience: Patience) -> io::Result<usize> {
        let flag = patience.flag();
        let fd = socket.as_raw_fd();
        match self.calls {
            Calls::Plain => {
                let place = self.memory.start().as_ptr().cast();
                let mut length = size_of::<Address>() as libc::socklen_t;
                let (peer, room) = if self.named {
                    (std::ptr::from_mut(&mut self.peers[0].form).cast(), &raw mut length)
                } else {
                    (null_mut(), null_mut())
                };
                // SAFETY: the kernel writes at most `room` bytes into the mapping, which has that many, and at most
                // `length` into the address, which has that many; null: it is not asked for.
                let received = count(unsafe { libc::recvfrom(fd, place, self.room, flag, peer, room) })?;
                self.peers[0].length = length;
                self.length = received;
                Ok(usize::from(received > 0))
            }
            Calls::Message | Calls::Segments => {
                let joins = self.calls == Calls::Segments;
                let header = &mut self.entries[0].msg_hdr;
                header.msg_namelen = if self.named { size_of::<Address>() as libc::socklen_t } else { 0 };
                if joins {
                    header.msg_control = std::ptr::from_mut(&mut *self.control).cast();
                    header.msg_controllen = size_of::<Control>() as _;
                }
                // SAFETY: every pointer of the header leads to memory of `self` of the length beside it.
                let received = count(unsafe { libc::recvmsg(fd, header, flag) })?;
                self.peers[0].length = header.msg_namelen;
                self.length = received;
                if received == 0 {
                    return Ok(0);
                }
                if !joins {
                    return Ok(1);
                }
                self.segment = self.segment_of(received);
                Ok(received.div_ceil(self.segment))
            }
            Calls::Batch => {
                for (entry, vector) in self.entries.iter_mut().zip(&mut self.vectors) {
                    entry.msg_hdr.msg_namelen =
                        if self.named { size_of::<Address>() as libc::socklen_t } else { 0 };
                    vector.iov_len = self.room;
                }
                let most = self.entries.len() as libc::c_uint;
                // The first is waited for, what follows is not.
                let flag = if flag == 0 { libc::MSG_WAITFORONE } else { flag };
                // Flags are signed in one C library and unsigned in another.
                // SAFETY: every pointer of the entries leads to memory of `self` of the length beside it.
                let received = checked(unsafe {
                    libc::recvmmsg(fd, self.entries.as_mut_ptr(), most, flag as _, null_mut())
                })?;
                let received = received as usize;
                if received == 1 && self.entries[0].msg_len == 0 {
                    return Ok(0);
                }
                for (peer, entry) in self.peers.iter_mut().zip(&self.entries[..received]) {
                    peer.length = entry.msg_hdr.msg_namelen;
                }
                Ok(received)
            }
        }
    }

    /// Length of each datagram of `received` joined bytes: what the kernel says of it, or all of it.
    fn segment_of(&self, received: usize) -> usize {
        let header = &self.entries[0].msg_hdr;
        // SAFETY: the header and its control memory are what `recvmsg` left, and live as long as `self`.
        unsafe {
            let message = libc::CMSG_FIRSTHDR(header);
            if !message.is_null()
                && (*message).cmsg_level == libc::SOL_UDP
                && (*message).cmsg_type == libc::UDP_GRO
            {
                let size: libc::c_int = std::ptr::read_unaligned(libc::CMSG_DATA(message).cast());
                return usize::try_from(size).unwrap_or(received).clamp(1, received);
            }
        }
        received
    }

    /// One of the datagrams of the last call.
    #[inline]
    #[must_use]
    pub fn datagram(&self, at: usize) -> &[u8] {
        let (offset, length) = match self.calls {
            Calls::Plain | Calls::Message => (0, self.length),
            Calls::Batch => (at * self.room, (self.entries[at].msg_len as usize).min(self.room)),
            Calls::Segments => {
                let offset = (at * self.segment).min(self.length);
                (offset, self.segment.min(self.length - offset))
            }
        };
        // SAFETY: offset and length lie within the mapping, whose bytes are initialised (zero, or what the kernel
        // wrote) and which nobody writes to while `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.place(offset).as_ptr(), length) }
    }

    /// Where one of the datagrams of the last call came from.
    #[inline]
    #[must_use]
    pub fn peer(&self, at: usize) -> &Peer {
        match self.calls {
            Calls::Batch => &self.peers[at],
            _ => &self.peers[0],
        }
    }
}

/// Datagrams to be handed to a socket, of one length unless each is told its own.
pub struct Outgoing {
    calls: Calls,
    memory: Mapping,
    bytes: usize,
    entries: Box<[Entry]>,
    vectors: Box<[libc::iovec]>,
    peers: Box<[Peer]>,
}

// SAFETY: the pointers inside lead to memory that the value owns.
unsafe impl Send for Outgoing {}

impl Outgoing {
    /// Room for `messages` datagrams of `bytes`, filled with `pattern` as often as it takes.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn new(calls: Calls, messages: usize, bytes: usize, pattern: &[u8]) -> io::Result<Self> {
        let messages = messages.max(1);
        let memory = Mapping::new((messages * bytes).max(1))?;
        let mut outgoing = Outgoing {
            calls,
            memory,
            bytes,
            entries: blank_entries(messages),
            vectors: vec![libc::iovec { iov_base: null_mut(), iov_len: 0 }; messages].into(),
            peers: vec![Peer::blank(); messages].into(),
        };
        for at in 0..messages {
            let message = outgoing.message(at);
            for (place, byte) in message.iter_mut().zip(pattern.iter().cycle()) {
                *place = *byte;
            }
            let base = message.as_mut_ptr();
            outgoing.vectors[at] = libc::iovec { iov_base: base.cast(), iov_len: bytes };
            outgoing.entries[at].msg_hdr.msg_iov = &mut outgoing.vectors[at];
            outgoing.entries[at].msg_hdr.msg_iovlen = 1;
        }
        Ok(outgoing)
    }

    /// One datagram, to be written to.
    #[inline]
    pub fn message(&mut self, at: usize) -> &mut [u8] {
        assert!(at < self.entries.len());
        // SAFETY: the mapping has that many messages of that many bytes, initialised, and is borrowed alone.
        unsafe {
            let start = self.memory.start().add(at * self.bytes);
            std::slice::from_raw_parts_mut(start.as_ptr(), self.bytes)
        }
    }

    /// How long one of them is. Not for [`Calls::Segments`], which are all alike.
    ///
    /// # Panics
    /// Where that is more than there is room for.
    #[inline]
    pub fn set_length(&mut self, at: usize, bytes: usize) {
        assert!(bytes <= self.bytes);
        self.vectors[at].iov_len = bytes;
    }

    /// What the kernel is told of one of them.
    pub(crate) fn header(&self, at: usize) -> *const libc::msghdr {
        &self.entries[at].msg_hdr
    }

    /// All of the memory.
    pub(crate) fn whole(&self) -> (NonNull<u8>, usize) {
        (self.memory.start(), self.memory.length())
    }

    /// Whom one of them is for; without, to whom the socket is connected.
    #[inline]
    pub fn address(&mut self, at: usize, peer: &Peer) {
        self.peers[at] = *peer;
        let header = &mut self.entries[at].msg_hdr;
        header.msg_name = std::ptr::from_mut(&mut self.peers[at].form).cast();
        header.msg_namelen = peer.length;
    }

    /// Hands over those from `from` to before `to`, as many as one call takes; how many the kernel accepted.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`, `EMSGSIZE`, `ECONNREFUSED`, `ENETUNREACH`, `ENOBUFS`, ...
    #[inline]
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        from: usize,
        to: usize,
        patience: Patience,
    ) -> io::Result<usize> {
        assert!(from < to && to <= self.entries.len());
        let (fd, flag) = (socket.as_raw_fd(), patience.flag() | libc::MSG_NOSIGNAL);
        let header = &self.entries[from].msg_hdr;
        match self.calls {
            Calls::Plain | Calls::Segments => {
                let joins = self.calls == Calls::Segments;
                let messages = (to - from).min(MOST_SEGMENTS).min((MOST_SEGMENTED_BYTES / self.bytes).max(1));
                let bytes = if joins { messages * self.bytes } else { self.vectors[from].iov_len };
                let place = self.vectors[from].iov_base;
                let (name, length) = (header.msg_name.cast_const().cast(), header.msg_namelen);
                // SAFETY: one datagram, or `messages` one after the other, lie from `place` on within the mapping; the
                // address is null with length 0, or one of `peers` with its length.
                let sent = count(unsafe { libc::sendto(fd, place, bytes, flag, name, length) })?;
                Ok(if joins { sent / self.bytes } else { 1 })
            }
            Calls::Message => {
                // SAFETY: every pointer of the header leads to memory of `self` of the length beside it.
                count(unsafe { libc::sendmsg(fd, header, flag) }).map(|_| 1)
            }
            Calls::Batch => {
                let entries = &mut self.entries[from..to];
                // SAFETY: as above, for each of the entries.
                let sent = checked(unsafe {
                    libc::sendmmsg(fd, entries.as_mut_ptr(), entries.len() as libc::c_uint, flag as _)
                })?;
                Ok(sent as usize)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timed;
    use std::os::fd::AsFd;

    fn bound(address: &str) -> Option<(OwnedFd, SocketAddr)> {
        let address: SocketAddr = address.parse().unwrap();
        let socket = udp(&address).ok()?;
        socket::bind(socket.as_fd(), &address).ok()?;
        let address = socket::local_address(socket.as_fd()).unwrap();
        Some((socket, address))
    }

    fn readable(socket: BorrowedFd<'_>) -> bool {
        timed::wait_for(socket, timed::Until::Readable, Nanos(1_000_000_000)).unwrap()
    }

    #[test]
    fn every_kind_of_call_moves_whole_datagrams_there_and_back() {
        // A machine without IPv6 cannot bind ::1; the other family is tested anyway.
        let ends: Vec<_> = ["127.0.0.1:0", "[::1]:0"].into_iter().filter_map(bound).collect();
        assert!(!ends.is_empty());
        for (far, address) in ends {
            for calls in [Calls::Plain, Calls::Message, Calls::Batch, Calls::Segments] {
                let near = udp(&address).unwrap();
                socket::connect(near.as_fd(), &address).unwrap();
                if calls == Calls::Segments {
                    cut_into(near.as_fd(), 300).unwrap();
                    cut_into(far.as_fd(), 300).unwrap();
                    join(far.as_fd()).unwrap();
                }
                let mut outgoing = Outgoing::new(calls, 5, 300, b"abc").unwrap();
                (0..5).for_each(|at| outgoing.message(at)[0] = b'0' + at as u8);
                let mut sent = 0;
                while sent < 5 {
                    sent += outgoing.send(near.as_fd(), sent, 5, Patience::Waits).unwrap();
                }
                let mut incoming = Incoming::new(calls, 5, 400).unwrap();
                let mut back = Outgoing::new(calls, 5, 300, b"x").unwrap();
                let mut seen = Vec::new();
                while seen.len() < 5 {
                    assert!(readable(far.as_fd()), "{calls:?}");
                    let received = incoming.receive(far.as_fd(), Patience::Returns).unwrap();
                    for at in 0..received {
                        assert_eq!(incoming.datagram(at).len(), 300, "{calls:?}");
                        assert_eq!(&incoming.datagram(at)[1..4], b"bca");
                        seen.push(incoming.datagram(at)[0]);
                        back.address(at, incoming.peer(at));
                    }
                    let mut answered = 0;
                    while answered < received {
                        answered += back.send(far.as_fd(), answered, received, Patience::Waits).unwrap();
                    }
                }
                assert_eq!(seen, b"01234", "{calls:?}");
                let refused = incoming.receive(far.as_fd(), Patience::Returns).unwrap_err();
                assert_eq!(refused.raw_os_error(), Some(libc::EAGAIN));
                let mut answers = 0;
                while answers < 5 {
                    assert!(readable(near.as_fd()));
                    answers += incoming.receive(near.as_fd(), Patience::Returns).unwrap();
                }
                assert_eq!(answers, 5);
            }
        }
    }

    #[test]
    fn a_socket_that_is_shut_gives_nothing_and_does_not_wait() {
        let (socket, _) = bound("127.0.0.1:0").unwrap();
        socket::set_blocking(socket.as_fd(), true).unwrap();
        // Fails for a socket without a peer, and wakes whoever waits nevertheless.
        let _ = socket::shutdown(socket.as_fd(), socket::Direction::Both);
        for calls in [Calls::Plain, Calls::Message, Calls::Batch, Calls::Segments] {
            let mut incoming = Incoming::new(calls, 3, 100).unwrap();
            assert_eq!(incoming.receive(socket.as_fd(), Patience::Waits).unwrap(), 0, "{calls:?}");
        }
    }
}
