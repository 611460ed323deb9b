//! Numbers of datagrams: which one an operation sends, which ones it may take, and what one that comes means.
//!
//! | bytes | head of a datagram that has room for it, little-endian |
//! | --- | --- |
//! | 0..8 | mark of the connection and direction, drawn from the trial's token |
//! | 8..14 | number: how many datagrams come before it on the connection, in this direction and transaction, by the script |
//! | 14..16 | transaction of the group, from 0 |
//!
//! The number is that of a place in the script, not of a send: so both ends agree on it also after one of them has given
//! something up. Between two sends of an end the order of what it takes does not matter: those numbers are its *run*. One
//! that lies behind the run says that the other end has gone on without what is missing, and awaits no answer to it.

use std::ops::Range;

use iodyno_core::script::{FlowOp, Size, Transaction};

use crate::datagram::sequence::{Arrival, Sequence};

/// Length of a head.
pub(super) const HEAD_BYTES: usize = 16;
const NUMBER_BITS: u32 = 48;
/// chosen: of so many times 64 numbers it is known whether they came: reordering by 40 ms at 100 000 a second.
const WORDS: usize = 64;

/// Where a thread is in its script.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub transaction: usize,
    pub operation: usize,
    /// Iteration of the transaction.
    pub iteration: u64,
    /// Repetition of the operation in the iteration.
    pub repetition: u64,
}

/// The head of one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub transaction: usize,
    pub number: u64,
}

impl Head {
    #[inline]
    pub(super) fn bytes(self, mark: u64) -> [u8; HEAD_BYTES] {
        let number = (self.transaction as u64) << NUMBER_BITS | self.number & ((1 << NUMBER_BITS) - 1);
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&mark.to_le_bytes());
        bytes[8..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    /// `None`: it is none of this connection's.
    #[inline]
    pub(super) fn of(datagram: &[u8], mark: u64) -> Option<Head> {
        let (shown, rest) = datagram.split_first_chunk::<8>()?;
        let number = u64::from_le_bytes(*rest.first_chunk::<8>()?);
        let head =
            Head { transaction: (number >> NUMBER_BITS) as usize, number: number & ((1 << NUMBER_BITS) - 1) };
        (u64::from_le_bytes(*shown) == mark).then_some(head)
    }
}

/// Where the datagrams of an operation stand among all of its connection and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Course {
    /// Of an iteration: those before it, and all.
    before: u64,
    each: u64,
    /// Of one that takes: those that are taken between the last send on the connection and it, and between it and the next
    /// send. Absent: this end never sends on it.
    run: Option<(u64, u64)>,
    /// Whether a datagram that is taken on the connection may have no room for a head.
    pub shorts: bool,
    /// Whether it begins an exchange: it sends before anything is taken on the connection, of which something is.
    pub asks: bool,
    /// The first operation that takes on its connection.
    pub answer: usize,
}

impl Course {
    /// Those of a transaction's operations.
    pub(super) fn of(transaction: &Transaction) -> Vec<Course> {
        let operations = &transaction.operations;
        (0..operations.len()).map(|index| Course::of_one(operations, index)).collect()
    }

    fn of_one(operations: &[FlowOp], index: usize) -> Course {
        let own = &operations[index];
        if !own.call.sends() && !own.call.takes() {
            return Course::default();
        }
        let moves = |each: &&FlowOp| {
            (each.connection, each.remote) == (own.connection, own.remote)
                && (each.call.sends() || each.call.takes())
        };
        let times = |operations: &[FlowOp]| -> u64 {
            let alike = operations.iter().filter(moves).filter(|each| each.call.sends() == own.call.sends());
            alike.map(FlowOp::times).fold(0, u64::saturating_add)
        };
        let is_sent = |each: &FlowOp| moves(&each) && each.call.sends();
        let (earlier, later) = (&operations[..index], &operations[index + 1..]);
        let run = (own.call.takes() && operations.iter().any(is_sent)).then(|| {
            // Around the end of the iteration, up to a send in either direction.
            let before = match earlier.iter().rposition(is_sent) {
                Some(send) => times(&earlier[send..]),
                None => {
                    let from = later.iter().rposition(is_sent).unwrap_or(0);
                    times(earlier).saturating_add(times(&later[from..]))
                }
            };
            let after = match later.iter().position(is_sent) {
                Some(send) => times(&later[..send]),
                None => {
                    let to = earlier.iter().position(is_sent).unwrap_or(0);
                    times(later).saturating_add(times(&earlier[..to]))
                }
            };
            (before, after)
        });
        let takes = || operations.iter().filter(moves).filter(|each| each.call.takes());
        let answer = operations.iter().position(|each| moves(&each) && each.call.takes());
        Course {
            before: times(earlier),
            each: times(operations),
            run,
            shorts: takes().any(|each| least(each) < HEAD_BYTES as u64),
            asks: own.call.sends() && answer.is_some() && !earlier.iter().any(|each| moves(&each)),
            answer: answer.unwrap_or(0),
        }
    }

