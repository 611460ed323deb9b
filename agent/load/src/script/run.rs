//! What the threads of one end of a script have in common, and what is known of the other ends.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use iodyno_core::account::ScriptAccount;
use iodyno_core::job::Job;
use iodyno_core::message::ErrorCode;
use iodyno_core::network::{Role, TlsCipher};
use iodyno_core::script::{self, Call, Protocol, Script};
use iodyno_core::scripted::Scripted;
use iodyno_core::units::Nanos;
use iodyno_sys::lock::locked;
use iodyno_sys::open_sockets::OpenSockets;
use iodyno_sys::{clock, errno};

use super::files::{self, Source};
use super::link::{Link, Message, SILENCE};
use super::numbers::Course;
use super::pair::Pair;
use super::tally::Tally;
use crate::cancel::Cancel;
use crate::error::LoadError;
use crate::joining::LONGEST_CALL_BYTES;
use crate::transport::tls::Terms;

/// How long one wait lasts at first, so that the end of a job is noticed.
pub(super) const SLICE: Nanos = Nanos(20_000_000);
/// chosen: how long one lasts at most, of a thread that has waited for long ([`WorkerThread::slice`](super::worker_thread::Thread)).
pub(super) const LONGEST_SLICE: Nanos = Nanos(250_000_000);
/// chosen: connections that may wait to be accepted under one number of a thread before the other end is told to open
/// no more, and how few there must be before it may again.
const MOST_WAITING: usize = 64;
const FEW_WAITING: usize = 16;

/// chosen: a datagram may take this many round trips of an idle path before it counts as lost: a queue of several round
/// trips is no loss, and what has no room for a number would be taken for the next one.
const ROUND_TRIPS: u64 = 10;

/// How far a group has come, in transactions done by all threads of an end.
struct Gathering {
    arrived: AtomicU64,
    own: AtomicU32,
    /// By remote.
    others: Vec<AtomicU32>,
}

/// Another end of the script: one, or several where this one is the sender.
#[derive(Default)]
struct End {
    link: OnceLock<Link>,
    addresses: OnceLock<Addresses>,
    cut: AtomicBool,
    done: AtomicBool,
}

/// Where the other end awaits connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub tcp: SocketAddr,
    pub udp: SocketAddr,
    pub unix: u64,
    pub vsock: u16,
    pub sctp: SocketAddr,
}

/// Connections that wait to be accepted, by thread and number, in the order in which they were opened.
type Waiting = HashMap<(u32, u32), BTreeMap<u32, OwnedFd>>;

/// One end of a script while it runs.
pub(crate) struct Run {
    pub(super) script: Script,
    pub(super) token: [u8; 16],
    /// Whether this end says when the time of a transaction is over.
    pub(super) leads: bool,
    /// How long a datagram is awaited at least that another end was to send ([`Run::patience`]).
    response_timeout: Nanos,
    pub(super) tally: Tally,
    /// How connections over TLS come up, where there are any.
    pub(super) tls: Option<Terms>,
    /// By group, transaction and operation; empty but for `sendfile`.
    pub(super) files: Vec<Vec<Vec<Vec<Source>>>>,
    /// By group, transaction and operation.
    pub(super) courses: Vec<Vec<Vec<Course>>>,
    /// By thread.
    pub(super) pairs: Vec<Pair>,
    gatherings: Vec<Gathering>,
    waiting: Mutex<Waiting>,
    /// For which of them the other end was told to hold, by whoever was last to say so.
    held: Mutex<HashSet<(u32, u32)>>,
    /// The link, before the threads begin.
    pub(super) arrived_link: Mutex<Option<OwnedFd>>,
    ends: Vec<End>,
    cancel: Cancel,
    failure: OnceLock<LoadError>,
    failed: AtomicBool,
    cut: AtomicBool,
    finished: AtomicU32,
    /// Whether the threads of the links and the acceptor are to end.
    pub(super) closing: AtomicBool,
    pub(super) foreign: AtomicU64,
    /// Connections over TCP that are open.
    pub opened: Arc<OpenSockets>,
}

