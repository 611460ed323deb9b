//! What a job says of its calls: how many messages, how long, how many at a time.

use crate::arrivals::{Arrivals, Sizes};
use crate::interface::Driver;
use crate::job::{
    Job, JobError, Workload, DATAGRAM_HEADER_BYTES, MAX_BATCH, MAX_DATAGRAM_BYTES, MAX_MULTIPLEXED_BYTES,
    MAX_OUTSTANDING, MULTIPLEX_HEADER_BYTES,
};

impl Job {
    /// Checks them.
    ///
    /// # Errors
    /// The first key that holds something that is not allowed.
    pub(crate) fn check_calls(&self) -> Result<(), JobError> {
        let refuse = |key, found: &dyn std::fmt::Display, allowed: String| {
            Err(JobError { key, found: found.to_string(), allowed })
        };
        if !(1..=MAX_BATCH).contains(&self.batch) {
            return refuse("batch", &self.batch, format!("1 to {MAX_BATCH}"));
        }
        if !(1..=MAX_OUTSTANDING).contains(&self.outstanding) {
            return refuse("outstanding", &self.outstanding, format!("1 to {MAX_OUTSTANDING}"));
        }
        if self.burst == 0 {
            return refuse("burst", &0, "1 or more".to_owned());
        }
        if let Some(Err((found, allowed))) = self.arrivals.as_ref().map(Arrivals::check) {
            return refuse("arrivals", &found, allowed.to_owned());
        }
        if let Some(Err((found, allowed))) =
            self.message_sizes.as_ref().map(|sizes| sizes.check(self.message_bytes.0))
        {
            return refuse("message_sizes", &found, allowed);
        }
        if self.multiplexed {
            let allowed = MULTIPLEX_HEADER_BYTES..=MAX_MULTIPLEXED_BYTES;
            let drawn =
                self.message_sizes.as_ref().and_then(Sizes::least_bytes).unwrap_or(self.message_bytes);
            let messages = [
                ("message_bytes", self.message_bytes),
                ("answer_bytes", self.answer_bytes),
                ("message_sizes", drawn),
            ];
            if let Some((key, bytes)) = messages.into_iter().find(|(_, bytes)| !allowed.contains(&bytes.0)) {
                let why = "a multiplexed message shows its identifier and its length";
                let text = format!("{MULTIPLEX_HEADER_BYTES} to {MAX_MULTIPLEXED_BYTES}: {why}");
                return refuse(key, &bytes.0, text);
            }
        }
        if self.transport.is_datagram() {
            let allowed = DATAGRAM_HEADER_BYTES..=MAX_DATAGRAM_BYTES;
            let answers =
                if self.workload == Workload::Stream { self.message_bytes } else { self.answer_bytes };
            for (key, bytes) in [("message_bytes", self.message_bytes), ("answer_bytes", answers)] {
                if !allowed.contains(&bytes.0) {
                    let why = "a datagram shows the trial's token and its number";
                    let text = format!("{DATAGRAM_HEADER_BYTES} to {MAX_DATAGRAM_BYTES}: {why}");
                    return refuse(key, &bytes.0, text);
                }
            }
            if let Some(least) = self.message_sizes.as_ref().and_then(Sizes::least_bytes) {
                if least.0 < DATAGRAM_HEADER_BYTES {
                    let why = "a datagram shows the trial's token and its number";
                    let text = format!("{DATAGRAM_HEADER_BYTES} bytes or more: {why}");
                    return refuse("message_sizes", &format_args!("{} bytes", least.0), text);
                }
            }
        }
        if self.driver == Driver::Rings && self.ring.is_none() {
            return refuse("ring", &"nothing", "the shape of the ring".to_owned());
        }
        Ok(())
    }
}
