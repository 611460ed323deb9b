//! Who goes first: nice values and I/O priorities of threads.

use std::io;

/// Gives the calling thread this nice value, -20 to 19.
///
/// # Errors
/// `EACCES` or `EPERM` where it may not have a lower one.
pub fn set_nice(nice: i32) -> io::Result<()> {
    // On Linux a nice value is a thread's (setpriority(2)); 0 is the caller.
    Ok(rustix::process::setpriority_process(None, nice)?)
}

/// The nice value of the calling thread.
#[must_use]
pub fn nice() -> i32 {
    // It fails for other threads' sake only.
    rustix::process::getpriority_process(None).unwrap_or(0)
}

/// Lets the calling thread go before all ordinary ones, where that is allowed: for one that seldom has something to do,
/// on whose word others wait. What it starts has its nice value.
pub fn go_first() {
    // Without the privilege it has its turn like any other.
    let _ = set_nice(-20);
}

/// Gives the calling thread this best-effort I/O priority, 0 (first) to 7.
///
/// # Errors
/// What the kernel said.
pub fn set_io_priority(level: u32) -> io::Result<()> {
    // ioprio_set(2): who is a thread (1), class best effort (2) in the bits from 13 on.
    let (who_thread, best_effort) = (1, 2 << 13);
    // SAFETY: takes integers only.
    if unsafe { libc::syscall(libc::SYS_ioprio_set, who_thread, 0, best_effort | (level & 7) as libc::c_int) }
        != 0
    {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_step_back() {
        std::thread::spawn(|| {
            go_first();
            set_nice(10).unwrap();
            assert_eq!(nice(), 10);
            set_io_priority(7).unwrap();
        })
        .join()
        .unwrap();
    }
}
