//! Scripts with several other ends: each gets what is its own, in step with the others, and a failure of one is told by all.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::scripted::{
    check_consistent, job, lasting, mirror, op, operation, script, times, transaction, LONG_MS, MS,
};
use iodyno_core::account::ScriptAccount;
use iodyno_core::network::Role;
use iodyno_core::script::{Call, FlowOp, Protocol, Script, Transaction};
use iodyno_core::units::Nanos;
use iodyno_load::{connect_script, listen_script, Cancel, Finished};
use iodyno_sys::clock;

/// An operation on connection `connection`, with the end of that number.
fn with(remote: u32, connection: u32, operation: FlowOp) -> FlowOp {
    FlowOp { remote, connection, ..operation }
}

/// What the receiving end `own` does: the mirror, and nothing of what is between the sender and the others.
fn side(near: &Script, own: u32) -> Script {
    let mut far = mirror(near);
    let operations = far.groups.iter_mut().flat_map(|group| &mut group.transactions);
    for operation in operations.flat_map(|transaction| &mut transaction.operations) {
        let shared = matches!(operation.call, Call::Think | Call::Nop);
        *operation = match operation.remote == own || shared {
            true => FlowOp { remote: 0, ..operation.clone() },
            false => FlowOp { remote: 1, ..FlowOp::new(Call::Nop, &operation.label) },
        };
    }
    far
}

/// Runs a script against each of its other ends: what all of them did, the sender first.
fn carry_out(near: &Script, fars: &[Script]) -> Vec<Finished> {
    carry_out_by(near, fars, |_, port| port)
}

/// The same, where `way` gives the port by which the sender's link reaches that of an end.
fn carry_out_by(near: &Script, fars: &[Script], way: impl Fn(usize, u16) -> u16) -> Vec<Finished> {
    let cancel = Cancel::default();
    let listeners: Vec<_> = fars
        .iter()
        .map(|far| listen_script(&job(Role::Receive, far.clone(), LONG_MS), &cancel).unwrap())
        .collect();
    let ports = listeners.iter().enumerate().map(|(index, listener)| way(index, listener.port()));
    let mut addresses = ports.map(|port| format!("127.0.0.1:{port}"));
    let mut near = job(Role::Send, near.clone(), LONG_MS);
    (near.load.address, near.load.remote_addresses) = (addresses.next(), addresses.collect());
    let connecting = thread::spawn(move || connect_script(&near, &cancel));
    let accepting: Vec<_> = listeners.into_iter().map(|each| thread::spawn(|| each.accept_all())).collect();
    let ends = std::iter::once(connecting).chain(accepting).map(|each| each.join().unwrap().unwrap());
    let ends: Vec<_> = ends.collect();
    let start = clock::monotonic().plus(Nanos(30 * MS));
    let running: Vec<_> = ends.into_iter().map(|end| end.arm(start)).collect();
    running.into_iter().map(|end| end.join()).collect()
}

fn accounts(near: &Script, remotes: u32) -> Vec<ScriptAccount> {
    let fars: Vec<Script> = (0..remotes).map(|own| side(near, own)).collect();
    let ended = carry_out(near, &fars).into_iter().map(|finished| {
        assert_eq!(finished.failure, None);
        let account = finished.script.unwrap();
        assert!(account.complete);
        check_consistent(&account);
        account
    });
    ended.collect()
}

fn opening(remotes: u32, call: Call) -> Transaction {
    times(1, (0..remotes).map(|remote| with(remote, remote + 1, op(call, 0))).collect())
}

#[test]
fn one_thread_talks_with_three_ends_over_two_protocols() {
    let mut plan = vec![
        opening(3, Call::Connect),
        times(
            20,
            vec![
                with(0, 1, op(Call::Write, 64)),
                with(1, 2, op(Call::Write, 100)),
                with(0, 1, op(Call::Read, 128)),
                with(2, 3, op(Call::Read, 7)),
                with(1, 2, op(Call::Read, 200)),
            ],
        ),
        opening(3, Call::Disconnect),
    ];
    let over_udp = plan.iter_mut().flat_map(|each| &mut each.operations).filter(|each| each.remote == 2);
    over_udp.for_each(|each| each.protocol = Protocol::Udp);
    let ends = accounts(&script(2, plan), 3);
    let moved = |end: usize| -> Vec<u64> {
        transaction(&ends[end], 1).operations.iter().map(|each| each.bytes.0 / 40).collect()
    };
    assert_eq!(moved(0)[..3], [64, 100, 128]);
    assert_eq!(moved(1), [64, 0, 128, 0, 0]);
    assert_eq!(moved(2), [0, 100, 0, 0, 200]);
    let (sent, taken) = (operation(&ends[3], 1, 3), operation(&ends[0], 1, 3));
    assert_eq!(sent.operations, 40);
    assert_eq!(taken.operations + taken.lost, 40);
}

