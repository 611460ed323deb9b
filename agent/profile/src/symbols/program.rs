//! Symbols of programs and libraries, by blazesym: from the memory maps of a process to the symbol tables of its ELF
//! files.
//!
//! A process that has ended by now has no maps any more; its functions stay unknown.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::{Path, PathBuf};

use blazesym::normalize::{NormalizeOpts, Normalizer, UserMeta};
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Reason, Sym, Symbolized, Symbolizer};
use blazesym::Pid;
use iodyno_core::profile::Function;

use super::{Place, Space, UNKNOWN};

/// The kernel's own code in every process: clock readings.
const VDSO: &str = "[vdso]";
/// Memory that no file of symbols belongs to.
const ANONYMOUS: &str = "[anonymous]";

/// Farthest from the begin of a function whose length its table does not tell. chosen: longer than functions in assembler.
const REACH_BYTES: usize = 1 << 20;

/// The functions of sorted addresses of some processes, as far as they can be found.
pub(crate) fn look_up(spaces: &BTreeMap<Space, Vec<u64>>) -> HashMap<Place, Function> {
    // What it read is kept until all are found: many processes run the same file.
    let symbolizer = Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false).build();
    let mut functions = HashMap::new();
    for (space, addresses) in spaces {
        let Space::User(process) = *space else { continue };
        let found = NonZeroU32::new(process).and_then(|id| of_process(&symbolizer, id, addresses));
        functions.extend(found.into_iter().flatten().map(|(address, found)| ((*space, address), found)));
    }
    functions
}

/// The functions of a process; `None` when it has ended or may not be looked at.
fn of_process(
    symbolizer: &Symbolizer,
    process: NonZeroU32,
    addresses: &[u64],
) -> Option<Vec<(u64, Function)>> {
    let addresses = &executable(process, addresses)?[..];
    let normalizer = Normalizer::builder().enable_build_ids(false).build();
    let options = NormalizeOpts { sorted_addrs: true, ..NormalizeOpts::default() };
    let places = normalizer.normalize_user_addrs_opts(Pid::Pid(process), addresses, &options).ok()?;
    // Of each piece of memory, the addresses in it and where in its file they are.
    let mut pieces: BTreeMap<usize, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
    for (address, (offset, piece)) in addresses.iter().zip(places.outputs) {
        let (within, offsets) = pieces.entry(piece).or_default();
        within.push(*address);
        offsets.push(offset);
    }
    let mut functions = Vec::with_capacity(addresses.len());
    for (piece, (within, offsets)) in pieces {
        let nameless = vec![None; within.len()];
        let (module, names) = match &places.meta[piece] {
            UserMeta::Elf(elf) => {
                let file = elf.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                (file, names(symbolizer, process, &elf.path, &offsets).unwrap_or(nameless))
            }
            // What has no length there is no function.
            UserMeta::Sym(symbol) => {
                (VDSO.to_owned(), vec![symbol.size.map(|_| symbol.name.to_string()); within.len()])
            }
            UserMeta::Unknown(unknown) => match unknown.reason {
                Reason::Unmapped => continue,
                Reason::MissingComponent | Reason::Unsupported => (ANONYMOUS.to_owned(), nameless),
                _ => (VDSO.to_owned(), nameless),
            },
            _ => (ANONYMOUS.to_owned(), nameless),
        };
        for (address, name) in within.into_iter().zip(names) {
            let name = name.unwrap_or_else(|| UNKNOWN.to_owned());
            functions.push((address, Function { name, module: module.clone() }));
        }
    }
    Some(functions)
}

/// Those of some addresses that lie in code: chains of callers lead astray, and blazesym would name data.
fn executable(process: NonZeroU32, addresses: &[u64]) -> Option<Vec<u64>> {
    let maps = fs::read(format!("/proc/{process}/maps")).ok()?;
    let maps = String::from_utf8_lossy(&maps);
    let address = |digits| u64::from_str_radix(digits, 16).ok();
    let code = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (begin, end) = range.split_once('-')?;
        rest.get(..4)?.contains('x').then_some(())?;
        Some(address(begin)?..address(end)?)
    });
    let within = |range: Range<u64>| {
        let first = addresses.partition_point(|address| *address < range.start);
        addresses[first..].iter().copied().take_while(move |address| *address < range.end)
    };
    Some(code.flat_map(within).collect())
}

