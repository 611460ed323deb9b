//! Hashes the agent's sources, so that a lab can refuse an agent that was built from others.

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the agent's folders can be read").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if name != "target" && name != "tests" {
                sources(&path, found);
            }
        } else if path
            .extension()
            .is_some_and(|e| ["rs", "toml", "lock", "c", "h"].iter().any(|known| e == *known))
        {
            found.push(path);
        }
    }
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is one folder up");
    let mut files = Vec::new();
    sources(root, &mut files);
    files.sort();
    let mut hash = Sha256::new();
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
        hash.update(file.strip_prefix(root).expect("found below the root").to_string_lossy().as_bytes());
        hash.update(std::fs::read(file).expect("a source can be read"));
    }
    // Each crate with all that is in its folder, for files that are new. Of the others some change while nothing is built.
    for folder in std::fs::read_dir(root).expect("the agent's folder can be read").flatten() {
        if folder.path().join("Cargo.toml").is_file() {
            println!("cargo:rerun-if-changed={}", folder.path().display());
        }
    }
    let digest: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    println!("cargo:rustc-env=IODYNO_BUILD_HASH={digest}");
}
