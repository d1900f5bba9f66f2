//! `[pools]`: pools and their origins, from TOML to the types that the decision reads.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::config::decimal::Decimal;
use crate::config::origins::origins;
use crate::config::reader::Value;
use crate::config::report::remedy_for_name;
use crate::locate::Regions;
use crate::locate::place::{AvailabilityZoneId, AvailabilityZones};
use crate::locate::subnets::read_location;
use crate::name::Name;
use crate::steer::pool::{FailoverPolicy, MAX_ORIGINS, Origin, Pool, ProbeId, ZonalAffinity};

/// A monitor, by its index in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonitorId(pub u32);

/// The numbers of what is probed: one for each monitor and address.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    targets: Vec<ProbeTarget>,
    by_target: HashMap<ProbeTarget, ProbeId>,
}

/// What is probed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProbeTarget {
    /// By which monitor.
    pub monitor: MonitorId,
    /// The address.
    pub address: IpAddr,
    /// The host name that the origin is given by, where the monitor has no name of its own and asks by
    /// one.
    pub host: Option<Name>,
}

impl Probes {
    /// The number of a target, a new one if it is new.
    pub fn intern(&mut self, target: ProbeTarget) -> ProbeId {
        let Self { targets, by_target } = self;
        *by_target.entry(target).or_insert_with_key(|target| {
            targets.push(target.clone());
            ProbeId(u32::try_from(targets.len() - 1).unwrap_or(u32::MAX))
        })
    }

    /// All targets, by their numbers.
    pub fn targets(&self) -> &[ProbeTarget] {
        &self.targets
    }
}

/// What the names in a pool refer to.
pub struct PoolScope<'s> {
    /// The region tree.
    pub regions: &'s Regions,
    /// The monitors that the pool can name.
    pub monitors: &'s HashMap<String, MonitorId>,
    /// The availability zones, added to.
    pub zones: &'s mut AvailabilityZones,
    /// What is probed, added to.
    pub probes: &'s mut Probes,
}

/// Reads a pool; a mistake in it is reported and leaves that part out.
pub fn parse_pool(name: &str, value: &Value<'_, '_>, scope: &mut PoolScope<'_>) -> Option<Pool> {
    let table = value.table("a table of a pool's keys")?;
    let enabled = table.optional("enabled").and_then(|value| value.boolean()).unwrap_or(true);
    let region = table.optional("region").and_then(|value| scope.regions.read_name(&value));
    let location = table.optional("location").and_then(|value| read_location(&value));
    let monitor = table.optional("monitor").and_then(|value| monitor(&value, scope.monitors));
    let minimum = table.optional("minimum_origins");
    let minimum_origins = minimum
        .as_ref()
        .and_then(|value| value.integer(0..=MAX_ORIGINS as u64, "a number of origins"))
        .map_or(1, |count| usize::try_from(count).unwrap_or(MAX_ORIGINS));
    let zonal_affinity = table
        .optional("zonal_affinity")
        .and_then(|value| zonal_affinity(&value))
        .unwrap_or_default();
    if zonal_affinity != ZonalAffinity::Disabled
        && region.is_none()
        && table.optional("region").is_none()
        && let Some(value) = table.optional("zonal_affinity")
    {
        value.warning(
            "a pool without a region has no clients of its zones, so this has no effect",
            "give the pool its region",
        );
    }
    let failover_policy = table
        .optional("failover_policy")
        .and_then(|value| failover_policy(&value))
        .unwrap_or_default();
    let origins_value =
        table.required("origins", "add [[pools.NAME.origins]] with name and address");
    let monitor_id = monitor.as_ref().map(|&(_, id)| id);
    let origins =
        origins_value.as_ref().map(|value| origins(value, scope, monitor_id)).unwrap_or_default();
    if let Some(minimum) = minimum
        && minimum_origins > origins.len()
        && !origins.is_empty()
    {
        minimum.error(
            format!("{minimum_origins} must be healthy, and the pool has {} in all", origins.len()),
            "the pool could never be healthy: give a number that it can reach",
        );
    }
    if !origins.is_empty() && !origins.iter().any(Origin::is_configured) {
        value.key_warning(
            "no origin of the pool is enabled and has a weight above 0: it is never answered",
            "enable one, or give one a weight, unless the pool is drained on purpose",
        );
    }
    table.not_offered(&["subset_size", "slow_start", "hold_down", "manual_resume"]);
    table.finish();
    Some(Pool {
        name: name.to_owned(),
        enabled,
        region,
        location,
        monitor: monitor.map(|(name, _)| name),
        minimum_origins,
        zonal_affinity,
        failover_policy,
        origins,
        keeps_sessions: false,
    })
}

