//! A fileset while a program runs: which of its files exist, and who has them.
//!
//! A file is *existing*, *absent*, or *busy* in the hands of one thread that makes, renames or removes it. What is open
//! somewhere is counted, and not removed.

use std::ffi::{CStr, CString};
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use iodyno_core::file_program::{self, FilesetKind};
use iodyno_sys::directory::Directory;

use super::numbers::Numbers;
use super::tree::Tree;

/// chosen: how many files are tried for removal when others have them open, before the flowop is passed over.
const MOST_TRIED: u32 = 32;

/// What there was to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// This one.
    One(u64),
    /// None now, but others are busy or open: it is worth while to try again.
    Later,
    /// None.
    None,
}

/// What is taken in turn. All threads go through it together, as in Filebench: one after the other takes the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InTurn {
    Existing,
    Absent,
    Leaves,
    AbsentLeaves,
    Directories,
}

/// Files, or leaf directories, that come and go.
#[derive(Debug, Default)]
pub(super) struct Presence {
    pub existing: Numbers,
    pub absent: Numbers,
    busy: AtomicU64,
}

impl Presence {
    fn new(count: u64) -> Self {
        Presence { existing: Numbers::new(count), absent: Numbers::new(count), busy: AtomicU64::new(0) }
    }

    /// Takes the next one of `from` (existing or absent ones).
    fn take(&self, from: &Numbers, at: u64) -> Taken {
        let mut at = at;
        // Before the look: one that becomes free after it was busy then.
        self.busy.fetch_add(1, SeqCst);
        while let Some(number) = from.next(at) {
            if from.take(number) {
                return Taken::One(number);
            }
            at = number;
        }
        if self.busy.fetch_sub(1, SeqCst) > 1 {
            Taken::Later
        } else {
            Taken::None
        }
    }

    pub(super) fn take_existing(&self, at: u64) -> Taken {
        self.take(&self.existing, at)
    }

    pub(super) fn take_absent(&self, at: u64) -> Taken {
        self.take(&self.absent, at)
    }

    /// Gives back what was taken.
    pub(super) fn settle(&self, number: u64, exists: bool) {
        if exists {
            self.existing.give(number);
        } else {
            self.absent.give(number);
        }
        self.busy.fetch_sub(1, SeqCst);
    }

    /// Where there is none: whether one may come.
    fn none(&self) -> Taken {
        if self.busy.load(SeqCst) > 0 {
            Taken::Later
        } else {
            Taken::None
        }
    }
}

/// A fileset.
#[derive(Debug)]
pub(super) struct LiveFileset {
    pub entries: u64,
    pub leaf_dirs: u64,
    pub tree: Tree,
    /// Size of each file as laid out.
    pub sizes: Box<[u64]>,
    /// By number; the first few, where the limit of open files does not allow more.
    directories: Vec<Option<Directory>>,
    /// The name of a fileset that is one file, in the first directory.
    single: Option<CString>,
    open: Box<[AtomicU32]>,
    turns: [AtomicU64; 5],
    pub files: Presence,
    pub leaves: Presence,
}

/// The name of number `number` in its directory, in `buffer`: eight digits or more.
pub(super) fn name_of(number: u32, buffer: &mut [u8; 12]) -> &CStr {
    let mut left = number;
    let digits = 8.max(number.checked_ilog10().unwrap_or(0) as usize + 1);
    for place in buffer[..digits].iter_mut().rev() {
        *place = b'0' + (left % 10) as u8;
        left /= 10;
    }
    buffer[digits] = 0;
    CStr::from_bytes_until_nul(&buffer[..=digits]).unwrap_or(c"0")
}

impl LiveFileset {
    /// Of a tree whose first directory is `root`; no file exists yet.
    pub(super) fn new(of: &file_program::Fileset, tree: Tree, sizes: Box<[u64]>, root: Directory) -> Self {
        let mut directories: Vec<Option<Directory>> = Vec::new();
        directories.resize_with(tree.branches.len(), || None);
        directories[0] = Some(root);
        LiveFileset {
            entries: of.entries,
            leaf_dirs: of.leaf_dirs,
            open: (0..of.entries).map(|_| AtomicU32::new(0)).collect(),
            turns: [const { AtomicU64::new(0) }; 5],
            files: Presence::new(of.entries),
            leaves: Presence::new(of.leaf_dirs),
            // A name is one component without a zero: the program was checked.
            single: (of.kind == FilesetKind::File)
                .then(|| CString::new(of.name.as_str()).unwrap_or_default()),
            tree,
            sizes,
            directories,
        }
    }

    /// Keeps directories open, parents first, up to `most` of them. They exist.
    pub(super) fn keep_open(&mut self, most: usize) -> io::Result<()> {
        for index in 1..self.directories.len().min(most.max(1)) {
            let opened = self.open_branch(index)?;
            self.directories[index] = Some(opened);
        }
        Ok(())
    }

    /// Descriptors that the directories hold.
    pub(super) fn kept_open(&self) -> usize {
        self.directories.iter().flatten().count()
    }

    fn open_branch(&self, index: usize) -> io::Result<Directory> {
        let branch = self.tree.branches[index];
        let mut buffer = [0; 12];
        let name = name_of(branch.number, &mut buffer);
        match &self.directories[branch.parent as usize] {
            Some(parent) => parent.directory(name),
            None => self.open_branch(branch.parent as usize)?.directory(name),
        }
    }

