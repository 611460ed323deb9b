//! The calls of a thread on its connections.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use iodyno_core::random::SplitMix;
use iodyno_core::script::{Call, FlowOp, Protocol};
use iodyno_core::units::Nanos;
use iodyno_sys::buffer::ReceiveScratch;
use iodyno_sys::endpoint::{self, Endpoint};
use iodyno_sys::open_sockets::OpenSocket;
use iodyno_sys::timed::{self, Until};
use iodyno_sys::vsock::THIS_MACHINE;
use iodyno_sys::{datagram, errno, socket, stream_calls};

use super::acceptor::unix_address;
use super::datagrams::Datagrams;
use super::fault::Fault;
use super::files::Source;
use super::preamble::{self, Kind, Preamble};
use super::run::SLICE;
use super::sctp;
use super::sizes::Sizes;
use super::stall::Wait;
use super::worker_thread::WorkerThread;
use crate::error::LoadError;
use crate::handshake::options;
use crate::transport::tls::Session;

/// chosen: how long a connection may take to come up where the script does not say.
const TIME_TO_CONNECT: Nanos = Nanos(10_000_000_000);
/// chosen: after this, a greeting over UDP is sent again.
const GREETING: Nanos = Nanos(50_000_000);

/// A connection of a thread.
pub(super) struct Flow {
    socket: OpenSocket,
    /// Of a connection over TLS.
    session: Option<Session>,
    protocol: Protocol,
    /// Payload sent and taken.
    pub sent: u64,
    pub taken: u64,
    given: Sizes,
    awaited: Sizes,
    blocks: bool,
    track: sctp::Track,
    /// Of a connection over UDP.
    pub datagrams: Datagrams,
    /// Whether the other end, which opened it over UDP, may not know yet that it was heard.
    may_ask: bool,
}

impl Flow {
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Hands bytes over by the call of the operation.
    #[inline]
    fn send(&self, call: Call, bytes: &[u8]) -> io::Result<usize> {
        match (&self.session, call) {
            (Some(session), _) => session.send(self.fd(), bytes),
            (None, Call::Write) => timed::write(self.fd(), bytes),
            (None, _) => socket::send(self.fd(), bytes),
        }
    }

    /// Takes up to `length` bytes by the call of the operation, and forgets them.
    #[inline]
    fn receive(&self, call: Call, scratch: &ReceiveScratch, length: usize) -> io::Result<usize> {
        match (&self.session, call) {
            (Some(session), _) => session.receive(self.fd(), length),
            (None, Call::Read) => timed::read(self.fd(), scratch, length),
            (None, _) => socket::receive_at_most(self.fd(), scratch, length),
        }
    }

    /// Whether a call could go on without the kernel.
    fn is_ready(&self, until: Until) -> bool {
        until == Until::Readable && self.session.as_ref().is_some_and(Session::holds_payload)
    }
}

/// Where byte `at` of files one after the other lies: which file, where in it, and where that file ends.
fn whole_files(files: &[Source], at: u64) -> (usize, u64, u64) {
    let mut begin = 0;
    for (number, file) in files.iter().enumerate() {
        if at < begin + file.length {
            return (number, at - begin, begin + file.length);
        }
        begin += file.length;
    }
    (0, 0, at)
}

impl<'a> WorkerThread<'a> {
    pub(super) fn flow(&mut self, operation: &FlowOp) -> Result<&mut Flow, Fault> {
        self.flows
            .get_mut(operation.connection as usize)
            .and_then(|flows| flows.last_mut())
            .ok_or(Fault::NotOpen)
    }

    pub(super) fn is_datagram(&self, connection: u32) -> bool {
        let flow = self.flows.get(connection as usize).and_then(|flows| flows.last());
        flow.is_some_and(|flow| flow.protocol == Protocol::Udp)
    }

    /// Closes the connection of a number that was opened last; those before it stay.
    pub(super) fn drop_flow(&mut self, connection: u32) {
        if let Some(flows) = self.flows.get_mut(connection as usize) {
            flows.pop();
        }
    }

