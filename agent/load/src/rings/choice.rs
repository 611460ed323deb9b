//! How many packets a block should have: the rule by which [`super::adaptive`] chooses, without rings and clocks.
//!
//! With N requests in flight, blocks of fewer than N packets get full by themselves; others are handed over by their
//! timeout, and the rate falls to N over it. The largest of which two hold fewer than N are taken: while one is answered,
//! another one lies there, handed over by a packet behind it, and nobody waits for anybody. Nobody tells a server what N is,
//! and it changes. Two things are certain:
//!
//! - What lies there unanswered at one instant is in flight. So where full blocks lie behind each other, larger ones are
//!   safe, without a try that would cost a timeout.
//! - A block that came by its timeout while the server waited for it held what was in flight. One that the server found
//!   when it came late held what was left over from the full blocks in front, and says nothing.
//!
//! A client that stood still for so long looks like fewer requests, too. So one such block decides nothing, and where two
//! in a row misled, the next full blocks that lie behind each other lead up again.

/// chosen: blocks in a row that were waited for in vain, after which smaller ones are taken. One may be a stall of the
/// client; each more costs a timeout when the load falls.
const IN_A_ROW: u32 = 2;

/// A block that was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub packets: usize,
    pub by_timeout: bool,
    /// Whether the server had answered everything before it came.
    pub waited_for: bool,
    /// Full ones that lay behind it.
    pub behind: usize,
}

/// The size of blocks in use: two to the power of `at`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    at: usize,
    highest: usize,
    /// Blocks in a row that were waited for until their timeout, and the most packets that one of them held.
    in_vain: u32,
    most: usize,
}

