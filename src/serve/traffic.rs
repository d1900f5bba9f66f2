//! All counters of answers, wherever they are written: who counts is given counters here, and who reads
//! gets sums. Workers are never stopped for it.
//!
//! Counters of load balancers and zones belong to a state. When a reload brings another one, each worker
//! takes new ones at its next batch; what it counted in the old ones is added, by name, to the totals of
//! the newest state as soon as nobody writes them any more. A change of health has nothing to do with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::{info, warn};

use crate::serve::live::Live;
use crate::state::State;
use crate::steer::pool::PoolId;
use crate::tally::counters::{Counts, Fixed};
use crate::tally::layout::{Layout, identity, mapping};
use crate::tally::window::{Origin, View, Window, moved, numbered};

/// How often samples are taken, and it is seen whether a step is over.
const TICK: Duration = Duration::from_secs(1);
/// How often it is logged at most that answers are limited.
const SAY_LIMITED: Duration = Duration::from_secs(60);

/// All counters of answers.
#[derive(Debug)]
pub struct Traffic {
    /// Those that streams share.
    shared: Arc<Fixed>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    fixed: Vec<Arc<Fixed>>,
    /// The newest state.
    state: Arc<State>,
    counts: Vec<Taken>,
    /// Older layouts, and where each of their counters is in the newest.
    older: Vec<(Arc<Layout>, Vec<u32>)>,
    /// What was counted in counters that are gone, by the newest layout.
    totals: Vec<u64>,
    window: Window,
    /// How many answers were limited when that was last logged, and when.
    said: (u64, Option<Instant>),
}

/// Counters, and how many of their samples were taken.
#[derive(Debug)]
struct Taken {
    counts: Arc<Counts>,
    samples: u64,
}

/// What was counted, at one moment.
#[derive(Debug)]
pub struct Sums {
    /// What the numbers mean.
    pub state: Arc<State>,
    /// Counters of load balancers and zones, by the state's layout.
    pub counters: Vec<u64>,
    /// Those of every thread that do not depend on a state.
    pub fixed: Vec<Arc<Fixed>>,
}

impl Traffic {
    /// Begins with a state, and what its streams are counted by.
    pub fn new(state: &Arc<State>, streams: &Arc<Counts>) -> Self {
        let shared = Arc::new(Fixed::default());
        let inner = Inner {
            fixed: vec![Arc::clone(&shared)],
            state: Arc::clone(state),
            counts: vec![Taken { counts: Arc::clone(streams), samples: 0 }],
            older: Vec::new(),
            totals: vec![0; state.layout.len()],
            window: Window::new(state.layout.len(), Instant::now()),
            said: (0, None),
        };
        Self { shared, inner: Mutex::new(inner) }
    }

    /// What streams count by, whatever the state.
    pub fn shared(&self) -> &Fixed {
        &self.shared
    }

    /// What one thread more counts by, whatever the state.
    pub fn fixed(&self) -> Arc<Fixed> {
        let fixed = Arc::new(Fixed::default());
        self.lock().fixed.push(Arc::clone(&fixed));
        fixed
    }

    /// What one thread more counts by, as long as answers are of this layout.
    pub fn counts(&self, layout: &Arc<Layout>) -> Arc<Counts> {
        let counts = Arc::new(Counts::new(Arc::clone(layout)));
        self.lock().counts.push(Taken { counts: Arc::clone(&counts), samples: 0 });
        counts
    }

    /// Goes on with a state that is about to be served, and what its streams are counted by.
    pub fn follow(&self, state: &Arc<State>, streams: &Arc<Counts>) {
        let is_known = Arc::ptr_eq(&self.lock().state, state);
        if !is_known {
            self.lock().follow(state, streams);
        }
    }

    /// What was counted by now.
    pub fn sums(&self) -> Sums {
        let mut inner = self.lock();
        let counters = inner.sums();
        Sums { state: Arc::clone(&inner.state), counters, fixed: inner.fixed.clone() }
    }

    /// The last minutes, and what their numbers mean.
    pub fn view(&self) -> (Arc<State>, View) {
        let mut inner = self.lock();
        inner.take_samples();
        let (sums, replies) = (inner.sums(), inner.replies());
        (Arc::clone(&inner.state), inner.window.view(&sums, replies, Instant::now()))
    }