    /// Sends a message.
    #[inline]
    pub(super) fn give(&mut self, operation: &'a FlowOp, begun: u64) -> Result<u64, Fault> {
        self.suit(operation)?;
        let flow = self.flow(operation)?;
        let (mut size, protocol) = (flow.given.next(operation.size), flow.protocol);
        if protocol == Protocol::Udp {
            return self.give_datagram(operation, size, begun);
        }
        if operation.size.is_none() {
            size = self.announce_files(operation, begun)?;
        }
        let until = operation.timeout_ns.map(|timeout| begun.saturating_add(timeout.0));
        let wait = Wait::Give { connection: operation.connection };
        let source = self.worker.source();
        let most = operation.call_bytes.map_or(u64::MAX, |bytes| bytes.0).min(source.len() as u64);
        let mut left = size;
        while left > 0 {
            if until.is_some() {
                self.await_readiness(operation, Until::Writable, wait, until)?;
            }
            let length = left.min(most) as usize;
            let outcome = match operation.call {
                Call::Sendfile | Call::Sendfilev => self.send_files(operation, size, size - left),
                call => self.flow(operation)?.send(call, &source[..length]),
            };
            match outcome {
                Ok(count) => {
                    left = left.saturating_sub(count as u64);
                    self.flow(operation)?.sent += count as u64;
                    self.moved(count, begun);
                }
                Err(error) => self.refused(operation, error, Until::Writable, wait, until)?,
            }
        }
        if matches!(operation.call, Call::Sendfile | Call::Sendfilev) {
            self.files_sent = self.files_sent.wrapping_add(1);
        }
        Ok(size)
    }

    /// The length of the whole files that come next, told to the other end, which cannot know it, in front of them.
    #[cold]
    fn announce_files(&mut self, operation: &FlowOp, begun: u64) -> Result<u64, Fault> {
        let (run, place, group) = (self.run, self.place, self.pair.group);
        let files = &run.files[group][place.transaction][place.operation];
        let size = match operation.call {
            Call::Sendfilev => files.iter().take(operation.files as usize).map(|file| file.length).sum(),
            _ => files[self.files_sent % files.len()].length,
        };
        let until = operation.timeout_ns.map(|timeout| begun.saturating_add(timeout.0));
        let wait = Wait::Give { connection: operation.connection };
        let mut left = &size.to_le_bytes()[..];
        while !left.is_empty() {
            if until.is_some() {
                self.await_readiness(operation, Until::Writable, wait, until)?;
            }
            let flow = self.flow(operation)?;
            match socket::send_more(flow.fd(), left) {
                Ok(count) => {
                    flow.sent += count as u64;
                    left = &left[count.min(left.len())..];
                    self.has_moved = true;
                    self.went_on();
                }
                Err(error) => self.refused(operation, error, Until::Writable, wait, until)?,
            }
        }
        Ok(size)
    }

    /// The length of the files that the other end sends next.
    #[cold]
    fn announced_files(&mut self, operation: &FlowOp, begun: u64) -> Result<u64, Fault> {
        let until = operation.timeout_ns.map(|timeout| begun.saturating_add(timeout.0));
        let (mut length, mut shown) = ([0; 8], 0);
        while shown < length.len() {
            if until.is_some() {
                let wait = self.take_wait(operation)?;
                self.await_readiness(operation, Until::Readable, wait, until)?;
            }
            let flow = self.flow(operation)?;
            match socket::receive_into(flow.fd(), &mut length[shown..]) {
                Ok(0) => return Err(Fault::Ended),
                Ok(count) => {
                    flow.taken += count as u64;
                    shown += count;
                    self.has_moved = true;
                    self.went_on();
                }
                Err(error) => {
                    let wait = self.take_wait(operation)?;
                    self.refused(operation, error, Until::Readable, wait, until)?;
                }
            }
        }
        Ok(u64::from_le_bytes(length))
    }