impl Choice {
    pub fn new(at: usize, highest: usize) -> Self {
        Choice { at: at.min(highest), highest, in_vain: 0, most: 0 }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    /// Whether blocks behind one in use are of any interest: they take a look at memory that the kernel writes.
    pub fn may_rise(&self) -> bool {
        self.at < self.highest
    }

    /// Takes a block of the size in use into account; the size to turn to, if another.
    pub fn consider(&mut self, block: Block) -> Option<usize> {
        if !block.by_timeout {
            self.forget();
            // In blocks, as small packets are more to a block. The last one was handed over by a packet behind it.
            let under_way = ((block.behind + 1) << self.at) + 1;
            return self.turn(fitting(under_way).max(self.at));
        }
        if !block.waited_for {
            self.forget();
            return None;
        }
        self.in_vain += 1;
        self.most = self.most.max(block.packets);
        if self.in_vain < IN_A_ROW {
            return None;
        }
        let smaller = fitting(self.most).min(self.at.saturating_sub(1));
        self.forget();
        self.turn(smaller)
    }

    fn turn(&mut self, to: usize) -> Option<usize> {
        let to = to.min(self.highest);
        (to != std::mem::replace(&mut self.at, to)).then_some(to)
    }

    fn forget(&mut self) {
        (self.in_vain, self.most) = (0, 0);
    }
}

/// The largest size of which two blocks hold fewer packets than are in flight.
fn fitting(under_way: usize) -> usize {
    (under_way.saturating_sub(1) / 2).max(1).ilog2() as usize
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::{BinaryHeap, VecDeque};

    use super::*;

    const MS: u64 = 1_000_000;
    const TIMEOUT: u64 = 10 * MS;
    const HIGHEST: usize = 8;
    const STALL: u64 = 12 * MS;
    const SERVER: usize = 0;
    const CLIENT: usize = 1;

    fn full(packets: usize, behind: usize) -> Block {
        Block { packets, by_timeout: false, waited_for: false, behind }
    }

    fn in_vain(packets: usize) -> Block {
        Block { packets, by_timeout: true, waited_for: true, behind: 0 }
    }

    #[test]
    fn blocks_that_were_waited_for_in_vain_lead_to_what_is_safe_for_what_they_held() {
        for (packets, expected) in [(64, 4), (65, 5), (40, 4), (32, 3), (5, 1), (4, 0), (1, 0)] {
            let mut choice = Choice::new(6, HIGHEST);
            assert_eq!(choice.consider(in_vain(1)), None, "one may be a stall");
            assert_eq!(choice.consider(in_vain(packets)), Some(expected), "{packets}");
        }
        let mut smallest = Choice::new(0, HIGHEST);
        assert!((0..10).all(|_| smallest.consider(in_vain(1)).is_none()));
    }

    #[test]
    fn a_timeout_between_full_blocks_or_behind_a_late_server_says_nothing() {
        let mut choice = Choice::new(5, HIGHEST);
        for _ in 0..100 {
            assert_eq!(choice.consider(in_vain(3)), None);
            assert_eq!(choice.consider(full(32, 0)), None);
            assert_eq!(choice.consider(Block { waited_for: false, ..in_vain(1) }), None);
            assert_eq!(choice.consider(Block { waited_for: false, ..in_vain(1) }), None);
        }
    }

    #[test]
    fn full_blocks_behind_each_other_lead_to_what_is_safe_at_once() {
        for (at, behind, expected) in
            [(0, 2, None), (0, 3, Some(1)), (0, 62, Some(4)), (4, 2, None), (4, 3, Some(5)), (5, 0, None)]
        {
            let mut choice = Choice::new(at, HIGHEST);
            assert_eq!(choice.consider(full(1 << at, behind)), expected, "{at} {behind}");
        }
        assert_eq!(Choice::new(0, 3).consider(full(1, 1000)), Some(3), "there are no larger ones");
        assert_eq!(Choice::new(3, 3).consider(full(8, 1000)), None);
    }

    /// Times that a packet takes the server and the client, and that a wake-up takes.
    type Costs = (u64, u64, u64);

    /// Random numbers, the same ones each time (xorshift64, Marsaglia 2003).
    struct Chance(u64);

    impl Chance {
        fn unit(&mut self) -> f64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// From a tenth of the mean up to twice that.
        fn around(&mut self, mean: u64) -> u64 {
            mean / 10 + (self.unit() * 1.8 * mean as f64) as u64
        }
    }

    #[derive(Default)]
    struct Ring {
        ready: VecDeque<(usize, bool)>,
        open: usize,
        retire_at: u64,
    }

    /// A closed loop on rings as the kernel has them: a block is handed over by the packet behind it, or when nothing
    /// else was for the timeout.
    struct World {
        now: u64,
        rings: Vec<Ring>,
        turned: usize,
        /// When requests come to the server.
        coming: BinaryHeap<Reverse<u64>>,
        under_way: usize,
        client_free: u64,
        server_free: u64,
        waited: bool,
        answered: u64,
        timeouts: u64,
        chance: Chance,
        /// Times between two stalls of an end; 0: there are none. The next one of either end: from when until when.
        stalls_every: u64,
        stalls: [(u64, u64); 2],
        costs: Costs,
    }

    impl World {
        fn new(at: usize, stalls_every: u64, costs: Costs) -> Self {
            World {
                now: 0,
                rings: (0..=HIGHEST).map(|_| Ring::default()).collect(),
                turned: at,
                coming: BinaryHeap::new(),
                under_way: 0,
                client_free: 0,
                server_free: 0,
                waited: true,
                answered: 0,
                timeouts: 0,
                chance: Chance(0x9e37_79b9_7f4a_7c15),
                stalls_every,
                stalls: [(0, 0); 2],
                costs,
            }
        }

        /// The client turns answers into requests, one after the other.
        fn ask(&mut self, requests: usize) {
            self.client_free = self.client_free.max(self.now);
            for _ in 0..requests {
                self.client_free = self.finish(CLIENT, self.client_free, self.costs.1);
                self.coming.push(Reverse(self.client_free + 10_000));
            }
        }

        /// When an end has done what it begins now, other threads having its CPU now and then.
        fn finish(&mut self, end: usize, begin: u64, work: u64) -> u64 {
            let mut done = begin + work;
            while self.stalls_every > 0 && self.stalls[end].0 < done {
                let (from, until) = self.stalls[end];
                done += until.saturating_sub(from.max(begin));
                let next = until + self.chance.around(self.stalls_every);
                self.stalls[end] = (next, next + self.chance.around(STALL));
            }
            done
        }

        fn arrive(&mut self) {
            let (ring, now) = (&mut self.rings[self.turned], self.now);
            if ring.open == 1 << self.turned {
                ring.ready.push_back((ring.open, false));
                (ring.open, ring.retire_at) = (0, now + TIMEOUT);
            } else if ring.open == 0 && ring.retire_at <= now {
                // The timer runs while nothing is there, too: a first packet meets it half-way, on average.
                ring.retire_at = now + TIMEOUT / 2;
            }
            ring.open += 1;
        }

        /// Goes on for so long with so many in flight; the choice is `None` where the size is fixed.
        fn run(&mut self, choice: &mut Option<Choice>, under_way: usize, time: u64) -> u64 {
            let (end, before) = (self.now + time, self.answered);
            while self.under_way < under_way {
                self.under_way += 1;
                self.ask(1);
            }
            loop {
                let arrival = self.coming.peek().map(|Reverse(at)| *at);
                let waiting = self.rings.iter().any(|ring| !ring.ready.is_empty());
                let look = waiting.then_some(self.server_free);
                let retire = self.rings.iter().filter(|ring| ring.open > 0).map(|ring| ring.retire_at).min();
                let Some(next) = [arrival, look, retire].into_iter().flatten().min().filter(|at| *at < end)
                else {
                    break;
                };
                self.now = self.now.max(next);
                if arrival == Some(next) {
                    self.coming.pop();
                    self.arrive();
                } else if retire == Some(next) {
                    for ring in self.rings.iter_mut().filter(|ring| ring.open > 0 && ring.retire_at <= next) {
                        ring.ready.push_back((ring.open, true));
                        ring.open = 0;
                    }
                } else {
                    self.look(choice, under_way);
                }
                let idle =
                    self.rings.iter().all(|ring| ring.ready.is_empty()) && self.server_free <= self.now;
                self.waited |= idle;
            }
            self.now = end;
            self.answered - before
        }

        fn look(&mut self, choice: &mut Option<Choice>, under_way: usize) {
            let waited_for = std::mem::take(&mut self.waited);
            let Some(at) = self.rings.iter().position(|ring| !ring.ready.is_empty()) else { return };
            let Some((packets, by_timeout)) = self.rings[at].ready.pop_front() else { return };
            let behind = self.rings[at].ready.iter().take_while(|(_, by_timeout)| !by_timeout).count();
            if let Some(choice) = choice.as_mut().filter(|choice| choice.at() == at) {
                if let Some(next) = choice.consider(Block { packets, by_timeout, waited_for, behind }) {
                    self.turned = next;
                }
            }
            self.timeouts += u64::from(by_timeout);
            let wake = if waited_for { self.costs.2 } else { 0 };
            let begun = self.now;
            self.server_free = self.finish(SERVER, begun, wake + packets as u64 * self.costs.0 + 2_000);
            self.answered += packets as u64;
            let leaving = self.under_way.saturating_sub(under_way).min(packets);
            self.under_way -= leaving;
            // Answers are sent when all of the block are written.
            self.now = self.server_free;
            self.ask(packets - leaving);
            self.now = begun;
        }
    }

    fn law(at: usize) -> Option<Choice> {
        Some(Choice::new(at, HIGHEST))
    }

    /// The server is slower, neither, the client.
    const COSTS: [Costs; 3] = [(3_000, 1_000, 10_000), (2_000, 2_000, 5_000), (1_000, 4_000, 3_000)];

    /// Requests answered, and blocks that came by their timeout, in so long with so many in flight, once it has settled.
    fn settled(
        mut choice: Option<Choice>,
        at: usize,
        flows: usize,
        stalls_every: u64,
        costs: Costs,
    ) -> (u64, u64) {
        let mut world = World::new(at, stalls_every, costs);
        world.run(&mut choice, flows, 200 * MS);
        let before = world.timeouts;
        (world.run(&mut choice, flows, 400 * MS), world.timeouts - before)
    }

    #[test]
    fn where_nobody_stands_still_no_block_waits_for_its_timeout() {
        for costs in COSTS {
            for flows in [2, 3, 4, 7, 16, 23, 64, 65, 100] {
                for begin in [0, 3, 6, HIGHEST] {
                    let (answered, timeouts) = settled(law(begin), begin, flows, 0, costs);
                    assert!(answered > 0);
                    assert_eq!(timeouts, 0, "{flows} in flight, from {begin}, {costs:?}");
                }
            }
        }
    }

    #[test]
    fn whoever_stands_still_now_and_then_it_is_about_as_good_as_the_best_fixed_size() {
        for costs in COSTS {
            for stalls_every in [0, 100 * MS, 30 * MS, 10 * MS] {
                for flows in [4, 16, 64] {
                    let best =
                        (0..7).map(|at| settled(None, at, flows, stalls_every, costs).0).max().unwrap_or(0);
                    for begin in [0, 6, HIGHEST] {
                        let (answered, _) = settled(law(begin), begin, flows, stalls_every, costs);
                        let ratio = answered as f64 / best as f64;
                        assert!(
                            ratio > 0.9,
                            "{ratio}: {flows} in flight, from {begin}, {stalls_every} {costs:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn it_follows_a_load_that_falls_and_rises() {
        for costs in COSTS {
            for stalls_every in [0, 30 * MS] {
                let mut choice = law(5);
                let mut world = World::new(5, stalls_every, costs);
                for flows in [64, 4, 64, 16, 4, 16, 64, 1, 64] {
                    let answered = world.run(&mut choice, flows, 400 * MS);
                    let (fixed, _) = settled(None, fitting(flows), flows, stalls_every, costs);
                    let ratio = answered as f64 / fixed as f64;
                    assert!(ratio > 0.8, "{ratio}: {flows} in flight, {stalls_every} {costs:?}");
                }
            }
        }
    }

    #[test]
    fn a_time_without_requests_changes_nothing() {
        let mut choice = law(4);
        let mut world = World::new(4, 0, COSTS[0]);
        for _ in 0..20 {
            world.run(&mut choice, 64, 30 * MS);
            world.run(&mut choice, 0, 300 * MS);
            assert_eq!(choice.map(|choice| choice.at()), Some(4));
        }
    }
}
