//! The programs that tell the operations, in the kernel.

use aya::maps::{HashMap, MapData, PerCpuArray, RingBuf};
use aya::programs::{Program, RawTracePoint};
use aya::{include_bytes_aligned, Ebpf, EbpfError, EbpfLoader, VerifierLogLevel};

use super::{BlockEvent, Untold};
use crate::exact::refusal::Refusal;

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/block.bpf.o"));

/// Program and tracepoint. Without a scheduler nothing is queued; the end comes last, as a begin without its end is harmless.
const PROGRAMS: [(&str, &str); 4] = [
    ("given_back", "block_rq_requeue"),
    ("queued", "block_rq_insert"),
    ("issued", "block_rq_issue"),
    ("completed", "block_rq_complete"),
];

/// What is known of an operation until it is complete, as words; the second is when it was handed to the device, or 0.
type Begun = [u64; 8];

/// A trace that runs: programs in the kernel, which are gone when this is dropped.
pub struct BlockTrace {
    events: RingBuf<MapData>,
    lost: PerCpuArray<MapData, u64>,
    under_way: HashMap<MapData, u64, Begun>,
    _programs: Ebpf,
}

impl BlockTrace {
    /// Starts the trace of every block device of the machine. The error says what is missing and what to try.
    pub fn start() -> Result<BlockTrace, String> {
        start().map_err(|refusal| refusal.to_string())
    }

    /// Hands every operation that was completed since the last call to `told`, in the order of completion.
    pub fn read(&mut self, mut told: impl FnMut(BlockEvent)) {
        while let Some(item) = self.events.next() {
            if let Some(event) = BlockEvent::parse(&item) {
                told(event);
            }
        }
    }

    /// What could not be told so far. An end that was not seen shows when the kernel uses the request again, or never.
    #[must_use]
    pub fn untold(&self) -> Untold {
        let sum = |kind| self.lost.get(&kind, 0).map_or(0, |each| each.iter().sum());
        let at_devices = self.under_way.iter().flatten().filter(|(_, begun)| begun[1] != 0).count();
        Untold { no_room: sum(0), begun_before: sum(1), unseen: sum(2) + at_devices as u64 }
    }
}

fn start() -> Result<BlockTrace, Refusal> {
    let mut ebpf = EbpfLoader::new().verifier_log_level(VerifierLogLevel::DEBUG).load(OBJECT)?;
    let mut map = |name| ebpf.take_map(name).ok_or(Refusal::Defect("a map is not in the object"));
    let events = RingBuf::try_from(map("events")?).map_err(EbpfError::from)?;
    let lost = PerCpuArray::try_from(map("lost")?).map_err(EbpfError::from)?;
    let under_way = HashMap::try_from(map("under_way")?).map_err(EbpfError::from)?;
    for (name, tracepoint) in PROGRAMS {
        let program: &mut Program =
            ebpf.program_mut(name).ok_or(Refusal::Defect("a program is not in the object"))?;
        let program: &mut RawTracePoint = program.try_into()?;
        program.load()?;
        program.attach(tracepoint)?;
    }
    Ok(BlockTrace { events, lost, under_way, _programs: ebpf })
}
