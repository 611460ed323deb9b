//! What the agent says of itself and of its host.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};

use iodyno_core::limits::MAX_CONNECTIONS;
use iodyno_core::message::{Capability, Hello, WIRE_VERSION};
use iodyno_sense::Roots;
use iodyno_sys::{addresses, clock, limits, operation_clock, realtime, vsock};
use sha2::{Digest, Sha256};

/// Open files to ask for: as many connections as a job may have, and some more.
const DESCRIPTORS: u64 = MAX_CONNECTIONS as u64 + 1024;

/// The first message.
pub fn hello() -> Hello {
    // The limit is raised before the facts are read, so that they tell what can be used.
    let descriptors = limits::raise_descriptors(DESCRIPTORS);
    let roots = Roots::default();
    let mut host = iodyno_sense::host_facts(&roots);
    host.descriptors_limit = Some(descriptors);
    let told = addresses::addresses().unwrap_or_default();
    host.addresses = told.iter().map(|(address, prefix)| format!("{address}/{prefix}")).collect();
    // An agent starts in front of a waiting lab, so what takes long is done together: to calibrate the clock is
    // mostly to sleep. What is measured of the clock comes after that, undisturbed.
    let (program_sha256, mut capabilities) = std::thread::scope(|scope| {
        scope.spawn(operation_clock::OperationClock::new);
        let program = scope.spawn(program_sha256);
        let vsock = scope.spawn(|| vsock::refusal(vsock::THIS_MACHINE));
        let mut capabilities = iodyno_sense::available(&roots);
        let reason = vsock.join().ok().flatten();
        capabilities.push(Capability {
            name: "transport.vsock".to_owned(),
            available: reason.is_none(),
            reason,
        });
        (program.join().ok().flatten(), capabilities)
    });
    capabilities.push(realtime_capability());
    capabilities.push(profile_capability(host.cpus_online.first().copied()));
    Hello {
        wire_version: WIRE_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        build_hash: env!("IODYNO_BUILD_HASH").to_owned(),
        program_sha256,
        clock: operation_clock::facts(),
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
    let reason = realtime::available().err();
    Capability { name: "realtime".to_owned(), available: reason.is_none(), reason }
}

/// Whether call stacks can be sampled, and by which event. One CPU is as good as all to know.
fn profile_capability(cpu: Option<u32>) -> Capability {
    let (available, how) = match iodyno_profile::available(cpu.as_slice()) {
        Ok(how) => (true, how),
        Err(why_not) => (false, why_not),
    };
    Capability { name: "profile".to_owned(), available, reason: Some(how) }
}

fn program_sha256() -> Option<String> {
    let mut program = File::open("/proc/self/exe").ok()?;
    let mut hash = Sha256::new();
    // A part at a time: the whole of it would be most of what an agent ever needs of memory.
    let mut part = vec![0; 64 << 10];
    loop {
        match program.read(&mut part) {
            Ok(0) => break,
            Ok(length) => hash.update(&part[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
