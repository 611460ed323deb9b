//! A thread that goes through the transactions of its group.

use iodyno_core::message::ErrorCode;
use iodyno_core::script::{Call, FlowOp, Group, Rate, Think, Transaction, Until};
use iodyno_core::units::Nanos;
use iodyno_sys::{clock, errno};

use super::datagrams::Exchanged;
use super::fault::{halt_of, Fault, Halt};
use super::flow::Flow;
use super::link::Message;
use super::numbers::{Course, Place};
use super::pair::Pair;
use super::run::{Run, SLICE};
use super::stall::{Announced, Wait};
use super::tally::{Passage, Recorders};
use crate::error::LoadError;
use crate::worker::counters::Cell;
use crate::worker::shared::{Shared, State};
use crate::worker::Worker;

/// A thread on its way.
pub(super) struct WorkerThread<'a> {
    pub run: &'a Run,
    shared: &'a Shared,
    pub worker: Worker<'a>,
    pub cell: &'a Cell,
    /// Its number in the job.
    pub number: u32,
    pub pair: &'a Pair,
    pub group: &'a Group,
    /// By their number; of several of one number the last is used, and closed first, as in uperf.
    pub flows: Vec<Vec<Flow>>,
    /// Connections opened, by their number and the end that they were opened to ([`WorkerThread::slot`]).
    pub opened: Vec<u64>,
    /// Connections accepted, by their number.
    pub accepted: Vec<u64>,
    /// Where datagrams go.
    pub datagram: Vec<u8>,
    /// Datagrams that moved in the transaction, as `opened`.
    pub exchanged: Vec<Exchanged>,
    /// Where the datagrams of each operation of the transaction stand.
    pub courses: &'a [Course],
    /// Connections on which a datagram has come before its turn.
    pub held: u32,
    /// Since when one that was taken now was awaited, where that was before the operation.
    pub awaited_since: Option<u64>,
    /// Whether some of the iteration was left out: the other end has gone on without it, or it only levels the two ends.
    is_partial: bool,
    /// How many files were sent.
    pub files_sent: usize,
    pub place: Place,
    pub passage: Passage,
    recorders: &'a Recorders,
    /// When the time of the transaction is over; where this end measures it.
    due: Option<u64>,
    /// Whether its time is over, and what is left is to make what the other ends are ahead by.
    levels: bool,
    /// Whether something has moved in this iteration, so that the other end must make it, too.
    pub has_moved: bool,
    /// Iterations that were promised to the other end, once it asked.
    pub promised: Option<u64>,
    /// Since when the operation has waited for the other end.
    pub waiting_since: Option<u64>,
    /// What of that the other end was told.
    pub announced: Option<Announced>,
    /// Waits that were told so far.
    pub stalls: u32,
}

/// Carries thread `number` out, from its own thread, to the end.
pub(crate) fn carry_out(shared: &Shared, run: &Run, number: usize) {
    // Memory before the start.
    let pair = &run.pairs[number];
    let group = &run.script.groups[pair.group];
    let operations = || group.transactions.iter().flat_map(|transaction| &transaction.operations);
    let connections = operations().map(|operation| operation.connection as usize + 1).max().unwrap_or(0);
    let longest = operations().filter_map(|operation| operation.size).map(|size| size.greatest()).max();
    let datagram = vec![0; longest.unwrap_or(0).clamp(64, 65_536) as usize];
    let Some(worker) = Worker::await_start(shared, number) else { return };
    let mut thread = WorkerThread {
        run,
        shared,
        worker,
        cell: shared.counters.cell(number),
        number: number as u32,
        pair,
        group,
        flows: (0..connections).map(|_| Vec::new()).collect(),
        opened: vec![0; connections * run.remotes()],
        accepted: vec![0; connections],
        datagram,
        exchanged: vec![Exchanged::default(); connections * run.remotes()],
        courses: &[],
        held: 0,
        awaited_since: None,
        is_partial: false,
        files_sent: 0,
        place: Place::default(),
        passage: Passage::default(),
        recorders: run.tally.recorders(pair.group, 0, pair.number),
        due: None,
        levels: false,
        has_moved: false,
        promised: None,
        waiting_since: None,
        announced: None,
        stalls: 0,
    };
    // From now on it has begun, and needs to run before others no longer.
    let now = thread.worker.now;
    thread.worker.moved(thread.cell, 0, now);
    let ended = thread.perform();
    thread.flows.clear();
    if ended.is_err() {
        if shared.state() == State::Going && !run.has_failed() {
            run.cut();
        }
        if shared.state() != State::Going && !run.is_cut() {
            // Stopped on somebody's word: the other end learns it by the end of the link.
            return;
        }
    }
    run.finish();
}

