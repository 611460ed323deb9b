//! What the agent says of itself and of its host.

use std::io::Write;

use iodyno_core::message::{Capability, Hello, WIRE_VERSION};
use iodyno_sense::Roots;
use iodyno_sys::{clock, limits, realtime};
use sha2::{Digest, Sha256};

/// The first message.
pub fn hello() -> Hello {
    // The limit is raised before the facts are read, so that they tell what can be used.
    let descriptors = limits::raise_descriptors();
    let roots = Roots::default();
    let mut host = iodyno_sense::host_facts(&roots);
    host.descriptors_limit = Some(descriptors);
    let mut capabilities = iodyno_sense::available(&roots);
    capabilities.push(realtime_capability());
    Hello {
        wire_version: WIRE_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        build_hash: env!("IODYNO_BUILD_HASH").to_owned(),
        program_sha256: program_sha256(),
        clock: iodyno_sense::clock_facts(&roots),
        host,
        capabilities,
        now_ns: clock::monotonic(),
        wall_ns: clock::wall(),
    }
}

/// Prints [`hello`] as JSON.
pub fn print() -> std::io::Result<()> {
    let text = serde_json::to_string_pretty(&hello())?;
    writeln!(std::io::stdout(), "{text}")
}

fn realtime_capability() -> Capability {
    let tried = std::thread::spawn(realtime::try_fifo).join().unwrap_or_else(|_| Err("panicked".to_owned()));
    Capability { name: "realtime".to_owned(), available: tried.is_ok(), reason: tried.err() }
}

fn program_sha256() -> Option<String> {
    let program = std::fs::read("/proc/self/exe").ok()?;
    Some(Sha256::digest(program).iter().map(|byte| format!("{byte:02x}")).collect())
}
