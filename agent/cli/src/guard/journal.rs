//! The journal of a network namespace: how to take back what is set there.
//!
//! One file a namespace, in `/run`, which a restart of the machine empties as it does the settings. Who has the lock
//! on the file owns the settings of the namespace; a lock ends with its holder. So a journal with entries and
//! without a lock is what a crash left. Lines are only ever added, each synced before what it is about is done.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use iodyno_sys::{file_lock, net_namespace, process};
use serde::{Deserialize, Serialize};

use super::step::Step;

/// One thing that is set, and the way back.
#[derive(Clone, Deserialize, Serialize)]
pub struct Entry {
    tunable: String,
    device: Option<String>,
    /// Tells a device from a later one of the same name.
    index: Option<u32>,
    undo: Vec<Step>,
}

/// What was taken back, and what could not be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Restored {
    pub done: Vec<String>,
    pub failed: Vec<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Owner {
        owner: String,
        boot: String,
        namespace_inode: u64,
    },
    Entry(Entry),
    /// The last entry that is not taken back yet is so now.
    Undone {},
}

/// The journal of this process' namespace, locked by this process.
pub struct Journal {
    path: PathBuf,
    file: File,
    length: u64,
    entries: Vec<Entry>,
}

impl Entry {
    /// An entry about the device as it is now.
    pub fn new(tunable: String, device: Option<String>, undo: Vec<Step>) -> Self {
        let index = device.as_deref().and_then(device_index);
        Self { tunable, device, index, undo }
    }

    fn name(&self) -> String {
        match &self.device {
            Some(device) => format!("{} of {device}", self.tunable),
            None => self.tunable.clone(),
        }
    }

    /// Whether what it is about is gone: its device was removed, maybe made anew under the same name.
    fn moot(&self) -> bool {
        self.device.as_deref().is_some_and(|device| device_index(device) != self.index)
    }

    fn take_back(&self) -> Result<(), String> {
        self.undo.iter().try_for_each(Step::take)
    }
}

impl Journal {
    /// The journal of this network namespace in `folder`, with what a crash left in it; or who owns it.
    pub fn claim(folder: &Path) -> io::Result<Result<Self, String>> {
        let path = folder.join(namespace()?);
        loop {
            let opened = make_private(folder).and_then(|()| {
                OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)
            });
            let file = match opened {
                // The last owner of another journal has removed the folder between our looks.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            if !file_lock::try_exclusive(&file)? {
                let held = lines(&file)?.into_iter().rev().find_map(|line| match line {
                    Line::Owner { owner, .. } => Some(owner),
                    _ => None,
                });
                return Ok(Err(held.unwrap_or_else(|| "another lab".to_owned())));
            }
            // Its last owner may have removed the file between our opening and our lock.
            if fs::metadata(&path)
                .is_ok_and(|there| file.metadata().is_ok_and(|ours| there.ino() == ours.ino()))
            {
                let entries = left(lines(&file)?);
                let length = file.metadata()?.len();
                return Ok(Ok(Self { path, file, length, entries }));
            }
        }
    }

    /// Begins a journal of its own, after [`restore`](Self::restore).
    pub fn begin(&mut self, owner: &str) -> Result<(), String> {
        self.add(&Line::Owner { owner: owner.to_owned(), boot: boot(), namespace_inode: namespace_inode() })
    }

    /// Writes the way back down. On an error nothing was written.
    pub fn write(&mut self, entry: Entry) -> Result<(), String> {
        self.add(&Line::Entry(entry.clone()))?;
        self.entries.push(entry);
        Ok(())
    }

    /// Crosses out the last entry, which is about something that was not done.
    pub fn forget_last(&mut self) {
        // Were it lost, what is there already would only be set once more.
        if self.entries.pop().is_some() {
            let _ = self.add(&Line::Undone {});
        }
    }

    /// Takes everything back, the last one first. What cannot be taken back stays in the journal.
    pub fn restore(&mut self) -> Restored {
        let mut restored = Restored::default();
        let mut kept = Vec::new();
        while let Some(entry) = self.entries.pop() {
            let name = entry.name();
            if entry.moot() {
                restored.done.push(format!("{name} (the device is gone)"));
            } else if let Err(why) = entry.take_back() {
                restored.failed.push(format!("{name}: {why}"));
                kept.push(entry);
                continue;
            } else {
                restored.done.push(name);
            }
            if kept.is_empty() {
                // Were it lost, the same would only be set once more.
                let _ = self.add(&Line::Undone {});
            }
        }
        kept.reverse();
        self.entries = kept;
        if self.entries.is_empty() {
            self.forget();
        }
        restored
    }

    /// Empties the file but for its owner, so that it does not grow from trial to trial.
    fn forget(&mut self) {
        let owner = lines(&self.file)
            .ok()
            .and_then(|all| all.into_iter().rev().find(|line| matches!(line, Line::Owner { .. })));
        if self.file.set_len(0).is_ok() {
            self.length = 0;
            if let Some(owner) = owner {
                let _ = self.add(&owner);
            }
        }
    }

    fn add(&mut self, line: &Line) -> Result<(), String> {
        let told =
            |error: io::Error| format!("the journal {} cannot be written: {error}", self.path.display());
        let mut text = serde_json::to_vec(line).map_err(|error| told(error.into()))?;
        text.push(b'\n');
        let outcome = (&self.file)
            .seek(SeekFrom::Start(self.length))
            .and_then(|_| (&self.file).write_all(&text))
            .and_then(|()| self.file.sync_all());
        if let Err(error) = outcome {
            // Half a line would hide the next one.
            let _ = self.file.set_len(self.length);
            return Err(told(error));
        }
        self.length += text.len() as u64;
        Ok(())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.entries.is_empty() {
            // While the lock is still held; whoever opened the file meanwhile sees that it is another one now.
            let _ = fs::remove_file(&self.path);
            // Where it was the only journal: a folder that is there says that something is set, or is left.
            let _ = self.path.parent().map(fs::remove_dir);
        }
        // A child that was just forked has the file open until its exec.
        let _ = file_lock::release(&self.file);
    }
}

