//! A connection for each request: counted, ended, and not stopped by what goes wrong.

use std::io::Write;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::pair::{both_moved, job, over, prepare, run_until, with, Parts, ENGINES, MS};
use iodyno_core::job::Job;
use iodyno_core::network::{Engine, Network, Role, TrafficKind, Transport};
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{listen, Cancel};
use iodyno_sys::clock;

fn exchange(role: Role, engine: Engine, connections: u32, load_ms: u64) -> Job<Network> {
    let plain = job(role, engine, connections, 700, load_ms);
    with(plain, |job| {
        job.load.traffic = TrafficKind::ConnectRequestResponse.into();
        *job.answer() = Bytes(3_000);
    })
}

#[test]
fn every_operation_has_a_connection_of_its_own() {
    for near in ENGINES {
        for far in ENGINES {
            let sender = exchange(Role::Send, near, 6, 50);
            let receiver = exchange(Role::Receive, far, 6, 50);
            let (sent, received) = run_until(&sender, &receiver, both_moved);
            let case = format!("{near:?} {far:?}");
            let (sent, received) = (sent.totals, received.totals);
            assert!(sent.operations > 0, "{case}");
            assert_eq!(sent.operations, received.operations, "{case}");
            let cut = sent.rare.opened - sent.operations;
            assert!(cut <= 6, "{case}: of each flow one, at the stop: {:?}", sent.rare);
            assert!((700 * sent.operations..=700 * sent.rare.opened).contains(&sent.bytes), "{case}");
            assert!((sent.operations..=sent.rare.opened).contains(&received.rare.opened), "{case}");
            assert_eq!(sent.rare.refused + sent.rare.failed + received.rare.failed, 0, "{case}");
            assert_eq!(sent.connections_lost + received.connections_lost, 0, "{case}");
        }
    }
}

#[test]
fn the_same_over_unix_sockets_and_tls_with_and_without_sessions_taken_up_again() {
    for (transport, tls_resumption) in
        [(Transport::Unix, false), (Transport::Tls, false), (Transport::Tls, true)]
    {
        for (near, far) in [(Engine::Threads, Engine::Epoll), (Engine::Epoll, Engine::Threads)] {
            for bytes in [64, 40_000] {
                let of = |role, engine| {
                    let plain = over(transport, exchange(role, engine, 4, 50));
                    with(plain, |job| {
                        job.anew().tls_resumption = tls_resumption;
                        job.load.message_bytes = Bytes(bytes);
                    })
                };
                let (sender, receiver) = (of(Role::Send, near), of(Role::Receive, far));
                let (sent, received) = run_until(&sender, &receiver, both_moved);
                let case = format!("{transport:?} {tls_resumption} {near:?} {far:?} {bytes}");
                let (sent, received) = (sent.totals, received.totals);
                assert!(sent.operations > 0, "{case}");
                assert_eq!(
                    sent.operations, received.operations,
                    "{case}: {:?} {:?}",
                    sent.rare, received.rare
                );
                // Requests that nobody answered any more: of each flow one at most, asked before the stop.
                let cut = sent.bytes - received.bytes;
                assert!(cut <= 4 * bytes, "{case}: {cut}");
                assert!(sent.rare.opened - sent.operations <= 4, "{case}: {:?}", sent.rare);
                assert_eq!(sent.rare.failed + received.rare.failed, 0, "{case}");
            }
        }
    }
}

#[test]
fn connections_that_nobody_takes_are_counted_and_tried_again() {
    for engine in ENGINES {
        let sender = exchange(Role::Send, engine, 2, 200);
        let cancel = Cancel::default();
        let (sender, receiver) = prepare(&sender, &exchange(Role::Receive, engine, 2, 200), &cancel).unwrap();
        // With the receiver, its listening socket is gone.
        drop(receiver);
        let sent = sender.arm(clock::monotonic()).join().totals;
        // One attempt in a millisecond or so of each flow: none of them in a spin.
        assert!((2..=2 * 2 * 200).contains(&sent.rare.refused), "{engine:?}: {:?}", sent.rare);
        assert_eq!(sent.operations, 0, "{engine:?}");
    }
}

