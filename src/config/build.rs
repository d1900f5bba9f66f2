//! From the texts of all files to one [`State`], or to all that is wrong with them. Pure: texts come
//! in, and a master file is read through the function that is passed in.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::load_balancers::{
    BalancerScope, ParsedBalancer, number_slots, parse_balancer, reachable_pools,
};
use crate::config::monitors::{Monitor, is_without_name, parse_monitor};
use crate::config::pools::{MonitorId, PoolScope, Probes, check_name, parse_pool};
use crate::config::proximity::Orders;
use crate::config::reader::{File, Place, Table, Value};
use crate::config::report::{Report, Source};
use crate::config::rtt::{self, PoolsByName};
use crate::config::server::Server;
use crate::config::zone_file::{ZoneHead, parse_head};
use crate::locate::place::AvailabilityZones;
use crate::locate::{Locator, LocatorInput};
use crate::name::Name;
use crate::rr::{RecordType, Ttl};
use crate::state::{BalancerSource, State};
use crate::steer::load_balancer::{LoadBalancerId, Policy};
use crate::steer::pool::{Pool, PoolId};
use crate::steer::rtt::RttTable;
use crate::steer::session::SessionAffinity;
use crate::tally::layout::Layout;
use crate::transfer::Rules;
use crate::tsig::Keys;
use crate::zone::ZoneSet;
use crate::zone::build::{ZoneParts, build as build_zone};
use crate::zone::master::parse_master;
use crate::zone::node::{NameMap, Zone, soa_minimum};

/// The name of the file of pools and monitors that all zones share.
pub const SHARED_FILE: &str = "shared.toml";

/// The texts that a state is built from.
#[derive(Debug, Default)]
pub struct Files {
    /// `zones/*.toml`, in the order of their names.
    pub zones: Vec<Source>,
    /// `geo/regions.toml`.
    pub regions: Option<Source>,
    /// `geo/subnets.toml`.
    pub subnets: Option<Source>,
    /// `geo/rtt.toml`.
    pub rtt: Option<Source>,
    /// `geo/*.mmdb`.
    pub database: Option<(PathBuf, Vec<u8>)>,
}

/// Reads a text file that a zone file names.
pub type ReadText<'r> = &'r dyn Fn(&Path) -> io::Result<String>;

/// Builds the state. Every mistake of every file is reported; none is returned if there is an error.
pub fn build(files: &Files, server: &Server, read: ReadText<'_>, report: &Report) -> Option<State> {
    let documents: Vec<_> = files.zones.iter().map(|source| File::parse(source, report)).collect();
    let (shared, zones): (Vec<_>, Vec<_>) =
        documents.iter().map(crate::config::reader::Document::root).zip(&files.zones).partition(
            |(_, source)| source.path().file_name().is_some_and(|name| name == SHARED_FILE),
        );

    let mut availability_zones = AvailabilityZones::default();
    let input = LocatorInput {
        regions: files.regions.as_ref(),
        subnets: files.subnets.as_ref(),
        database: files.database.as_ref().map(|(path, data)| (path.as_path(), data.as_slice())),
    };
    let locator = Locator::load(input, &mut availability_zones, report);
    // What zones name of a file that is no TOML would all be missing.
    let is_broken = |source: &Source| report.is_silenced(source.path());
    if shared.iter().map(|(_, source)| *source).chain(&files.regions).any(is_broken) {
        return None;
    }
    if let Some((region, place)) = &server.region
        && locator.regions().find(region).is_none()
    {
        let help = match locator.regions().nearest(region) {
            Some(near) => format!("did you mean {near:?}?"),
            None => "name a region of geo/regions.toml".to_owned(),
        };
        place.error(report, format!("there is no region {region:?}"), help);
    }

    let mut builder = Builder {
        server,
        report,
        read,
        locator,
        availability_zones,
        monitors: Vec::new(),
        without_name: Vec::new(),
        probes: Probes::default(),
        pools: Vec::new(),
        pool_zones: Vec::new(),
        pool_monitors: Vec::new(),
        rtt: RttTable::default(),
        orders: Orders::default(),
        balancers: Vec::new(),
        transfers: NameMap::default(),
    };
    let mut common = Scope::default();
    for (table, _) in &shared {
        builder.read_shared(table, &mut common);
    }
    let heads: Vec<ReadZone<'_, '_, '_>> = zones
        .iter()
        .filter_map(|(table, source)| builder.read_head(table, source, &common))
        .collect();
    builder.refuse_twins(&heads);
    builder.warn_of_names();
    let mut by_name = PoolsByName::new();
    for (id, pool) in (0u32..).map(PoolId).zip(&builder.pools) {
        by_name.entry(pool.name.clone()).or_default().push(id);
    }
    if let Some(source) = files.rtt.as_ref().filter(|_| !files.zones.iter().any(is_broken)) {
        builder.rtt = rtt::parse(source, builder.locator.regions(), &by_name, report);
    }
    let zones = heads.into_iter().filter_map(|zone| builder.finish_zone(zone)).collect();
    for (table, _) in &shared {
        table.finish();
    }
    builder.finish(zones)
}

