//! `geo/rtt.toml`: static round-trip times by region (or "pop:NAME") and pool.

use std::collections::HashMap;
use std::time::Duration;

use crate::config::reader::{File, Table, Value};
use crate::config::report::{Report, Source, remedy_for_name};
use crate::locate::Regions;
use crate::steer::pool::PoolId;
use crate::steer::rtt::{Row, RttTable};

/// Pools by their names; zones may have different pools of one name, which all get the figure.
pub type PoolsByName = HashMap<String, Vec<PoolId>>;

/// The longest round-trip time: a minute.
const LONGEST: Duration = Duration::from_secs(60);

/// Reads the table.
pub fn parse(source: &Source, regions: &Regions, pools: &PoolsByName, report: &Report) -> RttTable {
    let mut table = RttTable::default();
    let document = File::parse(source, report);
    let root = document.root();
    let rows = root.optional("rtt").and_then(|value| value.table("tables [rtt.REGION]"));
    for (key, value) in rows.map(|rows| rows.entries()).unwrap_or_default() {
        let Some(figures) = value.table("milliseconds by pool") else { continue };
        let row = parse_row(&figures, pools);
        if let Some(pop) = key.strip_prefix("pop:") {
            table.pops.insert(pop.to_owned(), row);
        } else if let Some(region) = regions.find(&key) {
            table.regions.insert(region, row);
        } else {
            let help = match regions.nearest(&key) {
                Some(near) => format!("did you mean {near:?}? A pop is written \"pop:ams\""),
                None => "name a region of geo/regions.toml, or a pop as \"pop:ams\"".to_owned(),
            };
            value.key_error(format!("there is no region {key:?}"), help);
        }
    }
    root.finish();
    table
}

fn parse_row(figures: &Table<'_, '_>, pools: &PoolsByName) -> Row {
    let mut row = Row::new();
    for (pool, value) in figures.entries() {
        let Some(ids) = pools.get(&pool) else {
            // Without any pool beside an error the zones could not be read, and that has been said.
            if pools.is_empty() && value.report().has_errors() {
                continue;
            }
            let if_none = "add the pool, or remove the figure";
            let help = remedy_for_name(&pool, pools.keys(), "pools", if_none);
            value.key_error(format!("no zone has a pool {pool:?}"), help);
            continue;
        };
        if let Some(time) = milliseconds(&value) {
            row.extend(ids.iter().map(|&id| (id, time)));
        }
    }
    row
}

fn milliseconds(value: &Value<'_, '_>) -> Option<Duration> {
    let text = value.number_text("a number of milliseconds, as 92.5")?;
    let time = parse_milliseconds(&text);
    if time.is_none() {
        value.error(
            format!("{text} is not a round-trip time"),
            "give milliseconds from 0 to 60000 with at most 6 decimals, as 92.5",
        );
    }
    time
}

/// Reads milliseconds with at most six decimals, exactly.
pub fn parse_milliseconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 6 {
        return None;
    }
    let nanos = format!("{fraction:0<6}").parse().ok()?;
    let time = Duration::from_millis(whole.parse().ok()?).checked_add(Duration::from_nanos(nanos));
    time.filter(|time| *time <= LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_exact() {
        assert_eq!(parse_milliseconds("92.5"), Some(Duration::from_micros(92_500)));
        assert_eq!(parse_milliseconds("0.000001"), Some(Duration::from_nanos(1)));
        for wrong in ["-1", "+1", "1e3", "nan", "60000.1", "1.0000001", "", "99999999999999999999"]
        {
            assert_eq!(parse_milliseconds(wrong), None, "{wrong}");
        }
    }
}
