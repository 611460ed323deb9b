//! A load on connections between two ends: what travels, on what, by which calls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arrivals::{Arrivals, Sizes};
pub use crate::engine::{Engine, Ring, Syscalls};
use crate::limits::{
    JobError, DATAGRAM_HEADER_BYTES, MAX_BATCH, MAX_COMPUTE, MAX_CONNECTIONS, MAX_DATAGRAM_BYTES,
    MAX_MESSAGE_BYTES, MAX_MULTIPLEXED_BYTES, MAX_QUEUE_DEPTH, MAX_THINK, MULTIPLEX_HEADER_BYTES,
};
pub use crate::socket_options::{SocketNumber, SocketOptions, SocketOptionsObtained};
use crate::units::{Bytes, Nanos};

/// Which end of the load this agent is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Connects and sends.
    #[default]
    Send,
    /// Listens and receives.
    Receive,
}

/// What the bytes travel on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP over IPv4 or IPv6.
    Tcp,
    /// UDP over IPv4 or IPv6; every datagram shows the trial's token (`docs/background/architecture.md`, "Datagrams").
    Udp,
    /// A stream socket of the Unix domain.
    Unix,
    /// A stream socket between virtual machines and their host.
    Vsock,
    /// TLS 1.3 over TCP, with a certificate made for the trial.
    Tls,
    /// UDP at the other end, and packet sockets with a shared ring (`PF_PACKET`) at this one.
    Packet,
    /// UDP at the other end, and `AF_XDP` at this one.
    Xdp,
    /// Nothing: every message is accepted at once. Shows the cost of the load loop itself.
    Null,
}

impl Transport {
    /// Whether messages travel as datagrams, each of which may be lost.
    #[must_use]
    pub fn is_datagram(self) -> bool {
        matches!(self, Transport::Udp | Transport::Packet | Transport::Xdp)
    }

    /// Whether its addresses are numbers with a port.
    #[must_use]
    pub fn is_numeric(self) -> bool {
        self.is_datagram() || matches!(self, Transport::Tcp | Transport::Tls)
    }
}

/// The cipher of TLS: the one suite that both ends offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TlsCipher {
    /// `TLS_AES_128_GCM_SHA256`, which every implementation must have (RFC 8446, 9.1).
    #[default]
    #[serde(rename = "aes_128_gcm")]
    Aes128Gcm,
    /// `TLS_AES_256_GCM_SHA384`.
    #[serde(rename = "aes_256_gcm")]
    Aes256Gcm,
    /// `TLS_CHACHA20_POLY1305_SHA256`.
    Chacha20,
}

/// Which way the payload of a stream goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the end that connects to the end that listens.
    #[default]
    Forward,
    /// Back.
    Reverse,
    /// Both ways at once on every connection.
    Both,
}

/// How the code around operations behaves: an application that computes, waits, locks or comes in bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// CPU time that this end's own code takes before each write or answer.
    #[serde(default)]
    pub compute_ns: Nanos,
    /// Pause of each connection after each of its operations.
    #[serde(default)]
    pub think_ns: Nanos,
    /// Whether all workers of this job take one lock around each call of an operation.
    #[serde(default)]
    pub serialised: bool,
    /// Operations made one after the other at each arrival, or between two pauses.
    #[serde(default = "one")]
    pub burst: u32,
}

impl Default for Application {
    /// None.
    fn default() -> Self {
        Application { compute_ns: Nanos(0), think_ns: Nanos(0), serialised: false, burst: 1 }
    }
}

impl Application {
    /// Whether it has work, pauses or a lock of its own.
    #[must_use]
    pub fn is_any(self) -> bool {
        self.compute_ns.0 > 0 || self.think_ns.0 > 0 || self.serialised
    }
}

