//! Bulk transmit: messages of one size, one after the other.
//!
//! The service time of a message runs from the first attempt to hand over its first byte to the acceptance of
//! its last one. There is no time between messages, so one reading of the clock ends one and starts the next.

use std::io;

use iodyno_core::histogram::Recorder;
use iodyno_core::units::Nanos;
use iodyno_sys::buffer::ReceiveScratch;
use iodyno_sys::operation_clock::OperationClock;

use crate::counters::Connection;
use crate::transport::Flow;

/// Why a turn on a connection ended.
#[derive(Debug)]
pub enum Turn {
    /// Its share is used up, or the transport takes or has nothing more now.
    Later,
    /// The other end has sent everything.
    End,
    /// The connection failed.
    Lost(io::Error),
}

/// Where a turn is counted, and the clock that times it.
pub struct Tally<'a> {
    pub connection: &'a Connection,
    pub recorder: &'a Recorder,
    pub clock: &'a mut OperationClock,
}

/// The sending end of one connection: where in which message it is.
pub struct Sending {
    offset: usize,
    /// When the message was first tried; `None`: the next message has not been tried yet.
    began: Option<Nanos>,
}

impl Sending {
    /// At the beginning of a message.
    pub const fn new() -> Self {
        Sending { offset: 0, began: None }
    }

    /// Sends until `share` bytes are gone, the transport takes no more, or `until` has come.
    #[inline]
    pub fn turn<F: Flow>(
        &mut self,
        flow: &F,
        message: &[u8],
        share: usize,
        until: Nanos,
        tally: &mut Tally<'_>,
    ) -> Turn {
        let Tally { connection, recorder, clock } = tally;
        let mut left = share;
        let mut began = self.began.unwrap_or_else(|| clock.now());
        loop {
            match flow.send(&message[self.offset..]) {
                Ok(taken) => {
                    connection.moved(taken);
                    self.offset += taken;
                    left = left.saturating_sub(taken);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.began = Some(began);
                    return Turn::Later;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Turn::Lost(error),
            }
            if self.offset == message.len() {
                let ended = clock.now();
                recorder.record(ended.0.saturating_sub(began.0));
                self.offset = 0;
                began = ended;
                if left == 0 || ended >= until {
                    self.began = None;
                    return Turn::Later;
                }
            }
        }
    }
}

/// Reads until `share` bytes have come, there is nothing more now, or the stream ends. An operation is one
/// read that gave data; its service time is how long the call took.
#[inline]
pub fn receiving_turn<F: Flow>(
    flow: &F,
    scratch: &ReceiveScratch,
    share: usize,
    tally: &mut Tally<'_>,
) -> Turn {
    let Tally { connection, recorder, clock } = tally;
    let mut left = share;
    let mut began = clock.now();
    loop {
        match flow.receive(scratch) {
            Ok(0) => return Turn::End,
            Ok(count) => {
                let ended = clock.now();
                connection.moved(count);
                recorder.record(ended.0.saturating_sub(began.0));
                began = ended;
                left = left.saturating_sub(count);
                // A read that did not fill the scratch has emptied the socket: asking again is a wasted call.
                if left == 0 || count < scratch.length() {
                    return Turn::Later;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Turn::Later,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Turn::Lost(error),
        }
    }
}
