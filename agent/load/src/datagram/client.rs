//! The asking end: one connected socket a flow, up to `queue_depth` requests in flight on each. A request without an
//! answer in time is sent again, as often as the job says, and then lost; nothing waits for it for ever.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::BorrowedFd;

use iodyno_core::histogram::Recorder;
use iodyno_core::job::Job;
use iodyno_core::limits::DATAGRAM_HEADER_BYTES;
use iodyno_core::network::{Engine, Network};
use iodyno_core::units::Nanos;
use iodyno_sys::datagram::Patience;
use iodyno_sys::epoll::{Epoll, Events, Interest};
use iodyno_sys::errno;

use super::counters::Tally;
use super::end::{settle, End};
use super::farewell::{self, Parting};
use super::port::{Port, MOST_EVENTS};
use super::requests::{Answered, Overdue, Requests};
use crate::connections::Connections;
use crate::error::LoadError;
use crate::transport::datagram::{Header, Kind};
use crate::worker::arrivals::{Arrivals, Claim};
use crate::worker::counters::Cell;
use crate::worker::shared::State;
use crate::worker::Worker;
use crate::workload::application;
use crate::workload::lengths::Lengths;

/// chosen: so long after the load was to stop, answers are waited for; requests without one are lost then.
const DRAIN: Nanos = Nanos(500_000_000);
/// chosen: how soon a flow is tried again that the kernel had no room for.
const AGAIN: Nanos = Nanos(1_000_000);

/// One flow of a worker.
struct Flow<'a> {
    number: u32,
    /// The number that its datagrams show: that which the receiver knows it by.
    shown: u32,
    /// Its place among the worker's.
    place: usize,
    socket: BorrowedFd<'a>,
    requests: Requests,
    lengths: Lengths,
    /// The arrival that it begins a request at next, in an open loop.
    claim: Claim,
    open: bool,
    /// What the kernel was told to wait for.
    watched: Interest,
}

impl<'a> Flow<'a> {
    fn of(end: &End<'a>, place: usize, number: usize) -> Self {
        let job = &end.shared.job;
        Flow {
            number: number as u32,
            shown: job.load.number_of(number),
            place,
            lengths: Lengths::of(&job.load, number),
            socket: end.socket(number),
            requests: Requests::new(
                job.load.queue_depth(),
                job.load.response_timeout_ns.0,
                job.load.retries(),
            ),
            claim: Claim::default(),
            open: true,
            watched: Interest::Readable,
        }
    }

    /// A request was not made after all; the next one has its length.
    fn take_back(&mut self, sequence: u64, bytes: u64) {
        self.requests.take_back(sequence);
        self.lengths.take_back(bytes);
    }

    fn parting(&self) -> Parting<'a> {
        Parting { flow: self.shown, total: self.requests.made(), socket: self.socket, silent: true }
    }
}

pub(super) fn drive(shared: &Connections, number: usize) {
    let job = &shared.job;
    let end = End::of(shared);
    let sockets = shared.share_of(number).map(|flow| end.socket(flow)).collect();
    let made = settle(shared, number)
        .and_then(|()| Port::open(shared, sockets, job.load.response_bytes().0, job.load.message_bytes.0));
    let port = match made {
        Ok(made) => made,
        Err(error) => return shared.report(error),
    };
    let flows: Vec<Flow> =
        shared.share_of(number).enumerate().map(|(place, flow)| Flow::of(&end, place, flow)).collect();
    let waiting = match Waiting::on(job, &flows, &port) {
        Ok(waiting) => waiting,
        Err(error) => return shared.report(LoadError::refused(&error, "wait on the sockets", "connections")),
    };
    let sequences = vec![(0, 0); port.room()].into_boxed_slice();
    let mut parting = Vec::with_capacity(flows.len());
    // A claim of each, and of those that are gone.
    let claims = BinaryHeap::with_capacity(2 * flows.len());
    let Some(worker) = Worker::await_start(shared, number) else { return };
    let mut client = Client {
        tally: shared.counters.tally(number),
        batches: shared.counters.batches(number),
        patience: waiting.patience(),
        arrivals: Arrivals::of(shared, number),
        claims,
        end: &end,
        port,
        sequences,
        open: flows.len(),
        worker,
    };
    let mut flows = flows;
    match waiting {
        Waiting::InCall => client.take_turns_alone(&mut flows),
        mut waiting => client.take_turns(&mut flows, &mut waiting),
    }
    let whole = |flow: &&Flow| flow.open;
    parting.extend(flows.iter().filter(whole).map(Flow::parting));
    if shared.state() == State::Going {
        // What comes back is for the sockets.
        drop(client.port);
        farewell::say(&mut parting, end.mark, || shared.state() == State::Going);
    }
    for flow in flows.iter().filter(|flow| flow.open) {
        client.worker.concluded(flow.number as usize);
    }
}

