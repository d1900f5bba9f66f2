//! An explanation for people: a line a step, in the order of the decision.

use std::fmt;

use crate::explain::{Explanation, LocationPart, OriginPart, RecordPart};

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let query = &self.query;
        let source = if query.client_source == "ecs" { "client subnet" } else { "resolver" };
        writeln!(f, "{} {} for {} ({source})", query.name, query.record_type, query.client)?;
        writeln!(f, "location       {}", self.location)?;
        self.steps(f)?;
        self.show_answer(f)
    }
}

impl Explanation {
    fn steps(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(balancer) = &self.load_balancer else {
            return writeln!(f, "load balancer  none: this name and type are not steered");
        };
        writeln!(f, "load balancer  {balancer}")?;
        if self.health_is_assumed {
            let hint = "nothing is probed here; --at URL asks a running server";
            writeln!(f, "health         assumed: {hint}")?;
        }
        if let Some(steering) = &self.steering {
            writeln!(
                f,
                "steering       {}, {}: {}",
                steering.policy,
                steering.rule,
                steering.candidates.join(", ")
            )?;
            for (pool, milliseconds) in steering.rtt.iter().flatten() {
                writeln!(f, "               {pool} {milliseconds} ms")?;
            }
            if let Some(from) = &steering.from {
                let [latitude, longitude] = from.location;
                let of = if from.of == "country" { ", the middle of the country" } else { "" };
                writeln!(f, "               from {latitude}, {longitude}{of}")?;
            }
            for (pool, kilometres) in steering.distance.iter().flatten() {
                writeln!(f, "               {pool} {kilometres} km")?;
            }
            for (pool, share) in steering.shares.iter().flatten() {
                writeln!(f, "               {pool} {:.1} %", share * 100.0)?;
            }
        }
        for pool in self.pools.iter().flatten() {
            let available = if pool.available { "available" } else { "not available" };
            writeln!(f, "  {:<12} {available}: {}", pool.pool, pool.reason)?;
        }
        match (&self.pool, self.fallback) {
            (Some(pool), Some(true)) => {
                writeln!(f, "pool           {pool}, the fallback pool: no candidate is available")?;
            }
            (Some(pool), _) if self.steering.as_ref().is_some_and(|s| s.shares.is_some()) => {
                writeln!(f, "pool           {pool}, the first of the sequence")?;
            }
            (Some(pool), _) => writeln!(f, "pool           {pool}, the first available")?,
            (None, _) => {
                writeln!(f, "pool           none: the fallback pool cannot answer either")?
            }
        }
        self.show_origins(f)?;
        if let Some(failover) = &self.failover {
            let from = failover.from.replace('_', " ");
            writeln!(f, "eligible       {}: {}", from, list(&failover.original_eligible))?;
        }
        if let Some(zonal) = &self.zonal {
            let ratio = zonal.spillover_ratio.as_ref().map(|ratio| format!(" {ratio}"));
            let verdict = if zonal.is_match { "match" } else { "no match" };
            let ratio = ratio.unwrap_or_default();
            writeln!(f, "zonal          {}{ratio}, {verdict}: {}", zonal.mode, zonal.reason)?;
        }
        if let Some(session) = &self.session {
            let key = session.key.as_deref().unwrap_or("none");
            write!(f, "session        {key}, {} s, ", session.ttl)?;
            if let Some(placed) = &session.placed {
                write!(f, "{placed}: ")?;
            }
            writeln!(f, "{}", session.reason)?;
        }
        if let Some(choice) = &self.choice {
            let share =
                |(origin, share): (&String, &f64)| format!("{origin} {:.1} %", share * 100.0);
            let shares: Vec<_> = choice.share.iter().map(share).collect();
            let answers = choice.answers.to_string();
            let answers = answers.trim_matches('"');
            let by = if choice.by.is_some() { ", by session" } else { "" };
            writeln!(f, "choice         {} (answers = {answers}{by})", list(&shares))?;
        }
        Ok(())
    }

    fn show_origins(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origins = || self.origins.iter().flatten();
        let width = |of: fn(&OriginPart) -> &str| origins().map(|o| of(o).len()).max().unwrap_or(0);
        let zone_of: fn(&OriginPart) -> &str = |origin| origin.zone.as_deref().unwrap_or("-");
        let (names, zones) = (width(|origin| &origin.origin).max(12), width(zone_of));
        for origin in origins() {
            writeln!(
                f,
                "  {:<names$} {:<8}  zone {:<zones$}  weight {:<8}  {}",
                origin.origin,
                origin.role,
                zone_of(origin),
                origin.weight,
                origin.reason
            )?;
        }
        Ok(())
    }

    fn show_answer(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = &self.answer;
        write!(f, "answer         {}", answer.rcode)?;
        if let Some(scope) = answer.ecs_scope {
            write!(f, ", ECS scope {scope}")?;
        }
        if let Some(error) = &answer.ede {
            write!(f, ", extended error {} ({})", error.code, error.text)?;
        }
        let nothing = answer.records.is_empty() && answer.rcode == "NOERROR";
        let delegated = answer.authority.iter().any(|record| record.record_type == "NS");
        match (nothing, delegated) {
            (true, true) => writeln!(f, ", a referral")?,
            (true, false) => writeln!(f, ", no data of this type")?,
            _ => writeln!(f)?,
        }
        let records = answer.records.iter().chain(&answer.authority);
        records.into_iter().try_for_each(|record| writeln!(f, "  {record}"))
    }
}

impl fmt::Display for LocationPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let named = [
            ("region", &self.region),
            ("zone", &self.zone),
            ("country", &self.country),
            ("subdivision", &self.subdivision),
        ];
        parts.extend(
            named
                .into_iter()
                .filter_map(|(word, name)| name.as_ref().map(|name| format!("{word} {name}"))),
        );
        parts.extend(self.location.map(|[lat, lon]| format!("at {lat}, {lon}")));
        if parts.is_empty() {
            parts.push("unknown".to_owned());
        }
        f.write_str(&parts.join(", "))?;
        match (&self.matched, self.source.as_deref()) {
            (Some(matched), Some("subnets")) => write!(f, " (subnets.toml, {matched})"),
            (Some(matched), _) => write!(f, " (database, {matched})"),
            (None, _) => Ok(()),
        }
    }
}

impl fmt::Display for RecordPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} IN {} {}", self.name, self.ttl, self.record_type, self.data)
    }
}

fn list(words: &[String]) -> String {
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}