    /// Sends a part of a message of `size` bytes out of files, from byte `at` of the message on.
    fn send_files(&mut self, operation: &FlowOp, size: u64, at: u64) -> io::Result<usize> {
        let (place, group) = (self.place, self.pair.group);
        let files = &self.run.files[group][place.transaction][place.operation];
        let most = operation.call_bytes.map_or(u64::MAX, |bytes| bytes.0);
        // `sendfilev` takes an equal part of each file, or all of it, `sendfile` all of one.
        let (number, within, part_end) = match operation.call {
            Call::Sendfilev if operation.size.is_none() => whole_files(files, at),
            Call::Sendfilev => {
                let part = size.div_ceil(files.len() as u64).max(1);
                ((at / part) as usize, at % part, (at / part + 1) * part)
            }
            _ => (self.files_sent % files.len(), at, size),
        };
        let file = &files[number];
        // A file that is shorter than its part is sent again from its begin.
        let offset = within % file.length;
        let length = (part_end.min(size) - at).min(file.length - offset).min(most);
        let flow = self.flows.get(operation.connection as usize).and_then(|flows| flows.last());
        let flow = flow.ok_or(io::ErrorKind::NotConnected)?;
        match stream_calls::send_file(flow.fd(), file.file.as_fd(), offset, length as usize) {
            // Somebody has shortened it.
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            outcome => outcome,
        }
    }

    /// Takes a message.
    #[inline]
    pub(super) fn take(&mut self, operation: &'a FlowOp, begun: u64) -> Result<u64, Fault> {
        self.suit(operation)?;
        let flow = self.flow(operation)?;
        let (mut size, protocol) = (flow.awaited.next(operation.size), flow.protocol);
        if protocol == Protocol::Udp {
            return self.take_datagram(operation, begun);
        }
        if operation.size.is_none() {
            size = self.announced_files(operation, begun)?;
        }
        let until = operation.timeout_ns.map(|timeout| begun.saturating_add(timeout.0));
        let most = operation.call_bytes.map_or(u64::MAX, |bytes| bytes.0);
        let scratch = self.worker.scratch();
        let mut left = size;
        while left > 0 {
            if until.is_some() {
                let wait = self.take_wait(operation)?;
                self.await_readiness(operation, Until::Readable, wait, until)?;
            }
            let (length, flow) = (left.min(most) as usize, self.flow(operation)?);
            match flow.receive(operation.call, scratch, length) {
                Ok(0) => return Err(Fault::Ended),
                Ok(count) => {
                    left -= count as u64;
                    flow.taken += count as u64;
                    self.moved(count, begun);
                }
                Err(error) => {
                    let wait = self.take_wait(operation)?;
                    self.refused(operation, error, Until::Readable, wait, until)?;
                }
            }
        }
        Ok(size)
    }

    pub(super) fn take_wait(&mut self, operation: &FlowOp) -> Result<Wait, Fault> {
        let so_far = self.flow(operation)?.taken;
        Ok(Wait::Take { connection: operation.connection, so_far })
    }

    /// Counts bytes that moved.
    #[inline]
    pub(super) fn moved(&mut self, count: usize, begun: u64) {
        self.has_moved = true;
        self.worker.moved(self.cell, count as u64, begun);
        self.went_on();
    }

    /// A call was refused: waits on, where that makes sense.
    #[cold]
    pub(super) fn refused(
        &mut self,
        operation: &FlowOp,
        error: io::Error,
        until: Until,
        wait: Wait,
        deadline: Option<u64>,
    ) -> Result<(), Fault> {
        match error.raw_os_error().unwrap_or(0) {
            errno::EINTR => Ok(()),
            errno::EAGAIN => {
                let slice = self.slice(deadline);
                if operation.non_blocking {
                    self.passage.operations[self.place.operation].would_block += 1;
                }
                // A blocking call has waited for the shortest slice.
                if operation.non_blocking || slice > SLICE {
                    match timed::wait_for(self.flow(operation)?.fd(), until, slice) {
                        Ok(true) => return Ok(()),
                        Ok(false) => {}
                        Err(error) if error.raw_os_error() == Some(errno::EINTR) => {}
                        Err(error) => return Err(Fault::Os(error)),
                    }
                }
                self.waited(wait, deadline)
            }
            _ => Err(Fault::Os(error)),
        }
    }

