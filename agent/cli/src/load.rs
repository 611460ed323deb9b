//! The load of a job, whatever makes it: connections, or files and devices.

use std::sync::Arc;

use iodyno_core::account::ScriptAccount;
use iodyno_core::disk::DiskAccount;
use iodyno_core::file_account::FileAccount;
use iodyno_core::job::{Job, Load};
use iodyno_core::network::{Role, SocketOptionsObtained};
use iodyno_core::units::Nanos;
use iodyno_load::{Cancel, Finished as NetworkFinished, LoadError, Totals};
use iodyno_storage::classes::ClassTotals;
use iodyno_storage::{block, program};
use iodyno_sys::open_sockets::OpenSockets;

/// A load that is ready to begin.
pub enum Prepared {
    /// Of connections.
    Network(iodyno_load::Prepared),
    /// Of blocks.
    Disk(block::Prepared),
    /// Of a program of file operations.
    Files(program::Prepared),
}

/// A load that was armed.
pub enum Running {
    /// Of connections.
    Network(iodyno_load::Running),
    /// Of blocks.
    Disk(block::Running),
    /// Of a program of file operations.
    Files(program::Running),
}

/// Counters at a moment.
#[derive(Clone, Default)]
pub struct Tally {
    /// Those of any load. What is counted a connection is counted a target where there are blocks.
    pub totals: Totals,
    /// By class of operation, where the load has classes.
    pub classes: Vec<ClassTotals>,
    /// The same of each target, where they are told apart.
    pub targets: Vec<Vec<ClassTotals>>,
}

/// What a load did.
#[derive(Default)]
pub struct Finished {
    /// Begin of the first operation of any worker.
    pub first_operation_ns: Option<Nanos>,
    /// Begin of the first operation of the worker that was last to have one.
    pub last_worker_started_ns: Option<Nanos>,
    /// When the last worker ended.
    pub stopped_ns: Option<Nanos>,
    /// Everything counted.
    pub totals: Totals,
    /// What a script did.
    pub script: Option<ScriptAccount>,
    /// What was done to files and devices.
    pub disk: Option<DiskAccount>,
    /// What a program of file operations did.
    pub files: Option<FileAccount>,
}

/// Brings every connection up, opens every target; `None` for an idle job. `listens`: hears the port of an end that
/// others come to.
pub fn prepare(job: &Job, cancel: &Cancel, listens: impl FnOnce(u16)) -> Result<Option<Prepared>, LoadError> {
    Ok(Some(match &job.load {
        Load::Idle(_) => return Ok(None),
        Load::Disk(disk) => Prepared::Disk(block::prepare(&job.with((**disk).clone()), cancel)?),
        Load::Files(program) => Prepared::Files(program::prepare(&job.with((**program).clone()), cancel)?),
        Load::Network(network) => {
            let (role, job) = (network.role, job.with((**network).clone()));
            Prepared::Network(match role {
                Role::Send => iodyno_load::connect(&job, cancel)?,
                Role::Receive => {
                    let listener = iodyno_load::listen(&job, cancel)?;
                    listens(listener.port());
                    listener.accept_all()?
                }
            })
        }
        Load::Script(scripted) => {
            let job = job.with(scripted.clone());
            Prepared::Network(match scripted.role {
                Role::Send => iodyno_load::connect_script(&job, cancel)?,
                Role::Receive => {
                    let listener = iodyno_load::listen_script(&job, cancel)?;
                    listens(listener.port());
                    listener.accept_all()?
                }
            })
        }
    }))
}

impl Prepared {
    /// Connections that are up.
    pub fn connections(&self) -> u32 {
        match self {
            Prepared::Network(prepared) => prepared.connections(),
            Prepared::Disk(_) | Prepared::Files(_) => 0,
        }
    }

    /// Threads that make the load.
    pub fn workers(&self) -> u32 {
        match self {
            Prepared::Network(prepared) => prepared.workers(),
            Prepared::Disk(prepared) => prepared.workers(),
            Prepared::Files(prepared) => prepared.workers(),
        }
    }

    /// Socket options as read back.
    pub fn obtained(&self) -> SocketOptionsObtained {
        match self {
            Prepared::Network(prepared) => prepared.obtained().clone(),
            Prepared::Disk(_) | Prepared::Files(_) => SocketOptionsObtained::default(),
        }
    }

    /// Connections turned away because they did not show the token.
    pub fn foreign_refused(&self) -> u32 {
        match self {
            Prepared::Network(prepared) => prepared.foreign_refused(),
            Prepared::Disk(_) | Prepared::Files(_) => 0,
        }
    }

    /// The sockets, by connection.
    pub fn sockets(&self) -> Vec<std::os::fd::RawFd> {
        match self {
            Prepared::Network(prepared) => prepared.sockets(),
            Prepared::Disk(_) | Prepared::Files(_) => Vec::new(),
        }
    }

    /// Sockets that come and go while the load is on.
    pub fn opened(&self) -> Arc<OpenSockets> {
        match self {
            Prepared::Network(prepared) => prepared.opened(),
            Prepared::Disk(_) | Prepared::Files(_) => Arc::default(),
        }
    }

