//! The records of the kernel's sampling rings, as `include/uapi/linux/perf_event.h` lays them out.
//!
//! A record is a header of one word (kind, flags, length) and a body of whole words. A sample's body is what
//! `iodyno_sys::perf_samples` asks for: instruction, process and thread, callers.

use iodyno_core::profile::Mode;

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record<'words> {
    /// A sample.
    Sample(Sample<'words>),
    /// So many samples did not fit into the ring.
    Lost(u64),
    /// The kernel suspends sampling for the rest of a tick, because it took too long.
    Throttled,
    /// Something that is not looked at.
    Other,
    /// No record: what follows cannot be read.
    Broken,
}

/// What was executed when the sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample<'words> {
    pub mode: Mode,
    /// 0: the idle task, or a process that this one cannot see from its name space.
    pub process: u32,
    pub instruction: u64,
    /// The instruction, its caller, and so on to the outermost, with a [`Context`] before each part. May be empty.
    pub chain: &'words [u64],
}

/// Whose addresses follow in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    Kernel,
    User,
    /// Of a hypervisor or a guest: nothing is known of them.
    Foreign,
}

impl Context {
    /// The context that a word of a chain begins; `None` for an address.
    pub fn begun_by(word: u64) -> Option<Context> {
        // `PERF_CONTEXT_KERNEL`, `_USER` and `_MAX`: negative numbers that are no address.
        match word as i64 {
            -128 => Some(Context::Kernel),
            -512 => Some(Context::User),
            -4095..=-1 => Some(Context::Foreign),
            _ => None,
        }
    }
}

const LOST: u32 = 2;
const THROTTLE: u32 = 5;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;

/// Takes words apart into records; ends with the words or after [`Record::Broken`].
#[derive(Clone, Debug)]
pub(crate) struct Records<'words>(pub &'words [u64]);

impl<'words> Iterator for Records<'words> {
    type Item = Record<'words>;

    fn next(&mut self) -> Option<Record<'words>> {
        let header = self.0.first()?.to_ne_bytes();
        let length = usize::from(u16::from_ne_bytes([header[6], header[7]]));
        let Some((record, rest)) =
            self.0.split_at_checked(length / 8).filter(|_| length >= 8 && length % 8 == 0)
        else {
            self.0 = &[];
            return Some(Record::Broken);
        };
        self.0 = rest;
        let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let flags = u16::from_ne_bytes([header[4], header[5]]);
        let body = &record[1..];
        Some(match kind {
            SAMPLE => sample(flags, body).map_or(Record::Broken, Record::Sample),
            LOST => body.get(1).map_or(Record::Broken, |lost| Record::Lost(*lost)),
            LOST_SAMPLES => body.first().map_or(Record::Broken, |lost| Record::Lost(*lost)),
            THROTTLE => Record::Throttled,
            _ => Record::Other,
        })
    }
}

fn sample(flags: u16, body: &[u64]) -> Option<Sample<'_>> {
    let &[instruction, ids, callers, ref chain @ ..] = body else { return None };
    let ids = ids.to_ne_bytes();
    // `PERF_RECORD_MISC_USER` and `_GUEST_USER`, of the three bits for it.
    let mode = if matches!(flags & 7, 2 | 5) { Mode::User } else { Mode::Kernel };
    let process = u32::from_ne_bytes([ids[0], ids[1], ids[2], ids[3]]);
    Some(Sample { mode, process, instruction, chain: chain.get(..usize::try_from(callers).ok()?)? })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A record of that kind as the kernel writes it.
    pub(crate) fn record(kind: u32, flags: u16, body: &[u64]) -> Vec<u64> {
        let mut header = [0; 8];
        header[..4].copy_from_slice(&kind.to_ne_bytes());
        header[4..6].copy_from_slice(&flags.to_ne_bytes());
        header[6..].copy_from_slice(&((body.len() as u16 + 1) * 8).to_ne_bytes());
        [&[u64::from_ne_bytes(header)], body].concat()
    }

    /// A sample of that process.
    pub(crate) fn sample_of(process: u32, mode: Mode, chain: &[u64]) -> Vec<u64> {
        let mut ids = [0; 8];
        ids[..4].copy_from_slice(&process.to_ne_bytes());
        let head = [chain.last().copied().unwrap_or(7), u64::from_ne_bytes(ids), chain.len() as u64];
        record(SAMPLE, if mode == Mode::User { 2 } else { 1 }, &[&head, chain].concat())
    }

    #[test]
    fn records_are_read_in_their_order() {
        let chain = [-128i64 as u64, 0xffff_ffff_8100_0000, -512i64 as u64, 0x40_0000];
        let words = [
            record(3, 0, &[1, 2]),
            sample_of(4711, Mode::Kernel, &chain),
            record(LOST, 0, &[5, 12]),
            record(LOST_SAMPLES, 0, &[3]),
            record(THROTTLE, 0, &[1, 2, 3]),
            sample_of(0, Mode::User, &[]),
        ]
        .concat();
        let sample =
            |mode, process, instruction, chain| Record::Sample(Sample { mode, process, instruction, chain });
        let expected = [
            Record::Other,
            sample(Mode::Kernel, 4711, 0x40_0000, &chain[..]),
            Record::Lost(12),
            Record::Lost(3),
            Record::Throttled,
            sample(Mode::User, 0, 7, &[]),
        ];
        assert_eq!(Records(&words).collect::<Vec<_>>(), expected);
        assert_eq!(chain.map(Context::begun_by), [Some(Context::Kernel), None, Some(Context::User), None]);
        assert_eq!(Context::begun_by(-2176i64 as u64), Some(Context::Foreign));
    }

    #[test]
    fn a_chain_longer_than_its_record_is_broken_and_the_next_record_is_read() {
        let words = [record(SAMPLE, 2, &[1, 2, 4, 9]), record(LOST, 0, &[0, 1])].concat();
        assert_eq!(Records(&words).collect::<Vec<_>>(), [Record::Broken, Record::Lost(1)]);
        assert_eq!(Records(&words[..3]).collect::<Vec<_>>(), [Record::Broken]);
    }

    proptest! {
        #[test]
        fn any_words_are_read_to_their_end(words in proptest::collection::vec(prop_oneof![
            any::<u64>(),
            (0u64..16, 0u64..8, 0u64..80).prop_map(|(kind, flags, length)| kind | flags << 32 | length << 48),
        ], 0..200)) {
            prop_assert!(Records(&words).count() <= words.len());
        }
    }
}
