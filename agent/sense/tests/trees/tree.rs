//! A copy of a recorded tree that a test may change.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use iodyno_sense::Roots;

/// The recorded trees of a kernel.
pub fn fixture(kernel: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(kernel)
}

/// A copy, removed when dropped.
pub struct Tree(PathBuf);

impl Tree {
    /// Copies a tree.
    pub fn of(recorded: &Path) -> Tree {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let tree = Tree(std::env::temp_dir().join(format!("iodyno-sense-{}-{number}", std::process::id())));
        tree.overlay(recorded);
        tree
    }

    /// Where its `/proc` and `/sys` are.
    pub fn roots(&self) -> Roots {
        Roots { proc: self.0.join("proc"), sys: self.0.join("sys"), boot: self.0.join("boot") }
    }

    /// Writes another tree over it. Files are rewritten in place, so that a sensor which keeps one open
    /// sees the new content, as it does with the kernel's.
    pub fn overlay(&self, recorded: &Path) {
        copy(recorded, &self.0);
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // What stays behind in the temporary folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::write(&target, fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}
