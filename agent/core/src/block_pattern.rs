//! Which block comes next: one worker's operations of a storage job, drawn one at a time.
//!
//! Everything is counted in *units* of the job's alignment, from the begin of the region. A region's rest that is
//! shorter than a unit is not used.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use crate::disk::{Disk, Pattern, Sequence, Zone, WHOLE_PPM};
use crate::random::Random;
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

/// What workers that take blocks from one cursor have in common: a cursor a target, and whose turn it is.
#[derive(Clone, Debug)]
pub struct Cursors(Arc<[AtomicU64]>);

impl Cursors {
    /// For so many targets.
    #[must_use]
    pub fn new(targets: usize) -> Self {
        Cursors((0..=targets).map(|_| AtomicU64::new(0)).collect())
    }

    fn take(&self, target: usize, units: u64) -> u64 {
        self.0[target].fetch_add(units, Relaxed)
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
    next: u64,
    shift: u64,
    fresh: bool,
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
            let split = ordered && disk.sequence == Sequence::Split;
            let (begin, end) =
                if split { (part(worker.into()), part(u64::from(worker) + 1)) } else { (0, units) };
            if end - begin < block {
                return Err(format!(
                    "{} workers share {} bytes: less than a block of {} for each",
                    disk.workers, extent.length, disk.block_bytes.0
                ));
            }
            let ranks = Ranks::new(disk, units / block);
            Ok(Lane { offset: extent.offset, units, begin, end, next: begin, shift: 0, fresh: true, ranks })
        });
        Ok(BlockStream {
            pattern: disk.pattern,
            sequence: disk.sequence,
            read_ratio_ppm: disk.read_ratio_ppm,
            random_ratio_ppm: if ordered { disk.random_ratio_ppm } else { 0 },
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
        let scattered = match self.random_ratio_ppm {
            0 => self.pattern.is_scattered(),
            share => self.random.below(u64::from(WHOLE_PPM)) < u64::from(share),
        };
        let target = match self.lanes.len() {
            1 => 0,
            targets if scattered => self.random.below(targets as u64) as usize,
            targets if self.sequence == Sequence::Shared => (self.cursors.turn() % targets as u64) as usize,
            targets => {
                self.turn = (self.turn + 1) % targets;
                self.turn
            }
        };
        let lane = &mut self.lanes[target];
        let mut wrapped = false;
        let at = match self.pattern {
            _ if scattered && self.random_ratio_ppm > 0 => self.random.below(lane.units - units + 1),
            Pattern::Random => self.random.below(lane.units - units + 1),
            // Every block has its place, so that a place is as frequent as its rank says.
            Pattern::Zipf | Pattern::SelfSimilar => lane.ranks.place(&mut self.random) * self.block,
            Pattern::Zones => within(&self.zones, lane.units - units + 1, &mut self.random),
            Pattern::Sequential | Pattern::Append if self.sequence == Sequence::Shared => {
                // Every block in the cursor's order takes the greatest length, so that none runs into the next.
                let blocks = lane.units.div_ceil(self.block);
                let number = self.cursors.take(target, 1);
                let at = number % blocks * self.block;
                wrapped = at == 0 && number > 0;
                units = units.min(lane.units - at);
                at
            }
            Pattern::Sequential | Pattern::Append => {
                if lane.next >= lane.end {
                    lane.next = lane.begin;
                    wrapped = true;
                }
                let at = lane.next;
                units = units.min(lane.end - at);
                lane.next += units;
                at
            }
            Pattern::Strided => {
                if lane.next + units > lane.end {
                    lane.shift += self.block;
                    if lane.shift >= self.stride || lane.begin + lane.shift + units > lane.end {
                        lane.shift = 0;
                    }
                    lane.next = lane.begin + lane.shift;
                    wrapped = !lane.fresh;
                }
                let at = lane.next;
                lane.next += self.stride;
                at
            }
        };
        lane.fresh = false;
        Place {
            target: target as u32,
            offset: lane.offset + at * self.unit,
            length: (units * self.unit) as u32,
            write,
            wrapped,
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

    #[test]
    fn a_stride_comes_to_every_block() {
        let disk = Disk { stride_bytes: Some(Bytes(4 * 4096)), ..of(Pattern::Strided) };
        let mut found: Vec<u64> = offsets(&disk, 10 * 4096, 10).iter().map(|at| at / 4096).collect();
        assert_eq!(found[..3], [0, 4, 8]);
        found.sort_unstable();
        assert_eq!(found, (0..10).collect::<Vec<_>>());
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
        let mut expected = 0;
        let scattered = places
            .iter()
            .filter(|place| {
                let ordered = place.offset == expected;
                expected += if ordered { 4096 } else { 0 };
                !ordered
            })
            .count() as i64;
        assert!((scattered - 25_000).abs() < 685, "{scattered}");
    }

    proptest! {
        #[test]
        fn nothing_leaves_the_region(
            pattern in prop::sample::select(vec![
                Pattern::Sequential, Pattern::Random, Pattern::Strided, Pattern::Zipf, Pattern::Zones, Pattern::SelfSimilar]),
            sequence in prop::sample::select(vec![Sequence::Split, Sequence::Shared, Sequence::Each]),
            offset in 0_u64..1 << 40, blocks in 8_u64..200, rest in 0_u64..512, align in 1_u64..8,
            workers in 1_u32..5, worker in 0_u32..5, mixed in any::<bool>(), random_ratio_ppm in 0_u32..=WHOLE_PPM,
            stride in 1_u64..40, seed in any::<u64>(),
        ) {
            let unit = align * 512;
            let block = unit * 2;
            let disk = Disk {
                block_bytes: Bytes(block),
                align_bytes: Some(Bytes(unit)),
                block_sizes: mixed.then_some(Sizes::Uniform { least_bytes: Bytes(1), greatest_bytes: Bytes(block) }),
                stride_bytes: Some(Bytes(block * stride)),
                zipf_theta_ppm: Some(1_100_000),
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
