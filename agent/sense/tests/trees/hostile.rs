//! Sensors on files that are cut, mutated or garbage: something is missing with a reason, nothing panics.

use std::fs;
use std::path::Path;

use crate::tree::{fixture, Tree};
use iodyno_core::metric::Reading;
use iodyno_sense::{catalogue, host_facts, Panel, Roots, Subject};
use proptest::prelude::*;

/// Every file below `proc` and `sys` that a sensor or a fact is read from.
const FILES: [&str; 26] = [
    "proc/vmstat",
    "proc/diskstats",
    "proc/pressure/cpu",
    "proc/pressure/memory",
    "proc/pressure/io",
    "sys/fs/cgroup/lab.slice/cpu.stat",
    "proc/stat",
    "proc/interrupts",
    "proc/softirqs",
    "proc/meminfo",
    "proc/cpuinfo",
    "proc/loadavg",
    "proc/self/auxv",
    "proc/self/stat",
    "proc/self/status",
    "proc/self/limits",
    "proc/self/cgroup",
    "proc/self/schedstat",
    "proc/self/net/dev",
    "proc/self/net/snmp",
    "proc/self/net/snmp6",
    "proc/self/net/netstat",
    "proc/self/net/sockstat",
    "proc/self/net/softnet_stat",
    "proc/self/task/813/schedstat",
    "sys/devices/system/cpu/online",
];

/// Every sensor but those that read no file.
fn of_files() -> Vec<String> {
    let live = ["cpu_exact", "cycles", "qdisc"];
    let names = catalogue().into_iter().map(|(name, _)| name.to_owned());
    names.filter(|name| !live.contains(&name.as_str())).collect()
}

/// Reads everything before and after `spoil` has been at the files.
fn readings_when(spoil: impl Fn(&Path)) -> Vec<Reading> {
    let tree = Tree::of(&fixture("linux-6.18").join("before"));
    let watched = vec![("server".to_owned(), vec![813])];
    let subject = Subject { thread_ids: vec![813, 814], watched, ..Subject::default() };
    let roots = tree.roots();
    let root = roots.proc.parent().unwrap();
    let mut panel = Panel::new(&roots, &subject, Some(&of_files())).unwrap();
    panel.baseline();
    tree.overlay(&fixture("linux-6.18").join("after"));
    spoil(root);
    let readings = panel.read();
    // And opening files that are spoilt already.
    Panel::new(&roots, &subject, Some(&of_files())).unwrap().baseline();
    let _ = host_facts(&roots);
    readings
}

fn spoil_all(root: &Path, content: &[u8]) {
    for file in FILES {
        fs::write(root.join(file), content).unwrap();
    }
}

#[test]
fn empty_and_garbled_files_are_missing_with_a_reason() {
    for garbage in ["", "\n", "garbage", "\0\0\0\0\0\0\0\0\0", "cpu", ":", "CPU0\n:\n", "Inter-|\nx\n:\n"] {
        for reading in readings_when(|root| spoil_all(root, garbage.as_bytes())) {
            // A heading alone is a valid table without rows, and so nothing has moved.
            if !garbage.contains("CPU0") && !garbage.contains("Inter") {
                assert!(reading.missing.is_some(), "{garbage:?}: {reading:?}");
            }
        }
    }
}

#[test]
fn files_cut_anywhere_never_panic() {
    for eighth in 0..8 {
        readings_when(|root| {
            for file in FILES {
                let content = fs::read(root.join(file)).unwrap();
                fs::write(root.join(file), &content[..content.len() * eighth / 8]).unwrap();
            }
        });
    }
}

