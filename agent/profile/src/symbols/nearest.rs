//! Finds the symbols of a few addresses in one pass over a large table, in any order and without sorting it.

/// Farthest from the begin of a symbol of unknown length. chosen: longer than any function of a kernel, shorter
/// than the gaps between the regions of its address space.
const REACH_BYTES: u64 = 1 << 20;

/// A symbol of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol<'text> {
    pub address: u64,
    /// Length of the function; 0: unknown.
    pub bytes: u64,
    /// Of two symbols at one address, the one of the lower rank is taken.
    pub rank: u8,
    pub name: &'text [u8],
    /// Empty: the table's own.
    pub module: &'text [u8],
}

impl Symbol<'_> {
    /// Ranks a symbol: global before local before weak, and the fewer underscores before it the better, because
    /// aliases for the linker carry them.
    pub fn rank(global: bool, weak: bool, name: &[u8]) -> u8 {
        let class = if weak { 2 } else { u8::from(!global) };
        class * 4 + name.iter().take(3).take_while(|letter| **letter == b'_').count() as u8
    }
}

/// The best symbol so far for an address; its strings are used again for a better one.
#[derive(Clone, Debug, Default)]
struct Candidate {
    address: u64,
    bytes: u64,
    rank: u8,
    name: Vec<u8>,
    module: Vec<u8>,
}

/// The search.
#[derive(Debug)]
pub(crate) struct Nearest<'wanted> {
    wanted: &'wanted [u64],
    /// For each wanted address, the highest symbol that lies above the wanted address before it.
    candidates: Vec<Option<Candidate>>,
}

impl<'wanted> Nearest<'wanted> {
    /// Looks for the symbols of `wanted`, which is sorted.
    pub fn new(wanted: &'wanted [u64]) -> Self {
        Nearest { wanted, candidates: vec![None; wanted.len()] }
    }

    /// Takes a symbol of the table into account.
    pub fn offer(&mut self, symbol: Symbol) {
        let index = self.wanted.partition_point(|address| *address < symbol.address);
        let Some(slot) = self.candidates.get_mut(index) else { return };
        let best = slot.get_or_insert_with(|| Candidate { rank: u8::MAX, ..Candidate::default() });
        let better =
            symbol.address > best.address || (symbol.address == best.address && symbol.rank < best.rank);
        if better {
            (best.address, best.bytes, best.rank) = (symbol.address, symbol.bytes, symbol.rank);
            best.name.clear();
            best.name.extend_from_slice(symbol.name);
            best.module.clear();
            best.module.extend_from_slice(symbol.module);
        }
    }

    /// Name and module of the symbol of each wanted address, in their order.
    pub fn found(self) -> Vec<Option<(String, String)>> {
        let mut below: Option<Candidate> = None;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.wanted
            .iter()
            .zip(self.candidates)
            .map(|(address, candidate)| {
                // What lies above the address before is nearer than what lies below it.
                below = candidate.or(below.take());
                let symbol = below.as_ref()?;
                let reach = if symbol.bytes == 0 { REACH_BYTES } else { symbol.bytes };
                (address - symbol.address < reach).then(|| (text(&symbol.name), text(&symbol.module)))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(wanted: &[u64], symbols: &[(u64, u64, &str)]) -> Vec<Option<String>> {
        let mut nearest = Nearest::new(wanted);
        for &(address, bytes, name) in symbols {
            let rank = Symbol::rank(true, false, name.as_bytes());
            nearest.offer(Symbol { address, bytes, rank, name: name.as_bytes(), module: b"" });
        }
        nearest.found().into_iter().map(|found| found.map(|(name, _)| name)).collect()
    }

    #[test]
    fn an_address_belongs_to_the_symbol_that_begins_last_before_it() {
        let symbols = [(300, 0, "c"), (100, 0, "__alias"), (100, 0, "a"), (200, 10, "b")];
        let found = names(&[99, 100, 150, 205, 210, 300, 300 + REACH_BYTES], &symbols);
        let expected = [None, Some("a"), Some("a"), Some("b"), None, Some("c"), None];
        assert_eq!(found.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn global_names_come_before_local_and_weak_ones() {
        let rank = Symbol::rank;
        assert!(rank(true, false, b"tcp_sendmsg") < rank(true, false, b"__tcp_sendmsg"));
        assert!(rank(true, false, b"__x") < rank(false, false, b"x"));
        assert!(rank(false, false, b"____x") < rank(true, true, b"x"));
    }

    proptest! {
        #[test]
        fn the_table_may_come_in_any_order(
            mut symbols in proptest::collection::btree_set(0u64..500, 0..40)
                .prop_map(|set| set.into_iter().collect::<Vec<_>>()).prop_shuffle(),
            wanted in proptest::collection::btree_set(0u64..600, 0..40),
        ) {
            let wanted: Vec<u64> = wanted.into_iter().collect();
            let texts: Vec<String> = symbols.iter().map(u64::to_string).collect();
            let table: Vec<_> = symbols.iter().zip(&texts).map(|(at, text)| (*at, 0, text.as_str())).collect();
            let found = names(&wanted, &table);
            symbols.sort_unstable();
            for (address, name) in wanted.iter().zip(found) {
                let below = symbols.iter().rev().find(|symbol| *symbol <= address);
                prop_assert_eq!(name, below.map(u64::to_string));
            }
        }
    }
}
