//! The guard: sets what a lab asks for on this host, and takes it back when the lab is gone.
//!
//! It knows no tunable. The lab says what to read, what to do, and how to undo it; before anything is done, the way
//! back is in the journal. The guard is a process of its own, so that neither the load nor its end touches it. It
//! ends when its stdin ends, on a signal, or when the lab has been silent for too long, and takes back what is set.
//! If it is killed itself, the journal stays: the next agent or guard on this host takes it back
//! ([`restore_leftovers`]).
//!
//! It speaks JSON, a line each way (`src/iodyno/hosts/guard.py` is the other end).

mod journal;
mod step;

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{channel, Sender};
use std::time::{Duration, Instant};

use iodyno_sys::signals;
use serde::{Deserialize, Serialize};

use journal::{Entry, Journal, Restored};
use step::{Look, Seen, Step};

/// Longest line from the lab (chosen: a hundred times what it sends).
const LINE_BYTES: u64 = 1 << 20;

/// What the lab asks.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    /// It lives.
    Beat {},
    /// To be the one that sets things here; whatever a crash left is restored first.
    Claim { owner: String },
    /// What is there.
    Look { at: Vec<Look> },
    /// To write the way back down, then to do the steps.
    Set { tunable: String, device: Option<String>, undo: Vec<Step>, steps: Vec<Step> },
    /// To cross out the last way back: its steps were refused, and the lab has read that nothing changed.
    Forget {},
    /// To take back everything that is set, the last one first.
    Restore {},
}

/// What the guard says.
#[derive(Serialize)]
#[serde(tag = "said", rename_all = "snake_case")]
enum Answer {
    /// First of all: which machine and which namespace this is.
    Hello {
        boot: String,
        namespace: String,
        initial_namespace: bool,
    },
    /// The host is the lab's.
    Claimed {
        restored: Restored,
    },
    /// Another lab has it.
    Held {
        owner: String,
    },
    Seen {
        seen: Vec<Seen>,
    },
    /// All steps were done.
    Done {},
    /// Nothing was done, or a step was refused; what was done before it is in the journal.
    Refused {
        why: String,
    },
    Restored {
        restored: Restored,
    },
}

enum Event {
    Line(String),
    /// The lab closed the stream, or somebody wants this process to end.
    End,
}

/// Serves one lab on stdin and stdout until it is done or gone.
pub fn serve(lab_timeout_s: f64, folder: Option<PathBuf>) -> ExitCode {
    crate::exit::of(&run(lab_timeout_s, folder))
}

/// Restores what a lab that is gone left in this network namespace; says on stderr what that was.
pub fn restore_leftovers() {
    let Some(folder) = journal::folder(None) else { return };
    if folder.is_dir() {
        journal::sweep(&folder);
        if let Ok(Ok(mut journal)) = Journal::claim(&folder) {
            let restored = journal.restore();
            for text in restored.done.iter().chain(&restored.failed) {
                let _ = writeln!(std::io::stderr(), "iodyno-agent: left by a lab that is gone: {text}");
            }
        }
    }
}

/// Restores what a lab that is gone left in this network namespace, and prints it as JSON.
pub fn print_restored(folder: Option<PathBuf>) -> std::io::Result<()> {
    let mut answer = Answer::Restored { restored: Restored::default() };
    if let Some(folder) = journal::folder(folder).filter(|folder| folder.is_dir()) {
        answer = match Journal::claim(&folder)? {
            Ok(mut journal) => Answer::Restored { restored: journal.restore() },
            Err(owner) => Answer::Held { owner },
        };
    }
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&answer)?)
}

