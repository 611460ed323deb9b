//! Flowops that ask the file system for something.

use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use iodyno_core::file_program::{FileCall, MAX_IO_BYTES};
use iodyno_sys::directory::{self, Opening};
use iodyno_sys::io_memory::IoMemory;

use super::compiled::{Slot, Step};
use super::fileset::{InTurn, LiveFileset, Taken};
use super::worker_thread::{Open, Outcome, WorkerThread};

/// Data is moved to and from places at multiples of this, as `O_DIRECT` asks for.
const PAGE: usize = 4096;

/// An outcome that is none yet: goes on with the value, or is the flowop's outcome.
type Found<T> = Result<T, Outcome>;

/// Whether a thread goes through the files by itself.
fn own_turn(step: &Step, of: InTurn) -> bool {
    of == InTurn::Existing && step.index.is_none() && matches!(step.slot, Slot::Turn { .. })
}

fn outcome(found: Found<u64>) -> Outcome {
    found.map_or_else(|outcome| outcome, Outcome::Done)
}

fn refused<T>(result: io::Result<T>) -> Found<T> {
    result.map_err(Outcome::Refused)
}

impl<'a> WorkerThread<'a> {
    pub(super) fn file_call(&mut self, step: &'a Step) -> Outcome {
        outcome(match step.call {
            FileCall::Read => self.read(step),
            FileCall::Write => self.write(step, false),
            FileCall::AioWrite => self.write(step, true),
            FileCall::AioWait => self.aio.as_mut().map_or(Ok(0), |aio| refused(aio.wait()).map(|()| 0)),
            FileCall::AppendFile | FileCall::AppendFileRand => self.append(step),
            FileCall::ReadWholeFile => self.read_whole(step),
            FileCall::WriteWholeFile => self.write_whole(step),
            FileCall::OpenFile => self.open_file(step),
            FileCall::CreateFile => self.create(step),
            FileCall::CloseFile => self.close(step),
            FileCall::DeleteFile => self.delete(step),
            FileCall::RenameFile => self.rename(step),
            FileCall::StatFile => self.stat(step),
            FileCall::MakeDir => self.make_directory(step),
            FileCall::RemoveDir => self.remove_directory(step),
            FileCall::ListDir => self.list(step),
            FileCall::Fsync => self.synchronise(step, false),
            FileCall::Fdatasync => self.synchronise(step, true),
            FileCall::FsyncSet => self.synchronise_set(step),
            _ => Err(Outcome::Wrong("it is no call of a file system")),
        })
    }

    fn fileset(&self, step: &Step) -> Found<(usize, &'a LiveFileset)> {
        let shared = self.shared;
        step.fileset
            .and_then(|at| shared.filesets.get(at).map(|fileset| (at, fileset)))
            .ok_or(Outcome::Wrong("it names no fileset, and no file is open for it"))
    }

    /// The place of its open file; the next one, where files are used in turn.
    fn slot(&mut self, step: &Step) -> Found<usize> {
        let slot = match step.slot {
            Slot::One(slot) => slot,
            Slot::Turn { first, count, rotor } => {
                let turn = self.rotors[rotor];
                self.rotors[rotor] = (turn + 1) % count;
                first + turn
            }
            Slot::Last => self.last.ok_or(Outcome::Wrong("no file was opened before"))?,
        };
        self.last = Some(slot);
        Ok(slot)
    }

    /// Where to look for a file: by its number, or after the one before. Files that are opened in rotation (`rotatefd`) are
    /// each thread's own, as in Filebench; else all threads take turns.
    fn place(&mut self, step: &Step, at: usize, of: InTurn) -> u64 {
        let fileset = &self.shared.filesets[at];
        match step.index {
            Some(index) => self.value(index) % fileset.entries.max(1),
            None if own_turn(step, of) => self.places[at],
            None => fileset.turn(of),
        }
    }

    /// Looks until there is one, while others are about to give one back.
    fn find(
        &mut self,
        step: &Step,
        at: usize,
        of: InTurn,
        from: u64,
        look: impl Fn(u64) -> Taken,
    ) -> Found<u64> {
        loop {
            match look(from) {
                Taken::One(number) => {
                    self.went_to(step, at, of, from, number);
                    return Ok(number);
                }
                Taken::None => return Err(Outcome::NoFile),
                Taken::Later => {
                    std::thread::yield_now();
                    self.tick();
                    if self.is_over() {
                        return Err(Outcome::Stopped);
                    }
                }
            }
        }
    }

