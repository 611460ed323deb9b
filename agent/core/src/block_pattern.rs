//! Which block comes next: one worker's operations of a storage job, drawn one at a time.
//!
//! Everything is counted in *units* of the job's alignment, from the begin of the region. A region's rest that is
//! shorter than a unit is not used.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use crate::disk::{Disk, Pattern, Sequence, Zone, WHOLE_PPM};
use crate::random::{Random, SplitMix};
use crate::ranks::Ranks;
use crate::sizes::SizeStream;

/// Random numbers of places are none of those of arrivals and sizes.
const STREAMS: u64 = 1 << 33;

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the target.
    pub target: u32,
    /// Where in the target, in bytes.
    pub offset: u64,
    /// How much, in bytes.
    pub length: u32,
    /// Whether it writes.
    pub write: bool,
    /// Whether the pattern is at its begin again with this one.
    pub wrapped: bool,
}

/// Where the load may go in one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Begin in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// What workers that take blocks from one cursor have in common: a cursor a target and direction, and whose turn it is.
#[derive(Clone, Debug)]
pub struct Cursors(Arc<[AtomicU64]>);

impl Cursors {
    /// For so many targets.
    #[must_use]
    pub fn new(targets: usize) -> Self {
        Cursors((0..=2 * targets).map(|_| AtomicU64::new(0)).collect())
    }

    fn of(&self, target: usize, write: bool) -> &AtomicU64 {
        &self.0[2 * target + usize::from(write)]
    }

    fn turn(&self) -> u64 {
        self.0[self.0.len() - 1].fetch_add(1, Relaxed)
    }
}

/// The operations of one worker.
#[derive(Clone, Debug)]
pub struct BlockStream {
    pattern: Pattern,
    sequence: Sequence,
    read_ratio_ppm: u32,
    random_ratio_ppm: u32,
    in_order: u32,
    /// Operations in order that are left from the last place that was drawn.
    run: u32,
    seed: u64,
    worker: u64,
    unit: u64,
    /// Of a block, in units: the length where all are alike, else the greatest.
    block: u64,
    stride: u64,
    lengths: Option<SizeStream>,
    lanes: Box<[Lane]>,
    turn: usize,
    cursors: Cursors,
    zones: Box<[Zone]>,
    random: Random,
}

/// One target, to one worker.
#[derive(Clone, Debug)]
struct Lane {
    offset: u64,
    /// The region, in units.
    units: u64,
    /// The worker's part, in units.
    begin: u64,
    end: u64,
    /// Where the next read and the next write in order is.
    next: [u64; 2],
    /// Blocks of the shuffled pattern that were drawn.
    drawn: u64,
    ranks: Ranks,
}

impl BlockStream {
    /// That of `worker`; one extent a target. Jobs are checked before ([`Disk::check`]).
    ///
    /// # Errors
    /// What does not fit: an extent shorter than a block, a part of it shorter than a block.
    pub fn new(disk: &Disk, extents: &[Extent], worker: u32, cursors: &Cursors) -> Result<Self, String> {
        let unit = disk.alignment();
        let block = disk.block_bytes.0.div_ceil(unit);
        let ordered = matches!(disk.pattern, Pattern::Sequential | Pattern::Strided);
        let divided = ordered || disk.pattern == Pattern::Shuffled;
        let lanes = extents.iter().map(|extent| {
            let units = extent.length / unit;
            if units < block {
                return Err(format!(
                    "{} bytes to go to, and blocks of {} at multiples of {unit}",
                    extent.length, disk.block_bytes.0
                ));
            }
            let part = |number: u64| {
                (u128::from(units) * u128::from(number) / u128::from(disk.workers.max(1))) as u64
            };
            let split = divided && disk.sequence == Sequence::Split;
            let (begin, end) =
                if split { (part(worker.into()), part(u64::from(worker) + 1)) } else { (0, units) };
            if end - begin < block {
                return Err(format!(
                    "{} workers share {} bytes: less than a block of {} for each",
                    disk.workers, extent.length, disk.block_bytes.0
                ));
            }
            let ranks = Ranks::new(disk, units / block);
            Ok(Lane { offset: extent.offset, units, begin, end, next: [begin; 2], drawn: 0, ranks })
        });
        Ok(BlockStream {
            pattern: disk.pattern,
            sequence: disk.sequence,
            read_ratio_ppm: disk.read_ratio_ppm,
            random_ratio_ppm: if ordered { disk.random_ratio_ppm } else { 0 },
            in_order: disk.in_order,
            run: 0,
            seed: disk.seed,
            worker: worker.into(),
            unit,
            block,
            stride: disk.stride_bytes.map_or(block, |stride| stride.0.div_ceil(unit)),
            lengths: disk.block_sizes.as_ref().map(|sizes| SizeStream::new(sizes, disk.seed, worker)),
            lanes: lanes.collect::<Result<_, _>>()?,
            // Workers do not all begin with one target.
            turn: worker as usize % extents.len().max(1),
            cursors: cursors.clone(),
            zones: disk.zones.clone().into(),
            random: Random::new(disk.seed, STREAMS + u64::from(worker)),
        })
    }

