//! Writes that a thread begins and waits for later: by `io_uring`, which has all of them in flight at a time. Where a host does
//! not allow that, threads of the agent carry them out, as those of the C library do for POSIX AIO; the thread itself is not
//! held up by them.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use iodyno_sys::buffer::SendSource;
use iodyno_sys::lock::locked;
use iodyno_sys::stream_ring;
use iodyno_sys::write_ring::WriteRing;

/// chosen: writes that a thread of a program has in flight at a time at most. Shipped personalities begin ten.
const MOST: u32 = 256;
/// chosen: the same where threads carry them out.
const WORKERS: usize = 4;
/// chosen: writes that may wait to be begun before another one waits for room.
const MOST_QUEUED: usize = 4_096;
const STACK_BYTES: usize = 64 << 10;

struct Write {
    file: Arc<File>,
    offset: u64,
    length: usize,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Write>,
    /// Waiting and in flight.
    unfinished: usize,
    failure: Option<io::Error>,
    closed: bool,
}

#[derive(Default)]
struct Desk {
    queue: Mutex<Queue>,
    work: Condvar,
    done: Condvar,
}

/// The writes of one thread.
pub(super) enum Aio {
    Ring(Box<WriteRing>),
    Threads(Threads),
}

/// How they are carried out on this host, for who reads the account.
pub(super) fn told() -> String {
    match stream_ring::available() {
        Ok(()) => {
            format!("aiowrite goes through io_uring: up to {MOST} writes of a thread are in flight at a time")
        }
        Err(why) => {
            format!("aiowrite is carried out by {WORKERS} further threads for each thread that has it: {why}")
        }
    }
}

impl Aio {
    /// For writes of up to `longest` bytes; longer ones are made of several.
    pub(super) fn new(longest: usize) -> io::Result<Self> {
        match stream_ring::available() {
            Ok(()) => WriteRing::new(MOST, longest).map(|ring| Aio::Ring(Box::new(ring))),
            Err(_) => Threads::new(longest).map(Aio::Threads),
        }
    }

    /// Begins to write.
    ///
    /// # Errors
    /// Why it could not be handed over.
    pub(super) fn begin(&mut self, file: &Arc<File>, offset: u64, length: usize) -> io::Result<()> {
        match self {
            Aio::Ring(ring) => ring.begin(file, offset, length),
            Aio::Threads(threads) => {
                threads.begin(file, offset, length);
                Ok(())
            }
        }
    }

    /// Waits until all that was begun is done.
    ///
    /// # Errors
    /// Why the first of them failed.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        match self {
            Aio::Ring(ring) => ring.wait(),
            Aio::Threads(threads) => threads.wait(),
        }
    }
}

/// Writes that threads carry out.
pub(super) struct Threads {
    desk: Arc<Desk>,
    workers: Vec<JoinHandle<()>>,
    longest: usize,
}

impl Threads {
    fn new(longest: usize) -> io::Result<Self> {
        let mut aio = Threads { desk: Arc::default(), workers: Vec::new(), longest: longest.max(1) };
        let source = Arc::new(SendSource::new(aio.longest)?);
        for _ in 0..WORKERS {
            let (desk, source) = (Arc::clone(&aio.desk), Arc::clone(&source));
            let builder = std::thread::Builder::new().name("aio".to_owned()).stack_size(STACK_BYTES);
            aio.workers.push(builder.spawn(move || work(&desk, &source))?);
        }
        Ok(aio)
    }

    fn begin(&self, file: &Arc<File>, offset: u64, length: usize) {
        let mut begun = 0;
        while begun < length {
            let piece = (length - begun).min(self.longest);
            let mut queue = locked(&self.desk.queue);
            while queue.waiting.len() >= MOST_QUEUED {
                queue = self.desk.done.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.waiting.push_back(Write {
                file: Arc::clone(file),
                offset: offset + begun as u64,
                length: piece,
            });
            queue.unfinished += 1;
            drop(queue);
            self.desk.work.notify_one();
            begun += piece;
        }
    }

    fn wait(&self) -> io::Result<()> {
        let mut queue = locked(&self.desk.queue);
        while queue.unfinished > 0 {
            queue = self.desk.done.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.failure.take().map_or(Ok(()), Err)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        {
            let mut queue = locked(&self.desk.queue);
            queue.closed = true;
            // The program is over: what was not begun stays so.
            queue.waiting.clear();
        }
        self.desk.work.notify_all();
        self.workers.drain(..).for_each(|worker| drop(worker.join()));
    }
}

fn work(desk: &Desk, source: &SendSource) {
    let mut queue = locked(&desk.queue);
    loop {
        if let Some(write) = queue.waiting.pop_front() {
            drop(queue);
            let outcome = write.file.write_all_at(&source.bytes()[..write.length], write.offset);
            drop(write);
            queue = locked(&desk.queue);
            queue.unfinished = queue.unfinished.saturating_sub(1);
            if let Err(error) = outcome {
                queue.failure.get_or_insert(error);
            }
            desk.done.notify_all();
        } else if queue.closed {
            return;
        } else {
            queue = desk.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_write_what_was_begun_and_tell_the_first_failure() {
        let path = std::env::temp_dir().join(format!("iodyno-aio-{}", std::process::id()));
        let file = File::options().write(true).create(true).truncate(true).open(&path).unwrap();
        let file = Arc::new(file);
        let threads = Threads::new(4096).unwrap();
        (0..40).for_each(|number| threads.begin(&file, number * 10_000, 10_000));
        threads.wait().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 400_000);
        std::fs::remove_file(&path).unwrap();
        threads.begin(&Arc::new(File::open("/dev/null").unwrap()), 0, 4096);
        threads.wait().unwrap_err();
    }
}