    /// Number of the datagram of an operation at this place.
    #[inline]
    pub(super) fn number(&self, place: &Place) -> u64 {
        place.iteration.wrapping_mul(self.each).wrapping_add(self.before).wrapping_add(place.repetition)
    }

    /// Numbers that an operation of `times` repetitions may take at this place.
    #[inline]
    pub(super) fn run(&self, place: &Place, times: u64) -> Range<u64> {
        let Some((before, after)) = self.run else { return 0..u64::MAX };
        let begin = self.number(place).wrapping_sub(place.repetition);
        begin.saturating_sub(before)..begin.saturating_add(times).saturating_add(after)
    }
}

fn least(operation: &FlowOp) -> u64 {
    match operation.size {
        Some(Size::Fixed { bytes }) => bytes.0,
        Some(Size::Uniform { least_bytes, .. }) => least_bytes.0,
        None => 0,
    }
}

/// What a datagram that has come means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It is one of those that are awaited.
    Awaited,
    /// The other end has gone on without what is awaited.
    Ahead,
    /// It came before.
    Duplicate,
    /// It was given up.
    Late,
}

/// What has come on a connection in a transaction.
#[derive(Default)]
pub(super) struct Came {
    numbers: Sequence<WORDS>,
    /// Everything below it came or was given up.
    floor: u64,
}

impl Came {
    /// Number `number` has come, while those of `run` are awaited.
    #[inline]
    pub(super) fn judge(&mut self, number: u64, run: &Range<u64>) -> Meaning {
        match self.numbers.arrive(number) {
            Arrival::Duplicate => Meaning::Duplicate,
            Arrival::Late => Meaning::Late,
            Arrival::New { .. } if number < run.start.max(self.floor) => Meaning::Late,
            Arrival::New { .. } if number >= run.end => Meaning::Ahead,
            Arrival::New { .. } => Meaning::Awaited,
        }
    }

