//! The exact accounting of CPU time against known truths: loads of known length, the sum of the classes, and an
//! independent meter. The machine may be busy with other things; only relations that hold then too are asserted.

mod meter;

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use iodyno_core::metric::{Reading, Value};
use iodyno_core::units::Nanos;
use iodyno_sense::{Panel, Roots, Subject};
use iodyno_sys::{affinity, clock};

const MILLISECOND: u64 = 1_000_000;

/// The unit of `/proc/stat`.
const TICK: u64 = 10 * MILLISECOND;

/// Past the test program's capture, so that it is seen.
fn skip(why: &str) {
    std::io::stderr().write_all(format!("SKIPPED: {why}\n").as_bytes()).unwrap();
}

/// Threads of this process are the agent's: one test at a time. `None`, said loudly, where this machine does not
/// let programs into its kernel.
fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let reading = panel(&[cpu()], 0).read().remove(0);
    let root = iodyno_sys::process::effective_user() == 0;
    match reading.missing.filter(|why| !root || why.contains("built without")) {
        Some(why) => {
            skip(&format!("no exact accounting here: {why}"));
            None
        }
        None => Some(turn),
    }
}

/// The CPU that the loads are on.
fn cpu() -> u32 {
    *affinity::allowed().unwrap().last().unwrap()
}

fn panel(cpus: &[u32], warm_up_ms: u64) -> Panel {
    let subject =
        Subject { cpus: cpus.to_vec(), warm_up: Nanos(warm_up_ms * MILLISECOND), ..Subject::default() };
    Panel::new(&Roots::default(), &subject, Some(&["cpu_exact".to_owned()])).unwrap()
}

/// Sum of the values of a metric whose label contains something.
fn sum(reading: &Reading, metric: &str, label: &str) -> u64 {
    let values = reading.values.iter();
    values.filter(|Value(name, at, _)| name == metric && at.contains(label)).map(|value| value.2).sum()
}

/// Time of interrupts on a CPU.
fn interrupts(reading: &Reading, cpu: &str) -> u64 {
    sum(reading, "exact.hardirq_ns", cpu) + sum(reading, "exact.softirq_ns", cpu)
}

/// Time that the hypervisor took from all CPUs since the boot, in whole ticks.
fn stolen() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    stat.split_whitespace().nth(8).unwrap().parse::<u64>().unwrap() * TICK
}

/// All classes of a CPU.
fn classes(reading: &Reading, cpu: &str) -> u64 {
    let tasks = ["exact.app_ns", "exact.other_ns", "exact.idle_ns"];
    tasks.iter().map(|metric| sum(reading, metric, cpu)).sum::<u64>() + interrupts(reading, cpu)
}

/// Does something on the CPU of the loads until it has taken the calling thread this much CPU time.
fn burn(time: Duration, mut work: impl FnMut()) {
    let begin = clock::thread_cpu();
    while clock::thread_cpu().minus(begin) < Nanos(time.as_nanos() as u64) {
        work();
    }
}

/// Runs a load in a thread of its own on the CPU of the loads; the reading over it.
fn observed(load: impl FnOnce() + Send) -> Reading {
    let mut panel = panel(&[cpu()], 0);
    panel.baseline();
    thread::scope(|scope| {
        scope.spawn(|| {
            affinity::restrict(&[cpu()]).unwrap();
            load();
        });
    });
    panel.read().remove(0)
}

#[test]
fn the_classes_of_every_cpu_sum_to_the_wall_time() {
    let Some(_turn) = turn() else { return };
    let cpus = affinity::allowed().unwrap();
    let mut panel = panel(&cpus, 0);
    // A reading visits one CPU after the other, and may be held up on its way: the account of a CPU may be off by the time
    // that the readings at both of its ends took, and by no more.
    let taken = |mut read: Box<dyn FnMut() + '_>| {
        let begin = clock::monotonic();
        read();
        clock::monotonic().minus(begin).0
    };
    let mut before = taken(Box::new(|| panel.baseline()));
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(200));
        let mut reading = None;
        let after = taken(Box::new(|| reading = Some(panel.read().remove(0))));
        let reading = reading.unwrap();
        for cpu in &cpus {
            let (whole, span) = (classes(&reading, &format!("cpu={cpu}")), reading.span_ns.0);
            let allowed = span / 1000 + before + after;
            assert!(whole.abs_diff(span) <= allowed, "CPU {cpu}: {whole} of {span} ns, {allowed} allowed");
        }
        before = after;
    }
}

