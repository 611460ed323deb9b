//! `iodyno-agent`: generates load and reads sensors on one host, and knows nothing of experiments.

#![forbid(unsafe_code)]

mod application;
mod calibrate;
mod catalogue;
mod control;
mod exit;
mod hello;
mod stream;
mod trial;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Version, and the hash of the sources that this program was built from.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " build ", env!("IODYNO_BUILD_HASH"));

#[derive(Parser)]
#[command(name = "iodyno-agent", version = VERSION, about = "Generates load and reads sensors on one host")]
#[command(
    after_help = "Exit codes: 0 ended on the lab's word; 2 wrong usage; 65 broken frame; 70 defect of the \
agent; 75 the lab was lost in the middle of a job, or its heartbeats stopped; 76 command not understood"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Take jobs on stdin and answer on stdout, as the lab does it (not for people)
    Serve {
        /// End when nothing has been heard of the lab for this many seconds
        #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
        lab_timeout: f64,
    },
    /// Measure this instrument: clock step, cost of the load loop, cost of each sensor
    #[command(after_help = "Example: iodyno-agent calibrate --json")]
    Calibrate {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what this agent says of its host
    Facts,
    /// Write the schemas of the wire and the list of metrics into a folder
    Schema {
        /// The folder
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    // First of all: a parent that ends from here on is noticed.
    let parent = iodyno_sys::process::parent();
    let arguments = Arguments::parse();
    let ended = match arguments.command {
        Command::Serve { lab_timeout } => return control::serve(parent, lab_timeout),
        Command::Calibrate { json } => calibrate::print(json),
        Command::Facts => hello::print(),
        Command::Schema { folder } => catalogue::write(&folder),
    };
    exit::of(&ended)
}
