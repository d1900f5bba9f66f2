//! The entries of the journal: what is told of each kind of event, and its sentence.

use std::net::IpAddr;
use std::time::Duration;

use crate::changes::{Changes, Difference};
use crate::config::report::{Diagnostic, Severity};
use crate::health::board::Target;
use crate::health::overrides::{Override, Subject};
use crate::health::track::Change;
use crate::journal::{Entry, Kind};
use crate::name::Name;
use crate::resolution::track::Said;
use crate::rtt::Vantage;
use crate::rtt::figures::Moved;
use crate::state::State;
use crate::steer::availability::HealthState;
use crate::steer::pool::{OriginIndex, Pool, PoolId};
use crate::timestamp::show_time;

/// The most mistakes of a refused reload, and names of one kind of change, that are kept.
const MOST_LISTED: usize = 50;

/// What became of something that an operator said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// It was said.
    Said,
    /// It is from before the start, and holds.
    Holds,
    /// It was lifted.
    Lifted,
    /// Its time is over.
    Over,
}

/// The server started with a state.
pub fn started(state: &State, monitored: usize) -> Entry {
    let version = env!("CARGO_PKG_VERSION");
    let counted = |number: usize, noun: &str| match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    };
    let text = format!(
        "meridian {version} started with {}, {} and {}; {} probed",
        counted(state.zones.len(), "zone"),
        counted(state.balancers.len(), "load balancer"),
        counted(state.pools.len(), "pool"),
        if monitored == 1 {
            "1 address is".to_owned()
        } else {
            format!("{monitored} addresses are")
        },
    );
    Entry { generation: Some(1), ..Entry::new(Kind::Started, text) }
}

/// The health of an address changed: an entry for each origin that has it.
pub fn health<'e>(
    state: &'e State,
    pools: &'e [Pool],
    target: &'e Target,
    change: &'e Change,
) -> impl Iterator<Item = Entry> + 'e {
    target
        .origins
        .iter()
        .map(move |&(pool, origin)| of_origin(state, pools, target, change, (pool, origin)))
}

fn of_origin(
    state: &State,
    pools: &[Pool],
    target: &Target,
    change: &Change,
    (pool, index): (PoolId, OriginIndex),
) -> Entry {
    let origin = pools.get(pool.0 as usize).and_then(|pool| pool.origin(index));
    let subject =
        Subject { origin: origin.map(|origin| origin.name.clone()), ..Subject::pool(state, pool) };
    let address = target.key.address;
    // Where an origin has one address, its name says which.
    let which = match origin {
        Some(origin) if origin.addresses.len() > 1 => format!(" ({address})"),
        _ => String::new(),
    };
    let (from, to) = (change.from.word(), change.to.word());
    let name = format!("{}{which}{}", name(&subject), in_zone(&subject));
    let text = match change.to {
        _ if change.from == change.to => format!("{name} stays {to}: {}", change.reason),
        HealthState::Unhealthy => format!("{name} is {to}: {}", change.reason),
        HealthState::Healthy | HealthState::Unknown => format!("{name} is {to}"),
    };
    Entry {
        address: Some(address.to_string()),
        monitor: Some(target.key.monitor.clone()),
        from: Some(from.to_owned()),
        to: Some(to.to_owned()),
        why: Some(change.reason.clone()),
        ..Entry::new(Kind::Health, text).of(subject)
    }
}

/// A pool became available, or ceased to be.
pub fn pool(subject: Subject, is_available: bool, why: String) -> Entry {
    let word = |is_available| if is_available { "available" } else { "unavailable" }.to_owned();
    let (name, zone) = (name(&subject), in_zone(&subject));
    let text = format!("pool {name}{zone} is {}: {why}", word(is_available));
    Entry {
        from: Some(word(!is_available)),
        to: Some(word(is_available)),
        why: Some(why),
        ..Entry::new(Kind::Pool, text).of(subject)
    }
}

