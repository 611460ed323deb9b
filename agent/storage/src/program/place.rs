//! Where a fileset lies, and the marker there that says whose it is.

use std::ffi::{CStr, CString};
use std::io::{self, Read, Write};

use iodyno_core::file_program::{FileProgram, Fileset, FilesetKind};
use iodyno_core::file_variable::Variable;
use iodyno_load::LoadError;
use iodyno_sys::directory::{Attributes, Directory, Kind, Opening};
use serde::{Deserialize, Serialize};

use super::fileset::name_of;
use super::layout::{failure, refused};
use crate::targets::below::mounts;

/// Deepest tree that is removed: twice what is ever made.
const MOST_DEPTH: usize = 150;
/// What the marker of a tree is called.
const MARKER: &CStr = c".iodyno.json";
/// What it is called while it is written.
const NEW_MARKER: &CStr = c".iodyno.new";

/// What the marker says.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Marker {
    /// Form of layouts; another one is made anew.
    pub iodyno_fileset: u32,
    pub complete: bool,
    /// Whether the last run has ended, and had made all its changes when this was written: later ones are somebody else's.
    /// One that was killed leaves it unsaid.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_rest: bool,
    pub seed: u64,
    pub fileset: Fileset,
    pub variables: Vec<Variable>,
}

/// The form of layouts that are made now.
pub(super) const FORM: u32 = 1;

/// Where a fileset lies.
pub(super) struct Place {
    /// The program's directory, and the fileset's path below it.
    pub text: String,
    /// The directory that holds the fileset's own name.
    pub parent: Directory,
    pub name: CString,
    /// What the marker is called, and whether it lies in the fileset's own directory.
    marker: CString,
    pub inside: bool,
}

fn text_of(program: &FileProgram, fileset: &Fileset) -> String {
    [program.directory.as_str(), &fileset.path, &fileset.name]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("/")
}

/// The directories between the program's own and the fileset.
fn above(fileset: &Fileset) -> impl Iterator<Item = CString> + '_ {
    fileset.path.split('/').filter(|component| !component.is_empty()).map(c_name)
}

fn c_name(name: &str) -> CString {
    // The program was checked: no zero in it.
    CString::new(name).unwrap_or_default()
}

