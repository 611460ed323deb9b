//! The process: who started it, who it is, what it takes.

use std::io;
use std::mem::MaybeUninit;

use iodyno_core::units::Bytes;
use rustix::io::Errno;
use rustix::process::{kill_process_group, set_parent_process_death_signal, test_kill_process, Pid, Signal};

/// Has the kernel send this process `SIGTERM` when the thread that started it ends, and says whether that
/// parent lives: `false` means that it was gone before the call, so that no signal will come.
///
/// `parent` is the parent's process id as it was when this process began, from [`parent`]. One outside of this container, which
/// has no number here, is its engine's: it ends once this process runs, and nothing is to end with it.
///
/// # Errors
/// What the kernel said.
pub fn end_with_parent(parent: i32) -> io::Result<bool> {
    if parent == 0 {
        return Ok(true);
    }
    set_parent_process_death_signal(Some(Signal::TERM))?;
    Ok(self::parent() == parent)
}

/// Process id of the parent.
#[must_use]
pub fn parent() -> i32 {
    Pid::as_raw(rustix::process::getppid())
}

/// Thread id of the caller.
#[must_use]
pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
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
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| test_kill_process(process) != Err(Errno::SRCH))
}

/// Ends every process of the group that is named after this one. A group that is gone is none.
pub fn kill_group(process: u32) {
    let group = i32::try_from(process).ok().and_then(Pid::from_raw);
    if let Some(group) = group.filter(|group| !group.is_init()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Effective user id.
#[must_use]
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
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
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one `rusage` to where it is; all of it is integers, for which zeros are valid.
    let usage = unsafe {
        match libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) {
            0 => usage.assume_init(),
            _ => return Err(io::Error::last_os_error()),
        }
    };
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