/// The names that a zone file can use.
#[derive(Clone, Default)]
struct Scope {
    monitors: HashMap<String, MonitorId>,
    pools: HashMap<String, PoolId>,
}

/// A zone file whose pools are known and whose load balancers are still to be read.
struct ReadZone<'t, 's, 'a> {
    table: &'t Table<'s, 'a>,
    source: &'a Source,
    head: ZoneHead,
    scope: Scope,
}

struct Builder<'b> {
    server: &'b Server,
    report: &'b Report,
    read: ReadText<'b>,
    locator: Locator,
    availability_zones: AvailabilityZones,
    monitors: Vec<Monitor>,
    /// Monitors that check names of certificates only where origins are given by host name.
    without_name: Vec<(MonitorId, Place)>,
    probes: Probes,
    pools: Vec<Pool>,
    pool_zones: Vec<Option<Name>>,
    pool_monitors: Vec<Option<MonitorId>>,
    rtt: RttTable,
    orders: Orders,
    balancers: Vec<ParsedBalancer>,
    transfers: NameMap<Rules>,
}

impl Builder<'_> {
    /// Reads `shared.toml`.
    fn read_shared(&mut self, table: &Table<'_, '_>, scope: &mut Scope) {
        table.refuse(
            &["zone", "ttl", "zonefile", "soa", "records", "load_balancers", "transfer"],
            "shared.toml has pools and monitors only",
            "remove it, or move it to the file of its zone",
        );
        self.read_monitors(table, scope, None);
        self.read_pools(table, scope, None);
    }

    /// Reads all of a zone file but its load balancers, which may name pools of other files.
    fn read_head<'t, 's, 'a>(
        &mut self,
        table: &'t Table<'s, 'a>,
        source: &'a Source,
        common: &Scope,
    ) -> Option<ReadZone<'t, 's, 'a>> {
        let head = parse_head(table, self.server);
        let mut scope = common.clone();
        let zone = head.as_ref().map(|head| &head.apex);
        self.read_monitors(table, &mut scope, zone);
        self.read_pools(table, &mut scope, zone);
        Some(ReadZone { table, source, head: head?, scope })
    }

    fn read_monitors(&mut self, table: &Table<'_, '_>, scope: &mut Scope, zone: Option<&Name>) {
        let entries = tables_of(table, "monitors", "tables [monitors.NAME]");
        for (name, value) in entries {
            check_name(&value, &name);
            let id = MonitorId(u32::try_from(self.monitors.len()).unwrap_or(u32::MAX));
            if scope.monitors.insert(name.clone(), id).is_some() {
                let message = format!("shared.toml has a monitor {name:?} already");
                value.key_error(message, "give one of them another name");
            }
            let allow_exec = self.server.allow_exec;
            if let Some(monitor) = parse_monitor(&name, zone, &value, allow_exec) {
                if is_without_name(&monitor) {
                    self.without_name.push((id, value.key_place()));
                }
                self.monitors.push(monitor);
            }
        }
    }

    fn read_pools(&mut self, table: &Table<'_, '_>, scope: &mut Scope, zone: Option<&Name>) {
        for (name, value) in tables_of(table, "pools", "tables [pools.NAME]") {
            check_name(&value, &name);
            let id = PoolId(u32::try_from(self.pools.len()).unwrap_or(u32::MAX));
            if scope.pools.insert(name.clone(), id).is_some() {
                let message = format!("shared.toml has a pool {name:?} already");
                value.key_error(message, "give one of them another name");
            }
            let mut pool_scope = PoolScope {
                regions: self.locator.regions(),
                monitors: &scope.monitors,
                zones: &mut self.availability_zones,
                probes: &mut self.probes,
            };
            // A pool that cannot be read keeps its name, so that what names it is not wrong too.
            let pool =
                parse_pool(&name, &value, &mut pool_scope).unwrap_or_else(|| empty_pool(&name));
            let monitor = pool.monitor.as_ref().and_then(|name| scope.monitors.get(name));
            self.pool_monitors.push(monitor.copied());
            self.pools.push(pool);
            self.pool_zones.push(zone.cloned());
        }
    }

    /// Monitors without a name for certificates, unless all their origins have names.
    fn warn_of_names(&self) {
        for (id, place) in &self.without_name {
            let pools = self.pools.iter().zip(&self.pool_monitors);
            let mut pools = pools.filter(|(_, monitor)| **monitor == Some(*id)).peekable();
            let is_used = pools.peek().is_some();
            let mut origins = pools.flat_map(|(pool, _)| &pool.origins);
            if !is_used || origins.any(|origin| origin.host.is_none()) {
                place.warning(
                    self.report,
                    "the name in the certificate is not checked: the monitor has neither sni nor host",
                    "give the name that the certificate must have as sni",
                );
            }
        }
    }

    /// Two files for one zone.
    fn refuse_twins(&self, zones: &[ReadZone<'_, '_, '_>]) {
        let mut seen: HashMap<Box<[u8]>, &Place> = HashMap::new();
        for ReadZone { head, .. } in zones {
            if let Some(other) = seen.insert(head.apex.to_key(), &head.place) {
                let message = format!("{} has the zone {} too", other.file.display(), head.apex);
                head.place.error(self.report, message, "give each zone one file");
            }
        }
    }

    /// Reads a zone's load balancers and master file, and builds its tree.
    fn finish_zone(&mut self, zone: ReadZone<'_, '_, '_>) -> Option<Zone> {
        let ReadZone { table, source, head, scope } = zone;
        let mut sources = vec![source.path().to_owned()];
        let errors = self.report.error_count();
        let master_records = match &head.zonefile {
            Some((path, place)) => {
                let path = source.path().parent().unwrap_or_else(|| Path::new("")).join(path);
                sources.push(path.clone());
                match (self.read)(&path) {
                    Ok(text) => {
                        let master = Source::new(path, text);
                        parse_master(&master, &head.apex, head.ttl, self.report)
                    }
                    Err(error) => {
                        let message = format!("{} cannot be read: {error}", path.display());
                        let help = match error.kind() {
                            io::ErrorKind::InvalidData => "save it as UTF-8",
                            _ => "give a file's name relative to this file",
                        };
                        place.error(self.report, message, help);
                        Vec::new()
                    }
                }
            }
            None => Vec::new(),
        };
        if let Some(rules) = head.transfer {
            self.transfers.insert(head.apex.to_key(), rules);
        }
        let is_complete = head.records_are_complete && self.report.error_count() == errors;
        let master_minimum = master_records
            .iter()
            .find(|sourced| sourced.record.record_type == RecordType::SOA)
            .and_then(|sourced| soa_minimum(&sourced.record.rdata));
        let [_, _, _, own_minimum] = head.soa.timers;
        let negative_ttl = Ttl::saturating(master_minimum.unwrap_or(own_minimum));
        let steered = self.read_balancers(table, &scope, &head.apex, negative_ttl);
        table.finish();
        let parts = ZoneParts {
            apex: head.apex,
            place: head.place,
            toml_records: head.records,
            master_records,
            soa: head.soa,
            is_complete,
            sources,
            hinted: head.hinted,
            steered,
        };
        build_zone(parts, self.report)
    }

    fn read_balancers(
        &mut self,
        table: &Table<'_, '_>,
        scope: &Scope,
        apex: &Name,
        negative_ttl: Ttl,
    ) -> Vec<(Name, LoadBalancerId, Place)> {
        let mut steered = Vec::new();
        let mut seen: HashMap<Box<[u8]>, Place> = HashMap::new();
        for (key, value) in tables_of(table, "load_balancers", "tables [load_balancers.\"NAME\"]") {
            let balancer_scope = BalancerScope {
                apex,
                pool_names: &scope.pools,
                pools: &self.pools,
                regions: self.locator.regions(),
                locator: &self.locator,
                orders: &self.orders,
                rtt: &self.rtt,
                pop: self.server.pop.as_deref(),
                negative_ttl,
            };
            let Some(parsed) = parse_balancer(&key, &value, &balancer_scope) else { continue };
            let name = &parsed.balancer.name;
            if let Some(other) = seen.insert(name.to_key(), parsed.place.clone()) {
                let line = other.position.line;
                let message = format!("{name} has a load balancer already, on line {line}");
                value.key_error(message, "keep one of both");
            }
            // A disabled load balancer is as if it were not there.
            if parsed.enabled {
                let id = LoadBalancerId(u32::try_from(self.balancers.len()).unwrap_or(u32::MAX));
                steered.push((name.clone(), id, parsed.place.clone()));
                self.balancers.push(parsed);
            }
        }
        steered
    }

    fn finish(mut self, zones: Vec<Zone>) -> Option<State> {
        if self.report.has_errors() {
            return None;
        }
        for balancer in self.balancers.iter().map(|parsed| &parsed.balancer) {
            for pool in balancer.sessions.iter().flat_map(SessionAffinity::pools) {
                if let Some(pool) = self.pools.get_mut(pool.0 as usize) {
                    pool.keeps_sessions = true;
                }
            }
        }
        let regions = self.locator.regions();
        let region = self.server.region.as_ref().and_then(|(name, _)| regions.find(name));
        let parents = regions.iter().map(|(region, _)| regions.parent(region)).collect();
        let has_sessions = self.pools.iter().any(|pool| pool.keeps_sessions);
        let mut slot_count = 0;
        let mut stands = stands(&zones, self.balancers.len()).into_iter();
        let balancer_sources = self.balancers.iter().map(BalancerSource::from).collect();
        let mut measured = 0..;
        let number = |parsed: ParsedBalancer| {
            let mut balancer = parsed.balancer;
            let (may_alias, has_hints) = stands.next().unwrap_or_default();
            let with_hosts =
                |id: &PoolId| self.pools.get(id.0 as usize).is_some_and(Pool::has_hosts);
            balancer.aliases =
                may_alias && !parsed.flatten && reachable_pools(&balancer).iter().any(with_hosts);
            balancer.hint_slots = has_hints.then_some(0);
            slot_count = number_slots(&mut balancer, &self.pools, slot_count);
            if balancer.policy == Policy::Rtt {
                balancer.measured = measured.next();
            }
            balancer
        };
        let balancers: Vec<_> = self.balancers.into_iter().map(number).collect();
        let zones = ZoneSet::new(zones);
        Some(State {
            layout: Arc::new(Layout::new(&balancers, &zones)),
            zones,
            parents,
            balancers,
            balancer_sources,
            pools: self.pools.into(),
            pool_zones: self.pool_zones,
            pool_monitors: self.pool_monitors,
            monitors: self.monitors,
            probes: self.probes,
            availability_zones: self.availability_zones,
            locator: self.locator,
            rtt: self.rtt,
            rtt_max_age: self.server.rtt_max_age,
            pop: self.server.pop.clone(),
            region,
            identity: self.server.identity.clone(),
            require_cookies: self.server.cookies.require,
            rate_limit: self.server.rate_limit,
            transfers: self.transfers,
            keys: Keys::default(),
            has_sessions,
            slot_count,
        })
    }
}

