//! Takes a log or a mix through one configuration, or through two in step.

use std::collections::HashMap;

use crate::name::Name;
use crate::simulate::Simulation;
use crate::simulate::log::{LineError, LoggedQuery, parse_line};
use crate::simulate::mix::{Mix, MixError};
use crate::simulate::moves::Pairs;
use crate::simulate::quoted::Quoted;
use crate::simulate::report::{Report, Unreadable, UnreadableLine};
use crate::state::State;
use crate::steer::load_balancer::LoadBalancerId;

/// How many lines that cannot be read are told one by one.
pub const MOST_UNREADABLE: usize = 10;

/// A simulation that goes on.
#[derive(Debug)]
pub struct Replay<'s> {
    before: Simulation<'s>,
    after: Option<Simulation<'s>>,
    pairs: Pairs,
    lines: u64,
    queries: u64,
    unreadable: Unreadable,
}

impl<'s> Replay<'s> {
    /// Begins with a configuration, and perhaps a new one to compare it with.
    pub fn new(before: Simulation<'s>, after: Option<Simulation<'s>>) -> Self {
        Self {
            before,
            after,
            pairs: Pairs::default(),
            lines: 0,
            queries: 0,
            unreadable: Unreadable::default(),
        }
    }

    /// Replays a line of a log. One that cannot be read is counted, and the first are kept.
    pub fn line(&mut self, line: &[u8]) {
        self.lines += 1;
        let asked = match parse_line(line) {
            Ok(None) => return,
            Ok(Some(query)) => self.ask(&query),
            Err(error) => Err(error),
        };
        match asked {
            Ok(()) => self.queries += 1,
            Err(error) => {
                self.unreadable.count += 1;
                if self.unreadable.first.len() < MOST_UNREADABLE {
                    let message = error.to_string();
                    self.unreadable.first.push(UnreadableLine { line: self.lines, message });
                }
            }
        }
    }

    fn ask(&mut self, query: &LoggedQuery<'_>) -> Result<(), LineError> {
        let wrong = |error| LineError::Name(Quoted::new(query.name), error);
        let before = self.before.ask(query).map_err(wrong)?;
        if let Some(after) = &mut self.after {
            let after = after.ask(query).map_err(wrong)?;
            self.pairs.add(before, after);
        }
        Ok(())
    }

    /// Asks every load balancer the queries of a mix.
    ///
    /// # Errors
    /// [`MixError`] if a configuration does not know a region of it.
    pub fn mix(&mut self, mix: &Mix) -> Result<(), MixError> {
        let old_places = mix.places(self.before.state)?;
        let new_places = match &self.after {
            Some(after) => mix.places(after.state)?,
            None => Vec::new(),
        };
        for (old, new) in twins(self.before.state, self.after.as_ref().map(|after| after.state)) {
            for entry in mix.turns() {
                self.queries += 1;
                let place = old_places.get(entry);
                let before = old.zip(place).and_then(|(id, place)| self.before.ask_from(id, place));
                if let Some(after) = &mut self.after {
                    let place = new_places.get(entry);
                    let after = new.zip(place).and_then(|(id, place)| after.ask_from(id, place));
                    self.pairs.add(before, after);
                }
            }
        }
        Ok(())
    }

    /// How many queries could be read so far.
    pub fn queries(&self) -> u64 {
        self.queries
    }

    /// What was found.
    pub fn report(self) -> Report {
        let Self { before, after, pairs, queries, unreadable, .. } = self;
        Report {
            queries,
            unreadable,
            before: before.answered(),
            after: after.as_ref().map(Simulation::answered),
            difference: after.as_ref().map(|after| pairs.difference(&before, after)),
        }
    }
}

/// The load balancers of two configurations, those of one name together.
fn twins(
    before: &State,
    after: Option<&State>,
) -> Vec<(Option<LoadBalancerId>, Option<LoadBalancerId>)> {
    let ids = || (0u32..).map(LoadBalancerId);
    let mut new: HashMap<Name, LoadBalancerId> = HashMap::new();
    for (id, balancer) in after.into_iter().flat_map(|state| ids().zip(&state.balancers)) {
        new.insert(balancer.name.clone(), id);
    }
    let mut twins: Vec<_> = ids()
        .zip(&before.balancers)
        .map(|(id, balancer)| (Some(id), new.remove(&balancer.name)))
        .collect();
    let mut only_new: Vec<LoadBalancerId> = new.into_values().collect();
    only_new.sort_unstable();
    twins.extend(only_new.into_iter().map(|id| (None, Some(id))));
    twins
}
