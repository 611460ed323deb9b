//! The kernel's symbols, from `/proc/kallsyms`.
//!
//! The table is read anew for every profile, in one pass: some 60 ms for 120 000 symbols. A table that is kept
//! would take megabytes for the rest of the campaign, and would name BPF programs and modules that came later by
//! whatever lay at their addresses before.
//!
//! blazesym names such addresses too, but neither the module of a function nor that the kernel hides its symbols, and it
//! takes data for functions.

use std::cmp::Ordering;
use std::fs;

use iodyno_core::profile::Function;

use super::{HIDDEN, KERNEL, UNKNOWN};

/// Farthest from the begin of a function, whose length the table does not tell. chosen: longer than any function of a
/// kernel, shorter than the gaps between the regions of its address space.
const REACH_BYTES: u64 = 1 << 20;

/// The functions of `addresses`, which are sorted.
///
/// # Errors
/// Why the kernel tells no symbols, as a sentence.
pub(crate) fn look_up(addresses: &[u64]) -> Result<Vec<Function>, String> {
    let table = fs::read("/proc/kallsyms").map_err(|error| {
        format!("/proc/kallsyms cannot be read ({error}): functions of the kernel are {HIDDEN}")
    })?;
    find(&table, addresses).ok_or_else(|| {
        format!("the kernel hides its symbols, functions are {HIDDEN}: set kernel.kptr_restrict to 0 or 1 and give CAP_SYSLOG")
    })
}

/// The functions of `addresses` in a table, in one pass over its lines, in whatever order; `None` when every address in
/// it is 0.
fn find(table: &[u8], addresses: &[u64]) -> Option<Vec<Function>> {
    // For each address, the highest symbol that lies above the address before it.
    let mut candidates: Vec<Option<Symbol>> = vec![None; addresses.len()];
    let mut hidden = true;
    for symbol in table.split(|byte| *byte == b'\n').filter_map(Symbol::parse) {
        hidden &= symbol.address == 0;
        let index = addresses.partition_point(|address| *address < symbol.address);
        let Some(best) = candidates.get_mut(index) else { continue };
        let better = best.is_none_or(|best| match symbol.address.cmp(&best.address) {
            Ordering::Greater => true,
            Ordering::Equal => symbol.rank() < best.rank(),
            Ordering::Less => false,
        });
        if better {
            *best = Some(symbol);
        }
    }
    let mut below = None;
    let functions = addresses.iter().zip(candidates).map(|(address, candidate)| {
        // What lies above the address before is nearer than what lies below it.
        below = candidate.or(below);
        below.filter(|symbol| address - symbol.address < REACH_BYTES).map_or_else(nameless, Symbol::function)
    });
    let functions = functions.collect();
    (!hidden).then_some(functions)
}

fn nameless() -> Function {
    Function { name: UNKNOWN.to_owned(), module: KERNEL.to_owned() }
}

/// A function of the table.
#[derive(Clone, Copy, Debug)]
struct Symbol<'table> {
    address: u64,
    /// As `nm` writes it.
    kind: u8,
    name: &'table [u8],
    /// Empty for the kernel itself.
    module: &'table [u8],
}

impl<'table> Symbol<'table> {
    /// Of a line such as `ffffffff81000000 T tcp_sendmsg` or `ffffffffc0201000 t bbr_main\t[tcp_bbr]`; `None` when it
    /// is no function.
    fn parse(line: &'table [u8]) -> Option<Self> {
        let mut words = line.splitn(3, |byte| *byte == b' ');
        let digits = words.next()?;
        if digits.is_empty() || digits.len() > 16 {
            return None;
        }
        let address = digits.iter().try_fold(0u64, |number, digit| {
            Some(number << 4 | u64::from(char::from(*digit).to_digit(16)?))
        })?;
        let kind @ (b'T' | b't' | b'W' | b'w') = *words.next()?.first()? else { return None };
        let mut names = words.next()?.splitn(2, |byte| *byte == b'\t');
        let name = names.next()?;
        let module =
            names.next().and_then(|module| module.strip_prefix(b"[")?.strip_suffix(b"]")).unwrap_or_default();
        Some(Symbol { address, kind, name, module })
    }

