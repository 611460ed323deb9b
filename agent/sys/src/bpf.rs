//! Calls of `bpf(2)` on programs that are in the kernel already, whoever loaded them: found by number, attached, run.
//!
//! To find what others loaded needs `CAP_SYS_ADMIN`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

// Commands of `enum bpf_cmd` in `include/uapi/linux/bpf.h`; so are the layouts below.
const PROG_TEST_RUN: libc::c_int = 10;
const PROG_GET_FD_BY_ID: libc::c_int = 13;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const LINK_GET_FD_BY_ID: libc::c_int = 30;
/// `BPF_F_TEST_RUN_ON_CPU`.
const RUN_ON_CPU: u32 = 1;

/// The part of `union bpf_attr` for `BPF_*_GET_FD_BY_ID`.
#[repr(C)]
#[derive(Default)]
struct ById {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

/// The part of `union bpf_attr` for `BPF_RAW_TRACEPOINT_OPEN`.
#[repr(C)]
#[derive(Default)]
struct RawTracepoint {
    name: u64,
    program: u32,
    unused: u32,
}

/// The part of `union bpf_attr` for `BPF_PROG_TEST_RUN`.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    returned: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    unused: u32,
}

/// One call; `attributes` are the part of the union that the command reads.
fn call<T>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: `attributes` is initialised, lives as long as the call, and its size is told; every pointer in it was made
    // from a reference that its caller holds.
    let outcome = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<T>()) };
    match outcome {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(outcome as libc::c_int),
    }
}

fn descriptor(command: libc::c_int, attributes: &mut impl Sized) -> io::Result<OwnedFd> {
    let number = call(command, attributes)?;
    // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// A program by its number; it stays in the kernel as long as the descriptor lives.
///
/// # Errors
/// `ENOENT`: there is none, or no longer. `EPERM`: not allowed.
pub fn program(id: u32) -> io::Result<OwnedFd> {
    descriptor(PROG_GET_FD_BY_ID, &mut ById { id, ..ById::default() })
}

/// A link by its number: what it attaches stays attached as long as the descriptor lives.
///
/// # Errors
/// Those of [`program`].
pub fn link(id: u32) -> io::Result<OwnedFd> {
    descriptor(LINK_GET_FD_BY_ID, &mut ById { id, ..ById::default() })
}

/// Attaches a program to a raw tracepoint for as long as the descriptor lives.
///
/// # Errors
/// `ENOENT`: the kernel has no such tracepoint. `EINVAL`: the program is none for it.
pub fn attach_raw_tracepoint(program: BorrowedFd<'_>, tracepoint: &str) -> io::Result<OwnedFd> {
    let name = std::ffi::CString::new(tracepoint)?;
    let program = program.as_raw_fd() as u32;
    let mut attributes = RawTracepoint { name: name.as_ptr() as u64, program, unused: 0 };
    descriptor(RAW_TRACEPOINT_OPEN, &mut attributes)
}

/// Runs a program of a raw tracepoint once, with these arguments, on a CPU or here; gives what it returned.
///
/// # Errors
/// `ENXIO`: the CPU is not online.
pub fn run_raw_tracepoint(program: BorrowedFd<'_>, arguments: &[u64], cpu: Option<u32>) -> io::Result<u32> {
    let mut attributes = TestRun {
        program: program.as_raw_fd() as u32,
        context_size_in: size_of_val(arguments) as u32,
        context_in: arguments.as_ptr() as u64,
        flags: if cpu.is_some() { RUN_ON_CPU } else { 0 },
        cpu: cpu.unwrap_or_default(),
        ..TestRun::default()
    };
    call(PROG_TEST_RUN, &mut attributes)?;
    Ok(attributes.returned)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    /// Not allowed, or not there: never a descriptor.
    fn known(error: &io::Error) -> bool {
        matches!(
            error.raw_os_error(),
            Some(libc::ENOENT | libc::EPERM | libc::ENOSYS | libc::EINVAL | libc::EBADF)
        )
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        assert!(known(&program(u32::MAX).unwrap_err()));
        assert!(known(&link(u32::MAX).unwrap_err()));
        let no_program = std::fs::File::open("/dev/null").unwrap();
        let error = attach_raw_tracepoint(no_program.as_fd(), "sched_switch").unwrap_err();
        assert!(known(&error), "{error}");
        let error = run_raw_tracepoint(no_program.as_fd(), &[0], None).unwrap_err();
        assert!(known(&error), "{error}");
        assert!(attach_raw_tracepoint(no_program.as_fd(), "a\0b").is_err());
    }
}