#[test]
fn thousands_of_flows_refused_at_once_are_counted_and_end_in_time() {
    let (sender, receiver) = (exchange(Role::Send, Engine::Epoll, 4_000, 200), Engine::Epoll);
    let receiver = exchange(Role::Receive, receiver, 4_000, 200);
    let (sender, receiver) = prepare(&sender, &receiver, &Cancel::default()).unwrap();
    drop(receiver);
    let begun = Instant::now();
    let sent = sender.arm(clock::monotonic()).join().totals;
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    // Each flow tried once at least, before the stop came.
    assert!(sent.rare.refused > 0, "{:?}", sent.rare);
    assert_eq!((sent.operations, sent.rare.opened), (0, 0), "{:?}", sent.rare);
}

#[test]
fn who_does_not_show_the_token_is_turned_away_and_holds_nobody_up() {
    for engine in ENGINES {
        let cancel = Cancel::default();
        let receiver = exchange(Role::Receive, engine, 3, 400);
        let listener = listen(&receiver, &cancel).unwrap();
        let port = listener.port();
        let sender = with(exchange(Role::Send, engine, 3, 400), |job| {
            job.load.address = Some(format!("127.0.0.1:{port}"));
        });
        let connecting = std::thread::spawn(move || iodyno_load::connect(&sender, &cancel));
        let receiver = listener.accept_all().unwrap();
        let sender = connecting.join().unwrap().unwrap();
        let start = clock::monotonic().plus(Nanos(30 * MS));
        let (receiving, sending) = (receiver.arm(start), sender.arm(start));
        clock::sleep_until(start.plus(Nanos(50 * MS))).unwrap();
        let mut foreign = TcpStream::connect(("127.0.0.1", port)).unwrap();
        foreign.write_all(&[7; 64]).unwrap();
        let (sent, received) = (sending.join().totals, receiving.join().totals);
        assert_eq!(received.rare.refused, 1, "{engine:?}");
        assert!(sent.operations > 0 && sent.operations == received.operations, "{engine:?}");
    }
}

/// What somebody may do who is none of the two ends.
#[derive(Clone, Copy, Debug)]
enum Stranger {
    Silent,
    Garbage,
    PartOfAToken,
    Gone,
    Reset,
}

impl Stranger {
    fn connect(self, port: u16) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let said: &[u8] = match self {
            Stranger::Garbage => &[7; 64],
            Stranger::PartOfAToken | Stranger::Reset => b"iody",
            Stranger::Silent | Stranger::Gone => b"",
        };
        stream.write_all(said).unwrap();
        match self {
            Stranger::Gone => return None,
            Stranger::Reset => {
                iodyno_sys::socket::reset_on_close(stream.as_fd()).unwrap();
                return None;
            }
            _ => {}
        }
        Some(stream)
    }
}

