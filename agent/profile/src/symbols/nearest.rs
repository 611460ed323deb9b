//! Finds the symbols of a few addresses in one pass over a large table, in any order and without sorting it.

use std::cmp::Ordering;

/// Farthest from the begin of a symbol of unknown length. chosen: longer than any function of a kernel, shorter
/// than the gaps between the regions of its address space.
const REACH_BYTES: u64 = 1 << 20;

/// A symbol of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol<T> {
    pub address: u64,
    /// Length of the function; 0: unknown.
    pub bytes: u64,
    /// What leads to its name; of most symbols the name is never looked at.
    pub what: T,
}

/// Ranks the names of one address, the lowest is taken: global before local before weak, and the fewer underscores
/// before it the better, because aliases for the linker carry them.
pub(crate) fn rank(global: bool, weak: bool, name: &[u8]) -> u8 {
    let class = if weak { 2 } else { u8::from(!global) };
    class * 4 + name.iter().take(3).take_while(|letter| **letter == b'_').count() as u8
}

/// The search.
#[derive(Debug)]
pub(crate) struct Nearest<'wanted, T> {
    wanted: &'wanted [u64],
    /// For each wanted address, the highest symbol that lies above the wanted address before it.
    candidates: Vec<Option<Symbol<T>>>,
}

impl<'wanted, T: Copy> Nearest<'wanted, T> {
    /// Looks for the symbols of `wanted`, which is sorted.
    pub fn new(wanted: &'wanted [u64]) -> Self {
        Nearest { wanted, candidates: vec![None; wanted.len()] }
    }

    /// Takes a symbol of the table into account. `rank` is asked where two have one address.
    pub fn offer(&mut self, symbol: Symbol<T>, rank: impl Fn(T) -> u8) {
        let index = self.wanted.partition_point(|address| *address < symbol.address);
        let Some(best) = self.candidates.get_mut(index) else { return };
        let better = best.is_none_or(|best| match symbol.address.cmp(&best.address) {
            Ordering::Greater => true,
            Ordering::Equal => rank(symbol.what) < rank(best.what),
            Ordering::Less => false,
        });
        if better {
            *best = Some(symbol);
        }
    }

    /// The symbol of each wanted address, in their order.
    pub fn found(self) -> impl Iterator<Item = Option<T>> + 'wanted
    where
        T: 'wanted,
    {
        let mut below: Option<Symbol<T>> = None;
        self.wanted.iter().zip(self.candidates).map(move |(address, candidate)| {
            // What lies above the address before is nearer than what lies below it.
            below = candidate.or(below);
            let symbol = below?;
            let reach = if symbol.bytes == 0 { REACH_BYTES } else { symbol.bytes };
            (address - symbol.address < reach).then_some(symbol.what)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names<'name>(wanted: &[u64], symbols: &[(u64, u64, &'name str)]) -> Vec<Option<&'name str>> {
        let mut nearest = Nearest::new(wanted);
        for &(address, bytes, what) in symbols {
            nearest.offer(Symbol { address, bytes, what }, |name| rank(true, false, name.as_bytes()));
        }
        nearest.found().collect()
    }

    #[test]
    fn an_address_belongs_to_the_symbol_that_begins_last_before_it() {
        let symbols = [(300, 0, "c"), (100, 0, "__alias"), (100, 0, "a"), (200, 10, "b")];
        let found = names(&[99, 100, 150, 205, 210, 300, 300 + REACH_BYTES], &symbols);
        let expected = [None, Some("a"), Some("a"), Some("b"), None, Some("c"), None];
        assert_eq!(found, expected);
    }

    #[test]
    fn global_names_come_before_local_and_weak_ones() {
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
                prop_assert_eq!(name.map(str::to_owned), below.map(u64::to_string));
            }
        }
    }
}
