//! What a storage job may hold, beyond what the types say.

use crate::arrivals::Arrivals;
use crate::disk::{
    Disk, DiskSyscalls, Pattern, Replay, ReplayedKind, Target, TargetKind, Verify, Zone, LEAST_CHECKED_BYTES,
    MAX_BLOCK_BYTES, MAX_MEMORY_BYTES, MAX_QUEUE_DEPTH, MAX_TARGETS, MAX_WORKERS, WHOLE_PPM,
};
use crate::limits::JobError;

impl Disk {
    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first key that holds something that is not allowed.
    pub fn check(&self) -> Result<(), JobError> {
        let refuse = |key, found: &dyn std::fmt::Display, allowed: &str| {
            Err(JobError { key, found: found.to_string(), allowed: allowed.to_owned() })
        };
        if self.targets.is_empty() || self.targets.len() > MAX_TARGETS {
            return refuse("disk.targets", &self.targets.len(), &format!("1 to {MAX_TARGETS}"));
        }
        let null = |target: &Target| target.kind == TargetKind::Null;
        if self.targets.iter().any(null) && !self.targets.iter().all(null) {
            return refuse("disk.targets", &"null beside others", "all null, or none");
        }
        if self.targets.iter().any(null) && self.verify != Verify::None {
            return refuse("disk.verify", &"checks on a null target", "none");
        }
        for target in &self.targets {
            if target.kind != TargetKind::Null && (target.path.is_empty() || target.path.contains('\0')) {
                return refuse("disk.targets", &format_args!("the path {:?}", target.path), "a path");
            }
            if target.create && (target.kind != TargetKind::File || target.size_bytes.is_none()) {
                return refuse("disk.targets", &"create", "create for a file with size_bytes");
            }
            if target.size_bytes.is_some_and(|size| size.0 == 0 || size.0 > i64::MAX as u64) {
                return refuse("disk.targets", &"size_bytes", "1 to 2^63 - 1");
            }
        }
        if !(1..=MAX_BLOCK_BYTES).contains(&self.block_bytes.0) {
            return refuse("disk.block_bytes", &self.block_bytes.0, &format!("1 to {MAX_BLOCK_BYTES}"));
        }
        if let Some(Err((found, allowed))) =
            self.block_sizes.as_ref().map(|sizes| sizes.check(self.block_bytes.0))
        {
            return refuse("disk.block_sizes", &found, &allowed.replace("message_bytes", "block_bytes"));
        }
        let align = self.alignment();
        if align == 0 || align > self.block_bytes.0 || self.block_bytes.0 % align != 0 {
            return refuse("disk.align_bytes", &align, "what block_bytes is a multiple of");
        }
        if !(1..=MAX_WORKERS).contains(&self.workers) {
            return refuse("disk.workers", &self.workers, &format!("1 to {MAX_WORKERS}"));
        }
        if !(1..=MAX_QUEUE_DEPTH).contains(&self.queue_depth) {
            return refuse("disk.queue_depth", &self.queue_depth, &format!("1 to {MAX_QUEUE_DEPTH}"));
        }
        let queues = matches!(self.syscalls, DiskSyscalls::IoUring | DiskSyscalls::Aio);
        if self.queue_depth > 1 && !queues {
            return refuse(
                "disk.queue_depth",
                &self.queue_depth,
                "1, or the syscalls io_uring or aio; or take more workers",
            );
        }
        if !(1..=self.queue_depth).contains(&self.batch) {
            return refuse("disk.batch", &self.batch, "1 to queue_depth");
        }
        let memory = u64::from(self.workers) * u64::from(self.queue_depth) * self.block_bytes.0;
        if memory > MAX_MEMORY_BYTES {
            return refuse(
                "disk.queue_depth",
                &format_args!("{memory} bytes of blocks"),
                &format!("{MAX_MEMORY_BYTES} at most in workers x queue_depth x block_bytes"),
            );
        }
        if self.region.is_some_and(|region| {
            region.length_bytes.0 == 0
                || region
                    .offset_bytes
                    .0
                    .checked_add(region.length_bytes.0)
                    .is_none_or(|end| end > i64::MAX as u64)
        }) {
            return refuse("disk.region", &"no length, or an end beyond 2^63", "a place in the target");
        }
        if self.think_every == 0 {
            return refuse("disk.think_every", &0, "1 or more");
        }
        if self.sync_every == 0 {
            return refuse("disk.sync_every", &0, "1 or more");
        }
        if self.in_order == 0 {
            return refuse("disk.in_order", &0, "1 or more");
        }
        if self.operations == Some(0) {
            return refuse("disk.operations", &0, "1 or more, or nothing");
        }
        self.check_pattern()?;
        self.check_calls()?;
        if let Some(Err((found, allowed))) = self.arrivals.as_ref().map(Arrivals::check) {
            return refuse("arrivals", &found, allowed);
        }
        if self.replay.is_some() && self.arrivals.is_some() {
            return refuse("arrivals", &"arrivals and a replayed trace", "one of them");
        }
        self.replay.as_ref().map_or(Ok(()), |replay| replay.check(self))
    }

