//! The control loop: one lab, one job at a time.
//!
//! The agent ends when its stdin ends, when its parent dies, or when the lab has been silent for too long,
//! whatever a job is doing at that moment: one that hangs in the kernel is left behind after a while. It has changed nothing on the host that would outlive it,
//! but the control group of a job with a CPU quota if it is killed: the next agent removes that first of all.
//! What a lab sets on the host is not its business, but that of the guard.

use std::process::ExitCode;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use iodyno_core::job::Job;
use iodyno_core::message::{Command, ErrorCode, Message, WireError};
use iodyno_core::units::Nanos;
use iodyno_load::{Cancel, LoadError};
use iodyno_sys::{clock, priority, process};

use crate::hello;
use crate::stream::{read_commands, Incoming, Outgoing};
use crate::trial;

/// How often the agent says that it lives, where it says nothing else. chosen: a fifth of the silence after which it is given up,
/// as each time that either end wakes takes of a CPU.
const HEARTBEAT: Nanos = Nanos(2 * Nanos::SECOND.0);
/// How long an agent that ends waits for its job. chosen: a little more than a load on files or devices takes to give an
/// operation up, so that what it has laid out is removed.
const LEAVE: Nanos = Nanos(iodyno_storage::GRACE.0 + 2_000_000_000);
/// How often it looks then.
const LOOK: Duration = Duration::from_millis(5);

/// What wakes the control loop.
enum Event {
    FromLab(Incoming),
    /// The job of that number came to its end; what the lab is to be told.
    JobEnded(u64, Box<Message>),
}

/// The job in hand.
struct ActiveJob {
    number: u64,
    trial: String,
    start: Sender<Nanos>,
    cancel: Cancel,
    thread: JoinHandle<()>,
    /// The lab waits for its end, and for nothing that it has to say.
    dropped: bool,
}

/// Why the control loop ends.
enum End {
    /// The lab said so, or closed the stream while nothing was going on.
    Clean,
    /// An error, which the lab is told.
    Error(WireError),
    /// The stream closed in the middle of a job: nobody is left to be told.
    Abandoned,
}

/// Serves one lab on stdin and stdout until it is done or gone. `parent` is who started this process.
pub fn serve(parent: i32, lab_timeout_s: f64) -> ExitCode {
    match process::end_with_parent(parent) {
        Ok(true) => {}
        Ok(false) => return ExitCode::from(ErrorCode::LabLost.exit_code().unwrap_or(75)),
        Err(error) => return crate::exit::of(&Err(error)),
    }
    iodyno_load::remove_leftovers();
    crate::guard::restore_leftovers();
    let (outgoing, writer) = Outgoing::start(std::io::stdout());
    let (sink, events) = channel();
    read_commands(std::io::stdin(), sink.clone(), Event::FromLab);
    outgoing.send(Message::Hello(Box::new(hello::hello())));

    let lab_timeout = Nanos((lab_timeout_s.clamp(0.1, 3600.0) * 1e9) as u64);
    let nice = priority::nice();
    // The lab hears whether this agent lives from this thread, of which a load of thousands may be the rival.
    priority::go_first();
    let mut agent = Agent { outgoing, events_in: sink, nice, job: None, jobs: 0, last_trial: String::new() };
    let end = agent.listen(&events, lab_timeout);
    agent.leave_job();
    let code = match end {
        End::Clean => 0,
        End::Abandoned => ErrorCode::LabLost.exit_code().unwrap_or(75),
        End::Error(error) => {
            let code = error.code.exit_code().unwrap_or(70);
            agent.outgoing.send(Message::Error(error));
            code
        }
    };
    drop(agent);
    writer.finish();
    ExitCode::from(code)
}

struct Agent {
    outgoing: Outgoing,
    events_in: Sender<Event>,
    /// The nice value of a job.
    nice: i32,
    job: Option<ActiveJob>,
    /// Jobs taken so far.
    jobs: u64,
    /// The last job that ended by itself: an `arm` or `abort` for it may still be on its way.
    last_trial: String,
}

impl Agent {
    fn listen(&mut self, events: &Receiver<Event>, lab_timeout: Nanos) -> End {
        let mut heard = clock::monotonic();
        let mut beaten = heard;
        loop {
            // Nothing is to be done before: each time that a thread wakes takes of a CPU.
            let next = beaten.plus(HEARTBEAT).min(heard.plus(lab_timeout)).minus(clock::monotonic());
            let event = events.recv_timeout(Duration::from_nanos(next.0));
            let now = clock::monotonic();
            if now.minus(beaten) >= HEARTBEAT {
                self.outgoing.beat();
                beaten = now;
            }
            match event {
                Ok(Event::FromLab(incoming)) => {
                    heard = now;
                    if let Some(end) = self.hear(incoming, now) {
                        return end;
                    }
                }
                Ok(Event::JobEnded(number, told)) => self.job_ended(number, *told),
                Err(RecvTimeoutError::Timeout) if now.minus(heard) >= lab_timeout => {
                    let silent = now.minus(heard).0 as f64 / 1e9;
                    return End::Error(WireError {
                        code: ErrorCode::LabLost,
                        what: format!("nothing heard of the lab for {silent:.1} s"),
                        place: "heartbeat".to_owned(),
                        advice: "look whether the lab or the way to this host hangs".to_owned(),
                        trial: self.job.as_ref().map(|job| job.trial.clone()),
                    });
                }
                Err(RecvTimeoutError::Timeout) => {}
                // Cannot be: this struct holds a sender.
                Err(RecvTimeoutError::Disconnected) => return End::Abandoned,
            }
        }
    }