/// Bulk transmit: messages of one size, one after the other, as fast as they are accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Which way the payload goes.
    #[serde(default)]
    pub direction: Direction,
    /// Whether the sender says that more follows (`MSG_MORE`), so that the kernel joins small messages.
    #[serde(default)]
    pub cork: bool,
    /// Whether who receives has the kernel drop the bytes uncopied (`MSG_TRUNC`, over TCP).
    #[serde(default)]
    pub discards: bool,
    /// What this end does besides.
    #[serde(default)]
    pub application: Application,
}

/// Requests of one size, each answered: `queue_depth` at a time on each connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestResponse {
    /// Payload of an answer, 1 to [`MAX_MESSAGE_BYTES`].
    pub response_bytes: Bytes,
    /// Requests in flight on a connection at a time, 1 to [`MAX_QUEUE_DEPTH`].
    #[serde(default = "one")]
    pub queue_depth: u32,
    /// Whether requests show identifiers, so that answers may come in any order; over a stream of bytes.
    #[serde(default)]
    pub multiplexed: bool,
    /// Whether who waits for requests or answers, on sockets or on a ring, looks again and again and never sleeps.
    #[serde(default)]
    pub busy_wait: bool,
    /// How often a datagram without an answer is sent again before it counts as lost: reliability in user space.
    #[serde(default)]
    pub retries: u32,
    /// What this end does besides.
    #[serde(default)]
    pub application: Application,
}

impl Default for RequestResponse {
    /// One request at a time, and an answer of a byte.
    fn default() -> Self {
        RequestResponse {
            response_bytes: Bytes(1),
            queue_depth: 1,
            multiplexed: false,
            busy_wait: false,
            retries: 0,
            application: Application::default(),
        }
    }
}

/// A connection for each request: connect, request, answer, close.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConnectRequestResponse {
    /// Payload of an answer, 1 to [`MAX_MESSAGE_BYTES`].
    pub response_bytes: Bytes,
    /// Whether a connection over TLS takes up the session of an earlier one, by a ticket.
    #[serde(default)]
    pub tls_resumption: bool,
}

impl Default for ConnectRequestResponse {
    /// An answer of a byte.
    fn default() -> Self {
        ConnectRequestResponse { response_bytes: Bytes(1), tls_resumption: false }
    }
}

/// What is done on each connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Traffic {
    /// Bulk transmit.
    Stream(Stream),
    /// Requests and answers.
    RequestResponse(RequestResponse),
    /// A connection for each request.
    ConnectRequestResponse(ConnectRequestResponse),
}

/// A kind of traffic without its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficKind {
    /// [`Traffic::Stream`].
    Stream,
    /// [`Traffic::RequestResponse`].
    RequestResponse,
    /// [`Traffic::ConnectRequestResponse`].
    ConnectRequestResponse,
}

impl From<TrafficKind> for Traffic {
    /// With the least of parameters.
    fn from(kind: TrafficKind) -> Self {
        match kind {
            TrafficKind::Stream => Traffic::Stream(Stream::default()),
            TrafficKind::RequestResponse => Traffic::RequestResponse(RequestResponse::default()),
            TrafficKind::ConnectRequestResponse => {
                Traffic::ConnectRequestResponse(ConnectRequestResponse::default())
            }
        }
    }
}

