//! Datagrams on a ring that is shared with the kernel: packet sockets (`TPACKET_V2`, `TPACKET_V3`) and `AF_XDP`. The
//! server is here, the sending end in [`frames`].
//!
//! ```text
//! device ─▶ program of the trial's port ─▶ inlet ─▶ answers or receipts ─▶ outlet ─▶ device
//! ```
//! The flows have said hello to an ordinary UDP socket, which keeps the port to the end and gets nothing more: the
//! datagrams of the trial are taken in front of the kernel's own protocols.

mod adaptive;
mod answers;
mod choice;
pub(crate) mod frames;
mod halves;
mod place;
#[cfg_attr(not(has_bpf), path = "no_programs.rs")]
mod programs;
mod receipts;
pub(crate) mod reflector;
mod voice;

use std::io;

use iodyno_core::job::Job;
use iodyno_core::network::{Network, Ring, TrafficKind, Transport};
use iodyno_core::units::Nanos;
use iodyno_sys::poll::{self, Ended};
use iodyno_sys::{affinity, errno, packet_ring, xsk};

use crate::connections::Connections;
use crate::error::LoadError;
use crate::worker::shared::State;
use crate::worker::Worker;
use adaptive::Ladder;
use answers::Answers;
use halves::{Inlet, Outlet};
use place::Place;
use receipts::Receipts;

/// chosen: frames that one look takes before their answers are sent; as many as `recvmmsg` servers take by default, so
/// that no client waits for the others' computing for longer than there.
const MOST_FRAMES: usize = 64;
/// chosen: longest wait, after which the end of the job is noticed.
const LOOK: Nanos = Nanos(50_000_000);
/// chosen: so long after the load was to stop, a server that hears nothing more ends; the clients' words that they end
/// may be lost. Senders drain for less.
const SILENCE_NS: u64 = 1_000_000_000;
/// chosen: bounds of the ring's packets: memory of some megabytes, and no loss while the server is away for a turn of
/// another thread.
const LEAST_PACKETS: usize = 1024;
const MOST_PACKETS: usize = 16_384;

