//! Reads `[monitors]`: every key of every type, with its range. A key that belongs to other types is
//! refused.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::duration::show_duration;
use crate::config::monitors::{HttpProbe, Monitor, Probe, TlsCheck};
use crate::config::reader::{Place, Table, Value};
use crate::name::Name;
use crate::rr::RecordType;

/// The interval where none is given.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);
/// The longest timeout where none is given.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3);
/// The consecutive successes before an origin is up, where none are given.
const DEFAULT_RISE: u32 = 2;
/// The consecutive failures before an origin is down, where none are given.
const DEFAULT_FALL: u32 = 3;
/// The window of flap damping where none is given.
const DEFAULT_FLAP_WINDOW: Duration = Duration::from_secs(600);

/// The types, by their words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Http,
    Https,
    Tcp,
    Tls,
    Icmp,
    Udp,
    Grpc,
    Dns,
    Exec,
    File,
    Push,
}

const KINDS: [(&str, Kind); 11] = [
    ("http", Kind::Http),
    ("https", Kind::Https),
    ("tcp", Kind::Tcp),
    ("tls", Kind::Tls),
    ("icmp", Kind::Icmp),
    ("udp", Kind::Udp),
    ("grpc", Kind::Grpc),
    ("dns", Kind::Dns),
    ("exec", Kind::Exec),
    ("file", Kind::File),
    ("push", Kind::Push),
];

/// The keys of particular types, with the types that use them.
const KEYS_OF_TYPES: [(&str, &[Kind]); 17] = [
    ("port", &[Kind::Http, Kind::Https, Kind::Tcp, Kind::Tls, Kind::Udp, Kind::Grpc, Kind::Dns]),
    ("path", &[Kind::Http, Kind::Https, Kind::File]),
    ("method", &[Kind::Http, Kind::Https]),
    ("host", &[Kind::Http, Kind::Https]),
    ("headers", &[Kind::Http, Kind::Https]),
    ("expected_codes", &[Kind::Http, Kind::Https]),
    ("expected_body", &[Kind::Http, Kind::Https]),
    ("follow_redirects", &[Kind::Http, Kind::Https]),
    ("verify_tls", &[Kind::Https, Kind::Tls]),
    ("sni", &[Kind::Https, Kind::Tls]),
    ("payload", &[Kind::Udp]),
    ("expected_reply", &[Kind::Udp]),
    ("service", &[Kind::Grpc]),
    ("query_name", &[Kind::Dns]),
    ("query_type", &[Kind::Dns]),
    ("command", &[Kind::Exec]),
    ("ttl", &[Kind::Push]),
];

/// Reads a monitor; none if a mistake leaves nothing usable. `allow_exec` is the server's.
pub fn parse_monitor(
    name: &str,
    zone: Option<&Name>,
    value: &Value<'_, '_>,
    allow_exec: bool,
) -> Option<Monitor> {
    let table = value.table("a table of a monitor's keys")?;
    let types = KINDS.map(|(word, _)| word).join(", ");
    let kind_value = table.required("type", &format!("give one of {types}"));
    let kind = kind_value.as_ref().and_then(|value| value.choice(&KINDS));
    let place = kind_value.map(|value| value.place());

    let seconds = Duration::from_secs;
    let interval =
        duration(&table, "interval", seconds(1)..=seconds(3600)).unwrap_or(DEFAULT_INTERVAL);
    let timeout = timeout(&table, interval);
    let count = |key, default| {
        let value =
            table.optional(key).and_then(|value| value.integer(1..=1000, "a number of results"));
        value.and_then(|count| u32::try_from(count).ok()).unwrap_or(default)
    };
    // A file's word is a statement, not a measurement that may err: it counts at once.
    let (rise, fall) = match kind {
        Some(Kind::File | Kind::Push) => (1, 1),
        _ => (DEFAULT_RISE, DEFAULT_FALL),
    };
    let (rise, fall) = (count("rise", rise), count("fall", fall));
    let max_age = duration(&table, "max_age", seconds(1)..=seconds(86_400)).unwrap_or(interval * 5);
    let flap_threshold = table
        .optional("flap_threshold")
        .and_then(|value| value.integer(1..=1000, "a number of changes"))
        .and_then(|count| u32::try_from(count).ok());
    let flap_window = duration(&table, "flap_window", seconds(1)..=seconds(86_400));
    if let (Some(_), None, Some(value)) =
        (flap_window, flap_threshold, table.optional("flap_window"))
    {
        value.key_error("flap_window is used with flap_threshold only", "give flap_threshold too");
    }
    let flap_window = flap_window.unwrap_or(DEFAULT_FLAP_WINDOW);

    let Some(kind) = kind else {
        for (key, _) in KEYS_OF_TYPES {
            table.optional(key);
        }
        table.finish();
        return None;
    };
    for (key, kinds) in KEYS_OF_TYPES {
        if !kinds.contains(&kind)
            && let Some(value) = table.optional(key)
        {
            let types = kinds.iter().map(|&kind| word(kind)).collect::<Vec<_>>().join(", ");
            let help = format!("remove the key; it belongs to type {types}");
            value.key_error(format!("monitors of type {} have no such key", word(kind)), help);
        }
    }
    let probe = parse_probe(kind, &table, place, allow_exec);
    table.finish();
    Some(Monitor {
        name: name.to_owned(),
        zone: zone.map(|zone| zone.to_string().to_ascii_lowercase()),
        probe: probe?,
        interval,
        timeout,
        rise,
        fall,
        max_age,
        flap_threshold,
        flap_window,
    })
}