    /// The worker's part of a target: where it begins, and how long it is, in bytes.
    #[must_use]
    pub fn part(&self, target: u32) -> (u64, u64) {
        let lane = &self.lanes[target as usize];
        (lane.offset + lane.begin * self.unit, (lane.end - lane.begin) * self.unit)
    }

    /// The next operation.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> Place {
        let write = match self.read_ratio_ppm {
            0 => true,
            WHOLE_PPM => false,
            share => self.random.below(u64::from(WHOLE_PPM)) >= u64::from(share),
        };
        let mut units = match &mut self.lengths {
            None => self.block,
            Some(lengths) => lengths.draw().div_ceil(self.unit).min(self.block),
        };
        let jumps = self.random_ratio_ppm > 0
            && self.random.below(u64::from(WHOLE_PPM)) < u64::from(self.random_ratio_ppm);
        let drawn = self.pattern.is_scattered() && self.run == 0;
        self.run = if drawn { self.in_order } else { self.run }.saturating_sub(1);
        let target = match self.lanes.len() {
            1 => 0,
            targets if self.sequence == Sequence::Shared => (self.cursors.turn() % targets as u64) as usize,
            targets => {
                let turn = self.turn;
                self.turn = (turn + 1) % targets;
                turn
            }
        };
        let shared = self.sequence == Sequence::Shared;
        let lane = &mut self.lanes[target];
        let next = &mut lane.next[usize::from(write)];
        let mut wrapped = false;
        let at = match self.pattern {
            Pattern::Random if drawn => self.random.below(lane.units - units + 1),
            Pattern::Shuffled if drawn => {
                let blocks = (lane.end - lane.begin) / self.block;
                let number = if shared {
                    self.cursors.of(target, false).fetch_add(1, Relaxed)
                } else {
                    lane.drawn += 1;
                    lane.drawn - 1
                };
                wrapped = number > 0 && number % blocks == 0;
                let whose = if shared { 0 } else { self.worker };
                let order = Shuffle::new(blocks, self.seed, [whose, target as u64, number / blocks]);
                lane.begin + order.place(number % blocks) * self.block
            }
            // Every block has its place, so that a place is as frequent as its rank says.
            Pattern::Zipf | Pattern::Normal | Pattern::SelfSimilar if drawn => {
                lane.ranks.place(&mut self.random) * self.block
            }
            Pattern::Zones if drawn => within(&self.zones, lane.units - units + 1, &mut self.random),
            _ if jumps => {
                let at = lane.begin + self.random.below(lane.end - lane.begin - units + 1);
                if shared {
                    self.cursors.of(target, write).store(at / self.block + 1, Relaxed);
                }
                at
            }
            Pattern::Sequential | Pattern::Append if shared => {
                // Every block in the cursor's order takes the greatest length, so that none runs into the next.
                let blocks = lane.units.div_ceil(self.block);
                let number = self.cursors.of(target, write).fetch_add(1, Relaxed);
                let at = number % blocks * self.block;
                wrapped = at == 0 && number > 0;
                units = units.min(lane.units - at);
                at
            }
            Pattern::Strided => {
                wrapped = *next + units > lane.end;
                if wrapped {
                    lane.begin
                } else {
                    *next
                }
            }
            _ => {
                wrapped = *next >= lane.end;
                let at = if wrapped { lane.begin } else { *next };
                units = units.min(lane.end - at);
                at
            }
        };
        *next = at + if self.pattern == Pattern::Strided { self.stride } else { units };
        Place {
            target: target as u32,
            offset: lane.offset + at * self.unit,
            length: (units * self.unit) as u32,
            write,
            wrapped,
        }
    }
}

