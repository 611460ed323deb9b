//! The link: one connection between the two ends of a script, beside its data, on which they keep in step.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};

use iodyno_core::units::Nanos;
use iodyno_sys::lock::locked;
use iodyno_sys::timed::{self, Until};
use iodyno_sys::{clock, errno, socket, tcp_info};

use super::stall::{Judgement, Stall, Wait};

/// chosen: an end that was not heard of for so long is gone.
pub(super) const SILENCE: Nanos = Nanos(10_000_000_000);
/// Longest text that is sent; longer ones are cut.
const MOST_TEXT: usize = 4_000;
const NUMBERS: usize = 6;
const HEAD_BYTES: usize = NUMBERS * 8;

/// What one end tells the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// What must be alike at both ends.
    Shape { groups: u64, threads: u64, transactions: u64, digest: u64 },
    /// Where connections of the other end are awaited.
    Addresses { tcp: u16, udp: u16, unix: u64, vsock: u16, sctp: u16 },
    /// A thread will do no more than so many iterations of a transaction.
    Ended { thread: u32, transaction: u32, iterations: u64 },
    /// All threads of a group have come to the end of a transaction.
    Gathered { group: u32, transaction: u32 },
    /// A thread has waited for a while.
    Stalled { thread: u32, stall: Stall },
    /// Its wait is over.
    Resumed { thread: u32 },
    /// Nothing is on its way that would end the other end's stall.
    Nothing { thread: u32, judgement: Judgement },
    /// Whether a thread is to wait before it opens more connections.
    Hold { thread: u32, held: bool },
    /// A thread has sent so many datagrams on a connection in a transaction, and sends no more in it.
    Sent { thread: u32, transaction: u32, connection: u32, datagrams: u64 },
    /// The windows of the job are over at this end: what breaks from now on is no failure.
    Cut,
    /// Every thread of this end is done.
    Done,
    /// This end lives.
    Beat,
    /// The job has failed at this end.
    Failed(String),
}

