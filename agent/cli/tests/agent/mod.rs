//! An agent, spoken to as the lab does: a real process, real frames on real pipes.

#![allow(dead_code, reason = "every test file uses a part of it")]

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command as Process, Stdio};

use iodyno_core::frame::{encode, Decoder};
use iodyno_core::job::{Job, Load};
use iodyno_core::message::{Command, ErrorCode, Message};
use iodyno_core::network::{Application, Network, Role, Traffic};
use iodyno_core::phase::Windows;
use iodyno_core::units::{Bytes, Nanos};

/// The program.
pub const AGENT: &str = env!("CARGO_BIN_EXE_iodyno-agent");

/// One agent, spoken to as the lab does.
pub struct Agent {
    pub process: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    decoder: Decoder,
    sequence: u32,
}

impl Agent {
    /// Starts one, with further arguments.
    pub fn start(extra: &[&str]) -> Agent {
        Agent::behind(&["env"], extra)
    }

    /// Started by a program that changes what it may do.
    pub fn behind(prefix: &[&str], extra: &[&str]) -> Agent {
        let mut process = Process::new(prefix[0])
            .args(&prefix[1..])
            .args([AGENT, "serve"])
            .args(extra)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the agent starts");
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take().expect("piped"));
        Agent { process, stdin, stdout, decoder: Decoder::new(), sequence: 0 }
    }

    /// Writes bytes to it as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        // The agent may have ended already; what it said on the way out is what counts.
        let _ = self.stdin.as_mut().expect("open").write_all(bytes);
    }

    /// Sends a command.
    pub fn send(&mut self, command: &Command) {
        let frame = encode(self.sequence, &serde_json::to_vec(command).unwrap()).unwrap();
        self.sequence += 1;
        self.send_bytes(&frame);
    }

    /// The next message; `None`: it says no more.
    pub fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(payload) = self.decoder.next_payload().expect("whole frames") {
                return Some(serde_json::from_slice(&payload).expect("a message"));
            }
            let mut chunk = [0; 4096];
            match self.stdout.read(&mut chunk).expect("a pipe") {
                0 => return None,
                count => self.decoder.feed(&chunk[..count]),
            }
        }
    }

    /// The next message that `wanted` takes; everything before it is thrown away.
    pub fn until<T>(&mut self, mut wanted: impl FnMut(&Message) -> Option<T>) -> T {
        loop {
            let message = self.next().expect("the agent is still there");
            if let Some(found) = wanted(&message) {
                return found;
            }
            assert!(!matches!(message, Message::Error(_)), "{message:?}");
        }
    }

    /// Everything it still says, and its exit code.
    pub fn end(mut self) -> (Vec<Message>, i32) {
        drop(self.stdin.take());
        let mut said = Vec::new();
        while let Some(message) = self.next() {
            said.push(message);
        }
        (said, self.process.wait().unwrap().code().expect("not killed"))
    }

    /// Bytes after the hello, then the end of the stream: errors and exit code.
    pub fn told(bytes: &[u8]) -> (Vec<ErrorCode>, i32) {
        let mut agent = Agent::start(&[]);
        agent.send_bytes(bytes);
        let (said, code) = agent.end();
        let errors = said.iter().filter_map(|message| match message {
            Message::Error(error) => Some(error.code),
            _ => None,
        });
        (errors.collect(), code)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A job of this role; the sender connects to `port`.
pub fn job(role: Role, port: u16) -> Job {
    Job {
        trial: "00001-1".to_owned(),
        token: "0f".repeat(16),
        load: Load::Network(Box::new(Network {
            role,
            connections: 3,
            message_bytes: Bytes(8192),
            address: Some(format!("127.0.0.1:{port}")),
            ..Network::default()
        })),
        windows: Windows {
            warm_up_ns: Nanos(50_000_000),
            measured_ns: Nanos(300_000_000),
            drain_ns: Nanos(50_000_000),
            interval_ns: Nanos(100_000_000),
        },
        ..Job::default()
    }
}

/// The load of such a job.
pub fn network(job: &mut Job) -> &mut Network {
    let Load::Network(network) = &mut job.load else { panic!("another load") };
    network
}

/// What its ends do besides.
pub fn application(job: &mut Job) -> &mut Application {
    let Traffic::Stream(stream) = &mut network(job).traffic else { panic!("no stream") };
    &mut stream.application
}
