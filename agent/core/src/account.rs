//! What a script did, operation by operation. All counts are of this end alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::script::Call;
use crate::units::{Bytes, Nanos};

/// Account of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptAccount {
    /// Whether every thread came to the end of its script; otherwise the end of the job's windows cut it.
    pub complete: bool,
    /// Connections and datagrams that did not show the trial's token: turned away.
    pub foreign_refused: u64,
    /// In the script's order.
    pub groups: Vec<GroupAccount>,
}

/// Account of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupAccount {
    /// The group's.
    pub name: String,
    /// Its threads.
    pub threads: u32,
    /// In the script's order.
    pub transactions: Vec<TransactionAccount>,
}

/// Account of a transaction, over all threads of its group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransactionAccount {
    /// When its first thread began. Absent: none did.
    pub begin_ns: Option<Nanos>,
    /// When the last operation ended, or was cut by the end of its time. Waiting for other threads is not in it.
    pub end_ns: Option<Nanos>,
    /// Threads that came to its end.
    pub threads_done: u32,
    /// Iterations that were completed and count.
    pub iterations: u64,
    /// Iterations made after its time was over, so that both ends have made as many. What moved in them counts; those that
    /// left nothing out are among `iterations`.
    pub levelling_iterations: u64,
    /// Iterations that were due by its rate within its time, and were not begun.
    pub missed_iterations: u64,
    /// From begin to end of an iteration.
    pub service_time: Histogram,
    /// From when it was to begin to its end; where this end keeps a rate.
    pub response_time: Option<Histogram>,
    /// How long after it was to begin it was begun; where this end keeps a rate.
    pub lateness: Option<Histogram>,
    /// In the script's order.
    pub operations: Vec<OperationAccount>,
}

/// Account of an operation, over all threads and iterations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationAccount {
    /// What it does.
    pub call: Call,
    /// Its name in the script.
    pub label: String,
    /// Samples: iterations in which all its repetitions were done.
    pub samples: u64,
    /// Operations: repetitions counted one by one; messages, where it moves any.
    pub operations: u64,
    /// Payload sent or taken.
    pub bytes: Bytes,
    /// When the first one began. Absent: there was none.
    pub begin_ns: Option<Nanos>,
    /// When the last one ended.
    pub end_ns: Option<Nanos>,
    /// Time of each operation.
    pub time: Histogram,
    /// Shortest time of an operation.
    pub least_ns: Option<Nanos>,
    /// Longest time of an operation.
    pub greatest_ns: Option<Nanos>,
    /// Time of each sample; absent where a sample is one operation.
    pub sample_time: Option<Histogram>,
    /// Operations that failed and were allowed to; of datagrams those, too, that were given up and had never been sent.
    pub failures: u64,
    /// Why the first of them failed.
    pub failure_reason: Option<String>,
    /// Operations that did not end within their timeout; among the failures, but for datagrams.
    pub timeouts: u64,
    /// Datagrams that the other end sent and that did not come in time: what it sent is what came and what was lost. Of a
    /// transaction that was cut, all that were given up.
    pub lost: u64,
    /// Of those, the ones that came after they had been given up: taken, and thrown away.
    pub late: u64,
    /// Datagrams that came once more, and were thrown away.
    pub duplicates: u64,
    /// Calls that would have waited, on a non-blocking socket.
    pub would_block: u64,
}

impl OperationAccount {
    /// One that has done nothing yet.
    #[must_use]
    pub fn new(call: Call, label: &str) -> Self {
        OperationAccount {
            call,
            label: label.to_owned(),
            samples: 0,
            operations: 0,
            bytes: Bytes(0),
            begin_ns: None,
            end_ns: None,
            time: Histogram::default(),
            least_ns: None,
            greatest_ns: None,
            sample_time: None,
            failures: 0,
            failure_reason: None,
            timeouts: 0,
            lost: 0,
            late: 0,
            duplicates: 0,
            would_block: 0,
        }
    }
}
