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
        let mut numbers = titled_pairs(&snmp);
        if numbers.is_empty() {
            drop(snmp);
            return Err(self.snmp.nonsense("has no pair of lines with names and numbers"));
        }
        let netstat = optional(&mut self.netstat, "netstat", &mut missing);
        numbers.extend(titled_pairs(&netstat));
        // A kernel without IPv6 has no such file, and nothing is missing.
        let snmp6 = self.snmp6.as_mut().and_then(|file| file.text().ok()).unwrap_or_default();
        numbers.extend(plain_pairs(&snmp6));

        self.growths.begin();
        for (name, now) in numbers {
            if SETTINGS.contains(&name.as_str()) {
                continue;
            }
            if STATES.contains(&name.as_str()) {
                put(out, &STATE, format!("counter={name}"), now);
                continue;
            }
            let grown = self.growths.since_last(name.clone(), now, Width::Bits64, COUNT.name, &name);
            if let Some(grown @ 1..) = grown {
                put(out, &COUNT, format!("counter={name}"), grown);
            }
        }
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

/// `Tcp: InSegs OutSegs` and below it `Tcp: 12 15`. Negative numbers are settings that mean "no limit".
fn titled_pairs(text: &str) -> Vec<(String, u64)> {
    let mut pairs = Vec::new();
    let mut lines = text.lines();
    while let (Some(names), Some(numbers)) = (lines.next(), lines.next()) {
        let (Some((title, names)), Some((again, numbers))) = (names.split_once(':'), numbers.split_once(':'))
        else {
            break;
        };
        if title != again {
            break;
        }
        for (name, number) in names.split_whitespace().zip(numbers.split_whitespace()) {
            if let Ok(number) = number.parse() {
                pairs.push((format!("{title}.{name}"), number));
            }
        }
    }
    pairs
}

/// `Ip6InReceives  12`, one a line.
fn plain_pairs(text: &str) -> Vec<(String, u64)> {
    let pair = |line: &str| {
        let (name, number) = line.split_once(char::is_whitespace)?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
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
        let expected = [("Tcp.RtoMin", 200), ("Tcp.InSegs", 7), ("Udp.InDatagrams", 3)];
        assert_eq!(titled_pairs(text), expected.map(|(name, number)| (name.to_owned(), number)));
        assert_eq!(titled_pairs("Tcp: a\nUdp: 1\n"), []);
        assert_eq!(plain_pairs("Ip6InReceives \t 12\nx\ny z\n"), [("Ip6InReceives".to_owned(), 12)]);
        assert_eq!(socket_states("TCP: inuse 1 mem 301 odd"), [("TCP.inuse".to_owned(), 1)]);
    }
}
