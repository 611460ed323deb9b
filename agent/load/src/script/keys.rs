//! Connections of a script over TLS come to terms about keys.

use std::os::fd::BorrowedFd;

use iodyno_core::script::{FlowOp, Protocol};
use iodyno_sys::timed::{self, Until};
use iodyno_sys::{errno, socket};

use super::fault::Fault;
use super::run::SLICE;
use super::stall::Wait;
use super::worker_thread::WorkerThread;
use crate::transport::tls::Session;

impl WorkerThread<'_> {
    /// Comes to terms about keys with the other end, where the connection is one over TLS. It lasts until the other
    /// thread accepts: unlike over TCP, no other can do that for it.
    pub(super) fn shake(
        &mut self,
        operation: &FlowOp,
        socket: BorrowedFd<'_>,
        opened: bool,
        wait: Wait,
        deadline: Option<u64>,
    ) -> Result<Option<Session>, Fault> {
        let Some(terms) = self.run.tls.as_ref().filter(|_| operation.protocol == Protocol::Tls) else {
            return Ok(None);
        };
        let mut handshake = terms.begin(opened).map_err(Fault::Os)?;
        socket::set_blocking(socket, false).map_err(Fault::Os)?;
        loop {
            match handshake.step(socket) {
                Ok(session) => return Ok(Some(session)),
                Err(error) => match error.raw_os_error().unwrap_or(0) {
                    errno::EINTR => {}
                    errno::EAGAIN => {
                        let until = if handshake.wants_write() { Until::Writable } else { Until::Readable };
                        match timed::wait_for(socket, until, SLICE) {
                            Ok(true) => {}
                            Ok(false) => {
                                self.worker.tick();
                                self.waited(wait, deadline)?;
                            }
                            Err(error) if error.raw_os_error() == Some(errno::EINTR) => {}
                            Err(error) => return Err(Fault::Os(error)),
                        }
                    }
                    _ => return Err(Fault::Os(error)),
                },
            }
        }
    }
}