/// A load on connections, as one of its two ends carries it out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Which end this agent is.
    pub role: Role,
    /// What is done on each connection.
    pub traffic: Traffic,
    /// What the bytes travel on.
    pub transport: Transport,
    /// How operations are submitted.
    pub engine: Engine,
    /// Which calls move the bytes.
    #[serde(default)]
    pub syscalls: Syscalls,
    /// Messages of one call ([`Syscalls::Batch`], [`Syscalls::Segments`]), 1 to [`MAX_BATCH`]; a call of a stream
    /// of bytes has no more of them than fit into a MiB.
    #[serde(default = "one")]
    pub batch: u32,
    /// The ring of [`Engine::Rings`].
    #[serde(default)]
    pub ring: Option<Ring>,
    /// The cipher of [`Transport::Tls`].
    #[serde(default)]
    pub tls_cipher: TlsCipher,
    /// Number of connections, 1 to [`MAX_CONNECTIONS`].
    pub connections: u32,
    /// Payload of one write or request, 1 to [`MAX_MESSAGE_BYTES`].
    pub message_bytes: Bytes,
    /// Sizes of messages or requests, where they are not all `message_bytes`, which is then the greatest.
    #[serde(default)]
    pub message_sizes: Option<Sizes>,
    /// Seed of drawn sizes; both ends of a trial have the same, as each must know the sizes of the other.
    #[serde(default)]
    pub seed: u64,
    /// When operations are to begin; absent: a closed loop.
    #[serde(default)]
    pub arrivals: Option<Arrivals>,
    /// How long the answer to a datagram is waited for before the request counts as lost.
    #[serde(default = "hundred_milliseconds")]
    pub response_timeout_ns: Nanos,
    /// Where to connect (`Send`) or what to listen on (`Receive`): a numeric address with port; port 0
    /// lets the kernel choose. Names are resolved by the lab.
    #[serde(default)]
    pub address: Option<String>,
    /// Where further receivers listen. The sender's connections go to the one at `address` and to these in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote_addresses: Vec<String>,
    /// Number of the sender's first connection at each receiver: those before it are other senders'. A receiver counts the
    /// connections of all senders, from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_connection: u32,
    /// Numeric addresses, without a port, that the sender's connections come from in turn; empty: the kernel chooses.
    #[serde(default)]
    pub local_addresses: Vec<String>,
    /// Socket options to ask for.
    #[serde(default)]
    pub socket: SocketOptions,
}

fn one() -> u32 {
    1
}

// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn hundred_milliseconds() -> Nanos {
    Nanos(100_000_000)
}

impl Default for Network {
    /// The sender of one connection of bulk transmit over TCP, without an address.
    fn default() -> Self {
        Network {
            role: Role::Send,
            traffic: TrafficKind::Stream.into(),
            transport: Transport::Tcp,
            engine: Engine::Threads,
            syscalls: Syscalls::ReadWrite,
            batch: 1,
            ring: None,
            tls_cipher: TlsCipher::default(),
            connections: 1,
            message_bytes: Bytes(65_536),
            message_sizes: None,
            seed: 0,
            arrivals: None,
            response_timeout_ns: hundred_milliseconds(),
            address: None,
            remote_addresses: Vec::new(),
            first_connection: 0,
            local_addresses: Vec::new(),
            socket: SocketOptions::default(),
        }
    }
}

impl Network {
    /// What is done on each connection, without its parameters.
    #[must_use]
    pub fn kind(&self) -> TrafficKind {
        match self.traffic {
            Traffic::Stream(_) => TrafficKind::Stream,
            Traffic::RequestResponse(_) => TrafficKind::RequestResponse,
            Traffic::ConnectRequestResponse(_) => TrafficKind::ConnectRequestResponse,
        }
    }