    fn went_to(&mut self, step: &Step, at: usize, of: InTurn, from: u64, number: u64) {
        if own_turn(step, of) {
            self.places[at] = number + 1;
        } else if step.index.is_none() {
            self.shared.filesets[at].went_to(of, from, number);
        }
    }

    /// Opens an existing file into `slot`. The flowop begins with the call.
    fn open_into(&mut self, step: &Step, slot: usize) -> Found<()> {
        let (at, fileset) = self.fileset(step)?;
        let from = match step.slot {
            // Each its own, where there are as many places as files.
            Slot::Turn { first, count, .. } if step.index.is_none() && count as u64 == fileset.entries => {
                (slot - first) as u64
            }
            _ => self.place(step, at, InTurn::Existing),
        };
        let number = self.find(step, at, InTurn::Existing, from, |from| fileset.hold(from))?;
        let opening = Opening { create: false, ..step.opening };
        self.tick();
        self.begun = self.now;
        let opened = fileset.at_file(number, |directory, name| directory.file(name, opening));
        let opened = opened.and_then(|file| {
            if step.no_readahead {
                directory::expect_random_reads(&file)?;
            }
            Ok(file)
        });
        match opened {
            Ok(file) => {
                let size = fileset.sizes[number as usize];
                self.slots[slot] =
                    Some(Open { file: Arc::new(file), fileset: at, entry: Some(number), size, position: 0 });
                Ok(())
            }
            Err(error) => {
                fileset.release(number);
                Err(Outcome::Refused(error))
            }
        }
    }

    /// The place of its open file, which is opened where it is not; that does not count as the flowop's time.
    fn opened(&mut self, step: &Step) -> Found<usize> {
        let slot = self.slot(step)?;
        if self.slots[slot].is_none() {
            self.open_into(step, slot)?;
            self.tick();
            self.begun = self.now;
        }
        Ok(slot)
    }

    fn length(&mut self, step: &Step) -> u64 {
        self.value(step.io_bytes).clamp(1, MAX_IO_BYTES)
    }

    /// Offset of a piece: a random one within the working set, or where the last one ended.
    fn offset(&mut self, step: &Step, slot: usize, length: u64) -> Found<u64> {
        let working_set = step.working_set.map_or(0, |number| self.value(number));
        let open = self.slots[slot].as_ref().ok_or(Outcome::Wrong("its file is not open"))?;
        if !step.random {
            return Ok(open.position);
        }
        let set = if working_set > 0 { working_set } else { open.size };
        Ok(self.random.below((set / length).max(1)) * length)
    }

    /// Offset of a piece to write. A file grows, as with Filebench; where the file system has no more room, it is written
    /// again from its begin.
    fn offset_to_write(&mut self, step: &Step, slot: usize, length: u64) -> Found<u64> {
        let offset = self.offset(step, slot, length)?;
        let grows = self.slots[slot].as_ref().is_some_and(|open| offset + length > open.size);
        Ok(if grows && !step.random && !self.shared.may_grow(length) { 0 } else { offset })
    }

    /// Memory for so many bytes, at a random place of the thread's.
    fn memory(&mut self, length: usize) -> Found<&mut [u8]> {
        if length > self.memory.length() {
            self.memory = refused(IoMemory::new(length.next_multiple_of(PAGE)))?;
        }
        let room = (self.memory.length() - length) / PAGE;
        let at = self.random.below(room as u64 + 1) as usize * PAGE;
        Ok(&mut self.memory.bytes()[at..at + length])
    }

    fn file(&self, slot: usize) -> Found<Arc<std::fs::File>> {
        let open = self.slots[slot].as_ref().ok_or(Outcome::Wrong("its file is not open"))?;
        Ok(Arc::clone(&open.file))
    }

    fn moved(&mut self, slot: usize, to: u64) {
        if let Some(open) = &mut self.slots[slot] {
            open.position = to;
        }
    }

    fn read(&mut self, step: &Step) -> Found<u64> {
        let slot = self.opened(step)?;
        let length = self.length(step);
        let offset = self.offset(step, slot, length)?;
        let file = self.file(slot)?;
        let got = refused(file.read_at(self.memory(length as usize)?, offset))? as u64;
        if !step.random {
            // At its end, from the begin again.
            self.moved(slot, if got == 0 { 0 } else { offset + got });
        }
        Ok(got)
    }

