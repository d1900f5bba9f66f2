//! What is known of the moment that is explained besides its health: what operators said, and what
//! the probes saw. It is shown in the reasons, and decides nothing.

use crate::health::overrides::{Overrides, Subject, Word};
use crate::steer::load_balancer::RttTolerance;
use crate::steer::pool::{OriginIndex, PoolId};
use crate::steer::rtt::RttTable;

/// What an operator said of a pool or an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The word.
    pub word: Word,
    /// The same with who, until when and why: "drained by ada: new kernel".
    pub text: String,
}

impl Said {
    /// What holds of a subject.
    pub(crate) fn among(overrides: &Overrides, subject: &Subject) -> Option<Self> {
        let (word, note) = overrides.of(subject)?;
        Some(Self { word, text: format!("{}{}", word.in_words(), note.in_words()) })
    }

    /// The text, if this is the word that was said.
    pub(super) fn of(said: Option<&Self>, word: Word) -> Option<&str> {
        said.filter(|said| said.word == word).map(|said| said.text.as_str())
    }
}

/// Where the facts of a moment come from.
pub trait Facts {
    /// What holds of a pool as a whole.
    fn said_of_pool(&self, pool: PoolId) -> Option<Said>;
    /// What holds of an origin.
    fn said_of_origin(&self, pool: PoolId, origin: OriginIndex) -> Option<Said>;
    /// What the probes say of an origin: "unhealthy for 3m: connection refused".
    fn probed(&self, pool: PoolId, origin: OriginIndex) -> Option<String>;
    /// True if nothing is probed, and health is what was assumed.
    fn is_assumed(&self) -> bool {
        false
    }
    /// The round-trip times that load balancers of this tolerance go by; none for those of the files.
    fn times(&self, tolerance: RttTolerance) -> Option<&RttTable>;
}

/// Nothing is known: the state is an assumed one.
#[derive(Clone, Copy, Debug)]
pub struct NoFacts;

impl Facts for NoFacts {
    fn is_assumed(&self) -> bool {
        true
    }

    fn said_of_pool(&self, _: PoolId) -> Option<Said> {
        None
    }

    fn said_of_origin(&self, _: PoolId, _: OriginIndex) -> Option<Said> {
        None
    }

    fn probed(&self, _: PoolId, _: OriginIndex) -> Option<String> {
        None
    }

    fn times(&self, _: RttTolerance) -> Option<&RttTable> {
        None
    }
}