#[test]
fn a_load_of_known_duty_cycle_is_the_agents_time() {
    let Some(_turn) = turn() else { return };
    // The kernel's own account of this process, all threads, from outside the window and from inside it: what the
    // reading itself takes, and whatever else this process does meanwhile, lies between the two.
    let mut panel = panel(&affinity::allowed().unwrap(), 0);
    let (stolen, outer) = (stolen(), clock::process_cpu());
    panel.baseline();
    let inner = clock::process_cpu();
    thread::scope(|scope| {
        scope.spawn(|| {
            affinity::restrict(&[cpu()]).unwrap();
            for _ in 0..120 {
                burn(Duration::from_millis(3), std::hint::spin_loop);
                thread::sleep(Duration::from_millis(7));
            }
        });
    });
    let inner = clock::process_cpu().minus(inner).0;
    let reading = panel.read().remove(0);
    let outer = clock::process_cpu().minus(outer).0;
    let stolen = self::stolen() - stolen;

    let (app, on_top) = (sum(&reading, "exact.app_ns", "cpu="), interrupts(&reading, "cpu="));
    assert!(inner >= 360 * MILLISECOND);
    // The kernel takes what the hypervisor stole out of a process's time; the classes have it in them.
    assert!(app <= outer + outer / 100 + stolen + TICK, "{app} of {outer} ns, {stolen} ns stolen");
    // A process's own clock runs on in interrupts.
    assert!(app + on_top + inner / 100 >= inner, "{app} of {inner} ns, {on_top} ns on top");
}

#[test]
fn another_process_is_not_the_agent() {
    let Some(_turn) = turn() else { return };
    // 300 ms by its own clock, from when it is on that CPU alone: before, it may have run elsewhere.
    let spin =
        "import os, sys, time\nos.sched_setaffinity(0, {int(sys.argv[1])})\nbegin = time.process_time()\n\
        while time.process_time() < begin + 0.3: pass";
    let mut panel = panel(&[cpu()], 0);
    let (stolen, own) = (stolen(), clock::process_cpu());
    panel.baseline();
    let status = Command::new("python3").args(["-c", spin, &cpu().to_string()]).status().unwrap();
    let reading = panel.read().remove(0);
    let (own, stolen) = (clock::process_cpu().minus(own).0, self::stolen() - stolen);
    assert!(status.success());
    let (app, other) = (sum(&reading, "exact.app_ns", ""), sum(&reading, "exact.other_ns", ""));
    let on_top = interrupts(&reading, "");
    assert!(other + on_top >= 297 * MILLISECOND, "other {other} ns, interrupts {on_top} ns");
    // Starting a process and waiting for it takes some time of this one, by its own clock.
    assert!(app <= own + own / 100 + stolen + TICK, "{app} of {own} ns, {stolen} ns stolen");
}

#[test]
fn user_and_kernel_time_are_told_apart() {
    let Some(_turn) = turn() else { return };
    let share = |load: &(dyn Fn() + Sync)| {
        let reading = observed(load);
        let samples = sum(&reading, "exact.split_samples", "");
        assert!(samples >= 50, "{samples} samples in 600 ms of load: {reading:?}");
        let user = sum(&reading, "exact.app_user_ns", "") as f64;
        (user / sum(&reading, "exact.app_ns", "") as f64, samples as f64)
    };
    let user = || (0..20_000).for_each(|_| std::hint::spin_loop());
    let mut buffer = vec![0; 1 << 20];
    let kernel = Mutex::new(move || File::open("/dev/zero").unwrap().read_exact(&mut buffer).unwrap());
    let kernel = || kernel.lock().unwrap()();

    let (spinning, _) = share(&|| burn(Duration::from_millis(600), user));
    // Where others want the CPU too, to be put on it and off it is kernel time of the thread.
    assert!(spinning > 0.75, "a spinning thread is in user mode: {spinning}");
    let (calling, _) = share(&|| burn(Duration::from_millis(600), kernel));
    assert!(calling < 0.1, "the kernel copies zeros: {calling}");
    let (mixed, samples) = share(&|| {
        for _ in 0..150 {
            burn(Duration::from_millis(2), user);
            burn(Duration::from_millis(2), kernel);
        }
    });
    // Five standard errors of a share of samples.
    assert!((mixed - 0.5).abs() < 5.0 * (0.25 / samples).sqrt() + 0.02, "{mixed} of {samples} samples");
}

