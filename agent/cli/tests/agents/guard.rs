//! The guard as a process: what a lab has it set is taken back, however the lab goes.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{json, Value};

use crate::agent::AGENT;

/// A folder with a setting that is 3, and room for the journal; gone with this value.
struct Host(PathBuf);

impl Host {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("iodyno-guard-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("setting"), "3").unwrap();
        Host(path)
    }

    fn journal(&self) -> PathBuf {
        self.0.join("tunables")
    }

    fn setting(&self) -> String {
        fs::read_to_string(self.0.join("setting")).unwrap()
    }

    /// A write to one of its files, in the lab's words.
    fn write(&self, file: &str, text: &str) -> Value {
        json!({"write": {"file": self.0.join(file), "text": text}})
    }

    /// Setting it to 1, with the way back.
    fn set_to_1(&self) -> Value {
        let (undo, steps) = (self.write("setting", "3"), self.write("setting", "1"));
        json!({"do": "set", "tunable": "the setting", "device": null, "undo": [undo], "steps": [steps]})
    }

    /// What `restore` prints.
    fn restored(&self) -> Value {
        let ran = Command::new(AGENT).arg("restore").arg("--journal").arg(self.journal()).output().unwrap();
        assert!(ran.status.success());
        serde_json::from_slice(&ran.stdout).unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Guard {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Guard {
    fn start(host: &Host) -> Self {
        let mut process = Command::new(AGENT)
            .arg("guard")
            .arg("--journal")
            .arg(host.journal())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let mut guard = Guard { stdin: process.stdin.take(), process, stdout };
        assert_eq!(guard.next()["said"], "hello");
        guard
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn ask(&mut self, request: &Value) -> Value {
        writeln!(self.stdin.as_mut().unwrap(), "{request}").unwrap();
        self.next()
    }

    fn claim(&mut self, owner: &str) -> Value {
        self.ask(&json!({"do": "claim", "owner": owner}))
    }

    /// Its exit code, once it has ended.
    fn ended(mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }
}

#[test]
fn what_a_lab_sets_is_taken_back_when_it_is_gone() {
    for by_signal in [false, true] {
        let host = Host::new(if by_signal { "signal" } else { "end" });
        let mut guard = Guard::start(&host);
        assert_eq!(guard.claim("a lab")["said"], "claimed");
        let look =
            json!({"do": "look", "at": [{"file": host.0.join("setting")}, {"run": ["no-such-command"]}]});
        let seen = guard.ask(&look)["seen"].take();
        assert_eq!(seen[0]["text"], "3");
        assert!(seen[1]["error"].as_str().unwrap().contains("no-such-command"), "{seen}");
        assert_eq!(guard.ask(&host.set_to_1())["said"], "done");
        assert_eq!(host.setting(), "1");
        if by_signal {
            let number = guard.process.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &number]).status().unwrap().success());
        } else {
            guard.stdin = None;
        }
        assert_eq!(guard.ended(), Some(0));
        assert_eq!(host.setting(), "3");
        assert!(!host.journal().exists(), "a journal is left");
    }
}

#[test]
fn what_a_killed_guard_leaves_is_restored_once_nobody_holds_the_host() {
    let host = Host::new("killed");
    let mut guard = Guard::start(&host);
    guard.claim("a lab");
    guard.ask(&host.set_to_1());
    assert_eq!(host.restored(), json!({"said": "held", "owner": "a lab"}));
    let mut second = Guard::start(&host);
    assert_eq!(second.claim("another lab"), json!({"said": "held", "owner": "a lab"}));
    assert_eq!(host.setting(), "1");
    guard.process.kill().unwrap();
    guard.ended();
    assert_eq!(host.setting(), "1");
    let restored = host.restored();
    assert_eq!(restored["restored"]["failed"], json!([]), "{restored}");
    assert!(restored["restored"]["done"][0].as_str().unwrap().contains("the setting"), "{restored}");
    assert_eq!(host.setting(), "3");
}

#[test]
fn a_step_that_is_refused_is_told_and_forgotten_on_the_labs_word() {
    let host = Host::new("refused");
    let mut guard = Guard::start(&host);
    let mut refused = |request: &Value, why: &str| {
        let answer = guard.ask(request);
        assert!(answer["said"] == "refused" && answer["why"].as_str().unwrap().contains(why), "{answer}");
    };
    refused(&host.set_to_1(), "set before claim");
    refused(&json!({"do": "dance"}), "not understood");
    assert_eq!(host.setting(), "3");
    guard.claim("a lab");
    // The way back of what was never done would be a setting that nobody had.
    let (undo, steps) = (host.write("setting", "7"), host.write("no/such/file", "1"));
    let wrong = json!({"do": "set", "tunable": "none", "device": null, "undo": [undo], "steps": [steps]});
    let answer = guard.ask(&wrong);
    assert!(answer["why"].as_str().unwrap().contains("No such file"), "{answer}");
    assert_eq!(guard.ask(&json!({"do": "forget"}))["said"], "done");
    assert_eq!(guard.ask(&host.set_to_1())["said"], "done");
    let restored = guard.ask(&json!({"do": "restore"}))["restored"].take();
    assert_eq!((restored["done"].as_array().unwrap().len(), host.setting().as_str()), (1, "3"), "{restored}");
    guard.stdin = None;
    assert_eq!((guard.ended(), host.setting().as_str()), (Some(0), "3"));
}