/// The names at some offsets of a file that a process runs; `None` when it cannot be read.
fn names(
    symbolizer: &Symbolizer,
    process: NonZeroU32,
    path: &Path,
    offsets: &[u64],
) -> Option<Vec<Option<String>>> {
    // A program that was replaced on the disk is still there for those who run it.
    let program = PathBuf::from(format!("/proc/{process}/exe"));
    let runs_it = fs::read_link(&program).is_ok_and(|link| {
        let link = link.to_string_lossy().into_owned();
        Path::new(link.strip_suffix(" (deleted)").unwrap_or(&link)) == path
    });
    let seen_by_it = format!("/proc/{process}/root{}", path.display());
    symbols(symbolizer, if runs_it { program } else { PathBuf::from(seen_by_it) }, offsets)
}

/// The names at some offsets of an ELF file; `None` when it is none.
fn symbols(symbolizer: &Symbolizer, path: PathBuf, offsets: &[u64]) -> Option<Vec<Option<String>>> {
    // Whatever lies there now: opening a pipe would never end.
    fs::metadata(&path).is_ok_and(|found| found.is_file()).then_some(())?;
    let found = symbolizer.symbolize(&Source::from(Elf::new(path)), Input::FileOffset(offsets)).ok()?;
    let reaches = |symbol: &Sym<'_>| symbol.size.is_some() || symbol.offset < REACH_BYTES;
    let name = |each: Symbolized<'_>| each.into_sym().filter(reaches).map(|symbol| symbol.name.into_owned());
    Some(found.into_iter().map(name).collect())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use proptest::prelude::*;

    use super::*;

    /// Data that the symbol table names.
    #[used]
    static NAMED: u64 = 7;

    #[inline(never)]
    fn a_function_of_ours() -> u64 {
        std::hint::black_box(41) + 1
    }

    #[test]
    fn a_function_of_this_program_is_found_by_its_address() {
        let own = std::process::id();
        assert_eq!(a_function_of_ours(), 42);
        let address = a_function_of_ours as *const () as u64 + 1;
        let space = Space::User(own);
        let data = std::ptr::from_ref(&NAMED) as u64;
        let mut wanted = vec![12, address, data];
        wanted.sort_unstable();
        let found = look_up(&BTreeMap::from([(space, wanted)]));
        let function = &found[&(space, address)];
        assert!(function.name.ends_with("tests::a_function_of_ours"), "{function:?}");
        assert!(function.module.starts_with("iodyno_profile"), "{function:?}");
        assert_eq!(found.len(), 1, "12 is in no mapping, and {data:x} no code");
    }

    #[test]
    fn the_kernel_s_own_code_in_this_process_is_found() {
        // Some machines have none.
        let Some((range, _)) = vdso() else { return };
        let addresses: Vec<u64> = range.step_by(16).collect();
        let found = look_up(&BTreeMap::from([(Space::User(std::process::id()), addresses)]));
        assert!(found.values().any(|function| function.name.contains("clock_gettime")), "{found:?}");
        assert!(found.values().all(|function| function.module == VDSO), "{found:?}");
        assert!(!found.values().any(|function| function.name.contains("LINUX")), "{found:?}");
    }

    #[test]
    fn a_process_that_is_gone_has_no_functions() {
        assert!(look_up(&BTreeMap::from([(Space::User(u32::MAX), vec![1, 2])])).is_empty());
    }

    /// A whole program of some kilobytes: the kernel's own code in this process.
    fn vdso() -> Option<(Range<u64>, Vec<u8>)> {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let (begin, end) =
            maps.lines().find(|line| line.ends_with(VDSO))?.split(' ').next()?.split_once('-')?;
        let address = |digits| u64::from_str_radix(digits, 16).unwrap();
        let range = address(begin)..address(end);
        let mut bytes = vec![0; (range.end - range.start) as usize];
        File::open("/proc/self/mem").unwrap().read_exact_at(&mut bytes, range.start).unwrap();
        Some((range, bytes))
    }

    proptest! {
        #[test]
        fn any_bytes_are_no_program_or_are_read(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        ) {
            let mut contents = vec![bytes];
            // A true program with some bytes changed.
            if let Some((_, mut program)) = vdso() {
                for (at, byte) in flips {
                    let at = at.index(program.len());
                    program[at] = byte;
                }
                contents.push(program);
            }
            let path = std::env::temp_dir().join(format!("iodyno-symbols-{}", std::process::id()));
            for content in contents {
                fs::write(&path, content).unwrap();
                let offsets: Vec<u64> = (0..0x2000).step_by(16).chain([u64::MAX]).collect();
                let _ = symbols(&Symbolizer::new(), path.clone(), &offsets);
            }
            fs::remove_file(&path).unwrap();
        }
    }
}