impl<'a> WorkerThread<'a> {
    fn perform(&mut self) -> Result<(), Halt> {
        for number in 0..self.group.transactions.len() {
            self.place = Place { transaction: number, ..Place::default() };
            self.recorders = self.run.tally.recorders(self.pair.group, number, self.pair.number);
            let transaction = &self.group.transactions[number];
            self.passage = Passage::of(transaction);
            self.courses = &self.run.courses[self.pair.group][number];
            self.held = 0;
            let ended = self.go_through(transaction);
            self.passage.done = ended.is_ok();
            let gathered = ended.and_then(|()| self.gather(number));
            if gathered.is_ok() {
                self.settle_datagrams();
            }
            self.run.tally.add(self.pair.group, number, &self.passage);
            gathered?;
        }
        Ok(())
    }

    /// Makes the iterations of a transaction, as many as the other end.
    fn go_through(&mut self, transaction: &'a Transaction) -> Result<(), Halt> {
        self.worker.tick();
        let begun = self.worker.now;
        self.passage.begin = begun;
        self.levels = false;
        self.promised = None;
        let lasts = match transaction.until {
            Until::Duration { duration_ns } => Some(begun.saturating_add(duration_ns.0)),
            Until::Iterations { .. } => None,
        };
        self.due = lasts.filter(|_| self.run.leads);
        let rate = transaction.rate.filter(|_| transaction.paces());
        let present = self.run.leads || !transaction.is_of_others();
        while present && self.goes_on(transaction) {
            let intended = rate.map(|rate| begun.saturating_add(offset(rate, self.place.iteration)));
            if let Some(intended) = intended {
                let rested = self.rest_until(intended.min(self.due.unwrap_or(u64::MAX)));
                match rested {
                    Ok(()) if !self.goes_on(transaction) => break,
                    Ok(()) => {}
                    Err(Halt::Level) => break,
                    Err(Halt::Over) => return Err(Halt::Over),
                }
            }
            match self.iterate(transaction, intended) {
                Ok(()) => self.place.iteration += 1,
                Err(Halt::Level) => break,
                Err(Halt::Over) => return Err(Halt::Over),
            }
        }
        if let (Some(rate), Some(lasts)) = (rate, lasts.filter(|_| self.run.leads)) {
            self.passage.missed = due_before(rate, lasts - begun).saturating_sub(self.place.iteration);
        }
        if self.promised.is_none() {
            self.tell_end(self.place.iteration);
        }
        if self.due.take().is_some() {
            self.level(transaction)?;
        }
        Ok(())
    }

    /// Whether another iteration is to be begun.
    fn goes_on(&mut self, transaction: &Transaction) -> bool {
        let made = self.place.iteration;
        match transaction.until {
            Until::Iterations { iterations } => made < iterations,
            Until::Duration { .. } if self.run.leads => self.due.is_none_or(|due| self.worker.now < due),
            Until::Duration { .. } => match self.promised {
                Some(promised) => made < promised,
                None => self.other_made().is_none_or(|other| made < other),
            },
        }
    }

    /// Iterations that the other end makes of this transaction, once it has said so.
    pub(super) fn other_made(&self) -> Option<u64> {
        self.pair.others[self.remote()].iterations(self.place.transaction)
    }

    /// The other end that the operation is about.
    #[inline]
    pub(super) fn remote(&self) -> usize {
        if self.run.remotes() == 1 {
            return 0;
        }
        let transaction = self.group.transactions.get(self.place.transaction);
        let operation = transaction.and_then(|each| each.operations.get(self.place.operation));
        operation.map_or(0, |operation| operation.remote as usize)
    }