#[test]
fn two_agents_on_one_machine_do_not_see_each_others_cpus_and_agree_where_they_share_one() {
    let Some(_turn) = turn() else { return };
    let shared = cpu();
    let mut wide = panel(&affinity::allowed().unwrap(), 0);
    let mut narrow = panel(&[shared], 0);
    let first = clock::monotonic();
    wide.baseline();
    narrow.baseline();
    let begun = clock::monotonic();
    thread::sleep(Duration::from_millis(500));
    let ended = clock::monotonic();
    let (narrow, wide) = (narrow.read().remove(0), wide.read().remove(0));
    // The windows are apart by the time of the readings at both of their ends.
    let apart = begun.minus(first).0 + clock::monotonic().minus(ended).0;
    assert_eq!(sum(&narrow, "exact.idle_ns", ""), sum(&narrow, "exact.idle_ns", &format!("cpu={shared}")));
    for metric in ["exact.app_ns", "exact.other_ns", "exact.idle_ns", "exact.hardirq_ns"] {
        let label = format!("cpu={shared}");
        let (one, other) = (sum(&narrow, metric, &label), sum(&wide, metric, &label));
        // Each sees the programs of the other.
        let allowed = wide.span_ns.0 / 100 + MILLISECOND + apart;
        assert!(one.abs_diff(other) < allowed, "{metric}: {one} and {other} ns, {allowed} allowed");
    }
}

#[test]
fn the_cost_of_the_observer_is_measured_in_the_warm_up() {
    let Some(_turn) = turn() else { return };
    if iodyno_sys::process::effective_user() != 0 {
        return skip("BPF run statistics need root");
    }
    for _ in 0..5 {
        if observed_in_the_warm_up() {
            return;
        }
    }
    skip("rates of a short slice not looked at: on this busy machine none of five had this thread's load in it");
}

/// A trial whose warm-up has the slice. `false`: this thread was off its CPU for so long that the slice, which is short,
/// may have seen nothing of it, or the accounting gave way; its rates were not looked at.
fn observed_in_the_warm_up() -> bool {
    let mut panel = panel(&affinity::allowed().unwrap(), 300);
    let stolen = stolen();
    panel.baseline();
    // Loopback raises a soft interrupt for each datagram.
    let to = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    from.connect(to.local_addr().unwrap()).unwrap();
    let begin = clock::monotonic();
    let (mut last, mut longest_gap, mut sent) = (begin, Nanos(0), 0_u64);
    while last.minus(begin) < Nanos(400 * MILLISECOND) {
        from.send(b"x").unwrap();
        sent += 1;
        thread::sleep(Duration::from_micros(50));
        let now = clock::monotonic();
        (last, longest_gap) = (now, longest_gap.max(now.minus(last)));
    }
    let reading = panel.read().remove(0);
    let stolen = self::stolen() - stolen;
    // Where others switch tasks all the time, the accounting may take too much of a CPU, and gives way.
    if reading.missing.as_ref().is_some_and(|why| why.contains("withdrawn: the accounting would take")) {
        return false;
    }
    let (events, observer) = (sum(&reading, "exact.events", ""), sum(&reading, "exact.observer_ns", ""));
    assert!(events > 0 && observer >= 10 * events, "{observer} ns of {events} events: {reading:?}");
    // What the hypervisor took, it may have taken from within an event.
    assert!(observer <= 5_000 * events + stolen + TICK, "{observer} ns of {events} events: {reading:?}");
    if longest_gap > Nanos(5 * MILLISECOND) {
        return false;
    }
    assert!(events >= 2 * sent, "{events} events of {sent} datagrams");
    assert!(sum(&reading, "exact.softirq_count", "vector=NET_RX") * 11 / 10 >= sent);
    // On a machine that others load an event may take so long that the counters are left out after the slice.
    let (packets, packets_per_s) =
        (sum(&reading, "napi.packets", ""), sum(&reading, "napi.packets_per_s", ""));
    // Rates are of a short slice, in which a busy machine may give this thread a part of what it gives it on average.
    let sent_per_s = sent * 1_000 / 400;
    assert!(packets >= sent || packets_per_s * 10 > sent_per_s, "{packets} packets of {sent}: {reading:?}");
    let calls_per_s = sum(&reading, "syscalls.rate_per_s", "");
    assert!(calls_per_s * 10 > sent_per_s, "two calls for each of {sent} datagrams: {reading:?}");
    true
}

