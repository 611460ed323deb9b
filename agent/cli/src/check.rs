//! `iodyno-agent check`: what would be said of jobs when they are prepared, as far as it is known without files and connections.

use std::io::{self, BufRead, Write};

use clap::Args;
use iodyno_core::job::{Job, Load};
use iodyno_core::message::{ErrorCode, WireError};
use iodyno_load::LoadError;
use iodyno_storage::{block, program};

/// Options of the command.
#[derive(Args)]
pub struct Options {
    /// Leave out what depends on the kernel of this host, as the jobs are for another
    #[arg(long)]
    elsewhere: bool,
}

/// Answers each line of stdin by one of stdout: an error as the wire has it, or `null`.
///
/// # Errors
/// Stdin cannot be read, or nobody reads stdout any more.
pub fn run(options: &Options) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let error = match serde_json::from_str::<Job>(&line?) {
            Ok(job) => refusal(&job, options.elsewhere).err().map(|error| told(error, Some(job.trial))),
            Err(error) => {
                let (what, advice) = (format!("it is no job: {error}"), "see `iodyno-agent schema`");
                let (place, advice) = ("job".to_owned(), advice.to_owned());
                Some(told(LoadError { code: ErrorCode::Job, what, place, advice }, None))
            }
        };
        serde_json::to_writer(&mut out, &error)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

fn told(error: LoadError, trial: Option<String>) -> WireError {
    let LoadError { code, what, place, advice } = error;
    WireError { code, what, place, advice, trial }
}

fn refusal(job: &Job, elsewhere: bool) -> Result<(), LoadError> {
    job.check().map_err(|error| LoadError {
        code: ErrorCode::Job,
        what: format!("invalid value {}: expected {}", error.found, error.allowed),
        place: error.key.to_owned(),
        advice: String::new(),
    })?;
    match &job.load {
        Load::Network(network) if elsewhere => iodyno_load::goes_together(network),
        Load::Network(network) => iodyno_load::supports(network),
        Load::Script(scripted) if elsewhere => iodyno_load::script_goes_together(&scripted.script),
        Load::Script(scripted) => iodyno_load::script_supports(&scripted.script),
        Load::Disk(disk) => block::check(disk, elsewhere),
        Load::Files(program) if !elsewhere => program::check(program),
        Load::Idle(_) | Load::Files(_) => Ok(()),
    }
}
