//! The sensor of the block layer on the live kernel: what is written to a disk is counted there, with its times.

use std::fs::File;
use std::io::Write;

use iodyno_core::metric::Reading;
use iodyno_core::units::Nanos;
use iodyno_sense::{available, Panel, Roots, Subject};

const WRITTEN: u64 = 4 << 20;

fn sum(reading: &Reading, metric: &str, part: &str) -> u64 {
    let values = reading.values.iter().filter(|value| value.0 == metric && value.1.contains(part));
    values.map(|value| value.2).sum()
}

#[test]
fn what_reaches_a_disk_is_counted_with_its_times() {
    let sensors = ["block_times".to_owned(), "disks".to_owned()];
    let has = available(&Roots::default()).into_iter().any(|c| c.name == "sensor.block_times" && c.available);
    let subject = Subject { warm_up: Nanos(1), ..Subject::default() };
    let mut panel = Panel::new(&Roots::default(), &subject, Some(&sensors)).unwrap();
    panel.baseline();
    let path = std::env::temp_dir().join(format!("iodyno-block-times-{}", std::process::id()));
    let mut file = File::create(&path).unwrap();
    file.write_all(&vec![7; WRITTEN as usize]).unwrap();
    file.sync_all().unwrap();
    std::fs::remove_file(&path).unwrap();
    let [reading, disks] = &panel.read()[..] else { panic!("two sensors were named") };
    if let Some(missing) = &reading.missing {
        // Without rights, clang or type information there is no sensor, and it says so.
        assert!(!has || missing.contains("not allowed"), "{missing}");
        return;
    }
    if sum(disks, "disk.write_bytes", "") < WRITTEN {
        return; // a folder in memory
    }
    assert!(sum(reading, "block.operation_bytes", "operation=write") >= WRITTEN, "{reading:?}");
    assert_eq!(sum(reading, "block.left_out", ""), 0);
    let operations = sum(reading, "block.operations", "");
    for metric in ["block.service_time_ns", "block.queue_time_ns"] {
        let times = || reading.times.iter().filter(|times| times.metric == metric);
        assert_eq!(times().map(|times| times.times.count).sum::<u64>(), operations, "{metric}");
        let inside = times().all(|each| each.times.counts.iter().sum::<u64>() == each.times.count);
        assert!(inside && times().any(|each| each.times.sum_ns > 0), "{metric}: {reading:?}");
    }
    let cost = sum(reading, "block.completion_cost_ns", "");
    assert!(cost > 0, "the kernel takes the time of programs, and some ran: {reading:?}");
    let mine = format!("id={}", std::process::id());
    assert!(sum(reading, "block.process_operations", "") > 0, "nobody began them, not even {mine}");
    // Once it is gone, nothing is attached any more; it may be had again.
    drop(panel);
    let mut again = Panel::new(&Roots::default(), &subject, Some(&sensors)).unwrap();
    again.baseline();
    assert_eq!(sum(&again.read()[0], "block.left_out", ""), 0);
}

#[test]
fn of_another_load_it_is_read_only_when_it_is_named() {
    let names = |subject: &Subject| -> Vec<&str> {
        Panel::new(&Roots::default(), subject, None).unwrap().names().collect()
    };
    assert!(!names(&Subject::default()).contains(&"block_times"));
    let nowhere = Roots { sys: "/nonexistent".into(), ..Roots::default() };
    let mut panel = Panel::new(&nowhere, &Subject::default(), Some(&["block_times".to_owned()])).unwrap();
    let missing = panel.read()[0].missing.clone().unwrap();
    assert!(missing.contains("/nonexistent/kernel/btf/vmlinux") || missing.contains("without"), "{missing}");
}
