//! What a reading does not have, and why, as one sentence.

/// Most reasons that are spelled out; the others are counted.
const SPELLED_OUT: usize = 6;

/// Collects reasons.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    reasons: Vec<String>,
    more: usize,
}

impl Missing {
    /// One more reason; the same one twice in a row is one.
    pub fn add(&mut self, reason: impl Into<String>) {
        let reason = reason.into();
        if self.reasons.last() == Some(&reason) {
            return;
        }
        if self.reasons.len() < SPELLED_OUT {
            self.reasons.push(reason);
        } else {
            self.more += 1;
        }
    }

    /// One more reason, if there is one.
    pub fn add_any(&mut self, reason: Option<String>) {
        if let Some(reason) = reason {
            self.add(reason);
        }
    }

    /// All of them; `None` when nothing is missing.
    pub fn sentence(self) -> Option<String> {
        if self.reasons.is_empty() {
            return None;
        }
        let more = if self.more == 0 { String::new() } else { format!("; and {} more", self.more) };
        Some(self.reasons.join("; ") + &more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_told_once_and_not_without_end() {
        let mut missing = Missing::default();
        missing.add("no steal");
        missing.add("no steal");
        missing.add_any(None);
        assert_eq!(missing.sentence().unwrap(), "no steal");
        let mut missing = Missing::default();
        (0..9).for_each(|number| missing.add(number.to_string()));
        assert_eq!(missing.sentence().unwrap(), "0; 1; 2; 3; 4; 5; and 3 more");
        assert_eq!(Missing::default().sentence(), None);
    }
}
