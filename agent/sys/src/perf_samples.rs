//! Samples of the kernel's performance events: what was executed, and by whom, so many times a second.
//!
//! The kernel writes records into a ring that it shares with this process. It never writes over a record that
//! was not taken out yet; when the ring is full it drops samples and says how many. What the records mean is
//! not known here.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::buffer::Mapping;
use crate::perf_event::{open_file, Attributes, Event, Scope};

/// What is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// The event that makes samples.
    pub event: Event,
    /// Samples per second of each CPU.
    pub hz: u32,
    /// Whether the kernel's code is sampled too, and not only user code.
    pub kernel: bool,
}

/// An open event with its ring; disabled when it is opened, closed when it is dropped.
#[derive(Debug)]
pub struct Sampler {
    file: File,
    ring: Mapping,
    /// Words of the data area; a power of two.
    words: usize,
    /// Where the data area begins, in words from the begin of the ring.
    data: usize,
    /// Bytes taken out so far.
    taken: u64,
}

// Flags, sample types and requests of `include/uapi/linux/perf_event.h`.
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const BY_FREQUENCY: u64 = 1 << 10;
const WAKE_UP_BY_BYTES: u64 = 1 << 14;
const EXCLUDE_KERNEL_CALLERS: u64 = 1 << 21;
/// `PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_CALLCHAIN`. The CPU is the ring's.
const SAMPLE: u64 = 1 | 1 << 1 | 1 << 5;
/// `_IO('$', 0)` and `_IO('$', 1)`, as on every architecture but MIPS, PowerPC, SPARC and Alpha.
const ENABLE: libc::Ioctl = 0x2400;
const DISABLE: libc::Ioctl = 0x2401;
/// `_IOW('$', 8, __u32)`, there too.
const SET_PROGRAM: libc::Ioctl = 0x4004_2408;
/// `data_head`, `data_tail`, `data_offset` and `data_size` of `struct perf_event_mmap_page`, in words.
const HEAD: usize = 128;
const TAIL: usize = 129;
const DATA_OFFSET: usize = 130;
const DATA_SIZE: usize = 131;

/// Opens a sampled event with a ring of 2 to the power of `ring_order` pages.
///
/// # Errors
/// Those of [`crate::perf_event::open`]; `EINVAL` when `hz` is above `kernel.perf_event_max_sample_rate`;
/// `EPERM` of the ring when this user's share of locked memory is used up.
pub fn open(sampling: Sampling, scope: Scope, ring_order: u32) -> io::Result<Sampler> {
    let mut flags = DISABLED | BY_FREQUENCY | WAKE_UP_BY_BYTES;
    if matches!(scope, Scope::Descendants(_)) {
        flags |= INHERIT;
    }
    if !sampling.kernel {
        flags |= EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | EXCLUDE_KERNEL_CALLERS;
    }
    let attributes = Attributes {
        sample_period: u64::from(sampling.hz),
        sample_type: SAMPLE,
        flags,
        // Nobody waits for the descriptor: the ring is looked at. The kernel need not try to wake anyone.
        wakeup_events: u32::MAX,
        ..Attributes::default()
    };
    let file = open_file(sampling.event, scope, attributes)?;
    let page = rustix::param::page_size();
    let ring = Mapping::shared(file.as_fd(), page + (page << ring_order), 0)?;
    let mut sampler = Sampler { file, ring, words: (page << ring_order) / 8, data: page / 8, taken: 0 };
    // Since Linux 4.1 the kernel says where the data is; before that it was on the second page.
    let (offset, size) = (sampler.control(DATA_OFFSET), sampler.control(DATA_SIZE));
    let (offset, size) = (offset.load(Ordering::Relaxed), size.load(Ordering::Relaxed));
    if offset != 0 && (offset as usize, size as usize) != (page, page << ring_order) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    sampler.taken = sampler.control(TAIL).load(Ordering::Relaxed);
    Ok(sampler)
}