fn run(lab_timeout_s: f64, folder: Option<PathBuf>) -> std::io::Result<()> {
    signals::hold_back()?;
    let timeout = Duration::from_secs_f64(lab_timeout_s.clamp(0.1, 3600.0));
    let (sink, events) = channel();
    watch_signals(sink.clone());
    watch_stdin(sink);
    let mut guard = Guard { folder: journal::folder(folder), journal: None, refused: false };
    say(&Answer::Hello {
        boot: journal::boot(),
        namespace: journal::namespace()?,
        initial_namespace: journal::initial_namespace(),
    });
    let mut heard = Instant::now();
    // The end of the stream, a signal and the lab's silence end it alike.
    while let Ok(Event::Line(line)) = events.recv_timeout(timeout.saturating_sub(heard.elapsed())) {
        if let Some(answer) = guard.hear(&line) {
            say(&answer);
        }
        // After the answer: what the guard itself takes is not the lab's silence.
        heard = Instant::now();
    }
    if let Some(journal) = &mut guard.journal {
        journal.restore();
    }
    Ok(())
}

struct Guard {
    folder: Option<PathBuf>,
    journal: Option<Journal>,
    /// Whether the last entry is of steps that were refused.
    refused: bool,
}

impl Guard {
    /// What to answer; a beat has no answer.
    fn hear(&mut self, line: &str) -> Option<Answer> {
        let request = match serde_json::from_str(line) {
            Ok(request) => request,
            Err(error) => return Some(Answer::Refused { why: format!("not understood: {error}") }),
        };
        Some(match request {
            Request::Beat {} => return None,
            Request::Claim { owner } => self.claim(&owner),
            Request::Look { at } => Answer::Seen { seen: at.iter().map(Look::see).collect() },
            Request::Set { tunable, device, undo, steps } => {
                self.set(Entry::new(tunable, device, undo), &steps)
            }
            Request::Forget {} => {
                match &mut self.journal {
                    // Of a set that could not even be noted there is nothing to cross out.
                    Some(journal) if std::mem::take(&mut self.refused) => journal.forget_last(),
                    _ => {}
                }
                Answer::Done {}
            }
            Request::Restore {} => {
                Answer::Restored { restored: self.journal.as_mut().map(Journal::restore).unwrap_or_default() }
            }
        })
    }

    fn claim(&mut self, owner: &str) -> Answer {
        let Some(folder) = &self.folder else {
            return Answer::Refused { why: "there is no place for a journal: no /run, no TMPDIR".to_owned() };
        };
        if self.journal.is_some() {
            return Answer::Claimed { restored: Restored::default() };
        }
        journal::sweep(folder);
        match Journal::claim(folder) {
            Ok(Ok(mut journal)) => {
                let restored = journal.restore();
                match journal.begin(owner) {
                    Ok(()) => self.journal = Some(journal),
                    Err(why) => return Answer::Refused { why },
                }
                Answer::Claimed { restored }
            }
            Ok(Err(owner)) => Answer::Held { owner },
            Err(error) => {
                let place = folder.display();
                Answer::Refused { why: format!("the journal cannot be opened in {place}: {error}") }
            }
        }
    }

    fn set(&mut self, entry: Entry, steps: &[Step]) -> Answer {
        let Some(journal) = &mut self.journal else {
            return Answer::Refused { why: "set before claim".to_owned() };
        };
        self.refused = false;
        if let Err(why) = journal.write(entry) {
            return Answer::Refused { why };
        }
        for step in steps {
            if let Err(why) = step.take() {
                self.refused = true;
                return Answer::Refused { why };
            }
        }
        Answer::Done {}
    }
}

fn say(answer: &Answer) {
    // A lab that is gone hears nothing; its end is seen on stdin.
    if let Ok(text) = serde_json::to_string(answer) {
        let mut stdout = std::io::stdout().lock();
        let _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    }
}

fn watch_signals(sink: Sender<Event>) {
    std::thread::spawn(move || {
        if signals::wait().is_ok() {
            let _ = sink.send(Event::End);
        }
    });
}

fn watch_stdin(sink: Sender<Event>) {
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            let mut line = String::new();
            match std::io::Read::take(&mut stdin, LINE_BYTES).read_line(&mut line) {
                Ok(1..) if line.ends_with('\n') => {
                    if sink.send(Event::Line(line)).is_err() {
                        return;
                    }
                }
                _ => {
                    let _ = sink.send(Event::End);
                    return;
                }
            }
        }
    });
}
