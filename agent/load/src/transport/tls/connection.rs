//! One connection of rustls, by its unbuffered API: it seals and opens records, this end owns their buffers.

use std::io;
use std::os::fd::BorrowedFd;

use iodyno_sys::{errno, socket};
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{CommonState, Error};

use crate::joining::READ_BYTES;

const HEADER_BYTES: usize = 5;
/// Most payload of a record (RFC 8446, 5.1).
const FRAGMENT_BYTES: usize = 1 << 14;
/// Most that the rest of a record takes (RFC 8446, 5.2). rustls takes 17, which leaves room for a change of keys.
const EXPANSION_BYTES: usize = HEADER_BYTES + 256;
/// chosen: records that one call hands over. With one, as many calls as records; with more, they leave the cache.
const RECORDS_A_CALL: usize = 4;

pub(super) fn broken() -> io::Error {
    io::Error::from_raw_os_error(errno::EBADMSG)
}

/// The state of either side.
pub(super) enum Connection {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// The outcome of one step of rustls.
enum Turn {
    Again,
    /// Records with so much payload were opened.
    Payload(usize),
    /// Nothing to do before more bytes come.
    Idle,
    Ended,
}

impl Connection {
    pub(super) fn common(&self) -> &CommonState {
        match self {
            Connection::Client(client) => client,
            Connection::Server(server) => server,
        }
    }

    /// Takes a step with what came; gives how much of it was used.
    fn step(&mut self, came: &mut [u8], outgoing: &mut Vec<u8>) -> (usize, Result<Turn, Error>) {
        match self {
            Connection::Client(client) => follow(client.process_tls_records(came), outgoing),
            Connection::Server(server) => follow(server.process_tls_records(came), outgoing),
        }
    }
}

/// Does what rustls asks for.
fn follow<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    outgoing: &mut Vec<u8>,
) -> (usize, Result<Turn, Error>) {
    let mut used = status.discard;
    let turn = status.state.and_then(|state| match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            let mut payload = 0;
            while let Some(record) = traffic.next_record() {
                let record = record?;
                used += record.discard;
                payload += record.payload.len();
            }
            Ok(Turn::Payload(payload))
        }
        ConnectionState::EncodeTlsData(mut data) => {
            if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
                let at = outgoing.len();
                outgoing.resize(at + size.required_size, 0);
                data.encode(&mut outgoing[at..]).map_err(|error| Error::General(error.to_string()))?;
            }
            Ok(Turn::Again)
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Ok(Turn::Again)
        }
        ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) => Ok(Turn::Idle),
        ConnectionState::PeerClosed | ConnectionState::Closed => Ok(Turn::Ended),
        _ => Err(Error::General("early data, which was not asked for".into())),
    });
    (used, turn)
}

/// What is received.
#[derive(Default)]
pub(super) struct Incoming {
    buffer: Vec<u8>,
    /// `start..end` of the buffer was not opened.
    start: usize,
    end: usize,
    /// Payload that was opened and not taken.
    pub available: usize,
    pub ended: bool,
}

impl Incoming {
    pub(super) fn new(longest: usize) -> Self {
        // As long as a read of other transports, and the cut record of the read before.
        let room = longest.saturating_mul(2).min(READ_BYTES) + FRAGMENT_BYTES + EXPANSION_BYTES;
        Incoming { buffer: vec![0; room], start: 0, end: 0, available: 0, ended: false }
    }

    /// Has rustls use all that came; what it says to that is appended to `outgoing`.
    pub(super) fn process(
        &mut self,
        connection: &mut Connection,
        outgoing: &mut Vec<u8>,
    ) -> Result<(), Error> {
        loop {
            let (used, turn) = connection.step(&mut self.buffer[self.start..self.end], outgoing);
            self.start += used;
            match turn? {
                Turn::Again => {}
                Turn::Payload(bytes) => self.available += bytes,
                // rustls keeps where in the buffer such a message began, and what is sent has another buffer.
                Turn::Idle if self.holds_record() && !connection.common().is_handshaking() => {
                    return Err(Error::General("a message that goes on in another record".into()));
                }
                Turn::Idle => return Ok(()),
                Turn::Ended => {
                    self.ended = true;
                    return Ok(());
                }
            }
        }
    }

    /// Whether a whole record is left: a part of a message that goes on in the next.
    fn holds_record(&self) -> bool {
        let came = &self.buffer[self.start..self.end];
        came.first_chunk::<HEADER_BYTES>().is_some_and(|header| {
            came.len() - HEADER_BYTES >= usize::from(u16::from_be_bytes([header[3], header[4]]))
        })
    }

    /// Reads once; gives how many bytes came, 0 at the end.
    pub(super) fn read(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let count = socket::receive_into(socket, &mut self.buffer[self.end..])?;
        self.end += count;
        Ok(count)
    }
}

/// What is sent.
///
/// A record counts once the kernel has taken it whole: what the other end cannot open was not handed over. So the two
/// ends agree on every byte, however the load ends.
pub(super) struct Outgoing {
    buffer: Vec<u8>,
    /// `start..end` of the buffer was not taken by the kernel.
    start: usize,
    end: usize,
    /// Where each record in it ends, and its payload; those from `first` on were not reported.
    records: [(usize, usize); RECORDS_A_CALL],
    first: usize,
    count: usize,
}

impl Outgoing {
    pub(super) fn new(longest: usize) -> Self {
        let room = longest.clamp(1, RECORDS_A_CALL * FRAGMENT_BYTES) + RECORDS_A_CALL * EXPANSION_BYTES;
        let records = [(0, 0); RECORDS_A_CALL];
        Outgoing { buffer: vec![0; room], start: 0, end: 0, records, first: 0, count: 0 }
    }

    /// Whether the kernel took all of it.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Seals as much of `bytes` as goes into one call, or the end of the stream for `None`. The buffer must be empty.
    pub(super) fn seal(&mut self, connection: &mut Connection, bytes: Option<&[u8]>) -> io::Result<()> {
        match connection {
            Connection::Client(client) => self.fill(client.process_tls_records(&mut []), bytes),
            Connection::Server(server) => self.fill(server.process_tls_records(&mut []), bytes),
        }
    }

    fn fill<Data>(&mut self, status: UnbufferedStatus<'_, '_, Data>, bytes: Option<&[u8]>) -> io::Result<()> {
        (self.start, self.end, self.first, self.count) = (0, 0, 0, 0);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state else { return Err(broken()) };
        let Some(bytes) = bytes else {
            self.end = traffic.queue_close_notify(&mut self.buffer).map_err(|_| broken())?;
            return Ok(());
        };
        for part in bytes.chunks(FRAGMENT_BYTES).take(RECORDS_A_CALL) {
            if self.end + part.len() + EXPANSION_BYTES > self.buffer.len() {
                break;
            }
            self.end += traffic.encrypt(part, &mut self.buffer[self.end..]).map_err(|_| broken())?;
            self.records[self.count] = (self.end, part.len());
            self.count += 1;
        }
        Ok(())
    }

    /// Hands over what was sealed; gives the payload of the records that the kernel took whole since the last call.
    pub(super) fn hand_over(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.start += socket::send(socket, &self.buffer[self.start..self.end])?;
        let mut taken = 0;
        while self.first < self.count && self.records[self.first].0 <= self.start {
            taken += self.records[self.first].1;
            self.first += 1;
        }
        Ok(taken)
    }
}
