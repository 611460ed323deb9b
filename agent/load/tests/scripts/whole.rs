//! Scripts that come to their end: every call, every protocol, iterations and durations, counts and sizes.

use crate::scripted::{
    check_consistent, lasting, operation, over, run, run_within, script, times, transaction, MS,
};
use crate::scripted::{mirror, op};
use iodyno_core::account::{OperationAccount, ScriptAccount};
use iodyno_core::script::{Call, FlowOp, Protocol, Size, Think};
use iodyno_core::units::{Bytes, Nanos};

/// What connections of a script travel on here.
fn protocols() -> Vec<Protocol> {
    let mut protocols = vec![Protocol::Tcp, Protocol::Udp, Protocol::Unix, Protocol::Tls];
    if iodyno_sys::vsock::refusal(iodyno_sys::vsock::THIS_MACHINE).is_none() {
        protocols.push(Protocol::Vsock);
    }
    if iodyno_sys::sctp::refusal().is_none() {
        protocols.push(Protocol::Sctp);
    }
    protocols
}

fn bytes(account: &ScriptAccount, of: usize, number: usize) -> u64 {
    operation(account, of, number).bytes.0
}

#[test]
fn connect_write_read_disconnect_moves_what_it_says_over_every_protocol() {
    for protocol in protocols() {
        let plan = vec![
            times(1, vec![op(Call::Connect, 0)]),
            times(50, vec![op(Call::Write, 90), op(Call::Read, 700)]),
            times(1, vec![op(Call::Disconnect, 0)]),
        ];
        let (near, far) = run(&script(3, over(protocol, plan)));
        for account in [&near, &far] {
            check_consistent(account);
            assert_eq!(operation(account, 0, 0).operations, 3, "{protocol:?}");
            assert_eq!(transaction(account, 1).iterations, 150);
            let sizes = (bytes(account, 1, 0), bytes(account, 1, 1));
            assert_eq!(sizes, (150 * 90, 150 * 700), "{protocol:?}");
            assert_eq!(operation(account, 1, 0).lost + operation(account, 1, 1).lost, 0);
            assert_eq!(operation(account, 2, 0).operations, 3);
            assert_eq!(account.groups[0].transactions.iter().map(|each| each.threads_done).sum::<u32>(), 9);
        }
    }
}

