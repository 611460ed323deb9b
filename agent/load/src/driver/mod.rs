//! How calls are submitted to the kernel: one file each.

mod epoll;
mod threads;

use std::os::fd::AsFd;

use iodyno_core::job::{Driver, Role, Transport, Workload};

use crate::transport::null::Null;
use crate::transport::tcp::Tcp;
use crate::transport::Link;
use crate::worker::shared::Shared;
use crate::workload::application::Application;
use crate::workload::request_response::{Answer, Request};
use crate::workload::stream::{Receive, Transmit};
use crate::workload::Activity;

/// Carries out what worker `number` has to do, from its own thread, to the end. The registry of workloads and
/// transports.
pub(crate) fn work(shared: &Shared, number: usize) {
    let job = &shared.job;
    let tcp = |connection: usize| Tcp(shared.sockets[connection].as_fd());
    let transmit = || Transmit::new(job.message_bytes.0);
    match (job.workload, job.role, job.transport) {
        (Workload::Stream, Role::Send, Transport::Tcp) => drive(shared, number, |at| (transmit(), tcp(at))),
        (Workload::Stream, Role::Receive, Transport::Tcp) => drive(shared, number, |at| (Receive, tcp(at))),
        (Workload::Stream, Role::Send, Transport::Null) => drive(shared, number, |_| (transmit(), Null)),
        (Workload::RequestResponse, Role::Send, Transport::Tcp) => {
            drive(shared, number, |at| (Request::of(job), tcp(at)));
        }
        (Workload::RequestResponse, Role::Receive, Transport::Tcp) => {
            drive(shared, number, |at| (Answer::of(job), tcp(at)));
        }
        // Nothing comes from nowhere (a job is checked for that), and idle jobs have no workers.
        (Workload::RequestResponse, _, Transport::Null)
        | (Workload::Stream, Role::Receive, Transport::Null)
        | (_, Role::Idle, _) => {}
    }
}

/// Puts the job's application around the activity, where it asks for one.
fn drive<A: Activity, L: Link>(shared: &Shared, number: usize, make: impl Fn(usize) -> (A, L)) {
    let job = &shared.job;
    if !job.plays_application() {
        return submit(shared, number, make);
    }
    submit(shared, number, |at| {
        let (activity, link) = make(at);
        (Application::around(activity, job, &shared.lock), link)
    });
}

/// The registry of drivers.
fn submit<A: Activity, L: Link>(shared: &Shared, number: usize, make: impl Fn(usize) -> (A, L)) {
    match shared.job.driver {
        Driver::Threads => threads::drive(shared, number, make),
        Driver::Epoll => epoll::drive(shared, number, make),
    }
}
