//! While the load is on, nobody asks for memory.

mod folder;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use folder::{is_here, job, mixed, Folder, MS, SYSCALLS};
use iodyno_core::arrivals::{Arrivals, Law};
use iodyno_core::disk::{Disk, Pattern, Sync, Verify};
use iodyno_core::job::Job;
use iodyno_core::units::Nanos;
use iodyno_load::Cancel;
use iodyno_storage::block;
use iodyno_sys::clock;

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
    let folder = Folder::new("allocation");
    let file = folder.file("file", &vec![1; 4 << 20]);
    for syscalls in SYSCALLS.into_iter().filter(|syscalls| is_here(*syscalls)) {
        for (paced, verify) in [(false, Verify::None), (true, Verify::None), (false, Verify::Write)] {
            let disk = Disk {
                pattern: Pattern::Zipf,
                zipf_theta_ppm: Some(1_000_000),
                workers: 2,
                sync: Sync::Fdatasync,
                sync_every: 1_000,
                verify,
                ..mixed(file.clone(), syscalls)
            };
            let arrivals = Arrivals {
                law: Law::Poisson {},
                operations: 2_000,
                period_ns: Nanos(1_000 * MS),
                per_connection: false,
                seed: 1,
            };
            let job = job(Disk { arrivals: paced.then_some(arrivals), ..disk }, 200);
            while !allocates_nothing(&job) {}
        }
    }
}

/// Carries the job out. `false`: a busy machine woke this thread after the stop of the load, so that nothing is known of
/// the time before.
fn allocates_nothing(job: &Job<Disk>) -> bool {
    let prepared = block::prepare(job, &Cancel::default()).unwrap();
    let start = clock::monotonic().plus(Nanos(30 * MS));
    let running = prepared.arm(start);
    // From before the first operation to the stop of the load; this thread sleeps meanwhile.
    clock::sleep_until(start.minus(Nanos(5 * MS))).unwrap();
    let before = ALLOCATIONS.load(SeqCst);
    clock::sleep_until(start.plus(Nanos(170 * MS))).unwrap();
    let allocated = ALLOCATIONS.load(SeqCst) - before;
    let in_time = clock::monotonic() < start.plus(Nanos(200 * MS));
    assert!(!in_time || allocated == 0, "{allocated} allocations: {:?}", job.load);
    assert!(running.join().totals.operations > 0);
    in_time
}
