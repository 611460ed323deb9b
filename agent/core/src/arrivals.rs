//! When operations are to begin, when the load does not wait for completions (an open loop).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Nanos};

/// Longest time between two arrivals of a trace: as long as the longest trial.
const MAX_GAP: Nanos = Nanos(7 * 86_400 * 1_000_000_000);

/// The law of the time between two arrivals. The mean rate is that of [`Arrivals`] in each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "law", rename_all = "snake_case", deny_unknown_fields)]
pub enum Law {
    /// The same time between all.
    Constant {
        /// How much earlier all of them are: those of hosts with one rate lie between each other's.
        #[serde(default, skip_serializing_if = "Nanos::is_zero")]
        earlier_ns: Nanos,
    },
    /// Independent exponential times.
    Poisson {},
    /// Poisson arrivals while on, none while off; the mean rate is that of both together.
    OnOff {
        /// Length of the time with arrivals.
        on_ns: Nanos,
        /// Length of the time without.
        off_ns: Nanos,
    },
    /// Times between arrivals as given, over and over, stretched to the mean rate.
    Trace {
        /// The times.
        gaps_ns: Vec<Nanos>,
    },
}

/// Arrivals of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arrivals {
    /// The law of the times between them.
    pub law: Law,
    /// The mean rate, of the whole job or of each connection: this many arrivals ...
    pub operations: u64,
    /// ... in this time.
    pub period_ns: Nanos,
    /// Whether each connection has its own arrivals at the mean rate; otherwise they are those of the whole job, and
    /// one goes to whichever connection is free.
    #[serde(default)]
    pub per_connection: bool,
    /// Seed of the drawn times: the same seed gives the same arrivals.
    pub seed: u64,
}

/// Sizes of messages that are not all alike, drawn independently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "law", rename_all = "snake_case", deny_unknown_fields)]
pub enum Sizes {
    /// Every size from the least to the greatest is as likely.
    Uniform {
        /// Least size.
        least_bytes: Bytes,
        /// Greatest size.
        greatest_bytes: Bytes,
    },
    /// Exponential with this mean, cut at the greatest size, 1 byte at least.
    Exponential {
        /// Mean before the cut.
        mean_bytes: Bytes,
        /// Greatest size.
        greatest_bytes: Bytes,
    },
    /// Each size with its weight.
    Mix {
        /// The sizes.
        sizes_bytes: Vec<Bytes>,
        /// Their weights, as many.
        weights: Vec<u32>,
    },
    /// Sizes as given, in turn, over and over.
    Trace {
        /// The sizes.
        sizes_bytes: Vec<Bytes>,
    },
}

impl Arrivals {
    /// Whether there are any: a rate, a law that leaves time for them.
    ///
    /// # Errors
    /// What was found, and what is allowed.
    pub fn check(&self) -> Result<(), (String, &'static str)> {
        if self.operations == 0 || self.period_ns.0 == 0 {
            return Err(("a rate of nothing".to_owned(), "some operations in some time"));
        }
        match &self.law {
            Law::OnOff { on_ns: Nanos(0), .. } => {
                Err(("bursts of no length".to_owned(), "a time with arrivals"))
            }
            Law::Trace { gaps_ns } if gaps_ns.iter().all(|gap| gap.0 == 0) => {
                Err((format!("a trace of {} times, all 0", gaps_ns.len()), "at least one time that is not 0"))
            }
            Law::Trace { gaps_ns } if gaps_ns.iter().any(|gap| gap.0 > MAX_GAP.0) => {
                Err(("a time between arrivals of more than a week".to_owned(), "a week at most"))
            }
            _ => Ok(()),
        }
    }
}

impl Sizes {
    /// The least size that is given; `None`: the law has none.
    #[must_use]
    pub fn least_bytes(&self) -> Option<Bytes> {
        match self {
            Sizes::Uniform { least_bytes, .. } => Some(*least_bytes),
            Sizes::Exponential { .. } => None,
            Sizes::Mix { sizes_bytes, .. } | Sizes::Trace { sizes_bytes } => {
                sizes_bytes.iter().copied().min_by_key(|size| size.0)
            }
        }
    }

    /// Whether every size lies between 1 and `most` bytes, and there is one.
    ///
    /// # Errors
    /// What was found, and what is allowed.
    pub fn check(&self, most: u64) -> Result<(), (String, String)> {
        let refuse = |found: String, allowed: &str| Err((found, allowed.to_owned()));
        let listed = match self {
            Sizes::Uniform { least_bytes, greatest_bytes } => vec![*least_bytes, *greatest_bytes],
            Sizes::Exponential { mean_bytes, greatest_bytes } => vec![*mean_bytes, *greatest_bytes],
            Sizes::Mix { sizes_bytes, weights } => {
                if sizes_bytes.len() != weights.len() || weights.iter().all(|weight| *weight == 0) {
                    let found = format!("{} sizes with {} weights", sizes_bytes.len(), weights.len());
                    return refuse(found, "a weight for every size, at least one of them not 0");
                }
                sizes_bytes.clone()
            }
            Sizes::Trace { sizes_bytes } => sizes_bytes.clone(),
        };
        if let Some(size) = listed.iter().find(|size| !(1..=most).contains(&size.0)) {
            return refuse(format!("{} bytes", size.0), &format!("1 to {most}, which is message_bytes"));
        }
        if listed.is_empty() {
            return refuse("no size".to_owned(), "at least one");
        }
        match self {
            Sizes::Uniform { least_bytes, greatest_bytes } if least_bytes > greatest_bytes => {
                refuse(format!("{} to {} bytes", least_bytes.0, greatest_bytes.0), "the least size first")
            }
            _ => Ok(()),
        }
    }
}
