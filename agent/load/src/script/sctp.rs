//! What a script asks of SCTP: of associations when they come up, and of each message.

use std::io;
use std::os::fd::BorrowedFd;

use iodyno_core::script::{Call, FlowOp, Protocol, Script, Sctp};
use iodyno_sys::sctp;

use crate::error::LoadError;
use crate::handshake::options;

/// On which stream messages of an association go out, and whether in order.
#[derive(Default)]
pub(super) struct Track {
    stream: u16,
    unordered: bool,
}

impl Track {
    /// Goes to that of the operation. The preamble went out in order on stream 0, where an association begins.
    #[inline]
    pub(super) fn follow(&mut self, socket: BorrowedFd<'_>, operation: &FlowOp) -> io::Result<()> {
        let Sctp { stream, unordered, .. } = operation.sctp.unwrap_or_default();
        if (stream, unordered) == (self.stream, self.unordered) {
            return Ok(());
        }
        sctp::set_stream(socket, stream, unordered)?;
        *self = Track { stream, unordered };
        Ok(())
    }
}

/// Asks for the options of a `connect` before it, or of an `accept` after it, when the number of streams is settled.
pub(super) fn ask(socket: BorrowedFd<'_>, operation: &FlowOp, before: bool) -> Result<(), LoadError> {
    options::ask_any(socket, &operation.socket)?;
    let Some(asked) = operation.sctp else { return Ok(()) };
    let refused = |key: &'static str| {
        move |error: io::Error| LoadError::refused(&error, "set it", &format!("script.sctp.{key}"))
    };
    if asked.nodelay {
        sctp::set_nodelay(socket, true).map_err(refused("nodelay"))?;
    }
    let or_none = |value: Option<u32>| value.unwrap_or(0);
    let rto = [asked.rto_initial_ms, asked.rto_min_ms, asked.rto_max_ms].map(or_none);
    if rto != [0; 3] {
        sctp::set_timeouts(socket, rto[0], rto[1], rto[2]).map_err(refused("rto"))?;
    }
    let [delay, frequency] = [asked.sack_delay_ms, asked.sack_frequency].map(or_none);
    if (delay, frequency) != (0, 0) {
        sctp::set_delayed_ack(socket, delay, frequency).map_err(refused("sack"))?;
    }
    if let Some(packets) = asked.max_burst {
        sctp::set_max_burst(socket, packets).map_err(refused("max_burst"))?;
    }
    if let Some(bytes) = asked.max_fragment_bytes {
        sctp::set_max_fragment(socket, bytes).map_err(refused("max_fragment_bytes"))?;
    }
    let [heartbeat, mtu] = [asked.hb_interval_ms, asked.path_mtu_bytes].map(or_none);
    if (heartbeat, mtu) != (0, 0) {
        sctp::set_path(socket, heartbeat, mtu).map_err(refused("path"))?;
    }
    if before {
        ask_streams(socket, asked.in_streams.unwrap_or(0), asked.out_streams.unwrap_or(0))?;
    }
    Ok(())
}

/// Asks for as many streams as any `accept` of the script wants: they are settled before it is known whose an association is.
pub(super) fn ask_of_listener(socket: BorrowedFd<'_>, script: &Script) -> Result<(), LoadError> {
    let operations = script.transactions().flat_map(|(_, _, transaction)| &transaction.operations);
    let accepts = operations.filter(|each| each.protocol == Protocol::Sctp && each.call == Call::Accept);
    let (mut incoming, mut outgoing) = (0, 0);
    for asked in accepts.filter_map(|each| each.sctp) {
        incoming = incoming.max(asked.in_streams.unwrap_or(0));
        outgoing = outgoing.max(asked.out_streams.unwrap_or(0));
    }
    ask_streams(socket, incoming, outgoing)
}

fn ask_streams(socket: BorrowedFd<'_>, incoming: u16, outgoing: u16) -> Result<(), LoadError> {
    if (incoming, outgoing) == (0, 0) {
        return Ok(());
    }
    sctp::set_streams(socket, incoming, outgoing)
        .map_err(|error| LoadError::refused(&error, "set it", "script.sctp.in_streams, out_streams"))
}
