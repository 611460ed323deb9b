//! Reads a trace once, chunk by chunk, and hands what its lines say to a sink: one thread on what can only be read in
//! order, several on a plain file whose lines stand alone.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::event::{Batch, Place, FIRST_UNREADABLE};
use crate::formats::{Form, Parser};
use crate::source::Source;

/// Bytes that are read and parsed at a time. Chosen: the events of a chunk stay in a CPU's cache.
const CHUNK_BYTES: usize = 256 << 10;
/// A longer line is not one. Chosen: memory stays bounded whatever the file is.
const LINE_BYTES: usize = 1 << 20;

/// Takes what chunks say, in any order.
pub trait Sink: Send {
    /// Takes the events of one chunk and its text; the place of an event is [`place`] of `chunk` and its line.
    fn take(&mut self, batch: &Batch, chunk: u64, text: &[u8]) -> io::Result<()>;
}

/// A sink that several threads can have one each of.
pub trait Forked: Sink + Sync {
    /// One that has taken nothing yet.
    fn fork(&self) -> Self;
    /// Takes over what another has taken.
    fn join(&mut self, other: Self);
}

/// What is known of the lines themselves after a pass.
#[derive(Default)]
pub struct Tally {
    /// Lines of each chunk.
    lines: Vec<u32>,
    /// First chunk of each source.
    sources: Vec<u64>,
    /// Lines that are no event.
    pub skipped: u64,
    /// Events left out by filters.
    pub filtered: u64,
    /// Operations without a place, where places were wanted.
    pub placeless: u64,
    /// What parsers had to say.
    pub notes: BTreeSet<String>,
    /// Lines that could not be understood.
    pub unreadable: u64,
    unreadable_first: Vec<(Place, String)>,
    /// Sources that broke off, with the reason and the last line that was readable.
    pub broken: Vec<(usize, String)>,
}

impl Tally {
    /// Number of the source and of the line in it, from 0 and from 1.
    #[must_use]
    pub fn line_of(&self, place: Place) -> (usize, u64) {
        let chunk = place >> 32;
        let source = self.sources.partition_point(|first| *first <= chunk).saturating_sub(1);
        let first = self.sources.get(source).copied().unwrap_or(0);
        let before: u64 =
            self.lines.iter().take(chunk as usize).skip(first as usize).map(|count| u64::from(*count)).sum();
        (source, before + (place & u64::from(u32::MAX)) + 1)
    }

    /// Source, line and reason of the first lines that could not be understood.
    #[must_use]
    pub fn unreadable_first(&self) -> Vec<(usize, u64, String)> {
        let shown = |(place, reason): &(Place, String)| {
            let (source, line) = self.line_of(*place);
            (source, line, reason.clone())
        };
        self.unreadable_first.iter().map(shown).collect()
    }

    /// What there is to say of the lines.
    #[must_use]
    pub fn told(&self) -> Told {
        Told {
            skipped: self.skipped,
            filtered: self.filtered,
            placeless: self.placeless,
            notes: self.notes.clone(),
            unreadable: self.unreadable,
            unreadable_first: self.unreadable_first(),
            broken: self.broken.clone(),
        }
    }

    fn take(&mut self, batch: &Batch, chunk: u64) {
        let at = chunk as usize;
        if self.lines.len() <= at {
            self.lines.resize(at + 1, 0);
        }
        self.lines[at] += batch.lines;
        self.skipped += batch.skipped;
        self.filtered += batch.filtered;
        self.placeless += batch.placeless;
        self.notes.extend(batch.notes.iter().cloned());
        self.unreadable += batch.unreadable;
        let first = batch.unreadable_first.iter().map(|line| (line.place, line.reason.clone()));
        self.unreadable_first.extend(first);
        self.unreadable_first.sort_by_key(|(place, _)| *place);
        self.unreadable_first.truncate(FIRST_UNREADABLE);
    }

