//! A sender and a receiver in one process, over loopback.

#![allow(dead_code, reason = "every test file uses a part of it")]
#![allow(clippy::print_stderr, reason = "a test says what it skips")]

use std::thread;

use iodyno_core::histogram::Snapshot;
use iodyno_core::job::Job;
use iodyno_core::network::{
    Application, ConnectRequestResponse, Engine, Network, RequestResponse, Role, Stream, Traffic, Transport,
};
use iodyno_core::phase::Windows;
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{connect, listen, Cancel, Finished, LoadError, Prepared, Totals};
use iodyno_sys::clock;

/// The token of every test's trial.
pub const TOKEN: &str = "000102030405060708090a0b0c0d0e0f";
/// Milliseconds in nanoseconds.
pub const MS: u64 = 1_000_000;
/// The engines that every host has.
pub const ENGINES: [Engine; 2] = [Engine::Threads, Engine::Epoll];

/// Those and `io_uring`, where this host allows it.
pub fn engines() -> Vec<Engine> {
    let mut engines = ENGINES.to_vec();
    match iodyno_sys::stream_ring::available() {
        Ok(()) => engines.push(Engine::IoUring),
        Err(why) => eprintln!("not tested with io_uring: {why}"),
    }
    engines
}

/// Those and the one that only streams one way have.
pub fn stream_engines() -> Vec<Engine> {
    let mut engines = engines();
    engines.push(Engine::RoundRobin);
    engines
}

/// A job with the load on for `load_ms`.
pub fn job(role: Role, engine: Engine, connections: u32, message: u64, load_ms: u64) -> Job<Network> {
    Job {
        trial: "test".to_owned(),
        token: TOKEN.to_owned(),
        load: Network {
            role,
            engine,
            connections,
            message_bytes: Bytes(message),
            address: Some("127.0.0.1:0".to_owned()),
            ..Network::default()
        },
        windows: Windows {
            warm_up_ns: Nanos(0),
            measured_ns: Nanos(load_ms * MS),
            drain_ns: Nanos(0),
            interval_ns: Nanos::SECOND,
        },
        ..Job::default()
    }
}

/// A job that differs.
pub fn with(mut job: Job<Network>, change: impl FnOnce(&mut Job<Network>)) -> Job<Network> {
    change(&mut job);
    job
}

/// What only some kinds of traffic have; the job must be of one that has it.
pub trait Parts {
    fn stream(&mut self) -> &mut Stream;
    fn exchange(&mut self) -> &mut RequestResponse;
    fn anew(&mut self) -> &mut ConnectRequestResponse;
    fn application(&mut self) -> &mut Application;
    fn answer(&mut self) -> &mut Bytes;
}

impl Parts for Job<Network> {
    fn stream(&mut self) -> &mut Stream {
        let Traffic::Stream(stream) = &mut self.load.traffic else { panic!("no stream") };
        stream
    }

    fn exchange(&mut self) -> &mut RequestResponse {
        let Traffic::RequestResponse(exchange) = &mut self.load.traffic else { panic!("no exchange") };
        exchange
    }

    fn anew(&mut self) -> &mut ConnectRequestResponse {
        let Traffic::ConnectRequestResponse(anew) = &mut self.load.traffic else { panic!("not anew") };
        anew
    }

    fn application(&mut self) -> &mut Application {
        match &mut self.load.traffic {
            Traffic::Stream(stream) => &mut stream.application,
            Traffic::RequestResponse(exchange) => &mut exchange.application,
            Traffic::ConnectRequestResponse(_) => panic!("no application"),
        }
    }

    fn answer(&mut self) -> &mut Bytes {
        match &mut self.load.traffic {
            Traffic::Stream(_) => panic!("no answers"),
            Traffic::RequestResponse(exchange) => &mut exchange.response_bytes,
            Traffic::ConnectRequestResponse(anew) => &mut anew.response_bytes,
        }
    }
}

/// Where the ends of a transport meet on this machine. Every trial has a token of its own: the name of a Unix socket is
/// made of it, and tests run side by side.
pub fn over(transport: Transport, job: Job<Network>) -> Job<Network> {
    let (token, address) = match transport {
        Transport::Unix => (unique_token(&job), None),
        Transport::Vsock => (job.token.clone(), Some("1:0".to_owned())),
        _ => (job.token.clone(), job.load.address.clone()),
    };
    with(job, |job| {
        job.load.transport = transport;
        job.token = token;
        job.load.address = address;
    })
}

/// The same for both ends of a pair that one thread makes.
fn unique_token(job: &Job<Network>) -> String {
    let thread = format!("{:?}", thread::current().id());
    let number: u64 = thread.bytes().filter(u8::is_ascii_digit).fold(0, |n, b| n * 10 + u64::from(b - b'0'));
    format!("{:08x}{number:08x}{}", std::process::id(), &job.token[16..])
}

/// Has `sender` connect to whatever port `receiver` gets; both prepared, the sender first.
pub fn prepare(
    sender: &Job<Network>,
    receiver: &Job<Network>,
    cancel: &Cancel,
) -> Result<(Prepared, Prepared), LoadError> {
    let listener = listen(receiver, cancel)?;
    let place = receiver.load.address.as_deref().and_then(|address| address.rsplit_once(':'));
    let address = place.map(|(host, _)| format!("{host}:{}", listener.port()));
    let sender = with(sender.clone(), |job| {
        job.load.address = address.or(receiver.load.address.clone());
    });
    let other = cancel.clone();
    let connecting = thread::spawn(move || connect(&sender, &other));
    let received = listener.accept_all();
    let sent = connecting.join().unwrap();
    Ok((sent?, received?))
}

/// Runs a pair to its end: sender's and receiver's account.
pub fn run(sender: &Job<Network>, receiver: &Job<Network>) -> (Finished, Finished) {
    let (sender, receiver) = prepare(sender, receiver, &Cancel::default()).unwrap();
    let start = clock::monotonic().plus(Nanos(30 * MS));
    let (receiving, sending) = (receiver.arm(start), sender.arm(start));
    (sending.join(), receiving.join())
}

/// Likewise, with the load on for longer and longer until it was `enough`: where others use the CPUs, a worker may not
/// have been on one, or not have come to its last connection, before the stop of a short load. What never moves does not
/// move in the longest, either, which is the outcome then.
pub fn run_until(
    sender: &Job<Network>,
    receiver: &Job<Network>,
    enough: impl Fn(&Finished, &Finished) -> bool,
) -> (Finished, Finished) {
    let lasting = |job: &Job<Network>, times: u64| {
        let mut job = job.clone();
        job.windows.measured_ns = Nanos(job.windows.measured_ns.0 * times);
        job
    };
    for times in [1, 10, 100] {
        let (sent, received) = run(&lasting(sender, times), &lasting(receiver, times));
        if enough(&sent, &received) {
            return (sent, received);
        }
    }
    run(&lasting(sender, 1_000), &lasting(receiver, 1_000))
}

/// Whether something came to its end at both ends.
pub fn both_moved(sent: &Finished, received: &Finished) -> bool {
    [sent, received].iter().all(|finished| finished.totals.operations > 0 && finished.totals.bytes > 0)
}

/// What holds for the totals of every finished job.
pub fn check_consistent(totals: &Totals, connections: u32) {
    assert_eq!(totals.connection_bytes.len(), connections as usize);
    assert_eq!(totals.bytes, totals.connection_bytes.iter().sum::<u64>());
    let histogram = totals.service_time.since(&Snapshot::default());
    assert_eq!(totals.operations, histogram.count);
    assert_eq!(totals.operations, histogram.counts.iter().sum::<u64>());
}
