//! What a sensor is, what it is given, and how it fails.

use std::io;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;

use iodyno_core::metric::{Kind, Metric, Times, Value};
use iodyno_core::units::Nanos;
use iodyno_sys::open_sockets::OpenSockets;

/// Reads one source of counters.
pub trait Sensor: Send {
    /// Takes a reading: counters as growth since the last reading that succeeded, gauges as they are. The
    /// first reading only remembers where the counters stand. Gives what is missing and why, if anything.
    ///
    /// # Errors
    /// When nothing of the source could be read; what was already put into `out` is then void.
    fn read(&mut self, out: &mut Vec<Value>) -> Result<Option<String>, SenseError>;

    /// The instant that the values of the last reading are of, where the source tells it; else that at which it was asked.
    fn instant(&self) -> Option<Nanos> {
        None
    }

    /// Times that were counted up to the last reading since the one before, and are given once.
    fn times(&mut self) -> Vec<Times> {
        Vec::new()
    }
}

/// Where the kernel's file trees are; tests point them to recorded ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
    /// `/boot`.
    pub boot: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Roots { proc: PathBuf::from("/proc"), sys: PathBuf::from("/sys"), boot: PathBuf::from("/boot") }
    }
}

/// What a trial hands to its sensors; any part may be empty.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// Sockets of the flows. They must stay open as long as the panel is read.
    pub sockets: Vec<RawFd>,
    /// Sockets of flows that come and go while the load is on.
    pub opened: Arc<OpenSockets>,
    /// Kernel thread ids of the workers, in the order of their numbers.
    pub thread_ids: Vec<i32>,
    /// CPUs that the trial's cost is counted on; empty: every CPU online.
    pub cpus: Vec<u32>,
    /// Length of the warm-up window, which begins right after the first reading. A sensor may do in it what
    /// would disturb a measurement.
    pub warm_up: Nanos,
    /// Timers that sample everything on a CPU anyway, by CPU: descriptors of performance events, which must stay open
    /// as long as the panel is read.
    pub timers: Vec<(u32, RawFd)>,
    /// Whether the load is on files or devices.
    pub storage: bool,
    /// Processes of others whose CPU time is to be known, by role.
    pub watched: Vec<(String, Vec<u32>)>,
}

/// The role of agents of other hosts on these CPUs that do the same: their tasks count as those of this agent.
pub(crate) const ALIKE: &str = "alike";

impl Subject {
    /// Processes whose tasks count as those of this agent.
    #[must_use]
    pub fn alike(&self) -> Vec<u32> {
        let roles = self.watched.iter().filter(|(role, _)| role == ALIKE);
        roles.flat_map(|(_, processes)| processes.iter().copied()).collect()
    }
}

/// Why a sensor gave nothing: what, where, and what to try.
#[derive(Debug, thiserror::Error)]
pub enum SenseError {
    /// A job asks for a sensor that does not exist.
    #[error("no sensor is called {name:?}; did you mean {nearest}? There are: {all}")]
    Unknown {
        /// As asked for.
        name: String,
        /// The most similar name there is.
        nearest: &'static str,
        /// Every name there is, separated by commas.
        all: String,
    },
    /// The source cannot be read.
    #[error("{}: cannot be read: {error}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// The source was read and makes no sense.
    #[error("{}: {what}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What was expected.
        what: &'static str,
    },
    /// The host does not have it, or does not allow it.
    #[error("{0}")]
    Unavailable(String),
}

/// A sensor that is ready, or why the host does not have it.
pub(crate) type Opened = Result<Box<dyn Sensor>, SenseError>;

/// One line of the list of sensors.
pub(crate) struct Entry {
    /// Name of the sensor.
    pub name: &'static str,
    /// Its metrics.
    pub metrics: &'static [Metric],
    /// Makes the sensor ready for a trial; fails where the host does not have the source.
    pub open: fn(&Roots, &Subject) -> Opened,
}

/// A metric that only grows.
pub(crate) const fn counter(
    name: &'static str,
    unit: &'static str,
    source: &'static str,
    label: &'static str,
    help: &'static str,
) -> Metric {
    Metric { name, unit, kind: Kind::Counter, source, label, help }
}

/// A metric that is a state.
pub(crate) const fn gauge(
    name: &'static str,
    unit: &'static str,
    source: &'static str,
    label: &'static str,
    help: &'static str,
) -> Metric {
    Metric { name, unit, kind: Kind::Gauge, source, label, help }
}

/// Puts a value down.
pub(crate) fn put(out: &mut Vec<Value>, metric: &Metric, label: impl Into<String>, value: u64) {
    out.push(Value(metric.name.to_owned(), label.into(), value));
}
