//! Streams over `io_uring`: sends and receives of many sockets, submitted and completed through one ring.
//!
//! A ring owns the bytes that it sends and the memory that it receives to, because the kernel uses both until a request
//! is complete: nobody can free them too early. Both are the same for all requests: what is sent does not matter, and
//! what is received is forgotten.

use std::io;
use std::mem::{size_of, ManuallyDrop};
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{BufRingEntry, Fixed, SubmitArgs, Timespec};
use io_uring::{cqueue, opcode, IoUring};

use iodyno_core::units::Nanos;

use crate::buffer::{Mapping, ReceiveScratch, SendSource};
use crate::ring_common::{cancel_all, publish, GROUP, REPORT_USAGE, USAGE_COPIED};

/// chosen: most requests that are submitted at once; more are submitted in turns.
const MOST_SUBMITTED: u32 = 4_096;
/// chosen: completions that a multishot receive may post before its worker gives the buffers back. Each is an entry of
/// 16 bytes; all share one memory.
const BUFFERS: u16 = 1_024;

/// What a request was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Kind {
    /// A send whose completion counts.
    Send = 0,
    /// A send that reports failures only.
    QuietSend = 1,
    /// A receive.
    Receive = 2,
}

/// What the kernel said of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The request is done, or a multishot one did a part: bytes, or an error number.
    Done {
        /// Which socket, by its place.
        place: usize,
        /// Which request.
        kind: Kind,
        /// Bytes moved, 0 at the end of a stream; or the error number.
        outcome: Result<usize, i32>,
        /// Whether the request goes on.
        more: bool,
    },
    /// The kernel needs the bytes of a send without a copy no longer.
    Released {
        /// Whether it copied them after all.
        copied: bool,
    },
    /// The time of [`StreamRing::look_after`] has passed.
    Look,
}

/// In the place of a kind: a send without a copy, which is a [`Kind::Send`] to who asked for it.
const ZERO_COPY: u64 = 3;
/// Of the request of [`StreamRing::look_after`].
const LOOK: u64 = u64::MAX;

/// The buffers that receives take, as the kernel sees them: all of them are the same memory.
struct Provided {
    entries: Mapping,
    tail: u16,
}

impl Provided {
    fn new(ring: &IoUring, scratch: &ReceiveScratch) -> io::Result<Self> {
        let mut provided =
            Provided { entries: Mapping::new(usize::from(BUFFERS) * size_of::<BufRingEntry>())?, tail: 0 };
        let base = provided.entries.start().cast::<BufRingEntry>();
        for number in 0..BUFFERS {
            // SAFETY: the mapping has room for this many entries, is zero-filled, which is a valid entry, and belongs
            // to nobody else yet.
            let entry = unsafe { base.add(usize::from(number)).as_mut() };
            entry.set_addr(scratch.start() as u64);
            entry.set_len(u32::try_from(scratch.length()).unwrap_or(u32::MAX));
            entry.set_bid(number);
        }
        // SAFETY: the mapping lives as long as the ring: `StreamRing` drops the ring first.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(base.as_ptr() as u64, BUFFERS, GROUP, 0)?;
        }
        provided.give_back(BUFFERS);
        Ok(provided)
    }

    /// Lets the kernel take `count` more. Their entries stay as they are.
    fn give_back(&mut self, count: u16) {
        self.tail = self.tail.wrapping_add(count);
        let base = self.entries.start().cast::<BufRingEntry>();
        // SAFETY: `base` is the first entry, and this thread alone has the ring.
        unsafe { publish(base, self.tail) };
    }
}

/// A ring for the streams of one thread.
pub struct StreamRing {
    // In this order: the ring ends before the memory that it uses.
    ring: ManuallyDrop<IoUring>,
    provided: ManuallyDrop<Option<Provided>>,
    source: ManuallyDrop<SendSource>,
    scratch: ManuallyDrop<ReceiveScratch>,
    /// The kernel reads it when the request is handed over.
    look: Timespec,
    /// How many sockets there are.
    places: usize,
    /// Sends without a copy whose bytes the kernel still needs.
    unreleased: usize,
}