/// How a client learns that there is an answer.
enum Waiting {
    /// The only flow of a thread: its calls wait.
    InCall,
    /// One of many flows is ready.
    Epoll(Epoll, Events),
    /// What came on any flow is taken from the port's ring. Whether one has found no room to send since.
    Gathered(bool),
}

impl Waiting {
    fn on(job: &Job<Network>, flows: &[Flow], port: &Port<'_>) -> io::Result<Self> {
        if port.gathers() {
            return Ok(Waiting::Gathered(false));
        }
        if job.load.engine == Engine::Threads {
            return Ok(Waiting::InCall);
        }
        let epoll = Epoll::new()?;
        for (key, flow) in (0..).zip(flows) {
            epoll.add(flow.socket, flow.watched, key)?;
        }
        Ok(Waiting::Epoll(epoll, Events::with_capacity(flows.len().min(MOST_EVENTS))))
    }

    fn patience(&self) -> Patience {
        match self {
            Waiting::InCall => Patience::Waits,
            Waiting::Epoll(..) | Waiting::Gathered(_) => Patience::Returns,
        }
    }

    /// Waits for at most so long; how many flows, or datagrams of any flow, are ready.
    #[inline]
    fn wait(&mut self, port: &mut Port<'_>, longest: Nanos) -> io::Result<usize> {
        match self {
            Waiting::InCall => Ok(0),
            Waiting::Epoll(epoll, events) => {
                epoll.wait(events, Some(longest))?;
                Ok(events.count())
            }
            Waiting::Gathered(full) => {
                let longest = if *full { longest.min(Nanos(AGAIN.0)) } else { longest };
                port.wait(longest)?;
                Ok(port.gather())
            }
        }
    }

    /// The place of the flow that is ready, or whose datagram is shown now.
    #[inline]
    fn ready(&self, port: &mut Port<'_>, at: usize) -> usize {
        match self {
            Waiting::Epoll(_, events) => events.key(at) as usize,
            Waiting::InCall | Waiting::Gathered(_) => port.show(at),
        }
    }
}

/// What became of a turn of a flow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It did what it could.
    Done,
    /// The kernel has no room for another datagram of this flow.
    Full,
    /// Nothing can be sent or received on it any more; the error number.
    Broken(i32),
    /// The job was stopped.
    Stopped,
}

struct Client<'a> {
    end: &'a End<'a>,
    tally: &'a Tally,
    batches: Option<&'a Recorder>,
    patience: Patience,
    /// Absent: the loop is closed.
    arrivals: Option<Arrivals<'a>>,
    /// When claims are due, the earliest first, and the place of their flow among the worker's.
    claims: BinaryHeap<Reverse<(u64, usize)>>,
    port: Port<'a>,
    /// Numbers of the requests that are being sent, and their lengths.
    sequences: Box<[(u64, u64)]>,
    /// Flows that are not lost.
    open: usize,
    worker: Worker<'a>,
}