    fn merge(&mut self, other: Tally) {
        if self.lines.len() < other.lines.len() {
            self.lines.resize(other.lines.len(), 0);
        }
        self.lines.iter_mut().zip(&other.lines).for_each(|(ours, theirs)| *ours += theirs);
        self.skipped += other.skipped;
        self.filtered += other.filtered;
        self.placeless += other.placeless;
        self.notes.extend(other.notes);
        self.unreadable += other.unreadable;
        self.unreadable_first.extend(other.unreadable_first);
        self.unreadable_first.sort_by_key(|(place, _)| *place);
        self.unreadable_first.truncate(FIRST_UNREADABLE);
    }
}

/// What there is to say of the lines of traces, wherever they were read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Told {
    /// Lines that are no event.
    pub skipped: u64,
    /// Events left out by filters.
    pub filtered: u64,
    /// Operations without a place, where places were wanted.
    pub placeless: u64,
    /// What parsers had to say.
    pub notes: BTreeSet<String>,
    /// Lines that could not be understood.
    pub unreadable: u64,
    /// Source, line and reason of the first of them.
    pub unreadable_first: Vec<(usize, u64, String)>,
    /// Sources that broke off, with the reason.
    pub broken: Vec<(usize, String)>,
}

impl Told {
    /// Takes over what was said of source number `source` alone; sources come in their order.
    pub fn join(&mut self, other: Told, source: usize) {
        self.skipped += other.skipped;
        self.filtered += other.filtered;
        self.placeless += other.placeless;
        self.notes.extend(other.notes);
        self.unreadable += other.unreadable;
        self.unreadable_first
            .extend(other.unreadable_first.into_iter().map(|(_, line, reason)| (source, line, reason)));
        self.unreadable_first.truncate(FIRST_UNREADABLE);
        self.broken.extend(other.broken.into_iter().map(|(_, reason)| (source, reason)));
    }
}

/// How far a pass is, for whoever waits.
#[derive(Default)]
pub struct Progress {
    /// Bytes of plain text that were read, over all passes.
    pub done_bytes: AtomicU64,
    /// Set to stop the pass at the next chunk.
    pub stop: std::sync::atomic::AtomicBool,
}

/// One pass over the sources.
pub struct Pass<'a> {
    /// What is known of the lines so far.
    pub tally: Tally,
    /// Threads that may be used.
    pub threads: usize,
    /// Stop at the first line that cannot be understood.
    pub strict: bool,
    /// How far it is.
    pub progress: &'a Progress,
    chunks: u64,
}

impl<'a> Pass<'a> {
    /// A pass that has read nothing.
    #[must_use]
    pub fn new(threads: usize, strict: bool, progress: &'a Progress) -> Self {
        Pass { tally: Tally::default(), threads, strict, progress, chunks: 0 }
    }

    /// Reads a source into `sink` and its forks, one a thread; what is read is copied to `copy`.
    ///
    /// # Errors
    /// The copy cannot be written or a sink fails. A source that breaks off is no error: [`Tally::broken`] says it.
    pub fn read<S: Forked>(
        &mut self,
        source: &Source,
        form: &Form,
        parser: &(dyn Fn() -> Box<dyn Parser> + Sync),
        copy: Option<&mut dyn Write>,
        sink: &mut S,
    ) -> io::Result<()> {
        self.tally.sources.push(self.chunks);
        if let (Some((file, bytes)), None, true) = (source.random_access(), &copy, form.lines_stand_alone) {
            let chunks = bytes.div_ceil(CHUNK_BYTES as u64);
            let threads = self.threads.min(chunks as usize).max(1);
            if threads > 1 {
                self.read_by_threads((file, bytes, chunks), parser, threads, sink)?;
                self.chunks += chunks;
                return Ok(());
            }
        }
        self.read_in_order(source, form, parser(), copy, sink)
    }

    /// Reads a source in order, by this thread alone.
    ///
    /// # Errors
    /// The sink fails.
    pub fn read_alone<S: Sink>(
        &mut self,
        source: &Source,
        form: &Form,
        parser: &dyn Fn() -> Box<dyn Parser>,
        sink: &mut S,
    ) -> io::Result<()> {
        self.tally.sources.push(self.chunks);
        self.read_in_order(source, form, parser(), None, sink)
    }

