//! Packets per block that follow the load.
//!
//! The size of a block is settled when a ring is made. So there are several rings, each with blocks of twice as many
//! packets as the one before, joined so that every packet goes to one of them; which one is changed between two packets.
//!
//! By what rule, is in [`super::choice`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use iodyno_core::network::Ring;
use iodyno_sys::epoll::{Epoll, Interest};
use iodyno_sys::packet_ring::{self, Receiver, Shape, Wanted};
use iodyno_sys::socket;

use super::choice::{Block, Choice};
use super::halves::Inlet;

/// chosen: least blocks of a ring.
const LEAST_BLOCKS: usize = 8;

/// The rings, from small blocks to large ones.
pub(super) struct Ladder {
    rungs: Vec<Receiver>,
    epoll: Epoll,
    choice: Choice,
    /// Whether the last look found nothing: all that had come was answered.
    answered: bool,
}

impl Ladder {
    /// Rings with blocks of 1, 2, 4, ... packets, each ring with room for `packets`. It begins with the largest blocks
    /// of at most as many packets as `ring` says.
    pub fn open(wanted: &Wanted, ring: &Ring, packets: usize) -> io::Result<Self> {
        let timeout_ms = (ring.block_timeout_ns.0 / 1_000_000).max(1) as u32;
        // The ring has room for twice of what can be in flight, and blocks of half of that are the largest of use.
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
        let choice = Choice::new(ring.block_packets.max(1).ilog2() as usize, highest);
        packet_ring::turn_to(&rungs[0], choice.at())?;
        Ok(Ladder { rungs, epoll, choice, answered: true })
    }
}

impl Inlet for Ladder {
    fn take(&mut self, most: usize, mut each: impl FnMut(&[u8])) -> usize {
        let waited_for = self.answered;
        let mut packets = 0;
        for at in 0..self.rungs.len() {
            let taken = self.rungs[at].take(most, &mut each);
            packets += taken.packets;
            // What was left in a ring that is not used any more says nothing.
            if taken.packets == 0 || at != self.choice.at() {
                continue;
            }
            let rising = !taken.by_timeout && self.choice.may_rise();
            let behind = if rising { self.rungs[at].full() } else { 0 };
            let block = Block { packets: taken.packets, by_timeout: taken.by_timeout, waited_for, behind };
            if let Some(next) = self.choice.consider(block) {
                // Where it fails, the packets go on to the ring that they go to now, which is looked at like all.
                let _ = packet_ring::turn_to(&self.rungs[0], next);
            }
        }
        self.answered = packets == 0;
        packets
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn failure(&self) -> Option<io::Error> {
        self.rungs.iter().find_map(|rung| socket::pending_error(rung.descriptor()).unwrap_or_else(Some))
    }
}
