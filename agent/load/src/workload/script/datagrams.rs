//! Datagrams that a strand sends and takes: which of them are lost, which come too late, and which were never sent.

use iodyno_core::script::{Call, FlowOp, Size, Until as Limit};
use iodyno_core::units::Nanos;
use iodyno_sys::socket;
use iodyno_sys::timed::{self, Until};

use super::fault::{Fault, Halt};
use super::link::Word;
use super::preamble::{self, Kind, Preamble};
use super::run::SLICE;
use super::stall::Wait;
use super::strand::Strand;

/// For the account, of a datagram that was given up and that the other end had not sent.
const NEVER_SENT: &str =
    "nothing came in time: the other end had not sent it, as it waited for what comes before, or was done";

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
    /// The transaction and the operation that have given one up, so that it is not taken for the next when it comes late.
    gave_up: Option<(usize, usize)>,
    /// The transaction that the other end has made all of, and since when nothing came although that was known.
    since: Option<(usize, u64)>,
    /// The transaction in which that has lasted for too long: what is missing is not waited for one by one.
    ran_dry: Option<usize>,
}

impl Silence {
    pub(super) fn of_at_most(patience: Nanos) -> Self {
        Silence { patience, ..Silence::default() }
    }

    /// Nothing has come up to `now`. Whether that has lasted for long since the other end was known to have `ended` the
    /// transaction: what it sent before may be on its way for as long as any datagram.
    fn goes_on(&mut self, transaction: usize, ended: bool, now: u64) -> bool {
        let so_far = self.since.filter(|(of, _)| *of == transaction);
        self.since = ended.then(|| so_far.unwrap_or((transaction, now)));
        self.since.is_some_and(|(_, since)| now.saturating_sub(since) >= self.patience.0)
    }
}

impl Strand<'_> {
    /// Sends a datagram.
    pub(super) fn give_datagram(&mut self, operation: &FlowOp, size: u64, begun: u64) -> Result<u64, Fault> {
        self.throw_late_ones_away(operation)?;
        let until = operation.timeout_ns.map(|timeout| begun.saturating_add(timeout.0));
        let wait = Wait::Give { connection: operation.connection };
        let source = self.worker.source();
        let bytes = &source[..(size as usize).min(source.len())];
        loop {
            if until.is_some() {
                self.await_readiness(operation, Until::Writable, wait, until)?;
            }
            let outcome = match operation.call {
                Call::Write => timed::write(self.flow(operation)?.fd(), bytes),
                _ => socket::send(self.flow(operation)?.fd(), bytes),
            };
            match outcome {
                Ok(count) => {
                    self.flow(operation)?.sent += count as u64;
                    self.exchanged(operation).sent += 1;
                    self.moved(count, begun);
                    return Ok(count as u64);
                }
                Err(error) => self.refused(operation, error, Until::Writable, wait, until)?,
            }
        }
    }

    /// Takes a datagram, or gives it up: by the script's timeout, else when the other end was to have sent it and it took
    /// longer than any does. The end that follows cannot know the former before the other end has come to the end of
    /// the transaction, or waits itself.
    pub(super) fn take_datagram(&mut self, operation: &FlowOp, begun: u64) -> Result<u64, Fault> {
        let patience = operation.timeout_ns.unwrap_or(self.flow(operation)?.datagrams.patience);
        let is_due = operation.timeout_ns.is_some() || self.run.leads;
        let mut until = is_due.then(|| begun.saturating_add(patience.0));
        let longest = operation.size.map_or(0, Size::greatest).max(preamble::BYTES as u64) as usize;
        loop {
            if self.is_dry(operation)? {
                return Err(self.lose_datagram(operation));
            }
            // A blocking call comes back after a slice, give or take a tick of the kernel's clock: too late for what is due
            // before. Where that is later, it is the only call that is needed.
            if until.is_some_and(|until| until.saturating_sub(self.worker.now) < 2 * SLICE.0) {
                let wait = self.take_wait(operation)?;
                match self.await_readiness(operation, Until::Readable, wait, until) {
                    Err(Fault::Timeout) => return Err(self.lose_datagram(operation)),
                    outcome => outcome?,
                }
            }
            let mut place = std::mem::take(&mut self.datagram);
            let length = longest.min(place.len());
            let outcome =
                self.flow(operation).map(|flow| socket::receive_into(flow.fd(), &mut place[..length]));
            let greeting = matches!(outcome, Ok(Ok(preamble::BYTES)))
                .then(|| Preamble::of(&place[..preamble::BYTES], self.run.token))
                .flatten();
            self.datagram = place;
            match outcome? {
                Ok(_) if greeting.is_some() => self.greet_again(operation, greeting)?,
                Ok(count) => {
                    let flow = self.flow(operation)?;
                    flow.taken += count as u64;
                    flow.datagrams.since = None;
                    self.exchanged(operation).taken += 1;
                    self.moved(count, begun);
                    return Ok(count as u64);
                }
                Err(error) => {
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
                        Err(Fault::Timeout) => return Err(self.lose_datagram(operation)),
                        outcome => outcome?,
                    }
                }
            }
        }
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
        let ran_dry = flow.datagrams.ran_dry == Some(transaction);
        Ok(ran_dry && !timed::wait_for(flow.fd(), Until::Readable, Nanos(0)).unwrap_or(false))
    }

    /// Nothing has come so far. Whether the other end has made all of the transaction.
    fn hear_silence(&mut self, operation: &FlowOp) -> Result<bool, Fault> {
        let (ended, transaction, now) =
            (self.other_made().is_some(), self.place.transaction, self.worker.now);
        let silence = &mut self.flow(operation)?.datagrams;
        if silence.goes_on(transaction, ended, now) {
            silence.ran_dry = Some(transaction);
        }
        Ok(ended)
    }

    fn lose_datagram(&mut self, operation: &FlowOp) -> Fault {
        if let Err(fault) = self.hear_silence(operation) {
            return fault;
        }
        let (transaction, place, remotes) =
            (self.place.transaction, self.place.operation, self.run.remotes());
        match self.flow(operation) {
            // With several ends, what one of them will not send is no reason to end what is between the others.
            Ok(flow) if flow.datagrams.ran_dry == Some(transaction) && remotes == 1 => {
                self.give_up_datagrams()
            }
            Ok(flow) => {
                flow.datagrams.gave_up = Some((transaction, place));
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
            let word = Word::Sent {
                strand: self.number,
                transaction: self.place.transaction as u32,
                connection: (slot / remotes) as u32,
                datagrams: exchanged.sent,
            };
            self.run.say_to(slot % remotes, &word);
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
        }
    }

    /// Datagrams that came after they were given up must not be taken for what comes next.
    fn throw_late_ones_away(&mut self, operation: &FlowOp) -> Result<(), Fault> {
        let Some((transaction, place)) = self.flow(operation)?.datagrams.gave_up.take() else {
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
            late += u64::from(Preamble::of(&bytes[..count], self.run.token).is_none());
        }
        // One of the transaction before came when that was over.
        let counts = self.passage.operations.get_mut(place).filter(|_| transaction == self.place.transaction);
        if let Some(counts) = counts {
            counts.late += late;
        }
        Ok(())
    }

    /// The other end has not got the acknowledgement of its greeting.
    fn greet_again(&mut self, operation: &FlowOp, greeting: Option<Preamble>) -> Result<(), Fault> {
        if let Some(shown) = greeting.filter(|shown| shown.kind == Kind::Data) {
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
        let mut silence = Silence::of_at_most(Nanos(100));
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
