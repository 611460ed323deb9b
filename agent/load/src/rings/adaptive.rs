//! Packets per block that follow the load.
//!
//! The size of a block is settled when a ring is made. So there are several rings, each with blocks of twice as many
//! packets as the one before, joined so that every packet goes to one of them; which one is changed between two packets.
//!
//! With N requests under way, blocks of N packets or more never get full, and all wait for the timeout. When one was
//! handed over by it, it held all that was under way: the next ring is the one with the largest blocks of at most half of
//! that, so that one half comes in while the other is answered. (A single request always waits for the timeout: a block is
//! handed over when the packet behind it comes.) Where blocks get full by themselves, larger ones save
//! wake-ups: the next ring is tried now and then, more seldom each time that it fails, because a failure costs a timeout.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use iodyno_core::job::Ring;
use iodyno_core::units::Nanos;
use iodyno_sys::clock;
use iodyno_sys::epoll::{Epoll, Interest};
use iodyno_sys::packet_ring::{self, Receiver, Shape, Wanted};
use iodyno_sys::socket;

use super::halves::Inlet;

/// chosen: full blocks after which it is considered whether to try larger ones.
const FULL_IN_A_ROW: u32 = 256;
/// chosen: times between two tries, the first and the longest; with a timeout of 10 ms the tries of a load that is
/// always refused take 0.1 % in the long run.
const FIRST_TRY: Nanos = Nanos(100_000_000);
const LAST_TRY: Nanos = Nanos(10_000_000_000);
/// chosen: least blocks of a ring.
const LEAST_BLOCKS: usize = 8;

/// The rings, from small blocks to large ones.
pub(super) struct Ladder {
    rungs: Vec<Receiver>,
    epoll: Epoll,
    choice: Choice,
}

/// Which ring is to be used.
struct Choice {
    at: usize,
    highest: usize,
    full: u32,
    /// Not before this instant are larger blocks tried, and how long to wait after the next failure.
    try_at: Nanos,
    patience: Nanos,
}

impl Ladder {
    /// Rings with blocks of 1, 2, 4, ... packets, each ring with room for `packets`. It begins with the largest blocks
    /// of at most as many packets as `ring` says.
    pub fn open(wanted: &Wanted, ring: &Ring, packets: usize) -> io::Result<Self> {
        let timeout_ms = (ring.block_timeout_ns.0 / 1_000_000).max(1) as u32;
        // The ring has room for twice of what can be under way, and blocks of half of that are the largest of use.
        let highest = (packets / 4).max(1).ilog2() as usize;
        let epoll = Epoll::new()?;
        let mut rungs = Vec::with_capacity(highest + 1);
        for rung in 0..=highest {
            let blocks = (packets >> rung).max(LEAST_BLOCKS);
            let rung =
                packet_ring::receive(wanted, Shape::V3 { block_packets: 1 << rung, blocks, timeout_ms })?;
            epoll.add(rung.descriptor(), Interest::Readable, rungs.len() as u64)?;
            rungs.push(rung);
        }
        packet_ring::join(&rungs)?;
        let at = (ring.block_packets.max(1).ilog2() as usize).min(highest);
        packet_ring::turn_to(&rungs[0], at)?;
        let choice = Choice { at, highest, full: 0, try_at: Nanos(0), patience: FIRST_TRY };
        Ok(Ladder { rungs, epoll, choice })
    }
}

impl Choice {
    /// Takes into account that a block of ring `rung` came with so many packets; the ring to turn to, if another.
    fn consider(
        &mut self,
        rung: usize,
        packets: usize,
        by_timeout: bool,
        now: impl Fn() -> Nanos,
    ) -> Option<usize> {
        // What was left in a ring that is not used any more says nothing.
        if rung != self.at {
            return None;
        }
        if by_timeout {
            self.full = 0;
            let fitting = (packets / 2).max(1).ilog2() as usize;
            if fitting >= self.at {
                return None;
            }
            self.at = fitting;
            self.try_at = now().plus(self.patience);
            self.patience = Nanos((self.patience.0 * 2).min(LAST_TRY.0));
            return Some(fitting);
        }
        self.full += 1;
        if self.full < FULL_IN_A_ROW || self.at == self.highest {
            return None;
        }
        self.full = 0;
        if now() < self.try_at {
            return None;
        }
        self.at += 1;
        Some(self.at)
    }
}

impl Inlet for Ladder {
    fn take(&mut self, most: usize, mut each: impl FnMut(&[u8])) -> usize {
        let mut packets = 0;
        for at in 0..self.rungs.len() {
            let taken = self.rungs[at].take(most, &mut each);
            packets += taken.packets;
            if taken.packets == 0 {
                continue;
            }
            if let Some(next) = self.choice.consider(at, taken.packets, taken.by_timeout, clock::monotonic) {
                // Where it fails, the packets go on to the ring that they go to now, which is looked at like all.
                let _ = packet_ring::turn_to(&self.rungs[0], next);
            }
        }
        packets
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn failure(&self) -> Option<io::Error> {
        self.rungs.iter().find_map(|rung| socket::pending_error(rung.descriptor()).unwrap_or_else(Some))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(at: usize) -> Choice {
        Choice { at, highest: 6, full: 0, try_at: Nanos(0), patience: FIRST_TRY }
    }

    #[test]
    fn a_timeout_leads_to_blocks_of_half_of_what_is_under_way() {
        for (packets, expected) in [(64, 5), (40, 4), (3, 0), (1, 0)] {
            assert_eq!(choice(6).consider(6, packets, true, || Nanos(0)), Some(expected), "{packets}");
        }
        // No smaller ones are there, or those in use are small enough: then it is the clients that are slow.
        assert_eq!(choice(0).consider(0, 1, true, || Nanos(0)), None);
        assert_eq!(choice(3).consider(3, 16, true, || Nanos(0)), None);
    }

    #[test]
    fn larger_blocks_are_tried_more_and_more_seldom() {
        let mut choice = choice(5);
        let mut tries = 0;
        for block in 0..4_000_000_u64 {
            // 64 under way: blocks of 32 get full, those of 64 do not. A block takes 0.1 ms, a timeout 10 ms.
            let now = || Nanos(block * 100_000);
            if choice.at == 6 {
                tries += 1;
                assert_eq!(choice.consider(6, 64, true, now), Some(5));
            } else {
                choice.consider(5, 32, false, now);
            }
        }
        // 400 s: at 0.1, 0.3, 0.7, ... s, and at last every 10 s.
        assert!((40..60).contains(&tries), "{tries}");
    }

    #[test]
    fn what_is_left_in_another_ring_says_nothing() {
        assert_eq!(choice(5).consider(6, 1, true, || Nanos(0)), None);
    }
}
