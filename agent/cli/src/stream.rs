//! The byte streams to and from the lab, each with a thread of its own: a job never waits for a pipe, and a
//! command is read while a job runs.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;

use iodyno_core::frame::{encode, Decoder, FrameError};
use iodyno_core::message::{Command, Message};
use iodyno_sys::priority;

/// What came from the lab.
#[derive(Debug)]
pub enum Incoming {
    /// A command.
    Command(Box<Command>),
    /// Bytes that are no frame.
    Broken(FrameError),
    /// A frame that holds no command, and what the parser says of it.
    NotUnderstood(String),
    /// The lab closed the stream, or is gone.
    End,
}

/// Reads commands from `source` until it ends or breaks, and gives each to `sink`.
pub fn read_commands<S: Send + 'static>(
    mut source: impl Read + Send + 'static,
    sink: Sender<S>,
    wrap: fn(Incoming) -> S,
) {
    std::thread::spawn(move || {
        priority::go_first();
        let mut decoder = Decoder::new();
        let mut chunk = vec![0; 64 << 10];
        loop {
            let count = match source.read(&mut chunk) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Ok(count) => count,
                Err(_) => 0,
            };
            let end = decoder.finish().map_or_else(Incoming::Broken, |()| Incoming::End);
            if count == 0 {
                let _ = sink.send(wrap(end));
                return;
            }
            decoder.feed(&chunk[..count]);
            loop {
                let incoming = match decoder.next_payload() {
                    Ok(None) => break,
                    Ok(Some(payload)) => match serde_json::from_slice(&payload) {
                        Ok(command) => Incoming::Command(Box::new(command)),
                        Err(error) => Incoming::NotUnderstood(error.to_string()),
                    },
                    Err(error) => Incoming::Broken(error),
                };
                let last = !matches!(incoming, Incoming::Command(_));
                // Nobody listens any more: the agent is ending.
                if sink.send(wrap(incoming)).is_err() || last {
                    return;
                }
            }
        }
    });
}

/// Sends messages to the lab. Cloned freely; messages of one clone keep their order.
#[derive(Clone)]
pub struct Outgoing {
    queue: Sender<Vec<Message>>,
    said: Arc<AtomicBool>,
}

/// The thread behind [`Outgoing`].
pub struct Writer {
    thread: JoinHandle<()>,
}

impl Outgoing {
    /// Starts writing frames to `sink`.
    pub fn start(mut sink: impl Write + Send + 'static) -> (Outgoing, Writer) {
        let (queue, messages): (Sender<Vec<Message>>, Receiver<Vec<Message>>) = channel();
        let thread = std::thread::spawn(move || {
            priority::go_first();
            let mut sequence = 0;
            for together in messages {
                let mut frames = Vec::new();
                for message in together {
                    // Both fail only on a defect (a message that is no JSON, or of more than 16 MiB); the gap in
                    // the sequence would then show on the other side.
                    if let Ok(Ok(frame)) =
                        serde_json::to_vec(&message).map(|payload| encode(sequence, &payload))
                    {
                        frames.extend(frame);
                    }
                    sequence += 1;
                }
                if sink.write_all(&frames).and_then(|()| sink.flush()).is_err() {
                    // The lab is gone; stdin says so too, and that ends the agent.
                    return;
                }
            }
        });
        (Outgoing { queue, said: Arc::default() }, Writer { thread })
    }

    /// Queues a message.
    pub fn send(&self, message: Message) {
        self.send_together(vec![message]);
    }

    /// Queues messages that arrive together: the lab wakes once for all of them.
    pub fn send_together(&self, messages: Vec<Message>) {
        self.said.store(true, Relaxed);
        let _ = self.queue.send(messages);
    }

    /// Queues a heartbeat where nothing was queued since the last call: whatever comes says that the agent lives, and each
    /// message takes of a CPU at both ends.
    pub fn beat(&self) {
        if !self.said.swap(false, Relaxed) {
            let _ = self.queue.send(vec![Message::Heartbeat {}]);
        }
    }
}

impl Writer {
    /// Waits until everything queued is written, at most about a second: the lab may have stopped reading.
    /// Every [`Outgoing`] must be gone by now.
    pub fn finish(self) {
        for _ in 0..100 {
            if self.thread.is_finished() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
