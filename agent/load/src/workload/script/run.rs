//! What the threads of one end of a script have in common, and what is known of the other end.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use iodyno_core::account::ScriptAccount;
use iodyno_core::job::Job;
use iodyno_core::message::ErrorCode;
use iodyno_core::script::{self, Call, Protocol, Script};
use iodyno_core::units::Nanos;
use iodyno_sys::clock;

use super::files::{self, Source};
use super::link::{Link, Word};
use super::stall::Stall;
use super::tally::Tally;
use crate::cancel::Cancel;
use crate::error::LoadError;
use crate::transport::tls::Terms;

/// How long one wait lasts, so that the end of a job is noticed.
pub(super) const SLICE: Nanos = Nanos(20_000_000);
/// chosen: how long a word may take to go out before the other end counts as gone.
const PATIENCE: Nanos = Nanos(2_000_000_000);
/// chosen: connections that may wait to be accepted under one number of a strand before the other end is told to open
/// no more, and how few there must be before it may again.
const MOST_WAITING: usize = 64;
const FEW_WAITING: usize = 16;

/// Locks, also what a thread that panicked has left behind: all of it is simple values.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A strand and what is known of the one at the other end that it works with.
#[derive(Default)]
pub(super) struct Pair {
    /// Index of its group.
    pub group: usize,
    /// Its number in the group.
    pub number: usize,
    /// One more than the last transaction that the other strand has said the end of.
    ended: AtomicU32,
    /// The iterations that it does of that.
    ended_iterations: AtomicU64,
    /// Whether to open no more connections for now.
    held: AtomicBool,
    /// What the other strand waits for, when it has for a while.
    pub stall: Mutex<Option<Stall>>,
    /// Serial number of the own stall that the other strand will not end; 0: none.
    pub nothing: AtomicU32,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Pair {
    /// Iterations that the other strand does of a transaction, once it has said so.
    #[inline]
    pub(super) fn iterations_of_other(&self, transaction: usize) -> Option<u64> {
        (self.ended.load(SeqCst) as usize > transaction).then(|| self.ended_iterations.load(SeqCst))
    }

    pub(super) fn is_held(&self) -> bool {
        self.held.load(SeqCst)
    }

    /// Has the strand look again.
    fn ring(&self) {
        drop(locked(&self.lock));
        self.bell.notify_all();
    }

    /// Sleeps a slice, or until rung; not at all where it is `done`.
    pub(super) fn wait(&self, done: impl Fn() -> bool) {
        let guard = locked(&self.lock);
        if !done() {
            drop(self.bell.wait_timeout(guard, Duration::from_nanos(SLICE.0)));
        }
    }
}

/// How far a group has come, in transactions done by all strands of an end.
#[derive(Default)]
struct Gathering {
    arrived: AtomicU64,
    own: AtomicU32,
    other: AtomicU32,
}

/// Where the other end awaits connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doors {
    pub tcp: SocketAddr,
    pub udp: SocketAddr,
    pub unix: u64,
}

/// Connections that wait to be accepted, by strand and number, in the order in which they were opened.
type Waiting = HashMap<(u32, u32), BTreeMap<u32, OwnedFd>>;

/// One end of a script while it runs.
pub(crate) struct Run {
    pub(super) script: Script,
    pub(super) token: [u8; 16],
    /// Whether this end says when the time of a transaction is over.
    pub(super) leads: bool,
    /// How long a datagram is awaited that the other end was to send.
    pub(super) answer_timeout: Nanos,
    pub(super) tally: Tally,
    /// How connections over TLS come up, where there are any.
    pub(super) tls: Option<Terms>,
    /// By group, transaction and operation; empty but for `sendfile`.
    pub(super) files: Vec<Vec<Vec<Vec<Source>>>>,
    /// By strand.
    pub(super) pairs: Vec<Pair>,
    gatherings: Vec<Gathering>,
    waiting: Mutex<Waiting>,
    /// The link, before the threads begin.
    pub(super) arrived_link: Mutex<Option<OwnedFd>>,
    link: OnceLock<Link>,
    doors: OnceLock<Doors>,
    cancel: Cancel,
    failure: OnceLock<LoadError>,
    failed: AtomicBool,
    cut: AtomicBool,
    other_cut: AtomicBool,
    other_done: AtomicBool,
    finished: AtomicU32,
    /// Whether the threads that look after the link and the doors are to end.
    pub(super) closing: AtomicBool,
    pub(super) foreign: AtomicU64,
}

