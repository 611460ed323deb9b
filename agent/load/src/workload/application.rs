//! The application around a workload: work of its own before an operation, a lock around each call, a pause
//! after an operation. It is how a limiter that lies in the application is planted on purpose.
//!
//! A job that asks for none of this is driven without it, so that the plain load loop does not even look.

use std::hint::black_box;
use std::sync::Mutex;

use iodyno_core::network::Network;
use iodyno_sys::epoll::Interest;
use iodyno_sys::lock::locked;

use super::{Activity, Step};
use crate::transport::Link;
use crate::worker::counters::Cell;
use crate::worker::Worker;

/// chosen: two looks at the clock that are further apart had somebody else between them: an interrupt, another
/// thread, another guest of the hypervisor. Two looks of a thread that runs are some tens of nanoseconds apart.
const LONGEST_STEP_NS: u64 = 5_000;

/// An activity with the application of its job around it.
pub(crate) struct Application<'a, A> {
    activity: A,
    compute_ns: u64,
    think_ns: u64,
    lock: Option<&'a Mutex<()>>,
    /// Operations between two pauses.
    burst: u32,
    /// Operations left until the next pause.
    left: u32,
    /// Whether what comes before the write of an operation is still to be done.
    fresh: bool,
    /// Begin of the pause that the engine was told to make; 0: none.
    paused: u64,
}

impl<'a, A: Activity> Application<'a, A> {
    /// `lock` is that of the job.
    pub(crate) fn around(activity: A, load: &Network, lock: &'a Mutex<()>) -> Self {
        // In an open loop, a burst is what an arrival does, and a pause is between two of its operations.
        let burst = if load.arrivals.is_some() { 1 } else { load.application().burst };
        Application {
            activity,
            burst,
            left: burst,
            compute_ns: load.application().compute_ns.0,
            think_ns: load.application().think_ns.0,
            lock: load.application().serialised.then_some(lock),
            fresh: true,
            paused: 0,
        }
    }
}

impl<A: Activity> Activity for Application<'_, A> {
    const UNTIL_DUE: bool = A::UNTIL_DUE;
    const PAUSES: bool = true;

    fn interest(&self) -> Interest {
        self.activity.interest()
    }

    fn in_hand(&self) -> bool {
        self.activity.in_hand()
    }

    fn computes_next(&self) -> bool {
        self.activity.computes_next()
    }

    fn calls_per_visit(&self, connections: usize) -> u32 {
        self.activity.calls_per_visit(connections)
    }

    fn step(&mut self, link: &impl Link, worker: &mut Worker<'_>, cell: &Cell) -> Step {
        if self.paused > 0 {
            cell.add_think(worker.now.saturating_sub(self.paused));
            self.paused = 0;
        }
        if self.fresh && self.activity.computes_next() {
            self.fresh = false;
            if self.compute_ns > 0 {
                cell.add_compute(compute(self.compute_ns, worker));
            }
        }
        let operations = cell.operations();
        let step = match self.lock {
            Some(lock) => {
                let asked = worker.now;
                let held = locked(lock);
                worker.tick();
                cell.add_lock_wait(worker.now - asked);
                let step = self.activity.step(link, worker, cell);
                drop(held);
                step
            }
            None => self.activity.step(link, worker, cell),
        };
        if cell.operations() == operations {
            return step;
        }
        self.fresh = true;
        self.left -= 1;
        if self.left > 0 {
            return step;
        }
        self.left = self.burst;
        // No pause once the load is due to stop: what is still on its way is to be read without delay.
        let until = worker.now.saturating_add(self.think_ns).min(worker.due());
        match step {
            Step::On | Step::Waiting if until > worker.now => {
                self.paused = worker.now;
                Step::Pausing(until)
            }
            // What pauses between operations makes no more of them in the same visit, however many that has room for.
            Step::On if A::UNTIL_DUE && self.think_ns > 0 => Step::Waiting,
            step => step,
        }
    }
}

/// Takes `ns` of CPU time and gives what it took. A function of its own, under this name, so that a profile
/// shows it.
///
/// Counts by the clock that costs no call, without the gaps in which the thread did not run: asking the kernel
/// for the thread's CPU time would spend most of that time in the kernel.
#[inline(never)]
pub(crate) fn compute(ns: u64, worker: &mut Worker<'_>) -> u64 {
    worker.tick();
    let (mut computed, mut value) = (Computed::default(), 1_u64);
    while computed.ns < ns {
        let last = worker.now;
        for _ in 0..16 {
            value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).rotate_left(17));
        }
        worker.tick();
        computed.add(worker.now - last);
    }
    computed.ns
}

/// Time that a thread ran, from the steps between looks at the clock.
#[derive(Default)]
struct Computed {
    ns: u64,
    last_step_ns: u64,
}

impl Computed {
    /// Another step. A long one counts where the one before it was about as long: then it is the clock that takes its time,
    /// as one that is read from a device of a virtual machine does, and nothing would ever count otherwise.
    #[inline]
    fn add(&mut self, step_ns: u64) {
        if step_ns <= LONGEST_STEP_NS || step_ns <= 2 * self.last_step_ns {
            self.ns += step_ns;
        }
        self.last_step_ns = step_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed(steps: impl IntoIterator<Item = u64>) -> u64 {
        let mut computed = Computed::default();
        steps.into_iter().for_each(|step| computed.add(step));
        computed.ns
    }

    #[test]
    fn computing_comes_to_its_end_where_the_clock_is_slow() {
        assert!(computed([20_000; 100]) >= 99 * 20_000);
        // However uneven it is: no step is twice the one before for ever.
        assert!(computed([6_000, 19_000].repeat(50)) >= 49 * 6_000);
    }

    #[test]
    fn what_interrupts_computing_is_not_computed() {
        let interrupted = [40, 40, 4_000_000, 40, 900_000, 40, 40];
        assert_eq!(computed(interrupted), 5 * 40);
    }
}
