//! While the load is on, nobody asks for memory.

#![allow(clippy::print_stderr, reason = "a test says what it skips")]

mod pair;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use iodyno_core::job::{Driver, Job, Role, Transport, Workload};
use iodyno_core::units::{Bytes, Nanos};
use iodyno_load::Cancel;
use iodyno_sys::clock;
use pair::{drivers, job, prepare, MS};

/// chosen: a machine on which none of these is in time does not do what is tested here.
const RUNS_MOST: u32 = 100;
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
    for sending in drivers() {
        for receiving in drivers() {
            for (transport, workload, application) in [
                (Transport::Tcp, Workload::Stream, false),
                (Transport::Tcp, Workload::Stream, true),
                (Transport::Udp, Workload::Stream, false),
                (Transport::Udp, Workload::RequestResponse, false),
            ] {
                if transport == Transport::Udp && [sending, receiving].contains(&Driver::IoUring) {
                    continue;
                }
                let of = |role, driver| Job { transport, workload, ..job(role, driver, 20, 3_000, 200) };
                let (mut sender, mut receiver) = (of(Role::Send, sending), of(Role::Receive, receiving));
                (sender.answer_bytes, receiver.answer_bytes) = (Bytes(100), Bytes(100));
                if application {
                    (sender.compute_ns, sender.think_ns, sender.serialised) = (Nanos(1_000), Nanos(MS), true);
                    receiver.think_ns = Nanos(MS);
                }
                if !(0..RUNS_MOST).any(|_| allocates_nothing(&sender, &receiver)) {
                    eprintln!(
                        "not tested: {sending:?} to {receiving:?} on a machine that is busy all the time"
                    );
                }
            }
        }
    }
}

/// Runs the two against each other. `false`: a busy machine woke this thread after the stop of the load, or a worker after
/// its start, so that nothing is known of the time in which nobody may ask for memory.
fn allocates_nothing(sender: &Job, receiver: &Job) -> bool {
    let (sender, receiver) = prepare(sender, receiver, &Cancel::default()).unwrap();
    let start = clock::monotonic().plus(Nanos(200 * MS));
    let (receiving, sending) = (receiver.arm(start), sender.arm(start));
    // From before the first operation to the stop of the load; this thread sleeps meanwhile.
    clock::sleep_until(start.minus(Nanos(10 * MS))).unwrap();
    let before = ALLOCATIONS.load(SeqCst);
    clock::sleep_until(start.plus(Nanos(180 * MS))).unwrap();
    let allocated = ALLOCATIONS.load(SeqCst) - before;
    let in_time = clock::monotonic() < start.plus(Nanos(200 * MS));
    let ends = [sending.join(), receiving.join()];
    let soon = start.plus(Nanos(5 * MS));
    if !in_time || !ends.iter().all(|end| end.last_worker_started_ns.is_some_and(|at| at <= soon)) {
        return false;
    }
    assert_eq!(allocated, 0, "allocations");
    assert!(ends.iter().all(|end| end.totals.operations > 0));
    true
}