    /// One of `run` was waited for too long: it is the first that is missing.
    pub(super) fn give_up(&mut self, run: &Range<u64>) {
        self.floor = self.numbers.first_missing(run.start.max(self.floor)).saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_core::script::{Call, Until};
    use iodyno_core::units::Bytes;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn transaction(calls: &[(Call, u32, u64)]) -> Transaction {
        let operation = |(call, connection, count): &(Call, u32, u64)| FlowOp {
            connection: *connection,
            count: *count,
            size: Some(Size::Fixed { bytes: Bytes(100) }),
            ..FlowOp::new(*call, "")
        };
        let operations = calls.iter().map(operation).collect();
        Transaction { until: Until::Iterations { iterations: 1 }, rate: None, operations }
    }

    fn place(iteration: u64, operation: usize, repetition: u64) -> Place {
        Place { transaction: 0, operation, iteration, repetition }
    }

    #[test]
    fn what_one_end_sends_at_a_place_is_what_the_other_takes_there() {
        use Call::{Nop, Read, Recv, Send, Write};
        let near = transaction(&[(Write, 0, 3), (Read, 1, 1), (Nop, 0, 1), (Read, 0, 2), (Send, 0, 1)]);
        let far = transaction(&[(Read, 0, 3), (Write, 1, 1), (Nop, 0, 1), (Write, 0, 2), (Recv, 0, 1)]);
        let (near, far) = (Course::of(&near), Course::of(&far));
        for (operation, times) in [(0, 3), (1, 1), (3, 2), (4, 1)] {
            for at in
                (0..4).flat_map(|iteration| (0..times).map(move |each| place(iteration, operation, each)))
            {
                assert_eq!(near[operation].number(&at), far[operation].number(&at));
            }
        }
        assert_eq!(near[0].number(&place(2, 0, 1)), 2 * 4 + 1);
        assert_eq!(near[4].number(&place(2, 4, 0)), 2 * 4 + 3);
        // The last take of an iteration and the first ones of the next have no send between them.
        assert_eq!(far[4].run(&place(1, 4, 0), 1), 7..11);
        assert_eq!(far[0].run(&place(2, 0, 2), 3), 7..11);
        assert_eq!(far[0].run(&place(0, 0, 0), 3), 0..3);
        assert_eq!(near[3].run(&place(5, 3, 1), 2), 10..12);
        // Of what is never sent on, order does not matter at all.
        assert_eq!(near[1].run(&place(5, 1, 0), 1), 0..u64::MAX);
        assert!(near[0].asks && !near[4].asks && !far[3].asks && !far[1].asks);
    }

    #[test]
    fn what_comes_twice_or_after_it_was_given_up_is_not_taken_for_another() {
        let mut answers = Came::default();
        assert_eq!(answers.judge(0, &(0..1)), Meaning::Awaited);
        assert_eq!(answers.judge(0, &(1..2)), Meaning::Duplicate);
        answers.give_up(&(1..2));
        assert_eq!(answers.judge(1, &(2..3)), Meaning::Late);
        assert_eq!(answers.judge(1, &(2..3)), Meaning::Duplicate);
        // Request 3 comes where 2 is awaited: 2 is not answered any more.
        assert_eq!(answers.judge(3, &(2..3)), Meaning::Ahead);
        assert_eq!(answers.judge(2, &(3..4)), Meaning::Late);
    }

    #[test]
    fn of_a_stream_the_first_that_is_missing_is_given_up_and_the_order_does_not_matter() {
        let (mut stream, all) = (Came::default(), 0..u64::MAX);
        for number in [0, 3, 1, 5] {
            assert_eq!(stream.judge(number, &all), Meaning::Awaited);
        }
        stream.give_up(&all);
        assert_eq!(stream.judge(2, &all), Meaning::Late);
        assert_eq!(stream.judge(4, &all), Meaning::Awaited);
        stream.give_up(&all);
        stream.give_up(&all);
        assert_eq!(
            [6, 7, 8].map(|number| stream.judge(number, &all)),
            [Meaning::Late, Meaning::Late, Meaning::Awaited]
        );
    }

    proptest! {
        #[test]
        fn of_a_stream_each_that_came_is_taken_once(
            order in Just((0u64..600).collect::<Vec<_>>()).prop_shuffle(), lost in prop::collection::btree_set(0u64..600, 0..300),
            again in prop::collection::vec(any::<bool>(), 600),
        ) {
            let (mut stream, mut taken, mut duplicates) = (Came::default(), BTreeSet::new(), 0);
            let came = || order.iter().copied().filter(|number| !lost.contains(number));
            for number in came().chain(came().filter(|number| again[*number as usize])) {
                match stream.judge(number, &(0..u64::MAX)) {
                    Meaning::Awaited => prop_assert!(taken.insert(number)),
                    Meaning::Duplicate => duplicates += 1,
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            prop_assert_eq!(taken.len(), 600 - lost.len());
            prop_assert_eq!(duplicates, came().filter(|number| again[*number as usize]).count());
        }

        #[test]
        fn a_head_is_read_as_it_was_written_and_only_with_its_mark(
            transaction in 0usize..65_536, number in 0u64..1 << 48, mark in any::<u64>(), flip in 0usize..64, length in 0usize..16,
        ) {
            let head = Head { transaction, number };
            let bytes = head.bytes(mark);
            prop_assert_eq!(Head::of(&bytes, mark), Some(head));
            prop_assert_eq!(Head::of(&bytes, mark ^ 1 << flip), None);
            prop_assert_eq!(Head::of(&bytes[..length], mark), None);
        }
    }
}
