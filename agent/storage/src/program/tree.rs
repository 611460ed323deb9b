//! The shape of a fileset: which directories there are, and which of them each file lies in. Nothing is made here.

use iodyno_core::file_program::{Fileset, FilesetKind};
use iodyno_core::file_variable::{Real, ValueLaw, ValueStream, Variable};
use iodyno_core::random::Random;

/// Deepest directory. chosen: no program walks deeper trees.
const MOST_DEPTH: u64 = 64;

/// A directory of a tree; number 0 is the fileset's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Branch {
    /// The directory that it lies in.
    pub parent: u32,
    /// Its place there, from 1: its name.
    pub number: u32,
    /// How many directories of the fileset lie above it.
    pub depth: u32,
}

/// A file or a leaf directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    /// The directory that it lies in.
    pub parent: u32,
    /// Its place there, from 1: its name.
    pub number: u32,
}

/// A tree: parents stand before their children. Leaves are the files first, then the leaf directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    pub branches: Vec<Branch>,
    pub leaves: Vec<Leaf>,
}

struct Builder {
    tree: Tree,
    /// Children of each directory so far.
    children: Vec<u32>,
    widths: Option<ValueStream>,
    width: u64,
    left: u64,
}

impl Builder {
    fn draw_width(&mut self) -> u64 {
        self.widths.as_mut().map_or(self.width, |widths| widths.draw().max(1))
    }

    fn child(&mut self, parent: u32) -> u32 {
        self.children[parent as usize] += 1;
        self.children[parent as usize]
    }

    fn branch(&mut self, parent: u32) -> u32 {
        let depth = self.tree.branches[parent as usize].depth + 1;
        let number = self.child(parent);
        self.tree.branches.push(Branch { parent, number, depth });
        self.children.push(0);
        self.tree.branches.len() as u32 - 1
    }

    fn leaf(&mut self, parent: u32) {
        let number = self.child(parent);
        self.tree.leaves.push(Leaf { parent, number });
        self.left -= 1;
    }

    /// Fills a directory: with leaves, or with so many levels of directories that have them.
    fn fill(&mut self, directory: u32, levels: u64) {
        for _ in 0..self.draw_width() {
            if self.left == 0 {
                return;
            }
            if levels == 0 {
                self.leaf(directory);
            } else {
                let below = self.branch(directory);
                self.fill(below, levels - 1);
            }
        }
    }
}

impl Tree {
    /// That of `fileset`: directories have `dir_width` entries on average, and the ones with files lie so deep that
    /// they suffice (logarithm of entries to the base of width, as Filebench has it) or as `depths` says.
    pub(super) fn of(fileset: &Fileset, seed: u64, mut depths: Option<ValueStream>) -> Self {
        let count = fileset.entries + fileset.leaf_dirs;
        let root = Branch { parent: 0, number: 0, depth: 0 };
        let varied = fileset.dir_gamma.0 > 0.0 && fileset.dir_width > 0;
        let widths = varied.then(|| {
            // A gamma value of this mean, rounded to the nearest whole number: half is added before it is cut.
            let (mean, least) = (Real(fileset.dir_width as f64 + 0.5), Real(0.5));
            let law = ValueLaw::Gamma { mean, gamma: fileset.dir_gamma, least };
            let name = String::new();
            let variable = Variable { name, law, least: None, greatest: None, round: None, seed: None };
            ValueStream::new(&variable, seed, 0)
        });
        let mut builder = Builder {
            tree: Tree { branches: vec![root], leaves: Vec::with_capacity(count as usize) },
            children: vec![0],
            widths,
            // Of no width is a directory that holds all there are, however deep it lies.
            width: if fileset.dir_width == 0 { count } else { fileset.dir_width },
            left: count,
        };
        let flat = fileset.kind == FilesetKind::File || fileset.dir_width == 0 || fileset.dir_width >= count;
        let mean_levels = if flat {
            0
        } else {
            let base = (fileset.dir_width as f64).max(2.0).ln();
            (((count as f64).ln() / base).round() as u64).clamp(2, MOST_DEPTH) - 1
        };
        while builder.left > 0 {
            let levels = depths.as_mut().map_or(mean_levels, |depths| depths.draw().min(MOST_DEPTH));
            if levels == 0 {
                builder.leaf(0);
            } else {
                let below = builder.branch(0);
                builder.fill(below, levels - 1);
            }
        }
        builder.tree
    }
}

