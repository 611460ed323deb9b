//! What the protocols of this network namespace counted: every counter of IP, TCP and UDP that moved.

use std::borrow::Cow;

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};

use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, gauge, put, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

const COUNT: Metric = counter(
    "tcp_ip.count",
    "1",
    "/proc/self/net/snmp, netstat, snmp6",
    "counter=Tcp.RetransSegs",
    "A protocol counter of the network namespace, as the kernel names it; those that did not move are left out.",
);
const STATE: Metric = gauge(
    "tcp_ip.state",
    "1",
    "/proc/self/net/snmp, netstat, sockstat",
    "counter=Tcp.CurrEstab",
    "Connections established, and sockets of each protocol in each state.",
);

pub(crate) const ENTRY: Entry = Entry { name: "tcp_ip", metrics: &[COUNT, STATE], open };

/// Numbers among the counters that are states.
const STATES: [&str; 2] = ["Tcp.CurrEstab", "MPTcpExt.MPCurrEstab"];
/// Numbers among the counters that are settings.
const SETTINGS: [&str; 6] =
    ["Ip.Forwarding", "Ip.DefaultTTL", "Tcp.RtoAlgorithm", "Tcp.RtoMin", "Tcp.RtoMax", "Tcp.MaxConn"];
/// What `sockstat` says in pages: reported by the memory sensor, in bytes.
const MEMORY: [&str; 2] = ["mem", "memory"];

struct TcpIp {
    snmp: Source,
    netstat: Option<Source>,
    snmp6: Option<Source>,
    sockstat: Option<Source>,
    growths: Growths<String>,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    let file = |name: &str| Source::open(roots.proc.join("self/net").join(name));
    Ok(Box::new(TcpIp {
        snmp: file("snmp")?,
        netstat: file("netstat").ok(),
        snmp6: file("snmp6").ok(),
        sockstat: file("sockstat").ok(),
        growths: Growths::default(),
    }))
}

impl Sensor for TcpIp {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let snmp = self.snmp.text()?;
        if !has_pairs(&snmp) {
            drop(snmp);
            return Err(self.snmp.nonsense("has no pair of lines with names and numbers"));
        }
        let netstat = optional(&mut self.netstat, "netstat", &mut missing);
        // A kernel without IPv6 has no such file, and nothing is missing.
        let snmp6 = self.snmp6.as_mut().and_then(|file| file.text().ok()).unwrap_or_default();

        let growths = &mut self.growths;
        growths.begin();
        let mut take = |name: &str, now: u64| {
            if SETTINGS.contains(&name) {
                return;
            }
            if STATES.contains(&name) {
                put(out, &STATE, format!("counter={name}"), now);
                return;
            }
            let grown = growths.since_last_named(name, now, Width::Bits64, COUNT.name);
            if let Some(grown @ 1..) = grown {
                put(out, &COUNT, format!("counter={name}"), grown);
            }
        };
        titled_pairs(&snmp, &mut take);
        titled_pairs(&netstat, &mut take);
        plain_pairs(&snmp6, &mut take);
        let sockstat = optional(&mut self.sockstat, "sockstat", &mut missing);
        for (name, now) in socket_states(&sockstat) {
            put(out, &STATE, format!("counter={name}"), now);
        }
        missing.add_any(self.growths.unknown());
        Ok(missing.sentence())
    }
}

/// Text of a file that may be absent, which is then said.
fn optional<'file>(file: &'file mut Option<Source>, name: &str, missing: &mut Missing) -> Cow<'file, str> {
    match file.as_mut().map(Source::text) {
        Some(Ok(text)) => text,
        Some(Err(error)) => {
            missing.add(error.to_string());
            Cow::default()
        }
        None => {
            missing.add(format!("the kernel has no {name}"));
            Cow::default()
        }
    }
}

/// Whether there is at least one number with a name.
fn has_pairs(text: &str) -> bool {
    let mut found = false;
    titled_pairs(text, &mut |_, _| found = true);
    found
}

/// Gives the numbers with their names. `Tcp: InSegs OutSegs` and below it `Tcp: 12 15`; negative numbers are settings
/// that mean "no limit".
fn titled_pairs(text: &str, take: &mut impl FnMut(&str, u64)) {
    // There are some 300, four times a second: the name is made in the same place again and again.
    let mut whole = String::new();
    let mut lines = text.lines();
    while let (Some(names), Some(numbers)) = (lines.next(), lines.next()) {
        let (Some((title, names)), Some((again, numbers))) = (names.split_once(':'), numbers.split_once(':'))
        else {
            break;
        };
        if title != again {
            break;
        }
        for (name, number) in names.split_ascii_whitespace().zip(numbers.split_ascii_whitespace()) {
            if let Ok(number) = number.parse() {
                whole.clear();
                whole.extend([title, ".", name]);
                take(&whole, number);
            }
        }
    }
}

/// The same for `Ip6InReceives  12`, one a line.
fn plain_pairs(text: &str, take: &mut impl FnMut(&str, u64)) {
    for line in text.lines() {
        let Some((name, number)) = line.split_once(char::is_whitespace) else { continue };
        if let Ok(number) = number.trim().parse() {
            take(name, number);
        }
    }
}

/// `TCP: inuse 1 orphan 0 tw 0 alloc 1 mem 301`.
fn socket_states(text: &str) -> Vec<(String, u64)> {
    let mut states = Vec::new();
    for (protocol, rest) in text.lines().filter_map(|line| line.split_once(':')) {
        let words: Vec<&str> = rest.split_whitespace().collect();
        for pair in words.chunks_exact(2).filter(|pair| !MEMORY.contains(&pair[0])) {
            if let Ok(number) = pair[1].parse() {
                states.push((format!("{protocol}.{}", pair[0]), number));
            }
        }
    }
    states
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_paired() {
        let text = "Tcp: RtoMin MaxConn InSegs\nTcp: 200 -1 7\nUdp: InDatagrams\nUdp: 3\nIcmp: cut";
        let mut found = Vec::new();
        titled_pairs(text, &mut |name, number| found.push((name.to_owned(), number)));
        plain_pairs("Ip6InReceives \t 12\nx\ny z\n", &mut |name, number| {
            found.push((name.to_owned(), number))
        });
        let expected =
            [("Tcp.RtoMin", 200), ("Tcp.InSegs", 7), ("Udp.InDatagrams", 3), ("Ip6InReceives", 12)];
        assert_eq!(found, expected.map(|(name, number)| (name.to_owned(), number)));
        assert!(!has_pairs("Tcp: a\nUdp: 1\n"));
        assert_eq!(socket_states("TCP: inuse 1 mem 301 odd"), [("TCP.inuse".to_owned(), 1)]);
    }
}