/// The folder of the journals: `given`, or where this user may keep one.
pub fn folder(given: Option<PathBuf>) -> Option<PathBuf> {
    if given.is_some() {
        return given;
    }
    let user = process::effective_user();
    if user == 0 && Path::new("/run").is_dir() {
        return Some(PathBuf::from("/run/iodyno/tunables"));
    }
    let temporary = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    temporary.is_dir().then(|| temporary.join(format!("iodyno-tunables-{user}")))
}

/// The boot of this machine.
pub fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// The network namespace of this process: its number, or where the kernel has none, its inode.
pub fn namespace() -> io::Result<String> {
    if let Ok(cookie) = net_namespace::cookie() {
        return Ok(format!("netns-{cookie}"));
    }
    Ok(format!("netns-inode-{}", fs::metadata("/proc/self/ns/net")?.ino()))
}

fn namespace_inode() -> u64 {
    fs::metadata("/proc/self/ns/net").map_or(0, |facts| facts.ino())
}

/// Removes the journals of namespaces that are gone, as far as that can be seen: no process is in them, and they
/// have no name. What was set there went with them.
pub fn sweep(folder: &Path) {
    if !is_private(folder).unwrap_or(false) {
        return;
    }
    let Ok(files) = fs::read_dir(folder) else { return };
    let owned: Vec<_> = files
        .flatten()
        .filter_map(|entry| {
            let file = OpenOptions::new().read(true).write(true).open(entry.path()).ok()?;
            let inode = lines(&file).ok()?.iter().rev().find_map(|line| match line {
                Line::Owner { namespace_inode, .. } => Some(*namespace_inode),
                _ => None,
            })?;
            Some((entry.path(), file, inode))
        })
        .collect();
    if owned.is_empty() {
        return;
    }
    let there = namespaces();
    for (path, file, inode) in owned {
        // Where somebody can be, no lock is taken: who claims it meanwhile would find it held.
        if !there.contains(&inode) && file_lock::try_exclusive(&file).unwrap_or(false) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Inodes of the network namespaces that a process is in, or that have a name.
fn namespaces() -> Vec<u64> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let named = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let paths = processes.map(|entry| entry.path().join("ns/net")).chain(named.map(|entry| entry.path()));
    paths.filter_map(|path| fs::metadata(path).ok()).map(|facts| facts.ino()).collect()
}

/// Whether this is the namespace that the machine began with. It alone has the limits of the whole kernel.
pub fn initial_namespace() -> bool {
    Path::new("/proc/sys/net/core/netdev_max_backlog").exists()
}

fn device_index(device: &str) -> Option<u32> {
    fs::read_to_string(format!("/sys/class/net/{device}/ifindex")).ok()?.trim().parse().ok()
}

/// Entries that are not taken back. Those of other boots, which may stand before ours, went with them.
fn left(lines: Vec<Line>) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut owned_in = boot();
    for line in lines {
        match line {
            Line::Owner { boot, .. } if boot == owned_in => {}
            Line::Owner { boot, .. } => {
                entries.clear();
                owned_in = boot;
            }
            Line::Entry(entry) => entries.push(entry),
            Line::Undone {} => {
                entries.pop();
            }
        }
    }
    if owned_in == boot() {
        entries
    } else {
        Vec::new()
    }
}

