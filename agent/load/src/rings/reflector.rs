//! A client without a process: a program at its device turns every answer of the server into the next request of the
//! flow. So the server meets a closed loop that takes hardly anything for itself.
//!
//! What is left to do here is to begin the loops, to count, and to notice one that died: a datagram that is lost takes
//! its loop with it. Such a flow is begun anew, in a new round, so that a late answer of an earlier one does not make
//! two loops of it. Nobody sees when a single request begins or ends: there are no service times, and the mean is what
//! Little's law makes of the rate.

use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;

use iodyno_core::units::Nanos;
use iodyno_sys::{affinity, clock, errno, network_device, socket};

use super::place::unsupported;
use super::programs::{self, Loops};
use crate::connections::Connections;
use crate::datagram::farewell::{self, Parting};
use crate::error::LoadError;
use crate::transport::datagram::{Header, Kind, Mark};
use crate::worker::shared::State;
use crate::worker::Worker;

/// As in `bpf/ports.bpf.c`.
const ROUND_SHIFT: u32 = 40;
/// Flows of the program's map.
pub(crate) const MOST_FLOWS: u32 = 4096;
/// chosen: how often the kernel's counters are added to the job's, and less often with many flows: each takes some 1 us,
/// which are to be 2 % of the time at most.
const STEP: Nanos = Nanos(5_000_000);
const STEP_PER_FLOW: Nanos = Nanos(50_000);
/// chosen: so long before the end of each step, so that the counters that a record reads at the end of an interval are
/// always old by the same time.
const LEAD: Nanos = Nanos(300_000);
/// chosen: a flow whose loop was begun so often in vain is lost.
const MOST_ROUNDS_IN_VAIN: u32 = 10;

/// One flow's loop.
struct Loop {
    round: u64,
    /// Answers at the last look, and when they last grew.
    answers: u64,
    stale: u64,
    grown: u64,
    in_vain: u32,
    lost: bool,
}

/// Reflects for all flows, from the start to the end.
pub(crate) fn drive(shared: &Connections, number: usize) {
    let cpu = shared.cpus[number % shared.cpus.len()];
    if let Err(error) = affinity::restrict(&[cpu]) {
        return shared.report(LoadError::refused(&error, &format!("run on CPU {cpu}"), "cpus"));
    }
    let mark = Mark::of(&shared.job);
    let loops = match attach(shared, mark) {
        Ok(loops) => loops,
        Err(error) => return shared.report(error),
    };
    let flows: Vec<Loop> = (0..shared.job.load.connections)
        .map(|_| Loop { round: 0, answers: 0, stale: 0, grown: 0, in_vain: 0, lost: false })
        .collect();
    let mut parting = Vec::with_capacity(flows.len());
    let request = shared.source.bytes().to_vec();
    let Some(worker) = Worker::await_start(shared, number) else { return };
    let mut reflector = Reflector { shared, loops, flows, request, mark, number, worker };
    reflector.run();
    let flows = reflector.flows.iter().zip(&shared.sockets).zip(0..);
    parting.extend(flows.filter(|((flow, _), _)| !flow.lost).map(|((flow, socket), number)| Parting {
        flow: number,
        total: flow.answers + flow.round,
        socket: socket.as_fd(),
        silent: true,
    }));
    if shared.state() == State::Going {
        farewell::say(&mut parting, mark, || shared.state() == State::Going);
    }
    for flow in &parting {
        reflector.worker.concluded(flow.flow as usize);
    }
}

/// Attaches the program to the device that the flows go out by.
fn attach(shared: &Connections, mark: Mark) -> Result<Loops, LoadError> {
    let ipv4 = |address: Option<SocketAddr>| -> Result<SocketAddrV4, LoadError> {
        match address {
            Some(SocketAddr::V4(address)) => Ok(address),
            _ => Err(unsupported(
                "a reflector speaks IPv4 only".to_owned(),
                "address",
                "take an address of IPv4",
            )),
        }
    };
    let own = shared.sockets.first().and_then(|socket| socket::local_address(socket.as_fd()).ok());
    let (own, server) =
        (ipv4(own)?, ipv4(shared.job.load.address.as_deref().and_then(|text| text.parse().ok()))?);
    let device = network_device::with_address(*own.ip())
        .map_err(|error| LoadError::refused(&error, "look for the device", &own.to_string()))?
        .filter(|_| !own.ip().is_loopback() && own.ip() != server.ip())
        .ok_or_else(|| {
            let what = format!("no network device leads from {} to another host", own.ip());
            unsupported(what, "client", "have the server on another host or in another namespace")
        })?;
    if shared.job.load.message_bytes.0 as usize + 28 > device.mtu_bytes {
        let what = format!("requests of {} bytes do not fit into one frame", shared.job.load.message_bytes.0);
        return Err(unsupported(what, "message_bytes", "take smaller ones or a larger MTU"));
    }
    programs::reflect_at(&device.name, server, mark.word(), shared.job.load.message_bytes.0 as u32)
}