#[test]
fn a_sensor_that_failed_once_grows_over_both_spans() {
    let tree = Tree::of(&fixture("linux-6.18").join("before"));
    let roots: Roots = tree.roots();
    let mut panel = Panel::new(&roots, &Subject::default(), Some(&["softirqs".to_owned()])).unwrap();
    panel.baseline();
    fs::write(roots.proc.join("softirqs"), "").unwrap();
    let failed = panel.read().remove(0);
    assert!(failed.values.is_empty() && failed.missing.unwrap().contains("softirqs: has no heading"));
    tree.overlay(&fixture("linux-6.18").join("after"));
    let whole = panel.read().remove(0);
    assert!(whole.span_ns > failed.span_ns, "from the last reading that succeeded");
    assert!(whole.values.iter().any(|value| value.1 == "cpu=0,vector=NET_RX" && value.2 == 640));
}

/// Removes the lines of a file that contain something.
fn remove_lines(root: &Path, file: &str, with: &str) {
    let path = root.join(file);
    let text = fs::read_to_string(&path).unwrap();
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains(with)).collect();
    assert!(kept.len() < text.lines().count(), "{file} has no {with}");
    fs::write(&path, kept.join("\n") + "\n").unwrap();
}

/// The reading of a sensor.
fn of<'readings>(readings: &'readings [Reading], sensor: &str) -> &'readings Reading {
    readings.iter().find(|reading| reading.sensor == sensor).unwrap()
}

#[test]
fn a_device_that_was_deleted_is_named_and_the_others_count() {
    let readings = readings_when(|root| remove_lines(root, "proc/self/net/dev", "eth0"));
    let devices = of(&readings, "net_devices");
    let missing = devices.missing.as_ref().unwrap();
    assert!(missing.contains("dev=eth0 is gone: growth not known"), "{missing}");
    assert!(devices.values.iter().all(|value| value.1 != "dev=eth0"));
    assert!(devices.values.iter().any(|value| value.1 == "dev=lo"));
}

#[test]
fn a_cpu_that_went_offline_is_named_and_the_others_count() {
    let readings = readings_when(|root| {
        remove_lines(root, "proc/stat", "cpu1 ");
        for table in ["proc/interrupts", "proc/softirqs"] {
            let text = fs::read_to_string(root.join(table)).unwrap();
            fs::write(root.join(table), text.replacen("CPU1", "", 1)).unwrap();
        }
    });
    let times = of(&readings, "cpu_times");
    assert!(times.missing.as_ref().unwrap().contains("CPU 1 is gone: growth not known"), "{times:?}");
    assert!(times.values.iter().any(|value| value.1 == "cpu=0"));
    for table in ["interrupts", "softirqs"] {
        let missing = of(&readings, table).missing.as_ref().unwrap();
        assert!(missing.contains("CPUs came or went"), "{table}: {missing}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_content_never_panics(content in proptest::collection::vec(any::<u8>(), 0..400)) {
        readings_when(|root| spoil_all(root, &content));
    }

    #[test]
    fn arbitrary_words_of_the_files_never_panic(
        words in proptest::collection::vec(
            prop_oneof![
                "[0-9a-f]{1,22}", "-?[0-9]{1,20}", "cpu[0-9]{0,11}", "CPU[0-9]{1,2}", "(Tcp|Udp|TCP|lo|LOC|24):",
                Just("Inter-|".to_owned()), Just("ctxt".to_owned()), Just("mem".to_owned()),
                Just("\n".to_owned()), Just(")".to_owned()), Just("MemFree:".to_owned()),
            ],
            0..120,
        ),
    ) {
        readings_when(|root| spoil_all(root, words.join(" ").replace(" \n ", "\n").as_bytes()));
    }

    #[test]
    fn mutated_files_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        repeated in 0_usize..3,
    ) {
        readings_when(|root| {
            for file in FILES {
                let mut content = fs::read(root.join(file)).unwrap().repeat(repeated);
                if content.is_empty() {
                    continue;
                }
                for (place, byte) in &changes {
                    let place = place.index(content.len());
                    content[place] = *byte;
                }
                fs::write(root.join(file), content).unwrap();
            }
        });
    }
}
