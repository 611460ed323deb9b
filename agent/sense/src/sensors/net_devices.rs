//! Traffic of each network device.

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};

use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, put, Entry, Opened, Roots, SenseError, Sensor, Subject};
use crate::source::Source;

/// Column in the file, and its metric. Received counts stand in columns 0 to 7, sent ones in 8 to 15.
const COLUMNS: [(usize, Metric); 8] = [
    (0, of_device("net.rx_bytes", "bytes", "Bytes received, link headers included.")),
    (
        1,
        of_device("net.rx_packets", "1", "Packets received, after the device or the kernel has merged some."),
    ),
    (2, of_device("net.rx_errors", "1", "Packets that arrived damaged, by the driver's reckoning.")),
    (3, of_device("net.rx_drops", "1", "Packets received and dropped, for want of room in the ring also.")),
    (8, of_device("net.tx_bytes", "bytes", "Bytes sent, link headers included.")),
    (
        9,
        of_device(
            "net.tx_packets",
            "1",
            "Packets sent; one may stand for many that the device will cut it into.",
        ),
    ),
    (10, of_device("net.tx_errors", "1", "Packets that could not be sent, by the driver's reckoning.")),
    (11, of_device("net.tx_drops", "1", "Packets to be sent and dropped.")),
];

const METRICS: [Metric; 8] = {
    let mut metrics = [COLUMNS[0].1; 8];
    let mut index = 0;
    while index < metrics.len() {
        metrics[index] = COLUMNS[index].1;
        index += 1;
    }
    metrics
};

pub(crate) const ENTRY: Entry = Entry { name: "net_devices", metrics: &METRICS, open };

const fn of_device(name: &'static str, unit: &'static str, help: &'static str) -> Metric {
    counter(name, unit, "/proc/self/net/dev", "dev=eth0", help)
}

struct NetDevices {
    dev: Source,
    growths: Growths<(String, usize)>,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    let dev = Source::open(roots.proc.join("self/net/dev"))?;
    Ok(Box::new(NetDevices { dev, growths: Growths::default() }))
}

impl Sensor for NetDevices {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn metrics(&self) -> &'static [Metric] {
        ENTRY.metrics
    }

    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let text = self.dev.text()?;
        if !text.starts_with("Inter-|") {
            drop(text);
            return Err(self.dev.nonsense("does not begin with the heading Inter-|"));
        }
        self.growths.begin();
        // A device name holds no colon and no space; the kernel sees to that.
        for (device, columns) in text.lines().skip(2).filter_map(|line| line.split_once(':')) {
            let device = device.trim();
            let words: Vec<&str> = columns.split_whitespace().collect();
            for (column, metric) in &COLUMNS {
                let Some(now) = words.get(*column).and_then(|word| word.parse().ok()) else {
                    missing.add(format!("{} of {device} is not in the file", metric.name));
                    continue;
                };
                let key = (device.to_owned(), *column);
                if let Some(grown) = self.growths.since_last(key, now, Width::Bits64, metric.name, device) {
                    put(out, metric, format!("dev={device}"), grown);
                }
            }
        }
        missing.add_any(self.growths.unknown());
        Ok(missing.sentence())
    }
}