/// Has the kernel run a loaded program at each sample of an event, until the event is closed. What the program
/// returns decides whether the sample is kept: 0 throws it away.
///
/// # Errors
/// What the kernel said: `EBADF` or `EINVAL` when this is no such event or no such program, `EEXIST` when it has one.
pub fn run_program(event: RawFd, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both are numbers to the kernel, which checks what they stand for; no memory is touched.
    let outcome = unsafe { libc::ioctl(event, SET_PROGRAM, program.as_raw_fd()) };
    match outcome {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has the kernel run a loaded program so many times a second on a CPU, by its clock, as long as the descriptor lives. No
/// sample is kept.
///
/// # Errors
/// Those of [`crate::perf_event::open`] and [`run_program`].
pub fn run_at_timer(cpu: u32, hz: u32, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let attributes =
        Attributes { sample_period: u64::from(hz), flags: DISABLED | BY_FREQUENCY, ..Attributes::default() };
    let file = open_file(Event::CpuClock, Scope::Cpu(cpu), attributes)?;
    run_program(file.as_raw_fd(), program)?;
    request(&file, ENABLE)?;
    Ok(file.into())
}

fn request(event: &File, request: libc::Ioctl) -> io::Result<()> {
    // SAFETY: the descriptor is ours and open; the request takes a number and touches no memory.
    match unsafe { libc::ioctl(event.as_raw_fd(), request, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Sampler {
    /// Starts to sample.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn enable(&mut self) -> io::Result<()> {
        request(&self.file, ENABLE)
    }

    /// Stops to sample; what is in the ring stays.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn disable(&mut self) -> io::Result<()> {
        request(&self.file, DISABLE)
    }

    /// Share of the ring that is filled, 0 to 1.
    #[must_use]
    pub fn filled(&self) -> f64 {
        let head = self.control(HEAD).load(Ordering::Relaxed);
        head.wrapping_sub(self.taken) as f64 / (self.words * 8) as f64
    }

    /// Takes every record out of the ring and appends it to `into`. Records are whole words.
    pub fn drain(&mut self, into: &mut Vec<u64>) {
        // Pairs with the kernel's barrier between the records and their head.
        let head = self.control(HEAD).load(Ordering::Acquire);
        let waiting = (head.wrapping_sub(self.taken) / 8) as usize;
        let first = (self.taken / 8) as usize & (self.words - 1);
        // More than fits cannot be; it would be read as far as the ring goes.
        let waiting = waiting.min(self.words);
        let to_the_end = waiting.min(self.words - first);
        for (begin, length) in [(first, to_the_end), (0, waiting - to_the_end)] {
            // SAFETY: begin and length lie in the data area of the mapping, which is aligned to a page, and the
            // kernel does not write between tail and head.
            let words = unsafe {
                let data = self.ring.start().cast::<u64>().add(self.data + begin);
                std::slice::from_raw_parts(data.as_ptr(), length)
            };
            into.extend_from_slice(words);
        }
        self.taken = head;
        // Everything was copied before the kernel may write there again.
        self.control(TAIL).store(head, Ordering::Release);
    }

    /// The event's descriptor, for who runs a program of its own at each sample ([`run_program`]).
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// A word of the control page.
    fn control(&self, word: usize) -> &AtomicU64 {
        // SAFETY: the first page of the mapping is the control page, its words are aligned, and both sides
        // access them as atomic words only.
        unsafe { AtomicU64::from_ptr(self.ring.start().cast::<u64>().add(word).as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Words that sampling this thread brought while it span.
    fn sampled(ring_order: u32) -> Option<(Vec<u64>, f64)> {
        let sampling = Sampling { event: Event::CpuClock, hz: 997, kernel: false };
        // A container may forbid the call altogether: then there is nothing to test.
        let mut sampler = open(sampling, Scope::ThisThread, ring_order).ok()?;
        let spin = |time| {
            let start = Instant::now();
            while start.elapsed() < time {
                std::hint::spin_loop();
            }
        };
        spin(Duration::from_millis(20));
        assert!(sampler.filled() == 0.0, "it is disabled");
        sampler.enable().unwrap();
        spin(Duration::from_millis(400));
        sampler.disable().unwrap();
        let filled = sampler.filled();
        let mut words = Vec::new();
        sampler.drain(&mut words);
        assert!(sampler.filled() == 0.0);
        Some((words, filled))
    }

    #[test]
    fn samples_come_while_it_is_enabled_and_are_taken_out_once() {
        let Some((words, filled)) = sampled(4) else { return };
        assert!(!words.is_empty() && filled > 0.0);
        // The first record: its kind is in the low half of the header's first field, 9 is a sample.
        assert_eq!(words[0].to_ne_bytes()[..4], 9u32.to_ne_bytes());
    }

    #[test]
    fn a_full_ring_keeps_whole_records() {
        let Some((words, filled)) = sampled(0) else { return };
        assert!(filled <= 1.0 && words.len() <= 512);
        let mut at = 0;
        while at < words.len() {
            let bytes = words[at].to_ne_bytes();
            at += usize::from(u16::from_ne_bytes([bytes[6], bytes[7]])) / 8;
        }
        assert_eq!(at, words.len());
    }

    #[test]
    fn an_event_that_cannot_be_is_an_error() {
        let sampling = Sampling { event: Event::CpuClock, hz: u32::MAX, kernel: true };
        assert!(open(sampling, Scope::Cpu(0), 0).is_err());
        assert!(open(Sampling { hz: 997, ..sampling }, Scope::Cpu(u32::MAX), 0).is_err());
    }
}