#[test]
fn a_duration_ends_all_ends_level_also_those_that_run_ahead() {
    let plan = vec![
        opening(2, Call::Connect),
        // The second end may be ahead by what its buffers hold, the first one answers.
        lasting(
            150,
            vec![
                with(0, 1, op(Call::Write, 64)),
                with(0, 1, op(Call::Read, 64)),
                with(1, 2, op(Call::Read, 4_096)),
            ],
        ),
        // Of the first end alone: the other does nothing, for as long as it takes.
        lasting(150, vec![with(0, 1, op(Call::Write, 10)), with(0, 1, op(Call::Read, 10))]),
        // What was left in a connection would be taken for this.
        times(
            5,
            vec![
                with(1, 2, op(Call::Write, 3)),
                with(1, 2, op(Call::Read, 5)),
                with(0, 1, op(Call::Read, 9)),
            ],
        ),
        opening(2, Call::Disconnect),
    ];
    let ends = accounts(&script(2, plan), 2);
    let (near, first, second) = (&ends[0], &ends[1], &ends[2]);
    assert_eq!(operation(near, 1, 1).bytes, operation(first, 1, 1).bytes);
    assert!(operation(second, 1, 2).operations >= operation(near, 1, 2).operations);
    assert!(transaction(second, 1).iterations > 0);
    assert_eq!(transaction(second, 2).iterations, 0);
    assert_eq!(operation(near, 2, 0).bytes, operation(first, 2, 0).bytes);
    assert_eq!((operation(near, 3, 1).bytes.0, operation(second, 3, 1).bytes.0), (50, 50));
    assert_eq!(operation(near, 3, 2).bytes.0, 90);
}

#[test]
fn a_connection_number_may_go_to_one_end_after_the_other() {
    let exchange = |remote| {
        [op(Call::Connect, 0), op(Call::Write, 30), op(Call::Read, 40), op(Call::Disconnect, 0)]
            .map(|operation| with(remote, 1, operation))
    };
    let ends = accounts(&script(2, vec![times(25, [exchange(0), exchange(1)].concat())]), 2);
    assert_eq!(operation(&ends[0], 0, 4).operations, 50);
    assert_eq!(operation(&ends[1], 0, 1).bytes.0, 50 * 30);
    assert_eq!(operation(&ends[2], 0, 6).bytes.0, 50 * 40);
}

#[test]
fn ends_may_open_the_connections_and_groups_may_have_ends_of_their_own() {
    let group = |name: &str, remote: u32| {
        let plan = vec![
            times(1, vec![with(remote, 0, op(Call::Accept, 0))]),
            times(10, vec![with(remote, 0, op(Call::Read, 90)), with(remote, 0, op(Call::Write, 90))]),
            times(1, vec![with(remote, 0, op(Call::Disconnect, 0))]),
        ];
        let mut group = script(3, plan).groups.remove(0);
        group.name = name.to_owned();
        group
    };
    let ends = accounts(&Script { groups: vec![group("a", 0), group("b", 1)] }, 2);
    let moved = |end: usize, group: usize| ends[end].groups[group].transactions[1].operations[0].bytes.0;
    assert_eq!([moved(0, 0), moved(0, 1)], [2_700, 2_700]);
    assert_eq!([moved(1, 0), moved(1, 1)], [2_700, 0]);
    assert_eq!([moved(2, 0), moved(2, 1)], [0, 2_700]);
}

