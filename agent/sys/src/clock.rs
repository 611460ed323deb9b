//! Clocks: the kernel's. The one that operations are timed with is in [`crate::operation_clock`].

use std::io;
use std::os::fd::OwnedFd;

use iodyno_core::units::Nanos;
use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{
    clock_gettime, timerfd_create, timerfd_settime, ClockId, Itimerspec, TimerfdClockId, TimerfdFlags,
    TimerfdTimerFlags, Timespec,
};

fn read(clock: ClockId) -> Nanos {
    let now = clock_gettime(clock);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// `CLOCK_MONOTONIC`: the axis of every instant on the wire.
#[must_use]
pub fn monotonic() -> Nanos {
    read(ClockId::Monotonic)
}

/// `CLOCK_MONOTONIC_RAW`: runs as the hardware runs, not disciplined by NTP.
#[must_use]
pub fn monotonic_raw() -> Nanos {
    read(ClockId::MonotonicRaw)
}

/// `CLOCK_REALTIME`: for people, never for arithmetic.
#[must_use]
pub fn wall() -> Nanos {
    read(ClockId::Realtime)
}

/// CPU time of the calling thread.
#[must_use]
pub fn thread_cpu() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

/// CPU time of the process, all threads.
#[must_use]
pub fn process_cpu() -> Nanos {
    read(ClockId::ProcessCPUTime)
}

/// The CPU clock of any process: time of all its threads, those that have ended too. The kernel brings what a thread has had up
/// to date when it leaves a CPU, and at the timer tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessClock(libc::clockid_t);

impl ProcessClock {
    /// That of the process with that id.
    ///
    /// # Errors
    /// There is no such process.
    pub fn of(process_id: u32) -> io::Result<Self> {
        let mut clock = 0;
        // SAFETY: `clock` is a valid place for one clock id.
        match unsafe { libc::clock_getcpuclockid(process_id as libc::pid_t, &mut clock) } {
            0 => Ok(ProcessClock(clock)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// What it shows.
    ///
    /// # Errors
    /// The process has ended.
    pub fn now(self) -> io::Result<Nanos> {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `now` is a valid place for one timespec.
        if unsafe { libc::clock_gettime(self.0, &mut now) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64))
    }
}

/// Sleeps until `CLOCK_MONOTONIC` shows `instant`; returns at once when it is past.
///
/// # Errors
/// What the kernel said, other than an interruption by a signal, after which it sleeps on.
pub fn sleep_until(instant: Nanos) -> io::Result<()> {
    loop {
        match clock_nanosleep_absolute(ClockId::Monotonic, &timespec(instant)) {
            Err(Errno::INTR) => {}
            outcome => return Ok(outcome?),
        }
    }
}

/// Two timers that wake nobody: set in turn to the instant that will be waited for after the one that comes first.
///
/// A sleep whose end is the earliest of its CPU's timers sets the hardware, which costs a guest an exit to its hypervisor:
/// more than all else that the sleep does. Where one of these was set to the same instant before, the interrupt of the last
/// timer has set the hardware to it already. Two, because one that is moved to a later instant sets the hardware itself.
pub struct TimersAhead {
    timers: [OwnedFd; 2],
    turn: usize,
}

impl TimersAhead {
    /// Not set yet.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Self> {
        let timer = || timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC);
        Ok(TimersAhead { timers: [timer()?, timer()?], turn: 0 })
    }

    /// Sets the one whose turn it is to `CLOCK_MONOTONIC` showing `instant`.
    pub fn set(&mut self, instant: Nanos) {
        self.turn ^= 1;
        let end = Itimerspec { it_interval: Timespec::default(), it_value: timespec(instant) };
        // It fails for a malformed time only, which this is not.
        let _ = timerfd_settime(&self.timers[self.turn], TimerfdTimerFlags::ABSTIME, &end);
    }
}

/// A time as the kernel has it.
pub(crate) fn timespec(time: Nanos) -> Timespec {
    Timespec { tv_sec: (time.0 / 1_000_000_000) as i64, tv_nsec: (time.0 % 1_000_000_000) as i64 }
}

/// The clock source that the kernel runs on, such as `tsc`.
///
/// # Errors
/// When `/sys` cannot be read.
pub fn clocksource() -> io::Result<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    Ok(std::fs::read_to_string(path)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn the_clock_of_a_process_shows_what_its_own_does_until_it_ends() {
        let own = ProcessClock::of(std::process::id()).unwrap();
        let (before, shown, after) = (process_cpu(), own.now().unwrap(), process_cpu());
        // Other threads of this process run meanwhile, and are brought up to date at a tick.
        let tick = Nanos(1_000_000_000);
        assert!(before <= shown.plus(tick) && shown <= after.plus(tick), "{before:?} {shown:?} {after:?}");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let other = ProcessClock::of(child.id()).unwrap();
        assert!(other.now().is_ok());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(other.now().is_err());
    }

    #[test]
    fn sleep_ends_at_the_instant_and_not_before() {
        let until = monotonic().plus(Nanos(3_000_000));
        sleep_until(until).unwrap();
        assert!(monotonic() >= until);
        sleep_until(Nanos(1)).unwrap();
    }

    #[test]
    fn the_timer_set_last_leaves_the_one_before_as_it_was() {
        let mut ahead = TimersAhead::new().unwrap();
        let is_set = |timer: &OwnedFd| {
            let told = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", timer.as_raw_fd())).unwrap();
            assert!(told.contains("it_value: "), "{told}");
            !told.contains("it_value: (0, 0)")
        };
        let set = |ahead: &TimersAhead| ahead.timers.iter().filter(|timer| is_set(timer)).count();
        let in_a_minute = monotonic().plus(Nanos(60_000_000_000));
        let counted = [0, 1, 2].map(|after| {
            let found = set(&ahead);
            ahead.set(in_a_minute.plus(Nanos(after)));
            found
        });
        assert_eq!(counted, [0, 1, 2]);
    }
}