    /// The stream, where it is one.
    #[must_use]
    pub fn stream(&self) -> Option<&Stream> {
        match &self.traffic {
            Traffic::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    /// Requests and answers on connections that are up, where it is that.
    #[must_use]
    pub fn exchange(&self) -> Option<&RequestResponse> {
        match &self.traffic {
            Traffic::RequestResponse(exchange) => Some(exchange),
            _ => None,
        }
    }

    /// What this end does besides.
    #[must_use]
    pub fn application(&self) -> Application {
        match &self.traffic {
            Traffic::Stream(stream) => stream.application,
            Traffic::RequestResponse(exchange) => exchange.application,
            Traffic::ConnectRequestResponse(_) => Application::default(),
        }
    }

    /// Payload of an answer; of a stream, which has none, a byte.
    #[must_use]
    pub fn response_bytes(&self) -> Bytes {
        match &self.traffic {
            Traffic::Stream(_) => Bytes(1),
            Traffic::RequestResponse(exchange) => exchange.response_bytes,
            Traffic::ConnectRequestResponse(anew) => anew.response_bytes,
        }
    }

    /// Requests in flight on a connection at a time.
    #[must_use]
    pub fn queue_depth(&self) -> u32 {
        self.exchange().map_or(1, |exchange| exchange.queue_depth)
    }

    /// How often a datagram without an answer is sent again.
    #[must_use]
    pub fn retries(&self) -> u32 {
        self.exchange().map_or(0, |exchange| exchange.retries)
    }

    /// Whether who waits looks again and again and never sleeps.
    #[must_use]
    pub fn busy_wait(&self) -> bool {
        self.exchange().is_some_and(|exchange| exchange.busy_wait)
    }

    /// Which way the payload goes.
    #[must_use]
    pub fn direction(&self) -> Direction {
        self.stream().map_or(Direction::Forward, |stream| stream.direction)
    }

    /// Whether each operation opens a connection of its own.
    #[must_use]
    pub fn connects_anew(&self) -> bool {
        matches!(self.traffic, Traffic::ConnectRequestResponse(_))
    }

    /// Receivers that the sender's connections go to.
    #[must_use]
    pub fn receivers(&self) -> usize {
        1 + self.remote_addresses.len()
    }

    /// Where a connection of this end goes to.
    #[must_use]
    pub fn address_of(&self, connection: usize) -> Option<&str> {
        match connection % self.receivers() {
            0 => self.address.as_deref(),
            further => self.remote_addresses.get(further - 1).map(String::as_str),
        }
    }

    /// The number by which the receiver knows a connection of this end.
    #[must_use]
    pub fn number_of(&self, connection: usize) -> u32 {
        self.first_connection + (connection / self.receivers()) as u32
    }

    /// Whether this end writes the payload of a stream.
    #[must_use]
    pub fn writes_stream(&self) -> bool {
        self.stream().is_some_and(|stream| match stream.direction {
            Direction::Forward => self.role == Role::Send,
            Direction::Reverse => self.role == Role::Receive,
            Direction::Both => true,
        })
    }

    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first key that holds something that is not allowed.
    pub fn check(&self) -> Result<(), JobError> {
        let refuse = |key, found: &dyn std::fmt::Display, allowed: String| {
            Err(JobError { key, found: found.to_string(), allowed })
        };
        let application = self.application();
        if application.compute_ns > MAX_COMPUTE {
            return refuse("compute_ns", &application.compute_ns.0, format!("0 to {}", MAX_COMPUTE.0));
        }
        if application.think_ns > MAX_THINK {
            return refuse("think_ns", &application.think_ns.0, format!("0 to {}", MAX_THINK.0));
        }
        if application.burst == 0 {
            return refuse("burst", &0, "1 or more".to_owned());
        }
        if !(1..=MAX_CONNECTIONS).contains(&self.connections) {
            return refuse("connections", &self.connections, format!("1 to {MAX_CONNECTIONS}"));
        }
        if !(1..=MAX_BATCH).contains(&self.batch) {
            return refuse("batch", &self.batch, format!("1 to {MAX_BATCH}"));
        }
        if !(1..=MAX_QUEUE_DEPTH).contains(&self.queue_depth()) {
            return refuse("queue_depth", &self.queue_depth(), format!("1 to {MAX_QUEUE_DEPTH}"));
        }
        if let Some(Err((found, allowed))) = self.arrivals.as_ref().map(Arrivals::check) {
            return refuse("arrivals", &found, allowed.to_owned());
        }
        if self.engine == Engine::Rings && self.ring.is_none() {
            return refuse("ring", &"nothing", "the shape of the ring".to_owned());
        }
        self.check_sizes()?;
        self.check_ends()?;
        let foreign = |address: &&String| address.parse::<core::net::IpAddr>().is_err();
        match self.local_addresses.iter().find(foreign) {
            Some(address) => {
                refuse("local_addresses", address, "numeric addresses without a port".to_owned())
            }
            None => Ok(()),
        }
    }

    /// That the sender knows where its connections go to, and that the receiver can tell those of all senders apart.
    fn check_ends(&self) -> Result<(), JobError> {
        let refuse = |key, found: String, allowed: String| Err(JobError { key, found, allowed });
        let numeric = self.transport.is_numeric();
        check_address(numeric, self.role, self.address.as_deref())?;
        if self.role == Role::Receive && !self.remote_addresses.is_empty() {
            let found = self.remote_addresses.len().to_string();
            return refuse("remote_addresses", found, "none, at the receiving end".to_owned());
        }
        let last =
            u64::from(self.first_connection) + u64::from(self.connections).div_ceil(self.receivers() as u64);
        if self.first_connection > 0 && (self.role == Role::Receive || last > u64::from(MAX_CONNECTIONS)) {
            let allowed = format!("0 at the receiving end, and up to {MAX_CONNECTIONS} connections in all");
            return refuse("first_connection", self.first_connection.to_string(), allowed);
        }
        let far = self.remote_addresses.iter();
        far.map(|address| check_address(numeric, self.role, Some(address)))
            .find(Result::is_err)
            .unwrap_or(Ok(()))
            .map_err(|error| JobError { key: "remote_addresses", ..error })
    }

    /// That messages and answers are as long as what they travel in allows.
    fn check_sizes(&self) -> Result<(), JobError> {
        let refuse = |key, found: &dyn std::fmt::Display, allowed: String| {
            Err(JobError { key, found: found.to_string(), allowed })
        };
        let multiplexed = self.exchange().is_some_and(|exchange| exchange.multiplexed);
        let (least, most, why) = if multiplexed {
            let why = ": a multiplexed message shows its identifier and its length";
            (MULTIPLEX_HEADER_BYTES, MAX_MULTIPLEXED_BYTES, why)
        } else if self.transport.is_datagram() {
            (DATAGRAM_HEADER_BYTES, MAX_DATAGRAM_BYTES, ": a datagram shows the trial's token and its number")
        } else {
            (1, MAX_MESSAGE_BYTES, "")
        };
        let answers = self.stream().map_or(self.response_bytes(), |_| self.message_bytes);
        for (key, bytes) in [("message_bytes", self.message_bytes), ("response_bytes", answers)] {
            if !(least..=most).contains(&bytes.0) {
                return refuse(key, &bytes.0, format!("{least} to {most}{why}"));
            }
        }
        let Some(sizes) = &self.message_sizes else { return Ok(()) };
        if let Err((found, allowed)) = sizes.check(self.message_bytes.0) {
            return refuse("message_sizes", &found, allowed);
        }
        match sizes.least_bytes() {
            Some(shortest) if shortest.0 < least => {
                let found = format!("{} bytes", shortest.0);
                refuse("message_sizes", &found, format!("{least} bytes or more{why}"))
            }
            _ => Ok(()),
        }
    }
}

/// That a numeric address is one, with a port to connect to.
pub(crate) fn check_address(numeric: bool, role: Role, address: Option<&str>) -> Result<(), JobError> {
    let refuse = |found: &str, allowed: &str| {
        Err(JobError { key: "address", found: found.to_owned(), allowed: allowed.to_owned() })
    };
    if !numeric {
        return Ok(());
    }
    let address = address.unwrap_or("nothing");
    match address.parse::<core::net::SocketAddr>() {
        Err(_) => refuse(address, "a numeric address with port, such as 10.0.0.2:5201"),
        Ok(parsed) if role == Role::Send && parsed.port() == 0 => {
            refuse(address, "a port other than 0 to connect to")
        }
        Ok(_) => Ok(()),
    }
}
