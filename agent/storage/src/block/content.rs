//! What the bytes of written blocks are.

use iodyno_core::disk::{Content, Disk, WHOLE_PPM};
use iodyno_core::random::Random;

/// Random numbers of contents are none of those of places.
const STREAMS: u64 = 1 << 34;
/// Pieces of which a share is zeros: what compressing file systems and devices take at a time, at least.
const PIECE_BYTES: usize = 4096;
/// The last random bytes of each piece: what a load has written to a device is known for nobody's data.
pub(crate) const MARK: &[u8; 16] = b"iodyno wrote it.";

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
        if let Some(last) = noisy.last_chunk_mut() {
            *last = *MARK;
        }
        quiet.fill(0);
    }
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
        assert!(bytes.chunks(4096).all(|page| page[..3072].ends_with(MARK)));
        fill(&mut bytes, &Disk { content: Content::Zero, ..disk }, 1);
        assert!(bytes.iter().all(|byte| *byte == 0));
    }
}
