//! Why the kernel does not take the programs, in words that say what to try.

use std::error::Error;
use std::io;

use aya::programs::ProgramError;
use aya::sys::SyscallError;
use aya::EbpfError;

/// A reason.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// `EPERM`, `EACCES`.
    #[error(
        "not allowed to load programs into the kernel (BPF): run as root, or with CAP_BPF and CAP_PERFMON"
    )]
    NotAllowed,
    /// The verifier does not believe that a program is safe.
    #[error("the kernel's verifier refused a program: {0}")]
    Verifier(String),
    /// `ENXIO` of a run on a CPU.
    #[error("not online")]
    Offline,
    /// `ENOSYS`: a kernel without BPF.
    #[error("this kernel has no BPF")]
    NoBpf,
    /// `ENOENT`: the kernel does not have the tracepoint.
    #[error("no such tracepoint")]
    Absent,
    /// Any other error of a call.
    #[error("{0}")]
    Other(String),
    /// Cannot be, unless the programs and this code do not fit.
    #[error("defect of the agent: {0}")]
    Defect(&'static str),
}

impl From<ProgramError> for Refusal {
    fn from(error: ProgramError) -> Self {
        if let ProgramError::LoadError { verifier_log, .. } = &error {
            // The last lines are statistics, the one before says what is wrong.
            let log = verifier_log.to_string();
            let told = log.lines().rev().find(|line| !line.starts_with("processed") && !line.is_empty());
            if let Some(line) = told {
                return Refusal::Verifier(line.to_owned());
            }
        }
        of(&error)
    }
}

impl From<EbpfError> for Refusal {
    fn from(error: EbpfError) -> Self {
        match error {
            EbpfError::ProgramError(error) => error.into(),
            error => of(&error),
        }
    }
}

impl Refusal {
    /// A call of this project's own failed.
    pub fn of_io(error: io::Error) -> Refusal {
        of(&error)
    }

    /// A call failed that is not about a program.
    pub fn of_call(error: SyscallError) -> Refusal {
        of(&error)
    }
}

/// By the number of the kernel's error, which lies at the end of the chain.
fn of(error: &(dyn Error + 'static)) -> Refusal {
    let mut told = error.to_string();
    let mut inner = Some(error);
    while let Some(error) = inner {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            match (error.kind(), error.raw_os_error()) {
                (io::ErrorKind::PermissionDenied, _) => return Refusal::NotAllowed,
                (io::ErrorKind::Unsupported, Some(38)) => return Refusal::NoBpf,
                (io::ErrorKind::NotFound, _) => return Refusal::Absent,
                // `include/uapi/asm-generic/errno-base.h`, the same on every architecture.
                (_, Some(6)) => return Refusal::Offline,
                _ => {}
            }
        }
        inner = error.source();
        if let Some(error) = inner.map(ToString::to_string).filter(|error| !told.contains(error)) {
            told = format!("{told}: {error}");
        }
    }
    Refusal::Other(told)
}