fn word(kind: Kind) -> &'static str {
    KINDS.iter().find(|&&(_, other)| other == kind).map_or("", |&(word, _)| word)
}

fn duration(
    table: &Table<'_, '_>,
    key: &'static str,
    range: std::ops::RangeInclusive<Duration>,
) -> Option<Duration> {
    table.optional(key).and_then(|value| value.duration(range))
}

/// The timeout: less than the interval; by default the smaller of 3 s and 0.8 of the interval.
fn timeout(table: &Table<'_, '_>, interval: Duration) -> Duration {
    let default = DEFAULT_TIMEOUT.min(interval * 4 / 5);
    let Some(value) = table.optional("timeout") else { return default };
    let hour = Duration::from_secs(3600);
    let Some(timeout) = value.duration(Duration::from_millis(1)..=hour) else { return default };
    if timeout >= interval {
        let interval = show_duration(interval);
        value.error(
            format!("the timeout is not less than the interval of {interval}"),
            format!("give a timeout below {interval}, or a longer interval"),
        );
    }
    timeout
}

fn parse_probe(
    kind: Kind,
    table: &Table<'_, '_>,
    place: Option<Place>,
    allow_exec: bool,
) -> Option<Probe> {
    let text = |key, wanted: &str| -> Option<String> {
        table.optional(key).and_then(|value| value.string(wanted)).map(str::to_owned)
    };
    let needed = |key, help: &str| -> Option<String> {
        table.required(key, help).and_then(|value| value.string(help)).map(str::to_owned)
    };
    let port_or = |default: u16| port(table).unwrap_or(default);
    let needed_port = || {
        table.required("port", "give the port that is probed")?;
        port(table)
    };
    Some(match kind {
        Kind::Http => Probe::Http(Box::new(parse_http(table, port_or(80), None))),
        Kind::Https => {
            Probe::Http(Box::new(parse_http(table, port_or(443), Some(tls_check(table)))))
        }
        Kind::Tcp => Probe::Tcp { port: needed_port()? },
        Kind::Tls => Probe::Tls { port: port_or(443), tls: tls_check(table) },
        Kind::Icmp => Probe::Icmp,
        // Everything is read before anything is given up, so that all mistakes show.
        Kind::Udp => {
            let payload = needed("payload", "give the text that is sent");
            let expected_reply = text("expected_reply", "the text that the reply begins with");
            let port = needed_port();
            Probe::Udp { port: port?, payload: payload?, expected_reply }
        }
        Kind::Grpc => Probe::Grpc {
            service: text("service", "a service's name").unwrap_or_default(),
            port: needed_port()?,
        },
        Kind::Dns => {
            let name = table.required("query_name", "give the name that is asked for");
            let query_type = table.optional("query_type").map_or(Some(RecordType::A), |value| {
                let text = value.string("a record type")?;
                let parsed = RecordType::parse(text);
                if parsed.is_none() {
                    value.error(format!("{text:?} is not a record type"), "give one as \"A\"");
                }
                parsed
            });
            let port = port_or(53);
            let query_name = name.and_then(|value| value.name(&Name::root()));
            Probe::Dns { port, query_name: query_name?, query_type: query_type? }
        }
        Kind::Exec => {
            if let (false, Some(place)) = (allow_exec, place) {
                place.error(
                    table.report(),
                    "exec monitors are not allowed on this server",
                    "set allow_exec = true under [server] in meridian.toml, or use another type",
                );
            }
            let value = table.required("command", "give [\"program\", \"argument\", …]")?;
            let words = value.list("a list of a program and its arguments")?;
            let command: Vec<String> = words
                .iter()
                .filter_map(|word| word.string("a program or an argument").map(str::to_owned))
                .collect();
            if command.is_empty() {
                value.error("the command is empty", "give [\"program\", \"argument\", …]");
            }
            Probe::Exec { command }
        }
        Kind::File => {
            let path = PathBuf::from(needed("path", "give the file that is watched")?);
            // Paths are relative to their file (config.md).
            let folder = place.and_then(|place| place.file.parent().map(Path::to_owned));
            Probe::File { path: folder.unwrap_or_default().join(path) }
        }
        Kind::Push => {
            let value = table.required("ttl", "give how long a pushed state holds, as \"60s\"")?;
            Probe::Push {
                ttl: value.duration(Duration::from_secs(1)..=Duration::from_secs(86_400))?,
            }
        }
    })
}

