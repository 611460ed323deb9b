//! `iodyno-agent target`: looks at files, devices and filesets' places for a lab, lays working sets out, and removes those.
//!
//! It speaks JSON, a line each way (`src/iodyno/hosts/target.py` is the other end): a question, then how far the work is, then
//! its answer. It ends with stdin; a layout that is under way then is given up, and what there is of it removed.

use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{channel, Receiver};
use std::time::{Duration, Instant};

use iodyno_core::file_program::FileProgram;
use iodyno_load::Cancel;
use iodyno_storage::program;
use iodyno_storage::targets::{self, Checked, Kind, Ready, Refusal, Wanted};
use serde::{Deserialize, Serialize};

/// Longest line from the lab (chosen: a path of 4096 bytes many times over).
const LINE_BYTES: u64 = 1 << 20;
/// How often it says how far it is (chosen: what a person sees as moving).
const SAID_EVERY: Duration = Duration::from_millis(250);

/// What the lab asks.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    /// To lay a working set out, or to look whether a device may be used.
    MakeReady { wanted: Wanted },
    /// To look at a target.
    See { path: PathBuf, kind: Kind },
    /// To note that all blocks of a file carry checks now.
    Mark { path: PathBuf, checks: Checked },
    /// Whether the filesets of a file program can be laid out.
    LookAtFilesets { program: Box<FileProgram> },
    /// To remove a file that was laid out.
    Remove { path: PathBuf },
}

/// What is answered.
#[derive(Serialize)]
#[serde(tag = "said", rename_all = "snake_case")]
enum Answer {
    Progress { done_bytes: u64, total_bytes: u64 },
    Ready(Ready),
    Removed { removed: bool },
    Marked {},
    Fits {},
    Refused(Refusal),
}

/// Serves one lab until stdin ends.
///
/// # Errors
/// Nobody reads stdout any more.
pub fn serve() -> io::Result<()> {
    let cancel = Cancel::default();
    for line in lines(cancel.clone()) {
        say(&answer(&line, &cancel))?;
    }
    Ok(())
}

fn answer(line: &str, cancel: &Cancel) -> Answer {
    let done = match serde_json::from_str(line) {
        Ok(Request::MakeReady { wanted }) => {
            let mut said = Instant::now();
            let mut progress = |done_bytes, total_bytes| {
                if said.elapsed() >= SAID_EVERY {
                    said = Instant::now();
                    // Whether the lab is there is seen on stdin.
                    let _ = say(&Answer::Progress { done_bytes, total_bytes });
                }
            };
            targets::make_ready(&wanted, &mut progress, cancel).map(Answer::Ready)
        }
        Ok(Request::See { path, kind }) => targets::see(&path, kind).map(Answer::Ready),
        Ok(Request::Mark { path, checks }) => targets::mark(&path, &checks).map(|()| Answer::Marked {}),
        Ok(Request::LookAtFilesets { program }) => {
            program::look(&program).map(|()| Answer::Fits {}).map_err(|error| Refusal {
                what: error.what,
                place: error.place,
                advice: error.advice,
                stopped: false,
            })
        }
        Ok(Request::Remove { path }) => targets::remove(&path).map(|removed| Answer::Removed { removed }),
        Err(error) => Err(Refusal {
            what: format!("the question is not understood: {error}"),
            place: "iodyno-agent target".to_owned(),
            advice: "let iodyno ask: it is not for people".to_owned(),
            stopped: false,
        }),
    };
    done.unwrap_or_else(Answer::Refused)
}

fn say(answer: &Answer) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, answer)?;
    writeln!(stdout)?;
    stdout.flush()
}

/// The lines of stdin. Its end gives up what is under way.
fn lines(cancel: Cancel) -> Receiver<String> {
    let (sink, lines) = channel();
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        loop {
            let mut line = String::new();
            let whole = stdin.by_ref().take(LINE_BYTES).read_line(&mut line).is_ok() && line.ends_with('\n');
            if !whole || sink.send(line).is_err() {
                cancel.cancel();
                return;
            }
        }
    });
    lines
}
