//! When neither end can go on: each waits for what the other one will not do before it.
//!
//! A thread that has waited for [`STALL`] for the other end tells it what for. Each then looks whether what it has
//! done already will end the other's wait, that is whether anything is still on its way; if not, it says so. Who
//! has said so and heard so is in a deadlock: nothing moves on its own, and neither will. So a slow network, or a
//! thread that pauses, is never taken for one.

use std::ops::Range;

use iodyno_core::units::Nanos;

/// chosen: how long a thread waits before it wonders. A deadlock is noticed in this and some round trips.
pub(super) const STALL: Nanos = Nanos(1_000_000_000);

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Bytes on a connection; so many have come.
    Take { connection: u32, so_far: u64 },
    /// Room to send on a connection.
    Give { connection: u32 },
    /// A connection that is opened; so many have been taken.
    Accept { connection: u32, so_far: u64 },
    /// Connections that were opened are to be accepted before there may be more.
    Connect { connection: u32 },
    /// Word of how many iterations the others make, at the end of a transaction's time.
    Level,
    /// The other threads, at the end of a transaction.
    Others,
}

/// A wait that has lasted for a while, and where in the script it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stall {
    /// Tells it from the thread's stalls before it.
    pub serial: u32,
    /// Transaction of the group, from 0.
    pub transaction: u32,
    /// Operation of the transaction, from 0.
    pub operation: u32,
    pub wait: Wait,
}

/// A wait that was told to the other end.
#[derive(Clone, Debug)]
pub(super) struct Announced {
    pub stall: Stall,
    /// Those that it was told to, who may end it.
    pub remotes: Range<usize>,
    /// By remote: the serial number of the other thread's stall that was found hopeless.
    pub judged: Vec<u32>,
}

/// That one end, while it is in a stall of its own, will not end a stall of the other end. Both by their serial numbers; 0:
/// none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Judgement {
    pub stall: u32,
    pub by: u32,
}

/// Whether the other end's stall will not end by what this end, whose stall is `own`, has done so far.
/// `sent` and `opened` say how many bytes this end has sent on a connection, and how many it has opened; `is_ahead`,
/// whether this end is in an iteration that the other end has not made and will make with it.
pub(super) fn is_hopeless(
    other: Stall,
    own: Stall,
    is_ahead: bool,
    sent: impl Fn(u32) -> u64,
    opened: impl Fn(u32) -> u64,
) -> bool {
    match other.wait {
        Wait::Take { connection, so_far } => sent(connection) <= so_far,
        Wait::Give { connection: full } => {
            !matches!(own.wait, Wait::Take { connection, .. } if connection == full)
        }
        Wait::Accept { connection, so_far } => opened(connection) <= so_far,
        Wait::Connect { connection: held } => {
            !matches!(own.wait, Wait::Accept { connection, .. } if connection == held)
        }
        // It waits for a third, which may be slow, where this end has told how many it makes.
        Wait::Level => !own.wait.is_at_end() && own.transaction <= other.transaction && !is_ahead,
        // Where both are at the end of the transaction they wait for other threads than each other; and who is past it
        // is not waited for there, but another thread or host, which may be slow.
        Wait::Others => !own.wait.is_at_end() && own.transaction <= other.transaction,
    }
}

impl Wait {
    /// Whether it is for all other ends, at the end of a transaction, and not about one operation.
    pub(super) fn is_at_end(self) -> bool {
        matches!(self, Wait::Level | Wait::Others)
    }

    /// For an error.
    pub(super) fn told(self) -> String {
        match self {
            Wait::Take { connection, so_far } => {
                format!("data on connection {connection} ({so_far} bytes have come)")
            }
            Wait::Give { connection } => format!("room to send on connection {connection}"),
            Wait::Accept { connection, .. } => format!("connection {connection} to be opened"),
            Wait::Connect { connection } => {
                format!("connection {connection}, opened many times, to be accepted")
            }
            Wait::Level | Wait::Others => "the other end, at the end of the transaction".to_owned(),
        }
    }

    /// As two numbers, to be sent.
    pub(super) fn numbers(self) -> (u64, u64) {
        let (kind, connection, so_far) = match self {
            Wait::Take { connection, so_far } => (1, connection, so_far),
            Wait::Give { connection } => (2, connection, 0),
            Wait::Accept { connection, so_far } => (3, connection, so_far),
            Wait::Connect { connection } => (4, connection, 0),
            Wait::Others => (5, 0, 0),
            Wait::Level => (6, 0, 0),
        };
        (kind << 32 | u64::from(connection), so_far)
    }

