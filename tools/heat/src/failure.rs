//! What a user can do something about.

use std::fmt;
use std::io;

/// What is wrong, where, and what to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// What is wrong.
    pub what: String,
    /// Where: a file, a line; or empty.
    pub place: String,
    /// What to try; or empty.
    pub advice: String,
}

impl Mistake {
    /// A mistake whose place is said by whoever knows it.
    #[must_use]
    pub fn new(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Mistake { what: what.into(), place: String::new(), advice: advice.into() }
    }

    /// The same with its place.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = place.into();
        self
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.what)?;
        if self.advice.is_empty() {
            return Ok(());
        }
        write!(f, "\n  try: {}", self.advice)
    }
}

/// Why there is no grid.
#[derive(Debug)]
pub enum Failure {
    /// The trace or an option is wrong.
    Mistake(Mistake),
    /// The machine refused.
    Machine(io::Error),
    /// Somebody asked to stop.
    Stopped,
}

impl From<Mistake> for Failure {
    fn from(mistake: Mistake) -> Self {
        Failure::Mistake(mistake)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Machine(error)
    }
}
