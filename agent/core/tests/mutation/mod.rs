//! Inputs that are a parser's own with some changes. Which they are follows from their number, so that each can be made again.

#![allow(clippy::print_stdout, reason = "a run of many inputs says what became of them")]

use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

/// chosen: what takes longer hangs.
const LONGEST: Duration = Duration::from_secs(5);
const SLOW: Duration = Duration::from_millis(100);
const TOKENS: [&[u8]; 24] = [
    b"0",
    b"-1",
    b"1e999",
    b"nan",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"1e-400",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b",",
    b":",
    b"(",
    b" ",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff",
    b"null",
    b"[[[[[[[[",
    b".",
];

/// How many inputs each parser is given: few in a usual run of the tests, as many as are asked for by `make fuzz`.
pub fn inputs() -> u64 {
    std::env::var("IODYNO_FUZZ_INPUTS").ok().and_then(|number| number.parse().ok()).unwrap_or(200)
}

/// Input `number` of these seeds.
pub fn changed(seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    // SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    let mut state = number.wrapping_mul(0xd134_2543_de82_ef95);
    let mut below = |below: usize| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % below.max(1) as u64) as usize
    };
    let mut data = seeds[below(seeds.len())].clone();
    for _ in 0..1 + below(3) {
        let at = below(data.len() + 1);
        let end = (at + 1 + below(12)).min(data.len()).max(at);
        match below(7) {
            0 => data[at..end].iter_mut().for_each(|byte| *byte = below(256) as u8),
            1 => drop(data.drain(at..end)),
            2 => {
                let piece = data[at..end].repeat([1, 2, 50][below(3)]);
                drop(data.splice(at..at, piece));
            }
            3 => drop(data.splice(at..at, TOKENS[below(TOKENS.len())].iter().copied())),
            4 => drop(data.splice(at..end, TOKENS[below(TOKENS.len())].iter().copied())),
            5 => {
                let other = &seeds[below(seeds.len())];
                let begin = below(other.len() + 1);
                let end = (begin + below(200)).min(other.len());
                drop(data.splice(at..at, other[begin..end].iter().copied()));
            }
            _ if below(4) == 0 => data.truncate(at),
            _ => data.extend_from_slice(&[0; 3]),
        }
    }
    data
}

/// Gives `parse` all inputs; it must come back from each, soon.
pub fn try_all(name: &str, seeds: &[Vec<u8>], mut parse: impl FnMut(&[u8]) -> bool) {
    let (mut taken, mut slowest) = (0, Duration::ZERO);
    for number in 0..inputs() {
        let data = changed(seeds, number);
        let shown = || String::from_utf8_lossy(&data[..data.len().min(400)]).into_owned();
        let mut tried = || {
            let begun = Instant::now();
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| parse(&data)));
            let was_taken = outcome.unwrap_or_else(|_| panic!("{name}, input {number}: {:?}", shown()));
            (was_taken, begun.elapsed())
        };
        let (was_taken, mut time) = tried();
        if time > SLOW {
            // Others may have had the CPUs.
            time = time.min(tried().1);
        }
        taken += u64::from(was_taken);
        slowest = slowest.max(time);
        assert!(time < LONGEST, "{name}, input {number}: {:?} in {time:?}", shown());
    }
    println!("| {name} | {} | {taken} | {} | 0 | {} ms |", inputs(), inputs() - taken, slowest.as_millis());
}
