//! `transfer` of a zone file: who may have the zone, and who is told of a new version.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::config::reader::{Table, Value};
use crate::config::server::{DNS_PORT, Server};
use crate::name::Name;
use crate::transfer::{Rules, Secondary};

/// Reads the table; its keys must be among the server's.
pub(super) fn parse_transfer(value: &Value<'_, '_>, server: &Server) -> Option<Rules> {
    let table = value.table("a table with allow, keys and notify")?;
    let named = table.optional("allow").or_else(|| table.optional("keys")).is_some();
    let allow = entries(&table, "allow").iter().filter_map(network).collect();
    let keys = entries(&table, "keys").iter().filter_map(|value| key(value, server)).collect();
    let told = entries(&table, "notify");
    let rules = Rules {
        allow,
        keys,
        notify: told.iter().filter_map(|value| secondary(value, server)).collect(),
    };
    table.finish();
    if !told.is_empty() && !named {
        value.key_warning(
            "secondaries are notified, and nobody may have the zone",
            "say who may, with allow or keys",
        );
    }
    Some(rules)
}

/// The entries of a list that is not empty.
fn entries<'t, 'a>(table: &Table<'t, 'a>, key: &'static str) -> Vec<Value<'t, 'a>> {
    let Some(value) = table.optional(key) else { return Vec::new() };
    if value.is_empty_list() {
        // An empty list of keys could be meant as nobody, and an absent one is not.
        value.error("the list is empty", "give an entry, or remove the key");
    }
    value.one_or_list()
}

fn network(value: &Value<'_, '_>) -> Option<IpNet> {
    let text = value.string("an address or a network")?;
    let alone = || text.parse::<IpAddr>().ok().map(IpNet::from);
    let Some(network) = text.parse::<IpNet>().ok().or_else(alone) else {
        let help = "write \"192.0.2.53\", \"192.0.2.0/24\" or \"2001:db8::/48\"";
        value.error(format!("{text:?} is not an address or a network"), help);
        return None;
    };
    if network.trunc() != network {
        let help = format!("write \"{}\", or the address alone", network.trunc());
        value.error(format!("{text} has bits set beyond its prefix"), help);
        return None;
    }
    Some(network)
}

/// The name of a key of the server's, in lower-case wire form.
fn key(value: &Value<'_, '_>, server: &Server) -> Option<Box<[u8]>> {
    let text = value.string("the name of a key")?;
    let name = Name::parse_absolute(text).ok();
    let known = name.filter(|name| server.tsig_keys.iter().any(|key| key.name == *name));
    let Some(name) = known else {
        // One that could not be read was told already.
        if !server.tsig_keys_are_complete {
            return None;
        }
        let help = format!("add [tsig_keys.\"{text}\"] to the server's settings");
        value.error(format!("there is no key {text:?}"), help);
        return None;
    };
    Some(name.to_key())
}

/// A secondary: `"ADDRESS"`, `"ADDRESS:PORT"`, or a table that has a key beside it.
fn secondary(value: &Value<'_, '_>, server: &Server) -> Option<Secondary> {
    if value.is_string() {
        return Some(Secondary { address: address(value)?, key: None });
    }
    let table = value.table("an address, or a table with address and key")?;
    let given = table.required("address", "give the secondary's address");
    let address = given.and_then(|value| address(&value));
    let named = table.optional("key");
    table.finish();
    let key = match &named {
        None => None,
        Some(value) => Some(key(value, server)?),
    };
    Some(Secondary { address: address?, key })
}

fn address(value: &Value<'_, '_>) -> Option<SocketAddr> {
    let text = value.string("an address, with or without a port")?;
    let alone = || Some(SocketAddr::from((text.parse::<IpAddr>().ok()?, DNS_PORT)));
    let address = text.parse().ok().or_else(alone);
    if address.is_none_or(|address| address.ip().is_unspecified() || address.port() == 0) {
        value.error(
            format!("{text:?} is not the address of a secondary"),
            "write \"192.0.2.53\" or \"192.0.2.53:53\", and \"[2001:db8::53]:53\" for IPv6",
        );
        return None;
    }
    address
}
