//! `zones/*.toml`: the zone's own part of a file, that is its name, SOA and static records. Pools,
//! monitors and load balancers have files of their own beside this one.

use std::path::PathBuf;

use crate::config::reader::{Place, Table, Value};
use crate::config::server::Server;
use crate::config::transfer::parse_transfer;
use crate::name::Name;
use crate::rr::{Record, RecordType, Ttl};
use crate::transfer::Rules;
use crate::zone::build::SoaFields;
use crate::zone::master::SourcedRecord;
use crate::zone::rdata::{ends_in_zone, parse_record_data, with_hints};

/// The TTL of static records where neither record nor zone gives one.
pub const DEFAULT_TTL: Ttl = Ttl::saturating(300);

/// What is added to a record to see whether anything can be.
const NO_HINTS: [Vec<u8>; 2] = [Vec::new(), Vec::new()];

/// The zone's own part of a file.
#[derive(Debug)]
pub struct ZoneHead {
    /// The name of the zone.
    pub apex: Name,
    /// Where that stands.
    pub place: Place,
    /// The TTL of static records that have none.
    pub ttl: Option<Ttl>,
    /// The zone's master file, relative to this file's folder, and where it is named.
    pub zonefile: Option<(PathBuf, Place)>,
    /// `[soa]`.
    pub soa: SoaFields,
    /// `[[records]]`.
    pub records: Vec<SourcedRecord>,
    /// Names and types whose records get hints, and where that is said.
    pub hinted: Vec<(Name, RecordType, Place)>,
    /// `transfer`.
    pub transfer: Option<Rules>,
    /// False if a record could not be read.
    pub records_are_complete: bool,
}

/// Reads the zone's own part; none if even its name is missing.
pub fn parse_head(table: &Table<'_, '_>, server: &Server) -> Option<ZoneHead> {
    let zone = table.required("zone", "give the zone's name, as zone = \"example.com\"");
    let place = zone.as_ref().map(Value::place);
    let apex = zone.and_then(|value| value.name(&Name::root()));
    let ttl = table.optional("ttl").and_then(|value| value.ttl());
    let zonefile = table
        .optional("zonefile")
        .and_then(|value| Some((PathBuf::from(value.string("a file's name")?), value.place())));
    // Without a name the rest is still read, so that its mistakes are shown too.
    let origin = apex.clone().unwrap_or_else(Name::root);
    let soa = table.optional("soa").map(|value| parse_soa(&value, &origin)).unwrap_or_default();
    let transfer = table.optional("transfer").and_then(|value| parse_transfer(&value, server));
    let errors = table.report().error_count();
    let mut hinted = Vec::new();
    let records = table
        .optional("records")
        .and_then(|value| value.list("a list of records ([[records]])"))
        .unwrap_or_default()
        .iter()
        .flat_map(|value| parse_record(value, &origin, ttl.unwrap_or(DEFAULT_TTL), &mut hinted))
        .collect();
    let records_are_complete = table.report().error_count() == errors;
    table.not_offered(&["tests"]);
    let (apex, place) = (apex?, place?);
    Some(ZoneHead {
        apex,
        place,
        ttl,
        zonefile,
        soa,
        records,
        hinted,
        transfer,
        records_are_complete,
    })
}

fn parse_soa(value: &Value<'_, '_>, apex: &Name) -> SoaFields {
    let mut soa = SoaFields { place: Some(value.key_place()), ..SoaFields::default() };
    let Some(table) = value.table("a table") else { return soa };
    soa.mname = table.optional("mname").and_then(|value| value.name(apex));
    soa.rname = table.optional("rname").and_then(|value| {
        if value.is_string() && value.string("a mailbox").is_some_and(|text| text.contains('@')) {
            value.error(
                "the mailbox is written as a name, without @",
                "write \"hostmaster\", or \"hostmaster.example.com.\"",
            );
            return None;
        }
        value.name(apex)
    });
    if let Some(ttl) = table.optional("ttl").and_then(|value| value.ttl()) {
        soa.ttl = ttl;
    }
    soa.serial = table
        .optional("serial")
        .and_then(|value| value.integer(0..=u64::from(u32::MAX), "a serial"))
        .and_then(|serial| u32::try_from(serial).ok());
    for (key, timer) in ["refresh", "retry", "expire", "minimum"].into_iter().zip(&mut soa.timers) {
        if let Some(ttl) = table.optional(key).and_then(|value| value.ttl()) {
            *timer = ttl.seconds();
        }
    }
    table.finish();
    soa
}

