//! Any two scripts that are taken run to an end within their windows, whatever they ask of each other.

use std::time::{Duration, Instant};

use crate::scripted::{check_consistent, mirror, run_within, MS};
use iodyno_core::script::{Call, FlowOp, Group, Protocol, Rate, Script, Size, Think, Transaction, Until};
use iodyno_core::units::{Bytes, Nanos};
use proptest::prelude::*;

/// The windows' length. What hangs in a call is given up 2 s after it.
const LOAD_MS: u64 = 250;

const CALLS: [Call; 13] = [
    Call::Connect,
    Call::Accept,
    Call::Disconnect,
    Call::Read,
    Call::Write,
    Call::Send,
    Call::Recv,
    Call::Sendto,
    Call::Recvfrom,
    Call::Sendfile,
    Call::Sendfilev,
    Call::Think,
    Call::Nop,
];

fn size() -> impl Strategy<Value = Size> {
    prop_oneof![
        (1u64..2_000).prop_map(|bytes| Size::Fixed { bytes: Bytes(bytes) }),
        (1u64..500, 0u64..60_000).prop_map(|(least, more)| Size::Uniform {
            least_bytes: Bytes(least),
            greatest_bytes: Bytes(least + more),
        }),
    ]
}

prop_compose! {
    fn operation(protocol: Protocol)(
        call in prop::sample::select(&CALLS[..]), connection in 0u32..2, size in size(), count in 1u64..4,
        call_bytes in prop::option::of(1u64..5_000), timeout_ms in prop::option::of(1u64..50),
        think_ms in 0u64..40, busy in any::<bool>(), can_fail in prop::bool::weighted(0.7), non_blocking in any::<bool>(),
        files in 1u32..4,
    ) -> FlowOp {
        let call = match call {
            Call::Sendfile | Call::Sendfilev if protocol == Protocol::Udp => Call::Write,
            call => call,
        };
        FlowOp {
            connection,
            protocol,
            size: Some(size),
            count,
            call_bytes: call_bytes.map(Bytes),
            timeout_ns: timeout_ms.map(|ms| Nanos(ms * MS)),
            duration_ns: Nanos(think_ms * MS),
            think: if busy { Think::Busy } else { Think::Idle },
            can_fail,
            non_blocking,
            files,
            ..FlowOp::new(call, "operation")
        }
    }
}

fn operations(protocol: Protocol) -> impl Strategy<Value = Vec<FlowOp>> {
    prop::collection::vec(operation(protocol), 1..5)
}

fn until() -> impl Strategy<Value = Until> {
    prop_oneof![
        (0u64..20).prop_map(|iterations| Until::Iterations { iterations }),
        (1u64..80).prop_map(|ms| Until::Duration { duration_ns: Nanos(ms * MS) }),
    ]
}

/// A script, and another one of the same shape that may or may not do what the first one needs.
fn pair() -> impl Strategy<Value = (Script, Script)> {
    let protocol = prop::sample::select(vec![Protocol::Tcp, Protocol::Udp, Protocol::Unix]);
    protocol.prop_flat_map(|protocol| {
        let rate = (1u64..5_000).prop_map(|iterations| Rate { iterations, period_ns: Nanos::SECOND });
        let transaction = (until(), prop::option::weighted(0.3, rate), operations(protocol));
        let transaction =
            transaction.prop_map(|(until, rate, operations)| Transaction { until, rate, operations });
        let group = (1u32..4, prop::collection::vec(transaction, 1..4))
            .prop_map(|(threads, transactions)| Group { name: "fuzzed".to_owned(), threads, transactions });
        let strayed = prop::option::of(operations(protocol));
        (prop::collection::vec(group, 1..3), strayed).prop_map(|(groups, strayed)| {
            let near = Script { groups };
            let mut far = mirror(&near);
            if let Some(strayed) = strayed {
                far.groups[0].transactions[0].operations = strayed;
            }
            (near, far)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn it_ends_in_time_and_its_account_adds_up((near, far) in pair()) {
        let begun = Instant::now();
        let (near, far) = run_within(&near, &far, LOAD_MS);
        // The windows, what is given up after them, and a busy machine: what takes longer hangs.
        prop_assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        for finished in [near, far] {
            let account = finished.script.unwrap();
            check_consistent(&account);
            prop_assert!(!(account.complete && finished.failure.is_some()));
            let bytes: u64 = account.groups.iter().flat_map(|group| &group.transactions)
                .flat_map(|transaction| &transaction.operations).map(|operation| operation.bytes.0).sum();
            prop_assert!(bytes <= finished.totals.bytes);
        }
    }
}
