//! Which CPUs a thread may run on.

use std::io;
use std::mem::size_of;

/// Words of a CPU mask: up to 8192 CPUs, the most that Linux can be built for.
const MASK_WORDS: usize = 8192 / 64;

/// CPUs that the calling thread may run on, ascending.
///
/// # Errors
/// What the kernel said.
pub fn allowed() -> io::Result<Vec<u32>> {
    let mut mask = [0_u64; MASK_WORDS];
    // SAFETY: the kernel writes at most the given number of bytes into `mask`, which has that many; a mask is
    // an array of words whatever type the C library gives it.
    let outcome =
        unsafe { libc::sched_getaffinity(0, size_of::<[u64; MASK_WORDS]>(), mask.as_mut_ptr().cast()) };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((0..MASK_WORDS as u32 * 64).filter(|cpu| mask[*cpu as usize / 64] >> (cpu % 64) & 1 == 1).collect())
}

/// Restricts the calling thread to `cpus`.
///
/// # Errors
/// `EINVAL` when none of them exists and is allowed by the control group, or one is beyond the mask.
pub fn restrict(cpus: &[u32]) -> io::Result<()> {
    let mut mask = [0_u64; MASK_WORDS];
    for cpu in cpus {
        let word = mask.get_mut(*cpu as usize / 64).ok_or(io::Error::from_raw_os_error(libc::EINVAL))?;
        *word |= 1 << (cpu % 64);
    }
    // SAFETY: the kernel reads the given number of bytes of `mask`, which has that many.
    let outcome = unsafe { libc::sched_setaffinity(0, size_of::<[u64; MASK_WORDS]>(), mask.as_ptr().cast()) };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restricted_thread_reads_back_its_restriction() {
        std::thread::spawn(|| {
            let cpus = allowed().unwrap();
            let one = [*cpus.last().unwrap()];
            restrict(&one).unwrap();
            assert_eq!(allowed().unwrap(), one);
            assert!(restrict(&[]).is_err());
            assert!(restrict(&[1 << 20]).is_err());
        })
        .join()
        .unwrap();
    }
}
