//! Waking up on time: the real-time policy and the timer slack of a thread.

use std::io;
use std::num::NonZeroU64;

/// chosen: above ordinary threads, below the kernel's own (interrupt threads run at 50, watchdogs at 99).
const PRIORITY: libc::c_int = 40;

fn schedule(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    // The raw call, because musl's wrapper refuses always.
    // SAFETY: the kernel reads one sched_param, which is the priority alone; thread 0 is the caller.
    let outcome = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Puts the calling thread under `SCHED_FIFO`. What it starts meanwhile is not.
///
/// # Errors
/// `EPERM` without `CAP_SYS_NICE` and a sufficient `RLIMIT_RTPRIO`.
pub fn raise() -> io::Result<()> {
    schedule(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, PRIORITY)
}

/// Puts the calling thread back under `SCHED_OTHER`, with sharp timers: the kernel gives one that comes back the usual
/// slack, whatever it had before.
///
/// # Errors
/// `EPERM` where the kernel does not let it go back (`SCHED_RESET_ON_FORK` stays set, which is harmless).
pub fn lower() -> io::Result<()> {
    schedule(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0)?;
    sharpen_timers()
}

/// Whether this process may use `SCHED_FIFO`: tries it on the calling thread and takes it back.
///
/// # Errors
/// Why not, and what to do about it.
pub fn available() -> Result<(), String> {
    raise().and_then(|()| lower()).map_err(|error| {
        format!("SCHED_FIFO was refused ({error}); run as root, give CAP_SYS_NICE or raise RLIMIT_RTPRIO")
    })
}

/// Lets the timers of the calling thread fire within 1 ns of their time instead of the usual 50 us.
///
/// # Errors
/// What the kernel said.
pub fn sharpen_timers() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_sharp_after_the_priority_as_before_it() {
        let slack_ns = || rustix::thread::current_timer_slack().unwrap();
        std::thread::spawn(move || {
            sharpen_timers().unwrap();
            assert_eq!(slack_ns(), 1);
            if raise().is_ok() {
                lower().unwrap();
                assert_eq!(slack_ns(), 1);
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        std::thread::spawn(|| {
            sharpen_timers().unwrap();
            if let Err(reason) = available() {
                assert!(reason.contains("CAP_SYS_NICE"), "{reason}");
            }
        })
        .join()
        .unwrap();
    }
}