/// What is done with the frames that came.
trait Taker {
    /// Takes a frame. What it says to it goes out with [`Taker::send`].
    fn put(&mut self, frame: &[u8], worker: &mut Worker<'_>);
    /// Sends what was written, and counts what the last look gave, which began at `begun`.
    fn send(&mut self, worker: &mut Worker<'_>, begun: u64) -> io::Result<()>;
    /// Whether every flow has said that it ends.
    fn all_ended(&self) -> bool;
    /// Nothing more will come.
    fn close(&mut self);
}

/// Serves as worker `number`, to the end.
pub(crate) fn drive(shared: &Connections, number: usize) {
    let cpu = shared.cpus[number % shared.cpus.len()];
    if let Err(error) = affinity::restrict(&[cpu]) {
        return shared.report(LoadError::refused(&error, &format!("run on CPU {cpu}"), "cpus"));
    }
    let outcome = match shared.job.load.transport {
        Transport::Packet => packet(shared, number),
        _ => xdp(shared, number),
    };
    if let Err(error) = outcome {
        shared.report(error);
    }
}

/// Whether nobody waits for an answer before the next datagram is sent.
fn streams(job: &Job<Network>) -> bool {
    job.load.kind() == TrafficKind::Stream
}

/// Packets that a ring is to hold.
fn packets(shared: &Connections) -> usize {
    if streams(&shared.job) {
        return MOST_PACKETS;
    }
    let flows = shared.job.load.connections as usize * shared.job.load.queue_depth() as usize;
    (flows * 2).next_power_of_two().clamp(LEAST_PACKETS, MOST_PACKETS)
}

/// Frames to be sent that a ring is to hold. The kernel gives a frame back when the other end's IP has it, and on the way
/// between two devices of one machine that is before the program there has read it: only much later may another answer
/// be written over it.
fn frames(shared: &Connections, place: &Place) -> usize {
    if streams(&shared.job) {
        return LEAST_PACKETS;
    }
    (packets(shared) * place.cut.frames()).clamp(LEAST_PACKETS, MOST_PACKETS)
}

fn packet(shared: &Connections, number: usize) -> Result<(), LoadError> {
    let ring = shared.job.load.ring.unwrap_or(Ring {
        version: 3,
        block_packets: 32,
        block_timeout_ns: Nanos(10_000_000),
        adaptive: false,
    });
    let place = Place::of(shared, usize::MAX)?;
    let refused = |error: io::Error| place.refused(&error, "packet sockets", "CAP_NET_RAW");
    let wanted = packet_ring::Wanted {
        device: place.device.index,
        to: place.address,
        back: false,
        frame_bytes: place.request_frame_bytes,
    };
    let block_packets = ring.block_packets as usize;
    let shape = match ring.version {
        2 => packet_ring::Shape::V2 { frames: packets(shared) },
        _ => packet_ring::Shape::V3 {
            block_packets,
            blocks: (packets(shared) / block_packets.max(1)).max(8),
            timeout_ms: (ring.block_timeout_ns.0 / 1_000_000).max(1) as u32,
        },
    };
    let mut outlet = packet_ring::send(place.device.index, place.cut.longest_frame(), frames(shared, &place))
        .map_err(refused)?;
    fill(&mut outlet, shared.source.bytes());
    let fixed;
    let ladder;
    if ring.adaptive {
        (fixed, ladder) = (None, Some(Ladder::open(&wanted, &ring, packets(shared)).map_err(refused)?));
    } else {
        (fixed, ladder) = (Some(packet_ring::receive(&wanted, shape).map_err(refused)?), None);
    }
    // From here on the datagrams come by the ring, and the kernel does not answer them as well.
    let _programs = programs::drop_at(&place.device.name, place.address)?;
    if let Some(ladder) = ladder {
        serve(shared, number, &place, ladder, outlet);
    } else if let Some(fixed) = fixed {
        serve(shared, number, &place, fixed, outlet);
    }
    Ok(())
}

fn xdp(shared: &Connections, number: usize) -> Result<(), LoadError> {
    let place = Place::of(shared, xsk::LONGEST_FRAME_BYTES)?;
    let refused = |error: io::Error| place.refused(&error, "AF_XDP sockets", "CAP_NET_RAW and CAP_BPF");
    let (inlet, mut outlet) =
        xsk::open(place.device.index, 0, packets(shared), frames(shared, &place)).map_err(refused)?;
    fill(&mut outlet, shared.source.bytes());
    let _programs = programs::redirect_at(&place.device.name, place.address, inlet.descriptor())?;
    serve(shared, number, &place, inlet, outlet);
    Ok(())
}

/// Writes payload into every frame: what an answer does not write itself is what stood there.
fn fill(outlet: &mut impl Outlet, source: &[u8]) {
    fill_from(outlet, source, 0);
}

/// The same from some bytes on.
fn fill_from(outlet: &mut impl Outlet, source: &[u8], begin: usize) {
    for _ in 0..outlet.slots() {
        let Some(frame) = outlet.frame().and_then(|frame| frame.get_mut(begin..)) else { return };
        let length = frame.len().min(source.len());
        frame[..length].copy_from_slice(&source[..length]);
        outlet.pass_over();
    }
}

/// Serves from the start until all flows have ended.
fn serve(shared: &Connections, number: usize, place: &Place, inlet: impl Inlet, outlet: impl Outlet) {
    if streams(&shared.job) {
        take(shared, number, inlet, Receipts::new(shared, number, place, outlet));
    } else {
        take(shared, number, inlet, Answers::new(shared, number, place, outlet));
    }
}

fn take(shared: &Connections, number: usize, mut inlet: impl Inlet, mut taker: impl Taker) {
    let busy_wait = shared.job.load.busy_wait();
    let (tally, batches) = (shared.counters.tally(number), shared.counters.batches(number));
    let Some(mut worker) = Worker::await_start(shared, number) else { return };
    let mut heard = worker.now;
    let mut woken = false;
    loop {
        let begun = worker.now;
        let packets = inlet.take(MOST_FRAMES, |frame| taker.put(frame, &mut worker));
        if packets > 0 {
            if let Err(error) = taker.send(&mut worker, begun) {
                return give_up(&mut worker, shared, &error);
            }
            if let Some(batches) = batches {
                batches.record(packets as u64);
            }
            heard = worker.now;
            woken = false;
            continue;
        }
        // A device that is gone makes its socket ready for good.
        if let Some(error) = woken.then(|| inlet.failure()).flatten() {
            return give_up(&mut worker, shared, &error);
        }
        tally.empty.one_more();
        worker.tick();
        let silent = worker.is_due() && worker.now.saturating_sub(heard.max(worker.due())) > SILENCE_NS;
        if taker.all_ended() || silent || shared.state() != State::Going {
            taker.close();
            // Their last words may have been lost: they were answered, and the socket is there a little longer.
            (0..shared.job.load.connections as usize).for_each(|flow| worker.concluded(flow));
            return;
        }
        if busy_wait {
            std::hint::spin_loop();
            continue;
        }
        tally.polls.one_more();
        match poll::readable(inlet.descriptor(), LOOK) {
            Ok(Ended::Readable) => {
                tally.wakeups.one_more();
                woken = true;
            }
            Ok(Ended::Nothing) => {}
            Ok(Ended::Failed) => {
                let error = inlet.failure().unwrap_or_else(|| io::Error::from_raw_os_error(errno::ENETDOWN));
                return give_up(&mut worker, shared, &error);
            }
            Err(error) => return give_up(&mut worker, shared, &error),
        }
        worker.tick();
    }
}

/// The device is gone or down: every flow breaks.
fn give_up(worker: &mut Worker<'_>, shared: &Connections, error: &io::Error) {
    let number = error.raw_os_error().unwrap_or(0);
    (0..shared.job.load.connections as usize).for_each(|flow| worker.failed(flow, number));
}
