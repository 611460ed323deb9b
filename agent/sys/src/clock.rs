//! Clocks: the kernel's. The one that operations are timed with is in [`crate::operation_clock`].

use std::io;

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

/// `CLOCK_MONOTONIC_RAW`: runs as the hardware runs, not disciplined by NTP.
#[must_use]
pub fn monotonic_raw() -> Nanos {
    read(libc::CLOCK_MONOTONIC_RAW)
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

/// Sleeps until `CLOCK_MONOTONIC` shows `instant`; returns at once when it is past.
///
/// # Errors
/// What the kernel said, other than an interruption by a signal, after which it sleeps on.
pub fn sleep_until(instant: Nanos) -> io::Result<()> {
    let until = libc::timespec {
        tv_sec: (instant.0 / 1_000_000_000) as libc::time_t,
        tv_nsec: (instant.0 % 1_000_000_000) as libc::c_long,
    };
    loop {
        // SAFETY: `until` is a valid timespec; an absolute sleep writes no remainder, so null is allowed.
        let error = unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &until, std::ptr::null_mut())
        };
        match error {
            0 => return Ok(()),
            libc::EINTR => {}
            _ => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// The clock source that the kernel runs on, such as `tsc`.
///
/// # Errors
/// When `/sys` cannot be read.
pub fn clocksource() -> io::Result<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    Ok(std::fs::read_to_string(path)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_ends_at_the_instant_and_not_before() {
        let until = monotonic().plus(Nanos(3_000_000));
        sleep_until(until).unwrap();
        assert!(monotonic() >= until);
        sleep_until(Nanos(1)).unwrap();
    }
}