/// Whether file `number` exists at first: `percent` of any run of them, exactly, without a pattern of its own.
pub(super) fn exists_at_first(number: u64, percent: u32) -> bool {
    let share = |count: u64| u128::from(count) * u128::from(percent) / 100;
    share(number + 1) > share(number)
}

/// A stream of random numbers for what `name` is laid out by.
pub(super) fn layout_random(seed: u64, name: &str) -> Random {
    Random::new(seed, stream_of(name))
}

/// The stream of a name: FNV-1a (Fowler, Noll, Vo), 64 bits.
pub(super) fn stream_of(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fileset(entries: u64, dir_width: u64, dir_gamma: f64) -> Fileset {
        Fileset { entries, dir_width, dir_gamma: Real(dir_gamma), ..Fileset::default() }
    }

    #[test]
    fn equal_widths_make_an_even_tree() {
        let tree = Tree::of(&fileset(8_000, 20, 0.0), 1, None);
        // 20 x 20 x 20: 20 directories of 20 directories of 20 files.
        assert_eq!(tree.branches.len(), 1 + 20 + 400);
        assert!(tree.leaves.iter().all(|leaf| tree.branches[leaf.parent as usize].depth == 2));
        assert_eq!(Tree::of(&fileset(1_000, 1_000_000, 1.5), 1, None).branches.len(), 1);
        assert_eq!(Tree::of(&fileset(1_000, 0, 1.5), 1, None).branches.len(), 1);
    }

    #[test]
    fn gamma_widths_have_their_mean() {
        let tree = Tree::of(&fileset(200_000, 20, 1.5), 5, None);
        let holders = tree.branches.iter().filter(|branch| branch.depth == 3).count();
        let mean = 200_000.0 / holders as f64;
        // Some 10 000 directories, deviation 16 each: standard error 0.16; widths of 0 become 1, which adds 0.1.
        assert!((mean - 20.0).abs() < 1.0, "{mean}");
    }

    #[test]
    fn a_share_of_any_run_exists_at_first() {
        for percent in [0, 1, 33, 50, 80, 100] {
            let count = (0..1_000).filter(|number| exists_at_first(*number, percent)).count();
            assert_eq!(count, 10 * percent as usize);
        }
    }

    proptest! {
        #[test]
        fn a_tree_has_all_leaves_with_names_of_their_own(
            entries in 0_u64..3_000, leaf_dirs in 0_u64..500, width in 0_u64..50, gamma in 0.0_f64..3.0,
            deepest in proptest::option::of(0_u8..6), seed in any::<u64>()
        ) {
            prop_assume!(entries + leaf_dirs > 0);
            let depths = deepest.map(|deepest| {
                let law = ValueLaw::Uniform { least: Real(0.0), greatest: Real(f64::from(deepest) + 0.5) };
                let name = String::new();
                ValueStream::new(&Variable { name, law, least: None, greatest: None, round: None, seed: None }, seed, 1)
            });
            let tree = Tree::of(&Fileset { leaf_dirs, ..fileset(entries, width, gamma) }, seed, depths);
            prop_assert_eq!(tree.leaves.len() as u64, entries + leaf_dirs);
            let mut names = std::collections::BTreeSet::new();
            for (index, branch) in tree.branches.iter().enumerate().skip(1) {
                prop_assert!((branch.parent as usize) < index);
                prop_assert_eq!(branch.depth, tree.branches[branch.parent as usize].depth + 1);
                prop_assert!(names.insert((branch.parent, branch.number)));
            }
            for leaf in &tree.leaves {
                prop_assert!(names.insert((leaf.parent, leaf.number)));
            }
        }
    }
}
