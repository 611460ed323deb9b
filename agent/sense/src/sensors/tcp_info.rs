//! What the kernel keeps about the flows of the trial: sums over all of them, and their spread.
//!
//! A growth is taken flow by flow and then summed, because the kernel's 32-bit counters wrap at different
//! times. Every flow is asked at every reading: one answer carries the counters, which must cover all flows,
//! and the gauges alike, so that sampling flows would save nothing. A flow costs about a microsecond; the
//! reading's `cost_ns` says what all of them did. A flow that its worker is just using is waited for.
//!
//! Of flows that come and go, those that are open are asked, and those of them that are closed before the next reading say
//! what they had counted until then. One that is new has grown from nothing; what came and went between two readings is
//! missing.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use iodyno_core::counter::{growth, Width};
use iodyno_core::metric::{Metric, Value};
use iodyno_sys::open_sockets::OpenSockets;
use iodyno_sys::tcp_info::{self, TcpInfo};

use crate::missing::Missing;
use crate::sensor::{counter, gauge, put, Entry, Opened, Roots, SenseError, Sensor, Subject};

const SOURCE: &str = "getsockopt TCP_INFO";

/// A counter of a flow: metric, width in the kernel, where it is.
type FlowCounter = (Metric, Width, fn(&TcpInfo) -> Option<u64>);
/// A state of a flow: metric, where it is.
type FlowGauge = (Metric, fn(&TcpInfo) -> Option<u64>);

const COUNTERS: [FlowCounter; 13] = [
    (
        sum("tcp.acked_bytes", "bytes", "Payload that the peers acknowledged."),
        Width::Bits64,
        TcpInfo::bytes_acked,
    ),
    (
        sum("tcp.received_bytes", "bytes", "Payload received in order."),
        Width::Bits64,
        TcpInfo::bytes_received,
    ),
    (sum("tcp.segments_out", "1", "Segments sent, bare acknowledgements included."), Width::Bits32, |info| {
        info.segs_out().map(u64::from)
    }),
    (
        sum("tcp.segments_in", "1", "Segments received, bare acknowledgements included."),
        Width::Bits32,
        |info| info.segs_in().map(u64::from),
    ),
    (sum("tcp.data_segments_out", "1", "Segments with payload sent."), Width::Bits32, |info| {
        info.data_segs_out().map(u64::from)
    }),
    (sum("tcp.data_segments_in", "1", "Segments with payload received."), Width::Bits32, |info| {
        info.data_segs_in().map(u64::from)
    }),
    (sum("tcp.retransmitted_bytes", "bytes", "Payload sent again."), Width::Bits64, TcpInfo::bytes_retrans),
    (sum("tcp.retransmitted_segments", "1", "Segments sent again."), Width::Bits32, |info| {
        info.total_retrans().map(u64::from)
    }),
    (
        sum(
            "tcp.busy_ns",
            "ns",
            "Time with data outstanding; advances with the timer tick, so compare over 1 s or more.",
        ),
        Width::Bits64,
        |info| info.busy_time_us().map(from_microseconds),
    ),
    (
        sum("tcp.rwnd_limited_ns", "ns", "The part of tcp.busy_ns in which the peer's window was full."),
        Width::Bits64,
        |info| info.rwnd_limited_us().map(from_microseconds),
    ),
    (
        sum("tcp.sndbuf_limited_ns", "ns", "The part of tcp.busy_ns in which the send buffer was too small."),
        Width::Bits64,
        |info| info.sndbuf_limited_us().map(from_microseconds),
    ),
    (
        sum("tcp.congestion_marked_segments", "segments", "Segments that a congested router marked (ECN)."),
        Width::Bits32,
        |info| info.delivered_ce().map(u64::from),
    ),
    (
        sum("tcp.out_of_order_segments", "segments", "Segments received out of order."),
        Width::Bits32,
        |info| info.rcv_ooopack().map(u64::from),
    ),
];