#[test]
fn a_deadlock_with_one_end_is_named_and_told_to_all() {
    let plan = vec![
        opening(2, Call::Connect),
        times(3, vec![with(0, 1, op(Call::Write, 10)), with(1, 2, op(Call::Read, 10))]),
        opening(2, Call::Disconnect),
    ];
    let near = script(1, plan);
    let (first, mut second) = (side(&near, 0), side(&near, 1));
    second.groups[0].transactions[1].operations[1].call = Call::Read;
    let begun = Instant::now();
    let ended = carry_out(&near, &[first, second]);
    assert!(begun.elapsed() < Duration::from_secs(45), "{:?}", begun.elapsed());
    let said: Vec<String> = ended.into_iter().map(|each| each.failure.unwrap().to_string()).collect();
    assert!(said.iter().all(|text| text.contains("for ever")), "{said:?}");
}

#[test]
fn what_is_slow_with_one_end_is_no_deadlock_with_the_other() {
    // The first end thinks for longer than a stall lasts, while the other waits for the sender.
    let plan = vec![
        opening(2, Call::Connect),
        times(1, vec![with(0, 1, op(Call::Read, 10)), with(1, 2, op(Call::Write, 10))]),
        opening(2, Call::Disconnect),
    ];
    let near = script(1, plan);
    let mut first = side(&near, 0);
    let think = FlowOp { duration_ns: Nanos(1_700 * MS), ..op(Call::Think, 0) };
    first.groups[0].transactions[1].operations.insert(0, think);
    for finished in carry_out(&near, &[first, side(&near, 1)]) {
        assert_eq!(finished.failure, None);
    }
}

/// A port from which a link goes on to `to`. What comes back takes `late` once the link is up and the script on its way.
fn by_a_slow_way_back(to: u16, late: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let near = listener.accept().unwrap().0;
        let far = TcpStream::connect(("127.0.0.1", to)).unwrap();
        let (mut from_near, mut to_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        thread::spawn(move || {
            let _ = io::copy(&mut from_near, &mut to_far);
            let _ = to_far.shutdown(Shutdown::Write);
        });
        let (mut from_far, mut to_near, mut chunk, up) = (far, near, [0; 4_096], Instant::now());
        while let Ok(count @ 1..) = from_far.read(&mut chunk) {
            if up.elapsed() > Duration::from_millis(150) {
                thread::sleep(late);
            }
            if to_near.write_all(&chunk[..count]).is_err() {
                break;
            }
        }
        let _ = to_near.shutdown(Shutdown::Write);
    });
    port
}

#[test]
fn an_end_whose_word_is_late_at_the_end_of_a_duration_is_no_deadlock_with_the_other() {
    let plan = vec![
        opening(2, Call::Connect),
        // The first end has begun one iteration more when the time is over, and waits for the sender to make it too; the
        // sender waits to hear how many the second end makes, for longer than a stall lasts.
        lasting(
            400,
            vec![
                with(0, 1, op(Call::Read, 64)),
                with(0, 1, op(Call::Write, 64)),
                with(1, 2, op(Call::Read, 4_096)),
            ],
        ),
        opening(2, Call::Disconnect),
    ];
    let near = script(2, plan);
    let late = Duration::from_millis(2_500);
    let ended = carry_out_by(&near, &[side(&near, 0), side(&near, 1)], |index, port| match index {
        1 => by_a_slow_way_back(port, late),
        _ => port,
    });
    let accounts: Vec<_> = ended
        .into_iter()
        .map(|finished| {
            assert_eq!(finished.failure, None);
            finished.script.unwrap()
        })
        .collect();
    assert!(accounts.iter().all(|account| account.complete));
    assert!(transaction(&accounts[0], 1).levelling_iterations > 0);
}

#[test]
fn an_end_without_an_address_is_refused() {
    let near = script(1, vec![opening(3, Call::Connect)]);
    let mut asked = job(Role::Send, near, LONG_MS).load;
    asked.address = Some("127.0.0.1:1".to_owned());
    assert!(asked.check().unwrap_err().to_string().contains("remote_addresses"));
    asked.remote_addresses = vec!["127.0.0.1:1".to_owned(), "localhost:1".to_owned()];
    assert!(asked.check().unwrap_err().to_string().contains("localhost:1"));
    asked.remote_addresses[1] = "127.0.0.1:2".to_owned();
    assert_eq!(asked.check(), Ok(()));
}