    /// Where connections of a number to another end are counted.
    pub(super) fn slot(&self, connection: u32, remote: usize) -> usize {
        connection as usize * self.run.remotes() + remote
    }

    /// Whether the end that an operation is about makes the iteration, which only levels the ends.
    fn is_behind(&self, operation: &FlowOp) -> bool {
        let other = self.pair.others.get(operation.remote as usize);
        let made = other.and_then(|other| other.iterations(self.place.transaction));
        made.is_some_and(|made| self.place.iteration >= made)
    }

    fn tell_end(&mut self, iterations: u64) {
        self.promised = Some(iterations);
        self.run.send(&Message::Ended {
            thread: self.number,
            transaction: self.place.transaction as u32,
            iterations,
        });
    }

    /// The time is over: makes what the other ends are ahead by. What moves counts, as it does there.
    fn level(&mut self, transaction: &'a Transaction) -> Result<(), Halt> {
        self.levels = true;
        let (pair, place) = (self.pair, self.place.transaction);
        let other = loop {
            pair.wait(self.slice(None), || pair.iterations_of_others(place).is_some());
            // Looked at again first: a wait that is over is told to nobody.
            if let Some(other) = pair.iterations_of_others(place) {
                break other;
            }
            self.waited(Wait::Level, None).map_err(halt_of)?;
        };
        self.progressed();
        while self.place.iteration < other {
            match self.iterate(transaction, None) {
                Ok(()) => self.place.iteration += 1,
                Err(Halt::Level) => break,
                Err(Halt::Over) => return Err(Halt::Over),
            }
            self.passage.levelling += 1;
        }
        Ok(())
    }

    /// Waits until every thread of the group is done with the transaction, at both ends.
    fn gather(&mut self, transaction: usize) -> Result<(), Halt> {
        let (run, group) = (self.run, self.pair.group);
        // Its last operation is over: a wait is at no operation.
        self.place.operation = self.group.transactions[transaction].operations.len();
        self.tell_datagrams();
        run.arrive(group, transaction);
        loop {
            self.pair.wait(self.slice(None), || run.is_gathered(group, transaction) || run.has_failed());
            if run.is_gathered(group, transaction) {
                break;
            }
            // Nothing is left to level: what the other end waits for, it will not get.
            match self.waited(Wait::Others, None).map_err(halt_of) {
                Ok(()) | Err(Halt::Level) => {}
                Err(Halt::Over) => return Err(Halt::Over),
            }
        }
        self.progressed();
        Ok(())
    }

    /// One iteration that was to begin at `intended`, or now.
    fn iterate(&mut self, transaction: &'a Transaction, intended: Option<u64>) -> Result<(), Halt> {
        let begun = self.worker.now;
        (self.has_moved, self.is_partial) = (false, false);
        for (index, operation) in transaction.operations.iter().enumerate() {
            self.place.operation = index;
            if operation.remote > 0 && !self.run.leads {
                continue;
            }
            // Nobody waits for a pause.
            if self.levels && (operation.call == Call::Think || self.is_behind(operation)) {
                self.is_partial = true;
                continue;
            }
            self.perform_operation(operation)?;
        }
        if self.is_over() {
            return Err(Halt::Over);
        }
        if self.is_partial {
            return Ok(());
        }
        self.passage.iterations += 1;
        let ended = self.worker.now;
        self.recorders.service.record(ended.saturating_sub(begun));
        if let (Some((response, lateness)), Some(intended)) = (&self.recorders.paced, intended) {
            response.record(ended.saturating_sub(intended));
            lateness.record(begun.saturating_sub(intended));
        }
        Ok(())
    }