impl Run {
    /// For `job`, whose script was checked.
    pub(super) fn new(job: &Job, cpus: usize, cancel: &Cancel) -> Result<Self, LoadError> {
        let script = job.script.clone().unwrap_or_default();
        let mut pairs = Vec::new();
        for (group, of_group) in script.groups.iter().enumerate() {
            pairs.extend((0..of_group.strands as usize).map(|number| Pair {
                group,
                number,
                ..Pair::default()
            }));
        }
        let mut all_files = Vec::new();
        for group in &script.groups {
            let mut of_group = Vec::new();
            for transaction in &group.transactions {
                let each = transaction.operations.iter().map(|operation| match operation.call {
                    Call::Sendfile | Call::Sendfilev => files::of(operation),
                    _ => Ok(Vec::new()),
                });
                of_group.push(each.collect::<Result<_, _>>()?);
            }
            all_files.push(of_group);
        }
        let over_tls = script.protocols().contains(&Protocol::Tls);
        let tls = over_tls.then(|| Terms::of(job)).transpose()?;
        Ok(Run {
            token: job.token_bytes().unwrap_or_default(),
            leads: script::leads(job.role),
            answer_timeout: job.answer_timeout_ns,
            tally: Tally::new(&script, cpus),
            tls,
            files: all_files,
            gatherings: script.groups.iter().map(|_| Gathering::default()).collect(),
            pairs,
            script,
            waiting: Mutex::default(),
            arrived_link: Mutex::default(),
            link: OnceLock::new(),
            doors: OnceLock::new(),
            cancel: cancel.clone(),
            failure: OnceLock::new(),
            failed: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            other_cut: AtomicBool::new(false),
            other_done: AtomicBool::new(false),
            finished: AtomicU32::new(0),
            closing: AtomicBool::new(false),
            foreign: AtomicU64::new(0),
        })
    }

    /// The two ends have met.
    pub(super) fn meet(&self, link: Link, doors: Doors) {
        let _ = self.link.set(link);
        let _ = self.doors.set(doors);
    }

    pub(super) fn link(&self) -> Option<&Link> {
        self.link.get()
    }

    pub(super) fn doors(&self) -> Option<Doors> {
        self.doors.get().copied()
    }

    /// Says a word to the other end; an end that cannot be told is gone.
    pub(super) fn say(&self, word: &Word) {
        let Some(link) = self.link.get() else { return };
        if let Err(error) = link.say(word, PATIENCE) {
            if !matches!(word, Word::Failed(_) | Word::Cut | Word::Done | Word::Beat) {
                self.fail(gone(&format!("it could not be told anything: {error}")));
            }
        }
    }

    /// What the other end said, or what its link came to.
    pub(super) fn hear(&self, word: Word) {
        match word {
            Word::Ended { strand, transaction, iterations } => {
                if let Some(pair) = self.pairs.get(strand as usize) {
                    pair.ended_iterations.store(iterations, SeqCst);
                    pair.ended.store(transaction + 1, SeqCst);
                    pair.ring();
                }
            }
            Word::Gathered { group, transaction } => {
                if let Some(gathering) = self.gatherings.get(group as usize) {
                    gathering.other.store(transaction + 1, SeqCst);
                    self.ring_group(group as usize);
                }
            }
            Word::Stalled { strand, stall } => {
                if let Some(pair) = self.pairs.get(strand as usize) {
                    *locked(&pair.stall) = Some(stall);
                }
            }
            Word::Resumed { strand } => {
                if let Some(pair) = self.pairs.get(strand as usize) {
                    *locked(&pair.stall) = None;
                }
            }
            Word::Nothing { strand, serial } => {
                if let Some(pair) = self.pairs.get(strand as usize) {
                    pair.nothing.store(serial, SeqCst);
                }
            }
            Word::Hold { strand, held } => {
                if let Some(pair) = self.pairs.get(strand as usize) {
                    pair.held.store(held, SeqCst);
                    pair.ring();
                }
            }
            Word::Cut => self.other_cut.store(true, SeqCst),
            Word::Done => self.other_done.store(true, SeqCst),
            Word::Failed(text) => self.fail_here(LoadError::new(
                ErrorCode::Transport,
                format!("the other end failed: {text}"),
                "script",
                "see what it reported",
            )),
            Word::Shape { .. } | Word::Doors { .. } | Word::Beat => {}
        }
    }

    /// The link has ended.
    pub(super) fn lose_link(&self, how: &str) {
        let expected = [&self.closing, &self.other_done, &self.other_cut, &self.cut];
        if !expected.iter().any(|flag| flag.load(SeqCst)) {
            self.fail_here(gone(how));
        }
    }