    fn write(&mut self, step: &Step, begin_only: bool) -> Found<u64> {
        let slot = self.opened(step)?;
        let length = self.length(step);
        let offset = self.offset_to_write(step, slot, length)?;
        let file = self.file(slot)?;
        match self.aio.as_mut().filter(|_| begin_only) {
            Some(aio) => refused(aio.begin(&file, offset, length as usize))?,
            None => refused(file.write_all_at(self.memory(length as usize)?, offset))?,
        }
        if !step.random {
            self.moved(slot, offset + length);
        }
        Ok(length)
    }

    fn append(&mut self, step: &Step) -> Found<u64> {
        let slot = self.opened(step)?;
        let most = self.length(step);
        let length = if step.call == FileCall::AppendFileRand { 1 + self.random.below(most) } else { most };
        let file = self.file(slot)?;
        let end = refused((&*file).seek(SeekFrom::End(0)))?;
        refused(file.write_all_at(self.memory(length as usize)?, end))?;
        self.moved(slot, end + length);
        Ok(length)
    }

    fn read_whole(&mut self, step: &Step) -> Found<u64> {
        let slot = self.opened(step)?;
        let length = self.length(step) as usize;
        let file = self.file(slot)?;
        let mut total = 0;
        loop {
            let got = refused(file.read_at(self.memory(length)?, total))?;
            total += got as u64;
            // A regular file gives less than asked for at its end only.
            if got < length {
                self.moved(slot, 0);
                return Ok(total);
            }
        }
    }

    fn write_whole(&mut self, step: &Step) -> Found<u64> {
        let slot = self.opened(step)?;
        let length = self.length(step);
        let like = step.source.unwrap_or(slot);
        let size = match (&self.slots[like], self.closed[like]) {
            (Some(open), _) => open.size,
            (None, Some((at, entry))) => self.shared.filesets[at].sizes[entry as usize],
            (None, None) => return Err(Outcome::Wrong("no file was opened under the number of srcfd")),
        };
        let file = self.file(slot)?;
        let mut at = 0;
        while at < size {
            let piece = (size - at).min(length);
            refused(file.write_all_at(self.memory(piece as usize)?, at))?;
            at += piece;
        }
        self.moved(slot, at);
        Ok(size)
    }

    fn open_file(&mut self, step: &Step) -> Found<u64> {
        let slot = self.slot(step)?;
        if self.slots[slot].is_some() {
            return Err(Outcome::Wrong("a file is open under its number; it must be closed first"));
        }
        self.open_into(step, slot).map(|()| 0)
    }

    fn create(&mut self, step: &Step) -> Found<u64> {
        let slot = self.slot(step)?;
        if self.slots[slot].is_some() {
            return Err(Outcome::Wrong("a file is open under its number; it must be closed first"));
        }
        let (at, fileset) = self.fileset(step)?;
        let from = self.place(step, at, InTurn::Absent);
        let number = self.find(step, at, InTurn::Absent, from, |from| fileset.files.take_absent(from))?;
        self.tick();
        self.begun = self.now;
        match fileset.at_file(number, |directory, name| directory.file(name, step.opening)) {
            Ok(file) => {
                fileset.hold_taken(number);
                fileset.files.settle(number, true);
                let size = fileset.sizes[number as usize];
                self.slots[slot] =
                    Some(Open { file: Arc::new(file), fileset: at, entry: Some(number), size, position: 0 });
                Ok(0)
            }
            Err(error) => {
                fileset.files.settle(number, error.kind() == io::ErrorKind::AlreadyExists);
                Err(Outcome::Refused(error))
            }
        }
    }

    fn close(&mut self, step: &Step) -> Found<u64> {
        let slot = self.slot(step)?;
        let open = self.slots[slot].take().ok_or(Outcome::Wrong("no file is open under its number"))?;
        self.forget(&open);
        self.closed[slot] = open.entry.map(|entry| (open.fileset, entry));
        drop(open);
        Ok(0)
    }

