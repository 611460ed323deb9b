//! Lists of CPUs as the kernel writes them: `0-3,8,10-11`.

use std::path::Path;

/// More CPUs than any kernel is built for; keeps a garbled range from filling the memory.
const CPU_MAX: u32 = 65_535;

/// Parses a list; parts that make no sense are left out.
pub(crate) fn parse(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            cpus.extend(first..=last.min(CPU_MAX));
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// CPUs online; empty when it cannot be read.
pub(crate) fn online(sys: &Path) -> Vec<u32> {
    std::fs::read_to_string(sys.join("devices/system/cpu/online"))
        .map_or_else(|_| Vec::new(), |text| parse(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_single_cpus_are_listed() {
        assert_eq!(parse("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse("2"), [2]);
        assert_eq!(parse(""), Vec::<u32>::new());
        assert_eq!(parse("x,3-1,1-"), Vec::<u32>::new());
        assert_eq!(parse("0-4294967295").len(), CPU_MAX as usize + 1);
    }
}