    /// Of the names of one address the lowest is taken: global before local before weak, and the fewer underscores
    /// before it the better, because aliases for the linker carry them.
    fn rank(&self) -> u8 {
        let class = match self.kind {
            b'T' => 0,
            b't' => 1,
            _ => 2,
        };
        class * 4 + self.name.iter().take(3).take_while(|letter| **letter == b'_').count() as u8
    }

    fn function(self) -> Function {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match (self.name, self.module) {
            // The end of the kernel's code: what comes after it is not known.
            (b"_etext", _) => nameless(),
            (name, b"") => Function { name: text(name), module: KERNEL.to_owned() },
            (name, module) => Function { name: text(name), module: text(module) },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TABLE: &str = "\
ffffffff81000000 T _stext
ffffffff81000000 T startup_64
ffffffff81b12340 t __tcp_cleanup
ffffffff81b12400 T tcp_sendmsg
ffffffff81b12500 T tcp_sendmsg_locked
ffffffff81b12500 W weak_name
ffffffff81b20000 d tcp_data
ffffffff81b12600 w alias
ffffffff81b12600 t __alias
ffffffff81b12600 t alias_local
ffffffff81c00000 T _etext
ffffffffc0201000 t bbr_main\t[tcp_bbr]
ffffffffc0300000 t bpf_prog_6deef7357e7b4530_sched\t[bpf]
";

    #[test]
    fn functions_are_found_with_their_modules() {
        let addresses = [
            0xffff_ffff_8100_0000,
            0xffff_ffff_81b1_2410,
            0xffff_ffff_81b1_24ff,
            0xffff_ffff_81b1_2500,
            0xffff_ffff_81b1_2600,
            0xffff_ffff_81c0_0001,
            0xffff_ffff_c020_1010,
            0xffff_ffff_c030_0000,
            0xffff_ffff_ff60_0000,
        ];
        let found = find(TABLE.as_bytes(), &addresses).unwrap();
        let told: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.module.as_str())).collect();
        let expected = [
            ("startup_64", "kernel"),
            ("tcp_sendmsg", "kernel"),
            ("tcp_sendmsg", "kernel"),
            ("tcp_sendmsg_locked", "kernel"),
            ("alias_local", "kernel"),
            ("[unknown]", "kernel"),
            ("bbr_main", "tcp_bbr"),
            ("bpf_prog_6deef7357e7b4530_sched", "bpf"),
            ("[unknown]", "kernel"),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_table_of_zeros_is_hidden() {
        let hidden = "0000000000000000 T _stext\n0000000000000000 t bbr_main\t[tcp_bbr]\n";
        assert_eq!(find(hidden.as_bytes(), &[1 << 63]), None);
        assert_eq!(find(b"", &[1 << 63]), None);
    }

    #[test]
    fn this_kernel_names_an_address_or_says_why_not() {
        let text = std::fs::read_to_string("/proc/kallsyms").unwrap();
        let line = text.lines().find(|line| line.ends_with(" T tcp_sendmsg")).unwrap();
        let address = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
        match look_up(&[address + 1]) {
            Ok(found) => assert_eq!(found[0].name, "tcp_sendmsg"),
            Err(why) => assert!(address == 0 && why.contains("kptr_restrict"), "{why}"),
        }
    }

    proptest! {
        #[test]
        fn any_table_is_read(table in "([0-9a-fg]{0,18} [TtWwx]? ?[a-z_\t\\[\\]]{0,9}\n?){0,20}", at in any::<u64>()) {
            let found = find(table.as_bytes(), &[at]);
            prop_assert!(found.is_none_or(|found| found.len() == 1));
        }

        #[test]
        fn the_table_may_come_in_any_order(
            mut symbols in proptest::collection::btree_set(1u64..500, 1..40)
                .prop_map(|set| set.into_iter().collect::<Vec<_>>()).prop_shuffle(),
            wanted in proptest::collection::btree_set(0u64..600, 0..40),
        ) {
            let wanted: Vec<u64> = wanted.into_iter().collect();
            let table: String = symbols.iter().map(|at| format!("{at:x} T f{at}\n")).collect();
            let found = find(table.as_bytes(), &wanted).unwrap();
            symbols.sort_unstable();
            for (address, function) in wanted.iter().zip(found) {
                let below = symbols.iter().rev().find(|symbol| *symbol <= address);
                prop_assert_eq!(function.name, below.map_or(UNKNOWN.to_owned(), |at| format!("f{at}")));
            }
        }
    }
}