const GAUGES: [FlowGauge; 11] = [
    (spread("tcp.rtt_ns", "ns", "Smoothed round-trip time; flows without a sample are left out."), |info| {
        info.rtt().map(|time| time.0)
    }),
    (
        spread(
            "tcp.min_rtt_ns",
            "ns",
            "Smallest round-trip time lately; flows without a sample are left out.",
        ),
        |info| info.min_rtt().map(|time| time.0),
    ),
    (spread("tcp.cwnd_segments", "segments", "Congestion window."), |info| info.snd_cwnd().map(u64::from)),
    (spread("tcp.snd_mss_bytes", "bytes", "Payload of a segment sent."), |info| {
        info.snd_mss().map(u64::from)
    }),
    (
        spread("tcp.rcv_mss_bytes", "bytes", "Payload of a segment received, as the kernel estimates it."),
        |info| info.rcv_mss().map(u64::from),
    ),
    (
        spread(
            "tcp.delivery_rate_bytes_per_s",
            "bytes_per_s",
            "Rate of the latest delivery as the kernel reckons it; flows without a sample are left out.",
        ),
        |info| info.delivery_rate().filter(|&rate| rate != 0),
    ),
    (
        spread("tcp.notsent_bytes", "bytes", "Written by the application and not yet handed to the network."),
        |info| info.notsent_bytes().map(u64::from),
    ),
    (spread("tcp.unacked_segments", "segments", "Sent and not acknowledged: what is in flight."), |info| {
        info.unacked().map(u64::from)
    }),
    (spread("tcp.snd_wnd_bytes", "bytes", "Window that the peer advertises."), |info| {
        info.snd_wnd().map(u64::from)
    }),
    (spread("tcp.rcv_wnd_bytes", "bytes", "Window that this end advertises."), |info| {
        info.rcv_wnd().map(u64::from)
    }),
    (
        spread(
            "tcp.rcv_space_bytes",
            "bytes",
            "What the application takes in a round trip, by which the kernel sizes the receive buffer.",
        ),
        |info| info.rcv_space().map(u64::from),
    ),
];

const FLOWS: Metric = gauge("tcp.flows", "1", SOURCE, "", "Flows that this reading covers.");
const APP_LIMITED: Metric = gauge(
    "tcp.app_limited_flows",
    "1",
    SOURCE,
    "",
    "Flows whose latest delivery rate was limited by the application having nothing to send.",
);

const METRICS: [Metric; COUNTERS.len() + GAUGES.len() + 2] = {
    let mut metrics = [FLOWS; COUNTERS.len() + GAUGES.len() + 2];
    let mut index = 0;
    while index < COUNTERS.len() {
        metrics[index] = COUNTERS[index].0;
        index += 1;
    }
    while index < COUNTERS.len() + GAUGES.len() {
        metrics[index] = GAUGES[index - COUNTERS.len()].0;
        index += 1;
    }
    metrics[index] = APP_LIMITED;
    metrics
};

pub(crate) const ENTRY: Entry = Entry { name: "tcp_info", metrics: &METRICS, open };

const fn sum(name: &'static str, unit: &'static str, help: &'static str) -> Metric {
    counter(name, unit, SOURCE, "", help)
}

const fn spread(name: &'static str, unit: &'static str, help: &'static str) -> Metric {
    gauge(name, unit, SOURCE, "of=min, of=mean, of=max", help)
}

fn from_microseconds(us: u64) -> u64 {
    us.saturating_mul(1_000)
}

/// Where the counters of a flow stood at the last reading.
type Last = [Option<u64>; COUNTERS.len()];
const NEVER: Last = [None; COUNTERS.len()];
const NEW: Last = [Some(0); COUNTERS.len()];

struct Flows {
    flows: Vec<(RawFd, Last)>,
    /// Flows that come and go.
    opened: Arc<OpenSockets>,
    /// Of those that were open at the last reading; none: there was no reading.
    before: Option<HashMap<u64, Last>>,
    ask: fn(RawFd) -> io::Result<TcpInfo>,
}

fn open(_: &Roots, subject: &Subject) -> Opened {
    Ok(Box::new(Flows::new(&subject.sockets, Arc::clone(&subject.opened), tcp_info::read)))
}

impl Flows {
    fn new(sockets: &[RawFd], opened: Arc<OpenSockets>, ask: fn(RawFd) -> io::Result<TcpInfo>) -> Self {
        let flows = sockets.iter().map(|&socket| (socket, NEVER)).collect();
        Flows { flows, opened, before: None, ask }
    }
}

/// Sums and spreads over the flows of one reading.
#[derive(Default)]
struct Tally {
    grown: [Option<u64>; COUNTERS.len()],
    spreads: [Spread; GAUGES.len()],
    flows: u64,
    app_limited: Option<u64>,
    /// Fewest bytes that the kernel answered, where a field was missing.
    short_answer: Option<u64>,
    failed: u64,
    failure: Option<io::Error>,
    backwards: u64,
}

/// Smallest, sum and largest of what some flows say.
#[derive(Clone, Copy, Default)]
struct Spread {
    min: u64,
    max: u64,
    sum: u128,
    flows: u64,
}

