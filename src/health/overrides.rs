//! What an operator says of origins and pools over their probes: disabled, forced, drained (health.md).
//! Names, not numbers: an override outlasts reloads and restarts, and waits for a pool that is not
//! there at the moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::config::decimal::Decimal;
use crate::state::State;
use crate::steer::availability::{Health, PoolOverride};
use crate::steer::pool::{OriginIndex, Pool, PoolId};
use crate::timestamp::show_time;

/// The most overrides that are kept.
pub const MAX_OVERRIDES: usize = 10_000;

/// What an override is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// The zone whose pool it is, with the final dot; none for a shared pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The pool.
    pub pool: String,
    /// The origin; none for the pool as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// What is said, in the order of precedence: an earlier word hides a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// As `enabled = false`.
    Disabled,
    /// Healthy, whatever the probes say; a pool is available while it has an eligible set.
    ForcedUp,
    /// Unhealthy, whatever the probes say; a pool is not available.
    ForcedDown,
    /// As weight 0; a pool is not available.
    Drained,
}

/// Who said it, when, why and for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// Until when, in seconds since 1970; none until it is lifted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// One override.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// Of what.
    #[serde(flatten)]
    pub subject: Subject,
    /// What is said of it.
    pub word: Word,
    /// Who, when, why.
    #[serde(flatten)]
    pub note: Note,
}

/// All overrides. Of each subject at most one word of each kind holds: disabled, forced, drained.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "File", into = "File")]
pub struct Overrides {
    words: BTreeMap<(Subject, Word), Note>,
}

/// The form in the state folder.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct File {
    overrides: Vec<Override>,
}

/// There are too many overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are {MAX_OVERRIDES} overrides already; lift some first")]
pub struct TooMany;

impl Overrides {
    /// Says something, in place of what was said of the same kind.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn set(&mut self, subject: Subject, word: Word, note: Note) -> Result<(), TooMany> {
        if self.words.len() >= MAX_OVERRIDES && !self.words.contains_key(&(subject.clone(), word)) {
            return Err(TooMany);
        }
        if let Some(other) = word.opposite() {
            self.words.remove(&(subject.clone(), other));
        }
        self.words.insert((subject, word), note);
        Ok(())
    }

    /// Lifts what was said of a subject: one word, or all. Gives what was lifted.
    pub fn lift(&mut self, subject: &Subject, word: Option<Word>) -> Vec<Override> {
        let goes = |other: &Subject, said: Word, _: &Note| {
            other == subject && word.is_none_or(|word| word == said)
        };
        self.remove(goes)
    }

    /// Forgets what is over by the clock. Gives what was lifted.
    pub fn expire(&mut self, now: SystemTime) -> Vec<Override> {
        let now = seconds(now);
        self.remove(|_, _, note| note.until.is_some_and(|until| until <= now))
    }

    fn remove(&mut self, goes: impl Fn(&Subject, Word, &Note) -> bool) -> Vec<Override> {
        let mut lifted = Vec::new();
        self.words.retain(|(subject, word), note| {
            let goes = goes(subject, *word, note);
            if goes {
                lifted.push(Override { subject: subject.clone(), word: *word, note: note.clone() });
            }
            !goes
        });
        lifted
    }

    /// All of them, by subject, what hides the others first.
    pub fn iter(&self) -> impl Iterator<Item = Override> + '_ {
        self.words.iter().map(|((subject, word), note)| Override {
            subject: subject.clone(),
            word: *word,
            note: note.clone(),
        })
    }

    /// The word that holds for a subject, if something was said of it.
    pub fn of(&self, subject: &Subject) -> Option<(Word, &Note)> {
        let first = (subject.clone(), Word::Disabled);
        let (of, note) = self.words.range(first..).next()?;
        (of.0 == *subject).then_some((of.1, note))
    }

    /// True if nothing is said.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Applies all to the pools of a state: gives them with what is disabled or drained, and forces the
    /// rest in `health`.
    pub fn apply(&self, state: &State, pools: &Arc<[Pool]>, health: &mut Health) -> Arc<[Pool]> {
        health.lift_all();
        if self.is_empty() {
            return Arc::clone(pools);
        }
        let mut pools: Vec<Pool> = pools.to_vec();
        for (id, pool) in (0u32..).map(PoolId).zip(&mut pools) {
            let mut subject = Subject::pool(state, id);
            match self.of(&subject).map(|(word, _)| word) {
                None => {}
                Some(Word::Disabled) => pool.enabled = false,
                Some(Word::ForcedUp) => health.override_pool(id, PoolOverride::ForcedUp),
                Some(Word::ForcedDown) => health.override_pool(id, PoolOverride::ForcedDown),
                Some(Word::Drained) => health.override_pool(id, PoolOverride::Drained),
            }
            for (index, origin) in (0u16..).map(OriginIndex).zip(&mut pool.origins) {
                subject.origin = Some(origin.name.clone());
                match self.of(&subject).map(|(word, _)| word) {
                    None => {}
                    Some(Word::Disabled) => origin.enabled = false,
                    Some(Word::ForcedUp) => health.force(id, index, true),
                    Some(Word::ForcedDown) => health.force(id, index, false),
                    Some(Word::Drained) => origin.weight = Decimal::ZERO,
                }
            }
        }
        pools.into()
    }
}