fn parse_record(
    value: &Value<'_, '_>,
    apex: &Name,
    default_ttl: Ttl,
    hinted: &mut Vec<(Name, RecordType, Place)>,
) -> Vec<SourcedRecord> {
    let Some(table) = value.table("a table with name, type and data") else { return Vec::new() };
    let name = table.required("name", "give the owner's name, \"@\" for the apex");
    let owner = name.and_then(|value| owner(&value, apex));
    let type_value = table.required("type", "give the record type, as \"A\"");
    let record_type = type_value.as_ref().and_then(record_type);
    let ttl = table.optional("ttl").map_or(Some(default_ttl), |value| value.ttl());
    let data = table.required("data", "give the data, one string a record");
    let hints = table.optional("steered_hints");
    let is_hinted = hints.as_ref().and_then(|value| value.boolean()).unwrap_or(false);
    table.finish();
    if let (true, Some(value), Some(record_type)) = (is_hinted, &hints, record_type) {
        if !matches!(record_type, RecordType::HTTPS | RecordType::SVCB) {
            let message = format!("{record_type} records have no hints");
            value.key_error(message, "remove the key: it belongs to HTTPS and SVCB records");
        } else if let Some(owner) = &owner {
            hinted.push((owner.clone(), record_type, value.key_place()));
        }
    }
    let Some(data) = data else { return Vec::new() };
    let strings = data.list("a list with one string a record, as [\"192.0.2.1\"]");
    let strings = strings.unwrap_or_default();
    if data.is_empty_list() {
        data.error("there is no data", "give one string a record, or remove the record");
    }
    let read = |data: &Value<'_, '_>| {
        let text = data.string("the data in master-file form, one string a record")?;
        let record_type = record_type?;
        if record_type == RecordType::TXT && !text.contains('"') && text.trim().contains(' ') {
            data.warning(
                "the text is not in quotes: each word is a string of its own",
                format!("write '\"{}\"' for one string", text.trim()),
            );
        }
        let rdata = match parse_record_data(record_type, text, apex) {
            Ok(rdata) => rdata,
            Err(error) => {
                data.error(format!("{record_type} data {text:?}: {}", error.message), error.help);
                return None;
            }
        };
        let owner = owner.clone()?;
        let is_hintable = matches!(record_type, RecordType::HTTPS | RecordType::SVCB);
        if is_hinted && is_hintable && with_hints(&rdata, owner.as_wire(), &NO_HINTS).is_none() {
            data.error(
                "steered_hints cannot add to this record",
                "give a priority above 0 and the target \".\", without ipv4hint and ipv6hint",
            );
        }
        let record = Record { owner, record_type, ttl: ttl?, rdata };
        Some(SourcedRecord { record, place: data.place() })
    };
    strings.iter().filter_map(read).collect()
}

/// The owner of a record: a name in the zone.
fn owner(value: &Value<'_, '_>, apex: &Name) -> Option<Name> {
    let owner = value.name(apex)?;
    let text = value.string("a name")?;
    if !owner.is_at_or_below(apex) {
        value.error(
            format!("{owner} is not in the zone {apex}"),
            "give a name relative to the zone, or move the record to its own zone",
        );
        return None;
    }
    if ends_in_zone(text, apex) {
        value.warning(
            format!("the name is relative: its records are those of {owner}"),
            format!("write \"{text}.\" with a final dot if that is not meant"),
        );
    }
    Some(owner)
}

fn record_type(value: &Value<'_, '_>) -> Option<RecordType> {
    let text = value.string("a record type")?;
    let Some(record_type) = RecordType::parse(text) else {
        value.error(
            format!("{text:?} is not a record type"),
            "give a type as \"A\" or \"MX\", or as \"TYPE65400\" with data as RFC 3597 writes it",
        );
        return None;
    };
    if record_type.is_meta() {
        value.error(
            format!("{record_type} is no data of a zone"),
            "remove the record: the type stands in messages only",
        );
        return None;
    }
    if record_type == RecordType::SOA {
        value.error("the SOA is not a record of [[records]]", "give its fields under [soa]");
        return None;
    }
    Some(record_type)
}
