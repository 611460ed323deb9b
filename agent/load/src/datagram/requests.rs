//! The requests in flight on one flow: which answer belongs to which, which are overdue, what became of them.
//!
//! Each of the `queue_depth` places has sequence numbers of its own, `place + n * queue_depth`, so that an answer
//! finds its request without a search, and an old answer is told from the one that is waited for.

/// chosen: of so many earlier requests of a place it is known whether they were lost, which tells a late answer from
/// a second one; an answer to an older one counts as late.
const REMEMBERED: u64 = u64::BITS as u64;

/// A place for one request.
#[derive(Clone, Copy)]
struct Place {
    /// Sequence number of the request in flight, or of the next one.
    sequence: u64,
    /// When it was first sent; 0: none is in flight.
    begun: u64,
    /// When it was to be sent.
    due: u64,
    /// When it was last sent.
    sent: u64,
    /// How long it is.
    bytes: u64,
    /// How often it was sent again.
    retries: u32,
    /// One bit for each of the requests before, the last one lowest: whether it was lost.
    lost: u64,
}

/// What an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// That to a request in flight, which was first sent then, and was to be sent then.
    Awaited { begun: u64, due: u64 },
    /// It came after its request was counted as lost.
    Late,
    /// Its request was answered before.
    Duplicate,
    /// Its request was never made.
    Never,
}

/// What is to be done about a request that is overdue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// It is to be sent again under this number, so long.
    Again(u64, u64),
    /// It is lost.
    Lost,
}

/// The requests of a flow.
pub(crate) struct Requests {
    places: Box<[Place]>,
    /// Places without a request, the last one to be used first.
    free: Vec<u32>,
    timeout: u64,
    retries: u32,
    /// No request is overdue before.
    look_at: u64,
    /// How far a look at all places has come, and when the earliest of those seen will be overdue.
    looked: usize,
    earliest: u64,
    /// Requests made, the same one again not counted.
    made: u64,
}

impl Requests {
    /// Up to `queue_depth` at a time; each is sent again up to `retries` times, after `timeout` nanoseconds each time.
    pub(crate) fn new(queue_depth: u32, timeout: u64, retries: u32) -> Self {
        let place =
            |at| Place { sequence: u64::from(at), begun: 0, due: 0, sent: 0, bytes: 0, retries: 0, lost: 0 };
        Requests {
            places: (0..queue_depth).map(place).collect(),
            free: (0..queue_depth).rev().collect(),
            timeout,
            retries,
            look_at: u64::MAX,
            looked: 0,
            earliest: u64::MAX,
            made: 0,
        }
    }

    /// How many more may be made.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.free.len()
    }

    /// Whether any is in flight.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.free.len() < self.places.len()
    }

    /// How many were made, the same one again not counted.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    /// No request is overdue before then.
    #[inline]
    pub(crate) fn look_at(&self) -> u64 {
        self.look_at
    }

    /// The number of the request of `bytes` that is begun `now` and was to begin when it was `due`; `None`: there is no
    /// room.
    #[inline]
    pub(crate) fn begin(&mut self, now: u64, due: u64, bytes: u64) -> Option<u64> {
        let at = self.free.pop()?;
        let place = &mut self.places[at as usize];
        // 0 stands for none.
        place.begun = now.max(1);
        place.due = due;
        place.sent = now;
        place.bytes = bytes;
        place.retries = 0;
        self.made += 1;
        let overdue = now.saturating_add(self.timeout);
        self.look_at = self.look_at.min(overdue);
        self.earliest = self.earliest.min(overdue);
        Some(place.sequence)
    }

    /// The kernel did not take the request with this number: it was not made.
    pub(crate) fn take_back(&mut self, sequence: u64) {
        let at = (sequence % self.places.len() as u64) as u32;
        self.places[at as usize].begun = 0;
        self.free.push(at);
        self.made -= 1;
    }

    /// An answer came.
    #[inline]
    pub(crate) fn answered(&mut self, sequence: u64) -> Answered {
        let step = self.places.len() as u64;
        let at = (sequence % step) as u32;
        let place = &mut self.places[at as usize];
        if place.begun != 0 && place.sequence == sequence {
            let (begun, due) = (place.begun, place.due);
            place.end(step, false);
            self.free.push(at);
            return Answered::Awaited { begun, due };
        }
        if sequence >= place.sequence {
            return Answered::Never;
        }
        let age = (place.sequence - sequence) / step;
        if age > REMEMBERED || place.lost >> (age - 1) & 1 == 1 {
            Answered::Late
        } else {
            Answered::Duplicate
        }
    }

    /// A request that is overdue `now`; `None`: none, or none any more. To be asked again until then.
    pub(crate) fn overdue(&mut self, now: u64) -> Option<Overdue> {
        if now < self.look_at {
            return None;
        }
        let (step, timeout) = (self.places.len() as u64, self.timeout);
        if self.looked == 0 {
            self.earliest = u64::MAX;
        }
        // It goes on where the last question left off: a look at all places for each of them would be the square.
        while let Some(place) = self.places.get_mut(self.looked) {
            let at = self.looked as u32;
            self.looked += 1;
            if place.begun == 0 {
                continue;
            }
            let due = place.sent.saturating_add(timeout);
            if due > now {
                self.earliest = self.earliest.min(due);
            } else if place.retries < self.retries {
                place.retries += 1;
                place.sent = now;
                self.earliest = self.earliest.min(now.saturating_add(timeout));
                return Some(Overdue::Again(place.sequence, place.bytes));
            } else {
                place.end(step, true);
                self.free.push(at);
                return Some(Overdue::Lost);
            }
        }
        self.look_at = self.earliest;
        self.looked = 0;
        None
    }

    /// Gives every request up; how many there were.
    pub(crate) fn give_up(&mut self) -> u64 {
        let step = self.places.len() as u64;
        let mut lost = 0;
        for (at, place) in (0..).zip(self.places.iter_mut()).filter(|(_, place)| place.begun != 0) {
            place.end(step, true);
            self.free.push(at);
            lost += 1;
        }
        self.look_at = u64::MAX;
        lost
    }
}