/// An operator said something, or it is over.
pub fn overridden(said: &Override, what: Word) -> Entry {
    let Override { subject, word, note } = said;
    let whole_pool = if subject.origin.is_none() { "pool " } else { "" };
    let name = format!("{whole_pool}{}{}", name(subject), in_zone(subject));
    let words = word.in_words();
    let text = match what {
        Word::Said => format!("{name} is {words}{}", note.in_words()),
        Word::Holds => format!("{name} is still {words}{}", note.in_words()),
        Word::Lifted => format!("{name} is no longer {words}: it was lifted"),
        Word::Over => format!("{name} is no longer {words}: its time is over"),
    };
    let (from, to) = match what {
        Word::Said => (None, Some(word)),
        Word::Holds => (Some(word), Some(word)),
        Word::Lifted | Word::Over => (Some(word), None),
    };
    Entry {
        from: from.map(|word| word.as_str().to_owned()),
        to: to.map(|word| word.as_str().to_owned()),
        why: note.why.clone(),
        by: note.by.clone(),
        until: note.until.map(show_time),
        ..Entry::new(Kind::Override, text).of(subject.clone())
    }
}

/// A new state is served.
pub fn reloaded(generation: u64, changes: &Changes) -> Entry {
    let kinds = [
        ("zones", &changes.zones),
        ("names", &changes.names),
        ("pools", &changes.pools),
        ("origins", &changes.origins),
        ("location", &changes.location),
        ("settings", &changes.settings),
    ];
    let told = kinds.into_iter().filter(|(_, of_kind)| !of_kind.is_empty());
    let told: Vec<_> = told.map(|(kind, of_kind)| format!("{kind}: {of_kind}")).collect();
    let told = if told.is_empty() { "nothing changed".to_owned() } else { told.join("; ") };
    Entry {
        to: Some("ok".to_owned()),
        generation: Some(generation),
        changes: Some(shortened(changes)),
        ..Entry::new(Kind::Reload, format!("reloaded, generation {generation}: {told}"))
    }
}

/// The old state is kept.
pub fn refused(generation: u64, reason: &str, diagnostics: &[Diagnostic]) -> Entry {
    let errors = diagnostics.iter().filter(|found| found.severity == Severity::Error);
    let errors: Vec<_> = errors.take(MOST_LISTED).cloned().collect();
    let text = format!("reload refused, generation {generation} is still served: {reason}");
    Entry {
        to: Some("refused".to_owned()),
        why: Some(reason.to_owned()),
        generation: Some(generation),
        errors,
        ..Entry::new(Kind::Reload, text)
    }
}

/// A round-trip time that is published moved.
pub fn rtt(state: &State, moved: &Moved) -> Entry {
    let &Moved { vantage, pool, from, to } = moved;
    let subject = Subject::pool(state, pool);
    let region = match vantage {
        Vantage::Pop => None,
        Vantage::Region(region) => Some(state.locator.regions().name(region).to_owned()),
    };
    let place = match &region {
        Some(region) => format!("from {region}"),
        None => "from here".to_owned(),
    };
    let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
    let (from, to) = (from.map(milliseconds), to.map(milliseconds));
    let (name, zone) = (name(&subject), in_zone(&subject));
    let text = match (&from, &to) {
        (Some(from), Some(to)) => format!("{name}{zone} is {to} {place}, no longer {from}"),
        (None, Some(to)) => format!("{name}{zone} is {to} {place}"),
        (_, None) => format!("{name}{zone} is not measured {place} any more"),
    };
    Entry { region, from, to, ..Entry::new(Kind::Rtt, text).of(subject) }
}

/// So many more round-trip times moved at the same time.
pub fn more_rtt(more: usize) -> Entry {
    Entry::new(Kind::Rtt, format!("{more} more round-trip times moved at the same time"))
}

/// The addresses of a host name changed, or why there are no new ones.
pub fn resolution(name: &Name, before: Option<&Said>, now: &Said) -> Entry {
    let list = |addresses: &[IpAddr]| {
        let list: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
        if list.is_empty() { "nothing".to_owned() } else { list.join(", ") }
    };
    let to = list(&now.addresses);
    let text = match &now.failure {
        None => format!("{name} is {to}"),
        Some(why) if now.addresses.is_empty() => format!("{name} cannot be resolved: {why}"),
        Some(why) => format!("{name} cannot be resolved, and stays {to}: {why}"),
    };
    Entry {
        host: Some(name.to_string()),
        from: before.map(|before| list(&before.addresses)),
        to: Some(to),
        why: now.failure.clone(),
        ..Entry::new(Kind::Resolution, text)
    }
}

