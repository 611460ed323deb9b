//! Queues of a device in a network namespace of their own: a token bucket that drops.

use std::io::Write;
use std::net::UdpSocket;
use std::process::Command;

use iodyno_core::metric::Reading;
use iodyno_sense::{Panel, Roots, Subject};

/// Set for the copy of this test that runs inside the namespace.
const INSIDE: &str = "IODYNO_TEST_INSIDE_NAMESPACE";
const PACKETS: u64 = 200;

/// Runs a command; `None`: it is not there or failed.
fn done(words: &[&str]) -> Option<()> {
    Command::new(words[0]).args(&words[1..]).status().ok()?.success().then_some(())
}

fn value(reading: &Reading, metric: &str) -> u64 {
    let values = reading.values.iter();
    values.filter(|v| v.0 == metric && v.1 == "dev=lo,kind=tbf").map(|v| v.2).sum()
}

#[test]
fn a_token_bucket_that_drops_is_seen() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let namespace = format!("iodyno-queues-{}", std::process::id());
    let within = ["ip", "netns", "exec", &namespace];
    let made = done(&["ip", "netns", "add", &namespace]).and_then(|()| {
        done(&["ip", "-n", &namespace, "link", "set", "lo", "mtu", "1500", "up"])?;
        let bucket = [
            "tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "1mbit", "burst", "3kb", "limit",
            "10kb",
        ];
        done(&[&within[..], &bucket[..]].concat())
    });
    let passed = made.and_then(|()| {
        let program = std::env::current_exe().unwrap();
        let own = [program.to_str().unwrap(), "a_token_bucket_that_drops_is_seen", "--exact", "--nocapture"];
        let marked = format!("{INSIDE}=1");
        done(&[&within[..], &["env", &marked], &own[..]].concat())
    });
    let _ = done(&["ip", "netns", "delete", &namespace]);
    if made.is_none() {
        let mut said = std::io::stderr();
        writeln!(said, "SKIPPED: no namespace with a token bucket can be made here (root? ip? tc?)").unwrap();
        return;
    }
    assert!(passed.is_some(), "the test inside of the namespace failed");
}

fn inside() {
    let wanted = ["qdisc".to_owned()];
    let mut panel = Panel::new(&Roots::default(), &Subject::default(), Some(&wanted)).unwrap();
    panel.baseline();
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..PACKETS {
        // What the queue drops is an error of some kernels' sendto.
        let _ = sender.send_to(&[0; 1000], receiver.local_addr().unwrap());
    }
    let reading = panel.read().remove(0);
    assert_eq!(reading.missing, None);
    // The bucket lets 3 kB through at once and keeps 10 kB; the rest is dropped.
    let (drops, sent) = (value(&reading, "qdisc.drops"), value(&reading, "qdisc.sent_packets"));
    assert!(drops > PACKETS / 2, "{reading:?}");
    assert!(drops + sent <= PACKETS, "{reading:?}");
    assert!(value(&reading, "qdisc.overlimits") > 0, "{reading:?}");
    let waiting = value(&reading, "qdisc.backlog_packets");
    assert_eq!(drops + sent + waiting, PACKETS, "{reading:?}");
    assert!(value(&reading, "qdisc.backlog_bytes") >= waiting * 1000);
}
