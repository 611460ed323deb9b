//! `iodyno-agent trace-block`: every operation of the block layer as a line, in the columns of iosnoop. BLOCK is -1 of what
//! has no place on the device, as a flush.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use iodyno_sense::{BlockEvent, BlockTrace};

/// What cannot be had on this machine: `EX_UNAVAILABLE` of sysexits.h.
const UNAVAILABLE: u8 = 69;
/// How often the ring is emptied. chosen: it holds some 200 000 operations.
const LOOK: Duration = Duration::from_millis(10);

#[derive(Args)]
pub struct Options {
    /// End after so long; without it the trace ends when stdin does
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Only this device, by its name in /sys/block
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Only operations that take so many microseconds or more
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    least: u64,
}

pub fn run(options: &Options) -> ExitCode {
    let mut trace = match BlockTrace::start() {
        Ok(trace) => trace,
        Err(reason) => {
            let _ = writeln!(io::stderr(), "{}", serde_json::json!({ "error": reason }));
            return ExitCode::from(UNAVAILABLE);
        }
    };
    match print(options, &mut trace) {
        Ok(told) => {
            let untold = trace.untold();
            let account = serde_json::json!({
                "operations": told, "no_room": untold.no_room, "begun_before": untold.begun_before,
                "unseen": untold.unseen,
            });
            let _ = writeln!(io::stderr(), "{account}");
            ExitCode::SUCCESS
        }
        Err(error) => crate::exit::of(&Err(error)),
    }
}

fn print(options: &Options, trace: &mut BlockTrace) -> io::Result<u64> {
    let mut out = BufWriter::new(io::stdout().lock());
    writeln!(
        out,
        "{:<14} {:<14} {:>9} {:>9} {:>6} {:>7} D {:>11} {:>8} {:<8} {:<16} PATHNAME",
        "STIME(us)", "TIME(us)", "DELTA(us)", "DTIME(us)", "UID", "PID", "BLOCK", "SIZE", "DEVICE", "COMM"
    )?;
    out.flush()?;
    let ended = stdin_ends();
    let until = options.seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds.max(0.0)));
    let (mut names, mut told, mut failure) = (HashMap::new(), 0, Ok(()));
    loop {
        // What completes while the last look is taken is of no interest.
        let last = ended.load(Relaxed) || until.is_some_and(|until| Instant::now() >= until);
        trace.read(|event| {
            let device = names.entry(event.device).or_insert_with(|| name_of(event.device));
            let wanted = options.device.as_ref().is_none_or(|name| name == device)
                && event.ended.minus(event.queued).0 >= options.least * 1000;
            if wanted && failure.is_ok() {
                told += 1;
                failure = line(&mut out, &event, device);
            }
        });
        std::mem::replace(&mut failure, Ok(()))?;
        out.flush()?;
        if last {
            return Ok(told);
        }
        std::thread::sleep(LOOK);
    }
}

fn line(out: &mut impl Write, event: &BlockEvent, device: &str) -> io::Result<()> {
    let micros = |ns: u64| ns / 1000;
    writeln!(
        out,
        "{:<14} {:<14} {:>9} {:>9} {:>6} {:>7} {} {:>11} {:>8} {:<8} {:<16} <none>",
        micros(event.queued.0),
        micros(event.ended.0),
        micros(event.ended.minus(event.queued).0),
        micros(event.ended.minus(event.issued).0),
        event.user,
        event.process,
        event.operation.letter(),
        event.sector.map_or_else(|| "-1".to_owned(), |sector| sector.to_string()),
        event.bytes,
        device,
        event.name,
    )
}

/// A device's name, by its number; the number where the kernel does not tell.
fn name_of((major, minor): (u32, u32)) -> String {
    fs::read_link(format!("/sys/dev/block/{major}:{minor}"))
        .ok()
        .and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()))
        .unwrap_or_else(|| format!("{major}:{minor}"))
}

/// Becomes true when nobody holds the other end of stdin any more.
fn stdin_ends() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ended);
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock().take(u64::MAX), &mut io::sink());
        seen.store(true, Relaxed);
    });
    ended
}
