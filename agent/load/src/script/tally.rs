//! What a script did, counted: histograms by the threads together, everything else by each thread for itself and
//! added up when it leaves a transaction.

use std::sync::Mutex;

use iodyno_core::account::{GroupAccount, OperationAccount, TransactionAccount};
use iodyno_core::histogram::{Histogram, Recorder, Snapshot};
use iodyno_core::script::{Script, Transaction};
use iodyno_core::units::{Bytes, Nanos};
use iodyno_sys::lock::locked;

/// chosen: threads share histograms (37 KB each) where all operations of each would have more than this many; few threads run
/// at a time. What a thread has alone it counts in without locked instructions, half of its own time in exchanges of 64 bytes.
const MOST_ALONE: usize = 256;
/// chosen: and then there are no more of each than this.
const MOST_SHARDS: usize = 8;
/// chosen: scripts with more operations than this have one histogram for each, so that memory stays bounded.
const MANY_OPERATIONS: usize = 100;

/// What one thread counted of one operation. Instants are 0 where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub samples: u64,
    pub operations: u64,
    pub bytes: u64,
    pub begin: u64,
    pub end: u64,
    pub least: u64,
    pub greatest: u64,
    pub failures: u64,
    pub failure_reason: Option<String>,
    pub timeouts: u64,
    pub lost: u64,
    pub late: u64,
    pub duplicates: u64,
    pub would_block: u64,
}

impl Counts {
    /// An operation was done.
    #[inline]
    pub(super) fn completed(&mut self, begin: u64, end: u64, bytes: u64) {
        let time = end.saturating_sub(begin);
        if self.operations == 0 {
            (self.begin, self.least) = (begin, time);
        }
        self.operations += 1;
        self.bytes += bytes;
        self.end = end;
        self.least = self.least.min(time);
        self.greatest = self.greatest.max(time);
    }

    /// An operation was cut by the end of its transaction: it does not count, but was there until then.
    #[inline]
    pub(super) fn cut(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    fn add(&mut self, other: &Counts) {
        self.end = self.end.max(other.end);
        if other.operations > 0 {
            let first = self.operations == 0;
            self.begin = if first { other.begin } else { self.begin.min(other.begin) };
            self.least = if first { other.least } else { self.least.min(other.least) };
            self.greatest = self.greatest.max(other.greatest);
        }
        self.samples += other.samples;
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.failures += other.failures;
        if self.failure_reason.is_none() {
            self.failure_reason.clone_from(&other.failure_reason);
        }
        self.timeouts += other.timeouts;
        self.lost += other.lost;
        self.late += other.late;
        self.duplicates += other.duplicates;
        self.would_block += other.would_block;
    }
}

/// What one thread counted of one transaction.
#[derive(Clone, Debug, Default)]
pub(super) struct Passage {
    /// When it began; 0: it has not.
    pub begin: u64,
    pub done: bool,
    pub iterations: u64,
    pub levelling: u64,
    pub missed: u64,
    pub operations: Vec<Counts>,
}

impl Passage {
    pub(super) fn of(transaction: &Transaction) -> Self {
        Passage { operations: vec![Counts::default(); transaction.operations.len()], ..Passage::default() }
    }
}

/// Histograms of one transaction.
pub(super) struct Recorders {
    pub service: Recorder,
    /// Response time and lateness, where a rate is kept.
    pub paced: Option<(Recorder, Recorder)>,
    /// Time of each operation; time of each sample where that is another.
    pub operations: Vec<(Recorder, Option<Recorder>)>,
}

impl Recorders {
    fn of(transaction: &Transaction, is_shared: bool) -> Self {
        let recorder = || Recorder::of(is_shared);
        let of_operation = |times: u64| (recorder(), (times > 1).then(recorder));
        Recorders {
            service: recorder(),
            paced: transaction.paces().then(|| (recorder(), recorder())),
            operations: transaction
                .operations
                .iter()
                .map(|operation| of_operation(operation.times()))
                .collect(),
        }
    }
}

#[derive(Default)]
struct Sums {
    begin: u64,
    threads_done: u32,
    passage: Passage,
}

struct TransactionTally {
    shards: Vec<Recorders>,
    sums: Mutex<Sums>,
}

/// Counters of a script.
pub(super) struct Tally {
    /// By group and transaction.
    groups: Vec<Vec<TransactionTally>>,
}

impl Tally {
    pub(super) fn new(script: &Script, cpus: usize) -> Self {
        let operations: usize =
            script.transactions().map(|(_, _, transaction)| transaction.operations.len()).sum();
        let threads: usize = script.groups.iter().map(|group| group.threads as usize).sum();
        let most = match operations {
            _ if operations * threads <= MOST_ALONE => usize::MAX,
            _ if operations > MANY_OPERATIONS => 1,
            _ => cpus.clamp(1, MOST_SHARDS),
        };
        let tally = |transaction: &Transaction, threads: u32| {
            let (threads, shards) = (threads as usize, most.min(threads as usize));
            TransactionTally {
                shards: (0..shards).map(|_| Recorders::of(transaction, shards < threads)).collect(),
                sums: Mutex::new(Sums { passage: Passage::of(transaction), ..Sums::default() }),
            }
        };
        let groups = script.groups.iter();
        let groups = groups
            .map(|group| group.transactions.iter().map(|each| tally(each, group.threads)).collect())
            .collect();
        Tally { groups }
    }

    /// Where a thread, by its number in the group, records its times.
    pub(super) fn recorders(&self, group: usize, transaction: usize, thread: usize) -> &Recorders {
        let shards = &self.groups[group][transaction].shards;
        &shards[thread % shards.len()]
    }