impl Place {
    #[inline]
    fn end(&mut self, step: u64, lost: bool) {
        self.begun = 0;
        self.sequence += step;
        self.lost = self.lost << 1 | u64::from(lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_finds_its_request_once() {
        let mut requests = Requests::new(3, 100, 0);
        let numbers: Vec<u64> = (1..=3).map(|now| requests.begin(now, now, 64).unwrap()).collect();
        assert_eq!((requests.begin(4, 4, 64), requests.room()), (None, 0));
        assert_eq!(requests.answered(numbers[1]), Answered::Awaited { begun: 2, due: 2 });
        assert_eq!(requests.answered(numbers[1]), Answered::Duplicate);
        assert_eq!(requests.answered(999), Answered::Never);
        let next = requests.begin(10, 10, 64).unwrap();
        assert!(!numbers.contains(&next));
        assert_eq!(requests.answered(numbers[1]), Answered::Duplicate);
        assert_eq!(requests.answered(next), Answered::Awaited { begun: 10, due: 10 });
        assert_eq!((requests.made(), requests.any()), (4, true));
        assert_eq!((requests.give_up(), requests.any()), (2, false));
    }

    #[test]
    fn an_overdue_request_is_sent_again_and_then_lost_and_its_answer_late() {
        let mut requests = Requests::new(2, 100, 1);
        let (first, second) = (requests.begin(1, 1, 64).unwrap(), requests.begin(50, 50, 64).unwrap());
        assert_eq!(requests.overdue(100), None);
        assert_eq!(requests.overdue(101), Some(Overdue::Again(first, 64)));
        assert_eq!((requests.overdue(101), requests.look_at()), (None, 150));
        assert_eq!(requests.answered(second), Answered::Awaited { begun: 50, due: 50 });
        assert_eq!(requests.overdue(150), None);
        // Sent again: its service time still counts from the first sending.
        assert_eq!(requests.overdue(201), Some(Overdue::Lost));
        assert_eq!(requests.overdue(10_000), None);
        assert_eq!(requests.answered(first), Answered::Late);
        assert!(!requests.any());
        for round in 0..70 {
            let number = requests.begin(20_000 + round, 20_000 + round, 64).unwrap();
            requests.answered(number);
        }
        assert_eq!(requests.answered(first), Answered::Late);
    }

    #[test]
    fn a_request_that_the_kernel_refused_was_not_made() {
        let mut requests = Requests::new(1, 100, 0);
        let number = requests.begin(5, 5, 64).unwrap();
        requests.take_back(number);
        assert_eq!((requests.made(), requests.any()), (0, false));
        assert_eq!(requests.begin(6, 6, 64), Some(number));
    }
}