    /// All repetitions of an operation.
    fn perform_operation(&mut self, operation: &'a FlowOp) -> Result<(), Halt> {
        let (index, times) = (self.place.operation, operation.times());
        let sample_begun = self.worker.now;
        for repetition in 0..times {
            self.place.repetition = repetition;
            let begun = self.worker.now;
            let outcome = self.call(operation, begun);
            self.worker.tick();
            let now = self.worker.now;
            self.went_on();
            match outcome {
                Ok(bytes) => {
                    let begun = self.awaited_since.take().unwrap_or(begun);
                    self.passage.operations[index].completed(begun, now, bytes);
                    self.recorders.operations[index].0.record(now.saturating_sub(begun));
                    if bytes > 0 {
                        self.worker.completed(self.cell, begun);
                    }
                }
                Err(Fault::Passed) => {
                    self.is_partial = true;
                    return Ok(());
                }
                Err(Fault::Cut) => {
                    self.passage.operations[index].cut(now);
                    return Ok(());
                }
                Err(Fault::Lost) => self.passage.operations[index].lost += 1,
                Err(Fault::Halt(halt)) => return Err(halt),
                Err(fault) => {
                    self.failed(operation, fault)?;
                    return Ok(());
                }
            }
        }
        self.passage.operations[index].samples += 1;
        if let Some(samples) = &self.recorders.operations[index].1 {
            samples.record(self.worker.now.saturating_sub(sample_begun));
        }
        Ok(())
    }

    #[inline]
    fn call(&mut self, operation: &'a FlowOp, begun: u64) -> Result<u64, Fault> {
        match operation.call {
            Call::Write | Call::Send | Call::Sendto | Call::Sendfile | Call::Sendfilev => {
                self.give(operation, begun)
            }
            Call::Read | Call::Recv | Call::Recvfrom => self.take(operation, begun),
            Call::Connect => self.open(operation, begun),
            Call::Accept => self.accept(operation, begun),
            Call::Disconnect => self.close(operation),
            Call::Think => self.think(operation, begun),
            Call::Nop => Ok(0),
        }
    }

    fn think(&mut self, operation: &FlowOp, begun: u64) -> Result<u64, Fault> {
        if self.is_overtaken(operation.remote) {
            return Err(Fault::Passed);
        }
        let whole = begun.saturating_add(operation.duration_ns.0);
        let until = whole.min(self.due.unwrap_or(u64::MAX));
        match operation.think {
            Think::Idle => {
                while self.worker.now < until && !self.is_waited_for() {
                    let slice = until.min(self.worker.now.saturating_add(SLICE.0));
                    self.rest_until(slice).map_err(Fault::Halt)?;
                }
            }
            Think::Busy => {
                while self.worker.now < until && !self.is_waited_for() {
                    if self.is_over() {
                        return Err(Fault::Halt(Halt::Over));
                    }
                    std::hint::spin_loop();
                    self.worker.tick();
                }
            }
        }
        // Its time would say nothing of how long it was to be.
        if self.worker.now < whole {
            return Err(Fault::Cut);
        }
        Ok(0)
    }

    /// Whether the time of the transaction is over at the other end, and this is the last iteration.
    fn is_waited_for(&self) -> bool {
        let is_last = |other| self.place.iteration + 1 >= other;
        !self.run.leads && self.lasts() && self.other_made().is_some_and(is_last)
    }

    /// Sleeps to an instant, in slices.
    fn rest_until(&mut self, until: u64) -> Result<(), Halt> {
        while self.worker.now < until {
            // An absolute sleep fails for a malformed time only, which this is not.
            let _ = clock::sleep_until(Nanos(until.min(self.worker.now + SLICE.0)));
            self.worker.tick();
            if self.is_over() {
                return Err(Halt::Over);
            }
            self.greet_who_asks();
            self.look_at_other()?;
        }
        Ok(())
    }

