//! Writes that a thread begins and waits for later. Threads of the agent carry them out, as those of the C library do for
//! POSIX AIO; the thread itself is not held up by them.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use iodyno_sys::buffer::SendSource;

/// chosen: writes that a thread of a program has under way at a time at most.
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
    /// Waiting and under way.
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
pub(super) struct Aio {
    desk: Arc<Desk>,
    workers: Vec<JoinHandle<()>>,
    longest: usize,
}

impl Aio {
    /// For writes of up to `longest` bytes; longer ones are made of several.
    pub(super) fn new(longest: usize) -> io::Result<Self> {
        let mut aio = Aio { desk: Arc::default(), workers: Vec::new(), longest: longest.max(1) };
        let source = Arc::new(SendSource::new(aio.longest)?);
        for _ in 0..WORKERS {
            let (desk, source) = (Arc::clone(&aio.desk), Arc::clone(&source));
            let builder = std::thread::Builder::new().name("aio".to_owned()).stack_size(STACK_BYTES);
            aio.workers.push(builder.spawn(move || work(&desk, &source))?);
        }
        Ok(aio)
    }

    /// Begins to write.
    pub(super) fn begin(&self, file: &Arc<File>, offset: u64, length: usize) {
        let mut begun = 0;
        while begun < length {
            let piece = (length - begun).min(self.longest);
            let mut queue = self.desk.queue.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Waits until all that was begun is done.
    ///
    /// # Errors
    /// Why the first of them failed.
    pub(super) fn wait(&self) -> io::Result<()> {
        let mut queue = self.desk.queue.lock().unwrap_or_else(PoisonError::into_inner);
        while queue.unfinished > 0 {
            queue = self.desk.done.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.failure.take().map_or(Ok(()), Err)
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        {
            let mut queue = self.desk.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.closed = true;
            // The program is over: what was not begun stays so.
            queue.waiting.clear();
        }
        self.desk.work.notify_all();
        self.workers.drain(..).for_each(|worker| drop(worker.join()));
    }
}

fn work(desk: &Desk, source: &SendSource) {
    let mut queue = desk.queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(write) = queue.waiting.pop_front() {
            drop(queue);
            let outcome = write.file.write_all_at(&source.bytes()[..write.length], write.offset);
            drop(write);
            queue = desk.queue.lock().unwrap_or_else(PoisonError::into_inner);
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
