//! From addresses to functions. Nothing here runs while there is load.

use std::collections::{BTreeMap, HashMap};

use iodyno_core::profile::Function;

mod kernel;
mod program;

/// Name of a function that no table names.
pub(crate) const UNKNOWN: &str = "[unknown]";
/// Name of a function of the kernel where the kernel hides its symbols.
pub(crate) const HIDDEN: &str = "[hidden]";
/// Module of the kernel's own functions.
pub(crate) const KERNEL: &str = "kernel";

/// Whose address it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Space {
    Kernel,
    /// Of that process.
    User(u32),
    /// Nothing is known of it.
    Foreign,
}

/// An address in its space.
pub(crate) type Place = (Space, u64);

/// The functions of some places.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub functions: HashMap<Place, Function>,
    /// Why some functions have no name.
    pub missing: Vec<String>,
    /// Whether the kernel told no symbols.
    pub kernel_hidden: bool,
}

impl Names {
    /// Looks all of `places` up in this host's tables.
    pub fn look_up(places: impl IntoIterator<Item = Place>) -> Names {
        let mut spaces: BTreeMap<Space, Vec<u64>> = BTreeMap::new();
        for (space, address) in places {
            spaces.entry(space).or_default().push(address);
        }
        for addresses in spaces.values_mut() {
            addresses.sort_unstable();
            addresses.dedup();
        }
        spaces.remove(&Space::Foreign);
        let mut names = Names::default();
        if let Some(addresses) = spaces.remove(&Space::Kernel) {
            match kernel::look_up(&addresses) {
                Ok(found) => names.functions.extend(
                    addresses
                        .into_iter()
                        .zip(found)
                        .map(|(address, found)| ((Space::Kernel, address), found)),
                ),
                Err(why) => {
                    names.missing.push(why);
                    names.kernel_hidden = true;
                }
            }
        }
        names.functions.extend(program::look_up(&spaces));
        names
    }

    /// The function of a place.
    pub fn of(&self, place: Place) -> Function {
        let nameless =
            |name: &str, module: &str| Function { name: name.to_owned(), module: module.to_owned() };
        match (self.functions.get(&place), place.0) {
            (Some(function), _) => function.clone(),
            (None, Space::Kernel) => nameless(if self.kernel_hidden { HIDDEN } else { UNKNOWN }, KERNEL),
            (None, _) => nameless(UNKNOWN, UNKNOWN),
        }
    }
}
