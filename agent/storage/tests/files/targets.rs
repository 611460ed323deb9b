//! Files that loads use: laid out once, known again, never anybody else's.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use iodyno_load::Cancel;
use iodyno_storage::targets::signatures::{signature_of, MAGICS, PAGES_BYTES, SWAPS};
use iodyno_storage::targets::{
    make_ready, mark, remove, see, stamp_of, unit_content, Action, Checked, Kind, Ready, Refusal, Stamp,
    State, Wanted, STAMP_BYTES, UNIT_BYTES,
};
use proptest::prelude::*;

use crate::folder::Folder;

const MIB: u64 = 1 << 20;

fn wanted(path: &Path, size: u64, writes: bool) -> Wanted {
    Wanted { path: path.display().to_string(), size_bytes: Some(size), writes, ..Wanted::default() }
}

fn ready(wanted: &Wanted) -> Result<Ready, Refusal> {
    make_ready(wanted, &mut |_, _| (), &Cancel::default())
}

fn action(path: &Path, size: u64, writes: bool) -> (Action, String) {
    let ready = ready(&wanted(path, size, writes)).unwrap();
    (ready.action, ready.why)
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

fn cut(path: &Path, length: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

#[test]
fn a_layout_is_made_once_and_used_again() {
    let folder = Folder::new("target-once");
    let path = folder.path("work.dat");
    let mut told = Vec::new();
    let asked = wanted(&path, 3 * MIB, false);
    let made = make_ready(&asked, &mut |done, whole| told.push((done, whole)), &Cancel::default()).unwrap();
    assert_eq!((made.action, made.kind), (Action::Made, Kind::File));
    assert_eq!(told, [(MIB, 3 * MIB), (2 * MIB, 3 * MIB), (3 * MIB, 3 * MIB)]);
    let held = fs::read(&path).unwrap();
    assert_eq!(held.len() as u64, 3 * MIB + STAMP_BYTES);
    let units: Vec<&[u8]> = held[..3 << 20].chunks(UNIT_BYTES as usize).collect();
    for (number, unit) in units.iter().enumerate() {
        assert_eq!(*unit, unit_content(number as u64));
    }
    // No two blocks are alike, or a device below might keep one for all.
    let distinct: std::collections::HashSet<_> = units.iter().collect();
    assert_eq!(distinct.len(), units.len());
    let stamp = stamp_of(&path).unwrap().unwrap();
    assert_eq!((stamp.size_bytes, stamp.state, stamp.pristine), (3 * MIB, State::Complete, true));
    let before = fs::metadata(&path).unwrap();
    assert_eq!(action(&path, 3 * MIB, false).0, Action::Reused);
    assert_eq!(action(&path, 2 * MIB, false).0, Action::Reused, "a larger one will do");
    let after = fs::metadata(&path).unwrap();
    assert_eq!((after.mtime(), after.mtime_nsec()), (before.mtime(), before.mtime_nsec()));
    assert!(remove(&path).unwrap() && !path.exists());
    assert!(!remove(&path).unwrap());
}

#[test]
fn a_size_that_is_no_whole_block_has_its_stamp_behind_the_last_one() {
    let folder = Folder::new("target-odd");
    let path = folder.path("work.dat");
    assert_eq!(action(&path, MIB + 5, false).0, Action::Made);
    assert_eq!(fs::metadata(&path).unwrap().len(), MIB + UNIT_BYTES + STAMP_BYTES);
    assert_eq!(action(&path, MIB + 5, false).0, Action::Reused);
    // A load that appends leaves whole blocks behind the stamp; the file is ours all the same.
    overwrite(&path, MIB + UNIT_BYTES + STAMP_BYTES, &[7; 100]);
    assert!(remove(&path).unwrap());
}

#[test]
fn a_load_that_writes_makes_the_content_unknown_and_keeps_the_layout() {
    let folder = Folder::new("target-writes");
    let path = folder.path("work.dat");
    action(&path, MIB, false);
    assert_eq!(action(&path, MIB, true).0, Action::Reused);
    assert!(!stamp_of(&path).unwrap().unwrap().pristine);
    overwrite(&path, 0, &[9; MIB as usize]);
    assert_eq!(action(&path, MIB, false).0, Action::Reused);
    assert_eq!(action(&path, 2 * MIB, false).0, Action::Rebuilt);
    overwrite(&path, 0, &[9; 2 * MIB as usize]);
    let (again, why) = action(&path, 2 * MIB, false);
    assert!(again == Action::Rebuilt && why.contains("does not hold what was laid out"), "{why}");
}

#[test]
fn a_layout_that_lost_something_is_made_anew() {
    let folder = Folder::new("target-lost");
    let path = folder.path("work.dat");
    action(&path, MIB, false);
    let why = action(&path, 2 * MIB, false).1;
    assert_eq!(why, "it was laid out for 1048576 bytes, 2097152 are needed");
    // A hole where the content was.
    let mut stamp = vec![0; STAMP_BYTES as usize];
    File::open(&path).unwrap().read_exact_at(&mut stamp, 2 * MIB).unwrap();
    cut(&path, 0);
    overwrite(&path, 2 * MIB, &stamp);
    let why = action(&path, 2 * MIB, false).1;
    assert!(why.contains("holes are read from nowhere"), "{why}");
    assert_eq!(action(&path, 2 * MIB, false).0, Action::Reused);
}

#[test]
fn a_layout_that_was_killed_is_known_and_made_anew() {
    let folder = Folder::new("target-killed");
    let path = folder.path("work.dat");
    action(&path, 2 * MIB, false);
    // As it is when the process is gone in the middle: the stamp says so, and half of the content is not there.
    let held = fs::read(&path).unwrap();
    let stamp = String::from_utf8_lossy(&held[2 << 20..]).replace("\"complete\"", "\"building\"");
    cut(&path, MIB);
    overwrite(&path, 2 * MIB, &stamp.as_bytes()[..STAMP_BYTES as usize]);
    assert_eq!(stamp_of(&path).unwrap().unwrap().state, State::Building);
    assert_eq!(action(&path, 2 * MIB, true), (Action::Rebuilt, "its layout was interrupted".to_owned()));
    assert_eq!(action(&path, 2 * MIB, true).0, Action::Reused);
}

#[test]
fn a_layout_that_is_stopped_leaves_nothing() {
    let folder = Folder::new("target-stopped");
    let path = folder.path("work.dat");
    let cancel = Cancel::default();
    let stop = cancel.clone();
    let mut pieces = 0;
    let mut progress = |_, _| {
        pieces += 1;
        stop.cancel();
    };
    let refused = make_ready(&wanted(&path, 8 * MIB, false), &mut progress, &cancel).unwrap_err();
    assert!(refused.stopped && pieces == 1 && !path.exists(), "{refused:?}");
}

#[test]
fn a_layout_waits_for_another_one_of_the_same_file() {
    let folder = Folder::new("target-two");
    let path = folder.path("work.dat");
    // The one that is given up removes the file after the other has found it; the other's must stay.
    let (first, second) = (Cancel::default(), Cancel::default());
    std::thread::scope(|scope| {
        let mut other = None;
        let mut begin = |_, _| {
            if other.is_none() {
                let asked = wanted(&path, MIB, false);
                let cancel = second.clone();
                other = Some(scope.spawn(move || make_ready(&asked, &mut |_, _| (), &cancel)));
                std::thread::sleep(std::time::Duration::from_millis(60));
                first.cancel();
            }
        };
        let given_up = make_ready(&wanted(&path, 8 * MIB, false), &mut begin, &first);
        assert!(given_up.unwrap_err().stopped);
        assert_eq!(other.unwrap().join().unwrap().unwrap().action, Action::Made);
    });
    assert_eq!(stamp_of(&path).unwrap().unwrap().size_bytes, MIB);
    assert_eq!(action(&path, MIB, false).0, Action::Reused);
}

#[test]
fn what_others_wrote_is_read_and_never_written() {
    let folder = Folder::new("target-foreign");
    let path = folder.path("letter");
    let mine: Vec<u8> = (0..2 * MIB).map(|at| (at % 251) as u8).collect();
    fs::write(&path, &mine).unwrap();
    assert_eq!(action(&path, 2 * MIB, false).0, Action::Foreign);
    let refused = ready(&wanted(&path, MIB, true)).unwrap_err();
    assert_eq!(refused.what, "holds bytes that iodyno did not write, and the load would overwrite them");
    assert!(refused.advice.contains(&format!("--destroy {}", path.display())));
    assert!(ready(&Wanted { appends: true, ..wanted(&path, MIB, true) }).is_err());
    let refused = ready(&wanted(&path, 3 * MIB, false)).unwrap_err();
    assert_eq!(refused.what, "is 2097152 bytes long, fewer than the 3145728 of the working set");
    assert!(remove(&path).unwrap_err().what.contains("left alone"));
    assert!(fs::read(&path).unwrap() == mine);
    let given_up = Wanted { destroy: true, ..wanted(&path, MIB, true) };
    assert_eq!(ready(&given_up).unwrap().action, Action::Rebuilt);
    assert!(remove(&path).unwrap());
}

#[test]
fn what_a_load_appends_to_begins_empty_and_stays_ours() {
    let folder = Folder::new("target-appends");
    let path = folder.path("log");
    let appends = Wanted { appends: true, ..wanted(&path, MIB, true) };
    match ready(&appends) {
        Ok(ready) => assert_eq!(ready.action, Action::Made),
        // Without extended attributes what is appended could not be told from somebody else's file.
        Err(refused) => return assert!(refused.what.contains("cannot be laid out"), "{refused:?}"),
    }
    overwrite(&path, 0, b"written by a load");
    assert_eq!(ready(&appends).unwrap().action, Action::Rebuilt);
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    assert!(remove(&path).unwrap());
}

#[test]
fn a_file_that_its_owner_has_made_anew_is_no_longer_ours() {
    let folder = Folder::new("target-taken");
    let path = folder.path("work.dat");
    action(&path, MIB, true);
    // As a shell does with `> work.dat`: the file is cut, and whatever stands beside its content stays.
    fs::write(&path, b"somebody's own").unwrap();
    assert!(ready(&wanted(&path, MIB, true)).unwrap_err().what.contains("did not write"));
    assert!(ready(&Wanted { appends: true, ..wanted(&path, MIB, true) })
        .unwrap_err()
        .what
        .contains("did not write"));
    assert!(remove(&path).unwrap_err().what.contains("was not laid out by iodyno"));
    assert_eq!(fs::read(&path).unwrap(), b"somebody's own");
}

#[test]
fn what_cannot_be_a_target_is_told() {
    let folder = Folder::new("target-wrong");
    let link = folder.path("link");
    std::os::unix::fs::symlink(folder.path("nowhere"), &link).unwrap();
    let device = |path: &str| Wanted { kind: Kind::Device, ..wanted(Path::new(path), MIB, true) };
    let cases: [(Wanted, &str); 6] = [
        (wanted(&folder.path("no/folder"), MIB, true), "the folder of the target is not there"),
        (wanted(&folder.0, MIB, true), "is a folder"),
        (wanted(&link, MIB, false), "is a link to nothing"),
        (Wanted { size_bytes: None, ..wanted(&link, MIB, false) }, "needs a size"),
        (device("/dev/null"), "is no block device"),
        (device("/dev/no-such-device"), "cannot be opened: No such file or directory"),
    ];
    for (wanted, what) in cases {
        let refused = ready(&wanted).unwrap_err();
        assert!(
            refused.what == what && refused.place == wanted.path && !refused.advice.is_empty(),
            "{refused:?}"
        );
    }
    assert!(!folder.path("nowhere").exists());
}

#[test]
fn a_working_set_without_room_is_refused_before_anything_is_written() {
    let folder = Folder::new("target-room");
    let path = folder.path("work.dat");
    for size in [1 << 50, u64::MAX] {
        let refused = ready(&wanted(&path, size, false)).unwrap_err();
        assert!(refused.what.contains("does not fit") && refused.what.contains("free there"), "{refused:?}");
        assert!(!path.exists());
    }
}

#[test]
fn what_a_file_lies_on_is_found() {
    let folder = Folder::new("target-below");
    let path: PathBuf = folder.path("file");
    fs::write(&path, b"x").unwrap();
    let seen = see(&path, Kind::File).unwrap();
    assert!(seen.file_system.is_some() && seen.action == Action::None);
    // A file system on a disk has the number of the disk.
    if let Some(device) = seen.device {
        assert!(Path::new("/sys/class/block").join(device).exists() && !seen.in_memory);
    }
    assert!(see(&folder.path("nothing"), Kind::File).is_err());
}

fn on_a_device(length: usize, pieces: &[(usize, &[u8])]) -> Option<&'static str> {
    let mut held = vec![0; length];
    for (at, piece) in pieces {
        held[*at..*at + piece.len()].copy_from_slice(piece);
    }
    let mut read_at = |at: u64, count: u64| {
        Ok::<_, std::convert::Infallible>(held[at as usize..(at + count) as usize].to_vec())
    };
    signature_of(&mut read_at, length as u64).unwrap()
}

#[test]
fn every_magic_number_is_seen() {
    let length = 4 << 20;
    for magic in MAGICS {
        let at = usize::try_from(magic.offset).unwrap_or(length - magic.offset.unsigned_abs() as usize);
        assert_eq!(on_a_device(length, &[(at, magic.bytes)]), Some(magic.name));
    }
    for page in PAGES_BYTES {
        for (name, bytes) in SWAPS {
            assert_eq!(on_a_device(length, &[(page - 10, bytes)]), Some(*name));
        }
    }
    let old_raid = on_a_device(length + 12_288, &[(length - 65_536, b"\xfc\x4e\x2b\xa9")]);
    assert_eq!(old_raid, Some("a member of a RAID"));
    assert_eq!(on_a_device(length, &[]), None);
    assert_eq!((on_a_device(0, &[]), on_a_device(100, &[])), (None, None));
}

proptest! {
    #[test]
    fn whatever_is_on_a_device_is_read_without_complaint(
        length in 0..400_000_usize,
        piece in prop::collection::vec(any::<u8>(), 0..64),
        at in 0..400_000_usize,
    ) {
        let at = at.min(length);
        let piece = &piece[..piece.len().min(length - at)];
        on_a_device(length, &[(at, piece)]);
    }

    #[test]
    fn what_stands_where_a_stamp_is_looked_for_is_read_without_complaint(
        text in "[ -~]{0,80}", length in 0..10_000_u64,
    ) {
        let folder = Folder::new("target-torn");
        let path = folder.path("file");
        fs::write(&path, format!("iodyno working set {text}\n")).unwrap();
        cut(&path, length);
        let _ = stamp_of(&path).unwrap();
    }
}

#[test]
fn what_was_written_with_checks_is_kept_until_somebody_writes_without_them() {
    let folder = Folder::new("target-checked");
    let path = folder.path("work.dat");
    let checks = Checked { length_bytes: 2 * MIB, unit_bytes: 4096, seed: 1, ..Checked::default() };
    let asked = Wanted { checks: Some(checks), ..wanted(&path, 2 * MIB, true) };
    let checked = |asked: &Wanted| {
        let found = ready(asked).unwrap();
        (found.action, found.checked)
    };
    assert_eq!(checked(&asked), (Action::Made, false));
    // Laid out, and not yet written with checks.
    assert_eq!(checked(&asked), (Action::Reused, false));
    mark(&path, &checks).unwrap();
    assert_eq!(checked(&asked), (Action::Reused, true));
    // A part of it, on the same units, is there too; other units, another seed and another target are not.
    let part = Checked { offset_bytes: MIB, length_bytes: MIB, ..checks };
    assert_eq!(
        checked(&Wanted { checks: Some(part), writes: false, ..asked.clone() }),
        (Action::Reused, true)
    );
    for other in [
        Checked { unit_bytes: 8192, ..checks },
        Checked { seed: 2, ..checks },
        Checked { target: 1, ..checks },
        Checked { offset_bytes: 2048, length_bytes: MIB, ..checks },
        Checked { length_bytes: 3 * MIB, ..checks },
    ] {
        let asked = Wanted { checks: Some(other), writes: false, ..asked.clone() };
        assert_eq!(checked(&asked), (Action::Reused, false), "{other:?}");
    }
    // Holes are wrong data of a load with checks, and are not filled before it has seen them.
    cut(&path, 0);
    let stamp = Stamp { checked: Some(checks), ..stamp_like(2 * MIB) };
    write_stamp(&path, &stamp);
    assert_eq!(checked(&asked), (Action::Reused, true));
    assert!(fs::read(&path).unwrap()[..2 << 20].iter().all(|byte| *byte == 0));
    // A load that reads leaves them; one that writes without checks makes them void.
    let plain = Wanted { checks: None, ..asked.clone() };
    mark(&path, &checks).unwrap();
    assert!(!checked(&plain).1);
    assert!(!checked(&asked).1);
    // The explicit word, too.
    mark(&path, &checks).unwrap();
    assert!(checked(&asked).1);
    assert!(!checked(&Wanted { destroy: true, ..asked.clone() }).1);
    assert!(!checked(&asked).1);
    // A file of somebody else's gets no mark.
    let foreign = folder.file("theirs", &[7; 8192]);
    assert!(mark(Path::new(&foreign.path), &checks).is_err());
}

fn stamp_like(size_bytes: u64) -> Stamp {
    Stamp { size_bytes, state: State::Complete, pristine: false, version: 2, checked: None }
}

fn write_stamp(path: &Path, stamp: &Stamp) {
    let mut block = b"iodyno working set ".to_vec();
    block.extend(serde_json::to_vec(stamp).unwrap());
    block.push(b'\n');
    block.resize(STAMP_BYTES as usize, 0);
    overwrite(path, stamp.size_bytes, &block);
}
