//! What sensors report: metrics with unit and kind, and readings of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::units::Nanos;

/// How values of a metric combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Growth of a counter over the interval: add over time.
    Counter,
    /// A state at the end of the interval: do not add over time.
    Gauge,
}

/// One metric of a sensor. Its name ends in its unit unless it counts things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Metric {
    /// Name, such as `cpu.idle_ns`.
    pub name: &'static str,
    /// Unit: `ns`, `bytes`, `1` for counts.
    pub unit: &'static str,
    /// How values combine.
    pub kind: Kind,
    /// Where it is read, such as `/proc/stat`.
    pub source: &'static str,
    /// What the label of a value says, such as `cpu=0`; empty: the metric has one value.
    pub label: &'static str,
    /// One sentence for the reference page.
    pub help: &'static str,
}

/// One value: metric, label (empty when the metric has one value), value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Value(pub String, pub String, pub u64);

/// Times that were counted in the interval: metric, label, histogram. The label says what they are of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// Name, such as `block.service_time_ns`.
    pub metric: String,
    /// What they are of, such as `dev=sda,operation=read,size=4KiB`.
    pub label: String,
    /// Counts by bucket.
    pub times: Histogram,
}

/// What one sensor said at the end of an interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// Name of the sensor.
    pub sensor: String,
    /// When it was read, on the host's monotonic axis.
    pub read_ns: Nanos,
    /// Since its last reading: the span that its counters grew over.
    pub span_ns: Nanos,
    /// What this reading cost in CPU time of the reading thread.
    pub cost_ns: Nanos,
    /// Values; counters that were reset since the last reading are left out and named in `missing`.
    pub values: Vec<Value>,
    /// Times that it counted; most sensors count none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<Times>,
    /// Why something is missing, where it is: a sensor that could not be read has no values and says why.
    #[serde(default)]
    pub missing: Option<String>,
}
