//! `iodyno-agent`: generates load and reads sensors on one host, and knows nothing of experiments.

#![forbid(unsafe_code)]

mod arrivals;
mod calibrate;
mod catalogue;
mod check;
mod control;
mod exit;
mod guard;
mod hello;
mod load;
mod parts;
mod relay;
mod stream;
mod tallies;
mod target;
mod targets;
mod trace_block;
mod trial;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use iodyno_sys::signals;

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
        /// Take the lab's word that the time-stamp counter can be trusted, as a sandbox cannot know it
        #[arg(long)]
        trust_counter: bool,
    },
    /// Copy frames between tap devices in two network namespaces until stdin ends (not for people)
    #[command(hide = true)]
    Relay(relay::Ends),
    /// Set this host's tunables for a lab, and take them back when the lab is gone (not for people)
    Guard {
        /// End when nothing has been heard of the lab for this many seconds
        #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
        lab_timeout: f64,
        /// Where the journal is kept [default: /run/iodyno/tunables; without root a folder in TMPDIR]
        #[arg(long, value_name = "FOLDER")]
        journal: Option<PathBuf>,
    },
    /// Lay working sets out in files for a lab, and look at devices, until stdin ends (not for people)
    Target,
    /// Restore what the guard of a lab that is gone left set on this host
    Restore {
        /// Where the journal is kept [default: /run/iodyno/tunables; without root a folder in TMPDIR]
        #[arg(long, value_name = "FOLDER")]
        journal: Option<PathBuf>,
    },
    /// Measure this instrument: clock step, cost of the load loop, cost of each sensor
    #[command(after_help = "Example: iodyno-agent calibrate --json")]
    Calibrate {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Measure only programs at the block layer, with reads of this file or device that bypass the page cache
        #[arg(long, value_name = "FILE")]
        block: Option<PathBuf>,
    },
    /// Print what this agent says of its host
    Facts,
    /// Read jobs on stdin, a line of JSON each, and print for each what is in its way, or null; none is carried out
    Check(check::Options),
    /// Print every operation of the machine's block devices until stdin ends
    #[command(after_help = "Example: iodyno-agent trace-block --seconds 5 --device vda
Exit codes: 0 done; 69 no program may be loaded into this kernel; 70 it could not be printed")]
    TraceBlock(trace_block::Options),
    /// Do nothing until a signal ends it: the first process of a container that hosts agents
    Wait,
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
        Command::Serve { lab_timeout, trust_counter } => {
            if trust_counter {
                iodyno_sys::operation_clock::trust();
            }
            return control::serve(parent, lab_timeout);
        }
        Command::Relay(ends) => relay::run(parent, &ends),
        Command::Guard { lab_timeout, journal } => return guard::serve(lab_timeout, journal),
        Command::Target => target::serve(),
        Command::Restore { journal } => guard::print_restored(journal),
        Command::TraceBlock(options) => return trace_block::run(&options),
        Command::Calibrate { json, block: Some(file) } => calibrate::print_block(&file, json),
        Command::Calibrate { json, block: None } => calibrate::print(json),
        Command::Facts => hello::print(),
        Command::Check(options) => check::run(&options),
        Command::Wait => signals::hold_back().and_then(|()| signals::wait()).map(drop),
        Command::Schema { folder } => catalogue::write(&folder),
    };
    exit::of(&ended)
}
