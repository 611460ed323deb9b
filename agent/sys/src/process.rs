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

/// Whether the numbers that this process knows processes by are those of the whole machine, not of a container.
#[must_use]
pub fn sees_all() -> bool {
    // `PROC_PID_INIT_INO` in the kernel's `linux/proc_ns.h`.
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() == "pid:[4026531836]")
}

/// Whether there is a process of this number.
#[must_use]
pub fn exists(process: u32) -> bool {
    let Ok(process) = i32::try_from(process) else { return false };
    // SAFETY: signal 0 is sent to nobody; the call touches no memory of this process.
    let asked = unsafe { libc::kill(process, 0) };
    asked == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Ends every process of the group that is named after this one. A group that is gone is none.
pub fn kill_group(process: u32) {
    let Some(group) = i32::try_from(process).ok().filter(|group| *group > 1) else { return };
    // SAFETY: touches no memory of this process.
    unsafe { libc::kill(-group, libc::SIGKILL) };
}

/// Effective user id.
#[must_use]
pub fn effective_user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Times that threads of this process left a CPU since it began, those that have ended included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// To wait for something.
    pub voluntary: u64,
    /// For others.
    pub involuntary: u64,
}

/// How often threads of this process left a CPU: one call, which takes the longer the more threads there are (some
/// 10 ns each).
///
/// # Errors
/// What the kernel said.
pub fn switches() -> io::Result<Switches> {
    // SAFETY: all of `rusage` is integers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `rusage` to where it is.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Counts, which are never negative.
    let count = |number: libc::c_long| u64::try_from(number).unwrap_or(0);
    Ok(Switches { voluntary: count(usage.ru_nvcsw), involuntary: count(usage.ru_nivcsw) })
}

/// Largest resident set of this process since it began or since [`forget_resident_peak`].
///
/// From `/proc/self/status`: the kernel's `ru_maxrss` also holds the peak of whoever started this process.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn resident_peak() -> io::Result<Bytes> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| Bytes(kib * 1024)).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Starts [`resident_peak`] anew from what is resident now.
///
/// # Errors
/// When `/proc` cannot be written.
pub fn forget_resident_peak() -> io::Result<()> {
    std::fs::write("/proc/self/clear_refs", "5")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_knows_itself() {
        assert!(end_with_parent(parent()).unwrap());
        assert_eq!(thread_id() == std::process::id() as i32, std::thread::current().name() == Some("main"));
        assert!(resident_peak().unwrap().0 > 100_000);
        assert!(exists(std::process::id()) && exists(1));
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        assert!(!exists(gone.id()) && !exists(u32::MAX));
    }
}
