//! How the two ends of a script meet before its start.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use iodyno_core::account::ScriptAccount;
use iodyno_core::job::Job;
use iodyno_core::message::ErrorCode;
use iodyno_core::network::{Role, SocketOptionsObtained};
use iodyno_core::script::{Call, FlowOp, Protocol, Script, Until};
use iodyno_core::scripted::Scripted;
use iodyno_core::units::Nanos;
use iodyno_sys::open_sockets::OpenSockets;
use iodyno_sys::socket::{self, Setting};
use iodyno_sys::timed;
use iodyno_sys::{clock, errno, limits, priority, sctp, vsock};

use super::acceptor::Acceptor;
use super::link::{Link, Message, Received, Receiver, SILENCE};
use super::preamble::Preamble;
use super::run::{Addresses, Run, SLICE};
use super::worker_thread;
use crate::cancel::Cancel;
use crate::error::LoadError;
use crate::handshake::{address_of, be_at};
use crate::joining::{LONGEST_CALL_BYTES, READ_BYTES};
use crate::prepared::{Prepared, Work};
use crate::worker::counters::Counters;
use crate::worker::shared::{cpus_of, Needs, Shared};
use iodyno_sys::lock::locked;

/// chosen: how long the other end may take to come.
const RENDEZVOUS_TIMEOUT: Nanos = Nanos(10_000_000_000);
/// How often an end says something, so that it is not taken for gone.
const BEAT: Nanos = Nanos(1_000_000_000);
/// Connections that may wait to be accepted.
const BACKLOG: u32 = 4096;
/// Files besides connections: sensors, epoll, stdio, connections that wait to be accepted.
const OTHER_DESCRIPTORS: u64 = 4096;
/// chosen: stack of a thread of a link or of the acceptor, as of a worker.
const STACK_BYTES: usize = 128 << 10;

/// A run with the threads of its links and its acceptor. They end with it.
struct Live {
    run: Arc<Run>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.run.closing.store(true, SeqCst);
        locked(&self.threads).drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// The threads of a script whose ends have met.
struct Threads {
    shared: Shared,
    live: Live,
}

impl Work for Threads {
    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn carry_out(&self, number: usize) {
        worker_thread::carry_out(&self.shared, &self.live.run, number);
    }

    fn connections(&self) -> u32 {
        self.shared.workers() as u32
    }

    fn opened(&self) -> Arc<OpenSockets> {
        Arc::clone(&self.live.run.opened)
    }

    fn may_end_early(&self) -> bool {
        true
    }

    fn account(&self) -> Option<ScriptAccount> {
        Some(self.live.run.account())
    }