    fn zones_are_whole(&self) -> bool {
        let sum = |share: fn(&Zone) -> u32| self.zones.iter().map(|zone| u64::from(share(zone))).sum::<u64>();
        self.zones.iter().all(|zone| zone.share_of_space_ppm > 0)
            && sum(|zone| zone.share_of_space_ppm) == u64::from(WHOLE_PPM)
            && sum(|zone| zone.share_of_operations_ppm) == u64::from(WHOLE_PPM)
    }

    fn check_pattern(&self) -> Result<(), JobError> {
        let refuse = |key, found: &dyn std::fmt::Display, allowed: &str| {
            Err(JobError { key, found: found.to_string(), allowed: allowed.to_owned() })
        };
        for (key, share) in [
            ("disk.read_ratio_ppm", self.read_ratio_ppm),
            ("disk.random_ratio_ppm", self.random_ratio_ppm),
            ("disk.compressible_ppm", self.compressible_ppm),
        ] {
            if share > WHOLE_PPM {
                return refuse(key, &share, "0 to 1 000 000");
            }
        }
        match self.pattern {
            Pattern::Strided if self.stride_bytes.is_none_or(|stride| stride.0 < self.block_bytes.0) => {
                let found =
                    self.stride_bytes.map_or_else(|| "nothing".to_owned(), |stride| stride.0.to_string());
                refuse("disk.stride_bytes", &found, "block_bytes or more")
            }
            // Above 10 all operations go to one place, to a part in a thousand.
            Pattern::Zipf if !(1..=10_000_000).contains(&self.zipf_theta_ppm.unwrap_or(0)) => {
                refuse("disk.zipf_theta_ppm", &self.zipf_theta_ppm.unwrap_or(0), "1 to 10 000 000")
            }
            Pattern::Normal if self.normal_deviation_ppm.is_none_or(|deviation| deviation > WHOLE_PPM) => {
                refuse("disk.normal_deviation_ppm", &"nothing, or more than the whole", "0 to 1 000 000")
            }
            Pattern::Zones if !self.zones_are_whole() => refuse(
                "disk.zones",
                &"shares that are no whole",
                "shares of space and of operations that come to 1 000 000 each, no zone without space",
            ),
            Pattern::SelfSimilar if !matches!(self.zones[..], [zone] if zone.is_partial()) => refuse(
                "disk.zones",
                &"no single share between none and all",
                "one, with a share of space and of operations between none and all",
            ),
            Pattern::Append if self.workers != 1 || self.targets.len() != 1 || self.read_ratio_ppm != 0 => {
                refuse("disk.pattern", &"append", "append with one worker, one target and no reads")
            }
            Pattern::Append if self.syscalls == DiskSyscalls::Mmap => {
                refuse("disk.pattern", &"append to a mapping", "other syscalls")
            }
            _ => Ok(()),
        }
    }

    fn check_calls(&self) -> Result<(), JobError> {
        let refuse = |key, found: &dyn std::fmt::Display, allowed: &str| {
            Err(JobError { key, found: found.to_string(), allowed: allowed.to_owned() })
        };
        let takes_flags = matches!(self.syscalls, DiskSyscalls::Preadv2 | DiskSyscalls::IoUring);
        if !self.flags.is_empty() && !takes_flags {
            return refuse("disk.flags", &format_args!("{:?}", self.flags), "none, or preadv2 or io_uring");
        }
        if self.syscalls == DiskSyscalls::Mmap && self.direct {
            return refuse(
                "disk.direct",
                &"a mapping without the page cache",
                "direct off, or other syscalls",
            );
        }
        if self.syscalls == DiskSyscalls::IoUring && self.io_uring.iopoll && !self.direct {
            return refuse("disk.io_uring.iopoll", &"polling through the page cache", "direct with it");
        }
        if self.verify != Verify::None {
            if self.alignment() < LEAST_CHECKED_BYTES {
                return refuse(
                    "disk.align_bytes",
                    &self.alignment(),
                    "512 or more, as blocks carry their check",
                );
            }
            if self.replay.is_some() {
                return refuse("disk.verify", &"checks in a replayed trace", "none");
            }
        }
        Ok(())
    }
}