    /// Kernel thread ids of the workers.
    pub fn thread_ids(&self) -> Vec<i32> {
        match self {
            Prepared::Network(prepared) => prepared.thread_ids(),
            Prepared::Disk(prepared) => prepared.thread_ids(),
            Prepared::Files(prepared) => prepared.thread_ids(),
        }
    }

    /// Starts the load at an instant.
    pub fn arm(self, start: Nanos) -> Running {
        match self {
            Prepared::Network(prepared) => Running::Network(prepared.arm(start)),
            Prepared::Disk(prepared) => Running::Disk(prepared.arm(start)),
            Prepared::Files(prepared) => Running::Files(prepared.arm(start)),
        }
    }
}

impl Running {
    /// Reads its counters.
    pub fn read(&self) -> Tally {
        match self {
            Running::Network(running) => Tally { totals: running.meter().read(), ..Tally::default() },
            Running::Disk(running) => {
                let done = running.read();
                let totals = Totals {
                    bytes: done.bytes,
                    operations: done.operations,
                    service_time: done.service_time,
                    connection_bytes: done.target_bytes,
                    open_loop: done.open_loop,
                    ..Totals::default()
                };
                Tally { totals, classes: done.classes, targets: done.targets }
            }
            Running::Files(running) => {
                let program::Totals { bytes, operations, service_time, open_loop, classes } = running.read();
                let totals = Totals { bytes, operations, service_time, open_loop, ..Totals::default() };
                Tally { totals, classes, targets: Vec::new() }
            }
        }
    }

    /// Its bytes and operations so far, at a fraction of what all counters take.
    pub fn moved(&self) -> (u64, u64) {
        match self {
            Running::Network(running) => running.meter().moved(),
            Running::Disk(running) => running.moved(),
            Running::Files(running) => running.moved(),
        }
    }

    /// Whether the workers start under `SCHED_FIFO`.
    pub fn is_realtime(&self) -> bool {
        match self {
            Running::Network(running) => running.realtime().is_ok(),
            Running::Disk(running) => running.realtime().is_ok(),
            // Threads of a program are many and begin when the kernel lets them.
            Running::Files(_) => false,
        }
    }

    /// Ends the load now.
    pub fn stop(&self) {
        match self {
            Running::Network(running) => running.stop(),
            Running::Disk(running) => running.stop(),
            Running::Files(running) => running.stop(),
        }
    }

    /// Whether every worker has ended.
    pub fn is_finished(&self) -> bool {
        match self {
            Running::Network(running) => running.is_finished(),
            Running::Disk(running) => running.is_finished(),
            Running::Files(running) => running.is_finished(),
        }
    }

    /// When a load on files or devices that has finished did so; of others it is not asked.
    pub fn ended_ns(&self) -> Option<Nanos> {
        match self {
            Running::Network(_) => None,
            Running::Disk(running) => running.ended_ns(),
            Running::Files(running) => running.ended_ns(),
        }
    }

    /// Whether the load may be done before the windows are.
    pub fn may_end_early(&self) -> bool {
        match self {
            Running::Network(running) => running.may_end_early(),
            Running::Disk(_) | Running::Files(_) => true,
        }
    }

    /// Why the load failed as a whole; none: it did not.
    pub fn failure(&self) -> Option<LoadError> {
        match self {
            Running::Network(running) => running.failure(),
            Running::Disk(running) => running.failure(),
            Running::Files(running) => running.failure(),
        }
    }

    /// Waits until every worker has ended.
    pub fn join(self) -> Finished {
        match self {
            Running::Network(running) => {
                let NetworkFinished {
                    first_operation_ns,
                    last_worker_started_ns,
                    stopped_ns,
                    totals,
                    script,
                    failure: _,
                } = running.join();
                Finished {
                    first_operation_ns,
                    last_worker_started_ns,
                    stopped_ns,
                    totals,
                    script,
                    disk: None,
                    files: None,
                }
            }
            Running::Disk(running) => {
                let finished = running.join();
                let block::Totals { bytes, operations, service_time, .. } = finished.totals;
                Finished {
                    first_operation_ns: finished.first_operation_ns,
                    last_worker_started_ns: finished.last_worker_started_ns,
                    stopped_ns: finished.stopped_ns,
                    totals: Totals { bytes, operations, service_time, ..Totals::default() },
                    script: None,
                    disk: Some(finished.account),
                    files: None,
                }
            }
            Running::Files(running) => {
                let finished = running.join();
                let program::Totals { bytes, operations, service_time, .. } = finished.totals;
                Finished {
                    first_operation_ns: finished.first_operation_ns,
                    last_worker_started_ns: finished.last_worker_started_ns,
                    stopped_ns: finished.stopped_ns,
                    totals: Totals { bytes, operations, service_time, ..Totals::default() },
                    script: None,
                    disk: None,
                    files: Some(finished.account),
                }
            }
        }
    }
}
