//! `meridian status`: the pools and origins of a running server, and how they are.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::admin::status::{
    AddressStatus, OriginStatus, PoolStatus, RefusedReload, Resolution, Status,
};
use crate::cli::client::{Problem, ServerArguments, exit_code};
use crate::cli::print_text;
use crate::cli::terminal::{Pieces, Terminal, Tone};
use crate::config::duration::show_age;

/// The column of the health.
const HEALTH: usize = 2;

/// The arguments of `meridian status`.
#[derive(Args, Debug)]
pub(super) struct StatusCommand {
    #[command(flatten)]
    server: ServerArguments,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl StatusCommand {
    pub(super) fn run(self) -> ExitCode {
        exit_code(self.try_run())
    }

    fn try_run(&self) -> Result<bool, Problem> {
        let client = self.server.client()?;
        let answer = client.get::<Status>("/api/v1/status")?;
        let status = &answer.document;
        if self.json {
            answer.print_json();
        } else {
            print_text(&show(status, client.at(), Terminal::of_output()));
        }
        Ok(is_good(status))
    }
}

/// True if the server is ready, and every pool is available that is not kept from it on purpose.
fn is_good(status: &Status) -> bool {
    status.ready && status.pools.iter().all(|pool| pool.available || on_purpose(pool))
}

/// True if a pool is kept from answering on purpose.
fn on_purpose(pool: &PoolStatus) -> bool {
    !pool.enabled || pool.said.is_some()
}

fn show(status: &Status, at: &str, terminal: Terminal) -> String {
    let Status { version, generation, uptime_seconds, not_ready, refused_reload, pools, .. } =
        status;
    let ready = match not_ready {
        None => (Tone::Good, "ready".to_owned()),
        Some(reason) => (Tone::Bad, format!("not ready ({reason})")),
    };
    let up = show_age(Duration::from_secs(*uptime_seconds));
    let head = terminal.line(&[
        (Tone::Plain, format!("meridian {version} at {at}: ")),
        ready,
        (Tone::Plain, format!(", up {up}, generation {generation}")),
    ]);
    let mut text = format!("{head}\n");
    if let Some(RefusedReload { at, error }) = refused_reload {
        let line = terminal.line(&[
            (Tone::Bad, format!("reload refused {at}")),
            (Tone::Plain, format!(": {error}")),
        ]);
        let _infallible = writeln!(text, "{line}");
    }
    for pool in pools {
        let zone = pool.zone.as_deref().unwrap_or("shared");
        let region = pool.region.as_ref().map(|region| format!(", {region}")).unwrap_or_default();
        let available = match (pool.available, on_purpose(pool)) {
            (true, _) => (Tone::Good, "available"),
            (false, true) => (Tone::Odd, "not available"),
            (false, false) => (Tone::Bad, "not available"),
        };
        let line = terminal.line(&[
            (Tone::Heading, pool.pool.clone()),
            (Tone::Plain, format!(" ({zone}{region})  ")),
            (available.0, available.1.to_owned()),
            (Tone::Plain, format!(": {}", pool.reason)),
        ]);
        let _infallible = writeln!(text, "\n{line}");
        for pieces in table(&pool.origins) {
            let _infallible = writeln!(text, "{}", terminal.line(&pieces));
        }
    }
    text
}

/// A line for each address, with columns as wide as they must be.
fn table(origins: &[OriginStatus]) -> Vec<Pieces> {
    let head = ["ORIGIN", "ADDRESS", "HEALTH", "FOR", "RTT", "NOTE"].map(str::to_owned);
    let rows = origins.iter().flat_map(|origin| {
        let row = |(number, address): (usize, &AddressStatus)| {
            let name = if number == 0 { origin.origin.as_str() } else { "" };
            let age =
                |seconds: f64| show_age(Duration::try_from_secs_f64(seconds).unwrap_or_default());
            let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            [
                name.to_owned(),
                address.address.clone(),
                or_dash(address.health.clone()),
                or_dash(address.since_seconds.map(age)),
                or_dash(address.rtt_ms.map(|rtt| format!("{rtt:.1} ms"))),
                note(origin, address, number == 0),
            ]
        };
        let rows: Vec<_> = origin.addresses.iter().enumerate().map(row).collect();
        if rows.is_empty() { vec![row_of_host(origin)] } else { rows }
    });
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..5).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; 6]| {
        // What is empty at the end needs no space.
        let used = row.iter().rposition(|cell| !cell.is_empty()).map_or(0, |last| last + 1);
        let cells = row.iter().take(used).enumerate().map(|(column, cell)| {
            let width = widths.get(column).copied().filter(|_| column + 1 < used).unwrap_or(0);
            let tone = match cell.as_str() {
                "healthy" => Tone::Good,
                "unhealthy" => Tone::Bad,
                "unknown" => Tone::Odd,
                _ => Tone::Plain,
            };
            (if column == HEALTH { tone } else { Tone::Plain }, format!("  {cell:<width$}"))
        });
        cells.collect()
    };
    rows.iter().map(line).collect()
}

