//! A relay in user space: what a hypervisor without help from the kernel does to each frame.
//!
//! Two tap devices, one in each of two network namespaces, and a thread each way that reads a frame from one and
//! writes it to the other. It says `ready` when the devices are there, answers every line on stdin with a line of
//! counts, and ends with stdin. The devices are gone with the process, however it ends.

use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use clap::Args;
use iodyno_sys::tap::HEADER_BYTES;
use iodyno_sys::{clock, process, tap};
use serde::Serialize;

/// The largest segment that a device with offload hands over, an Ethernet header, and room for a VLAN tag.
const FRAME_BYTES: usize = HEADER_BYTES + 65_536 + 18;

/// What is joined, and how.
#[derive(Args)]
pub struct Ends {
    /// Two network namespaces, such as /run/netns/a
    #[arg(num_args = 2, required = true, value_name = "NAMESPACE")]
    namespaces: Vec<PathBuf>,
    /// Name of the device in each
    #[arg(long, value_name = "NAME")]
    device: String,
    /// Take and give segments that are larger than a frame, and leave checksums to the ends
    #[arg(long)]
    offload: bool,
}

/// One way through the relay. Only its own thread writes to it.
#[derive(Default)]
struct Way {
    frames: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
}

/// What has been copied so far, both ways; `refused`: frames that the device of the other end did not take.
#[derive(Serialize)]
struct Counts {
    frames: [u64; 2],
    bytes: [u64; 2],
    refused: [u64; 2],
    cpu_ns: u64,
}

/// Relays until stdin ends, or a device is gone. `parent` is who started this process.
///
/// # Errors
/// What the kernel said when a device could not be made, or was taken away.
pub fn run(parent: i32, ends: &Ends) -> io::Result<()> {
    if !process::end_with_parent(parent)? {
        return Ok(());
    }
    let devices = [open_in(ends, 0)?, open_in(ends, 1)?];
    let ways = Arc::new([Way::default(), Way::default()]);
    for number in 0..2 {
        let (source, sink) = (devices[number].try_clone()?, devices[1 - number].try_clone()?);
        let (ways, offload) = (Arc::clone(&ways), ends.offload);
        let started = std::thread::Builder::new().name(format!("way-{number}"));
        started.spawn(move || {
            let why = copy(source, sink, &ways[number], if offload { HEADER_BYTES } else { 0 });
            // Half a relay is none: the lab sees a path that is gone, not one that loses everything.
            let _ = writeln!(io::stderr(), "iodyno-agent: error: a device of the relay is gone: {why}");
            std::process::exit(70);
        })?;
    }
    let mut said = io::stdout().lock();
    writeln!(said, "ready")?;
    said.flush()?;
    for line in io::stdin().lock().lines() {
        line?;
        serde_json::to_writer(&mut said, &counts(&ways))?;
        writeln!(said)?;
        said.flush()?;
    }
    Ok(())
}

fn open_in(ends: &Ends, number: usize) -> io::Result<File> {
    tap::enter_network_namespace(&File::open(&ends.namespaces[number])?)?;
    tap::open(&ends.device, ends.offload)
}

/// Copies frames until the source is gone; says why.
fn copy(mut source: File, mut sink: File, way: &Way, header_bytes: usize) -> io::Error {
    let mut frame = vec![0; FRAME_BYTES];
    loop {
        match source.read(&mut frame) {
            Ok(0) => return io::ErrorKind::UnexpectedEof.into(),
            // A frame that the other device does not take, because it is down or short of memory, is lost, as on
            // any path; but it is counted.
            Ok(length) => match sink.write(&frame[..length]) {
                Ok(_) => {
                    add(&way.frames, 1);
                    add(&way.bytes, length.saturating_sub(header_bytes) as u64);
                }
                Err(_) => add(&way.refused, 1),
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return error,
        }
    }
}

/// Not an atomic addition: there is one writer.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}

fn counts(ways: &[Way; 2]) -> Counts {
    let each = |of: fn(&Way) -> &AtomicU64| [of(&ways[0]).load(Relaxed), of(&ways[1]).load(Relaxed)];
    Counts {
        frames: each(|way| &way.frames),
        bytes: each(|way| &way.bytes),
        refused: each(|way| &way.refused),
        cpu_ns: clock::process_cpu().0,
    }
}
