//! Signals that ask a process to end, taken as events.

use std::io;

const ENDING: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

fn ending() -> libc::sigset_t {
    // SAFETY: a signal set is plain data, and is emptied before anything is put into it.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in ENDING {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

/// Holds `SIGTERM`, `SIGINT` and `SIGHUP` back in this thread and those that it starts from now on.
///
/// # Errors
/// What the kernel said.
pub fn hold_back() -> io::Result<()> {
    let set = ending();
    // SAFETY: reads one signal set.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Waits for one of the signals that are held back; gives its number.
///
/// # Errors
/// What the kernel said.
pub fn wait() -> io::Result<i32> {
    let set = ending();
    let mut signal = 0;
    // SAFETY: reads one signal set and writes one integer.
    match unsafe { libc::sigwait(&raw const set, &raw mut signal) } {
        0 => Ok(signal),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}
