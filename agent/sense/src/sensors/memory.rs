//! Memory of the machine, and what network buffers hold of it.

use iodyno_core::metric::{Metric, Value};

use crate::auxv::KernelUnits;
use crate::missing::Missing;
use crate::sensor::{gauge, put, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

const MEMINFO: &str = "/proc/meminfo";
const SOCKSTAT: &str = "/proc/self/net/sockstat";

const AVAILABLE: Metric =
    gauge("memory.available_bytes", "bytes", MEMINFO, "", "Memory that could be had without swapping.");
const FREE: Metric = gauge("memory.free_bytes", "bytes", MEMINFO, "", "Memory that nothing uses.");
const TCP: Metric =
    gauge("memory.tcp_bytes", "bytes", SOCKSTAT, "", "Pages in buffers of all TCP sockets of the machine.");
const UDP: Metric =
    gauge("memory.udp_bytes", "bytes", SOCKSTAT, "", "Pages in buffers of all UDP sockets of the machine.");

pub(crate) const ENTRY: Entry = Entry { name: "memory", metrics: &[AVAILABLE, FREE, TCP, UDP], open };

struct Memory {
    meminfo: Source,
    sockstat: Option<Source>,
    page_bytes: u64,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    let meminfo = Source::open(roots.proc.join("meminfo"))?;
    let sockstat = Source::open(roots.proc.join("self/net/sockstat")).ok();
    Ok(Box::new(Memory { meminfo, sockstat, page_bytes: KernelUnits::of(&roots.proc).page_bytes }))
}

impl Sensor for Memory {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let text = self.meminfo.text()?;
        for (key, metric) in [("MemAvailable:", AVAILABLE), ("MemFree:", FREE)] {
            match keyed_number(&text, key) {
                Some(kibibytes) => put(out, &metric, "", kibibytes.saturating_mul(1024)),
                None => missing.add(format!("{key} is not in {MEMINFO}")),
            }
        }
        let text = self.sockstat.as_mut().and_then(|file| file.text().ok()).unwrap_or_default();
        for (protocol, metric) in [("TCP:", TCP), ("UDP:", UDP)] {
            match buffer_pages(&text, protocol) {
                Some(pages) => put(out, &metric, "", pages.saturating_mul(self.page_bytes)),
                None => missing.add(format!("mem of {protocol} is not in {SOCKSTAT}")),
            }
        }
        match out.is_empty() {
            true => Err(self.meminfo.nonsense("has no line MemAvailable or MemFree")),
            false => Ok(missing.sentence()),
        }
    }
}

/// The number behind the key of a line such as `MemFree: 123 kB`.
pub(super) fn keyed_number(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse().ok())
}

/// What follows the word `mem` in the line of a protocol.
fn buffer_pages(text: &str, protocol: &str) -> Option<u64> {
    let mut words = text.lines().find_map(|line| line.strip_prefix(protocol))?.split_whitespace();
    words.find(|word| *word == "mem")?;
    words.next()?.parse().ok()
}
