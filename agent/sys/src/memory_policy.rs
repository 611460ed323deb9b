//! NUMA node of which the memory of a thread is.

use std::io;
use std::mem::size_of;

/// Bits of a mask of nodes: the most that Linux can be built for (`NODES_SHIFT` 10).
const NODES: usize = 1024;

/// Has all that the calling thread, and those that it starts, touch first from here on lie on `node` (set_mempolicy(2)).
///
/// # Errors
/// `EINVAL` where there is no such node, or its memory is not for this process.
pub fn bind(node: u32) -> io::Result<()> {
    let mut mask = [0_u64; NODES / 64];
    let word = mask.get_mut(node as usize / 64).ok_or(io::Error::from_raw_os_error(libc::EINVAL))?;
    *word |= 1 << (node % 64);
    // One more than there are bits: the kernel takes one off (`get_nodes` in mm/mempolicy.c).
    let bits = size_of::<[u64; NODES / 64]>() * 8 + 1;
    // SAFETY: the kernel reads as many bits of `mask` as it has.
    let outcome = unsafe {
        libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_BIND, mask.as_ptr(), bits as libc::c_ulong)
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bound_to_a_node_that_there_is() {
        std::thread::spawn(|| {
            assert_eq!(bind(1 << 20).unwrap_err().raw_os_error(), Some(libc::EINVAL));
            // A kernel without NUMA has no such call.
            if bind(0).is_ok() {
                let maps = std::fs::read_to_string("/proc/thread-self/numa_maps").unwrap();
                assert!(maps.contains(" bind:0 "), "{maps}");
            }
        })
        .join()
        .unwrap();
    }
}