    /// Reads `count` chunks of a plain file whose lines stand alone: the first, the last, and some between; says whether it
    /// is such a file and has so many. Nothing is tallied.
    ///
    /// # Errors
    /// The file cannot be read or the sink fails.
    pub fn sample<S: Sink>(
        source: &Source,
        form: &Form,
        parser: &dyn Fn() -> Box<dyn Parser>,
        count: u64,
        sink: &mut S,
    ) -> io::Result<bool> {
        let Some((file, bytes)) = source.random_access().filter(|_| form.lines_stand_alone) else {
            return Ok(false);
        };
        let chunks = bytes.div_ceil(CHUNK_BYTES as u64);
        if chunks < 2 * count {
            return Ok(false);
        }
        let (mut parser, mut batch, mut buffer) = (parser(), Batch::default(), Vec::new());
        for number in 0..count {
            let chunk = (chunks - 1) * number / (count - 1).max(1);
            batch.begin(chunk);
            if let Lines::Whole(from, to) = lines_of(file, bytes, chunk, &mut buffer)? {
                parser.block(&buffer[from..to], &mut batch);
                sink.take(&batch, chunk, &buffer[from..to])?;
            }
        }
        Ok(true)
    }

    fn read_in_order<S: Sink>(
        &mut self,
        source: &Source,
        form: &Form,
        mut parser: Box<dyn Parser>,
        mut copy: Option<&mut dyn Write>,
        sink: &mut S,
    ) -> io::Result<()> {
        let number = self.tally.sources.len() - 1;
        let (mut reader, mut batch) = (source.reader(), Batch::default());
        let mut buffer = vec![0; CHUNK_BYTES];
        let (mut filled, mut inside_long) = (0, false);
        loop {
            let count = match reader.read(&mut buffer[filled..]) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.tally.broken.push((number, error.to_string()));
                    0
                }
            };
            if let Some(copy) = copy.as_deref_mut() {
                copy.write_all(&buffer[filled..filled + count])?;
            }
            self.progress.done_bytes.fetch_add(count as u64, Relaxed);
            let ended = count == 0 || self.stopped();
            let fresh = filled;
            filled += count;
            let whole = if ended || form.binary {
                filled
            } else {
                match memchr::memrchr(b'\n', &buffer[fresh..filled]) {
                    Some(end) => fresh + end + 1,
                    None if filled >= LINE_BYTES => filled,
                    None => {
                        // A long line, or a slow pipe: more is needed.
                        if filled == buffer.len() {
                            buffer.resize(buffer.len() * 2, 0);
                        }
                        continue;
                    }
                }
            };
            batch.begin(self.chunks);
            let mut block = &buffer[..whole];
            if inside_long {
                let end = memchr::memchr(b'\n', block).map(|end| end + 1);
                inside_long = end.is_none();
                block = &block[end.unwrap_or(block.len())..];
            }
            let cut = !ended && !form.binary && !block.is_empty() && block.last() != Some(&b'\n');
            if cut {
                // What is before the long line has been taken: a cut block holds one line alone.
                batch.refuse("", "the line is longer than 1 MiB", block);
                batch.lines += 1;
                inside_long = true;
            } else if !block.is_empty() {
                parser.block(block, &mut batch);
            }
            if ended {
                parser.end(&mut batch);
            }
            self.tally.take(&batch, self.chunks);
            sink.take(&batch, self.chunks, block)?;
            self.chunks += 1;
            if ended || self.stopped() || (self.strict && self.tally.unreadable > 0) {
                return Ok(());
            }
            buffer.copy_within(whole..filled, 0);
            filled -= whole;
        }
    }

    fn read_by_threads<S: Forked>(
        &mut self,
        (file, bytes, chunks): (&File, u64, u64),
        parser: &(dyn Fn() -> Box<dyn Parser> + Sync),
        threads: usize,
        sink: &mut S,
    ) -> io::Result<()> {
        let next = AtomicU64::new(0);
        let first_chunk = self.chunks;
        let failed: Mutex<io::Result<()>> = Mutex::new(Ok(()));
        let work = |sink: &mut S| {
            let (mut parser, mut batch, mut tally) = (parser(), Batch::default(), Tally::default());
            let mut buffer = Vec::new();
            loop {
                let chunk = next.fetch_add(1, Relaxed);
                if chunk >= chunks || self.stopped() {
                    return tally;
                }
                batch.begin(first_chunk + chunk);
                let taken = lines_of(file, bytes, chunk, &mut buffer).and_then(|lines| {
                    let block = match lines {
                        Lines::Whole(from, to) => &buffer[from..to],
                        Lines::TooLong(from, line, _) => &buffer[from..line],
                        Lines::None => &[],
                    };
                    if !block.is_empty() {
                        parser.block(block, &mut batch);
                    }
                    if let Lines::TooLong(_, line, to) = lines {
                        batch.refuse("", "the line is longer than 1 MiB", &buffer[line..to]);
                        batch.lines += 1;
                    }
                    tally.take(&batch, first_chunk + chunk);
                    sink.take(&batch, first_chunk + chunk, block)
                });
                if let Err(error) = taken {
                    *failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Err(error);
                    return tally;
                }
                let span = CHUNK_BYTES as u64;
                self.progress.done_bytes.fetch_add(span.min(bytes - chunk * span), Relaxed);
                if self.strict && tally.unreadable > 0 {
                    // No chunk after this one; those before it are being read by others.
                    next.store(chunks, Relaxed);
                }
            }
        };
        let work = &work;
        let tallies = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                .map(|_| {
                    let mut own = sink.fork();
                    scope.spawn(move || {
                        let tally = work(&mut own);
                        (own, tally)
                    })
                })
                .collect();
            let mut tallies = vec![work(sink)];
            for other in others {
                match other.join() {
                    Ok((own, tally)) => {
                        sink.join(own);
                        tallies.push(tally);
                    }
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            tallies
        });
        tallies.into_iter().for_each(|tally| self.tally.merge(tally));
        failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn stopped(&self) -> bool {
        self.progress.stop.load(Relaxed)
    }
}