impl Run {
    /// For `job`, whose script was checked.
    pub(super) fn new(job: &Job<Scripted>, cpus: usize, cancel: &Cancel) -> Result<Self, LoadError> {
        let script = job.load.script.clone();
        let remotes = 1 + job.load.remote_addresses.len();
        let mut pairs = Vec::new();
        for (group, of_group) in script.groups.iter().enumerate() {
            pairs.extend((0..of_group.threads as usize).map(|number| Pair::new(group, number, remotes)));
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
        let courses_of = |group: &script::Group| group.transactions.iter().map(Course::of).collect();
        let token = job.token_bytes().unwrap_or_default();
        let over_tls = script.protocols().contains(&Protocol::Tls);
        let tls = over_tls
            .then(|| Terms::new(token, TlsCipher::default(), false, job.load.role, LONGEST_CALL_BYTES));
        Ok(Run {
            token,
            leads: job.load.role == Role::Send,
            response_timeout: job.load.response_timeout_ns,
            tally: Tally::new(&script, cpus),
            tls: tls.transpose()?,
            files: all_files,
            courses: script.groups.iter().map(courses_of).collect(),
            gatherings: script
                .groups
                .iter()
                .map(|_| Gathering {
                    arrived: AtomicU64::new(0),
                    own: AtomicU32::new(0),
                    others: (0..remotes).map(|_| AtomicU32::new(0)).collect(),
                })
                .collect(),
            pairs,
            script,
            waiting: Mutex::default(),
            held: Mutex::default(),
            arrived_link: Mutex::default(),
            ends: (0..remotes).map(|_| End::default()).collect(),
            cancel: cancel.clone(),
            failure: OnceLock::new(),
            failed: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            finished: AtomicU32::new(0),
            closing: AtomicBool::new(false),
            foreign: AtomicU64::new(0),
            opened: Arc::default(),
        })
    }

    /// How many other ends there are.
    pub(super) fn remotes(&self) -> usize {
        self.ends.len()
    }

    /// Keeps what the rendezvous with another end gave.
    pub(super) fn add_end(&self, remote: usize, link: Link, addresses: Addresses) {
        let end = &self.ends[remote];
        let _ = end.link.set(link);
        let _ = end.addresses.set(addresses);
    }

    pub(super) fn link(&self, remote: usize) -> Option<&Link> {
        self.ends.get(remote)?.link.get()
    }

    pub(super) fn addresses(&self, remote: usize) -> Option<Addresses> {
        self.ends.get(remote)?.addresses.get().copied()
    }

    /// How long a datagram is awaited that another end was to send. The link knows the path's round trip at either end,
    /// and of what was sent again; a greeting only at the end that opens, and which of several was answered it does not.
    pub(super) fn patience(&self, remote: usize) -> Nanos {
        let round_trip = self.link(remote).map_or(Nanos(0), Link::round_trip);
        self.response_timeout.max(Nanos(round_trip.0.saturating_mul(ROUND_TRIPS)))
    }

    /// For an error: another end, by its address where there are several.
    pub(super) fn named(&self, remote: usize) -> String {
        match self.addresses(remote) {
            Some(addresses) if self.ends.len() > 1 => format!("the end at {}", addresses.tcp.ip()),
            _ => "the other end".to_owned(),
        }
    }

    /// Sends a message to every other end.
    pub(super) fn send(&self, message: &Message) {
        (0..self.ends.len()).for_each(|remote| self.send_to(remote, message));
    }

    /// Sends a message to another end; an end that takes none for long is gone. That a link has ended is told by who reads
    /// it: only there is it known whether the other end was done.
    pub(super) fn send_to(&self, remote: usize, message: &Message) {
        let Some(link) = self.link(remote) else { return };
        if let Err(error) = link.send(message, SILENCE) {
            let ended = matches!(error.raw_os_error(), Some(errno::EPIPE | errno::ECONNRESET));
            if !ended && !matches!(message, Message::Failed(_) | Message::Cut | Message::Done) {
                self.fail(self.gone(remote, &format!("it could not be told anything: {error}")));
            }
        }
    }

    /// Takes a message of another end.
    pub(super) fn receive(&self, remote: usize, message: Message) {
        let pair = |thread: u32| self.pairs.get(thread as usize);
        let other = |thread: u32| pair(thread).and_then(|pair| pair.others.get(remote));
        match message {
            Message::Ended { thread, transaction, iterations } => {
                if let Some(pair) = pair(thread) {
                    pair.end(remote, transaction, iterations);
                }
            }
            Message::Gathered { group, transaction } => {
                if let Some(gathering) = self.gatherings.get(group as usize) {
                    gathering.others[remote].store(transaction + 1, SeqCst);
                    self.ring_group(group as usize);
                }
            }
            Message::Stalled { thread, stall } => {
                if let Some(other) = other(thread) {
                    *locked(&other.stall) = Some(stall);
                }
            }
            Message::Resumed { thread } => {
                if let Some(other) = other(thread) {
                    *locked(&other.stall) = None;
                }
            }
            Message::Nothing { thread, judgement } => {
                if let Some(other) = other(thread) {
                    *locked(&other.judgement) = judgement;
                }
            }
            Message::Hold { thread, held } => {
                if let Some(pair) = pair(thread) {
                    pair.hold(remote, held);
                }
            }
            Message::Sent { thread, transaction, connection, datagrams } => {
                if let Some(other) = other(thread) {
                    other.has_sent(transaction, connection, datagrams);
                }
            }
            Message::Cut => self.ends[remote].cut.store(true, SeqCst),
            Message::Done => self.ends[remote].done.store(true, SeqCst),
            Message::Failed(text) => {
                // The other ends know only this one.
                for each in (0..self.ends.len()).filter(|each| *each != remote) {
                    self.send_to(each, &Message::Failed(text.clone()));
                }
                self.fail_here(LoadError::new(
                    ErrorCode::Transport,
                    format!("{} failed: {text}", self.named(remote)),
                    "script",
                    "see what it reported",
                ));
            }
            Message::Shape { .. } | Message::Addresses { .. } | Message::Beat => {}
        }
    }

    /// The link to another end has ended.
    pub(super) fn lose_link(&self, remote: usize, how: &str) {
        let end = &self.ends[remote];
        let expected = [&self.closing, &end.done, &end.cut, &self.cut];
        if !expected.iter().any(|flag| flag.load(SeqCst)) {
            self.tell_loss(remote, self.gone(remote, how));
        }
    }

    /// What ends with one link ends with all: the others cannot know.
    fn tell_loss(&self, remote: usize, error: LoadError) {
        for each in (0..self.ends.len()).filter(|each| *each != remote) {
            self.send_to(each, &Message::Failed(error.what.clone()));
        }
        self.fail_here(error);
    }

    fn gone(&self, remote: usize, how: &str) -> LoadError {
        LoadError::new(
            ErrorCode::Transport,
            format!("{} is gone: {how}", self.named(remote)),
            "script",
            "see what the other host reported, and whether it can be reached",
        )
    }

    /// Ends the script at all ends. The first failure is the one that is told.
    pub(super) fn fail(&self, error: LoadError) {
        let text = error.what.clone();
        self.fail_here(error);
        self.send(&Message::Failed(text));
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
            self.send(&Message::Cut);
        }
    }