impl Place {
    /// Makes the directories above the fileset where there are none.
    pub fn of(program: &FileProgram, root: &Directory, fileset: &Fileset) -> Result<Self, LoadError> {
        let text = text_of(program, fileset);
        let mut parent = root.again().map_err(|error| refused(&error, "open the directory", &text))?;
        for name in above(fileset) {
            match parent.make_directory(&name) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(refused(&error, "make a directory above the fileset", &text));
                }
                _ => {}
            }
            parent = parent
                .directory(&name)
                .map_err(|error| refused(&error, "open a directory above it", &text))?;
        }
        Ok(Self::in_directory(parent, text, fileset))
    }

    /// The same where the directories above the fileset are there; none where one is not.
    pub fn found(
        program: &FileProgram,
        root: &Directory,
        fileset: &Fileset,
    ) -> Result<Option<Self>, LoadError> {
        let text = text_of(program, fileset);
        let mut parent = root.again().map_err(|error| refused(&error, "open the directory", &text))?;
        for name in above(fileset) {
            parent = match parent.directory(&name) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(refused(&error, "open a directory above it", &text)),
            };
        }
        Ok(Some(Self::in_directory(parent, text, fileset)))
    }

    fn in_directory(parent: Directory, text: String, fileset: &Fileset) -> Self {
        let inside = fileset.kind == FilesetKind::Fileset;
        let marker =
            if inside { MARKER.to_owned() } else { c_name(&format!(".{}.iodyno.json", fileset.name)) };
        Place { text, parent, name: c_name(&fileset.name), marker, inside }
    }

    /// Bytes that come free when it is removed.
    pub fn bytes(&self) -> io::Result<u64> {
        if self.inside {
            bytes_below(&self.parent.directory(&self.name)?, 0)
        } else {
            Ok(self.parent.attributes(&self.name)?.bytes)
        }
    }

    pub fn attributes(&self) -> Result<Option<Attributes>, LoadError> {
        match self.parent.attributes(&self.name) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused(&error, "look at the fileset's place", &self.text)),
        }
    }

    /// The directory that the marker lies in.
    pub fn home(&self) -> io::Result<Directory> {
        if self.inside {
            self.parent.directory(&self.name)
        } else {
            self.parent.again()
        }
    }

    /// What the marker says; none where there is none, or none of ours.
    pub fn marker(&self) -> Option<Marker> {
        let opening = Opening { read: true, ..Opening::default() };
        let file = self.home().and_then(|home| home.file(&self.marker, opening)).ok()?;
        let mut text = String::new();
        // chosen: more than any program's variables take.
        file.take(1 << 22).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Notes that a run has ended, so that a later change is known for somebody else's.
    pub fn mark_rest(&self) -> io::Result<()> {
        match self.marker() {
            Some(marker) if marker.complete && self.home()?.has_own_times()? => {
                self.mark(&Marker { at_rest: true, ..marker })
            }
            _ => Ok(()),
        }
    }

    pub fn mark(&self, marker: &Marker) -> io::Result<()> {
        let home = self.home()?;
        let new = if self.inside {
            NEW_MARKER.to_owned()
        } else {
            c_name(&format!("{}.new", self.marker.to_string_lossy()))
        };
        let _ = home.remove_file(&new);
        let opening = Opening { write: true, create: true, ..Opening::default() };
        let mut file = home.file(&new, opening)?;
        file.write_all(serde_json::to_string(marker)?.as_bytes())?;
        file.sync_all()?;
        home.rename(&new, &home, &self.marker)?;
        home.synchronise()
    }

    /// Refuses to touch what lies in the place where a part of it is not of this fileset: a name that it does not give, a
    /// change since its last run, another mount. `marker`: the one that was found there. `used`: the fileset is used again,
    /// and what lies beside its files stays.
    pub fn refuse_foreign(&self, marker: &Marker, used: bool) -> Result<(), LoadError> {
        let trouble = |error| refused(&error, "look at what an earlier job has left", &self.text);
        let Some(what) = self.foreign(marker, used).map_err(trouble)? else { return Ok(()) };
        let advice = "move that away, or name another directory; what nobody needs, remove yourself";
        Err(failure(format!("{what}; nothing was removed or overwritten"), &self.text, advice))
    }

    fn foreign(&self, marker: &Marker, used: bool) -> io::Result<Option<String>> {
        let Some(found) = attributes_of(&self.parent, &self.name)? else { return Ok(None) };
        let rested_ns = if marker.at_rest {
            attributes_of(&self.home()?, &self.marker)?.map(|marker| marker.changed_ns)
        } else {
            None
        };
        if !self.inside {
            return Ok(changed(&found, rested_ns).then(|| "it was changed after its last run".to_owned()));
        }
        let tree = self.parent.directory(&self.name)?;
        let path = tree.path()?;
        let below = |mount: &&str| std::path::Path::new(mount).starts_with(&path);
        let inner = |mount: &&str| below(mount) && std::path::Path::new(mount) != path;
        if let Some(mount) = mounts().iter().map(|mount| mount.point.as_str()).find(inner) {
            return Ok(Some(format!("something is mounted in it, at {mount}")));
        }
        let most = marker.fileset.entries.saturating_add(marker.fileset.leaf_dirs);
        first_foreign(&tree, 0, &Own { most, rested_ns, used })
    }

    /// Removes the fileset and its marker: what [`Place::refuse_foreign`] has looked through.
    pub fn remove(&self, marker: &Marker) -> io::Result<()> {
        match self.parent.attributes(&self.name) {
            Ok(Attributes { kind: Kind::Directory, .. }) if self.inside => {
                let tree = self.parent.directory(&self.name)?;
                let most = marker.fileset.entries.saturating_add(marker.fileset.leaf_dirs);
                // The marker goes last, so that what is left after a kill is still known to be ours.
                remove_all(&tree, 0, &Own { most, rested_ns: None, used: false })?;
                remove_if_there(&tree, NEW_MARKER)?;
                remove_if_there(&tree, MARKER)?;
                match self.parent.remove_directory(&self.name) {
                    // A file system is mounted on it: it is empty now, and stays.
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(()),
                    other => other,
                }
            }
            Ok(_) if self.inside => Err(io::ErrorKind::NotADirectory.into()),
            Ok(_) => {
                self.parent.remove_file(&self.name)?;
                remove_if_there(&self.parent, &self.marker)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.inside {
                    Ok(())
                } else {
                    remove_if_there(&self.parent, &self.marker)
                }
            }
            Err(error) => Err(error),
        }
    }
}