    /// Waits until a call on the connection would not wait, to `deadline` at most.
    pub(super) fn await_readiness(
        &mut self,
        operation: &FlowOp,
        until: Until,
        wait: Wait,
        deadline: Option<u64>,
    ) -> Result<(), Fault> {
        if self.flow(operation)?.is_ready(until) {
            return Ok(());
        }
        loop {
            self.worker.tick();
            let slice = self.slice(deadline);
            match timed::wait_for(self.flow(operation)?.fd(), until, slice) {
                Ok(true) => return Ok(()),
                Ok(false) => self.waited(wait, deadline)?,
                Err(error) if error.raw_os_error() == Some(errno::EINTR) => {}
                Err(error) => return Err(Fault::Os(error)),
            }
        }
    }

    /// Has the socket wait or not, and send on a stream, as the operation wants it.
    #[inline]
    fn suit(&mut self, operation: &FlowOp) -> Result<(), Fault> {
        let flow = self.flow(operation)?;
        if flow.blocks == operation.non_blocking {
            flow.blocks = !operation.non_blocking;
            socket::set_blocking(flow.socket.as_fd(), flow.blocks).map_err(Fault::Os)?;
        }
        if flow.protocol == Protocol::Sctp && operation.call.sends() {
            flow.track.follow(flow.socket.as_fd(), operation).map_err(Fault::Os)?;
        }
        Ok(())
    }

    /// Opens a connection to the other end.
    pub(super) fn open(&mut self, operation: &FlowOp, begun: u64) -> Result<u64, Fault> {
        let connection = operation.connection;
        let remote = self.remote();
        let (pair, other) = (self.pair, &self.pair.others[remote]);
        while other.is_held() {
            let until = operation.timeout_ns.map(|timeout| begun.saturating_add(timeout.0));
            pair.wait(self.slice(until), || !other.is_held());
            self.waited(Wait::Connect { connection }, until)?;
        }
        let deadline = begun.saturating_add(operation.timeout_ns.unwrap_or(TIME_TO_CONNECT).0);
        let addresses = self.run.addresses(remote).ok_or(Fault::NotOpen)?;
        let slot = self.slot(connection, remote);
        let serial = self.opened[slot];
        let shown = Preamble { kind: Kind::Data, thread: self.number, connection, serial: serial as u32 };
        let socket = match operation.protocol {
            Protocol::Udp => self.greet(operation, addresses.udp, shown, deadline)?,
            Protocol::Unix => {
                let address = unix_address(addresses.unix).map_err(Fault::Os)?;
                let stream = UnixStream::connect_addr(&address).map_err(Fault::Os)?;
                OwnedFd::from(stream)
            }
            Protocol::Vsock => {
                let there = Endpoint::Vsock { context: THIS_MACHINE, port: u32::from(addresses.vsock) };
                self.dial(operation, &there, deadline)?
            }
            Protocol::Sctp => self.dial(operation, &Endpoint::Sctp(addresses.sctp), deadline)?,
            _ => self.dial(operation, &Endpoint::Inet(addresses.tcp), deadline)?,
        };
        if operation.protocol != Protocol::Udp {
            // A message that follows at once travels with it. Else Nagle's algorithm would hold that message back until
            // the preamble is acknowledged, a round trip that the script does not have.
            let more = self.sends_next(connection) || operation.protocol == Protocol::Tls;
            let show = if more { socket::send_more } else { socket::send };
            // A fresh socket has room for so few bytes.
            show(socket.as_fd(), &shown.bytes(self.run.token)).map_err(Fault::Os)?;
        }
        let wait = Wait::Connect { connection };
        let session = self.shake(operation, socket.as_fd(), true, wait, Some(deadline))?;
        self.opened[slot] += 1;
        self.keep(operation, (socket, session), serial, true)
    }

