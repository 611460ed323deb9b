//! While the load is on, nobody asks for memory.

mod pair;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use iodyno_core::job::Role;
use iodyno_core::units::Nanos;
use iodyno_load::Cancel;
use iodyno_sys::clock;
use pair::{job, prepare, DRIVERS, MS};

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
    for sending in DRIVERS {
        for receiving in DRIVERS {
            for application in [false, true] {
                let mut sender = job(Role::Send, sending, 20, 3_000, 400);
                let mut receiver = job(Role::Receive, receiving, 20, 3_000, 400);
                if application {
                    (sender.compute_ns, sender.think_ns, sender.serialised) = (Nanos(1_000), Nanos(MS), true);
                    receiver.think_ns = Nanos(MS);
                }
                let (sender, receiver) = prepare(&sender, &receiver, &Cancel::default()).unwrap();
                let start = clock::monotonic().plus(Nanos(200 * MS));
                let (receiving, sending) = (receiver.arm(start), sender.arm(start));
                // From before the first operation to the stop of the load; this thread sleeps meanwhile.
                clock::sleep_until(start.minus(Nanos(10 * MS))).unwrap();
                let before = ALLOCATIONS.load(SeqCst);
                clock::sleep_until(start.plus(Nanos(390 * MS))).unwrap();
                assert_eq!(ALLOCATIONS.load(SeqCst) - before, 0);
                assert!(sending.join().totals.operations > 0);
                assert!(receiving.join().totals.operations > 0);
            }
        }
    }
}
