//! What operators say of pools and origins: listed, said and lifted.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::admin::error::{Document, Refusal};
use crate::admin::{Body, Service, blocking, read};
use crate::config::duration::parse_duration;
use crate::health::overrides::{Note, Override, Subject, Word};
use crate::scope::{FindError, Found, Scope};
use crate::state::State as Configuration;
use crate::timestamp::{parse_time, show_time};

/// The longest time that something can be said for.
const LONGEST: Duration = Duration::from_secs(36_525 * 86_400);
/// How many characters a reason may have.
const LONGEST_TEXT: usize = 1000;

/// An override, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The zone of the pool; none for a shared one.
    pub zone: Option<String>,
    /// The pool.
    pub pool: String,
    /// The origin; none for the pool as a whole.
    pub origin: Option<String>,
    /// What is said of it.
    #[serde(flatten)]
    pub said: ShownWord,
}

/// What is said, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownWord {
    /// `disabled`, `forced-up`, `forced-down` or `drained`.
    pub word: Word,
    /// Who said it.
    pub by: Option<String>,
    /// Why.
    pub why: Option<String>,
    /// Since when.
    pub since: String,
    /// Until when; none until it is lifted.
    pub until: Option<String>,
}

impl ShownWord {
    pub(super) fn new(word: Word, note: &Note) -> Self {
        Self {
            word,
            by: note.by.clone(),
            why: note.why.clone(),
            since: show_time(note.since),
            until: note.until.map(show_time),
        }
    }
}

impl From<Override> for Shown {
    fn from(said: Override) -> Self {
        let Override { subject: Subject { zone, pool, origin }, word, note } = said;
        Self { zone, pool, origin, said: ShownWord::new(word, &note) }
    }
}

/// The list of overrides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Listed {
    /// All that was said and holds.
    pub overrides: Vec<Shown>,
}

/// What came of a change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Changed {
    /// What was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<Shown>,
    /// What was lifted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifted: Option<Vec<Shown>>,
    /// Whether the state folder has it, so that it outlasts a restart.
    pub kept: bool,
    /// What that means if not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl Changed {
    fn new(said: Option<Shown>, lifted: Option<Vec<Shown>>, kept: bool) -> Self {
        let warning =
            "the state folder cannot be written: this holds now, and a restart forgets it";
        Self { said, lifted, kept, warning: (!kept).then(|| warning.to_owned()) }
    }
}

/// What is meant: `subject` as ORIGIN, POOL/ORIGIN or POOL, or `pool` and perhaps `origin`.
#[derive(Debug, Deserialize)]
struct Meant {
    subject: Option<String>,
    pool: Option<String>,
    origin: Option<String>,
    zone: Option<String>,
}

/// Something to be said.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToSay {
    subject: Option<String>,
    pool: Option<String>,
    origin: Option<String>,
    zone: Option<String>,
    word: Word,
    #[serde(rename = "for")]
    lasts: Option<String>,
    until: Option<String>,
    why: Option<String>,
    by: Option<String>,
}

/// Something to be lifted: one word, or all.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToLift {
    subject: Option<String>,
    pool: Option<String>,
    origin: Option<String>,
    zone: Option<String>,
    word: Option<Word>,
}

/// Lists what was said.
pub(super) async fn get(State(service): State<Arc<Service>>) -> Result<Document<Listed>, Refusal> {
    let overrides = blocking(move || service.control.overrides()).await?;
    Ok(Document(Listed { overrides: overrides.into_iter().map(Shown::from).collect() }))
}