fn timespec(span: Nanos) -> Timespec {
    Timespec::new().sec(span.0 / 1_000_000_000).nsec((span.0 % 1_000_000_000) as u32)
}

/// Whether this host lets the agent use `io_uring`.
///
/// # Errors
/// Why not.
pub fn available() -> Result<(), String> {
    match IoUring::new(2) {
        Ok(ring) if ring.params().is_feature_ext_arg() => Ok(()),
        Ok(_) => Err("this kernel's io_uring cannot wait with a timeout (Linux 5.11)".to_owned()),
        Err(error) => Err(match error.raw_os_error() {
            Some(libc::ENOSYS) => "this kernel has no io_uring".to_owned(),
            Some(libc::EPERM | libc::EACCES) => {
                "io_uring is not allowed here (kernel.io_uring_disabled, or a filter of system calls)"
                    .to_owned()
            }
            _ => format!("io_uring cannot be set up: {error}"),
        }),
    }
}

/// A ring for so many requests and completions at a time; with fewer entries than requests, they take turns.
pub(crate) fn build(requests: usize, completions: usize) -> io::Result<IoUring> {
    let at_most = |count: usize, most: u32| u32::try_from(count).unwrap_or(most).clamp(8, most);
    let entries = at_most(requests, MOST_SUBMITTED).next_power_of_two();
    let completions = at_most(completions, 1 << 18).next_power_of_two();
    let modern = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_submit_all()
        .setup_cqsize(completions)
        .setup_clamp()
        .build(entries);
    match modern {
        // Before Linux 6.1.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            IoUring::builder().setup_cqsize(completions).setup_clamp().build(entries)
        }
        outcome => outcome,
    }
}

