//! How much one call moves.

use iodyno_core::network::{Direction, Network, Role, Syscalls};

/// chosen: most bytes that one send call hands over. Longer messages take several calls, so that a message
/// of a gigabyte neither needs a gigabyte of memory nor keeps the load on long after it is due to stop.
pub(crate) const LONGEST_CALL_BYTES: u64 = 1 << 20;
/// chosen: messages of an open loop that one call of a stream hands over when they are all due. At 64 the cost of a call
/// is a small part of that of its bytes.
const MOST_JOINED: u64 = 64;
/// chosen: most bytes that are joined: beyond, a call costs little beside its bytes.
const JOINED_BYTES: u64 = 64 << 10;

/// Whether this end writes a stream of bytes several messages a call, because the job asks for that.
pub(crate) fn writes_batches(load: &Network) -> bool {
    load.syscalls == Syscalls::Batch && !load.transport.is_datagram() && load.writes_stream()
}

/// Messages of a stream that one call of who writes it may hand over: when all are due, or because the job asks for
/// batches; 1: they stay apart.
pub(crate) fn most_joined(load: &Network) -> u32 {
    if writes_batches(load) {
        return (LONGEST_CALL_BYTES / load.message_bytes.0.max(1)).clamp(1, u64::from(load.batch)) as u32;
    }
    let alone = load.arrivals.is_none()
        || load.role != Role::Send
        || load.stream().is_none()
        || load.direction() != Direction::Forward
        || load.application().burst > 1
        || load.application().is_any();
    match alone {
        true => 1,
        false => (JOINED_BYTES / load.message_bytes.0.max(1)).clamp(1, MOST_JOINED) as u32,
    }
}

/// chosen: length of a read. Measured: 64 to 256 KiB are alike.
pub(crate) const READ_BYTES: usize = 128 << 10;
