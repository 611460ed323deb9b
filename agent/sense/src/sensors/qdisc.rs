//! Queues of the network devices: what waited in them, what they dropped.

use std::collections::BTreeMap;

use iodyno_core::counter::Width;
use iodyno_core::metric::{Metric, Value};
use iodyno_sys::qdisc::{device_name, Qdisc, Qdiscs};

use crate::growth::Growths;
use crate::missing::Missing;
use crate::sensor::{counter, gauge, put, Entry, Opened, Roots, SenseError, Sensor, Subject};

const SOURCE: &str = "rtnetlink RTM_GETQDISC";
const LABEL: &str = "dev=eth0,kind=fq_codel";

/// A counter of a queue: metric, width in the kernel, where it is.
type QueueCounter = (Metric, Width, fn(&Qdisc) -> u64);

const COUNTERS: [QueueCounter; 5] = [
    (counted("qdisc.sent_bytes", "bytes", "Bytes passed on to the device."), Width::Bits64, |queue| {
        queue.bytes
    }),
    (counted("qdisc.sent_packets", "1", "Packets passed on."), Width::Bits32, |queue| queue.packets.into()),
    (counted("qdisc.drops", "1", "Packets dropped."), Width::Bits32, |queue| queue.drops.into()),
    (
        counted("qdisc.requeues", "1", "Packets that the device did not take and that were put back."),
        Width::Bits32,
        |queue| queue.requeues.into(),
    ),
    (
        counted("qdisc.overlimits", "1", "Times that a packet had to wait for the queue's rate."),
        Width::Bits32,
        |queue| queue.overlimits.into(),
    ),
];
const BACKLOG_BYTES: Metric = gauge("qdisc.backlog_bytes", "bytes", SOURCE, LABEL, "Bytes that wait.");
const BACKLOG_PACKETS: Metric = gauge("qdisc.backlog_packets", "1", SOURCE, LABEL, "Packets that wait.");

const METRICS: [Metric; 7] = [
    COUNTERS[0].0,
    COUNTERS[1].0,
    COUNTERS[2].0,
    COUNTERS[3].0,
    COUNTERS[4].0,
    BACKLOG_BYTES,
    BACKLOG_PACKETS,
];

pub(crate) const ENTRY: Entry = Entry { name: "qdisc", metrics: &METRICS, open };

const fn counted(name: &'static str, unit: &'static str, help: &'static str) -> Metric {
    counter(name, unit, SOURCE, LABEL, help)
}

struct Queues {
    qdiscs: Qdiscs,
    /// By device, parent, handle and number of the counter.
    growths: Growths<(u32, u32, u32, usize)>,
}

/// What the queues of one kind on one device did together: a device with many queues has one for each.
#[derive(Default)]
struct Sum {
    grown: [Option<u64>; COUNTERS.len()],
    backlog_bytes: u64,
    backlog_packets: u64,
}

fn open(_: &Roots, _: &Subject) -> Opened {
    match Qdiscs::open() {
        Ok(qdiscs) => Ok(Box::new(Queues { qdiscs, growths: Growths::default() })),
        Err(error) => Err(SenseError::Unavailable(format!("{SOURCE}: {error}"))),
    }
}

impl Sensor for Queues {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let mut missing = Missing::default();
        let queues =
            self.qdiscs.read().map_err(|error| SenseError::Unavailable(format!("{SOURCE}: {error}")))?;
        self.growths.begin();
        let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
        for queue in &queues {
            // A device that went away meanwhile is of no interest any more.
            let Some(device) = device_name(queue.device) else { continue };
            let label = format!("dev={},kind={}", plain(&device), plain(&queue.kind));
            let sum = sums.entry(label.clone()).or_default();
            sum.backlog_bytes += u64::from(queue.backlog_bytes);
            sum.backlog_packets += u64::from(queue.backlog_packets);
            for (index, (metric, width, field)) in COUNTERS.iter().enumerate() {
                let key = (queue.device, queue.parent, queue.handle, index);
                let grown = self.growths.since_last(key, field(queue), *width, metric.name, &label);
                if let Some(grown) = grown {
                    sum.grown[index] = Some(sum.grown[index].unwrap_or(0).saturating_add(grown));
                }
            }
        }
        for (label, sum) in sums {
            for ((metric, ..), grown) in COUNTERS.iter().zip(sum.grown) {
                if let Some(grown) = grown {
                    put(out, metric, label.as_str(), grown);
                }
            }
            put(out, &BACKLOG_BYTES, label.as_str(), sum.backlog_bytes);
            put(out, &BACKLOG_PACKETS, label, sum.backlog_packets);
        }
        missing.add_any(self.growths.unknown());
        Ok(missing.sentence())
    }
}

/// A name without what separates the parts of a label.
fn plain(name: &str) -> String {
    name.replace([',', '='], "_")
}