impl StreamRing {
    /// A ring for `sockets`, which requests name by their place. Sends up to `source_bytes` in a request and receives
    /// up to `scratch_bytes`. Must be made by the thread that uses it.
    ///
    /// # Errors
    /// `ENOMEM` (also: the limit of locked memory), `EMFILE`, or what [`available`] says.
    pub fn new(sockets: &[BorrowedFd<'_>], source_bytes: usize, scratch_bytes: usize) -> io::Result<Self> {
        let source = SendSource::new(source_bytes)?;
        let scratch = ReceiveScratch::new(scratch_bytes)?;
        let requests = 2 * sockets.len().max(8);
        // A send without a copy completes twice, and a multishot receive as often as there are buffers.
        let ring = build(requests, 2 * requests.min(1 << 16) + usize::from(BUFFERS))?;
        let numbers: Vec<i32> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
        ring.submitter().register_files(&numbers)?;
        let part = libc::iovec {
            iov_base: source.bytes().as_ptr().cast_mut().cast(),
            iov_len: source.bytes().len(),
        };
        // SAFETY: the memory lives as long as the ring, and nobody writes to it.
        unsafe { ring.submitter().register_buffers(&[part])? };
        // Before Linux 5.19 there are none: receives are then submitted one by one.
        let provided = Provided::new(&ring, &scratch).ok();
        Ok(StreamRing {
            ring: ManuallyDrop::new(ring),
            provided: ManuallyDrop::new(provided),
            source: ManuallyDrop::new(source),
            scratch: ManuallyDrop::new(scratch),
            look: Timespec::new(),
            places: sockets.len(),
            unreleased: 0,
        })
    }

    fn submit(&mut self, entry: Entry, place: usize, kind: u64) -> io::Result<()> {
        self.push(&entry.user_data((place as u64) << 2 | kind))
    }

    fn push(&mut self, entry: &Entry) -> io::Result<()> {
        // SAFETY: every entry that gets here names memory of this ring only, which outlives the request.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    /// Asks for a send of `length` bytes, or as many as a request takes. `quiet`: all of them, and it completes only
    /// if it fails.
    ///
    /// # Errors
    /// What the kernel said when the queue was full and had to be handed over.
    #[inline]
    pub fn send(&mut self, place: usize, length: usize, quiet: bool) -> io::Result<()> {
        let length = length.min(self.source.bytes().len()) as u32;
        let all = if quiet { libc::MSG_WAITALL } else { 0 };
        let entry = opcode::Send::new(Fixed(place as u32), self.source.bytes().as_ptr(), length)
            .flags(libc::MSG_NOSIGNAL | all)
            .build();
        if quiet {
            return self.submit(entry.flags(Flags::SKIP_SUCCESS), place, Kind::QuietSend as u64);
        }
        self.submit(entry, place, Kind::Send as u64)
    }

    /// Asks for a send without a copy, from registered memory.
    ///
    /// # Errors
    /// As [`StreamRing::send`].
    #[inline]
    pub fn send_zero_copy(&mut self, place: usize, length: usize) -> io::Result<()> {
        let length = length.min(self.source.bytes().len()) as u32;
        let entry = opcode::SendZc::new(Fixed(place as u32), self.source.bytes().as_ptr(), length)
            .buf_index(Some(0))
            .zc_flags(REPORT_USAGE)
            .flags(libc::MSG_NOSIGNAL)
            .build();
        self.unreleased += 1;
        self.submit(entry, place, ZERO_COPY)
    }

    /// Asks for what comes; with `again` and where the kernel can, for everything that comes. `discards`: the kernel is
    /// to drop it uncopied (TCP alone).
    ///
    /// # Errors
    /// As [`StreamRing::send`].
    #[inline]
    pub fn receive(&mut self, place: usize, again: bool, discards: bool) -> io::Result<()> {
        let socket = Fixed(place as u32);
        let flags = if discards { libc::MSG_TRUNC } else { 0 };
        let entry = if again && self.provided.is_some() {
            opcode::RecvMulti::new(socket, GROUP).flags(flags).build()
        } else {
            let length = u32::try_from(self.scratch.length()).unwrap_or(u32::MAX);
            opcode::Recv::new(socket, self.scratch.start().cast(), length).flags(flags).build()
        };
        self.submit(entry, place, Kind::Receive as u64)
    }

    /// Asks for [`Completion::Look`] after so long: an end of a wait that costs the waits before it nothing.
    ///
    /// # Errors
    /// As [`StreamRing::send`].
    pub fn look_after(&mut self, span: Nanos) -> io::Result<()> {
        self.look = timespec(span);
        let entry = opcode::Timeout::new(&raw const self.look).build().user_data(LOOK);
        self.push(&entry)
    }

    /// Hands over what was asked for, and waits until something is complete or `timeout` has passed.
    ///
    /// # Errors
    /// What the kernel said; that the time has passed or a signal came is none.
    #[inline]
    pub fn wait(&mut self, timeout: Option<Nanos>) -> io::Result<()> {
        let outcome = match timeout {
            None => self.ring.submit_and_wait(1),
            Some(span) => {
                let time = timespec(span);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        match outcome {
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
            Ok(_) => Ok(()),
        }
    }

    /// The next completion that was not looked at.
    #[inline]
    pub fn take(&mut self) -> Option<Completion> {
        let entry = self.ring.completion().next()?;
        let (flags, result) = (entry.flags(), entry.result());
        if entry.user_data() == LOOK {
            return Some(Completion::Look);
        }
        if cqueue::notif(flags) {
            self.unreleased -= 1;
            return Some(Completion::Released { copied: result as u32 & USAGE_COPIED != 0 });
        }
        if let (Some(_), Some(provided)) = (cqueue::buffer_select(flags), self.provided.as_mut()) {
            provided.give_back(1);
        }
        let kind = match entry.user_data() & 3 {
            1 => Kind::QuietSend,
            2 => Kind::Receive,
            sent => {
                // The word that the bytes are free comes only where the kernel has begun.
                self.unreleased -= usize::from(sent == ZERO_COPY && !cqueue::more(flags));
                Kind::Send
            }
        };
        let outcome = usize::try_from(result).map_err(|_| -result);
        // Of a send without a copy, what is to come is the word that the bytes are free.
        let more = cqueue::more(flags) && kind == Kind::Receive;
        Some(Completion::Done { place: (entry.user_data() >> 2) as usize, kind, outcome, more })
    }
}

impl Drop for StreamRing {
    fn drop(&mut self) {
        let named = 0..(self.places as u64) << 2;
        let cancelled = cancel_all(&mut self.ring, named);
        while self.take().is_some() {}
        // So that sockets end with their owners, not some time after the ring. Linux 6.1 waits here until no
        // request needs them; a send without a copy does until its bytes are read, by an end that may wait for this one.
        if self.unreleased == 0 {
            let _ = self.ring.submitter().unregister_files();
        }
        // SAFETY: none of them is used after this.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            // Where requests may still be on their way, their memory stays.
            if cancelled {
                ManuallyDrop::drop(&mut self.provided);
                ManuallyDrop::drop(&mut self.source);
                ManuallyDrop::drop(&mut self.scratch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn done(ring: &mut StreamRing) -> (usize, Kind, Result<usize, i32>) {
        loop {
            ring.wait(Some(Nanos(1_000_000_000))).unwrap();
            while let Some(completion) = ring.take() {
                if let Completion::Done { place, kind, outcome, .. } = completion {
                    return (place, kind, outcome);
                }
            }
        }
    }

    #[test]
    fn what_is_sent_on_one_socket_comes_on_the_other() {
        if available().is_err() {
            return;
        }
        let (near, far) = UnixStream::pair().unwrap();
        let mut ring = StreamRing::new(&[near.as_fd(), far.as_fd()], 5_000, 10_000).unwrap();
        for again in [false, true] {
            ring.receive(1, again, false).unwrap();
            ring.send(0, 3_000, true).unwrap();
            assert_eq!(done(&mut ring), (1, Kind::Receive, Ok(3_000)));
        }
        ring.send(0, 9_999, false).unwrap();
        let both = [done(&mut ring), done(&mut ring)];
        assert!(both.contains(&(0, Kind::Send, Ok(5_000))), "{both:?}");
        assert!(both.contains(&(1, Kind::Receive, Ok(5_000))), "{both:?}");
        drop(far);
    }

    #[test]
    fn a_wait_ends_with_its_time_and_a_failure_is_told() {
        if available().is_err() {
            return;
        }
        let (near, far) = UnixStream::pair().unwrap();
        let mut ring = StreamRing::new(&[near.as_fd()], 100, 100).unwrap();
        ring.receive(0, true, false).unwrap();
        ring.wait(Some(Nanos(1_000_000))).unwrap();
        assert_eq!(ring.take(), None);
        drop(far);
        assert_eq!(done(&mut ring), (0, Kind::Receive, Ok(0)));
        ring.send(0, 10, true).unwrap();
        assert_eq!(done(&mut ring), (0, Kind::QuietSend, Err(libc::EPIPE)));
    }

    /// Linux 6.1 once waited for ever: nobody reads what was sent, and the other end of it stays open.
    #[test]
    fn a_ring_ends_whose_bytes_nobody_has_read() {
        if crate::datagram_ring::available().is_err() {
            return;
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let mut ring = StreamRing::new(&[near.as_fd()], 50_000, 100).unwrap();
        ring.send_zero_copy(0, 40_000).unwrap();
        assert_eq!(done(&mut ring), (0, Kind::Send, Ok(40_000)));
        drop(ring);
        drop(far);
    }
}
