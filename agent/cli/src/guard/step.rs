//! What the guard reads and does for the lab: files of the kernel, and commands that configure it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use iodyno_sys::lock::locked;
use iodyno_sys::process;
use serde::{Deserialize, Serialize};

/// A command that takes longer hangs (chosen: a driver may restart its device, which takes some seconds).
const COMMAND_LIMIT: Duration = Duration::from_secs(20);
const OUTPUT_BYTES: usize = 1 << 18;
/// chosen: what a command has said is read so long after its end, at most.
const STREAM_LIMIT: Duration = Duration::from_millis(500);
/// Where the commands are that configure a network; the shell of an account may not look there.
const PATH: &str = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin";

/// Something to read.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Look {
    File(String),
    Run(Vec<String>),
}

/// What was read, or why it could not be.
#[derive(Serialize)]
pub struct Seen {
    text: Option<String>,
    error: Option<String>,
}

/// Something to do.
#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Write { file: String, text: String },
    Run(Vec<String>),
}

impl Look {
    /// Reads it.
    pub fn see(&self) -> Seen {
        let found = match self {
            Self::File(path) => fs::read_to_string(path).map_err(|error| format!("{path}: {error}")),
            Self::Run(words) => run(words),
        };
        match found {
            Ok(text) => Seen { text: Some(text), error: None },
            Err(error) => Seen { text: None, error: Some(error) },
        }
    }
}

impl Step {
    /// Does it.
    pub fn take(&self) -> Result<(), String> {
        match self {
            Self::Write { file, text } => {
                let told = |error| format!("{file}: {error}");
                // One write call, as the kernel's files have it; they are never made.
                let mut opened = fs::OpenOptions::new().write(true).open(file).map_err(told)?;
                opened.write_all(text.as_bytes()).map_err(told)
            }
            Self::Run(words) => run(words).map(|_| ()),
        }
    }
}

/// What a command writes to stdout. A command that fails is an error with its own last words.
fn run(words: &[String]) -> Result<String, String> {
    run_within(words, COMMAND_LIMIT)
}

fn run_within(words: &[String], limit: Duration) -> Result<String, String> {
    let [program, arguments @ ..] = words else { return Err("an empty command".to_owned()) };
    let mut child = Command::new(program)
        .args(arguments)
        .env("PATH", PATH)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // With all that it starts, so that all of it can be ended.
        .process_group(0)
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("there is no command `{program}` on this host"),
            _ => format!("{program}: {error}"),
        })?;
    let (said, complaint) = (Said::by(child.stdout.take()), Said::by(child.stderr.take()));
    let began = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if began.elapsed() < limit => std::thread::sleep(Duration::from_micros(500)),
            Ok(None) => {
                process::kill_group(child.id());
                let _ = child.wait();
                return Err(format!("`{}` took more than {} s", words.join(" "), limit.as_secs_f64()));
            }
            Err(error) => return Err(format!("{program}: {error}")),
        }
    };
    let (said, complaint) = (said.all(), complaint.all());
    if status.success() {
        return Ok(said);
    }
    let last = complaint.trim().lines().last().unwrap_or("no word").trim().to_owned();
    Err(format!("`{}`: {last}", words.join(" ")))
}

/// What a command writes to one of its streams, read while it runs.
struct Said {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Said {
    fn by(stream: Option<impl Read + Send + 'static>) -> Said {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let own = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let Some(mut stream) = stream else { return };
            let mut chunk = [0; 4096];
            // What it says beyond the limit is read, too: it would wait for a full pipe.
            while let Ok(count @ 1..) = stream.read(&mut chunk) {
                let mut bytes = locked(&own);
                let room = OUTPUT_BYTES - bytes.len();
                bytes.extend_from_slice(&chunk[..count.min(room)]);
            }
        });
        Said { bytes, reader }
    }

    /// All of it. The command has ended; something that it has left behind may hold the stream for ever, and is not waited for.
    fn all(self) -> String {
        let ended = Instant::now();
        while !self.reader.is_finished() && ended.elapsed() < STREAM_LIMIT {
            std::thread::sleep(Duration::from_micros(200));
        }
        String::from_utf8_lossy(&locked(&self.bytes)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_files_tell_why_they_fail() {
        assert_eq!(run(&["echo".into(), "a b".into()]).unwrap(), "a b\n");
        assert!(run(&["no-such-command".into()]).unwrap_err().contains("no command"));
        assert!(run(&["ls".into(), "/no/such/place".into()]).unwrap_err().contains("No such file"));
        let step = Step::Write { file: "/no/such/file".into(), text: "1".into() };
        assert!(step.take().unwrap_err().contains("No such file"));
    }

    #[test]
    fn what_a_command_leaves_behind_is_not_waited_for() {
        let shell = |script: &str| ["sh".to_owned(), "-c".to_owned(), script.to_owned()];
        let begun = Instant::now();
        assert_eq!(run(&shell("sleep 30 & echo done")).unwrap(), "done\n");
        let failure = run_within(&shell("sleep 30 & sleep 30"), Duration::from_millis(100)).unwrap_err();
        assert!(failure.contains("took more than 0.1 s"), "{failure}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        // More than a pipe holds, and more than is kept.
        let long = run(&shell("head -c 1000000 /dev/zero")).unwrap();
        assert_eq!(long.len(), OUTPUT_BYTES);
    }
}
