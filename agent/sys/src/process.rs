//! The process: who started it, who it is, what it takes.

use std::io;

use iodyno_core::units::Bytes;

/// Has the kernel send this process `SIGTERM` when the thread that started it ends, and says whether that
/// parent lives: `false` means that it was gone before the call, so that no signal will come.
///
/// `parent` is the parent's process id as it was when this process began, from [`parent`].
///
/// # Errors
/// What the kernel said.
pub fn end_with_parent(parent: i32) -> io::Result<bool> {
    // SAFETY: takes one integer and touches no memory of this process.
    let outcome = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as libc::c_ulong, 0, 0, 0) };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(self::parent() == parent)
}

/// Process id of the parent.
#[must_use]
pub fn parent() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getppid() }
}

/// Thread id of the caller.
#[must_use]
pub fn thread_id() -> i32 {
    // SAFETY: takes nothing and cannot fail. The raw call, because older C libraries have no wrapper.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Effective user id.
#[must_use]
pub fn effective_user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Largest resident set of this process so far.
///
/// # Errors
/// What the kernel said.
pub fn resident_peak() -> io::Result<Bytes> {
    // SAFETY: an all-zero rusage is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid place for one rusage.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Bytes(usage.ru_maxrss as u64 * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_knows_itself() {
        assert!(end_with_parent(parent()).unwrap());
        assert_eq!(thread_id() == std::process::id() as i32, std::thread::current().name() == Some("main"));
        assert!(resident_peak().unwrap().0 > 100_000);
    }
}