    /// Ends the script at both ends. The first failure is the one that is told.
    pub(super) fn fail(&self, error: LoadError) {
        let text = error.what.clone();
        self.fail_here(error);
        self.say(&Word::Failed(text));
    }

    fn fail_here(&self, error: LoadError) {
        // What breaks while a job is cancelled was broken on purpose.
        if !self.cancel.is_cancelled() {
            let _ = self.failure.set(error);
        }
        self.failed.store(true, SeqCst);
        self.pairs.iter().for_each(Pair::ring);
    }

    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// Why the script failed.
    pub(crate) fn failure(&self) -> Option<LoadError> {
        self.failure.get().cloned()
    }

    /// The windows are over at this end, before the script is.
    pub(super) fn cut(&self) {
        if !self.cut.swap(true, SeqCst) {
            self.say(&Word::Cut);
        }
    }

    /// Whether the windows are over at one end: what breaks now is no failure.
    pub(super) fn is_cut(&self) -> bool {
        self.cut.load(SeqCst) || self.other_cut.load(SeqCst)
    }

    /// A strand is done with its script, or has given it up.
    pub(super) fn finish(&self) {
        if self.finished.fetch_add(1, SeqCst) + 1 == self.pairs.len() as u32 {
            self.say(&Word::Done);
        }
    }

    /// A strand has come to the end of a transaction, from 0.
    pub(super) fn arrive(&self, group: usize, transaction: usize) {
        let gathering = &self.gatherings[group];
        let arrived = gathering.arrived.fetch_add(1, SeqCst) + 1;
        let strands = u64::from(self.script.groups[group].strands);
        if arrived == strands * (transaction as u64 + 1) {
            gathering.own.store(transaction as u32 + 1, SeqCst);
            self.say(&Word::Gathered { group: group as u32, transaction: transaction as u32 });
            self.ring_group(group);
        }
    }

    /// Whether all strands of a group have come to the end of a transaction, at both ends.
    pub(super) fn is_gathered(&self, group: usize, transaction: usize) -> bool {
        let gathering = &self.gatherings[group];
        let all = |end: &AtomicU32| end.load(SeqCst) as usize > transaction;
        all(&gathering.own) && all(&gathering.other)
    }

    fn ring_group(&self, group: usize) {
        self.pairs.iter().filter(|pair| pair.group == group).for_each(Pair::ring);
    }

    /// Puts a connection that was opened where its strand finds it.
    pub(super) fn deliver(&self, strand: u32, connection: u32, serial: u32, socket: OwnedFd) {
        let Some(pair) = self.pairs.get(strand as usize) else { return };
        let waiting = {
            let mut all = locked(&self.waiting);
            let queue = all.entry((strand, connection)).or_default();
            queue.insert(serial, socket);
            queue.len()
        };
        if waiting == MOST_WAITING {
            self.say(&Word::Hold { strand, held: true });
        }
        pair.ring();
    }

    /// Takes the connection that was opened first.
    pub(super) fn take(&self, strand: u32, connection: u32) -> Option<OwnedFd> {
        let (taken, left) = {
            let mut all = locked(&self.waiting);
            let queue = all.get_mut(&(strand, connection))?;
            (queue.pop_first()?.1, queue.len())
        };
        if left == FEW_WAITING {
            self.say(&Word::Hold { strand, held: false });
        }
        Some(taken)
    }

    /// Whether there is one to take.
    pub(super) fn has_waiting(&self, strand: u32, connection: u32) -> bool {
        locked(&self.waiting).get(&(strand, connection)).is_some_and(|queue| !queue.is_empty())
    }

    /// What was done so far.
    pub(crate) fn account(&self) -> ScriptAccount {
        ScriptAccount {
            complete: self.failure.get().is_none() && self.tally.is_complete(&self.script),
            foreign_refused: self.foreign.load(Relaxed),
            groups: self.tally.account(&self.script),
        }
    }

    /// Waits until the other end explains what broke, for a moment: its word and the data's end may come in
    /// any order. Whether what broke needs no report of its own.
    pub(super) fn is_explained(&self) -> bool {
        let until = clock::monotonic().plus(Nanos(200_000_000));
        while clock::monotonic() < until {
            if self.is_cut() || self.has_failed() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }
}

fn gone(how: &str) -> LoadError {
    LoadError::new(
        ErrorCode::Transport,
        format!("the other end is gone: {how}"),
        "script",
        "see what the other host reported, and whether it can be reached",
    )
}