/// Sends bursts of 1.5 ms at every tick of 4 ms, which a tick at 250 Hz sees always or never, to 200 receivers, so
/// that a soft interrupt is long against what the meters add to it.
const TIMER_LOCKED: &str = r#"
import os, socket, sys, time
cpu, begin_ns, end_ns = map(int, sys.argv[1:])
os.sched_setaffinity(0, {cpu})
group, here = socket.inet_aton("239.255.77.77"), socket.inet_aton("127.0.0.1")
receivers = []
for _ in range(200):
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + here)
    receiver.bind(("239.255.77.77", 0 if not receivers else receivers[0].getsockname()[1]))
    receivers.append(receiver)
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, here)
sender.connect(receivers[0].getsockname())
tick = begin_ns
while tick < end_ns:
    time.sleep(max(0, tick - time.monotonic_ns()) / 1e9)
    while time.monotonic_ns() < tick + 1_500_000:
        sender.send(b"x")
    tick += 4_000_000
"#;

fn timer_locked(cpu: u32, begin: Nanos, end: Nanos) -> Child {
    let arguments = [cpu.to_string(), begin.0.to_string(), end.0.to_string()];
    let mut command = Command::new("python3");
    command.args(["-c", TIMER_LOCKED]).args(arguments).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn an_independent_meter_agrees_on_a_load_that_is_locked_to_the_timer() {
    let Some(_turn) = turn() else { return };
    if !meter::available() {
        return skip("no bpftrace that runs here");
    }
    let cpu = cpu();
    let length = Nanos(2_000 * MILLISECOND);
    let Some(meter) = meter::start(cpu, length) else { return skip("bpftrace ended before it metered") };
    let (begin, end) = (meter.begin, meter.begin.plus(length));
    let mut load = timer_locked(cpu, begin, end);
    let mut panel = panel(&[cpu], 0);
    clock::sleep_until(begin).unwrap();
    panel.baseline();
    let late = clock::monotonic().minus(begin).0;
    clock::sleep_until(end).unwrap();
    let reading = panel.read().remove(0);
    let overtime = clock::monotonic().minus(end).0;
    assert!(load.wait().unwrap().success());
    let Some(metered) = meter.finish() else {
        return skip("bpftrace ended before it had metered");
    };
    // The panel's window is that of the meter but for what this thread came late at both of its ends.
    if late + overtime > 50 * MILLISECOND {
        return skip(&format!("no window in common on this busy machine: {late} and {overtime} ns late"));
    }
    if metered.softirq_ns < 100 * MILLISECOND {
        return skip(&format!("others had the CPU of the load, by the meter: {metered:?}"));
    }
    let label = format!("cpu={cpu}");
    let softirq = sum(&reading, "exact.softirq_ns", &label);
    let hardirq = sum(&reading, "exact.hardirq_ns", &label);
    // 1 % or 0.1 points of the CPU; besides, what one meter does at the edges of an interrupt falls into the
    // interrupt for the other: some 500 ns each.
    let apart = late + overtime;
    let allowed = |of: u64, times: u64| (of / 100).max(reading.span_ns.0 / 1000) + 500 * times + apart;
    let times = sum(&reading, "exact.softirq_count", &label);
    assert!(softirq.abs_diff(metered.softirq_ns) <= allowed(softirq, times), "{softirq} and {metered:?}");
    assert!(
        hardirq.abs_diff(metered.hardirq_ns) <= allowed(hardirq, metered.hardirqs),
        "{hardirq} and {metered:?}"
    );
}
