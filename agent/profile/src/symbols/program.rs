//! Symbols of programs and libraries: from the memory maps of a process to the symbol tables of its ELF files.
//!
//! A process that has ended by now has no maps any more; its functions stay unknown.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use iodyno_core::profile::Function;
use object::read::{Object, ObjectSegment, ObjectSymbol, ObjectSymbolTable, ReadCache, ReadRef, SymbolIndex};
use object::SymbolKind;

use super::nearest::{rank, Nearest, Symbol};
use super::{Place, Space, UNKNOWN};

/// Longest kernel-made image (`[vdso]`) that is read from memory.
const IMAGE_BYTES: u64 = 1 << 20;
/// The kernel's own code in every process: clock readings.
const VDSO: &str = "[vdso]";

/// An executable mapping of a process: a line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    begin: u64,
    end: u64,
    /// Where in the file it begins.
    offset: u64,
    /// Device and inode: the same file whatever it is called.
    file: String,
    /// Empty for memory without a file.
    path: String,
}

impl Mapping {
    fn parse(line: &str) -> Option<Mapping> {
        let mut words = line.splitn(6, ' ');
        let (begin, end) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let hex = |digits| u64::from_str_radix(digits, 16).ok();
        let offset = hex(words.next()?)?;
        let file = format!("{} {}", words.next()?, words.next()?);
        let path = words.next().unwrap_or_default().trim().to_owned();
        let mapping = Mapping { begin: hex(begin)?, end: hex(end)?, offset, file, path };
        (rights.contains('x') && mapping.begin < mapping.end).then_some(mapping)
    }

    /// File name, or how the kernel calls the memory.
    fn module(&self) -> String {
        let path = self.path.strip_suffix(" (deleted)").unwrap_or(&self.path);
        match path.rsplit('/').next() {
            None | Some("") => "[anonymous]".to_owned(),
            Some(name) => name.to_owned(),
        }
    }
}

/// Addresses that lie in one file.
struct Image {
    /// A process that maps it, and how.
    process: u32,
    mapping: Mapping,
    /// Offsets in the file that are looked for, and for whom.
    wanted: BTreeMap<u64, Vec<Place>>,
}

/// The functions of sorted addresses of some processes, as far as they can be found.
pub(crate) fn look_up(spaces: &BTreeMap<Space, Vec<u64>>) -> HashMap<Place, Function> {
    let mut images: HashMap<String, Image> = HashMap::new();
    for (space, addresses) in spaces {
        let Space::User(process) = *space else { continue };
        for (mapping, address) in mapped(&maps(process), addresses) {
            let key = if mapping.path == VDSO { VDSO } else { &mapping.file };
            let image = images.entry(key.to_owned()).or_insert_with(|| Image {
                process,
                mapping: mapping.clone(),
                wanted: BTreeMap::new(),
            });
            let offset = address - mapping.begin + if mapping.path == VDSO { 0 } else { mapping.offset };
            image.wanted.entry(offset).or_default().push((*space, address));
        }
    }
    let mut functions = HashMap::new();
    for image in images.into_values() {
        let module = image.mapping.module();
        let offsets: Vec<u64> = image.wanted.keys().copied().collect();
        let names = names(&image, &offsets).unwrap_or_else(|| vec![None; offsets.len()]);
        for (places, name) in image.wanted.into_values().zip(names) {
            let name = name.unwrap_or_else(|| UNKNOWN.to_owned());
            let function = Function { name, module: module.clone() };
            functions.extend(places.into_iter().map(|place| (place, function.clone())));
        }
    }
    functions
}

/// The executable mappings of a process, ascending; none when it has ended or may not be looked at.
fn maps(process: u32) -> Vec<Mapping> {
    let bytes = fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().filter_map(Mapping::parse).collect()
}

/// Each of `addresses` that lies in a mapping, with that mapping.
fn mapped<'maps>(
    maps: &'maps [Mapping],
    addresses: &'maps [u64],
) -> impl Iterator<Item = (&'maps Mapping, u64)> {
    addresses.iter().filter_map(|&address| {
        let above = maps.partition_point(|mapping| mapping.begin <= address);
        let mapping = &maps[above.checked_sub(1)?];
        (address < mapping.end).then_some((mapping, address))
    })
}

/// The symbols at some offsets of an image, which are sorted; `None` when it cannot be read.
fn names(image: &Image, offsets: &[u64]) -> Option<Vec<Option<String>>> {
    let (process, mapping) = (image.process, &image.mapping);
    if mapping.path == VDSO {
        let length = (mapping.end - mapping.begin).min(IMAGE_BYTES) as usize;
        let mut bytes = vec![0; length];
        File::open(format!("/proc/{process}/mem")).ok()?.read_exact_at(&mut bytes, mapping.begin).ok()?;
        return symbols(bytes.as_slice(), offsets);
    }
    // A program that was replaced on the disk is still there for those who run it.
    let program = format!("/proc/{process}/exe");
    let runs_it = fs::read_link(&program).is_ok_and(|path| path == Path::new(&mapping.path));
    let seen_by_it = format!("/proc/{process}/root{}", mapping.path);
    let path = if runs_it { program } else { seen_by_it };
    // Whatever lies there now: opening a pipe would never end.
    let file = fs::metadata(&path).is_ok_and(|found| found.is_file()).then(|| File::open(path))?.ok()?;
    symbols(&ReadCache::new(file), offsets)
}

