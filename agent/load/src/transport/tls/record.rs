//! Records of TLS 1.3 (RFC 8446, section 5), sealed and opened in place, without taking memory.
//!
//! A record counts once the kernel has taken it whole: what the other end cannot open was not handed over. So the two
//! ends agree on every byte, however the load ends.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use iodyno_sys::lock::locked;
use iodyno_sys::{errno, socket};
use ring::aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305};
use rustls::{ConnectionTrafficSecrets, Error};

use super::handshake::Keeper;
use crate::workload::READ_BYTES;

pub(super) const HEADER_BYTES: usize = 5;
/// Most payload of a record (RFC 8446, 5.1).
const FRAGMENT_BYTES: usize = 1 << 14;
/// All three ciphers have tags of this length.
const TAG_BYTES: usize = 16;
/// The type of what is inside, behind the payload.
const TYPE_BYTES: usize = 1;
const OVERHEAD_BYTES: usize = HEADER_BYTES + TYPE_BYTES + TAG_BYTES;
/// Most that a record of another implementation may be long: 256 bytes of expansion (RFC 8446, 5.2).
pub(super) const MAX_RECORD_BYTES: usize = HEADER_BYTES + FRAGMENT_BYTES + 256;
/// chosen: records that one call hands over. With one, as many calls as records; with more, they leave the cache.
const RECORDS_A_CALL: usize = 4;
/// Records under one key of AES-GCM: 2^24.5 at full length keep the chance of an attack below 2^-57 (RFC 8446, 5.5).
/// ChaCha20-Poly1305 has no limit below the wrap of the sequence number.
const RECORDS_A_KEY: u64 = 1 << 24;

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;
/// The update of a key, which asks for none in return.
const UPDATE: [u8; 5] = [KEY_UPDATE, 0, 0, 1, 0];

/// The keys of one direction.
struct Keys {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
    /// Records after which the next keys are due.
    limit: u64,
}

impl Keys {
    fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Self, Error> {
        let (algorithm, key, iv, limit) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv, RECORDS_A_KEY),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv, RECORDS_A_KEY),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv, u64::MAX),
            _ => return Err(Error::General("a cipher that was not asked for".into())),
        };
        let unusable = |_| Error::General("a key of another length".into());
        let key = UnboundKey::new(algorithm, key.as_ref()).map(LessSafeKey::new).map_err(unusable)?;
        let iv = iv.as_ref().try_into().map_err(|_| Error::General("an IV of another length".into()))?;
        Ok(Keys { key, iv, sequence, limit })
    }

    /// The nonce of the next record (RFC 8446, 5.3).
    #[inline]
    fn nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, part) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= part;
        }
        self.sequence += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

fn broken() -> io::Error {
    io::Error::from_raw_os_error(errno::EBADMSG)
}

/// What is sent.
pub(crate) struct Sealer {
    keys: Keys,
    keeper: Arc<Mutex<Keeper>>,
    buffer: Vec<u8>,
    /// `start..end` of the buffer was not taken by the kernel.
    start: usize,
    end: usize,
    /// Where each record in it ends, and its payload; those from `first` on were not reported.
    records: [(usize, usize); RECORDS_A_CALL + 1],
    first: usize,
    count: usize,
}

impl Sealer {
    pub(super) fn new(
        secrets: (u64, ConnectionTrafficSecrets),
        keeper: Arc<Mutex<Keeper>>,
        longest: usize,
    ) -> Result<Self, Error> {
        // And a change of keys before them.
        let room = longest.clamp(1, RECORDS_A_CALL * FRAGMENT_BYTES) + (RECORDS_A_CALL + 1) * OVERHEAD_BYTES;
        Ok(Sealer {
            keys: Keys::new(secrets)?,
            keeper,
            buffer: vec![0; room + UPDATE.len()],
            start: 0,
            end: 0,
            records: [(0, 0); RECORDS_A_CALL + 1],
            first: 0,
            count: 0,
        })
    }

    /// Changes keys after fewer records than it has to.
    #[cfg(test)]
    pub(super) fn limit_key(&mut self, records: u64) {
        self.keys.limit = records;
    }

