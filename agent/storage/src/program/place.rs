//! Where a fileset lies, and the marker there that says whose it is.

use std::ffi::{CStr, CString};
use std::io::{self, Read, Write};

use iodyno_core::file_program::{FileProgram, Fileset, FilesetKind};
use iodyno_core::file_variable::Variable;
use iodyno_load::LoadError;
use iodyno_sys::directory::{Attributes, Directory, Kind, Opening};
use serde::{Deserialize, Serialize};

use super::layout::refused;

/// Deepest tree that is removed: twice what is ever made.
const MOST_DEPTH: usize = 150;
/// What the marker of a tree is called.
const MARKER: &CStr = c".iodyno.json";

/// What the marker says.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Marker {
    /// Form of layouts; another one is made anew.
    pub iodyno_fileset: u32,
    pub complete: bool,
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

    pub fn mark(&self, marker: &Marker) -> io::Result<()> {
        let home = self.home()?;
        let new = if self.inside {
            c".iodyno.new".to_owned()
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

    /// Removes the fileset and its marker.
    pub fn remove(&self) -> io::Result<()> {
        match self.parent.attributes(&self.name) {
            Ok(Attributes { kind: Kind::Directory, .. }) if self.inside => {
                let tree = self.parent.directory(&self.name)?;
                // The marker goes last, so that what is left after a kill is still known to be ours.
                remove_all(&tree, tree.own_attributes()?.device, 0, Some(MARKER))?;
                remove_if_there(&tree, MARKER)?;
                self.parent.remove_directory(&self.name)
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

fn remove_if_there(directory: &Directory, name: &CStr) -> io::Result<()> {
    match directory.remove_file(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Removes everything in a directory but `kept`, never over a link or into another file system.
fn remove_all(directory: &Directory, device: u64, depth: usize, kept: Option<&CStr>) -> io::Result<()> {
    let mut names: Vec<CString> = Vec::new();
    directory.list(|name| {
        if name != c"." && name != c".." && Some(name) != kept {
            names.push(name.to_owned());
        }
    })?;
    for name in names {
        let attributes = directory.attributes(&name)?;
        if attributes.kind != Kind::Directory {
            directory.remove_file(&name)?;
            continue;
        }
        if attributes.device != device || depth >= MOST_DEPTH {
            return Err(io::Error::other("something is mounted in it, or it is deeper than any fileset"));
        }
        remove_all(&directory.directory(&name)?, device, depth + 1, None)?;
        directory.remove_directory(&name)?;
    }
    Ok(())
}

/// Bytes of the files in a directory and below.
fn bytes_below(directory: &Directory, depth: usize) -> io::Result<u64> {
    let mut names: Vec<CString> = Vec::new();
    directory.list(|name| {
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    })?;
    let mut bytes = 0;
    for name in names {
        let attributes = directory.attributes(&name)?;
        bytes += match attributes.kind {
            Kind::Directory if depth < MOST_DEPTH => bytes_below(&directory.directory(&name)?, depth + 1)?,
            Kind::File => attributes.bytes,
            _ => 0,
        };
    }
    Ok(bytes)
}