impl Client<'_> {
    /// One flow, whose calls wait.
    fn take_turns_alone(&mut self, flows: &mut [Flow]) {
        let Some(flow) = flows.first_mut() else { return };
        loop {
            let turn = match self.ask(flow) {
                Turn::Done if flow.requests.any() => self.listen(flow),
                Turn::Done if flow.claim.due > self.worker.now => {
                    self.worker.pause(flow.claim.due.min(self.worker.due()));
                    Turn::Done
                }
                turn => turn,
            };
            match turn {
                Turn::Done => {}
                // Full here means that the kernel lacks memory.
                Turn::Full => self.worker.pause(self.worker.now + AGAIN.0),
                Turn::Broken(number) => return self.lose(flow, number),
                Turn::Stopped => return,
            }
            self.see_to_the_overdue(flow);
            if self.worker.is_due() && self.is_over(std::slice::from_mut(flow)) {
                return;
            }
        }
    }

    /// Many flows, whichever is ready.
    fn take_turns(&mut self, flows: &mut [Flow], waiting: &mut Waiting) {
        let busy_wait = self.end.shared.job.load.busy_wait();
        // A flow that the kernel has no room for is asked about again later; so is what is overdue.
        let mut look_at = u64::MAX;
        for flow in flows.iter_mut() {
            let turn = self.ask(flow);
            self.settle(flow, turn, waiting);
            look_at = look_at.min(flow.requests.look_at());
            self.worker.tick();
        }
        loop {
            // Where all are lost nothing is left that would wake this thread.
            if self.open == 0 || self.worker.is_due() && self.is_over(flows) {
                return;
            }
            let stop = self.worker.due();
            let until = if self.worker.now < stop { stop } else { stop.saturating_add(DRAIN.0) };
            let claimed = self.claims.peek().map_or(u64::MAX, |Reverse((due, _))| *due);
            let (asked, sleep) = if claimed < until.min(look_at) {
                (self.worker.now, self.worker.sleep_ns(claimed))
            } else {
                (self.worker.now, until.min(look_at).saturating_sub(self.worker.now))
            };
            let sleep = if busy_wait { 0 } else { sleep };
            let ready = match waiting.wait(&mut self.port, Nanos(sleep)) {
                Ok(ready) => ready,
                Err(error) => {
                    let number = error.raw_os_error().unwrap_or(0);
                    flows.iter_mut().filter(|flow| flow.open).for_each(|flow| self.lose(flow, number));
                    return;
                }
            };
            if ready == 0 && claimed < until.min(look_at) {
                self.worker.woke(asked, sleep);
            } else {
                self.worker.tick();
            }
            while let Some(at) = self.due_claim() {
                let flow = &mut flows[at];
                if flow.open && flow.claim.due > 0 {
                    let turn = self.ask(flow);
                    self.settle(flow, turn, waiting);
                    look_at = look_at.min(flow.requests.look_at());
                }
            }
            self.see_to_the_rest(flows, waiting);
            for at in 0..ready {
                let flow = &mut flows[waiting.ready(&mut self.port, at)];
                if !flow.open {
                    continue;
                }
                let turn = match self.listen(flow) {
                    Turn::Done => self.ask(flow),
                    turn => turn,
                };
                if turn == Turn::Stopped {
                    return;
                }
                self.settle(flow, turn, waiting);
                look_at = look_at.min(flow.requests.look_at());
            }
            if self.worker.now >= look_at {
                look_at = u64::MAX;
                for flow in flows.iter_mut().filter(|flow| flow.open) {
                    let turn = match self.see_to_the_overdue(flow) {
                        true => self.ask(flow),
                        false => Turn::Done,
                    };
                    if turn != Turn::Done {
                        self.settle(flow, turn, waiting);
                    }
                    look_at = look_at.min(flow.requests.look_at());
                }
            }
        }
    }

    /// Of a port that gathers: flows that broke, and those that had found no room to send.
    #[inline]
    fn see_to_the_rest(&mut self, flows: &mut [Flow], waiting: &mut Waiting) {
        while let Some((place, number)) = self.port.broken() {
            if let Some(flow) = flows.get_mut(place).filter(|flow| flow.open) {
                self.lose(flow, number);
            }
        }
        if matches!(waiting, Waiting::Gathered(true)) {
            *waiting = Waiting::Gathered(false);
            for flow in flows.iter_mut().filter(|flow| flow.open) {
                let turn = self.ask(flow);
                self.settle(flow, turn, waiting);
            }
        }
    }

    /// Takes the outcome of a turn into account for what is waited for.
    #[inline]
    fn settle(&mut self, flow: &mut Flow, turn: Turn, waiting: &mut Waiting) {
        let epoll = match waiting {
            Waiting::Epoll(epoll, _) => epoll,
            Waiting::InCall => return,
            Waiting::Gathered(full) => {
                *full |= turn == Turn::Full;
                if let Turn::Broken(number) = turn {
                    self.lose(flow, number);
                }
                return;
            }
        };
        let wanted = match turn {
            Turn::Done | Turn::Stopped => Interest::Readable,
            Turn::Full => Interest::Writable,
            Turn::Broken(number) => {
                // It was added before and not removed since.
                let _ = epoll.remove(flow.socket);
                return self.lose(flow, number);
            }
        };
        if wanted != flow.watched {
            flow.watched = wanted;
            // As above.
            let _ = epoll.change(flow.socket, wanted, u64::from(flow.number / self.step()));
        }
    }

    /// Flows are dealt out to the workers in turn.
    fn step(&self) -> u32 {
        self.end.shared.workers() as u32
    }

    fn cell(&self, flow: u32) -> &'_ Cell {
        self.end.shared.counters.cell(flow as usize)
    }

    /// The place of a flow whose claim is due.
    #[inline]
    fn due_claim(&mut self) -> Option<usize> {
        let Reverse((due, at)) = *self.claims.peek()?;
        if due > self.worker.now || self.worker.is_due() {
            return None;
        }
        self.claims.pop();
        Some(at)
    }

    /// Makes the requests that are due, and claims the next arrival as long as there is room.
    fn ask_when_due(&mut self, flow: &mut Flow, arrivals: Arrivals<'_>) -> Turn {
        while flow.requests.room() > 0 && !self.worker.is_due() {
            if flow.claim.due == 0 {
                flow.claim = arrivals.claim(flow.number, self.worker.now);
                if flow.claim.due > self.worker.now && self.patience == Patience::Returns {
                    self.claims.push(Reverse((flow.claim.due, (flow.number / self.step()) as usize)));
                }
            }
            if flow.claim.due > self.worker.now {
                return Turn::Done;
            }
            let (claim, begun) = (flow.claim, self.worker.now);
            let bytes = flow.lengths.next().max(DATAGRAM_HEADER_BYTES);
            let Some(sequence) = flow.requests.begin(begun, claim.due, bytes) else { return Turn::Done };
            let header = Header { flow: flow.shown, kind: Kind::Request, sequence };
            if !self.port.write(flow.place, 0, header, bytes) {
                flow.take_back(sequence, bytes);
                return Turn::Full;
            }
            self.sequences[0] = (sequence, bytes);
            match self.hand_over(flow, 1) {
                Turn::Done => {
                    arrivals.begun(claim, begun);
                }
                turn => return turn,
            }
            flow.claim = Claim::default();
        }
        Turn::Done
    }

    /// Makes as many requests as there is room for, beginning now.
    #[inline]
    fn ask(&mut self, flow: &mut Flow) -> Turn {
        if let Some(arrivals) = self.arrivals {
            return self.ask_when_due(flow, arrivals);
        }
        while !self.worker.is_due() && flow.requests.room() > 0 {
            let (mut made, mut full) = (0, false);
            // A length is drawn for a request that is made: those of a trace go out in their order.
            while made < self.port.room() && !full && flow.requests.room() > 0 {
                let compute_ns = self.end.shared.job.load.application().compute_ns.0;
                if compute_ns > 0 {
                    let taken = application::compute(compute_ns, &mut self.worker);
                    self.cell(flow.number).add_compute(taken);
                }
                let (now, bytes) = (self.worker.now, flow.lengths.next().max(DATAGRAM_HEADER_BYTES));
                let Some(sequence) = flow.requests.begin(now, now, bytes) else { break };
                let header = Header { flow: flow.shown, kind: Kind::Request, sequence };
                if self.port.write(flow.place, made, header, bytes) {
                    self.sequences[made] = (sequence, bytes);
                    made += 1;
                } else {
                    flow.take_back(sequence, bytes);
                    full = true;
                }
            }
            match self.hand_over(flow, made) {
                Turn::Done if full => return Turn::Full,
                Turn::Done => {}
                turn => return turn,
            }
        }
        Turn::Done
    }

    /// Sends the first `made` requests of the buffer.
    #[inline]
    fn hand_over(&mut self, flow: &mut Flow, made: usize) -> Turn {
        let mut from = 0;
        while from < made {
            match self.port.send(flow.place, from, made, self.patience) {
                Ok(sent) => {
                    self.tally.sent.add(sent as u64);
                    let bytes = self.sequences[from..from + sent].iter().map(|(_, bytes)| bytes).sum();
                    let cell = self.end.shared.counters.cell(flow.number as usize);
                    self.worker.moved(cell, bytes, self.worker.now);
                    from += sent;
                }
                Err(error) => {
                    let turn = match error.raw_os_error().unwrap_or(0) {
                        errno::EINTR => continue,
                        errno::EAGAIN | errno::ENOBUFS => Turn::Full,
                        number => Turn::Broken(number),
                    };
                    self.sequences[from..made]
                        .iter()
                        .rev()
                        .for_each(|(number, bytes)| flow.take_back(*number, *bytes));
                    return turn;
                }
            }
        }
        Turn::Done
    }

    /// Takes the answers that are there.
    #[inline]
    fn listen(&mut self, flow: &mut Flow) -> Turn {
        let outcome = match self.port.gathers() {
            true => Ok(1),
            false => self.port.receive(flow.place, self.patience),
        };
        let received = match outcome {
            Ok(received) => received,
            Err(error) => {
                self.worker.tick();
                return match error.raw_os_error().unwrap_or(0) {
                    errno::EAGAIN | errno::EINTR => Turn::Done,
                    number => Turn::Broken(number),
                };
            }
        };
        self.worker.tick();
        if received == 0 {
            if self.end.shared.state() != State::Going {
                return Turn::Stopped;
            }
            self.tally.foreign.one_more();
            return Turn::Done;
        }
        if let Some(batches) = self.batches {
            batches.record(received as u64);
        }
        for at in 0..received {
            let answered = match self.port.header(at) {
                Some(header) if header.kind == Kind::Answer && header.flow == flow.shown => {
                    flow.requests.answered(header.sequence)
                }
                // An acknowledgement of a hello that was said twice.
                Some(header) if header.kind == Kind::HelloAcknowledged => continue,
                _ => Answered::Never,
            };
            match answered {
                Answered::Awaited { begun, due } => {
                    if let Some(arrivals) = self.arrivals {
                        arrivals.ended(due, self.worker.now);
                    }
                    self.tally.received.one_more();
                    let cell = self.end.shared.counters.cell(flow.number as usize);
                    self.worker.completed(cell, begun);
                }
                Answered::Late => self.tally.late.one_more(),
                Answered::Duplicate => self.tally.duplicates.one_more(),
                Answered::Never => self.tally.foreign.one_more(),
            }
        }
        Turn::Done
    }

    /// Sends what is overdue again, or counts it as lost; whether anything was overdue.
    #[inline]
    fn see_to_the_overdue(&mut self, flow: &mut Flow) -> bool {
        if self.worker.now < flow.requests.look_at() {
            return false;
        }
        let mut any = false;
        while let Some(overdue) = flow.requests.overdue(self.worker.now) {
            any = true;
            match overdue {
                Overdue::Lost => self.tally.lost.one_more(),
                Overdue::Again(sequence, bytes) => {
                    let header = Header { flow: flow.shown, kind: Kind::Request, sequence };
                    // What the kernel refuses is lost on the way like any other, and overdue again in time.
                    if self.port.write(flow.place, 0, header, bytes)
                        && self.port.send(flow.place, 0, 1, self.patience).is_ok()
                    {
                        self.tally.sent.one_more();
                        self.tally.retries.one_more();
                        // The receiver counts it, too.
                        self.cell(flow.number).add_bytes(bytes);
                    }
                }
            }
        }
        any
    }

    /// Whether the load, which is due to stop, came to its end: no answer is waited for, or none will come.
    #[cold]
    fn is_over(&mut self, flows: &mut [Flow]) -> bool {
        if !flows.iter().any(|flow| flow.open && flow.requests.any()) {
            return true;
        }
        if self.worker.now < self.worker.due().saturating_add(DRAIN.0) {
            return false;
        }
        self.tally.lost.add(flows.iter_mut().map(|flow| flow.requests.give_up()).sum());
        true
    }

    #[cold]
    fn lose(&mut self, flow: &mut Flow, number: i32) {
        flow.open = false;
        self.open -= 1;
        self.tally.lost.add(flow.requests.give_up());
        self.worker.failed(flow.number as usize, number);
    }
}
