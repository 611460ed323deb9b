//! Programs in the kernel, and who holds them.

use std::fs::{read_dir, read_to_string};
use std::thread;
use std::time::Duration;

/// Ids of the BPF programs that a process holds, by itself or by what attaches them, as its descriptors describe them.
pub fn held_by(process: u32) -> Vec<u32> {
    let Ok(descriptors) = read_dir(format!("/proc/{process}/fdinfo")) else { return Vec::new() };
    let texts = descriptors.flatten().filter_map(|descriptor| read_to_string(descriptor.path()).ok());
    let mut ids: Vec<u32> = texts
        .filter_map(|text| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok()))
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// How many of these programs the kernel still has.
pub fn alive(programs: &[u32]) -> usize {
    let loaded = aya::programs::loaded_programs().flatten();
    loaded.filter(|program| programs.contains(&program.id())).count()
}

/// Waits until the kernel has none of these programs any longer, but for those that an agent of somebody else shares.
pub fn assert_gone(programs: &[u32]) {
    let mut shared = Vec::new();
    // The kernel frees them after a grace period.
    for _ in 0..200 {
        if alive(programs) == 0 {
            return;
        }
        let processes = read_dir("/proc").unwrap().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        shared = numbers.filter(|&process| held_by(process).iter().any(|id| programs.contains(id))).collect();
        thread::sleep(Duration::from_millis(50));
    }
    assert!(!shared.is_empty(), "{} programs are still there, and nobody holds them", alive(programs));
}
