//! Strangers that connect, and receivers that take nobody.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::pair::{job, with, TOKEN};
use iodyno_core::message::ErrorCode;
use iodyno_core::network::{Engine, Role, Transport};
use iodyno_load::{connect, listen, Cancel, LoadError};

/// Whether the peer closes the connection, with or without a reset, and without saying anything.
fn is_closed(mut stream: TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    match stream.read(&mut [0; 8]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn strangers_are_turned_away_and_hold_nobody_up() {
    // A stranger who holds up does so each time; a busy machine at one time or another.
    for engine in [Engine::Threads, Engine::Epoll] {
        let quick = (0..5).any(|_| time_to_connect_among_strangers(engine) < Duration::from_millis(1_500));
        assert!(quick, "{engine:?}: held up by a stranger");
    }
}

fn time_to_connect_among_strangers(engine: Engine) -> Duration {
    let cancel = Cancel::default();
    let listener = listen(&job(Role::Receive, engine, 20, 1_000, 50), &cancel).unwrap();
    let port = listener.port();
    let accepting = thread::spawn(move || listener.accept_all());
    let stranger = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (mut garbage, mut web, silent, mut slow) = (stranger(), stranger(), stranger(), stranger());
    garbage.write_all(&[0xa5; 500]).unwrap();
    web.write_all(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n").unwrap();
    slow.write_all(b"I").unwrap();
    let mut other = job(Role::Send, engine, 2, 1_000, 50);
    other.load.address = Some(format!("127.0.0.1:{port}"));
    other.token = "f".repeat(32);
    let error = connect(&other, &cancel).err().expect("the wrong token is refused");
    assert_eq!(error.code, ErrorCode::Address);
    assert!(is_closed(garbage) && is_closed(web));
    // `silent` and `slow` still hang; the job's own connections come up meanwhile.
    let ours = with(other, |job| {
        job.token = TOKEN.to_owned();
        job.load.connections = 20;
    });
    let begun = Instant::now();
    let sender = connect(&ours, &cancel).unwrap();
    let took = begun.elapsed();
    let receiver = accepting.join().unwrap().unwrap();
    assert_eq!((sender.connections(), receiver.connections()), (20, 20));
    // Two at least, and at most the two of the wrong token, and four others.
    assert!((5..=6).contains(&receiver.foreign_refused()), "{}", receiver.foreign_refused());
    assert!(is_closed(silent) && is_closed(slow));
    took
}

#[test]
fn an_index_counts_once_and_must_be_one_of_the_job() {
    let cancel = Cancel::default();
    let listener = listen(&job(Role::Receive, Engine::Epoll, 2, 1_000, 50), &cancel).unwrap();
    let port = listener.port();
    let accepting = thread::spawn(move || listener.accept_all());
    // Learn the preamble from the sender itself, with a listener of our own.
    let spy = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = job(Role::Send, Engine::Epoll, 1, 1_000, 50);
    sender.load.address = Some(spy.local_addr().unwrap().to_string());
    let spied = thread::spawn(move || connect(&sender, &Cancel::default()).is_err());
    let mut first = [0; 32];
    let (mut caught, _) = spy.accept().unwrap();
    caught.read_exact(&mut first).unwrap();
    drop(caught);
    assert!(spied.join().unwrap());
    let show = |preamble: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // In two parts, as a network may deliver it.
        stream.write_all(&preamble[..10]).unwrap();
        thread::sleep(Duration::from_millis(30));
        stream.write_all(&preamble[10..]).unwrap();
        stream
    };
    let mut kept = show(&first);
    kept.read_exact(&mut [0]).expect("the first one with the index is acknowledged");
    assert!(is_closed(show(&first)), "the same index again");
    let differing: Vec<_> = first.iter().map(|byte| *byte == 0).collect();
    assert!(differing.iter().any(|zero| *zero));
    let mut beyond = first;
    for byte in beyond.iter_mut().rev().take(8) {
        *byte |= 0x40;
    }
    assert!(is_closed(show(&beyond)), "an index beyond the job");
    cancel.cancel();
    assert!(accepting.join().unwrap().is_err());
}

#[test]
fn a_thousand_silent_strangers_do_not_keep_the_job_out() {
    let cancel = Cancel::default();
    let listener = listen(&job(Role::Receive, Engine::Epoll, 10, 1_000, 50), &cancel).unwrap();
    let port = listener.port();
    let accepting = thread::spawn(move || listener.accept_all());
    iodyno_sys::limits::raise_descriptors(6_000);
    let strangers: Vec<_> = (0..1_100).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    let mut sender = job(Role::Send, Engine::Epoll, 10, 1_000, 50);
    sender.load.address = Some(format!("127.0.0.1:{port}"));
    let sender = connect(&sender, &cancel).unwrap();
    let receiver = accepting.join().unwrap().unwrap();
    assert_eq!((sender.connections(), receiver.connections()), (10, 10));
    assert!(receiver.foreign_refused() > 0);
    drop(strangers);
}

fn refusal(address: &str, role: Role) -> LoadError {
    let mut job = job(role, Engine::Epoll, 1, 1_000, 50);
    job.load.address = Some(address.to_owned());
    let cancel = Cancel::default();
    let error = match role {
        Role::Receive => listen(&job, &cancel).err(),
        _ => connect(&job, &cancel).err(),
    };
    let error = error.expect("refused");
    assert!(!error.what.is_empty() && !error.place.is_empty() && !error.advice.is_empty(), "{error:?}");
    error
}

#[test]
fn ten_thousand_connections_refused_at_once_are_one_error_and_leave_nothing() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // Other tests of this process open and close descriptors, too; none of them has so many.
    let before = descriptors();
    for engine in [Engine::Threads, Engine::Epoll] {
        let mut job = job(Role::Send, engine, 10_000, 1_000, 50);
        job.load.address = Some(nobody.to_string());
        let error = connect(&job, &Cancel::default()).err().expect("refused");
        assert_eq!(error.code, ErrorCode::Address, "{error}");
        assert!(error.what.contains("of 10000") && error.advice.contains("receiver"), "{error:?}");
    }
    assert!(descriptors() < before + 2_000, "{before} became {}", descriptors());
}

#[test]
fn what_cannot_be_reached_or_listened_on_is_an_address_error() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert_eq!(refusal(&address, Role::Receive).code, ErrorCode::Address);
    drop(taken);
    assert_eq!(refusal(&address, Role::Send).code, ErrorCode::Address);
    assert_eq!(refusal("no address", Role::Send).code, ErrorCode::Job);
    assert_eq!(refusal("no address", Role::Receive).code, ErrorCode::Job);
}