struct Reflector<'a> {
    shared: &'a Connections,
    loops: Loops,
    flows: Vec<Loop>,
    request: Vec<u8>,
    mark: Mark,
    number: usize,
    worker: Worker<'a>,
}

impl Reflector<'_> {
    fn run(&mut self) {
        let start = self.worker.now;
        for flow in 0..self.flows.len() {
            self.seed(flow);
        }
        let step = STEP.0.max(STEP_PER_FLOW.0 * self.flows.len() as u64);
        let mut steps = 1;
        while !self.worker.is_due() && self.flows.iter().any(|flow| !flow.lost) {
            let until = (start + steps * step - LEAD.0).min(self.worker.due());
            steps += 1;
            // An absolute sleep fails for a malformed time only, which this is not.
            let _ = clock::sleep_until(Nanos(until));
            self.worker.tick();
            for flow in 0..self.flows.len() {
                self.look(flow);
            }
        }
        // Nothing is sent any more; answers that are on their way end there.
        for flow in (0..self.flows.len()).filter(|flow| !self.flows[*flow].lost) {
            // It fails for a flow that is none only.
            let _ = self.loops.begin(flow as u32, 0);
        }
        let _ = clock::sleep_until(Nanos(self.worker.now).plus(STEP));
        for flow in 0..self.flows.len() {
            self.count(flow);
        }
    }

    /// Begins the loop of a flow, or begins it anew.
    fn seed(&mut self, flow: usize) {
        self.flows[flow].round += 1;
        self.flows[flow].grown = self.worker.now;
        let (number, round) = (flow as u32, self.flows[flow].round);
        let sequence = round << ROUND_SHIFT;
        let begun = self.loops.begin(number, round);
        Header { flow: number, kind: Kind::Request, sequence }.write(self.mark, &mut self.request);
        // What the kernel refuses is lost like any other, and begun anew in time.
        if begun.is_ok() && socket::send(self.shared.sockets[flow].as_fd(), &self.request).is_ok() {
            self.shared.counters.tally(self.number).sent.one_more();
            let cell = self.shared.counters.cell(flow);
            self.worker.moved(cell, self.request.len() as u64, self.worker.now);
        }
        self.worker.tick();
    }

    /// Adds what the kernel has counted.
    fn count(&mut self, flow: usize) -> u64 {
        let (answers, stale) = self.loops.counts(flow as u32);
        let state = &mut self.flows[flow];
        let (grown, late) = (answers - state.answers, stale - state.stale);
        (state.answers, state.stale) = (answers, stale);
        let (tally, cell) = (self.shared.counters.tally(self.number), self.shared.counters.cell(flow));
        tally.late.add(late);
        if grown > 0 {
            tally.received.add(grown);
            // Each went out again at once.
            tally.sent.add(grown);
            cell.add_operations(grown);
            self.worker.moved(cell, grown * self.shared.job.load.message_bytes.0, self.worker.now);
        }
        grown
    }

    fn look(&mut self, flow: usize) {
        if self.flows[flow].lost {
            return;
        }
        if self.count(flow) > 0 {
            self.flows[flow].grown = self.worker.now;
            self.flows[flow].in_vain = 0;
            return;
        }
        let silent = self.worker.now.saturating_sub(self.flows[flow].grown);
        if silent < self.shared.job.load.response_timeout_ns.0 || self.worker.is_due() {
            return;
        }
        let tally = self.shared.counters.tally(self.number);
        tally.lost.one_more();
        self.flows[flow].in_vain += 1;
        if self.flows[flow].in_vain > MOST_ROUNDS_IN_VAIN {
            self.flows[flow].lost = true;
            return self.worker.failed(flow, errno::ETIMEDOUT);
        }
        tally.retries.one_more();
        self.seed(flow);
    }
}
