//! Sensors and facts on recorded trees: two snapshots of a kernel's files give known growths.
//!
//! The expected readings are in `fixtures/KERNEL/golden.txt`. `IODYNO_UPDATE=1` writes them anew;
//! read the difference before you commit it.

use crate::tree::{fixture, Tree};
use iodyno_core::metric::Reading;
use iodyno_core::units::Bytes;
use iodyno_sense::{catalogue, host_facts, Panel, Roots, Subject};

/// Every sensor but those that read no file.
fn of_files() -> Vec<String> {
    let live = ["block_times", "cpu_exact", "cycles", "qdisc", "syscall_times"];
    let names = catalogue().into_iter().map(|(name, _)| name.to_owned());
    names.filter(|name| !live.contains(&name.as_str())).collect()
}

/// Growth between the two snapshots of a kernel.
fn readings(kernel: &str, thread_ids: Vec<i32>) -> Vec<Reading> {
    let tree = Tree::of(&fixture(kernel).join("before"));
    let subject = Subject { thread_ids, ..Subject::default() };
    let mut panel = Panel::new(&tree.roots(), &subject, Some(&of_files())).unwrap();
    panel.baseline();
    tree.overlay(&fixture(kernel).join("after"));
    let mut readings = panel.read();
    // What this machine's CPUs count is not of the tree.
    for numa in readings.iter_mut().filter(|reading| reading.sensor == "numa" && !reading.values.is_empty()) {
        numa.values.retain(|value| !value.0.ends_with("loads"));
        numa.missing = None;
    }
    // Where the copy lies says nothing.
    let root = tree.roots().proc.with_file_name("").display().to_string();
    for missing in readings.iter_mut().filter_map(|reading| reading.missing.as_mut()) {
        *missing = missing.replace(&root, "/");
    }
    readings
}

/// One line a value; what the kernel tells of this very process is left out.
fn as_text(readings: &[Reading]) -> String {
    let mut text = String::new();
    for Reading { sensor, values, missing, .. } in readings {
        let live = [
            "process.cpu_ns",
            "process.voluntary_switches",
            "process.involuntary_switches",
            "thread.run_ns worker=all",
        ];
        for value in values {
            let name = format!("{} {}", value.0, value.1);
            if !live.contains(&name.trim()) {
                text += &format!("{sensor} {} = {}\n", name.trim(), value.2);
            }
        }
        if let Some(missing) = missing {
            text += &format!("{sensor} misses: {missing}\n");
        }
    }
    text
}

fn compare(kernel: &str) {
    let text = as_text(&readings(kernel, vec![813, 814]));
    let golden = fixture(kernel).join("golden.txt");
    if std::env::var_os("IODYNO_UPDATE").is_some() {
        std::fs::write(&golden, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&golden).unwrap());
}

#[test]
fn a_recent_kernel_gives_known_growths() {
    compare("linux-6.18");
}

#[test]
fn an_old_kernel_gives_what_it_has_and_says_what_it_has_not() {
    compare("linux-4.18");
}

#[test]
fn groups_without_the_controller_of_cpus_stop_nobody_and_miss_nothing() {
    let tree = Tree::of(&fixture("linux-6.18").join("before"));
    let group = tree.roots().sys.join("fs/cgroup/lab.slice");
    let read = || {
        let mut panel =
            Panel::new(&tree.roots(), &Subject::default(), Some(&["cgroup_cpu".to_owned()])).unwrap();
        panel.baseline();
        let Reading { values, missing, .. } = panel.read().remove(0);
        (values.into_iter().map(|value| (value.0, value.2)).collect::<Vec<_>>(), missing)
    };
    for of in [&group, &group.join("agent.scope")] {
        std::fs::write(of.join("cpu.stat"), "usage_usec 12\nuser_usec 5\nsystem_usec 7\n").unwrap();
    }
    let none = ["cgroup.periods", "cgroup.throttled_periods", "cgroup.throttled_ns"];
    assert_eq!(read(), (none.map(|name| (name.to_owned(), 0)).to_vec(), None));
    std::fs::remove_dir_all(group).unwrap();
    assert_eq!(read(), (vec![], Some("no control group of the agent can be seen".to_owned())));
}

#[test]
fn every_value_is_of_a_metric_of_its_sensor() {
    let metrics = catalogue();
    for reading in readings("linux-6.18", vec![813, 814]) {
        let (_, known) = metrics.iter().find(|(name, _)| *name == reading.sensor).unwrap();
        for value in &reading.values {
            let metric = known.iter().find(|metric| metric.name == value.0).unwrap();
            assert_eq!(metric.label.is_empty(), value.1.is_empty(), "{value:?}");
        }
    }
}