    /// Does something in directory `index`.
    pub(super) fn in_directory<T>(
        &self,
        index: usize,
        what: impl FnOnce(&Directory) -> io::Result<T>,
    ) -> io::Result<T> {
        match &self.directories[index] {
            Some(directory) => what(directory),
            None => what(&self.open_branch(index)?),
        }
    }

    /// Does something with the name of a file.
    #[inline]
    pub(super) fn at_file<T>(
        &self,
        file: u64,
        what: impl FnOnce(&Directory, &CStr) -> io::Result<T>,
    ) -> io::Result<T> {
        if let Some(name) = &self.single {
            return self.in_directory(0, |directory| what(directory, name));
        }
        self.at_leaf(file as usize, what)
    }

    /// Does something with the name of a leaf directory.
    pub(super) fn at_leaf_directory<T>(
        &self,
        leaf: u64,
        what: impl FnOnce(&Directory, &CStr) -> io::Result<T>,
    ) -> io::Result<T> {
        self.at_leaf((self.entries + leaf) as usize, what)
    }

    fn at_leaf<T>(
        &self,
        index: usize,
        what: impl FnOnce(&Directory, &CStr) -> io::Result<T>,
    ) -> io::Result<T> {
        let leaf = self.tree.leaves[index];
        let mut buffer = [0; 12];
        let name = name_of(leaf.number, &mut buffer);
        self.in_directory(leaf.parent as usize, |directory| what(directory, name))
    }

    /// The place of whoever comes next.
    pub(super) fn turn(&self, of: InTurn) -> u64 {
        let count = match of {
            InTurn::Existing | InTurn::Absent => self.entries,
            InTurn::Leaves | InTurn::AbsentLeaves => self.leaf_dirs,
            InTurn::Directories => self.tree.branches.len() as u64,
        };
        self.turns[of as usize].fetch_add(1, Relaxed) % count.max(1)
    }

    /// Who was to take `from` has found `number`: the turn goes on from there.
    pub(super) fn went_to(&self, of: InTurn, from: u64, number: u64) {
        if number != from {
            self.turns[of as usize].store(number + 1, Relaxed);
        }
    }

    /// Finds an existing file from `at` on and has it count as open, so that nobody removes it.
    pub(super) fn hold(&self, at: u64) -> Taken {
        let mut at = at;
        loop {
            let Some(number) = self.files.existing.next(at) else { return self.files.none() };
            let open = &self.open[number as usize];
            open.fetch_add(1, SeqCst);
            // Whoever removes it first takes it and then looks whether it is open.
            if self.files.existing.contains(number) {
                return Taken::One(number);
            }
            open.fetch_sub(1, SeqCst);
            at = number;
        }
    }

    /// Has a file that was made or taken count as open.
    pub(super) fn hold_taken(&self, number: u64) {
        self.open[number as usize].fetch_add(1, SeqCst);
    }

    /// The end of [`LiveFileset::hold`].
    pub(super) fn release(&self, number: u64) {
        self.open[number as usize].fetch_sub(1, SeqCst);
    }

    /// Takes an existing file from `at` on that nobody has open, in order to remove or rename it.
    pub(super) fn take_closed(&self, at: u64) -> Taken {
        let mut at = at;
        for _ in 0..MOST_TRIED {
            match self.files.take_existing(at) {
                Taken::One(number) if self.open[number as usize].load(SeqCst) > 0 => {
                    self.files.settle(number, true);
                    at = number + 1;
                }
                other => return other,
            }
        }
        Taken::Later
    }

    /// Takes this very file, unless others than the caller, who has it open `own` times, have it open.
    pub(super) fn take_this(&self, number: u64, own: u32) -> bool {
        self.files.busy.fetch_add(1, SeqCst);
        if self.files.existing.take(number) {
            if self.open[number as usize].load(SeqCst) <= own {
                return true;
            }
            self.files.settle(number, true);
            return false;
        }
        self.files.busy.fetch_sub(1, SeqCst);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_eight_digits_or_more() {
        let name = |number| name_of(number, &mut [0; 12]).to_str().unwrap().to_owned();
        assert_eq!([name(1), name(0), name(12_345_678)], ["00000001", "00000000", "12345678"]);
        assert_eq!(name(u32::MAX), "4294967295");
    }

    #[test]
    fn what_is_open_is_not_taken_and_what_is_busy_comes_back() {
        let of = file_program::Fileset { entries: 3, ..file_program::Fileset::default() };
        let root = Directory::open(&std::env::temp_dir()).unwrap();
        let live = LiveFileset::new(&of, Tree::of(&of, 0, None), vec![0; 3].into(), root);
        assert_eq!(live.hold(0), Taken::None);
        (0..2).for_each(|number| live.files.existing.give(number));
        live.files.absent.give(2);
        assert_eq!(live.hold(0), Taken::One(0));
        assert_eq!(live.take_closed(0), Taken::One(1));
        assert_eq!(live.files.take_absent(0), Taken::One(2));
        assert_eq!((live.files.take_absent(0), live.take_closed(0)), (Taken::Later, Taken::Later));
        live.files.settle(1, false);
        live.files.settle(2, true);
        assert_eq!(live.take_closed(1), Taken::One(2));
        live.files.settle(2, false);
        // The only one that exists is open.
        assert_eq!(live.take_closed(0), Taken::Later);
        live.release(0);
        assert_eq!(live.take_closed(0), Taken::One(0));
    }
}
