//! The programs that tell the operations, in the kernel.

use aya::maps::{MapData, PerCpuArray, RingBuf};
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

/// A trace that runs: programs in the kernel, which are gone when this is dropped.
pub struct BlockTrace {
    events: RingBuf<MapData>,
    lost: PerCpuArray<MapData, u64>,
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

    /// What could not be told so far.
    #[must_use]
    pub fn untold(&self) -> Untold {
        let sum = |kind| self.lost.get(&kind, 0).map_or(0, |each| each.iter().sum());
        Untold { no_room: sum(0), begun_before: sum(1), unseen: sum(2) }
    }
}

fn start() -> Result<BlockTrace, Refusal> {
    let mut ebpf = EbpfLoader::new().verifier_log_level(VerifierLogLevel::DEBUG).load(OBJECT)?;
    let mut map = |name| ebpf.take_map(name).ok_or(Refusal::Defect("a map is not in the object"));
    let events = RingBuf::try_from(map("events")?).map_err(EbpfError::from)?;
    let lost = PerCpuArray::try_from(map("lost")?).map_err(EbpfError::from)?;
    for (name, tracepoint) in PROGRAMS {
        let program: &mut Program =
            ebpf.program_mut(name).ok_or(Refusal::Defect("a program is not in the object"))?;
        let program: &mut RawTracePoint = program.try_into()?;
        program.load()?;
        program.attach(tracepoint)?;
    }
    Ok(BlockTrace { events, lost, _programs: ebpf })
}