    /// Whether the windows are over, the job was stopped or the script has failed.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.worker.is_due() || self.run.has_failed()
    }

    /// An operation was not done. Goes on where that is allowed.
    fn failed(&mut self, operation: &FlowOp, fault: Fault) -> Result<(), Halt> {
        let timed_out = matches!(fault, Fault::Timeout);
        let counts = &mut self.passage.operations[self.place.operation];
        counts.timeouts += u64::from(timed_out);
        if operation.can_fail && !self.worker.is_due() {
            counts.failures += 1;
            if counts.failure_reason.is_none() {
                counts.failure_reason = Some(fault.told(operation));
            }
            if !timed_out && !matches!(operation.call, Call::Connect | Call::Accept) {
                self.drop_flow(operation.connection);
            }
            return if self.run.has_failed() { Err(Halt::Over) } else { Ok(()) };
        }
        self.worker.tick();
        if !self.is_over() && self.shared.state() == State::Going && !self.run.is_explained() {
            let mut error = match &fault {
                // Of a connection that was up, a reset says that the other end is gone, whatever the address.
                Fault::Os(error) if !matches!(operation.call, Call::Connect | Call::Accept) => {
                    let refused = LoadError::refused(error, "do it", "script");
                    let up = refused.code == ErrorCode::Address;
                    LoadError { code: if up { ErrorCode::Transport } else { refused.code }, ..refused }
                }
                Fault::Os(error) if error.raw_os_error() == Some(errno::EADDRNOTAVAIL) => LoadError::new(
                    ErrorCode::Limit,
                    "",
                    "",
                    "no local port is left: widen net.ipv4.ip_local_port_range, or open fewer connections, or fewer a \
                     second: a closed one keeps its port for a minute at the end that closed first (TIME_WAIT)",
                ),
                Fault::Os(error) => LoadError::refused(error, "do it", "script"),
                _ => LoadError::new(ErrorCode::Transport, "", "", "see what the other end reported"),
            };
            error.what = format!("{}: {}", self.whereabouts(&operation.label), fault.told(operation));
            error.place = "script".to_owned();
            self.run.fail(error);
        }
        Err(Halt::Over)
    }

    /// For an error: which thread of which group, and where it is.
    pub(super) fn whereabouts(&self, label: &str) -> String {
        // A group without a name is called `group 1`.
        let group = self.group.name.strip_prefix("group ").unwrap_or(&self.group.name);
        let thread = self.pair.number;
        let (transaction, iteration) = (self.place.transaction + 1, self.place.iteration + 1);
        format!("group {group}, thread {thread}, transaction {transaction}, iteration {iteration}, {label}")
    }

    /// The other end may have come to the end of the transaction: there is nothing to wait for then, or it must
    /// know that this end is in the middle of an iteration.
    pub(super) fn look_at_other(&mut self) -> Result<(), Halt> {
        if self.run.leads || self.promised.is_some() || !self.lasts() {
            return Ok(());
        }
        let Some(other) = self.other_made().filter(|other| self.place.iteration >= *other) else {
            return Ok(());
        };
        if self.has_moved {
            self.tell_end(other.max(self.place.iteration + 1));
            return Ok(());
        }
        Err(Halt::Level)
    }

    /// The operation after this one in the iteration.
    pub(super) fn next_operation(&self) -> Option<&'a FlowOp> {
        self.group.transactions.get(self.place.transaction)?.operations.get(self.place.operation + 1)
    }

    fn lasts(&self) -> bool {
        let transaction = self.group.transactions.get(self.place.transaction);
        transaction.is_some_and(|transaction| matches!(transaction.until, Until::Duration { .. }))
    }
}

/// When an iteration is to begin, in nanoseconds after the first.
fn offset(rate: Rate, iteration: u64) -> u64 {
    let ns = u128::from(iteration) * u128::from(rate.period_ns.0) / u128::from(rate.iterations.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// How many iterations are to begin in a time.
fn due_before(rate: Rate, time_ns: u64) -> u64 {
    let period = u128::from(rate.period_ns.0.max(1));
    let due = (u128::from(time_ns) * u128::from(rate.iterations)).div_ceil(period);
    u64::try_from(due).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_many_are_due_as_have_their_instant_before_the_end(
            iterations in 1u64..1_000_000, period in 1u64..10_000_000_000, time in 0u64..100_000_000
        ) {
            let rate = Rate { iterations, period_ns: Nanos(period) };
            let due = due_before(rate, time);
            prop_assert!(due == 0 || offset(rate, due - 1) < time.max(1));
            prop_assert!(offset(rate, due) + 1 >= time);
        }
    }

    #[test]
    fn iterations_are_evenly_spaced_also_when_the_period_is_no_multiple() {
        let rate = Rate { iterations: 3, period_ns: Nanos(1_000_000_000) };
        let instants: Vec<u64> = (0..4).map(|iteration| offset(rate, iteration)).collect();
        assert_eq!(instants, [0, 333_333_333, 666_666_666, 1_000_000_000]);
    }
}
