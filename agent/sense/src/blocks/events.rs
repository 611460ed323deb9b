//! An operation as `bpf/block.bpf.c` writes it down.

use iodyno_core::units::Nanos;

/// Bytes of an event.
const EVENT_BYTES: usize = 72;

/// What an operation does (`enum req_op`, linux/blk_types.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOperation {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Empties the device's cache.
    Flush,
    /// Tells the device that blocks are free.
    Discard,
    /// Anything else.
    Other,
}

impl BlockOperation {
    /// By the lowest eight bits of the request's flags.
    pub(super) fn of(flags: u32) -> Self {
        match flags & 0xff {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::Flush,
            3 => Self::Discard,
            _ => Self::Other,
        }
    }

    /// One letter, as tracers print it.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Read => 'R',
            Self::Write => 'W',
            Self::Flush => 'F',
            Self::Discard => 'D',
            Self::Other => 'N',
        }
    }
}

/// An operation that is complete. Times are those of the monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockEvent {
    /// When it was queued, or handed to the device where nothing queues.
    pub queued: Nanos,
    /// When it was handed to the device.
    pub issued: Nanos,
    /// When it was complete.
    pub ended: Nanos,
    /// Where on the device, in sectors of 512 bytes, whatever the device's are; `None` of what has no place, as a flush.
    pub sector: Option<u64>,
    /// How long.
    pub bytes: u32,
    /// What it does.
    pub operation: BlockOperation,
    /// Who was running when it began: for what the kernel writes back, a thread of the kernel.
    pub process: u32,
    /// That process's user.
    pub user: u32,
    /// The device's number.
    pub device: (u32, u32),
    /// Name of the process.
    pub name: String,
}

impl BlockEvent {
    /// From the bytes of the ring; `None` when they are not one event.
    pub(super) fn parse(bytes: &[u8]) -> Option<BlockEvent> {
        let bytes: &[u8; EVENT_BYTES] = bytes.try_into().ok()?;
        let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let short = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let operation = BlockOperation::of(short(36));
        Some(BlockEvent {
            queued: Nanos(long(0)),
            issued: Nanos(long(8)),
            ended: Nanos(long(16)),
            // The kernel's word for no place is the greatest number.
            sector: Some(long(24)).filter(|at| *at != u64::MAX && operation != BlockOperation::Flush),
            bytes: short(32),
            operation,
            process: short(40),
            user: short(44),
            device: (short(48), short(52)),
            name: plain(&bytes[56..]),
        })
    }
}

/// The name of a process up to its zero, without what would break a line: it may call itself anything.
pub(super) fn plain(name: &[u8]) -> String {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let told = String::from_utf8_lossy(&name[..end]);
    told.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_as_it_was_written() {
        let mut bytes = Vec::new();
        for word in [1u64, 2, 3, 4] {
            bytes.extend(word.to_ne_bytes());
        }
        for word in [4096u32, 0x8801, 77, 0, 254, 1] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(*b"two words\0ignore");
        let event = BlockEvent::parse(&bytes).unwrap();
        assert_eq!((event.queued, event.issued, event.ended), (Nanos(1), Nanos(2), Nanos(3)));
        assert_eq!((event.sector, event.bytes, event.operation), (Some(4), 4096, BlockOperation::Write));
        assert_eq!((event.process, event.device, event.name.as_str()), (77, (254, 1), "two_words"));
        assert_eq!(BlockEvent::parse(&bytes[1..]), None);
    }

    #[test]
    fn what_has_no_place_on_the_device_has_no_sector() {
        let of = |sector: u64, flags: u32| {
            let mut bytes = vec![0; EVENT_BYTES];
            bytes[24..32].copy_from_slice(&sector.to_ne_bytes());
            bytes[36..40].copy_from_slice(&flags.to_ne_bytes());
            BlockEvent::parse(&bytes).unwrap()
        };
        assert_eq!((of(u64::MAX, 2).operation, of(u64::MAX, 2).sector), (BlockOperation::Flush, None));
        assert_eq!(of(0, 2).sector, None);
        assert_eq!(of(u64::MAX, 34).sector, None);
        assert_eq!(of(0, 0).sector, Some(0));
    }
}