impl Entry {
    fn of(self, subject: Subject) -> Self {
        let Subject { zone, pool, origin } = subject;
        Self { zone, pool: Some(pool), origin, ..self }
    }
}

/// As operators name it: "eu/ams-1", "eu".
fn name(subject: &Subject) -> String {
    match &subject.origin {
        Some(origin) => format!("{}/{origin}", subject.pool),
        None => subject.pool.clone(),
    }
}

fn in_zone(subject: &Subject) -> String {
    subject.zone.as_ref().map(|zone| format!(" in {zone}")).unwrap_or_default()
}

fn shortened(changes: &Changes) -> Changes {
    let first = |names: &[String]| names.iter().take(MOST_LISTED).cloned().collect();
    let of = |difference: &Difference| Difference {
        added: first(&difference.added),
        removed: first(&difference.removed),
        changed: first(&difference.changed),
    };
    Changes {
        zones: of(&changes.zones),
        names: of(&changes.names),
        pools: of(&changes.pools),
        origins: of(&changes.origins),
        location: of(&changes.location),
        settings: of(&changes.settings),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::overrides::{Note, Word as Override_};

    fn subject(origin: Option<&str>) -> Subject {
        let (zone, origin) = (Some("example.com.".to_owned()), origin.map(str::to_owned));
        Subject { zone, pool: "weu".to_owned(), origin }
    }

    #[test]
    fn sentences() {
        let note = Note {
            by: Some("ada".to_owned()),
            why: Some("new kernel".to_owned()),
            since: 0,
            until: Some(7200),
        };
        let said = Override { subject: subject(Some("ams-1")), word: Override_::Drained, note };
        for (what, text) in [
            (
                Word::Said,
                "weu/ams-1 in example.com. is drained by ada until 1970-01-01T02:00:00Z: new kernel",
            ),
            (Word::Lifted, "weu/ams-1 in example.com. is no longer drained: it was lifted"),
            (Word::Over, "weu/ams-1 in example.com. is no longer drained: its time is over"),
        ] {
            assert_eq!(overridden(&said, what).text, text);
        }
        let why = "1 of 3 origins healthy, minimum_origins is 2";
        let entry = pool(subject(None), false, why.to_owned());
        assert_eq!(entry.text, format!("pool weu in example.com. is unavailable: {why}"));
        assert_eq!(entry.from.as_deref(), Some("available"));
    }

    #[test]
    fn a_long_list_of_changes_is_shortened() {
        let mut changes = Changes::default();
        changes.names.added = (0..1000).map(|number| format!("n{number}.example.com.")).collect();
        let entry = reloaded(2, &changes);
        assert_eq!(entry.changes.unwrap().names.added.len(), MOST_LISTED);
        assert!(
            entry.text.starts_with("reloaded, generation 2: names: 1000 added: n0.example.com., ")
        );
        assert_eq!(
            reloaded(3, &Changes::default()).text,
            "reloaded, generation 3: nothing changed"
        );
    }

    #[test]
    fn what_a_host_name_was_and_is() {
        let name = Name::parse_absolute("origin.example.net").unwrap();
        let said = |addresses: &[&str], failure: Option<&str>| Said {
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            failure: failure.map(str::to_owned),
        };
        let (one, two) = (said(&["192.0.2.1"], None), said(&["192.0.2.1", "2001:db8::1"], None));
        let entry = resolution(&name, Some(&one), &two);
        assert_eq!(entry.text, "origin.example.net. is 192.0.2.1, 2001:db8::1");
        assert_eq!(entry.from.as_deref(), Some("192.0.2.1"));
        let failing = said(&["192.0.2.1"], Some("no reply"));
        let text = resolution(&name, Some(&one), &failing).text;
        assert_eq!(text, "origin.example.net. cannot be resolved, and stays 192.0.2.1: no reply");
    }
}
