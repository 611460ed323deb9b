//! Clocks: the kernel's, and the CPU's time-stamp counter.

use iodyno_core::units::Nanos;

/// `clock_gettime` of the given clock.
fn read(clock: libc::clockid_t) -> Nanos {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for one timespec. The call cannot fail for the clocks used here.
    unsafe { libc::clock_gettime(clock, &mut now) };
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// `CLOCK_MONOTONIC`: the axis of every instant on the wire.
#[must_use]
pub fn monotonic() -> Nanos {
    read(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME`: for people, never for arithmetic.
#[must_use]
pub fn wall() -> Nanos {
    read(libc::CLOCK_REALTIME)
}

/// CPU time of the calling thread.
#[must_use]
pub fn thread_cpu() -> Nanos {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of the process, all threads.
#[must_use]
pub fn process_cpu() -> Nanos {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}
