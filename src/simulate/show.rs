//! The findings of a simulation for people.

use std::fmt;

use crate::simulate::report::{Answered, BalancerMoves, BalancerShares, Difference, Report};

/// The most ways in which the answers of one load balancer move that are shown.
const MOST_MOVES: usize = 20;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.difference, &self.after) {
            (Some(difference), Some(after)) => difference.show(f, &self.before, after)?,
            _ => write!(f, "{}", self.before)?,
        }
        writeln!(f, "{}", counted(self.queries, "query", "queries"))?;
        if self.before.not_steered > 0 {
            let names = counted(self.before.not_steered, "is", "are");
            writeln!(f, "  {names} for names and types that are not steered")?;
        }
        if self.unreadable.count > 0 {
            let lines = counted(self.unreadable.count, "line", "lines");
            writeln!(f, "  {lines} could not be read")?;
        }
        Ok(())
    }
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load_balancers.iter().try_for_each(|balancer| write!(f, "{balancer}"))
    }
}

impl fmt::Display for BalancerShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  {}", self.load_balancer, counted(self.queries, "query", "queries"))?;
        let origins = || self.pools.iter().flat_map(|pool| &pool.origins);
        let width = origins().map(|origin| origin.origin.len()).max().unwrap_or(0).max(12);
        for pool in &self.pools {
            writeln!(f, "  {:<w$}  {:>7}", pool.pool, percent(pool.share), w = width + 2)?;
            for origin in &pool.origins {
                let zone = origin.zone.as_ref().map(|zone| format!("  zone {zone}"));
                let zone = zone.unwrap_or_default();
                writeln!(f, "    {:<width$}  {:>7}{zone}", origin.origin, percent(origin.share))?;
            }
        }
        let zone_of = |zone: &Option<String>| zone.clone().unwrap_or_else(|| "none".to_owned());
        if self.zones.iter().any(|zone| zone.zone.is_some()) {
            let part = |zone: &crate::simulate::report::ZoneShare| {
                format!("{} {}", zone_of(&zone.zone), percent(zone.share))
            };
            let zones: Vec<_> = self.zones.iter().map(part).collect();
            writeln!(f, "  zones: {}", zones.join(", "))?;
        }
        if let Some(cross) = &self.cross_zone {
            let answers = counted(cross.answers, "answer", "answers");
            let share = percent(cross.share);
            writeln!(f, "  cross-zone: {share} of {answers} to clients in a zone")?;
        }
        for (count, what) in [
            (self.fallback, "from the fallback pool: no candidate is available"),
            (self.no_data, "without data of the type"),
            (self.no_answer, "without an answer (SERVFAIL)"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} {what}")?;
            }
        }
        Ok(())
    }
}

impl Difference {
    fn show(&self, f: &mut fmt::Formatter<'_>, before: &Answered, after: &Answered) -> fmt::Result {
        let answers = counted(self.answers, "answer", "answers");
        writeln!(f, "{} of {answers} move", percent(self.moved))?;
        for balancer in self.load_balancers.iter().filter(|balancer| !balancer.moves.is_empty()) {
            write!(f, "{balancer}")?;
            let name = &balancer.load_balancer;
            show_pools(f, find(before, name), find(after, name))?;
        }
        Ok(())
    }
}

impl fmt::Display for BalancerMoves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { load_balancer, answers, moved, moves } = self;
        writeln!(
            f,
            "{load_balancer}  {} of {} move",
            percent(*moved),
            counted(*answers, "answer", "answers")
        )?;
        for one in moves.iter().take(MOST_MOVES) {
            let region = one.region.as_deref().unwrap_or("no region");
            let share = percent(one.share);
            if one.from == one.to {
                writeln!(f, "  {share:>7}  {region}: within {}", one.from)?;
            } else {
                writeln!(f, "  {share:>7}  {region}: {} → {}", one.from, one.to)?;
            }
        }
        if let Some(more) = moves.len().checked_sub(MOST_MOVES).filter(|&more| more > 0) {
            writeln!(f, "           and {more} more")?;
        }
        Ok(())
    }
}

fn find<'a>(answered: &'a Answered, name: &str) -> Option<&'a BalancerShares> {
    answered.load_balancers.iter().find(|balancer| balancer.load_balancer == name)
}

/// The shares of a load balancer's pools, and of answers that leave the client's zone, before and after,
/// where they differ.
fn show_pools(
    f: &mut fmt::Formatter<'_>,
    before: Option<&BalancerShares>,
    after: Option<&BalancerShares>,
) -> fmt::Result {
    let pools = |side: Option<&BalancerShares>| -> Vec<(String, f64)> {
        let pools = side.map_or(&[][..], |balancer| &balancer.pools);
        pools.iter().map(|pool| (pool.pool.clone(), pool.share)).collect()
    };
    let (old, new) = (pools(before), pools(after));
    let mut names: Vec<&String> = old.iter().chain(&new).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    let share = |side: &[(String, f64)], name: &String| {
        side.iter().find(|(other, _)| other == name).map_or(0.0, |&(_, share)| share)
    };
    for name in names {
        let (old, new) = (percent(share(&old, name)), percent(share(&new, name)));
        if old != new {
            writeln!(f, "  pool {name}: {old} → {new}")?;
        }
    }
    let cross = |side: Option<&BalancerShares>| {
        side.and_then(|balancer| balancer.cross_zone.as_ref()).map(|cross| percent(cross.share))
    };
    if let (Some(old), Some(new)) = (cross(before), cross(after))
        && old != new
    {
        writeln!(f, "  cross-zone: {old} → {new}")?;
    }
    Ok(())
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn counted(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}