impl Message {
    fn numbers(&self) -> [u64; NUMBERS] {
        match *self {
            Message::Shape { groups, threads, transactions, digest } => {
                [1, groups, threads, transactions, digest, 0]
            }
            Message::Addresses { tcp, udp, unix, vsock, sctp } => {
                [2, u64::from(tcp), u64::from(udp), unix, u64::from(vsock), u64::from(sctp)]
            }
            Message::Ended { thread, transaction, iterations } => {
                [3, u64::from(thread), u64::from(transaction), iterations, 0, 0]
            }
            Message::Gathered { group, transaction } => {
                [4, u64::from(group), u64::from(transaction), 0, 0, 0]
            }
            Message::Stalled { thread, stall } => {
                let (wait, so_far) = stall.wait.numbers();
                let place = u64::from(stall.transaction) << 32 | u64::from(stall.operation);
                [5, u64::from(thread), u64::from(stall.serial), place, wait, so_far]
            }
            Message::Resumed { thread } => [6, u64::from(thread), 0, 0, 0, 0],
            Message::Nothing { thread, judgement: Judgement { stall, by } } => {
                [7, u64::from(thread), u64::from(stall), u64::from(by), 0, 0]
            }
            Message::Hold { thread, held } => [8, u64::from(thread), u64::from(held), 0, 0, 0],
            Message::Cut => [9, 0, 0, 0, 0, 0],
            Message::Done => [10, 0, 0, 0, 0, 0],
            Message::Beat => [11, 0, 0, 0, 0, 0],
            Message::Failed(ref text) => [12, cut(text).len() as u64, 0, 0, 0, 0],
            Message::Sent { thread, transaction, connection, datagrams } => {
                [13, u64::from(thread), u64::from(transaction), u64::from(connection), datagrams, 0]
            }
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let text = if let Message::Failed(text) = self { cut(text) } else { "" };
        let mut bytes = Vec::with_capacity(HEAD_BYTES + text.len());
        self.numbers().iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }

    fn of(numbers: [u64; NUMBERS], text: &str) -> Option<Message> {
        let [kind, a, b, c, d, e] = numbers;
        Some(match kind {
            1 => Message::Shape { groups: a, threads: b, transactions: c, digest: d },
            2 => {
                Message::Addresses { tcp: a as u16, udp: b as u16, unix: c, vsock: d as u16, sctp: e as u16 }
            }
            3 => Message::Ended { thread: a as u32, transaction: b as u32, iterations: c },
            4 => Message::Gathered { group: a as u32, transaction: b as u32 },
            5 => {
                let (transaction, operation) = ((c >> 32) as u32, c as u32);
                let wait = Wait::of((d, e))?;
                Message::Stalled {
                    thread: a as u32,
                    stall: Stall { serial: b as u32, transaction, operation, wait },
                }
            }
            6 => Message::Resumed { thread: a as u32 },
            7 => {
                Message::Nothing { thread: a as u32, judgement: Judgement { stall: b as u32, by: c as u32 } }
            }
            8 => Message::Hold { thread: a as u32, held: b != 0 },
            9 => Message::Cut,
            10 => Message::Done,
            11 => Message::Beat,
            12 => Message::Failed(text.to_owned()),
            13 => {
                let (thread, transaction, connection) = (a as u32, b as u32, c as u32);
                Message::Sent { thread, transaction, connection, datagrams: d }
            }
            _ => return None,
        })
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MOST_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The sending half, for many threads.
pub(super) struct Link {
    socket: OwnedFd,
    sending: Mutex<()>,
}

impl Link {
    /// On a connected, non-blocking socket.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        socket::set(socket.as_fd(), socket::Setting::NoDelay, 1)?;
        Ok(Link { socket, sending: Mutex::new(()) })
    }

    /// The least round trip to the other end that the kernel has seen; 0: it has seen none.
    pub(super) fn round_trip(&self) -> Nanos {
        let seen = tcp_info::read(self.socket.as_raw_fd()).ok();
        // A network stack that does not keep the least one may know what it is on average.
        let seen = seen.and_then(|info| info.min_rtt().filter(|least| least.0 > 0).or_else(|| info.rtt()));
        seen.unwrap_or_default()
    }

    /// Sends a message. Waits for room for `patience` at most: an end that does not read its link for so long is gone.
    pub(super) fn send(&self, message: &Message, patience: Nanos) -> io::Result<()> {
        let sending = locked(&self.sending);
        self.send_from(0, &sending, message, patience)
    }

    /// Tells that this end lives, unless that is told anyway: somebody is sending something, or waits for room to. So who
    /// reads the link never waits for the other end to read.
    pub(super) fn beat(&self) {
        let Ok(sending) = self.sending.try_lock() else { return };
        if let Ok(sent @ 1..) = socket::send(self.socket.as_fd(), &Message::Beat.bytes()) {
            // Of a message that was begun the rest must follow.
            let _ = self.send_from(sent, &sending, &Message::Beat, SILENCE);
        }
    }

    /// Sends a message from byte `sent` on.
    fn send_from(
        &self,
        mut sent: usize,
        _sending: &MutexGuard<'_, ()>,
        message: &Message,
        patience: Nanos,
    ) -> io::Result<()> {
        let bytes = message.bytes();
        let until = clock::monotonic().plus(patience);
        while sent < bytes.len() {
            match socket::send(self.socket.as_fd(), &bytes[sent..]) {
                Ok(count) => sent += count,
                Err(error) => match error.raw_os_error().unwrap_or(0) {
                    errno::EINTR => {}
                    errno::EAGAIN if clock::monotonic() < until => {
                        timed::wait_for(self.socket.as_fd(), Until::Writable, Nanos::MILLISECOND)?;
                    }
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }
}

/// The receiving half, for one thread.
#[derive(Default)]
pub(super) struct Receiver {
    bytes: Vec<u8>,
}

/// What came of an attempt to receive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    Message(Message),
    /// Nothing in the time.
    Nothing,
    /// The other end closed the link.
    End,
}

impl Receiver {
    /// The next message, waited for `time` at most.
    ///
    /// # Errors
    /// What the kernel said; `InvalidData` for what is no message.
    pub(super) fn receive(&mut self, link: &Link, time: Nanos) -> io::Result<Received> {
        if let Some(message) = self.next()? {
            return Ok(Received::Message(message));
        }
        match timed::wait_for(link.socket.as_fd(), Until::Readable, time) {
            Ok(true) => {}
            Ok(false) => return Ok(Received::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Received::Nothing),
            Err(error) => return Err(error),
        }
        let mut chunk = [0; 4096];
        match socket::receive_into(link.socket.as_fd(), &mut chunk) {
            Ok(0) => Ok(Received::End),
            Ok(count) => {
                self.bytes.extend_from_slice(&chunk[..count]);
                Ok(self.next()?.map_or(Received::Nothing, Received::Message))
            }
            Err(error) => match error.raw_os_error().unwrap_or(0) {
                errno::EAGAIN | errno::EINTR => Ok(Received::Nothing),
                _ => Err(error),
            },
        }
    }

    fn next(&mut self) -> io::Result<Option<Message>> {
        if self.bytes.len() < HEAD_BYTES {
            return Ok(None);
        }
        let mut numbers = [0; NUMBERS];
        for (number, bytes) in numbers.iter_mut().zip(self.bytes.chunks_exact(8)) {
            *number = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        let end = HEAD_BYTES + if numbers[0] == 12 { (numbers[1] as usize).min(MOST_TEXT) } else { 0 };
        if self.bytes.len() < end {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&self.bytes[HEAD_BYTES..end]).into_owned();
        self.bytes.drain(..end);
        Message::of(numbers, &text).map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_link_knows_its_round_trip_once_something_has_made_it() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        for socket in [near, far] {
            let link = Link::new(socket.into()).unwrap();
            assert!((1..10_000_000_000).contains(&link.round_trip().0), "{:?}", link.round_trip());
        }
        let (apart, _other) = UnixStream::pair().unwrap();
        let link = Link { socket: apart.into(), sending: Mutex::new(()) };
        assert_eq!(link.round_trip(), Nanos(0));
    }

    #[test]
    fn words_come_as_they_were_said() {
        let (near, far) = UnixStream::pair().unwrap();
        let messages = [
            Message::Shape { groups: 1, threads: 2, transactions: 3, digest: u64::MAX },
            Message::Addresses { tcp: 1, udp: 65_535, unix: 7, vsock: 60_000, sctp: 9 },
            Message::Ended { thread: 1, transaction: 2, iterations: 1 << 40 },
            Message::Gathered { group: 3, transaction: 4 },
            Message::Stalled {
                thread: 9,
                stall: Stall {
                    serial: 4,
                    transaction: 2,
                    operation: 1,
                    wait: Wait::Take { connection: 3, so_far: 1 << 50 },
                },
            },
            Message::Resumed { thread: 1 },
            Message::Nothing { thread: 1, judgement: Judgement { stall: 4, by: 7 } },
            Message::Hold { thread: 2, held: true },
            Message::Sent { thread: 2, transaction: 5, connection: 1_023, datagrams: 1 << 33 },
            Message::Failed("x".repeat(MOST_TEXT - 1) + "äöü"),
            Message::Cut,
            Message::Done,
            Message::Beat,
        ];
        // A Unix socket has no Nagle algorithm to turn off.
        let link = |socket: UnixStream| {
            socket.set_nonblocking(true).unwrap();
            Link { socket: socket.into(), sending: Mutex::new(()) }
        };
        let (near, far) = (link(near), link(far));
        let mut receiver = Receiver::default();
        for message in messages {
            near.send(&message, Nanos::SECOND).unwrap();
            let mut received = Received::Nothing;
            while received == Received::Nothing {
                received = receiver.receive(&far, Nanos::SECOND).unwrap();
            }
            let expected = match message {
                Message::Failed(_) => Message::Failed("x".repeat(MOST_TEXT - 1)),
                message => message,
            };
            assert_eq!(received, Received::Message(expected));
        }
        near.beat();
        assert_eq!(receiver.receive(&far, Nanos::SECOND).unwrap(), Received::Message(Message::Beat));
        // With no room for it, it is at once as good as sent.
        let begun = clock::monotonic();
        while socket::send(near.socket.as_fd(), &[0; 4096]).is_ok() {}
        near.beat();
        assert!(clock::monotonic().minus(begun) < Nanos::SECOND);
        drop(near);
        let mut rest = Vec::new();
        assert!(std::fs::File::from(far.socket.try_clone().unwrap()).read_to_end(&mut rest).is_ok());
        assert_eq!(receiver.receive(&far, Nanos::SECOND).unwrap(), Received::End);
    }
}