    fn delete(&mut self, step: &Step) -> Found<u64> {
        let shared = self.shared;
        // The file under its number: open, or closed last there.
        let mut own = None;
        if step.numbered {
            let slot = self.slot(step)?;
            own = match &self.slots[slot] {
                Some(open) => open.entry.map(|entry| (slot, open.fileset, entry, true)),
                None => self.closed[slot].map(|(at, entry)| (slot, at, entry, false)),
            };
        }
        let (fileset, number) = match own {
            Some((slot, at, entry, is_open)) => {
                let fileset = &shared.filesets[at];
                if !fileset.take_this(entry, u32::from(is_open)) {
                    return Err(Outcome::Passed);
                }
                self.closed[slot] = None;
                (fileset, entry)
            }
            None => {
                let (at, fileset) = self.fileset(step)?;
                let from = self.place(step, at, InTurn::Existing);
                match fileset.take_closed(from) {
                    Taken::One(number) => {
                        self.went_to(step, at, InTurn::Existing, from, number);
                        (fileset, number)
                    }
                    Taken::None => return Err(Outcome::NoFile),
                    // All that were looked at are open somewhere: nothing is removed under a reader.
                    Taken::Later => {
                        std::thread::yield_now();
                        return Err(Outcome::Passed);
                    }
                }
            }
        };
        self.tick();
        self.begun = self.now;
        let removed = fileset.at_file(number, |directory, name| directory.remove_file(name));
        let gone = match &removed {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        fileset.files.settle(number, !gone);
        if let (true, Some((slot, _, _, true))) = (gone, own) {
            fileset.release(number);
            if let Some(open) = &mut self.slots[slot] {
                open.entry = None;
            }
        }
        refused(removed).map(|()| 0)
    }

    fn rename(&mut self, step: &Step) -> Found<u64> {
        let (at, fileset) = self.fileset(step)?;
        let from = self.place(step, at, InTurn::Existing);
        let old = match fileset.take_closed(from) {
            Taken::One(number) => number,
            Taken::None => return Err(Outcome::NoFile),
            Taken::Later => {
                std::thread::yield_now();
                return Err(Outcome::Passed);
            }
        };
        self.went_to(step, at, InTurn::Existing, from, old);
        let from = fileset.turn(InTurn::Absent);
        let new = match fileset.files.take_absent(from) {
            Taken::One(number) => number,
            other => {
                fileset.files.settle(old, true);
                return Err(if other == Taken::None { Outcome::NoFile } else { Outcome::Passed });
            }
        };
        fileset.went_to(InTurn::Absent, from, new);
        self.tick();
        self.begun = self.now;
        let renamed = fileset.at_file(old, |directory, name| {
            fileset.at_file(new, |there, new_name| directory.rename(name, there, new_name))
        });
        fileset.files.settle(old, renamed.is_err());
        fileset.files.settle(new, renamed.is_ok());
        refused(renamed).map(|()| 0)
    }

    fn stat(&mut self, step: &Step) -> Found<u64> {
        let (at, fileset) = self.fileset(step)?;
        let from = self.place(step, at, InTurn::Existing);
        let number = self.find(step, at, InTurn::Existing, from, |from| fileset.hold(from))?;
        let known = fileset.at_file(number, |directory, name| directory.attributes(name));
        fileset.release(number);
        refused(known).map(|_| 0)
    }

    fn make_directory(&mut self, step: &Step) -> Found<u64> {
        let (at, fileset) = self.fileset(step)?;
        let from = fileset.turn(InTurn::AbsentLeaves);
        let leaf =
            self.find(step, at, InTurn::AbsentLeaves, from, |from| fileset.leaves.take_absent(from))?;
        self.tick();
        self.begun = self.now;
        let made = fileset.at_leaf_directory(leaf, |directory, name| directory.make_directory(name));
        fileset.leaves.settle(leaf, made.is_ok());
        refused(made).map(|()| 0)
    }

    fn remove_directory(&mut self, step: &Step) -> Found<u64> {
        let (at, fileset) = self.fileset(step)?;
        let from = fileset.turn(InTurn::Leaves);
        let leaf = self.find(step, at, InTurn::Leaves, from, |from| fileset.leaves.take_existing(from))?;
        self.tick();
        self.begun = self.now;
        let removed = fileset.at_leaf_directory(leaf, |directory, name| directory.remove_directory(name));
        fileset.leaves.settle(leaf, removed.is_err());
        refused(removed).map(|()| 0)
    }

    fn list(&mut self, step: &Step) -> Found<u64> {
        let (_, fileset) = self.fileset(step)?;
        let index = fileset.turn(InTurn::Directories) as usize;
        let listed = fileset.in_directory(index, |directory| directory.again()?.list(|_| ()));
        refused(listed).map(|bytes| bytes.0)
    }

    fn synchronise(&mut self, step: &Step, data_only: bool) -> Found<u64> {
        let slot = self.slot(step)?;
        let file = self.file(slot)?;
        refused(if data_only { file.sync_data() } else { file.sync_all() }).map(|()| 0)
    }

    fn synchronise_set(&mut self, step: &Step) -> Found<u64> {
        let wanted = |open: &&Open| step.fileset.is_none_or(|fileset| open.fileset == fileset);
        for open in self.slots.iter().flatten().filter(wanted) {
            refused(open.file.sync_all())?;
        }
        Ok(0)
    }
}