/// The symbols at some offsets of an ELF file, which are sorted; `None` when it is none.
fn symbols<'data>(data: impl ReadRef<'data>, offsets: &[u64]) -> Option<Vec<Option<String>>> {
    let elf = object::File::parse(data).ok()?;
    let segments: Vec<_> = elf.segments().map(|segment| (segment.address(), segment.file_range())).collect();
    let address = |offset: u64| {
        segments.iter().find_map(|&(address, (begin, length))| {
            (begin..begin.checked_add(length)?)
                .contains(&offset)
                .then(|| address.wrapping_add(offset - begin))
        })
    };
    let mut addresses: Vec<u64> = offsets.iter().filter_map(|offset| address(*offset)).collect();
    addresses.sort_unstable();
    addresses.dedup();
    // Tables are long and names lie all over the file: a name is read where it is needed, and not before.
    let mut nearest = Nearest::new(&addresses);
    // A stripped program has the dynamic symbols only.
    let tables = [elf.symbol_table(), elf.dynamic_symbol_table()];
    let symbol = |(table, index): (usize, SymbolIndex)| tables[table].as_ref()?.symbol_by_index(index).ok();
    let name = |what| symbol(what)?.name_bytes().ok();
    let rank = |what| {
        symbol(what).map_or(u8::MAX, |symbol| {
            rank(symbol.is_global(), symbol.is_weak(), symbol.name_bytes().unwrap_or_default())
        })
    };
    for (number, table) in tables.iter().enumerate() {
        for symbol in table.iter().flat_map(ObjectSymbolTable::symbols) {
            if symbol.kind() == SymbolKind::Text && symbol.is_definition() {
                let what = (number, symbol.index());
                nearest.offer(Symbol { address: symbol.address(), bytes: symbol.size(), what }, rank);
            }
        }
    }
    let found: HashMap<u64, String> = addresses
        .iter()
        .zip(nearest.found())
        .filter_map(|(address, found)| {
            let name = String::from_utf8_lossy(name(found?)?);
            Some((*address, format!("{:#}", rustc_demangle::demangle(&name))))
        })
        .collect();
    Some(offsets.iter().map(|offset| found.get(&address(*offset)?).cloned()).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

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
        let found = look_up(&BTreeMap::from([(space, vec![12, address])]));
        let function = &found[&(space, address)];
        assert!(function.name.ends_with("tests::a_function_of_ours"), "{function:?}");
        assert!(function.module.starts_with("iodyno_profile"), "{function:?}");
        assert_eq!(found.len(), 1, "12 is in no mapping");
    }

    #[test]
    fn the_kernel_s_own_code_in_this_process_is_found() {
        let own = std::process::id();
        let maps = maps(own);
        // Some machines have none.
        let Some(vdso) = maps.iter().find(|mapping| mapping.path == VDSO) else { return };
        let image = Image { process: own, mapping: vdso.clone(), wanted: BTreeMap::new() };
        let offsets: Vec<u64> = (0..vdso.end - vdso.begin).step_by(16).collect();
        let names: Vec<String> = names(&image, &offsets).unwrap().into_iter().flatten().collect();
        assert!(names.iter().any(|name| name.contains("clock_gettime")), "{names:?}");
    }

    #[test]
    fn lines_of_maps_are_parsed_and_nonsense_is_not() {
        let line = "7f1000-7f3000 r-xp 00002000 fe:00 1234                       /usr/lib/a b.so (deleted)";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.begin, mapping.end, mapping.offset), (0x7f_1000, 0x7f_3000, 0x2000));
        assert_eq!((mapping.file.as_str(), mapping.module().as_str()), ("fe:00 1234", "a b.so"));
        assert_eq!(Mapping::parse("1000-2000 rwxp 00000000 00:00 0").unwrap().module(), "[anonymous]");
        assert_eq!(Mapping::parse("1000-2000 rw-p 00000000 00:00 0 [heap]"), None);
        assert_eq!(Mapping::parse("2000-1000 r-xp 00000000 00:00 0"), None);
    }

    #[test]
    fn a_process_that_is_gone_has_no_functions() {
        assert!(look_up(&BTreeMap::from([(Space::User(u32::MAX), vec![1, 2])])).is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_no_program_or_are_read(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            flips in proptest::collection::vec((0usize..4096, any::<u8>()), 0..20),
        ) {
            let _ = symbols(bytes.as_slice(), &[0, 100]);
            // A true program with some bytes of its headers changed.
            let mut program = Vec::new();
            File::open("/proc/self/exe").unwrap().take(1 << 16).read_to_end(&mut program).unwrap();
            for (at, byte) in flips {
                program[at] = byte;
            }
            let _ = symbols(program.as_slice(), &[0, 100, u64::MAX]);
        }

        #[test]
        fn any_line_is_no_mapping_or_one(line in "\\PC{0,80}") {
            let _ = Mapping::parse(&line);
        }
    }
}
