//! A thread with a table of open files of its own.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::process;

/// After standard input, output and errors, which are kept.
const FIRST: u32 = 3;
/// chosen: files of all tables, 8 bytes each. A thread a connection, of six thousand, would come to 288 MB.
const MOST_ENTRIES: usize = 1 << 20;

/// Does `work` with a table of open files of the calling thread's own: of the process's files it has `kept`, and those that
/// it opens itself are closed at its end. The process's first thread, and one whose kernel cannot do that (before Linux 5.9),
/// do `work` with the table of the process; so does each of so many `threads` that their tables would take megabytes.
///
/// A call on a file takes a reference to it and gives it back, by two locked instructions, where another thread could close
/// the file meanwhile, and does without where the table has one user (`fdget`, include/linux/file.h). What is open in two
/// tables is closed when it is in both.
pub fn with_own_files<F: AsFd, T>(kept: &[F], threads: usize, work: impl FnOnce() -> T) -> T {
    if threads * kept.len() > MOST_ENTRIES {
        return work();
    }
    let mut kept: Vec<u32> = kept.iter().map(|file| file.as_fd().as_raw_fd() as u32).collect();
    kept.sort_unstable();
    let first_behind = kept.last().map_or(FIRST, |last| FIRST.max(last + 1));
    // What one thread alone has is closed, not copied. Files behind the last are not copied either.
    if process::thread_id() == std::process::id() as i32
        || close_range(first_behind, libc::CLOSE_RANGE_UNSHARE).is_err()
    {
        return work();
    }
    let mut first = FIRST;
    for file in kept {
        if file > first {
            // Fails for a range that is none only.
            let _ = close_between(first, file - 1, 0);
        }
        first = first.max(file + 1);
    }
    let done = work();
    // Now, and not by the thread's end, which comes after it was waited for.
    let _ = close_range(FIRST, 0);
    done
}

fn close_range(first: u32, flags: libc::c_uint) -> io::Result<()> {
    close_between(first, u32::MAX, flags)
}

fn close_between(first: u32, last: u32, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: the kernel takes three numbers. Files are closed in a table that only this thread has.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::OwnedFd;

    use super::*;

    fn is_open(number: i32) -> bool {
        // SAFETY: asks for the flags of a number that may be no file.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        flags >= 0
    }

    #[test]
    fn a_thread_has_what_it_keeps_and_closes_what_it_opens() {
        let files: Vec<File> = (0..4).map(|_| File::open("/dev/zero").unwrap()).collect();
        let numbers: Vec<i32> = files.iter().map(AsRawFd::as_raw_fd).collect();
        let kept = [&files[2], &files[0]];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                with_own_files(&kept, 1, || {
                    let open: Vec<bool> = numbers.iter().map(|number| is_open(*number)).collect();
                    assert_eq!(open, [true, false, true, false]);
                    assert_eq!((&files[0]).read(&mut [1]).unwrap(), 1);
                    assert!(is_open(2), "standard errors");
                    std::mem::forget(OwnedFd::from(File::open("/dev/zero").unwrap()));
                });
                assert!(!numbers.iter().any(|number| is_open(*number)));
            });
        });
        assert!(numbers.iter().all(|number| is_open(*number)), "the others' are as they were");
    }

    #[test]
    fn what_a_thread_closed_at_its_end_is_closed_when_the_others_close_it() {
        let (reading, writing) = rustix::pipe::pipe().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| with_own_files(&[&writing], 1, || ()));
        });
        drop(writing);
        assert_eq!(File::from(reading).read(&mut [0]).unwrap(), 0);
    }
}