impl Spread {
    fn add(&mut self, value: u64) {
        self.min = if self.flows == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.sum += u128::from(value);
        self.flows += 1;
    }

    fn mean(&self) -> Option<u64> {
        let mean = self.sum.checked_div(u128::from(self.flows))?;
        u64::try_from(mean).ok()
    }
}

impl Tally {
    fn ask(&mut self, ask: fn(RawFd) -> io::Result<TcpInfo>, socket: RawFd, last: &mut Last) {
        match ask(socket) {
            Ok(info) => self.add(last, &info),
            Err(error) => {
                *last = NEVER;
                self.failed += 1;
                self.failure = Some(error);
            }
        }
    }

    fn add(&mut self, last: &mut Last, info: &TcpInfo) {
        self.flows += 1;
        self.grow(last, info);
        for (spread, (_, field)) in self.spreads.iter_mut().zip(&GAUGES) {
            if let Some(value) = field(info) {
                spread.add(value);
            }
        }
        if let Some(limited) = info.app_limited() {
            self.app_limited = Some(self.app_limited.unwrap_or(0) + u64::from(limited));
        }
    }

    /// What the counters of a flow have grown by.
    fn grow(&mut self, last: &mut Last, info: &TcpInfo) {
        for (index, (_, width, field)) in COUNTERS.iter().enumerate() {
            let now = field(info);
            let before = std::mem::replace(&mut last[index], now);
            let (Some(before), Some(now)) = (before, now) else {
                if now.is_none() {
                    self.short_answer = Some(info.length().0);
                }
                continue;
            };
            match growth(before, now, *width) {
                Some(grown) => self.grown[index] = Some(self.grown[index].unwrap_or(0).saturating_add(grown)),
                None => self.backwards += 1,
            }
        }
    }

    fn put(&self, out: &mut Vec<Value>) {
        put(out, &FLOWS, "", self.flows);
        for ((metric, ..), grown) in COUNTERS.iter().zip(self.grown) {
            if let Some(grown) = grown {
                put(out, metric, "", grown);
            }
        }
        for ((metric, _), spread) in GAUGES.iter().zip(&self.spreads) {
            if let Some(mean) = spread.mean() {
                put(out, metric, "of=min", spread.min);
                put(out, metric, "of=mean", mean);
                put(out, metric, "of=max", spread.max);
            }
        }
        if let Some(limited) = self.app_limited {
            put(out, &APP_LIMITED, "", limited);
        }
    }

    fn missing(&self, flows: usize, lost: u64) -> Option<String> {
        let mut missing = Missing::default();
        if lost != 0 {
            missing.add(format!("{lost} flows came and went since the last reading and were not asked"));
        }
        if let Some(failure) = &self.failure {
            missing.add(format!("{} of {flows} flows could not be read: {failure}", self.failed));
        }
        if let Some(bytes) = self.short_answer {
            missing.add(format!("this kernel gives {bytes} bytes of TCP_INFO, too few for some counters"));
        }
        if self.backwards != 0 {
            missing.add(format!("{} counters of flows went backwards: growth not known", self.backwards));
        }
        missing.sentence()
    }
}

