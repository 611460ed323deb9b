//! A thread that waits for the other end: how long, and whether in vain.

use iodyno_core::message::ErrorCode;
use iodyno_core::units::Nanos;

use super::fault::{Fault, Halt};
use super::link::Message;
use super::run::{LONGEST_SLICE, SLICE};
use super::stall::{is_hopeless, Announced, Judgement, Stall, Wait, STALL};
use super::worker_thread::WorkerThread;
use crate::error::LoadError;
use iodyno_sys::lock::locked;

impl WorkerThread<'_> {
    /// After a slice of waiting for the other end: whether to wait on.
    pub(super) fn waited(&mut self, wait: Wait, until: Option<u64>) -> Result<(), Fault> {
        self.worker.tick();
        let now = self.worker.now;
        if self.is_over() {
            return Err(Fault::Halt(Halt::Over));
        }
        if until.is_some_and(|until| now >= until) {
            return Err(Fault::Timeout);
        }
        if !wait.is_at_end() {
            self.look_at_other().map_err(Fault::Halt)?;
        }
        self.greet_who_asks();
        let since = *self.waiting_since.get_or_insert(now);
        // What waits for a bounded time cannot be stuck.
        if until.is_none() && now.saturating_sub(since) >= STALL.0 {
            self.wonder(wait);
        }
        Ok(())
    }

    /// How long to wait before it looks again: an eighth of the time that it has waited, so that thousands of threads that
    /// wait for a few take no CPU from them; to `until` at most. What ends a wait ends it at once; only a stop is seen so
    /// late.
    pub(super) fn slice(&self, until: Option<u64>) -> Nanos {
        let now = self.worker.now;
        let waited = self.waiting_since.map_or(0, |since| now.saturating_sub(since));
        let left = until.map_or(LONGEST_SLICE, |until| Nanos(until.saturating_sub(now)));
        Nanos(waited / 8).clamp(SLICE, LONGEST_SLICE).min(left)
    }

    /// Something moved, perhaps after a wait.
    #[inline]
    pub(super) fn went_on(&mut self) {
        if self.waiting_since.is_some() {
            self.progressed();
        }
    }

    /// Something came of waiting.
    pub(super) fn progressed(&mut self) {
        self.waiting_since = None;
        for remote in self.announced.take().map_or(0..0, |announced| announced.remotes) {
            self.run.send_to(remote, &Message::Resumed { thread: self.number });
        }
    }

    /// Waits long: tells the other end, and finds out whether both will for ever.
    #[cold]
    fn wonder(&mut self, wait: Wait) {
        // At the end of a transaction it waits for all of them, else for the one that the operation is about. The others
        // have no part in it: told of it, they would judge it by what is between them and this end.
        let remotes = if wait.is_at_end() { 0..self.run.remotes() } else { self.remote()..self.remote() + 1 };
        if self.announced.as_ref().is_none_or(|announced| announced.stall.wait != wait) {
            self.stalls += 1;
            let stall = Stall {
                serial: self.stalls,
                transaction: self.place.transaction as u32,
                operation: self.place.operation as u32,
                wait,
            };
            self.announced =
                Some(Announced { stall, remotes: remotes.clone(), judged: vec![0; self.run.remotes()] });
            for remote in remotes.clone() {
                self.run.send_to(remote, &Message::Stalled { thread: self.number, stall });
            }
        }
        remotes.into_iter().for_each(|remote| self.judge(remote));
    }

    /// Whether the wait and that of another end are for each other.
    fn judge(&mut self, remote: usize) {
        let far = &self.pair.others[remote];
        let Some(other) = *locked(&far.stall) else { return };
        let Some(announced) = &self.announced else { return };
        let sent = |connection: u32| {
            self.flows.get(connection as usize).and_then(|flows| flows.last()).map_or(0, |flow| flow.sent)
        };
        let opened = |connection: u32| self.opened.get(self.slot(connection, remote)).copied().unwrap_or(0);
        let own = announced.stall;
        if announced.judged[remote] != other.serial {
            let made = far.iterations(own.transaction as usize);
            let is_ahead = made.is_some_and(|made| self.place.iteration >= made);
            if !is_hopeless(other, own, is_ahead, sent, opened) {
                return;
            }
            let judgement = Judgement { stall: other.serial, by: own.serial };
            self.run.send_to(remote, &Message::Nothing { thread: self.number, judgement });
            if let Some(announced) = &mut self.announced {
                announced.judged[remote] = other.serial;
            }
        }
        // What it said while it waited for something else is over.
        if *locked(&far.judgement) == (Judgement { stall: own.serial, by: other.serial }) {
            self.report_deadlock(own, other, remote);
        }
    }

    fn report_deadlock(&self, own: Stall, other: Stall, remote: usize) {
        let transaction = &self.group.transactions[own.transaction as usize];
        let operation = transaction.operations.get(own.operation as usize);
        let label = operation.map_or("its end", |operation| operation.label.as_str());
        let (here, there) = (own.wait.told(), other.wait.told());
        let place = match other.wait {
            Wait::Level | Wait::Others => format!("transaction {}, its end", other.transaction + 1),
            _ => format!("transaction {}, operation {}", other.transaction + 1, other.operation + 1),
        };
        self.run.fail(LoadError::new(
            ErrorCode::Job,
            format!(
                "the two ends of the script wait for each other for ever: {} waits for {here}; {}, in \
                 {place}, waits for {there}; nothing is on its way",
                self.whereabouts(label),
                self.run.named(remote),
            ),
            "script",
            "see that each write has its read at the other end, of the same size, and each connect its accept",
        ));
    }
}
