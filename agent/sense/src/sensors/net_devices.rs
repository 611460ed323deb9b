//! Traffic of each network device, and the speed of its link.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};

use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, gauge, put, Entry, Opened, Roots, SenseError, Sensor, Subject};
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

/// A virtual device (a veth pair, a bridge, a tunnel) names a speed that nothing keeps it to: it has none here.
const SPEED: Metric = gauge(
    "net.speed_bits_per_s",
    "bits_per_s",
    "/sys/class/net/*/speed",
    "dev=eth0",
    "Speed of the link, of devices that are hardware (or a hypervisor's) and say it, when the trial began.",
);

const METRICS: [Metric; 9] = {
    let mut metrics = [SPEED; 9];
    let mut index = 0;
    while index < COLUMNS.len() {
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
    /// `/sys/class/net`.
    links: PathBuf,
    /// By device. Asked for once a trial: a look into `/sys` costs as much as the whole file, in the middle of a load.
    speeds: HashMap<String, Option<u64>>,
    growths: Growths<(&'static str, String)>,
}

fn open(roots: &Roots, _: &Subject) -> Opened {
    let dev = Source::open(roots.proc.join("self/net/dev"))?;
    let links = roots.sys.join("class/net");
    Ok(Box::new(NetDevices { dev, links, speeds: HashMap::new(), growths: Growths::default() }))
}

impl Sensor for NetDevices {
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
            let label = format!("dev={device}");
            let words: Vec<&str> = columns.split_whitespace().collect();
            for (column, metric) in &COLUMNS {
                let Some(now) = words.get(*column).and_then(|word| word.parse().ok()) else {
                    missing.add(format!("{} of {device} is not in the file", metric.name));
                    continue;
                };
                self.growths.put(out, metric, &label, now, Width::Bits64);
            }
            if !self.speeds.contains_key(device) {
                self.speeds.insert(device.to_owned(), speed_bits_per_s(&self.links, device));
            }
            if let Some(speed) = self.speeds[device] {
                put(out, &SPEED, label, speed);
            }
        }
        self.growths.tell_gone(|(_, label)| label.clone());
        missing.add_any(self.growths.unknown());
        Ok(missing.sentence())
    }
}

/// Speed of a device's link; `None` where it has none, is down or does not say.
fn speed_bits_per_s(links: &Path, device: &str) -> Option<u64> {
    // A name that leads elsewhere is no device.
    if device.contains('/') || !links.join(device).join("device").exists() {
        return None;
    }
    // In megabits, -1 where it is not known.
    let text = std::fs::read_to_string(links.join(device).join("speed")).ok()?;
    text.trim().parse::<u64>().ok()?.checked_mul(1_000_000).filter(|speed| *speed > 0)
}