/// What is known of a name; none: it is not there.
fn attributes_of(directory: &Directory, name: &CStr) -> io::Result<Option<Attributes>> {
    match directory.attributes(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Whether a file was changed after the last run; of a run that was killed nobody knows.
fn changed(found: &Attributes, rested_ns: Option<i128>) -> bool {
    rested_ns.is_some_and(|rested_ns| found.changed_ns > rested_ns)
}

fn remove_if_there(directory: &Directory, name: &CStr) -> io::Result<()> {
    match directory.remove_file(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// What of a tree is the fileset's own.
struct Own {
    /// Greatest number that a name in it can be: files and directories of one directory are numbered from 1 on, and each
    /// directory that is not a leaf holds one at least.
    most: u64,
    /// When its last run had ended.
    rested_ns: Option<i128>,
    /// Whether it is used again, so that what else lies there is none of our business.
    used: bool,
}

impl Own {
    /// Whether a name is one that the layout gives; flowops make, rename and remove those and no others.
    fn has(&self, name: &CStr) -> bool {
        let number = name.to_str().ok().and_then(|name| name.parse::<u32>().ok());
        number.is_some_and(|number| {
            (1..=self.most).contains(&number.into()) && name_of(number, &mut [0; 12]) == name
        })
    }
}

/// The names in a directory, without those that all directories have and, in a fileset's own, without its marker's.
fn names_in(directory: &Directory, depth: usize) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    let marker = |name: &CStr| depth == 0 && (name == MARKER || name == NEW_MARKER);
    directory.list(|name| {
        if name != c"." && name != c".." && !marker(name) {
            names.push(name.to_owned());
        }
    })?;
    Ok(names)
}

/// What is not the fileset's own in a directory and below, the first of it.
fn first_foreign(directory: &Directory, depth: usize, own: &Own) -> io::Result<Option<String>> {
    for name in names_in(directory, depth)? {
        let attributes = directory.attributes(&name)?;
        let shown = name.to_string_lossy();
        if own.used && !own.has(&name) {
            continue;
        }
        if !own.has(&name) || attributes.kind == Kind::Other || depth >= MOST_DEPTH {
            return Ok(Some(format!("{shown} in it is not of this fileset")));
        }
        if attributes.kind == Kind::File {
            if changed(&attributes, own.rested_ns) {
                return Ok(Some(format!("{shown} in it was changed after the last run")));
            }
            continue;
        }
        let below = first_foreign(&directory.directory_of_its_mount(&name)?, depth + 1, own)?;
        if let Some(what) = below {
            return Ok(Some(format!("{shown}/{what}")));
        }
    }
    Ok(None)
}

/// Removes what is the fileset's own in a directory, never over a link or into another mount.
fn remove_all(directory: &Directory, depth: usize, own: &Own) -> io::Result<()> {
    for name in names_in(directory, depth)? {
        if !own.has(&name) {
            return Err(io::Error::other(format!(
                "{} came into it, which is not of this fileset",
                name.to_string_lossy()
            )));
        }
        if directory.attributes(&name)?.kind != Kind::Directory {
            directory.remove_file(&name)?;
            continue;
        }
        if depth >= MOST_DEPTH {
            return Err(io::Error::other("it is deeper than any fileset"));
        }
        remove_all(&directory.directory_of_its_mount(&name)?, depth + 1, own)?;
        directory.remove_directory(&name)?;
    }
    Ok(())
}

/// Bytes of the files in a directory and below.
fn bytes_below(directory: &Directory, depth: usize) -> io::Result<u64> {
    let mut bytes = 0;
    for name in names_in(directory, depth)? {
        let attributes = directory.attributes(&name)?;
        bytes += match attributes.kind {
            Kind::Directory if depth < MOST_DEPTH => {
                bytes_below(&directory.directory_of_its_mount(&name)?, depth + 1)?
            }
            Kind::File => attributes.bytes,
            _ => 0,
        };
    }
    Ok(bytes)
}