    /// Whether the windows are over at one end: what breaks now is no failure.
    pub(super) fn is_cut(&self) -> bool {
        self.cut.load(SeqCst) || self.ends.iter().any(|end| end.cut.load(SeqCst))
    }

    /// A thread is done with its script, or has given it up.
    pub(super) fn finish(&self) {
        if self.finished.fetch_add(1, SeqCst) + 1 == self.pairs.len() as u32 {
            self.send(&Message::Done);
        }
    }

    /// A thread has come to the end of a transaction, from 0.
    pub(super) fn arrive(&self, group: usize, transaction: usize) {
        let gathering = &self.gatherings[group];
        let arrived = gathering.arrived.fetch_add(1, SeqCst) + 1;
        let threads = u64::from(self.script.groups[group].threads);
        if arrived == threads * (transaction as u64 + 1) {
            gathering.own.store(transaction as u32 + 1, SeqCst);
            self.send(&Message::Gathered { group: group as u32, transaction: transaction as u32 });
            self.ring_group(group);
        }
    }

    /// Whether all threads of a group have come to the end of a transaction, at both ends.
    pub(super) fn is_gathered(&self, group: usize, transaction: usize) -> bool {
        let gathering = &self.gatherings[group];
        let all = |end: &AtomicU32| end.load(SeqCst) as usize > transaction;
        all(&gathering.own) && gathering.others.iter().all(all)
    }

