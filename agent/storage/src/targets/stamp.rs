//! The stamp of a working set: a line behind it that says what was laid out, and whether that is complete; and what its
//! blocks hold.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use iodyno_core::random::Random;
use serde::{Deserialize, Serialize};

use super::wanted::Checked;

/// Bytes of the stamp.
pub const STAMP_BYTES: u64 = 4096;
/// Bytes of a block that carries its number.
pub const UNIT_BYTES: u64 = 4096;
pub(super) const CHUNK_BYTES: u64 = 1 << 20;
const MAGIC: &[u8] = b"iodyno working set ";
/// Of the content: random bytes, so that nothing below compresses or joins them.
pub(super) const SEED: u64 = 20_080_813;
/// Form of the content. 1: random bytes of another generator; such a file is made anew where its content would be looked at.
pub(super) const VERSION: u32 = 2;

/// How far a layout has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its content is being written.
    Building,
    /// All of it is on the disk.
    Complete,
}

/// What a file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Length of the working set.
    pub size_bytes: u64,
    /// How far its layout has come.
    pub state: State,
    /// Whether no load has written since.
    pub pristine: bool,
    /// Form of the content.
    pub version: u32,
    /// The part of it that loads with checks have written, all of it, and nobody else since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked: Option<Checked>,
}

impl Stamp {
    pub(super) fn new(size_bytes: u64, state: State, pristine: bool) -> Self {
        Self { size_bytes, state, pristine, version: VERSION, checked: None }
    }

    /// Writes the stamp behind the working set.
    pub(super) fn write(&self, file: &File) -> io::Result<()> {
        let mut block = MAGIC.to_vec();
        block.extend(serde_json::to_vec(self)?);
        block.push(b'\n');
        block.resize(STAMP_BYTES as usize, 0);
        file.write_all_at(&block, place(self.size_bytes))
    }
}

/// Where the stamp of a working set lies: behind its last whole block.
pub(super) fn place(size_bytes: u64) -> u64 {
    size_bytes.div_ceil(UNIT_BYTES) * UNIT_BYTES
}

/// The stamp of a file, where it has one.
pub(super) fn read(file: &File) -> io::Result<Option<Stamp>> {
    // The stamp is the last whole block; a load that appends may have written behind it, in blocks too.
    let Some(before) = file.metadata()?.len().checked_sub(STAMP_BYTES) else { return Ok(None) };
    let at = before / UNIT_BYTES * UNIT_BYTES;
    let mut block = [0; STAMP_BYTES as usize];
    file.read_exact_at(&mut block, at)?;
    let Some(text) = block.strip_prefix(MAGIC) else { return Ok(None) };
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let stamp = serde_json::from_slice::<Stamp>(line).ok();
    // A stamp that lies elsewhere is content that somebody copied.
    Ok(stamp.filter(|stamp| stamp.size_bytes <= before && place(stamp.size_bytes) == at))
}

/// The bytes that are laid out as block `unit`: its number, then bytes of a chunk of random ones.
#[must_use]
pub fn unit_content(unit: u64) -> Vec<u8> {
    let begin = (unit * UNIT_BYTES % CHUNK_BYTES) as usize;
    let mut block = chunk()[begin..begin + UNIT_BYTES as usize].to_vec();
    block[..8].copy_from_slice(&unit.to_le_bytes());
    block
}

/// A megabyte of random bytes, made once.
pub(super) fn chunk() -> &'static [u8] {
    static CHUNK: OnceLock<Vec<u8>> = OnceLock::new();
    CHUNK.get_or_init(|| {
        let mut random = Random::new(SEED, 0);
        (0..CHUNK_BYTES / 8).flat_map(|_| random.bits().to_le_bytes()).collect()
    })
}