#[test]
fn files_without_a_size_go_whole_one_after_the_other() {
    let directory = std::env::temp_dir().join(format!("iodyno-whole-files-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("b")).unwrap();
    for (name, length) in [("a", 70_000), ("b/inner", 3), ("c", 1_200_000), ("empty", 0)] {
        std::fs::write(directory.join(name), vec![1; length]).unwrap();
    }
    let whole = |call, files| {
        let directory = Some(directory.display().to_string());
        FlowOp { size: None, directory, files, ..op(call, 1) }
    };
    let plan = vec![
        times(1, vec![op(Call::Connect, 0)]),
        times(
            4,
            vec![whole(Call::Sendfile, 1), whole(Call::Sendfilev, 2), op(Call::Write, 5), op(Call::Read, 7)],
        ),
        times(1, vec![op(Call::Disconnect, 0)]),
    ];
    for protocol in [Protocol::Tcp, Protocol::Unix] {
        let (near, far) = run(&script(1, over(protocol, plan.clone())));
        // Each call takes the next file: the 1st, 3rd, 2nd, 1st of the three.
        let alone = 70_000 + 1_200_000 + 3 + 70_000;
        for account in [&near, &far] {
            check_consistent(account);
            let sent = (0..4).map(|at| bytes(account, 1, at)).collect::<Vec<_>>();
            assert_eq!(sent, [alone, 4 * 70_003, 20, 28], "{protocol:?}");
        }
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn of_several_connections_of_a_number_the_last_is_used_and_closed_first() {
    for protocol in protocols() {
        let plan = vec![
            times(10, vec![op(Call::Connect, 0)]),
            times(9, vec![op(Call::Write, 40), op(Call::Read, 50), op(Call::Disconnect, 0)]),
            times(1, vec![op(Call::Disconnect, 0)]),
        ];
        let (near, far) = run(&script(2, over(protocol, plan)));
        for account in [&near, &far] {
            check_consistent(account);
            assert_eq!(operation(account, 0, 0).operations, 20, "{protocol:?}");
            assert_eq!((bytes(account, 1, 0), bytes(account, 1, 1)), (18 * 40, 18 * 50), "{protocol:?}");
            let closed = operation(account, 1, 2).operations + operation(account, 2, 0).operations;
            assert_eq!(closed, 20, "{protocol:?}");
        }
    }
}

#[test]
fn every_call_that_moves_bytes_does_and_the_direction_of_the_handshake_may_be_reversed() {
    let mut file = op(Call::Sendfile, 300_000);
    file.files = 2;
    let mut files = op(Call::Sendfilev, 1_500_001);
    files.files = 3;
    let plan = vec![
        times(1, vec![op(Call::Accept, 0)]),
        times(
            3,
            vec![
                op(Call::Send, 10),
                op(Call::Recv, 20),
                op(Call::Sendto, 30),
                op(Call::Recvfrom, 40),
                file,
                files,
                op(Call::Nop, 0),
            ],
        ),
        times(1, vec![op(Call::Disconnect, 0)]),
    ];
    for protocol in [Protocol::Tcp, Protocol::Unix] {
        let (near, far) = run(&script(2, over(protocol, plan.clone())));
        for account in [&near, &far] {
            let sizes: Vec<u64> = (0..7).map(|number| bytes(account, 1, number) / 6).collect();
            assert_eq!(sizes, [10, 20, 30, 40, 300_000, 1_500_001, 0]);
        }
    }
}

#[test]
fn a_duration_ends_both_ends_level_whoever_writes() {
    for protocol in protocols() {
        for call in [Call::Write, Call::Read] {
            let plan = vec![
                times(1, vec![op(Call::Connect, 0)]),
                lasting(200, vec![op(call, 1_000)]),
                // What was left in the connection would be taken for this.
                times(4, vec![op(Call::Write, 5), op(Call::Read, 7)]),
                times(1, vec![op(Call::Disconnect, 0)]),
            ];
            let (near, far) = run(&script(2, over(protocol, plan)));
            [&near, &far].into_iter().for_each(check_consistent);
            let (led, followed) = (transaction(&near, 1), transaction(&far, 1));
            let lasted = led.end_ns.unwrap().0 - led.begin_ns.unwrap().0;
            // Never before its time. After it each thread completes an iteration, which takes as long as it takes; the
            // threads may begin apart where the machine is busy.
            assert!((199 * MS..30_000 * MS).contains(&lasted), "{protocol:?} {call:?}: {lasted}");
            let (sent, taken) = (operation(&near, 1, 0), operation(&far, 1, 0));
            if protocol == Protocol::Udp && call == Call::Write {
                assert_eq!(sent.operations, taken.operations + taken.lost);
            }
            assert_eq!(followed.levelling_iterations, 0);
            if protocol != Protocol::Udp {
                // What was ahead at one end when the time was over counts at both.
                assert_eq!(led.iterations, followed.iterations, "{protocol:?} {call:?}");
                assert!(led.levelling_iterations <= led.iterations);
                let of = |end: &OperationAccount| (end.operations, end.bytes, end.time.count);
                assert_eq!(of(sent), of(taken), "{protocol:?} {call:?}");
                assert_eq!(sent.lost + taken.lost, 0);
                assert_eq!(bytes(&far, 2, 1), 2 * 4 * 7);
            }
        }
    }
}

#[test]
fn a_repeated_operation_is_counted_one_by_one_and_as_a_sample() {
    let repeated = |call, size| FlowOp { count: 10, repeat: 3, ..op(call, size) };
    let plan = vec![
        times(1, vec![op(Call::Connect, 0)]),
        times(20, vec![repeated(Call::Write, 100), repeated(Call::Read, 1)]),
    ];
    let (near, far) = run(&script(2, plan));
    for account in [&near, &far] {
        check_consistent(account);
        let write = operation(account, 1, 0);
        assert_eq!((write.samples, write.operations, write.bytes.0), (40, 1_200, 120_000));
        let samples = write.sample_time.as_ref().unwrap();
        assert_eq!(samples.count, 40);
        // A sample is the sum of its operations, nothing else.
        assert_eq!(samples.sum_ns, write.time.sum_ns);
        assert!(operation(account, 0, 0).sample_time.is_none());
    }
}

#[test]
fn random_sizes_are_known_at_both_ends_and_spread_as_they_should() {
    let size = Size::Uniform { least_bytes: Bytes(100), greatest_bytes: Bytes(300) };
    let sized = |call| FlowOp { size: Some(size), call_bytes: Some(Bytes(64)), ..op(call, 1) };
    // Messages in several calls, and Nagle's algorithm: each would wait for an acknowledgement.
    let mut connect = op(Call::Connect, 0);
    connect.socket.nagle = Some(false);
    let plan = vec![
        times(1, vec![connect]),
        times(2_000, vec![sized(Call::Write), sized(Call::Read)]),
        times(1, vec![op(Call::Disconnect, 0)]),
    ];
    let (near, far) = run(&script(1, plan));
    for number in 0..2 {
        assert_eq!(bytes(&near, 1, number), bytes(&far, 1, number));
        let mean = bytes(&near, 1, number) as f64 / 2_000.0;
        // Mean 200, standard error 58 / sqrt(2000) = 1.3: five of them.
        assert!((mean - 200.0).abs() < 6.5, "{mean}");
    }
}

#[test]
fn several_connections_of_a_thread_do_not_mix() {
    let on = |connection, operation: FlowOp| FlowOp { connection, ..operation };
    let mut udp = vec![
        on(1, op(Call::Connect, 0)),
        on(2, op(Call::Connect, 0)),
        on(7, op(Call::Connect, 0)),
        on(2, op(Call::Write, 20)),
        on(1, op(Call::Write, 10)),
        on(7, op(Call::Write, 70)),
        on(7, op(Call::Read, 7)),
        on(1, op(Call::Disconnect, 0)),
        on(2, op(Call::Disconnect, 0)),
        on(7, op(Call::Disconnect, 0)),
    ];
    udp.iter_mut().filter(|each| each.connection == 2).for_each(|each| each.protocol = Protocol::Udp);
    udp.iter_mut().filter(|each| each.connection == 7).for_each(|each| each.protocol = Protocol::Unix);
    let (near, far) = run(&script(4, vec![times(30, udp)]));
    for account in [&near, &far] {
        let moved: Vec<u64> = (0..10).map(|number| bytes(account, 0, number) / 120).collect();
        assert_eq!(moved, [0, 0, 0, 20, 10, 70, 7, 0, 0, 0]);
        assert_eq!(account.foreign_refused, 0);
    }
}

#[test]
fn opening_and_closing_goes_on_and_on_without_running_ahead() {
    // The end that connects does nothing else, and the one that accepts thinks: it is held back.
    let plan = vec![times(300, vec![op(Call::Connect, 0), op(Call::Disconnect, 0)])];
    let near = script(2, plan);
    let mut far = mirror(&near);
    let think = FlowOp { duration_ns: Nanos(MS / 2), ..op(Call::Think, 0) };
    far.groups[0].transactions[0].operations.push(think);
    let (near, far) = crate::scripted::run_against(&near, &far);
    assert_eq!(operation(&near, 0, 0).operations, 600);
    assert_eq!(operation(&far, 0, 0).operations, 600);
}

#[test]
fn thinking_takes_its_time_idle_or_busy_and_ends_with_the_duration() {
    let think = |think, ms| FlowOp { think, duration_ns: Nanos(ms * MS), ..op(Call::Think, 0) };
    let plan = vec![
        times(5, vec![think(Think::Idle, 4), think(Think::Busy, 2)]),
        lasting(50, vec![think(Think::Idle, 10_000)]),
    ];
    let (near, _) = run(&script(1, plan));
    assert!(operation(&near, 0, 0).least_ns.unwrap().0 >= 4 * MS);
    assert!(operation(&near, 0, 1).least_ns.unwrap().0 >= 2 * MS);
    // One that was cut does not count, but the transaction lasted until then.
    assert_eq!((operation(&near, 1, 0).operations, operation(&near, 1, 0).samples), (0, 0));
    let cut = transaction(&near, 1);
    let lasted = cut.end_ns.unwrap().0 - cut.begin_ns.unwrap().0;
    assert!((50 * MS..5_000 * MS).contains(&lasted), "{lasted}");
}

#[test]
fn a_script_longer_than_the_windows_is_cut_and_says_so_and_nothing_failed() {
    for protocol in protocols() {
        let plan = vec![
            times(1, vec![op(Call::Connect, 0)]),
            times(u64::MAX, vec![op(Call::Write, 64), op(Call::Read, 64)]),
            times(1, vec![op(Call::Disconnect, 0)]),
        ];
        let near = script(4, over(protocol, plan));
        let (near, far) = run_within(&near, &mirror(&near), 200);
        for finished in [near, far] {
            assert_eq!(finished.failure, None, "{protocol:?}");
            let account = finished.script.unwrap();
            check_consistent(&account);
            assert!(!account.complete);
            assert!(transaction(&account, 1).iterations > 0);
            assert_eq!(transaction(&account, 2).begin_ns, None);
            assert_eq!(finished.totals.operations, finished.totals.service_time.count());
        }
    }
}

#[test]
fn five_hundred_threads_in_two_groups() {
    let plan = |size| {
        vec![
            times(1, vec![op(Call::Connect, 0)]),
            times(5, vec![op(Call::Write, size), op(Call::Read, 2 * size)]),
            times(1, vec![op(Call::Disconnect, 0)]),
        ]
    };
    let mut both = script(250, plan(70));
    let mut other = script(250, plan(300)).groups.remove(0);
    other.name = "two".to_owned();
    both.groups.push(other);
    let (near, far) = run(&both);
    for account in [&near, &far] {
        assert_eq!(account.groups[1].transactions[1].iterations, 1_250);
        assert_eq!(account.groups[1].transactions[1].operations[0].bytes.0, 1_250 * 300);
    }
}
