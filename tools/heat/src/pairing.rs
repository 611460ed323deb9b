//! Packets of a flow into requests with their answers.
//!
//! The side that sends data first is the one that asks. A request is every packet with data of that side until the other
//! side sends data; the first such packet is the answer. The time between the first packet of the request and the first
//! of the answer is what the asking side waits at least.

use std::collections::HashMap;

use crate::event::Place;
use crate::event::{Batch, Operation, Wanted};

/// Flows that are remembered. Chosen: about 20 MB.
const FLOWS: usize = 1 << 17;

/// One packet with data.
pub struct Packet<'a> {
    /// When it was seen.
    pub time_ns: i64,
    /// Address and port of who sent it.
    pub from: &'a [u8],
    /// And of whom it was sent to.
    pub to: &'a [u8],
    /// Bytes of data.
    pub bytes: f64,
}

struct Flow {
    /// Who asks.
    client: Vec<u8>,
    /// When the request that has no answer yet began, and its bytes.
    asked: Option<(i64, f64, Place)>,
}

/// Flows of a trace.
#[derive(Default)]
pub struct Flows {
    flows: HashMap<(Vec<u8>, Vec<u8>), Flow>,
}

impl Flows {
    /// Takes a packet; an answer is an event.
    pub fn take(&mut self, packet: &Packet, wanted: &Wanted, text: &[u8], out: &mut Batch) {
        let (a, b) =
            if packet.from <= packet.to { (packet.from, packet.to) } else { (packet.to, packet.from) };
        let key = (a.to_vec(), b.to_vec());
        if self.flows.len() >= FLOWS && !self.flows.contains_key(&key) {
            return out.refuse("", "there are more flows than are remembered", text);
        }
        let place = out.place();
        let flow =
            self.flows.entry(key).or_insert_with(|| Flow { client: packet.from.to_vec(), asked: None });
        if flow.client == packet.from {
            out.skipped += 1;
            match &mut flow.asked {
                Some((_, bytes, _)) => *bytes += packet.bytes,
                None => flow.asked = Some((packet.time_ns, packet.bytes, place)),
            }
            return;
        }
        let Some((begin, bytes, _)) = flow.asked.take() else {
            // More of an answer.
            out.skipped += 1;
            return;
        };
        let found = Operation {
            begin_ns: Some(begin),
            end_ns: Some(packet.time_ns),
            size_bytes: Some(bytes),
            device: packet.from,
            ..Operation::default()
        };
        out.take(&found, wanted, text);
    }

    /// The trace has ended: requests without an answer are said.
    pub fn end(&mut self, out: &mut Batch) {
        let mut left: Vec<_> =
            self.flows.drain().filter_map(|(_, flow)| Some((flow.asked?.2, flow.client))).collect();
        left.sort();
        for (place, client) in left {
            out.refuse_at(place, "", "the request has no answer in the trace", &client);
        }
    }
}