#[test]
fn who_listens_is_reached_at_its_address_alone_and_behind_a_translation_at_every_one() {
    let listening = |transport: Transport, address: &str| {
        let job = with(job(Role::Receive, Engine::Epoll, 1, 64, 50), |job| {
            job.load.transport = transport;
            job.load.address = Some(format!("{address}:0"));
        });
        listen(&job, &Cancel::default()).unwrap()
    };
    for (address, reached) in [("127.0.0.2", false), ("192.0.2.1", true)] {
        let listener = listening(Transport::Tcp, address);
        // TEST-NET-1 (RFC 5737) has addresses of no host: one that others use is one that is translated on the way.
        assert_eq!(TcpStream::connect(("127.0.0.3", listener.port())).is_ok(), reached, "{address}");
        let listener = listening(Transport::Udp, address);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.3", listener.port())).unwrap();
        socket.send(b"x").unwrap();
        // Where nobody listens, the kernel says so with the next call.
        assert_eq!(socket.send(b"x").is_ok(), reached, "{address}");
    }
}

#[test]
fn an_unknown_congestion_control_is_a_fault_of_the_job_and_names_the_known() {
    for role in [Role::Send, Role::Receive] {
        let mut job = job(role, Engine::Epoll, 1, 1_000, 50);
        job.load.address = Some("127.0.0.1:9".to_owned());
        job.load.socket.congestion_control = Some("nosuch".to_owned());
        let cancel = Cancel::default();
        let error =
            if role == Role::Send { connect(&job, &cancel).err() } else { listen(&job, &cancel).err() };
        let error = error.expect("refused");
        assert_eq!(error.code, ErrorCode::Job, "{error:?}");
        let all = format!("{error:?}");
        assert!(all.contains("nosuch") && all.contains("reno"), "{all}");
    }
}

/// How long something takes to come back after it was cancelled.
fn time_to_return<T: Send + 'static>(
    cancel: &Cancel,
    wait: impl FnOnce() -> T + Send + 'static,
) -> (T, Duration) {
    let waiting = thread::spawn(wait);
    thread::sleep(Duration::from_millis(100));
    assert!(!waiting.is_finished());
    let begun = Instant::now();
    cancel.cancel();
    let outcome = waiting.join().unwrap();
    (outcome, begun.elapsed())
}

// The promise is 50 ms; a busy machine may take longer. Without it, the wait would last for the 10 s that hosts are given.
const SOON: Duration = Duration::from_secs(8);

#[test]
fn cancelling_ends_the_wait_for_connections() {
    let cancel = Cancel::default();
    let listener = listen(&job(Role::Receive, Engine::Epoll, 2, 1_000, 50), &cancel).unwrap();
    let (outcome, took) = time_to_return(&cancel, move || listener.accept_all().is_err());
    assert!(outcome && took < SOON, "{took:?}");
}

#[test]
fn cancelling_ends_the_connecting() {
    // Listens, and never says a word.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = job(Role::Send, Engine::Threads, 2, 1_000, 50);
    sender.load.address = Some(mute.local_addr().unwrap().to_string());
    let cancel = Cancel::default();
    let other = cancel.clone();
    let (outcome, took) = time_to_return(&cancel, move || connect(&sender, &other).is_err());
    assert!(outcome && took < SOON, "{took:?}");
}