/// The line of an origin without an address.
fn row_of_host(origin: &OriginStatus) -> [String; 6] {
    let mut notes: Vec<_> = held_back(origin).into_iter().collect();
    notes.push(match origin.resolution {
        Some(Resolution::Alias) => "answered as CNAME".to_owned(),
        _ => "no address of it is known".to_owned(),
    });
    let dash = || "-".to_owned();
    let host = origin.host.clone().unwrap_or_else(dash);
    [origin.origin.clone(), host, dash(), dash(), dash(), notes.join("; ")]
}

/// Why an origin takes no new traffic, whatever its probes say.
fn held_back(origin: &OriginStatus) -> Option<String> {
    let is_held_back = origin.said.is_some() || !origin.enabled || origin.weight == 0.0;
    // What the probes say stands in the other columns.
    let reason = origin.reason.split("; by its probes").next().unwrap_or_default();
    is_held_back.then(|| reason.to_owned())
}

/// What is out of the ordinary, and the host name that the addresses are of.
fn note(origin: &OriginStatus, address: &AddressStatus, is_first: bool) -> String {
    let mut notes = Vec::new();
    if is_first {
        notes.extend(origin.host.clone());
        notes.extend(held_back(origin));
    }
    notes.extend(address.failure.clone());
    if address.held_down {
        notes.push("held down, because it flaps".to_owned());
    }
    if address.stale {
        notes.push("stale".to_owned());
    }
    notes.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(address: &str, health: &str, failure: Option<&str>) -> AddressStatus {
        AddressStatus {
            address: address.to_owned(),
            health: Some(health.to_owned()),
            since: None,
            since_seconds: Some(200.0),
            result_age_seconds: Some(1.0),
            failure: failure.map(str::to_owned),
            rtt_ms: Some(0.44),
            stale: false,
            held_down: false,
        }
    }

    #[test]
    fn columns_are_as_wide_as_they_must_be_and_lines_fit() {
        let origin = OriginStatus {
            host: None,
            resolution: None,
            origin: "ams-1".to_owned(),
            zone: None,
            role: "primary".to_owned(),
            weight: 1.0,
            enabled: true,
            health: "healthy".to_owned(),
            eligible: true,
            reason: String::new(),
            said: None,
            addresses: vec![
                address("192.0.2.10", "healthy", None),
                address("2001:db8::10", "unhealthy", Some("connection refused")),
            ],
        };
        let pieces = table(&[origin]);
        let lines = |width| -> Vec<String> {
            pieces.iter().map(|pieces| Terminal::plain(width).line(pieces)).collect()
        };
        assert_eq!(
            lines(100),
            [
                "  ORIGIN  ADDRESS       HEALTH     FOR  RTT     NOTE",
                "  ams-1   192.0.2.10    healthy    3m   0.4 ms",
                "          2001:db8::10  unhealthy  3m   0.4 ms  connection refused",
            ]
        );
        assert_eq!(lines(52)[2], "          2001:db8::10  unhealthy  3m   0.4 ms  con…");
    }
}