fn port(table: &Table<'_, '_>) -> Option<u16> {
    let port = table.optional("port")?.integer(1..=65_535, "a port")?;
    u16::try_from(port).ok()
}

fn tls_check(table: &Table<'_, '_>) -> TlsCheck {
    TlsCheck {
        verify: table.optional("verify_tls").and_then(|value| value.boolean()).unwrap_or(true),
        server_name: host_name(table, "sni"),
    }
}

/// A host name, or an address, as it stands in a Host header or a certificate.
fn host_name(table: &Table<'_, '_>, key: &'static str) -> Option<String> {
    let value = table.optional(key)?;
    let text = value.string("a host name")?;
    let host = text.rsplit_once(':').map_or(text, |(host, port)| {
        if port.bytes().all(|octet| octet.is_ascii_digit()) { host } else { text }
    });
    let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    if !is_address && let Err(error) = Name::parse_absolute(host) {
        value.error(format!("{text:?} is not a host name: {error}"), "correct the name");
        return None;
    }
    Some(text.to_owned())
}

fn parse_http(table: &Table<'_, '_>, port: u16, tls: Option<TlsCheck>) -> HttpProbe {
    let text = |key, wanted: &str| table.optional(key).and_then(|value| value.string(wanted));
    let path = table.optional("path").and_then(|value| {
        let path = value.string("a path")?;
        if !path.starts_with('/') || path.contains(|c: char| c.is_whitespace() || c.is_control()) {
            value.error(
                format!("{path:?} is not a path"),
                "give one that begins with /, as \"/healthz\"",
            );
            return None;
        }
        Some(path.to_owned())
    });
    let method = table.optional("method").and_then(|value| {
        let method = value.string("a method")?;
        if method.is_empty() || !method.bytes().all(|octet| octet.is_ascii_uppercase()) {
            value.error(format!("{method:?} is not a method"), "give one in capitals, as \"GET\"");
            return None;
        }
        Some(method.to_owned())
    });
    HttpProbe {
        tls,
        port,
        path: path.unwrap_or_else(|| "/".to_owned()),
        method: method.unwrap_or_else(|| "GET".to_owned()),
        host: host_name(table, "host"),
        headers: headers(table),
        expected_codes: expected_codes(table).unwrap_or_else(|| vec![(200, 299)]),
        expected_body: text("expected_body", "a text that the body contains").map(str::to_owned),
        follow_redirects: table
            .optional("follow_redirects")
            .and_then(|value| value.boolean())
            .unwrap_or(false),
    }
}

fn headers(table: &Table<'_, '_>) -> Vec<(String, String)> {
    let Some(headers) = table.optional("headers").and_then(|value| value.table("a table")) else {
        return Vec::new();
    };
    let read = |(name, value): (String, Value<'_, '_>)| {
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if name.is_empty() || !name.bytes().all(token) {
            value
                .key_error(format!("{name:?} is not a header's name"), "use letters, digits and -");
            return None;
        }
        let text = value.string("a header's value")?;
        if text.contains(|c: char| c.is_control()) {
            value.error("the header has a control character in it", "remove it");
            return None;
        }
        Some((name, text.to_owned()))
    };
    headers.entries().into_iter().filter_map(read).collect()
}

/// Reads `"2xx"` or `"200-204,301"`.
fn expected_codes(table: &Table<'_, '_>) -> Option<Vec<(u16, u16)>> {
    let value = table.optional("expected_codes")?;
    let text = value.string("status codes")?;
    let parsed: Option<Vec<_>> = text.split(',').map(|part| code_range(part.trim())).collect();
    if parsed.is_none() {
        value.error(
            format!("{text:?} are not status codes"),
            "give codes from 100 to 599, as \"2xx\" or \"200-204,301\"",
        );
    }
    parsed
}

fn code_range(part: &str) -> Option<(u16, u16)> {
    let code = |text: &str| {
        let code: u16 = text.parse().ok()?;
        (text.len() == 3 && (100..=599).contains(&code)).then_some(code)
    };
    if let Some(hundred) = part.strip_suffix("xx") {
        let low = code(&format!("{hundred}00"))?;
        return Some((low, low + 99));
    }
    let (low, high) = part.split_once('-').unwrap_or((part, part));
    let (low, high) = (code(low)?, code(high)?);
    (low <= high).then_some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_codes_are_ranges() {
        assert_eq!(code_range("2xx"), Some((200, 299)));
        assert_eq!(code_range("200-204"), Some((200, 204)));
        assert_eq!(code_range("301"), Some((301, 301)));
        for wrong in ["6xx", "204-200", "20", "2x", "", "0301", "+30"] {
            assert_eq!(code_range(wrong), None, "{wrong}");
        }
    }
}