    fn failure(&self) -> Option<LoadError> {
        self.live.run.failure()
    }
}

/// Whether this machine has what the script's connections travel on.
///
/// # Errors
/// `Unsupported`, with the reason.
pub fn script_supports(script: &Script) -> Result<(), LoadError> {
    script_goes_together(script)?;
    for protocol in script.protocols() {
        let (name, module, why) = match protocol {
            Protocol::Tcp | Protocol::Udp | Protocol::Unix | Protocol::Tls => continue,
            Protocol::Vsock => ("vsock", "vsock_loopback", vsock::refusal(vsock::THIS_MACHINE)),
            Protocol::Sctp => {
                let refused = |error| format!("the kernel refuses its sockets: {error}");
                ("SCTP", "sctp", sctp::refusal().map(refused))
            }
        };
        let Some(why) = why else { continue };
        return Err(LoadError::new(
            ErrorCode::Unsupported,
            format!("the script has connections over {name}, and {why}"),
            "script.protocol",
            format!("load the kernel's module {module}, or take tcp, udp, unix or tls"),
        ));
    }
    Ok(())
}

/// Whether a script is one that some machine carries out, whatever this one has.
///
/// # Errors
/// `Unsupported`, with the reason.
pub fn script_goes_together(script: &Script) -> Result<(), LoadError> {
    let operations = script.transactions().flat_map(|(_, _, transaction)| &transaction.operations);
    let from_files = |operation: &FlowOp| matches!(operation.call, Call::Sendfile | Call::Sendfilev);
    if operations.into_iter().any(|each| each.protocol == Protocol::Tls && from_files(each)) {
        return Err(LoadError::new(
            ErrorCode::Unsupported,
            "the script has sendfile over TLS, where the kernel does not see what is sent",
            "script.call",
            "take write or send",
        ));
    }
    Ok(())
}

/// The receiving end of a script, which listens and has met nobody yet.
pub struct ScriptListener {
    job: Job<Scripted>,
    cancel: Cancel,
    socket: OwnedFd,
    port: u16,
}

/// Listens as the receiving end of a script.
///
/// # Errors
/// `Job` for a job that is not allowed or not a receiver's, `Unsupported`, `Address`.
pub fn listen_script(job: &Job<Scripted>, cancel: &Cancel) -> Result<ScriptListener, LoadError> {
    let address = check(job, Role::Receive)?;
    let socket = listen(address)?;
    let bound = socket::local_address(socket.as_fd())
        .map_err(|error| LoadError::refused(&error, "listen", &address.to_string()))?;
    Ok(ScriptListener { job: job.clone(), cancel: cancel.clone(), socket, port: bound.port() })
}

impl ScriptListener {
    /// The port it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits until the sending end has come, and parks the threads.
    ///
    /// # Errors
    /// `ConnectTimeout` when it does not come within 10 s, `Limit`; `Transport` when it was cancelled.
    pub fn accept_all(self) -> Result<Prepared, LoadError> {
        accept(&self.job, self.socket, &self.cancel)
    }
}

/// That a job can be carried out as one end; where this end meets the other.
fn check(job: &Job<Scripted>, role: Role) -> Result<SocketAddr, LoadError> {
    job.load.check()?;
    script_supports(&job.load.script)?;
    if job.load.role != role {
        return Err(LoadError::new(
            ErrorCode::Job,
            "this job is that of the other end",
            "role",
            "use the other call",
        ));
    }
    address_of(job.load.address.as_deref())
}

/// Awaits the sending end behind a socket that listens, and parks the threads.
fn accept(job: &Job<Scripted>, listener: OwnedFd, cancel: &Cancel) -> Result<Prepared, LoadError> {
    let run = begin(job, cancel)?;
    let acceptor = Acceptor::open(&run, listener)?;
    let own = own_addresses(&acceptor)?;
    let live = start_acceptor(run, acceptor)?;
    let until = clock::monotonic().plus(RENDEZVOUS_TIMEOUT);
    let socket = loop {
        if let Some(socket) = locked(&live.run.arrived_link).take() {
            break socket;
        }
        look(cancel, until)?;
        if let Some(failure) = live.run.failure() {
            return Err(failure);
        }
        let _ = clock::sleep_until(clock::monotonic().plus(Nanos::MILLISECOND));
    };
    finish(job, live, vec![socket], &own, until, cancel)
}

/// Goes to the receiving end, and to all others that the script has, and parks the threads.
///
/// # Errors
/// `Job`, `Unsupported`, `Address`, `Limit`, `ConnectTimeout`; `Transport` when it was cancelled.
pub fn connect_script(job: &Job<Scripted>, cancel: &Cancel) -> Result<Prepared, LoadError> {
    let address = check(job, Role::Send)?;
    let run = begin(job, cancel)?;
    let until = clock::monotonic().plus(RENDEZVOUS_TIMEOUT);
    let others = job.load.remote_addresses.iter().filter_map(|address| address.parse().ok());
    let addresses: Vec<SocketAddr> = std::iter::once(address).chain(others).collect();
    let links = addresses.iter().map(|address| dial(&run, *address, until, cancel));
    let links = links.collect::<Result<Vec<_>, _>>()?;
    let near = links.iter().map(|link| socket::local_address(link.as_fd()).map(|near| near.ip()));
    let near = near
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| LoadError::refused(&error, "connect", &address.to_string()))?;
    // Several ends may see this one under several addresses.
    let place = match near[0] {
        ip if near.iter().all(|other| *other == ip) => ip,
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let acceptor = Acceptor::open(&run, listen(SocketAddr::new(place, 0))?)?;
    let own = own_addresses(&acceptor)?;
    let live = start_acceptor(run, acceptor)?;
    finish(job, live, links, &own, until, cancel)
}

/// Opens the link to another end.
fn dial(run: &Run, address: SocketAddr, until: Nanos, cancel: &Cancel) -> Result<OwnedFd, LoadError> {
    let place = address.to_string();
    let refused = |error: std::io::Error| LoadError::refused(&error, "connect", &place);
    let link = socket::tcp(&address).map_err(refused)?;
    if !socket::connect(link.as_fd(), &address).map_err(refused)? {
        while !timed::wait_for(link.as_fd(), timed::Until::Writable, SLICE).map_err(refused)? {
            look(cancel, until)?;
        }
        socket::pending_error(link.as_fd()).map_err(refused)?.map_or(Ok(()), |error| Err(refused(error)))?;
    }
    socket::send(link.as_fd(), &Preamble::LINK.bytes(run.token)).map_err(refused)?;
    Ok(link)
}

fn listen(address: SocketAddr) -> Result<OwnedFd, LoadError> {
    let refused = |error: std::io::Error| LoadError::refused(&error, "listen", &address.to_string());
    let listener = socket::tcp(&address).map_err(refused)?;
    socket::set(listener.as_fd(), Setting::ReuseAddress, 1).map_err(refused)?;
    be_at(listener.as_fd(), &address).map_err(refused)?;
    socket::listen(listener.as_fd(), BACKLOG).map_err(refused)?;
    Ok(listener)
}

fn begin(job: &Job<Scripted>, cancel: &Cancel) -> Result<Arc<Run>, LoadError> {
    let most = |group: &iodyno_core::script::Group| {
        let operations = group.transactions.iter().flat_map(|each| &each.operations);
        operations.map(|operation| u64::from(operation.connection) + 1).max().unwrap_or(0)
    };
    let groups = &job.load.script.groups;
    let connections: u64 = groups.iter().map(|group| u64::from(group.threads) * most(group)).sum();
    let limit = limits::raise_descriptors(connections + OTHER_DESCRIPTORS);
    if limit < connections + 64 {
        return Err(LoadError::new(
            ErrorCode::Limit,
            format!("{connections} connections need as many open files, and this process may have {limit}"),
            "script",
            limits::advice(connections + OTHER_DESCRIPTORS),
        ));
    }
    Run::new(job, cpus_of(job)?.len(), cancel).map(Arc::new)
}

/// Where this end awaits connections, for the other ends.
fn own_addresses(acceptor: &Acceptor) -> Result<Message, LoadError> {
    let refused = |error: std::io::Error| LoadError::refused(&error, "read its own address", "script");
    Ok(Message::Addresses {
        tcp: acceptor.tcp_port().map_err(refused)?,
        udp: acceptor.udp_port().map_err(refused)?,
        unix: acceptor.unix_name,
        vsock: acceptor.vsock_port,
        sctp: acceptor.sctp_port().map_err(refused)?,
    })
}

fn start_acceptor(run: Arc<Run>, acceptor: Acceptor) -> Result<Live, LoadError> {
    let live = Live { run: Arc::clone(&run), threads: Mutex::default() };
    live.spawn("acceptor", move || acceptor.serve(&run))?;
    Ok(live)
}

impl Live {
    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), LoadError> {
        let thread = thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(work);
        let thread = thread.map_err(|error| LoadError::refused(&error, "start a thread", "script"))?;
        locked(&self.threads).push(thread);
        Ok(())
    }
}

