//! Datagrams that a thread sends and takes: which of them are lost, which come twice or too late, and which were never sent.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use iodyno_core::script::{Call, FlowOp, Until as Limit};
use iodyno_core::units::Nanos;
use iodyno_sys::timed::{self, Until};
use iodyno_sys::{clock, errno, socket};

use super::fault::{Fault, Halt};
use super::link::Message;
use super::numbers::{Came, Head, Meaning, HEAD_BYTES};
use super::preamble::{self, Kind, Preamble};
use super::run::SLICE;
use super::stall::Wait;
use super::tally::Counts;
use super::worker_thread::WorkerThread;

/// For the account, of a datagram that was given up and that the other end had not sent.
const NEVER_SENT: &str =
    "nothing came in time: the other end had not sent it, as it waited for what comes before, or was done";
/// chosen: before the kernel is asked once more whether there is room: some packets of a fast device.
const A_MOMENT: Nanos = Nanos(100_000);

/// Datagrams that moved on a connection in a transaction, those among them that only level the ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Exchanged {
    pub sent: u64,
    pub taken: u64,
}

/// What is known of datagrams that do not come on a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    /// How long one is awaited that the other end was to send.
    patience: Nanos,
    /// The transaction and the operation that have given one up that has no room for a number, so that it is not taken for
    /// the next when it comes late.
    gave_up: Option<(usize, usize)>,
    /// The transaction that the other end has made all of, and since when nothing came although that was known.
    since: Option<(usize, u64)>,
    /// The transaction in which that has lasted for too long: what is missing is not waited for one by one.
    ran_dry: Option<usize>,
}

impl Silence {
    /// Nothing has come up to `now`. Whether that has lasted for long since the other end was known to have `ended` the
    /// transaction: what it sent before may be on its way for as long as any datagram.
    fn goes_on(&mut self, transaction: usize, ended: bool, now: u64) -> bool {
        let so_far = self.since.filter(|(of, _)| *of == transaction);
        self.since = ended.then(|| so_far.unwrap_or((transaction, now)));
        self.since.is_some_and(|(_, since)| now.saturating_sub(since) >= self.patience.0)
    }
}

/// A datagram that has come before its turn.
#[derive(Clone, Copy, Debug)]
struct Held {
    number: u64,
    bytes: u64,
    /// Since when it, or what is missing before it, was awaited.
    since: u64,
}

/// The datagrams of a connection.
#[derive(Default)]
pub(super) struct Datagrams {
    silence: Silence,
    /// Mark of those that are sent, and of those that come.
    marks: (u64, u64),
    /// The other end.
    remote: u32,
    /// The transaction that the rest is about.
    transaction: usize,
    came: Came,
    held: Option<Held>,
}

impl Datagrams {
    /// Of a connection whose other end is awaited for so long at most, with the marks of what is sent and of what comes.
    pub(super) fn of(remote: usize, patience: Nanos, marks: (u64, u64)) -> Self {
        let silence = Silence { patience, ..Silence::default() };
        Datagrams { silence, marks, remote: remote as u32, ..Datagrams::default() }
    }

    fn enter(&mut self, transaction: usize) {
        if self.transaction != transaction {
            (self.transaction, self.came, self.held) = (transaction, Came::default(), None);
        }
    }
}

/// What has been taken from a socket.
enum Arrived {
    Message(Meaning, u64),
    /// It is of a transaction that is over.
    Stale,
    Greeting(Preamble),
    Foreign,
}

