//! What the bytes of written blocks are.

use iodyno_core::disk::{Content, Disk, WHOLE_PPM};
use iodyno_core::random::{Random, SplitMix};

/// Random numbers of contents are none of those of places.
const STREAMS: u64 = 1 << 34;
/// Pieces of which a share is zeros: what compressing file systems and devices take at a time, at least.
const PIECE_BYTES: usize = 4096;
/// Of so many bytes the last 8 are made of the 8 before them, so that what a load has written to a device is known for nobody's
/// data, and still nothing of it can be compressed. chosen: the least that a device writes at a time.
const MARKED_BYTES: usize = 512;
/// chosen at random.
const MARK_KEY: u64 = 0x5d2c_9be1_70a4_f386;

/// Fills a block; `number`: of the block among all of the job.
pub(crate) fn fill(bytes: &mut [u8], disk: &Disk, number: u64) {
    let zeros = match disk.content {
        Content::Random => 0,
        Content::Zero => WHOLE_PPM,
        Content::Compressible => disk.compressible_ppm,
    };
    let mut random = Random::new(disk.seed, STREAMS + number);
    for piece in bytes.chunks_mut(PIECE_BYTES) {
        let noise = piece.len() - (piece.len() as u64 * u64::from(zeros) / u64::from(WHOLE_PPM)) as usize;
        let (noisy, quiet) = piece.split_at_mut(noise);
        for word in noisy.chunks_mut(8) {
            let bits = random.bits().to_le_bytes();
            word.copy_from_slice(&bits[..word.len()]);
        }
        for sector in noisy.chunks_mut(MARKED_BYTES) {
            match sector.last_chunk_mut::<16>() {
                Some(last) => {
                    let mark = mark_behind(last);
                    last[8..].copy_from_slice(&mark);
                }
                None => sector.fill(0),
            }
        }
        quiet.fill(0);
    }
}

/// Whether any of these bytes are of a block that a load wrote.
pub(crate) fn is_marked(bytes: &[u8]) -> bool {
    bytes.windows(16).filter_map(|pair| pair.first_chunk()).any(|pair| pair[8..] == mark_behind(pair))
}

fn mark_behind(pair: &[u8; 16]) -> [u8; 8] {
    let word = pair[..8].try_into().map_or(0, u64::from_le_bytes);
    SplitMix(word ^ MARK_KEY).bits().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_every_page_is_zeros() {
        let disk = Disk { content: Content::Compressible, compressible_ppm: 250_000, ..Disk::default() };
        let mut bytes = vec![1; 3 * 4096];
        fill(&mut bytes, &disk, 1);
        for page in bytes.chunks(4096) {
            assert!(page[3072..].iter().all(|byte| *byte == 0));
            // Of random bytes, one in 256 is 0: 12, with a standard deviation of 3.5.
            assert!(page[..3072].iter().filter(|byte| **byte == 0).count() < 30);
        }
        let mut other = vec![1; 3 * 4096];
        fill(&mut other, &disk, 2);
        assert_ne!(bytes, other);
        // Also of a block that others have written over.
        assert!(bytes.chunks(4096).all(|page| page[..3072].windows(MARKED_BYTES + 16).all(is_marked)));
        assert!(!is_marked(&[0; 4096]) && !is_marked(&bytes[..MARKED_BYTES - 1]));
        fill(&mut bytes, &Disk { content: Content::Zero, ..disk }, 1);
        assert!(bytes.iter().all(|byte| *byte == 0));
    }
}