#[test]
fn many_workers_are_summed_and_the_busiest_is_told() {
    let mut workers = vec![814; 64];
    workers.push(813);
    let readings = readings("linux-6.18", workers);
    let threads = readings.iter().find(|reading| reading.sensor == "threads").unwrap();
    let value = |metric: &str| threads.values.iter().find(|value| value.0 == metric).unwrap();
    assert_eq!((value("thread.run_ns").1.as_str(), value("thread.run_ns").2), ("worker=all", 29_700_000_000));
    assert_eq!(value("thread.wait_ns").2, 5_830_000);
    assert_eq!(value("thread.busiest_run_ns").2, 900_000_000);
    assert_eq!(value("thread.workers").2, 65);
    assert_eq!(threads.values.len(), 5);
}

#[test]
fn facts_of_a_recent_kernel() {
    let tree = fixture("linux-6.18").join("before");
    let facts =
        host_facts(&Roots { proc: tree.join("proc"), sys: tree.join("sys"), boot: tree.join("boot") });
    assert_eq!(facts.hostname.as_deref(), Some("lab-a"));
    assert_eq!(facts.kernel.as_deref(), Some("6.18.44"));
    assert_eq!(facts.cpu_model.as_deref(), Some("AMD EPYC"));
    assert_eq!((facts.cpus_online, facts.cpus_allowed), (vec![0, 1], vec![0, 1]));
    assert_eq!(facts.memory_bytes, Some(Bytes(24_684_084 * 1024)));
    assert_eq!(facts.descriptors_limit, Some(524_288));
    assert_eq!(facts.threads_limit, Some(4_915), "the control group's");
    assert_eq!(facts.cpu_quota_cpus, Some(1.5), "the one of the group above");
    assert_eq!(facts.congestion_controls, ["reno", "cubic"], "a user's, not root's");
    assert_eq!(facts.hypervisor.as_deref(), Some("KVM"));
    assert_eq!((facts.smt, facts.governor, facts.irq_time_accounting), (Some(false), None, None));
    assert_eq!((facts.load_average, facts.user_id), (Some(0.12), 1000));
}

#[test]
fn facts_of_an_old_kernel() {
    let tree = fixture("linux-4.18").join("before");
    let facts =
        host_facts(&Roots { proc: tree.join("proc"), sys: tree.join("sys"), boot: tree.join("boot") });
    assert_eq!((facts.cpus_online, facts.user_id), (vec![0, 2], 0));
    assert_eq!(facts.descriptors_limit, None, "unlimited");
    assert_eq!(facts.threads_limit, Some(15_730), "the kernel's");
    assert_eq!(facts.cpu_quota_cpus, Some(0.5), "version 1 of control groups");
    assert_eq!(facts.congestion_controls, ["reno", "cubic"]);
    assert_eq!((facts.hypervisor, facts.boot_id, facts.load_average), (None, None, None));
    assert_eq!((facts.governor.as_deref(), facts.smt), (Some("performance"), Some(true)));
    assert_eq!((facts.irq_time_accounting, facts.memory_available_bytes), (Some(true), None));
}

#[test]
fn facts_of_nothing_are_absent() {
    let facts = host_facts(&Roots {
        proc: "/nonexistent".into(),
        sys: "/nonexistent".into(),
        boot: "/nonexistent".into(),
    });
    assert_eq!((facts.kernel, facts.threads_limit, facts.cpu_quota_cpus), (None, None, None));
    assert_eq!(facts.user_id, 65_534, "nobody");
}

#[test]
fn the_engine_of_a_host_is_told_by_its_environment_and_its_root() {
    let tree = Tree::of(&fixture("linux-6.18").join("before"));
    let proc = tree.roots().proc;
    let of = |variables: &str| {
        std::fs::write(proc.join("self/environ"), variables.replace(' ', "\0")).unwrap();
        let facts = host_facts(&tree.roots());
        (facts.container, facts.pod, facts.node, facts.job)
    };
    let word = |text: &str| Some(text.to_owned());
    assert_eq!(of("HOSTNAME=a container="), (None, None, None, None), "an ordinary machine");
    assert_eq!(of("container=podman"), (word("podman"), None, None, None));
    let pod = "KUBERNETES_SERVICE_HOST=10.0.0.1 HOSTNAME=load-7 NODE_NAME=n3";
    assert_eq!(of(pod), (word("kubernetes"), word("load-7"), word("n3"), None));
    assert_eq!(of("SLURM_JOB_ID=41 SLURMD_NODENAME=n2"), (None, None, word("n2"), word("41")));
    std::fs::create_dir_all(proc.join("self/root")).unwrap();
    std::fs::write(proc.join("self/root/.dockerenv"), "").unwrap();
    assert_eq!(of("HOSTNAME=a"), (word("docker"), None, None, None));
    std::fs::create_dir_all(proc.join("self/ns")).unwrap();
    std::os::unix::fs::symlink("pid:[4026531836]", proc.join("self/ns/pid")).unwrap();
    assert_eq!(of("HOSTNAME=a"), (None, None, None, None), "a machine made from an image");
}
