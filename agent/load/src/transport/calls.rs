//! A stream socket whose bytes are moved by the calls that the job names, where these are not `send` and `recv`.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use iodyno_core::network::{Engine, Network, Syscalls};
use iodyno_core::units::Nanos;
use iodyno_sys::buffer::{ReceiveScratch, SendSource};
use iodyno_sys::socket::{self, Direction};
use iodyno_sys::{errno, stream_calls};

use super::Link;
use crate::connections::Connections;
use crate::joining::LONGEST_CALL_BYTES;
use crate::worker::rare::RareEvents;

/// chosen: sends without a copy between two looks for their completions. The kernel joins completions that follow
/// each other into one, so that rare looks cost little; it holds some 20 KB for them at least (`optmem_max`), which
/// is hundreds.
const SENDS_PER_LOOK: u32 = 16;
/// chosen: how long a thread that may send no more waits for a completion before it tries again.
const COMPLETION_WAIT: Nanos = Nanos(20_000_000);

/// What the calls of a job need besides its sockets: made once, before its threads.
#[derive(Default)]
pub(crate) struct Means {
    /// The bytes to send as a file.
    file: Option<OwnedFd>,
    /// One a connection: reading and writing end.
    pipes: Vec<(OwnedFd, OwnedFd)>,
}

impl Means {
    /// For a load that sends from `source` on `sockets`.
    pub(crate) fn of(load: &Network, sockets: &[OwnedFd], source: &SendSource) -> io::Result<Self> {
        let mut means = Means::default();
        if !load.writes_stream() {
            return Ok(means);
        }
        let from_file = matches!(load.syscalls, Syscalls::Sendfile | Syscalls::Splice);
        if from_file && !sockets.is_empty() {
            means.file = Some(stream_calls::file_of(source)?);
        }
        for socket in sockets {
            match load.syscalls {
                Syscalls::ZeroCopy if load.engine != Engine::IoUring => {
                    stream_calls::allow_zero_copy(socket.as_fd())?;
                }
                Syscalls::Splice => means.pipes.push(stream_calls::pipe(LONGEST_CALL_BYTES as usize)?),
                _ => {}
            }
        }
        Ok(means)
    }

    /// All of them.
    pub(crate) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let pipes = self.pipes.iter().flat_map(|(reading, writing)| [reading, writing]);
        self.file.iter().chain(pipes).map(AsFd::as_fd)
    }
}

/// By which call bytes leave.
enum Sending<'a> {
    Plain,
    Message,
    ZeroCopy { source: &'a SendSource, since_look: Cell<u32>, rare: &'a RareEvents },
    File(BorrowedFd<'a>),
    Splice { file: BorrowedFd<'a>, reading: BorrowedFd<'a>, writing: BorrowedFd<'a>, held: Cell<usize> },
}

/// A connected socket, blocking or not, with the job's choice of calls.
pub(crate) struct Calls<'a> {
    socket: BorrowedFd<'a>,
    sending: Sending<'a>,
    by_message: bool,
    discards: bool,
    more: bool,
    blocks: bool,
}

impl<'a> Calls<'a> {
    /// One connection of a job.
    pub(crate) fn of(shared: &'a Connections, connection: usize) -> Self {
        let (job, means) = (&shared.job, &shared.means);
        let stream = job.load.stream();
        let sending = match (job.load.syscalls, &means.file, means.pipes.get(connection)) {
            (Syscalls::Message, ..) => Sending::Message,
            (Syscalls::ZeroCopy, ..) => Sending::ZeroCopy {
                source: &shared.source,
                since_look: Cell::new(0),
                rare: &shared.counters.rare,
            },
            (Syscalls::Sendfile, Some(file), _) => Sending::File(file.as_fd()),
            (Syscalls::Splice, Some(file), Some((reading, writing))) => Sending::Splice {
                file: file.as_fd(),
                reading: reading.as_fd(),
                writing: writing.as_fd(),
                held: Cell::new(0),
            },
            _ => Sending::Plain,
        };
        Calls {
            socket: shared.sockets[connection].as_fd(),
            sending,
            by_message: job.load.syscalls == Syscalls::Message,
            discards: stream.is_some_and(|stream| stream.discards),
            more: stream.is_some_and(|stream| stream.cork),
            blocks: matches!(job.load.engine, Engine::Threads | Engine::RoundRobin),
        }
    }

    /// Files that a connection takes with this syscalls, besides its socket.
    pub(crate) fn descriptors(syscalls: Syscalls) -> u64 {
        if syscalls == Syscalls::Splice {
            2
        } else {
            0
        }
    }

    /// Reads what the kernel said of sends without a copy.
    fn look(&self, rare: &RareEvents) -> io::Result<bool> {
        let found = stream_calls::completions(self.socket)?;
        rare.zero_copy(found);
        Ok(found.completed > 0)
    }
}

impl Link for Calls<'_> {
    #[inline]
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.sending {
            Sending::Plain if self.more => socket::send_more(self.socket, bytes),
            Sending::Plain => socket::send(self.socket, bytes),
            Sending::Message => stream_calls::send_message(self.socket, bytes, self.more),
            Sending::ZeroCopy { source, since_look, rare } => {
                since_look.set(since_look.get() + 1);
                if since_look.get() >= SENDS_PER_LOOK {
                    since_look.set(0);
                    self.look(rare)?;
                }
                match stream_calls::send_zero_copy(self.socket, source, bytes.len(), self.more) {
                    // An error is reported to who waits for writability, too: completions must not stay.
                    Err(error) if error.raw_os_error() == Some(errno::EAGAIN) => {
                        self.look(rare)?;
                        Err(error)
                    }
                    Err(error) if error.raw_os_error() == Some(errno::ENOBUFS) => {
                        if !self.look(rare)? && self.blocks {
                            stream_calls::wait_for_completion(self.socket, COMPLETION_WAIT)?;
                        }
                        Err(io::Error::from_raw_os_error(errno::EAGAIN))
                    }
                    outcome => outcome,
                }
            }
            Sending::File(file) => stream_calls::send_file(self.socket, *file, 0, bytes.len()),
            Sending::Splice { file, reading, writing, held } => {
                if held.get() == 0 {
                    held.set(stream_calls::splice_in(*file, *writing, bytes.len())?);
                }
                let moved = stream_calls::splice_out(*reading, self.socket, held.get(), self.more)?;
                held.set(held.get() - moved);
                Ok(moved)
            }
        }
    }

    #[inline]
    fn receive(&self, scratch: &ReceiveScratch) -> io::Result<usize> {
        if self.discards {
            return socket::discard(self.socket, scratch);
        }
        if self.by_message {
            return stream_calls::receive_message(self.socket, scratch);
        }
        socket::receive(self.socket, scratch)
    }

    #[inline]
    fn tend(&self) -> bool {
        match &self.sending {
            // Until they are read, each wait on the socket ends at once with an error.
            Sending::ZeroCopy { rare, .. } => self.look(rare).is_ok(),
            _ => false,
        }
    }

    fn finish(&self) {
        if let Sending::ZeroCopy { rare, .. } = &self.sending {
            // What is completed later is not counted: the load is over.
            let _ = self.look(rare);
        }
        // Fails only when the connection is gone, which the receiver notices and reports.
        let _ = socket::shutdown(self.socket, Direction::Writing);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket)
    }
}