    /// Inverse of [`Wait::numbers`].
    pub(super) fn of(numbers: (u64, u64)) -> Option<Wait> {
        let (connection, so_far) = (numbers.0 as u32, numbers.1);
        Some(match numbers.0 >> 32 {
            1 => Wait::Take { connection, so_far },
            2 => Wait::Give { connection },
            3 => Wait::Accept { connection, so_far },
            4 => Wait::Connect { connection },
            5 => Wait::Others,
            6 => Wait::Level,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAKE: Wait = Wait::Take { connection: 1, so_far: 100 };
    const GIVE: Wait = Wait::Give { connection: 1 };
    const ACCEPT: Wait = Wait::Accept { connection: 1, so_far: 1 };

    fn stall(transaction: u32, wait: Wait) -> Stall {
        Stall { serial: 1, transaction, operation: 0, wait }
    }

    /// Both judge each other's wait in one transaction; whether it is a deadlock.
    fn deadlock(one: Wait, sent_by_one: u64, two: Wait, sent_by_two: u64) -> bool {
        let (one, two) = (stall(1, one), stall(1, two));
        is_hopeless(two, one, false, |_| sent_by_one, |_| sent_by_one)
            && is_hopeless(one, two, false, |_| sent_by_two, |_| sent_by_two)
    }

    #[test]
    fn both_reading_with_nothing_on_the_way_is_a_deadlock_and_with_something_it_is_not() {
        assert!(deadlock(TAKE, 100, TAKE, 100));
        assert!(!deadlock(TAKE, 101, TAKE, 100));
        assert!(!deadlock(TAKE, 100, TAKE, 300));
    }

    #[test]
    fn both_writing_or_both_accepting_or_one_done_is_a_deadlock() {
        assert!(deadlock(GIVE, 500, GIVE, 500));
        assert!(deadlock(ACCEPT, 1, ACCEPT, 1));
        assert!(deadlock(Wait::Others, 100, TAKE, 0));
        assert!(deadlock(Wait::Others, 0, GIVE, 0));
        assert!(deadlock(Wait::Connect { connection: 2 }, 1, ACCEPT, 64));
        assert!(!deadlock(Wait::Connect { connection: 1 }, 64, ACCEPT, 64));
    }

    #[test]
    fn a_stream_that_the_network_holds_up_is_none() {
        // One writes into a full buffer, the other reads: data is on its way.
        assert!(!deadlock(GIVE, 5_000, TAKE, 100));
        assert!(!deadlock(Wait::Others, 0, Wait::Others, 0));
        // What opened more than was accepted.
        assert!(!deadlock(TAKE, 2, ACCEPT, 100));
    }

    #[test]
    fn who_is_in_the_next_transaction_is_not_waited_for_at_the_end_of_the_one_before() {
        // A host that writes to one that still waits for a third.
        let (ahead, behind) = (stall(1, GIVE), stall(0, Wait::Others));
        assert!(!is_hopeless(behind, ahead, false, |_| 5_000, |_| 1));
        assert!(is_hopeless(stall(1, Wait::Others), ahead, false, |_| 5_000, |_| 1));
    }

    #[test]
    fn who_is_in_an_iteration_more_is_not_in_vain_while_a_third_is_asked_how_many_it_makes() {
        let (leader, follower) = (stall(1, Wait::Level), stall(1, TAKE));
        assert!(!is_hopeless(leader, follower, true, |_| 0, |_| 1));
        // It reads more in an iteration than the leader, who has made it, wrote.
        assert!(is_hopeless(leader, follower, false, |_| 0, |_| 1));
        assert!(!is_hopeless(leader, stall(1, Wait::Others), false, |_| 0, |_| 1));
    }

    #[test]
    fn a_wait_survives_being_sent() {
        for wait in [TAKE, GIVE, ACCEPT, Wait::Connect { connection: 7 }, Wait::Level, Wait::Others] {
            assert_eq!(Wait::of(wait.numbers()), Some(wait));
        }
        assert_eq!(Wait::of((9 << 32, 0)), None);
    }
}
