//! The whole way on the machine that runs the tests: samples, names, owners. What is asserted are shares, never
//! how many samples there were: a loaded machine gives fewer.

#![allow(clippy::print_stderr)] // a test that cannot be done must say so

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use iodyno_core::profile::{Mode, Owner, Profile, Stack};
use iodyno_profile::{available, Profiler};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// CPUs that this process may run on.
fn cpus() -> Vec<u32> {
    iodyno_sys::affinity::allowed().unwrap()
}

/// Whether the test can be done; says loudly why not.
fn sampling(whole_host: bool) -> bool {
    match available(&cpus()) {
        Ok(how) if how.contains("only") && whole_host => eprintln!("SKIPPED: {how}"),
        Ok(_) => return true,
        Err(why) => eprintln!("SKIPPED: no samples here: {why}"),
    }
    false
}

/// The profile of what `load` does.
fn profile_of(load: impl FnOnce() + Send) -> Profile {
    // The threads of another test would be this process's own too.
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut profiler = Profiler::open(997, &cpus());
    profiler.begin();
    // As the agent does it: ready before the load's threads exist, and emptied now and then.
    std::thread::scope(|scope| {
        let load = scope.spawn(load);
        while !load.is_finished() {
            std::thread::sleep(Duration::from_millis(20));
            profiler.keep_up();
        }
    });
    profiler.end();
    profiler.report("00001-1").unwrap()
}

fn names<'profile>(profile: &'profile Profile, stack: &Stack) -> Vec<&'profile str> {
    stack.frames.iter().map(|frame| profile.functions[*frame as usize].name.as_str()).collect()
}

/// Samples of the stacks that are wanted.
fn samples(profile: &Profile, wanted: impl Fn(&Stack, &[&str]) -> bool) -> u64 {
    let stacks = profile.stacks.iter().filter(|stack| wanted(stack, &names(profile, stack)));
    stacks.map(|stack| stack.count).sum()
}

#[inline(never)]
fn spins_for_the_test(time: Duration) -> u64 {
    let start = Instant::now();
    let mut sum = 0u64;
    while start.elapsed() < time {
        for number in 0..10_000 {
            sum = black_box(sum.wrapping_mul(31).wrapping_add(number));
        }
    }
    sum
}

#[inline(never)]
fn calls_the_spinner(time: Duration) {
    black_box(spins_for_the_test(time));
}

#[test]
fn a_spinning_function_is_found_with_its_caller() {
    if !sampling(false) {
        return;
    }
    let profile = profile_of(|| calls_the_spinner(Duration::from_millis(800)));
    let own = samples(&profile, |stack, _| stack.owner == Owner::App && stack.mode == Mode::User);
    let found = samples(&profile, |stack, names| {
        let ends_in = |depth: usize, name| names.iter().rev().nth(depth).is_some_and(|n| n.ends_with(name));
        // The clock is read now and then, by functions that the spinner calls.
        let spins = names.iter().any(|name| name.ends_with("::spins_for_the_test"));
        assert!(!ends_in(0, "spins_for_the_test") || ends_in(1, "calls_the_spinner"), "{names:?}");
        spins && stack.owner == Owner::App && stack.mode == Mode::User
    });
    assert!(own > 20, "{own} samples in 800 ms");
    assert!(found * 10 >= own * 9, "{found} of {own}: {:?}", profile.stacks.first());
    assert_eq!(profile.samples, profile.stacks.iter().map(|stack| stack.count).sum::<u64>());
    assert!(profile.end_ns.minus(profile.begin_ns).0 >= 800_000_000);
    // The function that ran belongs to this file.
    let function = profile.functions.iter().find(|f| f.name.ends_with("::spins_for_the_test")).unwrap();
    assert!(function.module.starts_with("live-"), "{function:?}");
}

#[test]
fn a_busy_system_call_is_found_below_the_function_that_makes_it() {
    if !sampling(true) {
        return;
    }
    let profile = profile_of(|| {
        let zeros = std::fs::File::open("/dev/zero").unwrap();
        let start = Instant::now();
        let mut memory = vec![0; 1 << 20];
        while start.elapsed() < Duration::from_millis(600) {
            std::io::Read::read_exact(&mut &zeros, &mut memory).unwrap();
        }
    });
    if profile.missing.as_ref().is_some_and(|missing| missing.contains("hides its symbols")) {
        return eprintln!("SKIPPED: {:?}", profile.missing);
    }
    let kernel = samples(&profile, |stack, _| stack.owner == Owner::App && stack.mode == Mode::Kernel);
    let read = samples(&profile, |stack, names| {
        stack.owner == Owner::App
            && stack.mode == Mode::Kernel
            && names.iter().any(|name| name.contains("read_zero") || name.contains("read_iter_zero"))
    });
    assert!(kernel > 20 && read * 2 > kernel, "{read} of {kernel}");
    let modules =
        |name: &str| profile.functions.iter().filter(|f| f.name.contains(name)).all(|f| f.module == "kernel");
    assert!(modules("read_zero") && modules("read_iter_zero"));
}

#[test]
fn another_process_has_another_owner() {
    if !sampling(true) {
        return;
    }
    let profile = profile_of(|| {
        let mut other = std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"])
            .spawn()
            .unwrap();
        other.wait().unwrap();
    });
    let other = samples(&profile, |stack, _| stack.owner == Owner::Other && stack.mode == Mode::User);
    assert!(other > 10, "{other}");
}

#[test]
fn a_cpu_that_is_not_there_is_named_and_costs_nothing_else() {
    let mut profiler = Profiler::open(997, &[cpus()[0], 999_999]);
    profiler.begin();
    profiler.end();
    let profile = profiler.report("00001-1").unwrap();
    assert!(profile.missing.unwrap().contains("CPU 999999: "));
    let mut nothing = Profiler::open(997, &[]);
    nothing.begin();
    nothing.end();
    let profile = nothing.report("00001-1").unwrap();
    assert_eq!((profile.samples, profile.event.as_str()), (0, "none"));
    assert!(profile.missing.is_some());
}

#[test]
fn no_profile_is_made_where_none_was_asked_for() {
    let mut profiler = Profiler::open(0, &cpus());
    profiler.begin();
    profiler.keep_up();
    profiler.end();
    assert!(profiler.report("00001-1").is_none());
}