    fn ring_group(&self, group: usize) {
        self.pairs.iter().filter(|pair| pair.group == group).for_each(Pair::ring);
    }

    /// Puts a connection that was opened where its thread finds it.
    pub(super) fn deliver(&self, thread: u32, connection: u32, serial: u32, socket: OwnedFd) {
        let Some(pair) = self.pairs.get(thread as usize) else { return };
        let waiting = {
            let mut all = locked(&self.waiting);
            let queue = all.entry((thread, connection)).or_default();
            queue.insert(serial, socket);
            queue.len()
        };
        if waiting == MOST_WAITING {
            self.tell_opener(thread, connection);
        }
        pair.ring();
    }

    /// Takes the connection that was opened first.
    pub(super) fn take(&self, thread: u32, connection: u32) -> Option<OwnedFd> {
        let (taken, left) = {
            let mut all = locked(&self.waiting);
            let queue = all.get_mut(&(thread, connection))?;
            (queue.pop_first()?.1, queue.len())
        };
        if left == FEW_WAITING {
            self.tell_opener(thread, connection);
        }
        Some(taken)
    }

    /// Says to the other end whether to hold, where that has changed. Who puts connections down and who takes them are two
    /// threads: each says what holds when it has its turn, so that the last message is the right one.
    fn tell_opener(&self, thread: u32, connection: u32) {
        let mut all = locked(&self.held);
        let key = (thread, connection);
        let waiting = locked(&self.waiting).get(&key).map_or(0, BTreeMap::len);
        let held = match all.contains(&key) {
            true => waiting > FEW_WAITING,
            false => waiting >= MOST_WAITING,
        };
        let changed = if held { all.insert(key) } else { all.remove(&key) };
        if changed {
            let group = self.pairs[thread as usize].group;
            self.send_to(self.opener(group, connection), &Message::Hold { thread, held });
        }
    }

    /// The other end that opens connections of this number to the threads of a group.
    fn opener(&self, group: usize, connection: u32) -> usize {
        let mut operations = self.script.groups[group].transactions.iter().flat_map(|each| &each.operations);
        let taken = operations.find(|each| each.call == Call::Accept && each.connection == connection);
        taken.map_or(0, |operation| operation.remote as usize)
    }

    /// Whether there is one to take.
    pub(super) fn has_waiting(&self, thread: u32, connection: u32) -> bool {
        locked(&self.waiting).get(&(thread, connection)).is_some_and(|queue| !queue.is_empty())
    }

    /// What was done so far.
    pub(crate) fn account(&self) -> ScriptAccount {
        ScriptAccount {
            complete: self.failure.get().is_none() && self.tally.is_complete(&self.script),
            foreign_refused: self.foreign.load(Relaxed),
            groups: self.tally.account(&self.script),
        }
    }

    /// Waits until the other end explains what broke, for a moment: its message and the data's end may come in
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