/// Says something. What follows from it is in the answers when this returns.
pub(super) async fn put(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Document<Changed>, Refusal> {
    let ToSay { subject, pool, origin, zone, word, lasts, until, why, by } = read(body)?;
    let meant = Meant { subject, pool, origin, zone };
    plain_text("why", why.as_deref())?;
    plain_text("by", by.as_deref())?;
    let now = SystemTime::now();
    let until = ending(lasts.as_deref(), until.as_deref(), now)?;
    blocking(move || {
        let subject = meant.find(&service.control.live().load().state)?;
        let note = Note { until, ..Note::new(now, None, by, why) };
        let said = Override { subject: subject.clone(), word, note: note.clone() };
        let kept = service.control.set_override(subject, word, note).map_err(|error| {
            let help = "lift some of them first: DELETE, or meridian enable";
            Refusal::new(StatusCode::CONFLICT, error.to_string(), help)
        })?;
        Ok(Document(Changed::new(Some(said.into()), None, kept)))
    })
    .await?
}

/// Lifts what was said.
pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Document<Changed>, Refusal> {
    let ToLift { subject, pool, origin, zone, word } = read(body)?;
    let meant = Meant { subject, pool, origin, zone };
    blocking(move || {
        let overrides = service.control.overrides();
        let subject = match meant.find_said(&overrides)? {
            Some(subject) => subject,
            None => meant.find(&service.control.live().load().state)?,
        };
        let (lifted, kept) = service.control.lift_override(&subject, word);
        let lifted = lifted.into_iter().map(Shown::from).collect();
        Ok(Document(Changed::new(None, Some(lifted), kept)))
    })
    .await?
}

impl Meant {
    /// What is meant, as ORIGIN, POOL/ORIGIN or POOL.
    fn name(&self) -> Result<String, Refusal> {
        match (&self.subject, &self.pool, &self.origin) {
            (Some(subject), None, None) => Ok(subject.clone()),
            (None, Some(pool), Some(origin)) => Ok(format!("{pool}/{origin}")),
            (None, Some(pool), None) => Ok(pool.clone()),
            _ => Err(Refusal::bad(
                "it is not clear what is meant",
                "give \"pool\", and \"origin\" for one of its origins; or \"subject\" alone, as \
                 ORIGIN, POOL/ORIGIN or POOL",
            )),
        }
    }

    /// Finds it among what there is.
    fn find(&self, state: &Configuration) -> Result<Subject, Refusal> {
        let name = self.name()?;
        let scope = match &self.zone {
            Some(zone) => Scope::of_zone(state, zone).map_err(not_found)?,
            None => Scope::all(state),
        };
        // A key "pool" means no origin of that name.
        let whole_pool = self.pool.is_some() && self.origin.is_none();
        let found = if whole_pool { scope.pool(&name).map(Found::Pool) } else { scope.find(&name) };
        Ok(match found.map_err(not_found)? {
            Found::Pool(pool) => Subject::pool(state, pool),
            Found::Origin(pool, index) => {
                let origin = state.pool(pool).and_then(|pool| pool.origin(index));
                let origin = origin.map(|origin| origin.name.clone());
                Subject { origin, ..Subject::pool(state, pool) }
            }
        })
    }

    /// Finds it among what something was said of: a pool may be gone since.
    fn find_said(&self, overrides: &[Override]) -> Result<Option<Subject>, Refusal> {
        let name = self.name()?;
        let zone = self.zone.as_ref().map(|zone| format!("{}.", zone.trim_end_matches('.')));
        let is_meant = |subject: &&Subject| {
            let in_zone = match (&zone, &subject.zone) {
                (Some(wanted), Some(zone)) => wanted.eq_ignore_ascii_case(zone),
                _ => true,
            };
            in_zone
                && match (&subject.origin, &self.pool) {
                    (None, _) => subject.pool == name,
                    (Some(origin), None) if *origin == name => true,
                    (Some(origin), _) => format!("{}/{origin}", subject.pool) == name,
                }
        };
        let mut found: Vec<_> =
            overrides.iter().map(|said| &said.subject).filter(is_meant).collect();
        found.dedup();
        match found.as_slice() {
            [] => Ok(None),
            [subject] => Ok(Some((*subject).clone())),
            several => {
                let meaning = |subject: &&Subject| {
                    let zone = subject.zone.as_deref().unwrap_or("shared");
                    match &subject.origin {
                        Some(origin) => format!("{}/{origin} ({zone})", subject.pool),
                        None => format!("pool {} ({zone})", subject.pool),
                    }
                };
                let meanings = several.iter().map(meaning).collect();
                Err(not_found(FindError::Ambiguous { name, meanings }))
            }
        }
    }
}

/// What is said to a name that means nothing, or several things.
pub(super) fn not_found(error: FindError) -> Refusal {
    let (status, help) = match &error {
        FindError::Unknown { .. } | FindError::UnknownZone { .. } => (
            StatusCode::NOT_FOUND,
            "GET /api/v1/status lists all pools with their zones and origins",
        ),
        FindError::Ambiguous { .. } => {
            (StatusCode::CONFLICT, "give POOL/ORIGIN, or the zone with \"zone\" (--zone)")
        }
    };
    Refusal::new(status, error.to_string(), help)
}

/// When something is to end, in seconds since 1970, from `for` or `until`.
fn ending(
    lasts: Option<&str>,
    until: Option<&str>,
    now: SystemTime,
) -> Result<Option<u64>, Refusal> {
    let key = if lasts.is_some() { "for" } else { "until" };
    let lasts = match (lasts, until) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err(Refusal::bad("for and until are given", "give one of them"));
        }
        (Some(text), None) => parse_duration(text).ok_or_else(|| {
            let help = "write a whole number and a unit (s, m, h, d), as \"2h\"";
            Refusal::bad(format!("for: {text:?} is not a duration"), help)
        })?,
        (None, Some(text)) => {
            let until = parse_time(text).ok_or_else(|| {
                let help = "write it in UTC, as \"2026-11-30T14:05:00Z\"";
                Refusal::bad(format!("until: {text:?} is not a time"), help)
            })?;
            let until = UNIX_EPOCH + Duration::from_secs(until);
            until.duration_since(now).map_err(|_| {
                let help = "give a time that is still to come, or none";
                Refusal::bad(format!("until: {text} is past already"), help)
            })?
        }
    };
    if lasts < Duration::from_secs(1) {
        return Err(Refusal::bad(
            format!("{key}: it would be over at once"),
            "give at least \"1s\"",
        ));
    }
    if lasts > LONGEST {
        let help = "leave it out: then it holds until it is lifted";
        let error = format!("{key}: it would last longer than a hundred years");
        return Err(Refusal::bad(error, help));
    }
    // Rounded: a time that was given as such is that time.
    let end = (now + lasts).duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Some((end + Duration::from_millis(500)).as_secs()))
}