    /// Whether the next operation sends on this connection.
    fn sends_next(&self, connection: u32) -> bool {
        self.next_operation().is_some_and(|next| next.call.sends() && next.connection == connection)
    }

    fn dial(&mut self, operation: &FlowOp, place: &Endpoint, deadline: u64) -> Result<OwnedFd, Fault> {
        let socket = place.socket(false).map_err(Fault::Os)?;
        match place {
            Endpoint::Inet(_) => options::ask(socket.as_fd(), &operation.socket).map_err(as_fault)?,
            Endpoint::Sctp(_) => sctp::ask(socket.as_fd(), operation, true).map_err(as_fault)?,
            _ => ask_of_others(socket.as_fd(), operation)?,
        }
        if endpoint::connect(socket.as_fd(), place).map_err(Fault::Os)? {
            return Ok(socket);
        }
        loop {
            self.worker.tick();
            let left = deadline.saturating_sub(self.worker.now).min(SLICE.0);
            match timed::wait_for(socket.as_fd(), Until::Writable, Nanos(left)) {
                Ok(true) => break,
                Ok(false) => self.waited_to_connect(operation, deadline)?,
                Err(error) if error.raw_os_error() == Some(errno::EINTR) => {}
                Err(error) => return Err(Fault::Os(error)),
            }
        }
        match socket::pending_error(socket.as_fd()).map_err(Fault::Os)? {
            None => Ok(socket),
            Some(error) => Err(Fault::Os(error)),
        }
    }

    fn waited_to_connect(&mut self, operation: &FlowOp, deadline: u64) -> Result<(), Fault> {
        self.waited(Wait::Connect { connection: operation.connection }, Some(deadline))
    }

    /// Opens a flow over UDP: shows whose it is until that is acknowledged.
    fn greet(
        &mut self,
        operation: &FlowOp,
        address: SocketAddr,
        shown: Preamble,
        deadline: u64,
    ) -> Result<OwnedFd, Fault> {
        let socket = datagram::udp(&address).map_err(Fault::Os)?;
        ask_of_others(socket.as_fd(), operation)?;
        socket::connect(socket.as_fd(), &address).map_err(Fault::Os)?;
        let acknowledged = Preamble { kind: Kind::Acknowledged, ..shown };
        let mut answer = [0; preamble::BYTES + 1];
        loop {
            socket::send(socket.as_fd(), &shown.bytes(self.run.token)).map_err(Fault::Os)?;
            self.worker.tick();
            let again = self.worker.now + GREETING.0;
            while self.worker.now < again {
                let left = again.min(deadline).saturating_sub(self.worker.now).min(SLICE.0);
                match timed::wait_for(socket.as_fd(), Until::Readable, Nanos(left)) {
                    Ok(true) => {
                        let length = socket::receive_into(socket.as_fd(), &mut answer).map_err(Fault::Os)?;
                        if Preamble::of(&answer[..length], self.run.token) == Some(acknowledged) {
                            return Ok(socket);
                        }
                    }
                    Ok(false) => {}
                    Err(error) if error.raw_os_error() == Some(errno::EINTR) => {}
                    Err(error) => return Err(Fault::Os(error)),
                }
                self.waited_to_connect(operation, deadline)?;
            }
        }
    }

    /// Acknowledges again what was lost of that: while this end waits for something else, nobody reads the flows on which
    /// greetings come again.
    pub(super) fn greet_who_asks(&mut self) {
        let mut bytes = [0; preamble::BYTES + 1];
        for flow in self.flows.iter_mut().flatten().filter(|flow| flow.may_ask) {
            // Looked at first: any other datagram is the script's.
            while let Ok(length) = socket::look_at(flow.fd(), &mut bytes) {
                let shown = Preamble::of(&bytes[..length], self.run.token);
                flow.may_ask = shown.is_some_and(|shown| shown.kind == Kind::Data);
                let Some(shown) = shown.filter(|_| flow.may_ask) else { break };
                let _ = socket::receive_into(flow.fd(), &mut bytes);
                let acknowledged = Preamble { kind: Kind::Acknowledged, ..shown };
                // Should this one get lost, too, the greeting comes again.
                let _ = socket::send(flow.fd(), &acknowledged.bytes(self.run.token));
            }
        }
    }