/// An order of the numbers below `places` that a key says: four rounds of a Feistel network over the least even number of
/// bits that holds them all, again and again until a number is below `places` (Black and Rogaway, "Ciphers with arbitrary
/// finite domains", CT-RSA 2002).
struct Shuffle {
    places: u64,
    half: u32,
    keys: [u64; 4],
}

impl Shuffle {
    fn new(places: u64, seed: u64, [worker, target, pass]: [u64; 3]) -> Self {
        let bits = u64::BITS - places.saturating_sub(1).leading_zeros();
        let mut keys = SplitMix(seed ^ SplitMix(worker << 32 ^ target).bits() ^ SplitMix(!pass).bits());
        Shuffle { places, half: bits.div_ceil(2).max(1), keys: std::array::from_fn(|_| keys.bits()) }
    }

    fn place(&self, number: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let mut place = number;
        loop {
            let (mut left, mut right) = (place >> self.half, place & mask);
            for key in self.keys {
                (left, right) = (right, left ^ (SplitMix(key ^ right).bits() & mask));
            }
            place = left << self.half | right;
            if place < self.places {
                return place;
            }
        }
    }
}

/// One of `places`: a zone as often as it has operations, and in it any place as likely as any other.
fn within(zones: &[Zone], places: u64, random: &mut Random) -> u64 {
    let part = |share: u32| (u128::from(places) * u128::from(share) / u128::from(WHOLE_PPM)) as u64;
    let mut drawn = random.below(u64::from(WHOLE_PPM));
    let mut space = 0;
    for zone in zones {
        let operations = u64::from(zone.share_of_operations_ppm);
        if drawn < operations {
            let begin = part(space).min(places - 1);
            return begin + random.below((part(space + zone.share_of_space_ppm) - begin).max(1));
        }
        drawn -= operations;
        space += zone.share_of_space_ppm;
    }
    // Shares come to the whole (`Disk::check`).
    random.below(places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::Sizes;
    use crate::units::Bytes;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn stream(disk: &Disk, length: u64, worker: u32, cursors: &Cursors) -> BlockStream {
        disk.check().unwrap();
        let extents = vec![Extent { offset: 0, length }; disk.targets.len()];
        BlockStream::new(disk, &extents, worker, cursors).unwrap()
    }

    fn offsets(disk: &Disk, length: u64, count: usize) -> Vec<u64> {
        let mut stream = stream(disk, length, 0, &Cursors::new(1));
        (0..count).map(|_| stream.next().offset).collect()
    }

    fn of(pattern: Pattern) -> Disk {
        Disk { pattern, ..Disk::default() }
    }

    #[test]
    fn sequences_wrap_and_workers_share_them_as_told() {
        assert_eq!(offsets(&of(Pattern::Sequential), 3 * 4096 + 100, 5), [0, 4096, 8192, 0, 4096]);
        let shared = Disk { sequence: Sequence::Shared, workers: 2, ..of(Pattern::Sequential) };
        let cursors = Cursors::new(1);
        let mut both = [0, 1].map(|worker| stream(&shared, 4 * 4096, worker, &cursors));
        let taken: Vec<u64> = (0..6).map(|at| both[at % 2].next().offset / 4096).collect();
        assert_eq!(taken, [0, 1, 2, 3, 0, 1]);
        let split = Disk { workers: 2, ..of(Pattern::Sequential) };
        let mut both = [0, 1].map(|worker| stream(&split, 5 * 4096, worker, &cursors));
        let parts: Vec<Vec<u64>> =
            both.iter_mut().map(|own| (0..4).map(|_| own.next().offset / 4096).collect()).collect();
        assert_eq!(parts, [vec![0, 1, 0, 1], vec![2, 3, 4, 2]]);
        let each = Disk { sequence: Sequence::Each, ..split };
        assert_eq!(stream(&each, 5 * 4096, 1, &cursors).next().offset, 0);
        let extent = [Extent { offset: 0, length: 5 * 4096 }];
        let many = Disk { workers: 6, ..of(Pattern::Sequential) };
        assert!(BlockStream::new(&many, &extent, 0, &cursors).unwrap_err().contains("6 workers share"));
    }

    #[test]
    fn the_last_block_of_a_sequence_is_as_long_as_its_rest() {
        let disk =
            Disk { block_bytes: Bytes(8192), align_bytes: Some(Bytes(512)), ..of(Pattern::Sequential) };
        let mut stream = stream(&disk, 8192 + 1024 + 5, 0, &Cursors::new(1));
        let found: Vec<_> = (0..3).map(|_| stream.next()).map(|place| (place.offset, place.length)).collect();
        assert_eq!(found, [(0, 8192), (8192, 1024), (0, 8192)]);
    }

    fn blocks(disk: &Disk, count: usize) -> Vec<(bool, u64)> {
        let mut stream = stream(disk, 16 * 4096, 0, &Cursors::new(1));
        (0..count).map(|_| stream.next()).map(|place| (place.write, place.offset / 4096)).collect()
    }

    #[test]
    fn a_stride_begins_anew_at_the_end() {
        let disk = Disk { stride_bytes: Some(Bytes(3 * 4096)), ..of(Pattern::Strided) };
        let found: Vec<u64> = blocks(&disk, 8).into_iter().map(|(_, at)| at).collect();
        assert_eq!(found, [0, 3, 6, 9, 12, 15, 0, 3]);
    }

    #[test]
    fn reads_and_writes_are_each_in_order() {
        for sequence in [Sequence::Split, Sequence::Shared] {
            let disk = Disk { read_ratio_ppm: 500_000, sequence, ..of(Pattern::Sequential) };
            let found = blocks(&disk, 200);
            for write in [false, true] {
                let own: Vec<u64> = found.iter().filter(|one| one.0 == write).map(|one| one.1).collect();
                assert_eq!(own, (0..own.len() as u64).map(|at| at % 16).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_shuffled_load_comes_to_every_block_once_a_pass() {
        let mut orders = HashSet::new();
        let disk = Disk { read_ratio_ppm: 500_000, ..of(Pattern::Shuffled) };
        let mut stream = stream(&disk, 11 * 4096, 0, &Cursors::new(1));
        for pass in 0..50 {
            let places: Vec<Place> = (0..11).map(|_| stream.next()).collect();
            let order: Vec<u64> = places.iter().map(|place| place.offset / 4096).collect();
            assert_eq!(order.iter().copied().collect::<HashSet<_>>().len(), 11, "{order:?}");
            assert!(order.iter().all(|at| *at < 11));
            let wrapped: Vec<bool> = places.iter().map(|place| place.wrapped).collect();
            assert_eq!(wrapped, (0..11).map(|at| at == 0 && pass > 0).collect::<Vec<_>>());
            orders.insert(order);
        }
        assert!(orders.len() > 45, "{}", orders.len());
    }

    #[test]
    fn every_place_of_a_shuffled_load_is_as_likely_to_be_the_first() {
        let mut counts = [0_i64; 16];
        let all = offsets(&of(Pattern::Shuffled), 16 * 4096, 16 * 8000);
        for pass in all.chunks(16) {
            counts[(pass[0] / 4096) as usize] += 1;
        }
        // 500 each with a standard deviation of 22; five of those.
        assert!(counts.iter().all(|count| (count - 500).abs() < 110), "{counts:?}");
    }

    #[test]
    fn runs_go_on_in_order_from_each_drawn_place() {
        let disk = Disk { in_order: 4, zipf_theta_ppm: Some(900_000), ..of(Pattern::Zipf) };
        for run in blocks(&disk, 400).chunks(4) {
            let places: Vec<u64> = run.iter().map(|one| one.1).collect();
            let begin = places[0];
            assert_eq!(places, (0..4).map(|at| (begin + at) % 16).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_order_goes_on_from_a_random_place() {
        let disk = Disk { random_ratio_ppm: 300_000, ..of(Pattern::Sequential) };
        let found = blocks(&disk, 10_000);
        let on = found.windows(2).filter(|pair| pair[1].1 == (pair[0].1 + 1) % 16).count() as i64;
        // The 70 % that go on, and of the others one in 16: 7187.5 with a standard deviation of 45; five of those.
        assert!((on - 7187).abs() < 225, "{on}");
    }

    #[test]
    fn a_bell_curve_has_its_middle_more_often_than_its_ends() {
        let disk = Disk { normal_deviation_ppm: Some(500_000), ..of(Pattern::Normal) };
        let mut counts = vec![0_u64; 100];
        for at in offsets(&disk, 100 * 4096, 100_000) {
            counts[(at / 4096) as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // An even number 50 places wide and one of a deviation of 8.3: 1.9 % at the middle place, as good as none at the ends.
        assert!((1700..2200).contains(&counts[5]), "{counts:?}");
        assert!(counts[90] < 20, "{counts:?}");
    }

    #[test]
    fn random_places_are_all_as_likely() {
        let mut counts = [0_i64; 16];
        for at in offsets(&of(Pattern::Random), 16 * 4096, 160_000) {
            counts[(at / 4096) as usize] += 1;
        }
        // 10 000 each with a standard deviation of 97; five of those.
        assert!(counts.iter().all(|count| (count - 10_000).abs() < 485), "{counts:?}");
    }

    #[test]
    fn zipf_is_as_theory_has_it() {
        for theta in [0.5, 0.99, 1.0, 1.2, 2.5] {
            let places = 50;
            let disk = Disk { zipf_theta_ppm: Some((theta * 1e6) as u32), ..of(Pattern::Zipf) };
            let mut counts = vec![0_u64; places];
            let drawn = 200_000;
            for at in offsets(&disk, places as u64 * 4096, drawn) {
                counts[(at / 4096) as usize] += 1;
            }
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let weights: Vec<f64> = (1..=places).map(|rank| (rank as f64).powf(-theta)).collect();
            let whole: f64 = weights.iter().sum();
            // Ranks that differ by more than their noise come in their order; the first ten do, mostly.
            for (rank, weight) in weights.iter().enumerate().take(5) {
                let expected = drawn as f64 * weight / whole;
                // Six standard deviations, as neighbours may have changed places.
                let allowed = 6.0 * expected.sqrt();
                assert!(
                    (counts[rank] as f64 - expected).abs() < allowed,
                    "{theta} {rank} {counts:?} {expected}"
                );
            }
            assert!(counts.iter().all(|count| *count > 0) || theta > 2.0);
        }
    }

    /// (space, operations) in per cent.
    fn zones(shares: &[(u32, u32)]) -> Vec<Zone> {
        let zone = |(space, operations): &(u32, u32)| Zone {
            share_of_space_ppm: space * 10_000,
            share_of_operations_ppm: operations * 10_000,
        };
        shares.iter().map(zone).collect()
    }

    #[test]
    fn zones_have_their_shares_and_are_even_within() {
        let disk = Disk { zones: zones(&[(5, 50), (15, 30), (80, 20)]), ..of(Pattern::Zones) };
        let mut counts = [0_i64; 20];
        for at in offsets(&disk, 1000 * 4096, 200_000) {
            counts[(at / 4096 / 50) as usize] += 1;
        }
        let expected = |bin: usize| [100_000, 20_000, 20_000, 20_000].get(bin).copied().unwrap_or(2500);
        for (bin, count) in counts.iter().enumerate() {
            // Five standard deviations, and the place more that a boundary may have.
            let allowed = 5.0 * f64::sqrt(expected(bin) as f64) + expected(bin) as f64 / 50.0;
            assert!(((count - expected(bin)) as f64).abs() < allowed, "{bin} {counts:?}");
        }
    }

    #[test]
    fn a_zone_smaller_than_a_place_stays_in_the_region() {
        let disk = Disk { zones: zones(&[(1, 1), (98, 98), (1, 1)]), ..of(Pattern::Zones) };
        assert!(offsets(&disk, 3 * 4096, 10_000).iter().all(|at| *at < 3 * 4096));
    }

    #[test]
    fn the_hot_share_of_a_self_similar_load_is_hot_within_itself() {
        let disk = Disk { zones: zones(&[(20, 80)]), ..of(Pattern::SelfSimilar) };
        let mut counts = vec![0_u64; 1000];
        let drawn = 200_000_u32;
        for at in offsets(&disk, 1000 * 4096, drawn as usize) {
            counts[(at / 4096) as usize] += 1;
        }
        // The frequent places are spread over the region: no tenth of it has more than half of the operations.
        let greatest = counts.chunks(100).map(|tenth| tenth.iter().sum::<u64>()).max().unwrap();
        assert!(greatest < u64::from(drawn) / 2, "{greatest}");
        counts.sort_unstable_by(|a, b| b.cmp(a));
        for (places, share) in [(200, 0.8), (40, 0.64), (8, 0.512)] {
            let found = counts[..places].iter().sum::<u64>() as f64 / f64::from(drawn);
            // Its standard deviation is 0.001; sorted by what was drawn, rare places may have come before their rank.
            assert!((found - share).abs() < 0.01, "{places} {found}");
        }
    }

    #[test]
    fn shares_of_reads_and_of_random_places_are_kept() {
        let disk = Disk { read_ratio_ppm: 700_000, random_ratio_ppm: 250_000, ..of(Pattern::Sequential) };
        let mut stream = stream(&disk, 1 << 40, 0, &Cursors::new(1));
        let places: Vec<Place> = (0..100_000).map(|_| stream.next()).collect();
        let writes = places.iter().filter(|place| place.write).count() as i64;
        // Standard deviations 145 and 137; five of those.
        assert!((writes - 30_000).abs() < 725, "{writes}");
        let mut expected = [0, 0];
        let scattered = places
            .iter()
            .filter(|place| {
                let goes_on = place.offset + 4096;
                std::mem::replace(&mut expected[usize::from(place.write)], goes_on) != place.offset
            })
            .count() as i64;
        assert!((scattered - 25_000).abs() < 685, "{scattered}");
    }

    proptest! {
        #[test]
        fn nothing_leaves_the_region(
            pattern in prop::sample::select(vec![
                Pattern::Sequential, Pattern::Random, Pattern::Shuffled, Pattern::Strided, Pattern::Zipf, Pattern::Normal, Pattern::Zones,
                Pattern::SelfSimilar]),
            sequence in prop::sample::select(vec![Sequence::Split, Sequence::Shared, Sequence::Each]),
            offset in 0_u64..1 << 40, blocks in 8_u64..200, rest in 0_u64..512, align in 1_u64..8,
            workers in 1_u32..5, worker in 0_u32..5, mixed in any::<bool>(), random_ratio_ppm in 0_u32..=WHOLE_PPM,
            stride in 1_u64..40, seed in any::<u64>(), in_order in 1_u32..9,
        ) {
            let unit = align * 512;
            let block = unit * 2;
            let disk = Disk {
                block_bytes: Bytes(block),
                align_bytes: Some(Bytes(unit)),
                block_sizes: mixed.then_some(Sizes::Uniform { least_bytes: Bytes(1), greatest_bytes: Bytes(block) }),
                stride_bytes: Some(Bytes(block * stride)),
                zipf_theta_ppm: Some(1_100_000),
                normal_deviation_ppm: Some(300_000),
                in_order,
                zones: zones(if pattern == Pattern::Zones { &[(10, 90), (90, 10)] } else { &[(10, 90)] }),
                read_ratio_ppm: 500_000,
                sequence, workers, random_ratio_ppm, seed,
                ..of(pattern)
            };
            prop_assert!(disk.check().is_ok());
            let length = blocks * block + rest;
            let extents = [Extent { offset, length }];
            let mut stream =
                BlockStream::new(&disk, &extents, worker % workers, &Cursors::new(1)).unwrap();
            for _ in 0..500 {
                let place = stream.next();
                prop_assert!(place.offset >= offset);
                prop_assert!(place.offset + u64::from(place.length) <= offset + length);
                prop_assert!(place.length > 0 && u64::from(place.length) <= block);
                prop_assert_eq!((place.offset - offset) % unit, 0);
                prop_assert_eq!(u64::from(place.length) % unit, 0);
            }
        }
    }
}