/// Refuses a text that would spoil what it is shown in.
pub(super) fn plain_text(key: &str, text: Option<&str>) -> Result<(), Refusal> {
    let Some(text) = text else { return Ok(()) };
    if text.chars().any(char::is_control) {
        let error = format!("{key}: the text has a line break or another control character");
        return Err(Refusal::bad(error, "write one line of plain text"));
    }
    if text.chars().count() > LONGEST_TEXT {
        let error = format!("{key}: the text has more than {LONGEST_TEXT} characters");
        return Err(Refusal::bad(error, "write less"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_last_is_checked() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let of = |lasts, until| ending(lasts, until, now);
        assert_eq!(of(None, None).unwrap(), None);
        assert_eq!(of(Some("2h"), None).unwrap(), Some(1_000_007_200));
        let given = of(None, Some("2001-09-09T02:46:40Z")).unwrap();
        assert_eq!(given, Some(1_000_003_600));
        for (lasts, until) in [
            (Some("2h"), Some("2001-09-09T02:46:40Z")),
            (Some("0s"), None),
            (Some("500ms"), None),
            (Some("2 h"), None),
            (Some("-1h"), None),
            (Some("40000d"), None),
            (None, Some("2001-09-09T01:46:40Z")),
            (None, Some("1999-01-01T00:00:00Z")),
            (None, Some("tomorrow")),
        ] {
            assert!(of(lasts, until).is_err(), "{lasts:?} {until:?}");
        }
    }

    #[test]
    fn texts_are_one_line() {
        assert!(plain_text("why", Some("new kernel, Zürich")).is_ok());
        assert!(plain_text("why", Some("two\nlines")).is_err());
        assert!(plain_text("why", Some("\u{1b}[2J")).is_err());
        assert!(plain_text("why", Some(&"x".repeat(1001))).is_err());
    }
}