    /// Adds what a thread counted.
    pub(super) fn add(&self, group: usize, transaction: usize, passage: &Passage) {
        let mut sums = locked(&self.groups[group][transaction].sums);
        if passage.begin > 0 && (sums.begin == 0 || passage.begin < sums.begin) {
            sums.begin = passage.begin;
        }
        sums.threads_done += u32::from(passage.done);
        sums.passage.iterations += passage.iterations;
        sums.passage.levelling += passage.levelling;
        sums.passage.missed += passage.missed;
        for (sum, counts) in sums.passage.operations.iter_mut().zip(&passage.operations) {
            sum.add(counts);
        }
    }

    /// Whether every thread came to the end of every transaction.
    pub(super) fn is_complete(&self, script: &Script) -> bool {
        script.groups.iter().zip(&self.groups).all(|(group, tallies)| {
            tallies.iter().all(|tally| locked(&tally.sums).threads_done == group.threads)
        })
    }

    /// Account of everything that was added.
    pub(super) fn account(&self, script: &Script) -> Vec<GroupAccount> {
        let of_group =
            |(group, tallies): (&iodyno_core::script::Group, &Vec<TransactionTally>)| GroupAccount {
                name: group.name.clone(),
                threads: group.threads,
                transactions: group
                    .transactions
                    .iter()
                    .zip(tallies)
                    .map(|(transaction, tally)| tally.account(transaction))
                    .collect(),
            };
        script.groups.iter().zip(&self.groups).map(of_group).collect()
    }
}

impl TransactionTally {
    fn histogram<'a>(&'a self, which: impl Fn(&'a Recorders) -> &'a Recorder) -> Histogram {
        Snapshot::of(self.shards.iter().map(which)).since(&Snapshot::default())
    }

    /// A histogram that not every transaction or operation has.
    fn histogram_where_kept<'a>(
        &'a self,
        which: impl Fn(&'a Recorders) -> Option<&'a Recorder>,
    ) -> Option<Histogram> {
        let kept: Vec<&Recorder> = self.shards.iter().filter_map(which).collect();
        (!kept.is_empty()).then(|| Snapshot::of(kept).since(&Snapshot::default()))
    }

    fn account(&self, transaction: &Transaction) -> TransactionAccount {
        let sums = locked(&self.sums);
        let instant = |ns: u64| (ns > 0).then_some(Nanos(ns));
        let operations = transaction.operations.iter().zip(&sums.passage.operations).enumerate();
        let operations = operations.map(|(index, (operation, counts))| {
            let some = counts.operations > 0;
            OperationAccount {
                samples: counts.samples,
                operations: counts.operations,
                bytes: Bytes(counts.bytes),
                begin_ns: some.then_some(Nanos(counts.begin)),
                end_ns: some.then_some(Nanos(counts.end)),
                time: self.histogram(|shard| &shard.operations[index].0),
                least_ns: some.then_some(Nanos(counts.least)),
                greatest_ns: some.then_some(Nanos(counts.greatest)),
                sample_time: self.histogram_where_kept(|shard| shard.operations[index].1.as_ref()),
                failures: counts.failures,
                failure_reason: counts.failure_reason.clone(),
                timeouts: counts.timeouts,
                lost: counts.lost,
                late: counts.late,
                duplicates: counts.duplicates,
                would_block: counts.would_block,
                ..OperationAccount::new(operation.call, &operation.label)
            }
        });
        TransactionAccount {
            begin_ns: instant(sums.begin),
            end_ns: instant(sums.passage.operations.iter().map(|counts| counts.end).max().unwrap_or(0)),
            threads_done: sums.threads_done,
            iterations: sums.passage.iterations,
            levelling_iterations: sums.passage.levelling,
            missed_iterations: sums.passage.missed,
            service_time: self.histogram(|shard| &shard.service),
            response_time: self.histogram_where_kept(|shard| shard.paced.as_ref().map(|paced| &paced.0)),
            lateness: self.histogram_where_kept(|shard| shard.paced.as_ref().map(|paced| &paced.1)),
            operations: operations.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_core::script::{Call, FlowOp, Group, Until};
    use std::collections::BTreeSet;

    #[test]
    fn counts_of_threads_add_up_and_keep_the_extremes() {
        let (mut one, mut two, mut sum) = (Counts::default(), Counts::default(), Counts::default());
        one.completed(100, 150, 10);
        one.completed(150, 400, 10);
        two.completed(50, 60, 5);
        two.failure_reason = Some("reset".to_owned());
        [&one, &two, &Counts::default()].into_iter().for_each(|counts| sum.add(counts));
        let found = (sum.operations, sum.bytes, sum.begin, sum.end, sum.least, sum.greatest);
        assert_eq!(found, (3, 25, 50, 400, 10, 250));
        assert_eq!(sum.failure_reason.as_deref(), Some("reset"));
    }

    #[test]
    fn few_threads_have_histograms_of_their_own_and_many_share_some() {
        let operations = vec![FlowOp::new(Call::Nop, "nop")];
        let nop = Transaction { until: Until::Iterations { iterations: 1 }, rate: None, operations };
        let shards = |threads| {
            let group = Group { name: String::new(), threads, transactions: vec![nop.clone()] };
            let tally = Tally::new(&Script { groups: vec![group] }, 2);
            (0..threads as usize)
                .map(|at| std::ptr::from_ref(tally.recorders(0, 0, at)))
                .collect::<BTreeSet<_>>()
                .len()
        };
        assert_eq!((shards(16), shards(256), shards(257)), (16, 256, 2));
    }

    #[test]
    fn what_was_cut_is_in_the_time_and_not_in_the_counts() {
        let (mut cut, mut sum) = (Counts::default(), Counts::default());
        cut.cut(700);
        sum.add(&cut);
        assert_eq!((sum.operations, sum.begin, sum.end, sum.greatest), (0, 0, 700, 0));
    }
}
