//! The kernel's symbols, from `/proc/kallsyms`.
//!
//! The table is read anew for every profile, in one pass: some 60 ms for 120 000 symbols. A table that is kept
//! would take megabytes for the rest of the campaign, and would name BPF programs and modules that came later by
//! whatever lay at their addresses before.

use std::fs;

use iodyno_core::profile::Function;

use super::nearest::{rank, Nearest, Symbol};
use super::{HIDDEN, KERNEL, UNKNOWN};

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

/// The functions of `addresses` in a table; `None` when every address in it is 0.
fn find(table: &[u8], addresses: &[u64]) -> Option<Vec<Function>> {
    let mut nearest = Nearest::new(addresses);
    let mut hidden = true;
    for symbol in table.split(|byte| *byte == b'\n').filter_map(parse) {
        hidden &= symbol.address == 0;
        nearest
            .offer(symbol, |line| rank(line.kind == b'T', line.kind.eq_ignore_ascii_case(&b'w'), line.name));
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let function = |found: Option<Line>| match found {
        // The end of the kernel's code: what comes after it is not known.
        None | Some(Line { name: b"_etext", .. }) => nameless(),
        Some(Line { name, module: b"", .. }) => Function { name: text(name), module: KERNEL.to_owned() },
        Some(Line { name, module, .. }) => Function { name: text(name), module: text(module) },
    };
    (!hidden).then(|| nearest.found().map(function).collect())
}

/// What a line says beside the address.
#[derive(Clone, Copy, Debug)]
struct Line<'table> {
    /// As `nm` writes it.
    kind: u8,
    name: &'table [u8],
    /// Empty for the kernel itself.
    module: &'table [u8],
}

fn nameless() -> Function {
    Function { name: UNKNOWN.to_owned(), module: KERNEL.to_owned() }
}

/// A line such as `ffffffff81000000 T tcp_sendmsg` or `ffffffffc0201000 t bbr_main\t[tcp_bbr]`; `None` when it is
/// no function.
fn parse(line: &[u8]) -> Option<Symbol<Line<'_>>> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let digits = words.next()?;
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let address = digits
        .iter()
        .try_fold(0u64, |number, digit| Some(number << 4 | u64::from(char::from(*digit).to_digit(16)?)))?;
    let kind @ (b'T' | b't' | b'W' | b'w') = *words.next()?.first()? else { return None };
    let mut names = words.next()?.splitn(2, |byte| *byte == b'\t');
    let name = names.next()?;
    let module =
        names.next().and_then(|module| module.strip_prefix(b"[")?.strip_suffix(b"]")).unwrap_or_default();
    Some(Symbol { address, bytes: 0, what: Line { kind, name, module } })
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
    }
}
