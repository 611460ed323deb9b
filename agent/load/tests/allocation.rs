//! While the load is on, nobody asks for memory.

mod pair;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use iodyno_core::job::Job;
use iodyno_core::network::{Engine, Network, Role, TrafficKind, Transport};
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::Cancel;
use iodyno_sys::clock;
use pair::{engines, job, prepare, with, Parts, MS};

/// chosen: a busy machine does not begin a worker late in each of so many runs.
const RUNS_MOST: usize = 8;
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: hands every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_load_allocates_nothing() {
    for sending in engines() {
        for receiving in engines() {
            for (transport, workload, application) in [
                (Transport::Tcp, TrafficKind::Stream, false),
                (Transport::Tcp, TrafficKind::Stream, true),
                (Transport::Udp, TrafficKind::Stream, false),
                (Transport::Udp, TrafficKind::RequestResponse, false),
            ] {
                if transport == Transport::Udp && [sending, receiving].contains(&Engine::IoUring) {
                    continue;
                }
                let of = |role, engine| {
                    with(job(role, engine, 20, 3_000, 200), |job| {
                        job.load.traffic = workload.into();
                        job.load.transport = transport;
                    })
                };
                let (mut sender, mut receiver) = (of(Role::Send, sending), of(Role::Receive, receiving));
                if workload == TrafficKind::RequestResponse {
                    (*sender.answer(), *receiver.answer()) = (Bytes(100), Bytes(100));
                }
                if application {
                    (
                        sender.application().compute_ns,
                        sender.application().think_ns,
                        sender.application().serialised,
                    ) = (Nanos(1_000), Nanos(MS), true);
                    receiver.application().think_ns = Nanos(MS);
                }
                // A load that asks for memory does so each time; a worker that a busy machine begins late, now and then.
                let asked: Vec<u64> =
                    (0..RUNS_MOST).map(|_| allocations(&sender, &receiver)).take_while(|n| *n > 0).collect();
                let case = format!("{sending:?} to {receiving:?}, {transport:?} {workload:?} {application}");
                assert!(asked.len() < RUNS_MOST, "{case}: {asked:?} allocations");
            }
        }
    }
}

/// How often memory was asked for while the two ran against each other.
fn allocations(sender: &Job<Network>, receiver: &Job<Network>) -> u64 {
    for _ in 0..100 {
        let (sender, receiver) = prepare(sender, receiver, &Cancel::default()).unwrap();
        let start = clock::monotonic().plus(Nanos(200 * MS));
        let (receiving, sending) = (receiver.arm(start), sender.arm(start));
        // From before the first operation to the stop of the load; this thread sleeps meanwhile.
        clock::sleep_until(start.minus(Nanos(10 * MS))).unwrap();
        let before = ALLOCATIONS.load(SeqCst);
        clock::sleep_until(start.plus(Nanos(180 * MS))).unwrap();
        let asked = ALLOCATIONS.load(SeqCst) - before;
        let in_time = clock::monotonic() < start.plus(Nanos(200 * MS));
        let moved = [sending.join(), receiving.join()].iter().all(|end| end.totals.operations > 0);
        // A busy machine may wake this thread after the stop of the load, or no worker before it: then nothing is known.
        if in_time && moved {
            return asked;
        }
    }
    panic!("nothing moved in any of a hundred loads");
}
