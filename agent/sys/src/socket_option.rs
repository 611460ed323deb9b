//! Options of sockets of any level.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// Hands a value over as the kernel's header files have it.
pub(crate) fn set<T>(socket: impl AsFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let (socket, place) = (socket.as_fd().as_raw_fd(), std::ptr::from_ref(value).cast());
    // SAFETY: the kernel reads the length of `value`, which has that many bytes.
    match unsafe { libc::setsockopt(socket, level, name, place, size_of::<T>() as libc::socklen_t) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Asks for a value of at most so many bytes; these, and how many of them the kernel wrote. A descriptor that was closed
/// meanwhile is answered with an error.
pub(crate) fn get<const BYTES: usize>(
    socket: RawFd,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<([u8; BYTES], usize)> {
    let (mut value, mut length) = ([0; BYTES], BYTES as libc::socklen_t);
    let place = value.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `length` bytes into `value`, which has that many.
    match unsafe { libc::getsockopt(socket, level, name, place, &mut length) } {
        0 => Ok((value, (length as usize).min(BYTES))),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Asks for an integer.
pub(crate) fn integer(socket: impl AsFd, level: libc::c_int, name: libc::c_int) -> io::Result<i32> {
    get(socket.as_fd().as_raw_fd(), level, name).map(|(value, _)| i32::from_ne_bytes(value))
}
