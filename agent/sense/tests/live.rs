//! Sensors on the machine that the test runs on: relations between what was done and what they say.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{mpsc, Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use iodyno_core::metric::{Reading, Value};
use iodyno_sense::{catalogue, costs, Panel, Roots, SenseError, Subject};

/// What some hosts lack: hardware counters, BPF, control groups, pressure (`psi=0`), file systems of a network, ZFS, several NUMA
/// nodes; and what has to be named.
const MAY_BE_ABSENT: [&str; 14] = [
    "numa",
    "nfs_operations",
    "nfsd_operations",
    "zfs_cache",
    "ceph_requests",
    "cycles",
    "cpu_exact",
    "cgroup_cpu",
    "cgroup_disk",
    "pressure",
    "block_times",
    "nfs_slots",
    "syscall_times",
    "waits",
];

/// Kernel id of the calling thread.
fn thread_id() -> i32 {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

fn panel(subject: &Subject, wanted: &[&str]) -> Panel {
    let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
    Panel::new(&Roots::default(), subject, Some(&wanted)).unwrap()
}

/// Waits until it is true; what is not true after a minute never is.
fn until(mut come: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !come() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it never comes");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Time that the hypervisor took from all CPUs since the boot, by ticks of 10 ms.
fn stolen() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    stat.split_whitespace().nth(8).unwrap().parse::<u64>().unwrap() * 10_000_000
}

/// Sum of the values of a metric whose label contains something.
fn sum(readings: &[Reading], metric: &str, label: &str) -> u64 {
    let values = readings.iter().flat_map(|reading| &reading.values);
    values.filter(|Value(name, at, _)| name == metric && at.contains(label)).map(|value| value.2).sum()
}

/// A connection over loopback, both ends.
fn loopback() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

#[test]
fn a_busy_thread_shows_in_its_own_time_and_in_the_time_of_the_cpus() {
    let (tell_id, id) = mpsc::channel();
    let (start, started) = mpsc::channel::<()>();
    let (stop, stopped) = mpsc::channel::<()>();
    let (tell_done, done) = mpsc::channel();
    let worker = thread::spawn(move || {
        tell_id.send(thread_id()).unwrap();
        started.recv().unwrap();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(200) {
            std::hint::spin_loop();
        }
        tell_done.send(()).unwrap();
        // It lives on, so that its times can be read; they are complete once it has left its CPU.
        let _ = stopped.recv();
    });
    let worker_id = id.recv().unwrap();
    let state = format!("/proc/self/task/{worker_id}/stat");
    let subject = Subject { thread_ids: vec![worker_id], ..Subject::default() };
    let mut panel = panel(&subject, &["cpu_times", "threads", "process"]);
    panel.baseline();
    let stolen_before = stolen();
    start.send(()).unwrap();
    done.recv().unwrap();
    until(|| std::fs::read_to_string(&state).unwrap().contains(") S "));
    let readings = panel.read();
    let stolen = stolen() - stolen_before;

    let run = sum(&readings, "thread.run_ns", "worker=0");
    let waited = sum(&readings, "thread.wait_ns", "worker=0");
    // On a machine with other work the thread may have waited for most of its 200 ms, and so may the machine itself.
    assert!(run + waited + stolen >= 150_000_000, "ran {run} ns, waited {waited} ns, {stolen} ns stolen");
    assert_eq!(sum(&readings, "thread.busiest_run_ns", "worker=busiest"), run);
    assert!(sum(&readings, "process.cpu_ns", "") >= run * 9 / 10);
    let busy: u64 = ["user", "nice", "system", "irq", "softirq"]
        .iter()
        .map(|state| sum(&readings, &format!("cpu.{state}_ns"), "cpu="))
        .sum();
    // Ticks sample: 10 ms each, and hardly ever half of them go astray.
    assert!(busy >= run / 2, "CPUs were busy {busy} ns, the thread {run} ns");
    let span = readings[0].span_ns.0;
    assert!(span >= 200_000_000 && run <= span + 10_000_000);

    drop(stop);
    worker.join().unwrap();
    until(|| !std::path::Path::new(&state).exists());
    let after = panel.read();
    assert_eq!(after[1].missing.as_deref(), Some("1 of 1 workers have ended"));
}

#[test]
fn of_more_workers_than_are_read_a_sample_stands_for_all() {
    let (tell, told) = mpsc::channel();
    // Three of eight are ready to run all the time; they end it together, and live on so that their times can be read.
    let busy = Arc::new(AtomicBool::new(true));
    let start = Arc::new(Barrier::new(9));
    let (stop, stopped) = mpsc::channel::<()>();
    let stopped = Arc::new(Mutex::new(stopped));
    let workers: Vec<_> = (0..8)
        .map(|number| {
            let (tell, busy) = (tell.clone(), Arc::clone(&busy));
            let (start, stopped) = (Arc::clone(&start), Arc::clone(&stopped));
            thread::spawn(move || {
                tell.send((number, thread_id())).unwrap();
                start.wait();
                while number < 3 && busy.load(Relaxed) {
                    std::hint::spin_loop();
                }
                let _ = stopped.lock().unwrap().recv();
            })
        })
        .collect();
    let mut each: Vec<(usize, i32)> = told.iter().take(8).collect();
    each.sort_unstable();
    let each: Vec<i32> = each.into_iter().map(|(_, id)| id).collect();
    let asleep = || {
        let state = |id: &i32| std::fs::read_to_string(format!("/proc/self/task/{id}/stat")).unwrap();
        each.iter().all(|id| state(id).contains(") S "))
    };
    until(asleep);
    let of = |thread_ids: Vec<i32>| panel(&Subject { thread_ids, ..Subject::default() }, &["threads"]);
    // As many as 4000 workers of which each is one of these.
    let (mut all, mut many) =
        (of(each.clone()), of(each.iter().copied().cycle().take(4_000).collect::<Vec<_>>()));
    all.baseline();
    many.baseline();
    start.wait();
    thread::sleep(Duration::from_millis(60));
    busy.store(false, Relaxed);
    until(asleep);
    let (all, many) = (all.read(), many.read());

    assert_eq!((sum(&all, "thread.workers", ""), sum(&many, "thread.workers", "")), (8, 1_024));
    assert_eq!(sum(&many, "thread.busiest_run_ns", ""), 0, "nobody knows it");
    assert!(many[0].missing.as_ref().unwrap().contains("1024 of 4000 workers"), "{:?}", many[0].missing);
    for metric in ["thread.run_ns", "thread.wait_ns", "thread.timeslices"] {
        let truth = sum(&all, metric, "worker=") as f64 / 8.0;
        let found = sum(&many, metric, "worker=sampled") as f64 / 1_024.0;
        // Four standard errors, where one of eight had all of it: 4 sqrt(7 / 1024) of the mean.
        assert!((found - truth).abs() <= 0.33 * truth, "{metric}: {found} of a worker, {truth} in truth");
    }
    let ready = |readings: &[Reading], label| {
        (sum(readings, "thread.run_ns", label) + sum(readings, "thread.wait_ns", label)) as f64
    };
    let (truth, found) = (ready(&all, "worker=") / 8.0, ready(&many, "worker=sampled") / 1_024.0);
    // Three of eight were ready alike: 4 sqrt(5 / 3 / 1024).
    assert!((found - truth).abs() <= 0.17 * truth, "{found} ns ready, {truth} ns in truth");
    drop(stop);
    workers.into_iter().for_each(|worker| worker.join().unwrap());
}

#[test]
fn switches_of_many_threads_count_also_when_they_have_ended() {
    let mut panel = panel(&Subject::default(), &["process"]);
    panel.baseline();
    let sleepers: Vec<_> = (0..40)
        .map(|_| thread::spawn(|| (0..5).for_each(|_| thread::sleep(Duration::from_millis(1)))))
        .collect();
    sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    let readings = panel.read();
    // To sleep is to leave the CPU.
    assert!(sum(&readings, "process.voluntary_switches", "") >= 40 * 5, "{readings:?}");
    assert_eq!(readings[0].missing, None);
}

#[test]
fn the_time_of_a_watched_process_is_its_roles_and_its_end_is_said() {
    // It computes until its stdin ends, and is then gone.
    let mut server = std::process::Command::new("sh")
        .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; read line"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let watched = vec![("server".to_owned(), vec![server.id()])];
    let mut panel = panel(&Subject { watched, ..Subject::default() }, &["roles"]);
    panel.baseline();
    let stat = format!("/proc/{}/stat", server.id());
    let sleeps = || std::fs::read_to_string(&stat).unwrap().contains(") S ");
    until(sleeps);
    let readings = panel.read();
    let took = sum(&readings, "role.cpu_ns", "role=server");
    assert!((1_000_000..=readings[0].span_ns.0 + 10_000_000).contains(&took), "{took}");
    drop(server.stdin.take());
    server.wait().unwrap();
    let after = panel.read();
    assert!(after[0].missing.as_deref().unwrap().contains("of the server has ended"), "{after:?}");
}

#[test]
fn what_storage_gave_a_role_is_what_the_page_cache_had_not() {
    const BYTES: u64 = 8 << 20;
    let tool = |line: &str| std::process::Command::new("sh").args(["-c", line]).output().unwrap();
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/read-by-a-role");
    std::fs::write(path, vec![1; BYTES as usize]).unwrap();
    // All of it leaves the page cache, and a part comes back. How much, page by page, is another program's word.
    tool(&format!("dd if=/dev/null of={path} oflag=nocache conv=notrunc,fdatasync status=none"));
    tool(&format!("dd if={path} of=/dev/null bs=64k count=48 status=none"));
    let counted = tool(&format!("fincore --bytes --noheadings --output res {path}"));
    let Ok(held) = String::from_utf8_lossy(&counted.stdout).trim().parse::<u64>() else {
        // Past the test program's capture, so that it is seen.
        std::io::stderr().write_all(b"SKIPPED: no fincore here (util-linux)\n").unwrap();
        return;
    };
    let mut reader = std::process::Command::new("sh")
        .args(["-c", &format!("read line; dd if={path} of=/dev/null bs=64k status=none; read line")])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let watched = vec![("server".to_owned(), vec![reader.id()])];
    let mut panel = panel(&Subject { watched, ..Subject::default() }, &["roles"]);
    panel.baseline();
    reader.stdin.as_mut().unwrap().write_all(b"read\n").unwrap();
    // What a process has read is its parent's when that has waited for it: all at once.
    let (mut asked, mut given) = (0, 0);
    until(|| {
        let readings = panel.read();
        asked += sum(&readings, "role.asked_bytes", "role=server");
        given += sum(&readings, "role.read_bytes", "role=server");
        asked >= BYTES
    });
    drop(reader.stdin.take());
    reader.wait().unwrap();
    std::fs::remove_file(path).unwrap();
    // What the programs are loaded from comes on top: some kilobytes, and what a machine short of memory has put out of it.
    assert!(asked < BYTES + BYTES / 50, "{asked} of {BYTES}");
    let missed = BYTES - held;
    let most = missed + BYTES / 5;
    assert!(
        (missed.saturating_sub(BYTES / 50)..most).contains(&given),
        "{given} given, {held} of {BYTES} held"
    );
}

#[test]
fn bytes_over_loopback_show_in_the_flows_the_device_and_the_protocols() {
    const BYTES: usize = 8 << 20;
    let (mut near, mut far) = loopback();
    let subject = Subject { sockets: vec![near.as_raw_fd(), far.as_raw_fd()], ..Subject::default() };
    let wanted = ["tcp_info", "net_devices", "tcp_ip", "softnet", "softirqs", "context_switches", "memory"];
    let (mut panel, mut acknowledged) = (panel(&subject, &wanted), panel(&subject, &["tcp_info"]));
    panel.baseline();
    acknowledged.baseline();
    let receiver = thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        let mut received = 0;
        while received < BYTES {
            received += far.read(&mut buffer).unwrap();
        }
        far
    });
    near.write_all(&vec![1; BYTES]).unwrap();
    let far = receiver.join().unwrap();
    // The last acknowledgement may still be on its way.
    let (bytes, mut acked) = (BYTES as u64, 0);
    until(|| {
        acked += sum(&acknowledged.read(), "tcp.acked_bytes", "");
        acked >= bytes
    });
    let readings = panel.read();

    assert_eq!(sum(&readings, "tcp.acked_bytes", ""), bytes);
    assert_eq!(sum(&readings, "tcp.received_bytes", ""), bytes);
    assert_eq!(sum(&readings, "tcp.flows", ""), 2);
    // A segment that was sent again for nothing arrives twice.
    let (out, arrived) =
        (sum(&readings, "tcp.data_segments_out", ""), sum(&readings, "tcp.data_segments_in", ""));
    assert!(arrived <= out && out <= arrived + sum(&readings, "tcp.retransmitted_segments", ""));
    assert!(sum(&readings, "tcp.rtt_ns", "of=min") <= sum(&readings, "tcp.rtt_ns", "of=max"));
    assert!(sum(&readings, "net.tx_bytes", "dev=lo") > bytes, "headers come on top");
    assert!(sum(&readings, "net.rx_bytes", "dev=lo") > bytes);
    let segments = sum(&readings, "tcp_ip.count", "counter=Tcp.OutSegs");
    assert!(segments >= sum(&readings, "tcp.data_segments_out", ""), "{segments}");
    assert!(sum(&readings, "tcp_ip.state", "counter=Tcp.CurrEstab") >= 2);
    assert!(sum(&readings, "softnet.processed", "cpu=") > 0);
    assert!(sum(&readings, "softirqs.count", "vector=NET_RX") > 0);
    assert!(sum(&readings, "sched.context_switches", "") > 0);
    assert!(sum(&readings, "memory.available_bytes", "") > 0);
    assert!(readings.iter().all(|reading| reading.cost_ns.0 > 0), "{readings:?}");
    drop(far);
}