/// Of each load balancer whether a CNAME may stand at its name, that is not at the apex and not beside
/// other records (RFC 1034 section 3.6.2), and whether records there get hints.
fn stands(zones: &[Zone], count: usize) -> Vec<(bool, bool)> {
    let mut stands = vec![(false, false); count];
    for zone in zones {
        for node in zone.nodes() {
            let place = node.steered.and_then(|id| stands.get_mut(id.0 as usize));
            let may_alias = node.rrsets.is_empty() && node.owner != zone.apex;
            place.into_iter().for_each(|place| *place = (may_alias, !node.hinted.is_empty()));
        }
    }
    stands
}

/// The entries of a table of tables, if it is there.
fn tables_of<'t, 'a>(
    table: &Table<'t, 'a>,
    key: &'static str,
    wanted: &str,
) -> Vec<(String, Value<'t, 'a>)> {
    let table = table.optional(key).and_then(|value| value.table(wanted));
    table.map(|table| table.entries()).unwrap_or_default()
}

fn empty_pool(name: &str) -> Pool {
    Pool {
        name: name.to_owned(),
        enabled: false,
        region: None,
        location: None,
        monitor: None,
        minimum_origins: 1,
        zonal_affinity: Default::default(),
        failover_policy: Default::default(),
        origins: Vec::new(),
        keeps_sessions: false,
    }
}