fn look(cancel: &Cancel, until: Nanos) -> Result<(), LoadError> {
    if cancel.is_cancelled() {
        return Err(LoadError::cancelled());
    }
    if clock::monotonic() < until {
        return Ok(());
    }
    Err(LoadError::new(
        ErrorCode::ConnectTimeout,
        format!("the other end of the script did not come within {} s", RENDEZVOUS_TIMEOUT.0 / 1_000_000_000),
        "script",
        "see what it reported, and look for a firewall between the hosts",
    ))
}

/// Tells the other ends the own addresses, receives theirs, and parks the threads.
fn finish(
    job: &Job<Scripted>,
    live: Live,
    sockets: Vec<OwnedFd>,
    own: &Message,
    until: Nanos,
    cancel: &Cancel,
) -> Result<Prepared, LoadError> {
    let run = Arc::clone(&live.run);
    let shape = shape(&run.script);
    let mut links = Vec::new();
    for socket in sockets {
        let socket = TcpStream::from(socket);
        let far = socket.peer_addr().map_err(trouble)?.ip();
        let link = Link::new(socket.into()).map_err(trouble)?;
        link.send(&shape, SILENCE).and_then(|()| link.send(own, SILENCE)).map_err(trouble)?;
        links.push((link, far));
    }
    for (remote, (link, far)) in links.into_iter().enumerate() {
        let mut receiver = Receiver::default();
        let addresses = receive_addresses(&mut receiver, &link, far, &shape, until, cancel)?;
        run.add_end(remote, link, addresses);
        let run = Arc::clone(&run);
        live.spawn("link", move || keep_link(&run, remote, receiver))?;
    }
    let threads = run.script.threads() as usize;
    let needs = Needs {
        workers: threads,
        counters: Counters::new(threads, threads),
        source_bytes: LONGEST_CALL_BYTES,
        scratch_bytes: READ_BYTES,
        busy_wait: false,
    };
    let shared = Shared::new(job, cpus_of(job)?, needs, cancel)?;
    Prepared::new(Threads { shared, live }, SocketOptionsObtained::default(), 0)
}

