//! A lock on an open file that ends with whoever holds it, however that ends.

use std::fs::File;
use std::io;

use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;

/// Locks `file` for its descriptor alone (flock(2)); `false`: another one has it. The lock ends with [`release`], or
/// when the last descriptor of this opening is closed: a child between fork and exec has one too, so that closing
/// alone may end it later than the caller thinks.
///
/// # Errors
/// What the kernel said.
pub fn try_exclusive(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(false),
        outcome => Ok(outcome.map(|()| true)?),
    }
}

/// Ends the lock now, whoever else has a descriptor of this opening.
///
/// # Errors
/// What the kernel said.
pub fn release(file: &File) -> io::Result<()> {
    Ok(flock(file, FlockOperation::Unlock)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_opening_at_a_time() {
        let path = std::env::temp_dir().join(format!("iodyno-lock-{}", std::process::id()));
        let (first, second) = (File::create(&path).unwrap(), File::create(&path).unwrap());
        assert!(try_exclusive(&first).unwrap());
        assert!(!try_exclusive(&second).unwrap());
        // As a child that did not come to its exec yet: closing alone would not do.
        let _inherited = first.try_clone().unwrap();
        release(&first).unwrap();
        drop(first);
        assert!(try_exclusive(&second).unwrap());
        std::fs::remove_file(path).unwrap();
    }
}
