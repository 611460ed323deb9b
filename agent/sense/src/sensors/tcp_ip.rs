//! What the protocols of this network namespace counted: every counter of IP, TCP and UDP that moved.

use std::borrow::Cow;

use iodyno_core::counter::{growth, Width};
use iodyno_core::metric::{Metric, Value};

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
const STATES: [(&str, &str); 2] = [("Tcp", "CurrEstab"), ("MPTcpExt", "MPCurrEstab")];
/// Numbers among the counters that are settings.
const SETTINGS: [(&str, &str); 6] = [
    ("Ip", "Forwarding"),
    ("Ip", "DefaultTTL"),
    ("Tcp", "RtoAlgorithm"),
    ("Tcp", "RtoMin"),
    ("Tcp", "RtoMax"),
    ("Tcp", "MaxConn"),
];
/// What `sockstat` says in pages: reported by the memory sensor, in bytes.
const MEMORY: [&str; 2] = ["mem", "memory"];

struct TcpIp {
    snmp: Source,
    netstat: Option<Source>,
    snmp6: Option<Source>,
    sockstat: Option<Source>,
    counters: Counters,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    let file = |name: &str| Source::open(roots.proc.join("self/net").join(name));
    Ok(Box::new(TcpIp {
        snmp: file("snmp")?,
        netstat: file("netstat").ok(),
        snmp6: file("snmp6").ok(),
        sockstat: file("sockstat").ok(),
        counters: Counters::default(),
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

        let counters = &mut self.counters;
        counters.begin();
        let mut take = |title: &str, name: &str, now: u64| {
            if SETTINGS.contains(&(title, name)) {
                return;
            }
            if STATES.contains(&(title, name)) {
                put(out, &STATE, label(title, name), now);
                return;
            }
            if let Some(grown @ 1..) = counters.since_last(title, name, now) {
                put(out, &COUNT, label(title, name), grown);
            }
        };
        titled_pairs(&snmp, &mut take);
        titled_pairs(&netstat, &mut take);
        plain_pairs(&snmp6, &mut take);
        missing.add_any(self.counters.end());
        let sockstat = optional(&mut self.sockstat, "sockstat", &mut missing);
        for (name, now) in socket_states(&sockstat) {
            put(out, &STATE, format!("counter={name}"), now);
        }
        Ok(missing.sentence())
    }
}

/// Where each counter stood at the last reading, in the order in which the kernel tells them: it is the same each time, so
/// that some 300 of them are found without a search, in the middle of a load.
#[derive(Default)]
struct Counters {
    last: Vec<Counter>,
    /// Where the next one is expected.
    place: usize,
    reading: u64,
    unknown: Missing,
}

struct Counter {
    title: String,
    name: String,
    /// In which reading it was told last, and what it was.
    reading: u64,
    now: u64,
}

impl Counters {
    fn begin(&mut self) {
        self.reading += 1;
        self.place = 0;
    }

    /// Growth since the last reading; `None` in the first one, and for a counter that is new or was reset.
    fn since_last(&mut self, title: &str, name: &str, now: u64) -> Option<u64> {
        let is_it = |counter: &Counter| counter.name == name && counter.title == title;
        if !self.last.get(self.place).is_some_and(is_it) {
            match self.last.iter().position(is_it) {
                Some(place) => self.place = place,
                None => {
                    let (title, name) = (title.to_owned(), name.to_owned());
                    if self.reading > 1 {
                        self.unknown.add(format!("{} is new: growth not known", whole_name(&title, &name)));
                    }
                    self.last.insert(self.place, Counter { title, name, reading: self.reading, now });
                    self.place += 1;
                    return None;
                }
            }
        }
        let counter = &mut self.last[self.place];
        self.place += 1;
        counter.reading = self.reading;
        let before = std::mem::replace(&mut counter.now, now);
        let grown = growth(before, now, Width::Bits64);
        if grown.is_none() {
            let name = whole_name(title, name);
            self.unknown.add(format!("{} of {name} went backwards: growth not known", COUNT.name));
        }
        grown
    }

    /// Forgets those that were not told this time: if they come back, their growth is not known. Which counters the growth
    /// of is not known.
    fn end(&mut self) -> Option<String> {
        self.last.retain(|counter| counter.reading == self.reading);
        std::mem::take(&mut self.unknown).sentence()
    }
}

/// `Tcp.InSegs`; a counter of `snmp6` has no title.
fn whole_name(title: &str, name: &str) -> String {
    if title.is_empty() {
        return name.to_owned();
    }
    format!("{title}.{name}")
}

fn label(title: &str, name: &str) -> String {
    format!("counter={}", whole_name(title, name))
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
    titled_pairs(text, &mut |_, _, _| found = true);
    found
}

/// Gives the numbers with their names. `Tcp: InSegs OutSegs` and below it `Tcp: 12 15`; negative numbers are settings
/// that mean "no limit".
fn titled_pairs(text: &str, take: &mut impl FnMut(&str, &str, u64)) {
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
                take(title, name, number);
            }
        }
    }
}

/// The same for `Ip6InReceives  12`, one a line.
fn plain_pairs(text: &str, take: &mut impl FnMut(&str, &str, u64)) {
    for line in text.lines() {
        let Some((name, number)) = line.split_once(char::is_whitespace) else { continue };
        if let Ok(number) = number.trim().parse() {
            take("", name, number);
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
        let mut take = |title: &str, name: &str, number| found.push((whole_name(title, name), number));
        titled_pairs(text, &mut take);
        plain_pairs("Ip6InReceives \t 12\nx\ny z\n", &mut take);
        let expected =
            [("Tcp.RtoMin", 200), ("Tcp.InSegs", 7), ("Udp.InDatagrams", 3), ("Ip6InReceives", 12)];
        assert_eq!(found, expected.map(|(name, number)| (name.to_owned(), number)));
        assert!(!has_pairs("Tcp: a\nUdp: 1\n"));
        assert_eq!(socket_states("TCP: inuse 1 mem 301 odd"), [("TCP.inuse".to_owned(), 1)]);
    }

    #[test]
    fn a_counter_is_found_wherever_it_stands_and_one_that_was_away_is_new() {
        let mut counters = Counters::default();
        let mut read = |told: &[(&str, u64)]| {
            counters.begin();
            let grown: Vec<_> =
                told.iter().map(|(name, now)| counters.since_last("Tcp", name, *now)).collect();
            (grown, counters.end())
        };
        assert_eq!(read(&[("a", 1), ("b", 2), ("c", 3)]), (vec![None; 3], None));
        assert_eq!(read(&[("a", 1), ("b", 4), ("c", 6)]), (vec![Some(0), Some(2), Some(3)], None));
        // Another order, one less and one more.
        let (grown, unknown) = read(&[("c", 7), ("d", 9), ("a", 5)]);
        assert_eq!(grown, [Some(1), None, Some(4)]);
        assert_eq!(unknown.unwrap(), "Tcp.d is new: growth not known");
        let (grown, unknown) = read(&[("a", 5), ("b", 9), ("d", 8), ("c", 8)]);
        assert_eq!(grown, [Some(0), None, None, Some(1)]);
        let unknown = unknown.unwrap();
        assert!(unknown.contains("Tcp.b is new") && unknown.contains("of Tcp.d went backwards"), "{unknown}");
    }
}