fn monitor(
    value: &Value<'_, '_>,
    monitors: &HashMap<String, MonitorId>,
) -> Option<(String, MonitorId)> {
    let name = value.string("a monitor's name")?;
    let Some(&id) = monitors.get(name) else {
        let if_none = format!("add [monitors.{name}], or remove the key");
        let help = remedy_for_name(name, monitors.keys(), "monitors", &if_none);
        value.error(format!("there is no monitor {name:?}"), help);
        return None;
    };
    Some((name.to_owned(), id))
}

fn zonal_affinity(value: &Value<'_, '_>) -> Option<ZonalAffinity> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mode {
        Disabled,
        Stay,
        Spill,
    }
    let modes = [
        ("disabled", Mode::Disabled),
        ("stay_within_zone", Mode::Stay),
        ("spill_cross_zone", Mode::Spill),
    ];
    let table = value.table("{ mode = … }")?;
    let mode =
        table.required("mode", "give \"disabled\", \"stay_within_zone\" or \"spill_cross_zone\"");
    let mode = mode.and_then(|value| value.choice(&modes));
    let ratio = table.optional("spillover_ratio");
    let spillover_ratio = ratio.as_ref().and_then(|value| value.decimal("a ratio"));
    if let (Some(mode), Some(ratio)) = (mode, &ratio)
        && mode != Mode::Spill
    {
        ratio.key_error(
            "spillover_ratio belongs to mode \"spill_cross_zone\"",
            "remove the key, or change the mode",
        );
    }
    table.finish();
    Some(match mode? {
        Mode::Disabled => ZonalAffinity::Disabled,
        Mode::Stay => ZonalAffinity::StayWithinZone,
        Mode::Spill => ZonalAffinity::SpillCrossZone {
            spillover_ratio: spillover_ratio.unwrap_or(Decimal::ZERO),
        },
    })
}

fn failover_policy(value: &Value<'_, '_>) -> Option<FailoverPolicy> {
    let table = value.table("{ failover_ratio = …, drop_traffic_if_unhealthy = … }")?;
    let ratio = table.optional("failover_ratio").and_then(|value| value.decimal("a ratio"));
    let drop = table.optional("drop_traffic_if_unhealthy").and_then(|value| value.boolean());
    table.finish();
    Some(FailoverPolicy {
        failover_ratio: ratio.unwrap_or(Decimal::ZERO),
        drop_traffic_if_unhealthy: drop.unwrap_or(false),
    })
}

/// The number of an availability zone's name.
pub fn availability_zone(
    value: &Value<'_, '_>,
    zones: &mut AvailabilityZones,
) -> Option<AvailabilityZoneId> {
    let name = value.string("a zone's name")?;
    check_name(value, name);
    let id = zones.intern(name);
    if id.is_none() {
        value.error("there are more than 65,535 zone names", "use fewer distinct zones");
    }
    id
}

/// Names of pools, origins, monitors and zones are shown and typed: they have letters that can be.
pub fn check_name(value: &Value<'_, '_>, name: &str) {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if name.is_empty() || name.len() > 63 || !name.chars().all(fits) {
        value.error(
            format!("{name:?} cannot be a name here"),
            "use 1 to 63 letters, digits and - _ . :",
        );
    }
}
