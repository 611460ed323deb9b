//! How a flow ends: the sender says so, and how much there was, until it comes back.

use std::os::fd::BorrowedFd;

use iodyno_core::units::Nanos;
use iodyno_sys::datagram::Peer;
use iodyno_sys::timed::{self, Until};
use iodyno_sys::{clock, datagram, errno, socket};

use crate::transport::datagram::{Header, Kind, Mark, HEADER_BYTES};

/// chosen: how often and how long after one another the end is said: half a second in all, within which a receiver
/// that is there hears it, and after which the load is over anyway.
const TIMES: u32 = 25;
const SAY_AGAIN_MS: i32 = 20;
/// Room for answers that are still on their way: only their beginning is looked at.
const ROOM: usize = HEADER_BYTES + 1;

/// Sends the end of a flow back to where it came from.
pub(super) fn echo(socket: BorrowedFd<'_>, header: Header, mark: Mark, peer: &Peer) {
    // Refused or lost is the same: it is said again.
    let _ = datagram::send_to(socket, &header.alone(mark), peer);
}

/// A flow whose end is to be said.
pub(crate) struct Parting<'a> {
    /// Its number.
    pub flow: u32,
    /// How many requests or datagrams there were.
    pub total: u64,
    /// Connected to who is to know.
    pub socket: BorrowedFd<'a>,
    /// Whether it is not known that the other end knows.
    pub silent: bool,
}

impl Parting<'_> {
    fn header(&self) -> Header {
        Header { flow: self.flow, kind: Kind::End, sequence: self.total }
    }

    /// Who is gone need not be told; what was lost is said again.
    fn say(&mut self, mark: Mark) {
        if let Err(error) = socket::send(self.socket, &self.header().alone(mark)) {
            self.silent = matches!(error.raw_os_error(), Some(errno::EAGAIN | errno::EINTR | errno::ENOBUFS));
        }
    }

    /// Takes what came back.
    fn hear(&mut self, mark: Mark) {
        let mut place = [0; ROOM];
        self.silent = match socket::receive_into(self.socket, &mut place) {
            Ok(length) => Header::read(mark, &place[..length]) != Some(self.header()),
            Err(error) => matches!(error.raw_os_error(), Some(errno::EAGAIN | errno::EINTR)),
        };
    }
}

/// Says of each of `flows` that it ends. Comes back when all know, or after half a second. `still` tells whether it is
/// worth going on.
pub(crate) fn say(flows: &mut [Parting<'_>], mark: Mark, still: impl Fn() -> bool) {
    for _ in 0..TIMES {
        flows.iter_mut().filter(|flow| flow.silent).for_each(|flow| flow.say(mark));
        let until = clock::monotonic().plus(Nanos(SAY_AGAIN_MS as u64 * 1_000_000));
        for flow in flows.iter_mut() {
            while flow.silent && still() {
                let left = until.minus(clock::monotonic());
                if !matches!(timed::wait_for(flow.socket, Until::Readable, left), Ok(true)) {
                    break;
                }
                flow.hear(mark);
            }
        }
        if !still() || flows.iter().all(|flow| !flow.silent) {
            return;
        }
    }
}