/// The lines of a chunk in a buffer.
enum Lines {
    /// From here to there.
    Whole(usize, usize),
    /// From the first to the second there are whole lines; then one that is too long, of which a part is there.
    TooLong(usize, usize, usize),
    /// None begins in it.
    None,
}

/// Reads the lines that begin in chunk number `chunk`: those after the first end of a line at or before its begin, to the
/// end of the line that goes beyond it.
fn lines_of(file: &File, bytes: u64, chunk: u64, buffer: &mut Vec<u8>) -> io::Result<Lines> {
    let begin = chunk * CHUNK_BYTES as u64;
    // One byte before tells whether a line begins with the chunk.
    let from = begin.saturating_sub(1);
    let end = (begin + CHUNK_BYTES as u64).min(bytes);
    let mut wanted = ((end - from) as usize + 4096).min((bytes - from) as usize);
    let mut filled = 0;
    loop {
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        while filled < wanted {
            match file.read_at(&mut buffer[filled..wanted], from + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let own = ((end - from) as usize).min(filled);
        let first = match begin {
            0 => 0,
            _ => match memchr::memchr(b'\n', &buffer[..own]) {
                Some(at) if at + 1 < own => at + 1,
                _ => return Ok(Lines::None),
            },
        };
        if own == 0 {
            return Ok(Lines::None);
        }
        // The last line that begins in the chunk ends at the first end of a line from its last byte on.
        if let Some(at) = memchr::memchr(b'\n', &buffer[own - 1..filled]) {
            return Ok(Lines::Whole(first, own + at));
        }
        if filled < wanted || from + filled as u64 >= bytes {
            return Ok(Lines::Whole(first, filled));
        }
        let last = memchr::memrchr(b'\n', &buffer[first..own - 1]).map_or(first, |at| first + at + 1);
        if filled - last >= LINE_BYTES {
            return Ok(Lines::TooLong(first, last, filled));
        }
        wanted = (wanted + (256 << 10)).min((bytes - from) as usize);
    }
}
