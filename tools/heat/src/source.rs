//! Where a trace comes from: a file or a pipe, plain or compressed.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::os::unix::fs::FileExt;

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

/// Bytes at the beginning of a trace that its form is recognised by.
pub const HEAD_BYTES: usize = 64 << 10;

/// How the bytes of a source are packed (magic numbers: RFC 1952, RFC 8878).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As they are.
    Plain,
    /// gzip, any number of members.
    Gzip,
    /// Zstandard, any number of frames.
    Zstd,
}

impl Packing {
    fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Packing::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
            // A skippable frame may come first.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
            _ => Packing::Plain,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Packing::Plain => "plain",
            Packing::Gzip => "gzip",
            Packing::Zstd => "zstd",
        }
    }
}

/// A trace that can be read: again and again where it is a file, once where it is a pipe.
pub struct Source {
    /// How messages call it.
    pub name: String,
    /// How it is packed.
    pub packing: Packing,
    /// Its beginning, unpacked, at most [`HEAD_BYTES`].
    pub head: Vec<u8>,
    /// Its size as it lies there, where it is a file.
    pub file_bytes: Option<u64>,
    file: File,
    /// What was read of a pipe to look at it.
    taken: Vec<u8>,
}

impl Source {
    /// Looks at the beginning of `file`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(name: &str, file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let is_file = metadata.is_file();
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
        }
        let mut taken = Vec::with_capacity(HEAD_BYTES);
        if is_file {
            Positioned { file: &file, at: 0 }.take(HEAD_BYTES as u64).read_to_end(&mut taken)?;
        } else {
            (&file).take(HEAD_BYTES as u64).read_to_end(&mut taken)?;
        }
        let packing = Packing::of(&taken);
        let head = match packing {
            Packing::Plain => taken.clone(),
            _ => beginning(unpacked(Cursor::new(&taken), packing)),
        };
        let file_bytes = is_file.then_some(metadata.len());
        Ok(Source { name: name.to_owned(), packing, head, file_bytes, file, taken })
    }

    /// Whether it can be read again.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.file_bytes.is_some()
    }

    /// The file where any place of the trace can be read at once: it is one, and plain.
    #[must_use]
    pub fn random_access(&self) -> Option<(&File, u64)> {
        (self.packing == Packing::Plain).then_some((&self.file, self.file_bytes?))
    }

    /// Reads from the beginning, unpacked. A pipe can be read once.
    #[must_use]
    pub fn reader(&self) -> Box<dyn Read + '_> {
        if self.is_file() {
            unpacked(Positioned { file: &self.file, at: 0 }, self.packing)
        } else {
            unpacked(Cursor::new(&self.taken).chain(&self.file), self.packing)
        }
    }

    /// From now on it is read from the plain copy of it that `file` holds.
    pub fn move_to(&mut self, file: File, bytes: u64) {
        self.packing = Packing::Plain;
        self.file_bytes = Some(bytes);
        self.file = file;
        self.taken = Vec::new();
    }
}

fn unpacked<'a>(bytes: impl Read + 'a, packing: Packing) -> Box<dyn Read + 'a> {
    match packing {
        Packing::Plain => Box::new(bytes),
        Packing::Gzip => Box::new(MultiGzDecoder::new(bytes)),
        Packing::Zstd => Box::new(ZstdFrames { bytes: Some(BufReader::new(bytes)), frame: None }),
    }
}

/// What can be read of at most [`HEAD_BYTES`]; what cannot is found again, and said, when the whole is read.
fn beginning(mut from: impl Read) -> Vec<u8> {
    let mut head = vec![0; HEAD_BYTES];
    let mut filled = 0;
    while filled < head.len() {
        match from.read(&mut head[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    head.truncate(filled);
    head
}

/// Reads a file from a place of its own, whatever else reads it.
struct Positioned<'a> {
    file: &'a File,
    at: u64,
}

impl Read for Positioned<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

type Frame<R> = StreamingDecoder<BufReader<R>, ruzstd::decoding::FrameDecoder>;

/// Zstandard frames one after the other, as `zstd` and `pzstd` write them.
struct ZstdFrames<R: Read> {
    bytes: Option<BufReader<R>>,
    frame: Option<Frame<R>>,
}

impl<R: Read> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let count = frame.read(buffer)?;
                if count > 0 || buffer.is_empty() {
                    return Ok(count);
                }
                self.bytes = self.frame.take().map(StreamingDecoder::into_inner);
            }
            let Some(mut bytes) = self.bytes.take() else { return Ok(0) };
            if at_end(&mut bytes)? {
                return Ok(0);
            }
            if skip_frame(&mut bytes)? {
                self.bytes = Some(bytes);
                continue;
            }
            self.frame = Some(StreamingDecoder::new(bytes).map_err(io::Error::other)?);
        }
    }
}

fn at_end(bytes: &mut impl io::BufRead) -> io::Result<bool> {
    Ok(bytes.fill_buf()?.is_empty())
}

/// Skips a frame that says of itself that it may be (RFC 8878, 3.1.2), and says whether there was one.
fn skip_frame(bytes: &mut BufReader<impl Read>) -> io::Result<bool> {
    let [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] = bytes.buffer() else { return Ok(false) };
    let mut header = [0; 8];
    bytes.read_exact(&mut header)?;
    let length = u64::from(u32::from_le_bytes([header[4], header[5], header[6], header[7]]));
    if io::copy(&mut bytes.by_ref().take(length), &mut io::sink())? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(true)
}