#[test]
fn a_socket_that_was_closed_is_named_and_the_others_count() {
    let (near, far) = loopback();
    let subject = Subject { sockets: vec![near.as_raw_fd(), -1], ..Subject::default() };
    let mut panel = panel(&subject, &["tcp_info"]);
    panel.baseline();
    let reading = panel.read().remove(0);
    assert_eq!(sum(std::slice::from_ref(&reading), "tcp.flows", ""), 1);
    assert!(reading.missing.unwrap().starts_with("1 of 2 flows could not be read"));
    drop(far);
}

#[test]
fn without_a_wish_every_available_sensor_is_read() {
    let subject = Subject { storage: true, ..Subject::default() };
    let mut panel = Panel::new(&Roots::default(), &subject, None).unwrap();
    panel.baseline();
    let readings = panel.read();
    let names: Vec<&str> = panel.names().collect();
    assert!(names.contains(&"cpu_times") && readings.len() == names.len());
    for (name, _) in catalogue() {
        assert!(names.contains(&name) || MAY_BE_ABSENT.contains(&name), "{name} is absent: {names:?}");
    }
}

#[test]
fn an_unknown_sensor_is_an_error_and_an_unavailable_one_is_not() {
    let unknown = Panel::new(&Roots::default(), &Subject::default(), Some(&["cpu_time".to_owned()]));
    assert!(matches!(unknown.err(), Some(SenseError::Unknown { nearest: "cpu_times", .. })));
    let nowhere =
        Roots { proc: "/nonexistent".into(), sys: "/nonexistent".into(), boot: "/nonexistent".into() };
    let wanted = ["softirqs".to_owned(), "softirqs".to_owned()];
    let readings = Panel::new(&nowhere, &Subject::default(), Some(&wanted)).unwrap().read();
    assert_eq!(readings.len(), 1);
    assert!(readings[0].missing.as_ref().unwrap().contains("/nonexistent/softirqs"));
}

#[test]
fn every_sensor_has_a_cost() {
    let begin = Instant::now();
    let costs = costs();
    let took = begin.elapsed().as_nanos() as u64;
    assert!(costs.len() + MAY_BE_ABSENT.len() >= catalogue().len());
    for (sensor, cost) in costs {
        // Written to the test's own output, which is shown on request.
        writeln!(std::io::stderr(), "{sensor:<18} {:>8} ns", cost.0).unwrap();
        // Half of several readings took that or more, and all of them the time from outside.
        assert!(cost.0 > 0 && 2 * cost.0 < took, "{sensor}: {cost:?} of {took} ns");
    }
}