fn lines(mut file: &File) -> io::Result<Vec<Line>> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_string(&mut text)?;
    // A last line that was not finished is about something that was not done.
    Ok(text.lines().map_while(|line| serde_json::from_str(line).ok()).collect())
}

/// Makes the folder, for this user alone: what is in a journal is executed with this user's rights.
fn make_private(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        // Others may look whether there is a folder of root's.
        DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if is_private(folder)? {
        return Ok(());
    }
    let text = format!("{} belongs to another user, or others may write there", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// Whether nobody else can write to the folder; a link is none.
fn is_private(folder: &Path) -> io::Result<bool> {
    let facts = fs::symlink_metadata(folder)?;
    Ok(facts.is_dir() && facts.uid() == process::effective_user() && facts.mode() & 0o022 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("iodyno-journal-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// An entry that takes `file` back to `text`.
    fn entry(file: &Path, text: &str) -> Entry {
        let write = Step::Write { file: file.display().to_string(), text: text.to_owned() };
        Entry::new(format!("to {text}"), None, vec![write])
    }

    fn claim(place: &Place) -> Journal {
        let mut journal =
            Journal::claim(&place.0.join("tunables")).unwrap().unwrap_or_else(|o| panic!("{o}"));
        journal.restore();
        journal.begin("test").unwrap();
        journal
    }

    #[test]
    fn what_a_crash_left_is_taken_back_by_the_next_owner_the_last_one_first() {
        let place = Place::new("crash");
        let file = place.0.join("setting");
        fs::write(&file, "3").unwrap();
        let mut journal = claim(&place);
        journal.write(entry(&file, "1")).unwrap();
        journal.write(entry(&file, "2")).unwrap();
        // As a kill does it: the lock ends, nothing is cleaned up.
        let path = journal.path.clone();
        let text = fs::read(&path).unwrap();
        journal.entries.clear();
        drop(journal);
        make_private(&place.0.join("tunables")).unwrap();
        fs::write(&path, text).unwrap();

        let mut next = Journal::claim(&place.0.join("tunables")).unwrap().unwrap_or_else(|o| panic!("{o}"));
        assert_eq!(next.restore().done, ["to 2", "to 1"]);
        assert_eq!(fs::read_to_string(&file).unwrap(), "1");
        drop(next);
        assert!(!path.exists());
        assert!(!place.0.join("tunables").exists(), "an empty folder is left");
    }

    #[test]
    fn a_namespace_has_one_owner() {
        let place = Place::new("owner");
        let journal = claim(&place);
        assert_eq!(Journal::claim(&place.0.join("tunables")).unwrap().err().as_deref(), Some("test"));
        drop(journal);
        assert!(Journal::claim(&place.0.join("tunables")).unwrap().is_ok());
    }

    #[test]
    fn what_cannot_be_taken_back_stays_in_the_journal() {
        let place = Place::new("stays");
        let (file, absent) = (place.0.join("setting"), place.0.join("absent"));
        fs::write(&file, "9").unwrap();
        let mut journal = claim(&place);
        for one in [entry(&file, "1"), entry(&absent, "2"), entry(&file, "3")] {
            journal.write(one).unwrap();
        }
        let restored = journal.restore();
        assert_eq!((restored.done.len(), restored.failed.len()), (2, 1));
        assert_eq!(fs::read_to_string(&file).unwrap(), "1");
        let path = journal.path.clone();
        drop(journal);
        assert!(path.exists());
        fs::write(&absent, "9").unwrap();
        let mut next = Journal::claim(&place.0.join("tunables")).unwrap().unwrap_or_else(|o| panic!("{o}"));
        assert!(next.restore().done.contains(&"to 2".to_owned()));
        assert_eq!(fs::read_to_string(&absent).unwrap(), "2");
    }

    #[test]
    fn what_was_refused_is_crossed_out_and_nothing_else() {
        let place = Place::new("refused");
        let (file, absent) = (place.0.join("setting"), place.0.join("absent"));
        fs::write(&file, "9").unwrap();
        let mut guard = super::super::Guard { folder: None, journal: Some(claim(&place)), refused: false };
        let write = |file: &Path| Step::Write { file: file.display().to_string(), text: "5".to_owned() };
        guard.set(entry(&file, "1"), &[write(&file)]);
        guard.set(entry(&absent, "2"), &[write(&absent)]);
        let forget = r#"{"do": "forget"}"#;
        for _ in 0..3 {
            guard.hear(forget);
        }
        let restored = guard.journal.as_mut().unwrap().restore();
        assert_eq!((restored.done, restored.failed), (vec!["to 1".to_owned()], vec![]));
        assert_eq!(fs::read_to_string(&file).unwrap(), "1");
    }

    #[test]
    fn journals_of_namespaces_that_are_gone_are_removed_and_no_others() {
        let place = Place::new("sweep");
        let owner = |inode| {
            let line = Line::Owner { owner: "x".into(), boot: boot(), namespace_inode: inode };
            format!("{}\n", serde_json::to_string(&line).unwrap())
        };
        fs::write(place.0.join("gone"), owner(1)).unwrap();
        fs::write(place.0.join("here"), owner(namespace_inode())).unwrap();
        sweep(&place.0);
        assert!(!place.0.join("gone").exists() && place.0.join("here").exists());
    }

    #[test]
    fn who_looks_for_namespaces_that_are_gone_keeps_nobody_from_his_journal() {
        let place = Place::new("looked-at");
        let folder = place.0.join("tunables");
        let mut journal = claim(&place);
        journal.write(Entry::new("a".into(), None, vec![])).unwrap();
        drop(journal);
        let done = std::sync::atomic::AtomicBool::new(false);
        let held = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    sweep(&folder);
                }
            });
            let held = (0..1000).filter(|_| Journal::claim(&folder).unwrap().is_err()).count();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            held
        });
        assert_eq!(held, 0);
    }

    #[test]
    fn a_line_that_was_cut_counts_for_nothing_and_another_boot_for_none() {
        let whole = serde_json::to_string(&Line::Entry(Entry::new("a".into(), None, vec![]))).unwrap();
        let place = Place::new("cut");
        let path = place.0.join("file");
        fs::write(&path, format!("{whole}\n{}", &whole[..whole.len() / 2])).unwrap();
        assert_eq!(left(lines(&File::open(&path).unwrap()).unwrap()).len(), 1);
        let owner = serde_json::to_string(&Line::Owner {
            owner: "x".into(),
            boot: "other".into(),
            namespace_inode: 1,
        })
        .unwrap();
        fs::write(&path, format!("{owner}\n{whole}\n")).unwrap();
        assert!(left(lines(&File::open(&path).unwrap()).unwrap()).is_empty());
    }

    #[test]
    fn a_crash_after_a_restart_is_restored_although_the_journal_of_the_boot_before_is_there() {
        let place = Place::new("boots");
        let (old, new) = (place.0.join("old"), place.0.join("new"));
        for file in [&old, &new] {
            fs::write(file, "9").unwrap();
        }
        // `/run` outlives the kernel in a container that is started again, for one.
        let before = Line::Owner { owner: "x".into(), boot: "other".into(), namespace_inode: 1 };
        let folder = place.0.join("tunables");
        make_private(&folder).unwrap();
        let path = folder.join(namespace().unwrap());
        let text: String = [&before, &Line::Entry(entry(&old, "1"))]
            .map(|line| serde_json::to_string(line).unwrap() + "\n")
            .concat();
        fs::write(&path, text).unwrap();
        let mut journal = claim(&place);
        assert_eq!(fs::read_to_string(&old).unwrap(), "9", "it went with its boot");
        journal.write(entry(&new, "2")).unwrap();
        let crashed = fs::read(&path).unwrap();
        journal.entries.clear();
        drop(journal);
        make_private(&folder).unwrap();
        fs::write(&path, &crashed).unwrap();
        sweep(&folder);

        let mut next = Journal::claim(&folder).unwrap().unwrap_or_else(|o| panic!("{o}"));
        assert_eq!(next.restore().done, ["to 2"]);
        assert_eq!(fs::read_to_string(&new).unwrap(), "2");
        // And the other way round: what this boot left is nothing to the next one.
        let later = Line::Owner { owner: "x".into(), boot: "later".into(), namespace_inode: 1 };
        let both = [crashed, serde_json::to_vec(&later).unwrap()].concat();
        fs::write(&path, both).unwrap();
        assert!(left(lines(&File::open(&path).unwrap()).unwrap()).is_empty());
    }
}