    /// Hands `bytes` over; gives how many are in records that the kernel took whole since the last call. After a
    /// refusal the same bytes must be offered again, or more that begin with them.
    #[inline]
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        if self.start == self.end {
            self.seal_all(bytes)?;
        }
        self.start += socket::send(socket, &self.buffer[self.start..self.end])?;
        let mut taken = 0;
        while self.first < self.count && self.records[self.first].0 <= self.start {
            taken += self.records[self.first].1;
            self.first += 1;
        }
        // A part of a record is nothing yet.
        if taken == 0 && !bytes.is_empty() {
            return Err(io::Error::from_raw_os_error(errno::EAGAIN));
        }
        Ok(taken)
    }

    fn seal_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        (self.start, self.end, self.first, self.count) = (0, 0, 0, 0);
        if self.keys.sequence >= self.keys.limit {
            self.change_keys()?;
        }
        for part in bytes.chunks(FRAGMENT_BYTES).take(RECORDS_A_CALL) {
            if self.end + part.len() + OVERHEAD_BYTES > self.buffer.len() {
                break;
            }
            self.seal(part, APPLICATION_DATA, part.len())?;
        }
        Ok(())
    }

    /// Appends a record.
    #[inline]
    fn seal(&mut self, content: &[u8], kind: u8, payload: usize) -> io::Result<()> {
        let inner = content.len() + TYPE_BYTES;
        let length = (inner + TAG_BYTES) as u16;
        let [high, low] = length.to_be_bytes();
        let header = [APPLICATION_DATA, 3, 3, high, low];
        let record = &mut self.buffer[self.end..self.end + HEADER_BYTES + inner + TAG_BYTES];
        record[..HEADER_BYTES].copy_from_slice(&header);
        let (text, tag) = record[HEADER_BYTES..].split_at_mut(inner);
        text[..content.len()].copy_from_slice(content);
        text[content.len()] = kind;
        let nonce = self.keys.nonce();
        let sealed = self.keys.key.seal_in_place_separate_tag(nonce, Aad::from(header), text);
        tag.copy_from_slice(sealed.map_err(|_| broken())?.as_ref());
        self.end += HEADER_BYTES + inner + TAG_BYTES;
        self.records[self.count] = (self.end, payload);
        self.count += 1;
        Ok(())
    }

    #[cold]
    fn change_keys(&mut self) -> io::Result<()> {
        self.seal(&UPDATE, HANDSHAKE, 0)?;
        let secrets = locked(&self.keeper).next(true);
        let limit = self.keys.limit;
        self.keys = secrets.and_then(Keys::new).map_err(|_| broken())?;
        self.keys.limit = limit;
        Ok(())
    }

    /// Says that nothing more comes, unless a record is cut.
    pub(super) fn close(&mut self, socket: BorrowedFd<'_>) {
        if self.start == self.end {
            (self.start, self.end, self.first, self.count) = (0, 0, 0, 0);
            if self.seal(&CLOSE_NOTIFY, ALERT, 0).is_ok() {
                // Where there is no room for it, the end of the connection says the same.
                let _ = socket::send(socket, &self.buffer[..self.end]);
            }
        }
    }
}

/// What is received.
pub(crate) struct Opener {
    keys: Keys,
    keeper: Arc<Mutex<Keeper>>,
    buffer: Vec<u8>,
    /// `start..end` of the buffer was not opened.
    start: usize,
    end: usize,
    /// Payload that was opened and not taken.
    available: usize,
    ended: bool,
}

impl Opener {
    pub(super) fn new(
        secrets: (u64, ConnectionTrafficSecrets),
        keeper: Arc<Mutex<Keeper>>,
        longest: usize,
        came: &[u8],
    ) -> Result<Self, Error> {
        // As long as a read of other transports, and the cut record of the read before.
        let room = longest.saturating_mul(2).min(READ_BYTES) + MAX_RECORD_BYTES;
        let mut buffer = vec![0; room.max(came.len())];
        buffer[..came.len()].copy_from_slice(came);
        let keys = Keys::new(secrets)?;
        Ok(Opener { keys, keeper, buffer, start: 0, end: came.len(), available: 0, ended: false })
    }

    /// Payload that was received and not taken.
    pub(super) fn available(&self) -> usize {
        self.available
    }

    /// Takes up to `most` bytes of payload and forgets them; 0: the other end sends no more.
    #[inline]
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
        loop {
            self.open_all()?;
            if self.available > 0 {
                let taken = self.available.min(most);
                self.available -= taken;
                return Ok(taken);
            }
            if self.ended {
                return Ok(0);
            }
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            match socket::receive_into(socket, &mut self.buffer[self.end..])? {
                0 => self.ended = true,
                count => self.end += count,
            }
        }
    }

    /// Opens every record that is there whole.
    #[inline]
    fn open_all(&mut self) -> io::Result<()> {
        while !self.ended {
            let came = &mut self.buffer[self.start..self.end];
            let Some(&header) = came.first_chunk::<HEADER_BYTES>() else { return Ok(()) };
            let length = HEADER_BYTES + usize::from(u16::from_be_bytes([header[3], header[4]]));
            if length > MAX_RECORD_BYTES {
                return Err(broken());
            }
            if came.len() < length {
                return Ok(());
            }
            let nonce = self.keys.nonce();
            let record = &mut came[HEADER_BYTES..length];
            let opened = self.keys.key.open_in_place(nonce, Aad::from(header), record);
            let inner = opened.map_err(|_| broken())?;
            // Zeros that others pad with stand behind the type.
            let kind_at = inner.iter().rposition(|byte| *byte != 0).ok_or_else(broken)?;
            self.start += length;
            match inner[kind_at] {
                APPLICATION_DATA => self.available += kind_at,
                HANDSHAKE => {
                    let (from, to) = (self.start - length + HEADER_BYTES, kind_at);
                    self.hear(from, from + to)?;
                }
                // A warning ends the stream as an error does: RFC 8446 has no other alerts (6.1, 6.2).
                ALERT => self.ended = true,
                _ => return Err(broken()),
            }
        }
        Ok(())
    }

    /// Messages of the handshake that come after it, in `from..to` of the buffer.
    #[cold]
    fn hear(&mut self, mut from: usize, to: usize) -> io::Result<()> {
        let mut keeper = locked(&self.keeper);
        while from < to {
            let message = &self.buffer[from..to];
            let Some(&[kind, a, b, c]) = message.first_chunk() else { return Err(broken()) };
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            let content = message.get(4..4 + length).ok_or_else(broken)?;
            match kind {
                NEW_SESSION_TICKET => keeper.keep_ticket(content).map_err(|_| broken())?,
                KEY_UPDATE => self.keys = keeper.next(false).and_then(Keys::new).map_err(|_| broken())?,
                _ => return Err(broken()),
            }
            from += 4 + length;
        }
        Ok(())
    }
}