    /// Takes the connection that the other end opens.
    pub(super) fn accept(&mut self, operation: &FlowOp, begun: u64) -> Result<u64, Fault> {
        let (run, thread, connection) = (self.run, self.number, operation.connection);
        let until = operation.timeout_ns.map(|timeout| begun.saturating_add(timeout.0));
        let serial = self.accepted[connection as usize];
        let socket = loop {
            if let Some(socket) = run.take(thread, connection) {
                break socket;
            }
            self.pair.wait(self.slice(until), || run.has_waiting(thread, connection) || run.has_failed());
            if !run.has_waiting(thread, connection) {
                self.waited(Wait::Accept { connection, so_far: serial }, until)?;
            }
        };
        match operation.protocol {
            Protocol::Tcp | Protocol::Tls => {
                options::ask(socket.as_fd(), &operation.socket).map_err(as_fault)?
            }
            Protocol::Sctp => sctp::ask(socket.as_fd(), operation, false).map_err(as_fault)?,
            _ => ask_of_others(socket.as_fd(), operation)?,
        }
        let wait = Wait::Accept { connection, so_far: serial };
        let session = self.shake(operation, socket.as_fd(), false, wait, until)?;
        self.accepted[connection as usize] += 1;
        self.keep(operation, (socket, session), serial, false)
    }

    fn keep(
        &mut self,
        operation: &FlowOp,
        (socket, session): (OwnedFd, Option<Session>),
        serial: u64,
        opened: bool,
    ) -> Result<u64, Fault> {
        let blocks = !operation.non_blocking;
        socket::set_blocking(socket.as_fd(), blocks).map_err(Fault::Os)?;
        socket::set_timeouts(socket.as_fd(), SLICE).map_err(Fault::Os)?;
        // The same at both ends: by who opened it.
        let drawn = |by_opener: bool| {
            let token = u64::from_le_bytes(self.run.token[..8].try_into().unwrap_or_default());
            let place = u64::from(self.number) << 32 | u64::from(operation.connection) << 1;
            let mut place = SplitMix(token ^ place ^ u64::from(by_opener));
            SplitMix(place.bits().wrapping_add(serial))
        };
        let seed = |by_opener| Sizes(drawn(by_opener));
        let socket = match operation.protocol {
            Protocol::Tcp | Protocol::Tls => self.run.opened.know(socket),
            _ => OpenSocket::apart(socket),
        };
        let patience = match operation.protocol {
            Protocol::Udp => self.run.patience(self.remote()),
            _ => Nanos(0),
        };
        let flow = Flow {
            socket,
            session,
            protocol: operation.protocol,
            sent: 0,
            taken: 0,
            given: seed(opened),
            awaited: seed(!opened),
            blocks,
            track: sctp::Track::default(),
            datagrams: Datagrams::of(self.remote(), patience, (drawn(opened).bits(), drawn(!opened).bits())),
            may_ask: !opened && operation.protocol == Protocol::Udp,
        };
        self.flows[operation.connection as usize].push(flow);
        self.has_moved = true;
        Ok(0)
    }

    /// Closes a connection.
    pub(super) fn close(&mut self, operation: &FlowOp) -> Result<u64, Fault> {
        self.flow(operation)?;
        self.drop_flow(operation.connection);
        Ok(0)
    }
}

/// Options of a socket that is not TCP's: what every socket has.
fn ask_of_others(socket: BorrowedFd<'_>, operation: &FlowOp) -> Result<(), Fault> {
    options::ask_any(socket, &operation.socket).map_err(as_fault)
}

fn as_fault(error: LoadError) -> Fault {
    Fault::Os(io::Error::other(error.what))
}
