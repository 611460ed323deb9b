//! Datagrams that a strand takes: which of them are lost, and which come too late.

use iodyno_core::script::{FlowOp, Size};
use iodyno_core::units::Nanos;
use iodyno_sys::socket;
use iodyno_sys::timed::{self, Until};

use super::fault::Fault;
use super::preamble::{self, Kind, Preamble};
use super::strand::Strand;

impl Strand<'_> {
    /// Takes a datagram. One that does not come in time is lost: by the script's timeout, else by the job's, once the
    /// other end was to have sent it. The end that follows cannot know that before the other end has come to
    /// the end of the transaction, or waits itself.
    pub(super) fn take_datagram(&mut self, operation: &FlowOp, begun: u64) -> Result<u64, Fault> {
        let patience = operation.timeout_ns.unwrap_or(self.run.answer_timeout);
        let mut until =
            (operation.timeout_ns.is_some() || self.run.leads).then(|| begun.saturating_add(patience.0));
        let longest = operation.size.map_or(0, Size::greatest).max(preamble::BYTES as u64) as usize;
        loop {
            if self.is_dry(operation)? {
                return Err(self.lose_datagram(operation));
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
                    self.flow(operation)?.taken += count as u64;
                    self.moved(count, begun);
                    return Ok(count as u64);
                }
                Err(error) => {
                    let other = &self.pair.others[self.remote()];
                    if until.is_none() && (self.other_made().is_some() || other.waits()) {
                        until = Some(self.worker.now.saturating_add(patience.0));
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

    /// Whether nothing comes any more in this transaction: the other end has made all of it.
    fn is_dry(&mut self, operation: &FlowOp) -> Result<bool, Fault> {
        let transaction = self.place.transaction;
        let flow = self.flow(operation)?;
        let ran_dry = flow.ran_dry == Some(transaction);
        Ok(ran_dry && !timed::wait_for(flow.fd(), Until::Readable, Nanos(0)).unwrap_or(false))
    }

    fn lose_datagram(&mut self, operation: &FlowOp) -> Fault {
        // With several ends, what one of them will not send is no reason to end what is between the others.
        let ended = self.other_made().is_some();
        if ended && self.run.remotes() == 1 {
            return self.give_up_datagrams();
        }
        let (place, transaction) = (self.place.operation, self.place.transaction);
        if let Ok(flow) = self.flow(operation) {
            flow.gave_up = Some(place);
            if ended {
                flow.ran_dry = Some(transaction);
            }
        }
        Fault::Lost
    }

    /// Datagrams that came after they were given up must not be taken for what comes next.
    pub(super) fn throw_late_ones_away(&mut self, operation: &FlowOp) -> Result<(), Fault> {
        let Some(place) = self.flow(operation)?.gave_up.take() else { return Ok(()) };
        let scratch = self.worker.scratch();
        let mut late = 0;
        loop {
            let flow = self.flow(operation)?;
            let ready = timed::wait_for(flow.fd(), Until::Readable, Nanos(0)).unwrap_or(false);
            if !ready || timed::receive(flow.fd(), scratch, usize::MAX).is_err() {
                break;
            }
            late += 1;
        }
        if let Some(counts) = self.passage.operations.get_mut(place) {
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