impl Sensor for Flows {
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError> {
        let found = self.opened.ask();
        let (before, at_first) = match self.before.take() {
            Some(before) => (before, NEW),
            None => (HashMap::new(), NEVER),
        };
        let came_and_went = !found.closed.is_empty() || found.lost != 0;
        if self.flows.is_empty() && found.open.is_empty() && !came_and_went {
            self.before = Some(HashMap::new());
            let why = match found.ever {
                0 => "this trial has no TCP sockets",
                _ => "no TCP connection was open",
            };
            return Ok(Some(why.to_owned()));
        }
        let mut tally = Tally::default();
        for (socket, last) in &mut self.flows {
            tally.ask(self.ask, *socket, last);
        }
        for (number, said) in &found.closed {
            tally.grow(&mut before.get(number).copied().unwrap_or(at_first), said);
        }
        let mut now = HashMap::with_capacity(found.open.len());
        for (number, socket) in &found.open {
            let mut last = before.get(number).copied().unwrap_or(at_first);
            tally.ask(self.ask, socket.as_raw_fd(), &mut last);
            now.insert(*number, last);
        }
        self.before = Some(now);
        tally.put(out);
        Ok(tally.missing(self.flows.len() + found.open.len(), found.lost))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Socket -1 is closed; socket 4 belongs to a kernel of 2018; the others wrap their segment count.
    fn simulated(socket: RawFd) -> io::Result<TcpInfo> {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        if socket < 0 {
            return Err(io::Error::from_raw_os_error(9));
        }
        let asked = ASKED.fetch_add(1, Ordering::Relaxed) / 3;
        let mut bytes = [0_u8; 280];
        let mut set =
            |offset: usize, value: &[u8]| bytes[offset..offset + value.len()].copy_from_slice(value);
        set(68, &(100 * socket as u32).to_ne_bytes());
        set(120, &u64::from(1_000 * asked).to_ne_bytes());
        set(136, &(u32::MAX - 1).wrapping_add(4 * asked).to_ne_bytes());
        set(148, &u32::MAX.to_ne_bytes());
        Ok(TcpInfo::from_bytes(if socket == 4 { &bytes[..192] } else { &bytes }))
    }

    #[test]
    fn growths_are_summed_over_flows_and_gauges_are_spread() {
        let mut sensor = Flows::new(&[1, 2, 4, -1], Arc::default(), simulated);
        sensor.read(&mut Vec::new()).unwrap();
        let mut out = Vec::new();
        let missing = sensor.read(&mut out).unwrap().unwrap();

        let value = |metric: &str, label: &str| {
            out.iter().find(|value| value.0 == metric && value.1 == label).map(|value| value.2)
        };
        assert_eq!(value("tcp.flows", ""), Some(3));
        assert_eq!(value("tcp.acked_bytes", ""), Some(3_000));
        assert_eq!(value("tcp.segments_out", ""), Some(12), "each of three flows wrapped at 32 bits");
        assert_eq!(value("tcp.retransmitted_bytes", ""), Some(0), "of the two flows that have it");
        assert_eq!(value("tcp.rtt_ns", "of=min"), Some(100_000));
        assert_eq!(value("tcp.rtt_ns", "of=mean"), Some(700_000 / 3));
        assert_eq!(value("tcp.rtt_ns", "of=max"), Some(400_000));
        assert_eq!(value("tcp.min_rtt_ns", "of=mean"), None, "no flow has a sample");
        assert!(missing.contains("1 of 4 flows could not be read"), "{missing}");
        assert!(missing.contains("192 bytes of TCP_INFO"), "{missing}");
    }

    #[test]
    fn flows_that_come_and_go_are_asked_while_they_are_open() {
        /// A flow's counter of bytes grows by a thousand each time that one is asked.
        fn growing(_: RawFd) -> io::Result<TcpInfo> {
            static ASKED: AtomicU32 = AtomicU32::new(0);
            let mut bytes = [0_u8; 280];
            let acked = 1_000 * u64::from(ASKED.fetch_add(1, Ordering::Relaxed) + 1);
            bytes[120..128].copy_from_slice(&acked.to_ne_bytes());
            Ok(TcpInfo::from_bytes(&bytes))
        }
        let opened = Arc::new(OpenSockets::default());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = || {
            let connected = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            opened.know(connected.into())
        };
        let mut sensor = Flows::new(&[], Arc::clone(&opened), growing);
        let mut read = || {
            let mut out = Vec::new();
            let missing = sensor.read(&mut out).unwrap();
            let value = |metric: &str| out.iter().find(|value| value.0 == metric).map(|value| value.2);
            (value("tcp.flows"), value("tcp.acked_bytes"), missing)
        };
        let first = socket();
        assert_eq!(read(), (Some(1), None, None), "what it did before is not the trial's");
        let second = socket();
        let (flows, acked, missing) = read();
        assert_eq!((flows, missing), (Some(2), None));
        // In which order they are asked is not said: one has grown by 1000 or 2000, the other by 3000 or 2000.
        assert_eq!(acked, Some(4_000), "one has grown, the other is new");
        drop((first, second));
        let (flows, acked, missing) = read();
        // What they said last is the kernel's own count, which is below what was made up before.
        assert_eq!((flows, acked), (Some(0), None));
        assert!(missing.unwrap().contains("went backwards"));
        assert_eq!(read(), (None, None, Some("no TCP connection was open".to_owned())));
        let third = socket();
        assert_eq!(read(), (Some(1), Some(4_000), None));
        drop(third);
        assert_eq!(read().0, Some(0));
    }

    #[test]
    fn a_trial_without_sockets_says_so() {
        let mut out = Vec::new();
        let missing = Flows::new(&[], Arc::default(), simulated).read(&mut out).unwrap();
        assert_eq!((missing.unwrap().as_str(), out.len()), ("this trial has no TCP sockets", 0));
    }
}