    /// Does what the passing of time asks for.
    pub fn tick(&self) {
        let (now, mut inner) = (Instant::now(), self.lock());
        inner.take_samples();
        if inner.window.is_due(now) {
            let (sums, replies) = (inner.sums(), inner.replies());
            inner.window.advance(sums, replies, now);
        }
        inner.tell_limited(now);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the last minutes up to date, for as long as the server runs.
pub async fn keep(live: Live) {
    let mut tick = tokio::time::interval(TICK);
    loop {
        tick.tick().await;
        let traffic = Arc::clone(live.traffic());
        // With very many load balancers it takes some milliseconds.
        if let Err(error) = tokio::task::spawn_blocking(move || traffic.tick()).await {
            warn!(%error, "traffic could not be summed up");
        }
    }
}

impl Inner {
    fn follow(&mut self, state: &Arc<State>, streams: &Arc<Counts>) {
        self.take_samples();
        let old = std::mem::replace(&mut self.state, Arc::clone(state));
        let (mapping, length) = (mapping(&old, state), state.layout.len());
        let totals = std::mem::take(&mut self.totals);
        self.totals = moved(numbered(totals), &mapping, length);
        self.window.renumber(&mapping, length, renumbering(&old, state));
        for (_, older) in &mut self.older {
            for to in older {
                *to = mapping.get(*to as usize).copied().unwrap_or(crate::tally::layout::NONE);
            }
        }
        self.older.push((Arc::clone(&old.layout), mapping));
        self.counts.push(Taken { counts: Arc::clone(streams), samples: 0 });
        self.fold();
    }

    /// Adds what nobody writes any more to the totals.
    fn fold(&mut self) {
        let (layout, older, totals) = (&self.state.layout, &self.older, &mut self.totals);
        self.counts.retain_mut(|taken| {
            // Whoever let it go has written all that it will, and that is seen here.
            let is_over = Arc::get_mut(&mut taken.counts).is_some();
            if is_over {
                add(totals, &taken.counts, layout, older);
            }
            !is_over
        });
        let counts = &self.counts;
        let is_written =
            |layout: &Arc<Layout>| counts.iter().any(|t| Arc::ptr_eq(t.counts.layout(), layout));
        // A worker that is late may still ask for counters of an older state.
        self.older.retain(|(layout, _)| is_written(layout) || Arc::strong_count(layout) > 1);
    }

    fn sums(&mut self) -> Vec<u64> {
        self.fold();
        let mut sums = self.totals.clone();
        for taken in &self.counts {
            add(&mut sums, &taken.counts, &self.state.layout, &self.older);
        }
        sums
    }

    fn replies(&self) -> u64 {
        self.fixed.iter().map(|fixed| fixed.total()).sum()
    }

    /// Takes the samples that were written since the last time. Those of older states are dropped: their
    /// numbers mean nothing any more.
    fn take_samples(&mut self) {
        let Self { counts, state, window, .. } = self;
        let (layout, places) = (&state.layout, state.locator.table().places());
        for Taken { counts, samples } in counts {
            let is_current = Arc::ptr_eq(counts.layout(), layout);
            *samples = counts.take(*samples, |sample| {
                let Some((balancer, choice)) = layout.owner(sample.counter) else { return };
                let Some(balancer) = state.balancer(balancer).filter(|_| is_current) else {
                    return;
                };
                let pool = match choice {
                    crate::served::Choice::Candidate(position) => balancer.slots.get(position),
                    _ => None,
                };
                let pool = pool.map_or(balancer.fallback_pool, |&(pool, _)| pool);
                let place = places.get(sample.place as usize).copied().unwrap_or_default();
                window.add((place.region, place.country, pool), sample.weight);
            });
        }
    }

    /// Logs that answers are limited, now and then and not for each.
    fn tell_limited(&mut self, now: Instant) {
        let limited = self.fixed.iter().map(|fixed| fixed.limited());
        let [truncated, dropped] = limited.fold([0; 2], |[a, b], [c, d]| [a + c, b + d]);
        let (said, at) = self.said;
        let answers = (truncated + dropped).saturating_sub(said);
        if answers > 0 && at.is_none_or(|at| now.duration_since(at) >= SAY_LIMITED) {
            self.said = (truncated + dropped, Some(now));
            info!(answers, "answers are limited: some networks ask too often for the same");
        }
    }
}

/// Adds counters to others that are numbered by `layout`.
fn add(sums: &mut [u64], counts: &Counts, layout: &Arc<Layout>, older: &[(Arc<Layout>, Vec<u32>)]) {
    if Arc::ptr_eq(counts.layout(), layout) {
        sums.iter_mut().zip(counts.all()).for_each(|(sum, count)| *sum += count);
        return;
    }
    let Some((_, to)) = older.iter().find(|(old, _)| Arc::ptr_eq(old, counts.layout())) else {
        return;
    };
    for (count, &to) in counts.all().zip(to) {
        if let Some(sum) = sums.get_mut(to as usize) {
            *sum += count;
        }
    }
}

/// What a sample was of, from the numbers of a state to those of another.
fn renumbering(old: &State, new: &State) -> impl Fn(&Origin) -> Option<Origin> {
    let ids = |state: &State| (0u32..).map(PoolId).take(state.pools.len());
    let by_name: HashMap<_, _> = ids(new).map(|id| (identity(new, id), id)).collect();
    let pools: Vec<Option<PoolId>> =
        ids(old).map(|id| by_name.get(&identity(old, id)).copied()).collect();
    move |&(region, country, pool)| {
        let region = region
            .and_then(|region| new.locator.regions().find(old.locator.regions().name(region)));
        let pool = pools.get(pool.0 as usize).copied().flatten()?;
        Some((region, country, pool))
    }
}