impl WorkerThread<'_> {
    /// Sends a datagram.
    pub(super) fn give_datagram(&mut self, operation: &FlowOp, size: u64, begun: u64) -> Result<u64, Fault> {
        if self.is_overtaken(operation.remote) {
            return Err(Fault::Passed);
        }
        self.throw_late_ones_away(operation)?;
        let until = operation.timeout_ns.map(|timeout| begun.saturating_add(timeout.0));
        let wait = Wait::Give { connection: operation.connection };
        let source = self.worker.source();
        let bytes = &source[..(size as usize).min(source.len())];
        let number = self.courses[self.place.operation].number(&self.place);
        let head = Head { transaction: self.place.transaction, number };
        let head = head.bytes(self.flow(operation)?.datagrams.marks.0);
        let mut is_alone = false;
        loop {
            if until.is_some() {
                self.await_readiness(operation, Until::Writable, wait, until)?;
            }
            let fd = self.flow(operation)?.fd();
            let rest = bytes.get(HEAD_BYTES..);
            let outcome = match (operation.call, rest) {
                (Call::Write, Some(rest)) => timed::write_joined(fd, [&head, rest]),
                (Call::Write, None) => timed::write(fd, bytes),
                (_, Some(rest)) => timed::send_joined(fd, [&head, rest]),
                (_, None) => socket::send(fd, bytes),
            };
            match outcome {
                Ok(count) => {
                    self.flow(operation)?.sent += count as u64;
                    self.exchanged(operation).sent += 1;
                    self.moved(count, begun);
                    return Ok(count as u64);
                }
                // With nothing on its way beside it there will never be room.
                Err(error) if error.raw_os_error() == Some(errno::ENOBUFS) && !is_alone => {
                    is_alone = self.await_room(operation, until)?;
                }
                Err(error) => self.refused(operation, error, Until::Writable, wait, until)?,
            }
        }
    }

    /// The kernel had no room for all fragments of a datagram beside what is on its way from the socket: waits for some of that
    /// to be gone. Whether all of it is.
    #[cold]
    fn await_room(&mut self, operation: &FlowOp, until: Option<u64>) -> Result<bool, Fault> {
        if operation.non_blocking {
            self.passage.operations[self.place.operation].would_block += 1;
        }
        // The kernel calls a socket writable that has half of its buffer free, which may be too little.
        match timed::wait_for(self.flow(operation)?.fd(), Until::Writable, SLICE) {
            Err(error) if error.raw_os_error() != Some(errno::EINTR) => return Err(Fault::Os(error)),
            _ => drop(clock::sleep_until(clock::monotonic().plus(A_MOMENT))),
        }
        // A queue empties by itself: that is no stall.
        self.waited(Wait::Give { connection: operation.connection }, until.or(Some(u64::MAX)))?;
        Ok(timed::on_its_way(self.flow(operation)?.fd()).map_err(Fault::Os)? == 0)
    }

    /// Takes a datagram, or gives it up: by the script's timeout, else when the other end was to have sent it and it took
    /// longer than any does. The end that follows cannot know the former before the other end has come to the end of
    /// the transaction, or waits itself.
    pub(super) fn take_datagram(&mut self, operation: &FlowOp, begun: u64) -> Result<u64, Fault> {
        let run = self.courses[self.place.operation].run(&self.place, operation.times());
        if self.held > 0 {
            if let Some(bytes) = self.take_held(operation, &run)? {
                return Ok(bytes);
            }
        }
        let patience = operation.timeout_ns.unwrap_or(self.flow(operation)?.datagrams.silence.patience);
        let is_due = operation.timeout_ns.is_some() || self.run.leads;
        let mut until = is_due.then(|| begun.saturating_add(patience.0));
        loop {
            if self.is_dry(operation)? {
                return Err(self.lose_datagram(operation, &run));
            }
            // A blocking call comes back after a slice, give or take a tick of the kernel's clock: too late for what is due
            // before. Where that is later, it is the only call that is needed.
            if until.is_some_and(|until| until.saturating_sub(self.worker.now) < 2 * SLICE.0) {
                let wait = self.take_wait(operation)?;
                match self.await_readiness(operation, Until::Readable, wait, until) {
                    Err(Fault::Timeout) => return Err(self.lose_datagram(operation, &run)),
                    outcome => outcome?,
                }
            }
            let mut place = std::mem::take(&mut self.datagram);
            let outcome = self.flow(operation).map(|flow| socket::receive_into(flow.fd(), &mut place));
            let arrived = match &outcome {
                Ok(Ok(count)) => Some(self.understand(operation, &place[..*count], &run)),
                _ => None,
            };
            self.datagram = place;
            match (outcome?, arrived.transpose()?) {
                (Ok(count), Some(Arrived::Message(Meaning::Awaited, _))) => {
                    return self.taken(operation, count as u64, begun);
                }
                (Ok(count), Some(Arrived::Message(Meaning::Ahead, number))) => {
                    // What is missing before it is given up, operation by operation, until it is its turn.
                    let held = Held { number, bytes: count as u64, since: begun };
                    self.flow(operation)?.datagrams.held = Some(held);
                    self.held += 1;
                    return Err(Fault::Lost);
                }
                (Ok(_), Some(arrived)) => {
                    self.set_aside(operation, arrived)?;
                    self.worker.tick();
                    if self.is_over() {
                        return Err(Fault::Halt(Halt::Over));
                    }
                    if until.is_some_and(|until| self.worker.now >= until) {
                        return Err(self.lose_datagram(operation, &run));
                    }
                }
                (Ok(_), None) => {}
                (Err(error), _) => {
                    self.worker.tick();
                    let ended = self.hear_silence(operation)?;
                    if !is_due {
                        // Who has waited and goes on may send it yet.
                        let is_to_have_come = ended || self.pair.others[self.remote()].waits();
                        let from_now = self.worker.now.saturating_add(patience.0);
                        until = is_to_have_come.then(|| until.unwrap_or(from_now));
                    }
                    let wait = self.take_wait(operation)?;
                    match self.refused(operation, error, Until::Readable, wait, until.or(Some(u64::MAX))) {
                        Err(Fault::Timeout) => return Err(self.lose_datagram(operation, &run)),
                        outcome => outcome?,
                    }
                }
            }
        }
    }

    /// A datagram that was awaited since `begun` has come.
    fn taken(&mut self, operation: &FlowOp, bytes: u64, begun: u64) -> Result<u64, Fault> {
        let flow = self.flow(operation)?;
        flow.taken += bytes;
        flow.datagrams.silence.since = None;
        self.exchanged(operation).taken += 1;
        self.moved(bytes as usize, begun);
        Ok(bytes)
    }

    /// Where a datagram has come before its turn: takes it, if it is that, else gives up what was to come before it.
    #[cold]
    fn take_held(&mut self, operation: &FlowOp, run: &Range<u64>) -> Result<Option<u64>, Fault> {
        let transaction = self.place.transaction;
        let datagrams = &mut self.flow(operation)?.datagrams;
        datagrams.enter(transaction);
        let Some(held) = datagrams.held else { return Ok(None) };
        if held.number >= run.end {
            return Err(Fault::Lost);
        }
        datagrams.held = None;
        self.held -= 1;
        if held.number < run.start {
            // An operation that failed has left its turn out.
            self.passage.operations[self.place.operation].late += 1;
            return Ok(None);
        }
        self.awaited_since = Some(held.since);
        self.taken(operation, held.bytes, held.since).map(Some)
    }

    /// Whether another end has gone on without what this one is to do now: it no longer takes what is sent here.
    #[inline]
    pub(super) fn is_overtaken(&self, remote: u32) -> bool {
        let is_held = |datagrams: &Datagrams| {
            datagrams.held.is_some()
                && (datagrams.transaction, datagrams.remote) == (self.place.transaction, remote)
        };
        self.held > 0
            && self.flows.iter().filter_map(|flows| flows.last()).any(|flow| is_held(&flow.datagrams))
    }

    /// What a datagram is that came on the connection of an operation.
    #[inline]
    fn understand(&mut self, operation: &FlowOp, bytes: &[u8], run: &Range<u64>) -> Result<Arrived, Fault> {
        let (transaction, shorts) = (self.place.transaction, self.courses[self.place.operation].shorts);
        let datagrams = &mut self.flow(operation)?.datagrams;
        if let Some(head) = Head::of(bytes, datagrams.marks.1) {
            if head.transaction != transaction {
                return Ok(Arrived::Stale);
            }
            datagrams.enter(transaction);
            return Ok(Arrived::Message(datagrams.came.judge(head.number, run), head.number));
        }
        if bytes.len() < HEAD_BYTES && shorts {
            return Ok(Arrived::Message(Meaning::Awaited, run.start));
        }
        let greeting = Preamble::of(bytes, self.run.token);
        Ok(greeting.map_or(Arrived::Foreign, Arrived::Greeting))
    }

    /// Counts a datagram that is not taken.
    #[cold]
    fn set_aside(&mut self, operation: &FlowOp, arrived: Arrived) -> Result<(), Fault> {
        let counts = &mut self.passage.operations[self.place.operation];
        match arrived {
            Arrived::Message(Meaning::Duplicate, _) => counts.duplicates += 1,
            Arrived::Message(Meaning::Late, _) => counts.late += 1,
            Arrived::Foreign => drop(self.run.foreign.fetch_add(1, Relaxed)),
            Arrived::Greeting(shown) => self.greet_again(operation, shown)?,
            // That it did not come was settled with its transaction.
            Arrived::Message(..) | Arrived::Stale => {}
        }
        Ok(())
    }

    /// Counts of the connection of an operation.
    #[inline]
    fn exchanged(&mut self, operation: &FlowOp) -> &mut Exchanged {
        let slot = self.slot(operation.connection, self.remote());
        &mut self.exchanged[slot]
    }

    /// Whether nothing comes any more in this transaction: the other end has made all of it.
    fn is_dry(&mut self, operation: &FlowOp) -> Result<bool, Fault> {
        let transaction = self.place.transaction;
        let flow = self.flow(operation)?;
        let ran_dry = flow.datagrams.silence.ran_dry == Some(transaction);
        Ok(ran_dry && !timed::wait_for(flow.fd(), Until::Readable, Nanos(0)).unwrap_or(false))
    }

    /// Nothing has come so far. Whether the other end has made all of the transaction.
    fn hear_silence(&mut self, operation: &FlowOp) -> Result<bool, Fault> {
        let (ended, transaction, now) =
            (self.other_made().is_some(), self.place.transaction, self.worker.now);
        let silence = &mut self.flow(operation)?.datagrams.silence;
        if silence.goes_on(transaction, ended, now) {
            silence.ran_dry = Some(transaction);
        }
        Ok(ended)
    }

    /// One of a run has been awaited for long enough.
    fn lose_datagram(&mut self, operation: &FlowOp, run: &Range<u64>) -> Fault {
        if let Err(fault) = self.hear_silence(operation) {
            return fault;
        }
        let (transaction, place, remotes) =
            (self.place.transaction, self.place.operation, self.run.remotes());
        let shorts = self.courses[place].shorts;
        match self.flow(operation) {
            // With several ends, what one of them will not send is no reason to end what is between the others.
            Ok(flow) if flow.datagrams.silence.ran_dry == Some(transaction) && remotes == 1 => {
                self.give_up_datagrams()
            }
            Ok(flow) => {
                flow.datagrams.enter(transaction);
                flow.datagrams.came.give_up(run);
                flow.datagrams.silence.gave_up = shorts.then_some((transaction, place));
                Fault::Lost
            }
            Err(fault) => fault,
        }
    }

    /// The other end is done and nothing more comes: counts what is missing, of all datagrams that were to come.
    fn give_up_datagrams(&mut self) -> Fault {
        let transaction = &self.group.transactions[self.place.transaction];
        let planned = match transaction.until {
            Limit::Iterations { iterations } => iterations,
            Limit::Duration { .. } => self.other_made().unwrap_or(0).max(self.promised.unwrap_or(0)),
        };
        let further = planned.saturating_sub(self.place.iteration + 1);
        for (index, operation) in transaction.operations.iter().enumerate() {
            let of_another = operation.remote > 0;
            if of_another || !operation.call.takes() || !self.is_datagram(operation.connection) {
                continue;
            }
            let here = match index.cmp(&self.place.operation) {
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => operation.times() - self.place.repetition,
                std::cmp::Ordering::Greater => operation.times(),
            };
            let counts = &mut self.passage.operations[index];
            counts.lost =
                counts.lost.saturating_add(further.saturating_mul(operation.times())).saturating_add(here);
        }
        self.place.iteration = planned;
        Fault::Halt(Halt::Level)
    }

    /// Tells the other ends how many datagrams each was sent in a transaction that this end is done with.
    pub(super) fn tell_datagrams(&mut self) {
        let remotes = self.run.remotes();
        for (slot, exchanged) in self.exchanged.iter().enumerate().filter(|(_, each)| each.sent > 0) {
            let message = Message::Sent {
                thread: self.number,
                transaction: self.place.transaction as u32,
                connection: (slot / remotes) as u32,
                datagrams: exchanged.sent,
            };
            self.run.send_to(slot % remotes, &message);
        }
    }

    /// Both ends are done with the transaction: of what this end gave up, as much is lost as the other end has sent and
    /// this one has not got. The rest was never sent, and is a failure. Of several operations that take from one
    /// connection, it is the last ones: there the other end stops that stops within an iteration.
    pub(super) fn settle_datagrams(&mut self) {
        let (transaction, remotes) = (self.place.transaction, self.run.remotes());
        let operations = &self.group.transactions[transaction].operations;
        for slot in 0..self.exchanged.len() {
            let (connection, remote) = ((slot / remotes) as u32, slot % remotes);
            let sent = self.pair.others[remote].take_sent(transaction as u32, connection);
            let missing = sent.saturating_sub(std::mem::take(&mut self.exchanged[slot]).taken);
            let is_of_it =
                |each: &FlowOp| each.connection == connection && each.remote as usize % remotes == remote;
            let of_it = || (0..operations.len()).filter(|index| is_of_it(&operations[*index]));
            let given_up: u64 = of_it().map(|index| self.passage.operations[index].lost).sum();
            let mut never_sent = given_up.saturating_sub(missing);
            for index in of_it().rev() {
                let counts = &mut self.passage.operations[index];
                let part = counts.lost.min(never_sent);
                if part > 0 {
                    (counts.lost, never_sent) = (counts.lost - part, never_sent - part);
                    counts.failures += part;
                    counts.failure_reason.get_or_insert_with(|| NEVER_SENT.to_owned());
                }
            }
            // What was late is among the lost. More had come before: it was too long ago to be known, or had no number.
            let sum = |of: fn(&Counts) -> u64| {
                of_it().map(|index| of(&self.passage.operations[index])).sum::<u64>()
            };
            let mut again = sum(|counts| counts.late).saturating_sub(sum(|counts| counts.lost));
            for index in of_it() {
                let counts = &mut self.passage.operations[index];
                let part = counts.late.min(again);
                again -= part;
                (counts.late, counts.duplicates) = (counts.late - part, counts.duplicates + part);
            }
        }
    }

    /// Datagrams without a number that came after they were given up must not be taken for what comes next. Nor must any
    /// that wait when a request is sent: what answers it is not among them.
    fn throw_late_ones_away(&mut self, operation: &FlowOp) -> Result<(), Fault> {
        let course = self.courses[self.place.operation];
        if !course.shorts {
            return Ok(());
        }
        let asks = course.asks && self.place.repetition == 0;
        let gave_up = self.flow(operation)?.datagrams.silence.gave_up.take();
        let answer = || (self.place.transaction, course.answer);
        let Some((transaction, place)) = gave_up.or_else(|| asks.then(answer)) else {
            return Ok(());
        };
        let mut bytes = [0; preamble::BYTES];
        let mut late = 0;
        loop {
            let flow = self.flow(operation)?;
            let ready = timed::wait_for(flow.fd(), Until::Readable, Nanos(0)).unwrap_or(false);
            // What does not find room is thrown away, too.
            let Some(count) = ready.then(|| socket::receive_into(flow.fd(), &mut bytes).ok()).flatten()
            else {
                break;
            };
            // On a long way greetings are acknowledged more than once.
            let is_foreign =
                count >= HEAD_BYTES && Head::of(&bytes, self.flow(operation)?.datagrams.marks.1).is_none();
            late += u64::from(!is_foreign);
        }
        // One of the transaction before came when that was over.
        let counts = self.passage.operations.get_mut(place).filter(|_| transaction == self.place.transaction);
        if let Some(counts) = counts {
            counts.late += late;
        }
        Ok(())
    }

    /// The other end has not got the acknowledgement of its greeting.
    fn greet_again(&mut self, operation: &FlowOp, shown: Preamble) -> Result<(), Fault> {
        if shown.kind == Kind::Data {
            let bytes = Preamble { kind: Kind::Acknowledged, ..shown }.bytes(self.run.token);
            // Should this one get lost, too, the greeting comes again.
            let _ = socket::send(self.flow(operation)?.fd(), &bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_counts_from_when_the_end_of_the_transaction_was_known() {
        let mut silence = Silence { patience: Nanos(100), ..Silence::default() };
        assert!(!silence.goes_on(1, false, 1_000));
        assert!(!silence.goes_on(1, true, 5_000));
        assert!(!silence.goes_on(1, true, 5_099));
        assert!(silence.goes_on(1, true, 5_100));
        // What was known of one transaction says nothing of the next.
        assert!(!silence.goes_on(2, true, 6_000));
        assert!(silence.goes_on(2, true, 6_100));
        assert!(!silence.goes_on(3, false, 7_000));
        assert!(!silence.goes_on(3, true, 7_001));
    }
}