fn trouble(error: std::io::Error) -> LoadError {
    LoadError::refused(&error, "speak with the other end", "script")
}

/// Where another end awaits connections, as it says itself.
fn receive_addresses(
    receiver: &mut Receiver,
    link: &Link,
    far: IpAddr,
    shape: &Message,
    until: Nanos,
    cancel: &Cancel,
) -> Result<Addresses, LoadError> {
    loop {
        look(cancel, until)?;
        match receiver.receive(link, SLICE).map_err(trouble)? {
            Received::Message(other @ Message::Shape { .. }) if other != *shape => {
                return Err(LoadError::new(
                    ErrorCode::Job,
                    format!("the two ends have scripts that do not belong together: {shape:?} here, {other:?} there"),
                    "script",
                    "give both ends the two sides of one script",
                ));
            }
            Received::Message(Message::Addresses { tcp, udp, unix, vsock, sctp }) => {
                let at = |port| SocketAddr::new(far, port);
                return Ok(Addresses { tcp: at(tcp), udp: at(udp), unix, vsock, sctp: at(sctp) });
            }
            Received::End => {
                let mut error = trouble(std::io::Error::from_raw_os_error(errno::ECONNRESET));
                error.what = "who listens there closed the connection".to_owned();
                return Err(error);
            }
            Received::Message(_) | Received::Nothing => {}
        }
    }
}

/// Receives what another end sends, and lets it know that this one lives.
fn keep_link(run: &Run, remote: usize, mut receiver: Receiver) {
    let Some(link) = run.link(remote) else { return };
    priority::go_first();
    let (mut heard, mut beaten) = (clock::monotonic(), clock::monotonic());
    while !run.closing.load(SeqCst) {
        // Before it reads: the other end takes one that receives messages without end for gone, if nothing comes from it.
        if clock::monotonic().minus(beaten) >= BEAT {
            beaten = clock::monotonic();
            link.beat();
        }
        match receiver.receive(link, SLICE) {
            Ok(Received::Message(message)) => {
                heard = clock::monotonic();
                run.receive(remote, message);
                continue;
            }
            Ok(Received::Nothing) => {}
            Ok(Received::End) => return run.lose_link(remote, "it closed the link"),
            Err(error) => return run.lose_link(remote, &error.to_string()),
        }
        if clock::monotonic().minus(heard) >= SILENCE {
            let seconds = SILENCE.0 / 1_000_000_000;
            return run.lose_link(remote, &format!("nothing was heard of it for {seconds} s"));
        }
    }
}

/// What must be alike at both ends.
fn shape(script: &Script) -> Message {
    // FNV-1a, 64 bits (Fowler, Noll, Vo).
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |number: u64| {
        for byte in number.to_le_bytes() {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for (group, number, transaction) in script.transactions() {
        add(u64::from(group.threads));
        add(number as u64);
        match transaction.until {
            Until::Iterations { iterations } => add(iterations << 1),
            Until::Duration { duration_ns } => add(duration_ns.0 << 1 | 1),
        }
    }
    Message::Shape {
        groups: script.groups.len() as u64,
        threads: script.threads(),
        transactions: script.transactions().count() as u64,
        digest,
    }
}
