//! Limits of the process.

use std::io;

/// Open files this process may have.
///
/// # Errors
/// What the kernel said.
pub fn descriptors() -> io::Result<u64> {
    Ok(read()?.rlim_cur)
}

fn read() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for one rlimit.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(limit)
}

fn set(limit: libc::rlimit) -> io::Result<()> {
    // SAFETY: the kernel reads one rlimit.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Raises the number of files this process may open: the soft limit to the hard one, and where that is less
/// than `wanted` and the caller is privileged, both to `wanted`. Gives the limit that holds afterwards, read
/// back.
///
/// # Errors
/// When the limit cannot be read. That it could not be raised is not an error: the result says so.
pub fn raise_descriptors(wanted: u64) -> io::Result<u64> {
    let before = read()?;
    if before.rlim_cur < before.rlim_max {
        // Refused only where the system's own limit was lowered meanwhile; what is read back tells.
        let _ = set(libc::rlimit { rlim_cur: before.rlim_max, rlim_max: before.rlim_max });
    }
    if before.rlim_max < wanted {
        // Refused without privilege or above fs.nr_open; likewise.
        let _ = set(libc::rlimit { rlim_cur: wanted, rlim_max: wanted });
    }
    descriptors()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raising_never_lowers() {
        let before = descriptors().unwrap();
        let after = raise_descriptors(before).unwrap();
        assert!(after >= before);
        assert_eq!(descriptors().unwrap(), after);
    }
}