impl Subject {
    /// A pool as a whole.
    pub fn pool(state: &State, id: PoolId) -> Self {
        let zone = state.pool_zones.get(id.0 as usize).and_then(Option::as_ref);
        Self {
            zone: zone.map(|zone| zone.to_string().to_ascii_lowercase()),
            pool: state.pool_name(id).to_owned(),
            origin: None,
        }
    }
}

impl Word {
    /// As it is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::ForcedUp => "forced-up",
            Self::ForcedDown => "forced-down",
            Self::Drained => "drained",
        }
    }

    /// As it stands in a sentence.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::ForcedUp => "forced up",
            Self::ForcedDown => "forced down",
            Self::Drained => "drained",
        }
    }

    /// The word that cannot hold beside this one.
    fn opposite(self) -> Option<Self> {
        match self {
            Self::ForcedUp => Some(Self::ForcedDown),
            Self::ForcedDown => Some(Self::ForcedUp),
            Self::Disabled | Self::Drained => None,
        }
    }
}

impl Note {
    /// Who, until when and why, as they stand after a word: " by ada until 2026-11-30T14:05:00Z: why".
    pub fn in_words(&self) -> String {
        let by = self.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        let until = self.until.map(|until| format!(" until {}", show_time(until)));
        let why = self.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        format!("{by}{}{why}", until.unwrap_or_default())
    }

    /// Said now, for a time or until it is lifted.
    pub fn new(
        now: SystemTime,
        lasts: Option<Duration>,
        by: Option<String>,
        why: Option<String>,
    ) -> Self {
        let since = seconds(now);
        let until = lasts.map(|lasts| since.saturating_add(lasts.as_secs().max(1)));
        Self { by, why, since, until }
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl From<File> for Overrides {
    fn from(file: File) -> Self {
        let mut overrides = Self::default();
        for Override { subject, word, note } in file.overrides {
            if overrides.set(subject, word, note).is_err() {
                break;
            }
        }
        overrides
    }
}

impl From<Overrides> for File {
    fn from(overrides: Overrides) -> Self {
        Self { overrides: overrides.iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(origin: Option<&str>) -> Subject {
        Subject { zone: None, pool: "weu".to_owned(), origin: origin.map(str::to_owned) }
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn note(lasts: Option<u64>) -> Note {
        Note::new(at(100), lasts.map(Duration::from_secs), None, None)
    }

    #[test]
    fn the_first_by_precedence_holds() {
        let mut overrides = Overrides::default();
        let origin = subject(Some("ams-1"));
        let word = |overrides: &Overrides| overrides.of(&origin).map(|(word, _)| word);
        assert_eq!(word(&overrides), None);
        overrides.set(origin.clone(), Word::Drained, note(None)).unwrap();
        overrides.set(subject(None), Word::Disabled, note(None)).unwrap();
        assert_eq!(word(&overrides), Some(Word::Drained));
        overrides.set(origin.clone(), Word::ForcedUp, note(None)).unwrap();
        assert_eq!(word(&overrides), Some(Word::ForcedUp));
        overrides.set(origin.clone(), Word::ForcedDown, note(None)).unwrap();
        assert_eq!(word(&overrides), Some(Word::ForcedDown), "in place of forced up");
        overrides.set(origin.clone(), Word::Disabled, note(None)).unwrap();
        assert_eq!(word(&overrides), Some(Word::Disabled));
        assert_eq!(overrides.lift(&origin, Some(Word::Disabled)).len(), 1);
        assert_eq!(word(&overrides), Some(Word::ForcedDown), "what it hid");
        assert_eq!(overrides.lift(&origin, None).len(), 2);
        assert_eq!(word(&overrides), None);
        assert!(!overrides.is_empty(), "the pool's is another");
    }

    #[test]
    fn an_override_ends_by_the_clock() {
        let mut overrides = Overrides::default();
        overrides.set(subject(None), Word::Drained, note(Some(60))).unwrap();
        assert!(overrides.expire(at(159)).is_empty());
        assert_eq!(overrides.expire(at(160)).len(), 1);
        assert!(overrides.is_empty());
    }

    #[test]
    fn the_file_says_who_when_and_why() {
        let mut overrides = Overrides::default();
        let why = Some("new kernel".to_owned());
        let note = Note { by: Some("ada".to_owned()), why, ..note(Some(60)) };
        overrides.set(subject(Some("ams-1")), Word::Drained, note).unwrap();
        let text = serde_json::to_value(&overrides).unwrap();
        let wanted = serde_json::json!({"overrides": [{
            "pool": "weu", "origin": "ams-1", "word": "drained", "by": "ada", "why": "new kernel",
            "since": 100, "until": 160,
        }]});
        assert_eq!(text, wanted);
        assert_eq!(serde_json::from_value::<Overrides>(text).unwrap(), overrides);
    }
}
