//! Several senders of one receiver, several receivers of one sender, and both.

use std::thread;

use crate::pair::{job, with, Parts, MS};
use iodyno_core::arrivals::Sizes;
use iodyno_core::job::Job;
use iodyno_core::message::ErrorCode;
use iodyno_core::network::{Engine, Network, Role, TrafficKind, Transport};
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::{connect, listen, supports, Cancel, Finished};
use iodyno_sys::clock;

/// Connections between each sender and each receiver.
const EACH: u32 = 3;

/// Runs so many senders and receivers, every one of them with every other; their accounts.
fn mesh(of: &Job<Network>, senders: usize, receivers: usize) -> (Vec<Finished>, Vec<Finished>) {
    let cancel = Cancel::default();
    let receives = with(of.clone(), |job| {
        job.load.role = Role::Receive;
        job.load.connections = EACH * senders as u32;
    });
    let listeners: Vec<_> = (0..receivers).map(|_| listen(&receives, &cancel).unwrap()).collect();
    let addresses: Vec<_> =
        listeners.iter().map(|listener| format!("127.0.0.1:{}", listener.port())).collect();
    let accepting: Vec<_> =
        listeners.into_iter().map(|listener| thread::spawn(move || listener.accept_all().unwrap())).collect();
    let dialling: Vec<_> = (0..senders as u32)
        .map(|number| {
            let sends = with(of.clone(), |job| {
                job.load.connections = EACH * receivers as u32;
                job.load.first_connection = EACH * number;
                job.load.address = Some(addresses[0].clone());
                job.load.remote_addresses = addresses[1..].to_vec();
            });
            let cancel = cancel.clone();
            thread::spawn(move || connect(&sends, &cancel).unwrap())
        })
        .collect();
    let sending: Vec<_> = dialling.into_iter().map(|thread| thread.join().unwrap()).collect();
    let receiving: Vec<_> = accepting.into_iter().map(|thread| thread.join().unwrap()).collect();
    // All of them are armed by then, on a busy machine too.
    let start = clock::monotonic().plus(Nanos(200 * MS));
    let receiving: Vec<_> = receiving.into_iter().map(|prepared| prepared.arm(start)).collect();
    let sending: Vec<_> = sending.into_iter().map(|prepared| prepared.arm(start)).collect();
    let sent = sending.into_iter().map(iodyno_load::Running::join).collect();
    (sent, receiving.into_iter().map(iodyno_load::Running::join).collect())
}

fn bytes(finished: &[Finished]) -> u64 {
    finished.iter().map(|one| one.totals.bytes).sum()
}

#[test]
fn what_all_senders_sent_is_what_all_receivers_got_on_every_connection() {
    for (transport, engine, kind) in [
        (Transport::Tcp, Engine::Epoll, TrafficKind::Stream),
        (Transport::Tcp, Engine::Threads, TrafficKind::RequestResponse),
        (Transport::Tls, Engine::Epoll, TrafficKind::Stream),
        (Transport::Udp, Engine::Epoll, TrafficKind::RequestResponse),
    ] {
        for (senders, receivers) in [(3, 1), (1, 3), (2, 2)] {
            let of = with(job(Role::Send, engine, EACH, 4_000, 200), |job| {
                job.load.transport = transport;
                job.load.traffic = kind.into();
                if transport == Transport::Udp {
                    job.load.message_bytes = Bytes(200);
                    *job.answer() = Bytes(200);
                }
            });
            let (sent, received) = mesh(&of, senders, receivers);
            let what = format!("{transport:?} {engine:?} {kind:?} {senders} to {receivers}");
            assert!(sent.iter().chain(&received).all(|one| one.failure.is_none()), "{what}");
            assert!(sent.iter().all(|one| one.totals.bytes > 0), "{what}: a sender sent nothing");
            if transport != Transport::Udp {
                assert_eq!(bytes(&sent), bytes(&received), "{what}");
            }
            // Connection i of sender s is number 3 s + i / M of receiver i mod M, and carries there what it carried here.
            for (at, got) in received.iter().enumerate() {
                let there: Vec<u64> = sent
                    .iter()
                    .flat_map(|one| one.totals.connection_bytes.iter().copied().skip(at).step_by(receivers))
                    .collect();
                if transport != Transport::Udp {
                    assert_eq!(got.totals.connection_bytes, there, "{what}: receiver {at}");
                }
                assert_eq!(got.totals.connection_bytes.len(), there.len(), "{what}");
            }
        }
    }
}

#[test]
fn connections_that_come_anew_go_to_every_receiver_in_turn() {
    let of = with(job(Role::Send, Engine::Epoll, EACH, 100, 200), |job| {
        job.load.traffic = TrafficKind::ConnectRequestResponse.into();
    });
    let (sent, received) = mesh(&of, 2, 2);
    let done = |of: &[Finished]| of.iter().map(|one| one.totals.operations).sum::<u64>();
    assert!(sent.iter().chain(&received).all(|one| one.totals.operations > 0));
    // What was answered as the load stopped may not have come to its end at the other end.
    assert!(done(&received) >= done(&sent));
}

#[test]
fn drawn_sizes_are_those_of_the_connection_at_its_receiver() {
    let of = with(job(Role::Send, Engine::Epoll, EACH, 3_000, 100), |job| {
        job.load.traffic = TrafficKind::RequestResponse.into();
        job.load.seed = 7;
        job.load.message_sizes = Some(Sizes::Uniform { least_bytes: Bytes(1), greatest_bytes: Bytes(3_000) });
    });
    let (sent, received) = mesh(&of, 3, 2);
    // An end that expected other lengths would wait for bytes that never come, or take a request for two.
    assert!(sent.iter().all(|one| one.totals.operations > 0));
    assert_eq!(bytes(&sent), bytes(&received));
}

#[test]
fn each_end_has_what_only_it_may_have() {
    let of = |change: fn(&mut Network)| {
        let mut load = job(Role::Send, Engine::Epoll, 2, 100, 10).load;
        load.address = Some("127.0.0.1:7".to_owned());
        change(&mut load);
        load
    };
    assert_eq!(of(|load| load.remote_addresses = vec!["127.0.0.1:8".to_owned()]).check(), Ok(()));
    let key = |load: Network| load.check().unwrap_err().key;
    assert_eq!(key(of(|load| load.remote_addresses = vec!["server:8".to_owned()])), "remote_addresses");
    assert_eq!(key(of(|load| load.remote_addresses = vec!["127.0.0.1:0".to_owned()])), "remote_addresses");
    let receives = |load: &mut Network| {
        load.role = Role::Receive;
        load.first_connection = 1;
    };
    assert_eq!(key(of(receives)), "first_connection");
    assert_eq!(key(of(|load| load.first_connection = u32::MAX)), "first_connection");
    let ring = of(|load| {
        (load.transport, load.engine, load.first_connection) = (Transport::Udp, Engine::Rings, 1);
    });
    let refused = supports(&ring).unwrap_err();
    assert_eq!((refused.code, refused.place.as_str()), (ErrorCode::Unsupported, "first_connection"));
}
