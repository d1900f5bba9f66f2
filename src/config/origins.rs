//! `[[pools.NAME.origins]]`: servers, by their addresses or by host name.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use crate::config::decimal::Decimal;
use crate::config::pools::{MonitorId, PoolScope, ProbeTarget, availability_zone, check_name};
use crate::config::reader::{Table, Value};
use crate::name::Name;
use crate::steer::pool::{MAX_ORIGINS, Origin, OriginAddress, Role};

/// Reads the origins of a pool with a monitor; a mistake in one is reported and leaves that part out.
pub fn origins(
    value: &Value<'_, '_>,
    scope: &mut PoolScope<'_>,
    monitor: Option<MonitorId>,
) -> Vec<Origin> {
    let list = value.list("a list of origins ([[pools.NAME.origins]])").unwrap_or_default();
    if value.is_empty_list() {
        value.error("the pool has no origins", "add [[pools.NAME.origins]] with name and address");
    }
    if list.len() > MAX_ORIGINS {
        value.error(
            format!("the pool has {} origins", list.len()),
            format!("a pool has at most {MAX_ORIGINS}: make several pools of it"),
        );
    }
    let mut names: HashMap<String, u32> = HashMap::new();
    let mut addresses: HashMap<Given, String> = HashMap::new();
    let mut origins = Vec::with_capacity(list.len().min(MAX_ORIGINS));
    for entry in list.iter().take(MAX_ORIGINS) {
        let Some(table) = entry.table("a table with name and address") else { continue };
        let origin = parse_origin(&table, scope, monitor, &mut names, &mut addresses);
        table.finish();
        origins.extend(origin);
    }
    origins
}

fn parse_origin(
    table: &Table<'_, '_>,
    scope: &mut PoolScope<'_>,
    monitor: Option<MonitorId>,
    names: &mut HashMap<String, u32>,
    addresses: &mut HashMap<Given, String>,
) -> Option<Origin> {
    let name_value = table.required("name", "give the origin a name");
    let name = name_value.as_ref().and_then(|value| {
        let name = value.string("a name")?;
        if let Some(line) = names.insert(name.to_owned(), value.place().position.line) {
            value.error(
                format!("the pool has another origin {name:?} on line {line}"),
                "give each origin of a pool its own name",
            );
        }
        check_name(value, name);
        Some(name.to_owned())
    });
    let address_value =
        table.required("address", "give an IP address, a list of them, or a host name");
    let given: Vec<Given> = address_value
        .iter()
        .flat_map(Value::one_or_list)
        .filter_map(|value| {
            let given = origin_address(&value)?;
            if let Some(other) = addresses.insert(given.clone(), name.clone().unwrap_or_default()) {
                let message = match &given {
                    Given::Address(ip) => format!("{ip} is an address of origin {other:?}"),
                    Given::Host(host) => format!("{host} is origin {other:?}"),
                };
                value.error(
                    format!("{message} of this pool already"),
                    "give each address to one origin of a pool",
                );
            }
            Some(given)
        })
        .collect();
    let host = given.iter().find_map(Given::host);
    if let (Some(value), Some(host), 2..) = (&address_value, host, given.len()) {
        value.error(
            format!("{host} is a host name, and something else stands beside it"),
            "give one host name or IP addresses: several host names are several origins",
        );
    }
    if let Some(value) = &address_value
        && value.is_empty_list()
    {
        value.error("the origin has no address", "give at least one IP address");
    }
    let zone = table.optional("zone").and_then(|value| availability_zone(&value, scope.zones));
    let weight = table.optional("weight").and_then(|value| value.decimal("a weight"));
    let roles = [("primary", Role::Primary), ("failover", Role::Failover)];
    let role = table.optional("role").and_then(|value| value.choice(&roles)).unwrap_or_default();
    let enabled = table.optional("enabled").and_then(|value| value.boolean()).unwrap_or(true);
    table.not_offered(&["capacity"]);
    let target = |monitor, address| ProbeTarget { monitor, address, host: None };
    let address = |ip| OriginAddress {
        ip,
        probe: monitor.map(|monitor| scope.probes.intern(target(monitor, ip))),
        ttl: None,
    };
    let mut own: Vec<_> = given.iter().filter_map(Given::address).map(address).collect();
    // Most have one, and there may be very many origins.
    own.shrink_to_fit();
    Some(Origin {
        name: name?,
        host: host.cloned(),
        addresses: own,
        zone,
        weight: weight.unwrap_or(Decimal::ONE),
        role,
        enabled,
    })
}

/// What an origin is given by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Given {
    Address(IpAddr),
    Host(Name),
}

impl Given {
    fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(ip) => Some(*ip),
            Self::Host(_) => None,
        }
    }

    fn host(&self) -> Option<&Name> {
        match self {
            Self::Address(_) => None,
            Self::Host(host) => Some(host),
        }
    }
}

/// True if a server can have the address.
pub fn is_of_a_server(ip: IpAddr) -> bool {
    !ip.is_unspecified() && !ip.is_multicast() && ip != IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// An origin's address or host name.
fn origin_address(value: &Value<'_, '_>) -> Option<Given> {
    let text = value.string("an IP address or a host name")?;
    if let Ok(ip) = text.parse::<IpAddr>() {
        if !is_of_a_server(ip) {
            value.error(
                format!("{ip} is the address of no server"),
                "give the server's own address",
            );
            return None;
        }
        return Some(Given::Address(ip));
    }
    let looks_like_address =
        text.contains(':') || text.bytes().all(|octet| octet.is_ascii_digit() || octet == b'.');
    if looks_like_address {
        value.error(
            format!("{text:?} is not an IP address"),
            "write \"192.0.2.10\", \"2001:db8::10\" or a host name, without a port",
        );
        return None;
    }
    match Name::parse_absolute(text) {
        Ok(host) if is_host_name(&host) => Some(Given::Host(host)),
        Ok(_) => {
            value.error(
                format!("{text:?} is neither an IP address nor a host name"),
                "write \"192.0.2.10\", or a name of letters, digits and - as \"origin.example.net\"",
            );
            None
        }
        Err(error) => {
            value.error(format!("{text:?} is not a host name: {error}"), "correct the name");
            None
        }
    }
}

/// True for a name that a server can have (RFC 1123 section 2.1); underscores are common in clouds.
fn is_host_name(name: &Name) -> bool {
    let fits = |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
    !name.is_root() && name.labels().all(|label| label.iter().all(fits))
}
