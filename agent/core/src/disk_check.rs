//! What a storage job may hold, beyond what the types say.

use crate::disk::{
    Disk, DiskInterface, Pattern, Replay, ReplayedKind, Target, TargetKind, Verify, Zone,
    LEAST_CHECKED_BYTES, MAX_BLOCK_BYTES, MAX_DEPTH, MAX_MEMORY_BYTES, MAX_TARGETS, MAX_WORKERS, WHOLE_PPM,
};
use crate::job::JobError;

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
        if !(1..=MAX_DEPTH).contains(&self.depth) {
            return refuse("disk.depth", &self.depth, &format!("1 to {MAX_DEPTH}"));
        }
        let queues = matches!(self.interface, DiskInterface::IoUring | DiskInterface::Aio);
        if self.depth > 1 && !queues {
            return refuse(
                "disk.depth",
                &self.depth,
                "1, or the interface io_uring or aio; or take more workers",
            );
        }
        if !(1..=self.depth).contains(&self.batch) {
            return refuse("disk.batch", &self.batch, "1 to depth");
        }
        let memory = u64::from(self.workers) * u64::from(self.depth) * self.block_bytes.0;
        if memory > MAX_MEMORY_BYTES {
            return refuse(
                "disk.depth",
                &format_args!("{memory} bytes of blocks"),
                &format!("{MAX_MEMORY_BYTES} at most in workers x depth x block_bytes"),
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
            Pattern::Append if self.interface == DiskInterface::Mmap => {
                refuse("disk.pattern", &"append to a mapping", "another interface")
            }
            _ => Ok(()),
        }
    }

    fn check_calls(&self) -> Result<(), JobError> {
        let refuse = |key, found: &dyn std::fmt::Display, allowed: &str| {
            Err(JobError { key, found: found.to_string(), allowed: allowed.to_owned() })
        };
        let takes_flags = matches!(self.interface, DiskInterface::Preadv2 | DiskInterface::IoUring);
        if !self.flags.is_empty() && !takes_flags {
            return refuse("disk.flags", &format_args!("{:?}", self.flags), "none, or preadv2 or io_uring");
        }
        if self.interface == DiskInterface::Mmap && self.direct {
            return refuse(
                "disk.direct",
                &"a mapping without the page cache",
                "direct off, or another interface",
            );
        }
        if self.interface == DiskInterface::IoUring && self.io_uring.iopoll && !self.direct {
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