impl Replay {
    fn check(&self, disk: &Disk) -> Result<(), JobError> {
        let refuse = |found: String, allowed: &str| {
            Err(JobError { key: "disk.replay", found, allowed: allowed.to_owned() })
        };
        let operations = self.kinds.len();
        let alike = |length: usize, may_be_empty: bool| length == operations || (may_be_empty && length == 0);
        if operations == 0
            || !alike(self.offsets_bytes.len(), false)
            || !alike(self.lengths_bytes.len(), false)
            || !alike(self.at_ns.len(), true)
            || !alike(self.targets.len(), true)
        {
            return refuse(
                format!("{operations} kinds and lists of other lengths"),
                "lists of one length, not 0",
            );
        }
        if self.at_ns.windows(2).any(|pair| pair[0] > pair[1]) {
            return refuse("times that descend".to_owned(), "ascending times");
        }
        for (at, kind) in self.kinds.iter().enumerate() {
            let (offset, length) = (self.offsets_bytes[at].0, self.lengths_bytes[at].0);
            let target = self.targets.get(at).copied().unwrap_or(0) as usize;
            if target >= disk.targets.len() {
                return refuse(format!("target {target} in operation {at}"), "the index of a target");
            }
            if *kind != ReplayedKind::Fsync && !(1..=disk.block_bytes.0).contains(&length) {
                return refuse(format!("{length} bytes in operation {at}"), "1 to block_bytes");
            }
            if offset.checked_add(length).is_none_or(|end| end > i64::MAX as u64) {
                return refuse(format!("offset {offset} in operation {at}"), "places below 2^63");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{CallFlag, Region};
    use crate::units::{Bytes, Nanos};

    fn file(path: &str) -> Target {
        Target { kind: TargetKind::File, path: path.to_owned(), ..Target::default() }
    }

    /// One file, read and written.
    fn disk() -> Disk {
        Disk { targets: vec![file("a")], read_ratio_ppm: WHOLE_PPM / 2, ..Disk::default() }
    }

    type Change = fn(&mut Disk);

    /// Each change is refused by its key, with what was found.
    fn assert_refused(changes: &[(&str, &str, Change)]) {
        disk().check().unwrap();
        for (key, found, change) in changes {
            let mut disk = disk();
            change(&mut disk);
            let error = disk.check().unwrap_err();
            assert!(error.key == *key && error.found.contains(found), "{key}, {found}: {error:?}");
        }
    }

    #[test]
    fn what_is_not_allowed_is_named_by_its_key() {
        assert_refused(&[
            ("disk.targets", "0", |disk| disk.targets.clear()),
            ("disk.targets", "null beside others", |disk| {
                disk.targets.push(Disk::default().targets.remove(0))
            }),
            ("disk.verify", "null", |disk| {
                (disk.targets, disk.verify) = (Disk::default().targets, Verify::Read)
            }),
            ("disk.targets", "\"\"", |disk| disk.targets[0].path.clear()),
            ("disk.targets", "a\\0b", |disk| disk.targets.push(file("a\0b"))),
            ("disk.targets", "create", |disk| disk.targets[0].create = true),
            ("disk.targets", "size_bytes", |disk| disk.targets[0].size_bytes = Some(Bytes(0))),
            ("disk.block_bytes", "0", |disk| disk.block_bytes = Bytes(0)),
            ("disk.align_bytes", "3", |disk| disk.align_bytes = Some(Bytes(3))),
            ("disk.align_bytes", "8192", |disk| disk.align_bytes = Some(Bytes(8192))),
            ("disk.workers", "0", |disk| disk.workers = 0),
            ("disk.queue_depth", "2", |disk| disk.queue_depth = 2),
            ("disk.batch", "2", |disk| disk.batch = 2),
            ("disk.queue_depth", "bytes of blocks", |disk| {
                (disk.syscalls, disk.queue_depth, disk.workers) =
                    (DiskSyscalls::IoUring, MAX_QUEUE_DEPTH, MAX_WORKERS);
            }),
            ("disk.region", "no length", |disk| {
                disk.region = Some(Region { offset_bytes: Bytes(4096), length_bytes: Bytes(0) });
            }),
            ("disk.region", "beyond", |disk| {
                disk.region = Some(Region { offset_bytes: Bytes(u64::MAX), length_bytes: Bytes(4096) });
            }),
            ("disk.think_every", "0", |disk| disk.think_every = 0),
            ("disk.sync_every", "0", |disk| disk.sync_every = 0),
            ("disk.in_order", "0", |disk| disk.in_order = 0),
            ("disk.operations", "0", |disk| disk.operations = Some(0)),
        ]);
    }

    #[test]
    fn a_pattern_and_calls_that_do_not_fit_each_other_are_refused() {
        assert_refused(&[
            ("disk.read_ratio_ppm", "1000001", |disk| disk.read_ratio_ppm = WHOLE_PPM + 1),
            ("disk.stride_bytes", "nothing", |disk| disk.pattern = Pattern::Strided),
            ("disk.stride_bytes", "512", |disk| {
                (disk.pattern, disk.stride_bytes) = (Pattern::Strided, Some(Bytes(512)));
            }),
            ("disk.zipf_theta_ppm", "0", |disk| disk.pattern = Pattern::Zipf),
            ("disk.normal_deviation_ppm", "nothing", |disk| disk.pattern = Pattern::Normal),
            ("disk.zones", "no whole", |disk| {
                (disk.pattern, disk.zones) = (Pattern::Zones, vec![Zone::EVEN])
            }),
            ("disk.zones", "no single share", |disk| disk.pattern = Pattern::SelfSimilar),
            ("disk.pattern", "append", |disk| disk.pattern = Pattern::Append),
            ("disk.pattern", "mapping", |disk| {
                (disk.pattern, disk.read_ratio_ppm) = (Pattern::Append, 0);
                disk.syscalls = DiskSyscalls::Mmap;
            }),
            ("disk.flags", "Dsync", |disk| disk.flags = vec![CallFlag::Dsync]),
            ("disk.direct", "mapping", |disk| (disk.syscalls, disk.direct) = (DiskSyscalls::Mmap, true)),
            ("disk.io_uring.iopoll", "page cache", |disk| {
                disk.syscalls = DiskSyscalls::IoUring;
                disk.io_uring.iopoll = true;
            }),
            ("disk.align_bytes", "256", |disk| {
                (disk.align_bytes, disk.verify) = (Some(Bytes(256)), Verify::Write);
            }),
        ]);
    }

    #[test]
    fn a_trace_to_be_replayed_is_of_one_length_ascending_and_within_its_targets() {
        let replay = Replay {
            at_ns: vec![Nanos(0), Nanos(5)],
            kinds: vec![ReplayedKind::Read, ReplayedKind::Fsync],
            offsets_bytes: vec![Bytes(512), Bytes(0)],
            lengths_bytes: vec![Bytes(4096), Bytes(0)],
            targets: Vec::new(),
        };
        let told = |change: fn(&mut Replay)| {
            let mut replay = replay.clone();
            change(&mut replay);
            let checked = Disk { replay: Some(replay), ..disk() }.check();
            checked.map_or_else(|error| format!("{}: {}", error.key, error.found), |()| "taken".to_owned())
        };
        assert_eq!(told(|_| {}), "taken");
        assert_eq!(told(|replay| replay.at_ns.clear()), "taken");
        for (change, found) in [
            (
                (|replay| replay.lengths_bytes.truncate(1)) as fn(&mut Replay),
                "2 kinds and lists of other lengths",
            ),
            (|replay| replay.at_ns.reverse(), "times that descend"),
            (|replay| replay.targets = vec![0, 1], "target 1 in operation 1"),
            (|replay| replay.lengths_bytes[0] = Bytes(4097), "4097 bytes in operation 0"),
            (|replay| replay.lengths_bytes[0] = Bytes(0), "0 bytes in operation 0"),
            (
                |replay| replay.offsets_bytes[1] = Bytes(u64::MAX),
                "offset 18446744073709551615 in operation 1",
            ),
        ] {
            assert_eq!(told(change), format!("disk.replay: {found}"));
        }
    }
}
