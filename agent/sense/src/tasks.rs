//! The threads of a process that is read again and again: what is open of each stays open.

use std::collections::btree_map::{BTreeMap, Entry};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Threads of a process by their ids, each with what a sensor keeps of it.
///
/// The list is read again only where it may be another one: the kernel tells how many threads there are as links of the
/// directory that holds them, and a file of a thread that has ended cannot be read. So one that came while another went is
/// noticed too.
pub(crate) struct Tasks<T> {
    directory: PathBuf,
    listing: File,
    /// Links of the directory when it was listed.
    links: u64,
    /// Whether some of those that were listed have ended since.
    ended: bool,
    threads: BTreeMap<u32, T>,
}

/// Links that the directory has beside those of threads: all that are left of a process that has ended.
const OWN_LINKS: u64 = 2;

impl<T> Tasks<T> {
    /// Of the process with that directory; nothing is listed yet.
    pub fn open(process: &Path) -> io::Result<Self> {
        let directory = process.join("task");
        let listing = File::open(&directory)?;
        Ok(Tasks { directory, listing, links: 0, ended: false, threads: BTreeMap::new() })
    }

    /// Hands every known thread to `look`, and forgets those that it says have ended.
    pub fn retain(&mut self, mut look: impl FnMut(&mut T) -> bool) {
        let before = self.threads.len();
        self.threads.retain(|_, thread| look(thread));
        self.ended |= self.threads.len() != before;
    }

    /// Has `make` say, by its directory, what is to be kept of each thread that is not known, if anything. False: the process
    /// has ended.
    pub fn add_new(&mut self, mut make: impl FnMut(&Path) -> Option<T>) -> bool {
        let links = self.listing.metadata().map_or(0, |found| found.nlink());
        if links != self.links || self.ended {
            let Ok(found) = fs::read_dir(&self.directory) else { return false };
            self.links = links;
            self.ended = false;
            for id in found.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok()) {
                if let Entry::Vacant(place) = self.threads.entry(id) {
                    if let Some(thread) = make(&self.directory.join(id.to_string())) {
                        place.insert(thread);
                    }
                }
            }
        }
        links != OWN_LINKS
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.threads.len()
    }

    /// How many there were that nothing is kept of.
    pub fn left_out(&self) -> usize {
        (self.links.saturating_sub(OWN_LINKS) as usize).saturating_sub(self.threads.len())
    }

    /// What is kept of each, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.threads.values()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::source;

    /// Ids of the known threads after a reading, and how many were new in it.
    fn reading(tasks: &mut Tasks<(u32, File)>) -> (Vec<u32>, usize) {
        let mut new = 0;
        tasks.retain(|(_, file)| source::short(file, &mut [0; 64]).is_ok());
        assert!(tasks.add_new(|directory| {
            new += 1;
            let id = directory.file_name()?.to_str()?.parse().ok()?;
            Some((id, File::open(directory.join("schedstat")).ok()?))
        }));
        (tasks.iter().map(|(id, _)| *id).collect(), new)
    }

    #[test]
    fn what_is_known_is_not_listed_again_and_the_end_of_the_process_is_told() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut tasks = Tasks::open(&PathBuf::from(format!("/proc/{}", child.id()))).unwrap();
        assert_eq!(reading(&mut tasks), (vec![child.id()], 1));
        assert_eq!(reading(&mut tasks), (vec![child.id()], 0));
        assert_eq!((tasks.len(), tasks.left_out()), (1, 0));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!tasks.add_new(|_| None));
    }

    #[test]
    fn a_thread_that_came_while_another_went_is_noticed() {
        // Sleeps until told to end; gives its id first.
        let sleeper = || {
            let ((tell, told), (end, ends)) = (mpsc::channel(), mpsc::channel::<()>());
            let thread = thread::spawn(move || {
                let link = std::fs::read_link("/proc/thread-self").unwrap();
                tell.send(link.file_name().unwrap().to_str().unwrap().parse::<u32>().unwrap()).unwrap();
                ends.recv().unwrap_or_default();
            });
            (told.recv().unwrap(), end, thread)
        };
        let mut tasks = Tasks::open(Path::new("/proc/self")).unwrap();
        let (first, end, thread) = sleeper();
        assert!(reading(&mut tasks).0.contains(&first));
        drop(end);
        thread.join().unwrap();
        let (second, end, thread) = sleeper();
        // Whoever has waited for a thread may be quicker than the kernel, which takes it off its lists.
        while tasks.iter().any(|(id, _)| *id == first) {
            reading(&mut tasks);
        }
        assert!(reading(&mut tasks).0.contains(&second));
        drop(end);
        thread.join().unwrap();
    }
}
