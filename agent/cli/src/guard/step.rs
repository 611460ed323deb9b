//! What the guard reads and does for the lab: files of the kernel, and commands that configure it.

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// A command that takes longer hangs (chosen: a driver may restart its device, which takes some seconds).
const COMMAND_LIMIT: Duration = Duration::from_secs(20);
const OUTPUT_BYTES: u64 = 1 << 18;
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
    let [program, arguments @ ..] = words else { return Err("an empty command".to_owned()) };
    let mut child = Command::new(program)
        .args(arguments)
        .env("PATH", PATH)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("there is no command `{program}` on this host"),
            _ => format!("{program}: {error}"),
        })?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let status = std::thread::scope(|scope| {
        let said = scope.spawn(|| read(stdout));
        let complaint = scope.spawn(|| read(stderr));
        let began = Instant::now();
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Ok(status),
                Ok(None) if began.elapsed() < COMMAND_LIMIT => std::thread::sleep(Duration::from_micros(500)),
                Ok(None) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break Err(format!("`{}` took more than 20 s", words.join(" ")));
                }
                Err(error) => break Err(format!("{program}: {error}")),
            }
        };
        status.map(|status| (status, said.join().unwrap_or_default(), complaint.join().unwrap_or_default()))
    });
    let (status, said, complaint) = status?;
    if status.success() {
        return Ok(said);
    }
    let last = complaint.trim().lines().last().unwrap_or("no word").trim().to_owned();
    Err(format!("`{}`: {last}", words.join(" ")))
}

fn read(stream: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        let _ = stream.take(OUTPUT_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
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
}