#[test]
fn strangers_are_counted_and_hold_nobody_up_however_many_come() {
    let strangers =
        [Stranger::Silent, Stranger::Garbage, Stranger::PartOfAToken, Stranger::Gone, Stranger::Reset];
    for (number, (engine, transport)) in ENGINES
        .iter()
        .flat_map(|engine| [Transport::Tcp, Transport::Tls].map(|transport| (*engine, transport)))
        .enumerate()
    {
        // Every engine meets all of them by TCP, and by TLS each in its turn.
        let met =
            if transport == Transport::Tcp { &strangers[..] } else { &strangers[number / 2 % 5..][..1] };
        for stranger in met {
            let case = format!("{engine:?} {transport:?} {stranger:?}");
            let of = |role| over(transport, exchange(role, engine, 2, 700));
            let cancel = Cancel::default();
            let listener = listen(&of(Role::Receive), &cancel).unwrap();
            let port = listener.port();
            let sender = with(of(Role::Send), |job| {
                job.load.address = Some(format!("127.0.0.1:{port}"));
            });
            let connecting = std::thread::spawn(move || iodyno_load::connect(&sender, &cancel));
            let receiver = listener.accept_all().unwrap();
            let sender = connecting.join().unwrap().unwrap();
            // They stand before everybody, and more come while the load is on.
            let mut open: Vec<_> = (0..40).map(|_| stranger.connect(port)).collect();
            let start = clock::monotonic().plus(Nanos(30 * MS));
            let (receiving, sending) = (receiver.arm(start), sender.arm(start));
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(5));
                open.push(stranger.connect(port));
            }
            let (sent, received) = (sending.join().totals, receiving.join().totals);
            // One of them that held a thread for its two seconds would leave none.
            assert!(sent.operations > 10, "{case}: {:?}", sent.rare);
            assert_eq!(sent.operations, received.operations, "{case}");
            assert_eq!((sent.rare.failed, received.rare.failed), (0, 0), "{case}");
            // One that is reset may be gone before it is accepted, and what comes at the end after the last look. Of either
            // connection of the sender's own one may be under way when it stops.
            let fewest = if matches!(stranger, Stranger::Reset) { 0 } else { 20 };
            assert!((fewest..=62).contains(&received.rare.refused), "{case}: {:?}", received.rare);
        }
    }
}

#[test]
fn strangers_that_came_before_the_connections_were_up_hold_nobody_up() {
    for engine in ENGINES {
        let cancel = Cancel::default();
        let listener = listen(&exchange(Role::Receive, engine, 2, 300), &cancel).unwrap();
        let port = listener.port();
        let sender = with(exchange(Role::Send, engine, 2, 300), |job| {
            job.load.address = Some(format!("127.0.0.1:{port}"));
        });
        let connecting = std::thread::spawn(move || iodyno_load::connect(&sender, &cancel));
        // Behind the job's own, and more than are looked at until those are proven: they are the first of the load.
        std::thread::sleep(Duration::from_millis(300));
        let strangers: Vec<_> = (0..300).map(|_| Stranger::Silent.connect(port)).collect();
        let receiver = listener.accept_all().unwrap();
        let sender = connecting.join().unwrap().unwrap();
        // Who waits for what they say would do so for ever.
        let (over, is_over) = std::sync::mpsc::channel::<()>();
        let leaving = std::thread::spawn(move || {
            let _ = is_over.recv_timeout(Duration::from_secs(20));
            drop(strangers);
        });
        let start = clock::monotonic().plus(Nanos(30 * MS));
        let (receiving, sending) = (receiver.arm(start), sender.arm(start));
        let (sent, received) = (sending.join().totals, receiving.join().totals);
        drop(over);
        leaving.join().unwrap();
        assert!(sent.operations > 0, "{engine:?}: {:?}", sent.rare);
        assert_eq!(sent.operations, received.operations, "{engine:?}");
    }
}

#[test]
fn a_stop_ends_both_ends_soon() {
    for engine in ENGINES {
        let cancel = Cancel::default();
        let (sender, receiver) = prepare(
            &exchange(Role::Send, engine, 3, 60_000),
            &exchange(Role::Receive, engine, 3, 60_000),
            &cancel,
        )
        .unwrap();
        let (receiving, sending) = (receiver.arm(clock::monotonic()), sender.arm(clock::monotonic()));
        std::thread::sleep(Duration::from_millis(100));
        let begun = Instant::now();
        cancel.cancel();
        let (sent, received) = (sending.join().totals, receiving.join().totals);
        // Long before the load's end.
        assert!(begun.elapsed() < Duration::from_secs(30), "{engine:?}: {:?}", begun.elapsed());
        assert_eq!(sent.connections_lost + received.connections_lost, 0);
    }
}