    fn hear(&mut self, incoming: Incoming, now: Nanos) -> Option<End> {
        let broken = |code, what: String, place: &str, advice: &str| {
            let (place, advice) = (place.to_owned(), advice.to_owned());
            Some(End::Error(WireError { code, what, place, advice, trial: None }))
        };
        let command = match incoming {
            Incoming::Command(command) => *command,
            Incoming::End if self.job.is_some() => return Some(End::Abandoned),
            Incoming::End => return Some(End::Clean),
            Incoming::Broken(error) => {
                let advice = "look for something else that writes into the agent's stdin";
                return broken(ErrorCode::Frame, error.to_string(), "stdin", advice);
            }
            Incoming::NotUnderstood(what) => {
                let advice = "use a lab and an agent of the same build";
                return broken(ErrorCode::Protocol, what, "command", advice);
            }
        };
        match command {
            Command::Probe { id } => {
                self.outgoing.send(Message::ProbeReply { id, received_ns: now, sent_ns: clock::monotonic() });
            }
            Command::Heartbeat {} => {}
            Command::Bye {} => return Some(End::Clean),
            Command::Prepare { .. } if self.job.is_some() => {
                let what = "a job was sent while another one is in hand".to_owned();
                return broken(
                    ErrorCode::Protocol,
                    what,
                    "prepare",
                    "wait for result, error or aborted first",
                );
            }
            Command::Prepare { job } => self.take(job),
            Command::Arm { start_ns } => match &self.job {
                Some(job) => {
                    let _ = job.start.send(start_ns);
                }
                None if !self.last_trial.is_empty() => {}
                None => {
                    let what = "armed without a job".to_owned();
                    return broken(ErrorCode::Protocol, what, "arm", "send prepare first");
                }
            },
            // Answered when the job is gone. Until then the lab hears that this agent lives: a job may hang in the kernel.
            Command::Abort { .. } => match &mut self.job {
                Some(job) => {
                    job.cancel.cancel();
                    job.dropped = true;
                }
                None => self.outgoing.send(Message::Aborted { trial: String::new() }),
            },
        }
        None
    }

    fn take(&mut self, job: Box<Job>) {
        if let Err(error) = job.check() {
            self.last_trial.clone_from(&job.trial);
            self.outgoing.send(Message::Error(WireError {
                code: ErrorCode::Job,
                what: format!("invalid value {}: expected {}", error.found, error.allowed),
                place: error.key.to_owned(),
                advice: "correct the experiment".to_owned(),
                trial: Some(job.trial),
            }));
            return;
        }
        let cancel = Cancel::default();
        let (start, armed) = channel();
        let (outgoing, events_in, cancelled) =
            (self.outgoing.clone(), self.events_in.clone(), cancel.clone());
        self.jobs += 1;
        let number = self.jobs;
        let (trial, nice) = (job.trial.clone(), self.nice);
        let thread = std::thread::spawn(move || {
            // A thread may always step back.
            let _ = priority::set_nice(nice);
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                trial::carry_out(&job, &armed, &cancelled, &outgoing)
            }));
            let told = match ended {
                Ok(Ok(result)) => Message::Result(Box::new(result)),
                Ok(Err(LoadError { code, what, place, advice })) => {
                    Message::Error(WireError { code, what, place, advice, trial: Some(job.trial) })
                }
                Err(_) => Message::Error(WireError {
                    code: ErrorCode::Internal,
                    what: "the job's thread panicked; its message is on stderr".to_owned(),
                    place: "agent".to_owned(),
                    advice: "report this with the message".to_owned(),
                    trial: Some(job.trial),
                }),
            };
            let _ = events_in.send(Event::JobEnded(number, Box::new(told)));
        });
        self.job = Some(ActiveJob { number, trial, start, cancel, thread, dropped: false });
    }

    /// The lab is told when the job is gone and not before: it may send another one at once. What a dropped job
    /// has to say is of no interest.
    fn job_ended(&mut self, number: u64, told: Message) {
        if let Some(job) = self.job.take_if(|job| job.number == number) {
            self.last_trial.clone_from(&job.trial);
            let _ = job.thread.join();
            self.outgoing.send(if job.dropped { Message::Aborted { trial: job.trial } } else { told });
        }
    }

    /// Stops the job in hand and waits until it is gone, or hangs: then it ends with the process.
    fn leave_job(&mut self) {
        let Some(job) = self.job.take() else { return };
        job.cancel.cancel();
        let until = clock::monotonic().plus(LEAVE);
        while !job.thread.is_finished() && clock::monotonic() < until {
            std::thread::sleep(LOOK);
        }
        if job.thread.is_finished() {
            let _ = job.thread.join();
        }
    }
}
