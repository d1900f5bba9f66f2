//! Host names of origins: what is to be resolved, and what follows from the addresses that were found.

use tokio::sync::mpsc::UnboundedSender;
use tracing::warn;

use crate::config::server::ResolverSettings;
use crate::resolution::{self, Resolved};
use crate::serve::control::Control;
use crate::serve::resolver::Names;

impl Control {
    /// Has host names resolved with these settings, by who listens to `names` from now on, or who does
    /// already.
    pub fn resolve(&self, settings: &ResolverSettings, names: Option<UnboundedSender<Names>>) {
        let mut inner = self.lock();
        inner.names = names.or_else(|| inner.names.take());
        let wanted = resolution::wanted(&self.live.load().state);
        inner.wanted.clone_from(&wanted.names);
        let told = Names { wanted, settings: settings.clone() };
        if inner.names.as_ref().is_some_and(|names| names.send(told).is_err()) {
            warn!("the resolver ended; addresses of host names stay as they are");
        }
    }

    /// Takes the addresses of host names in. What follows from them is in the answers when this returns.
    pub fn take_resolved(&self, resolved: Resolved) {
        let mut inner = self.lock();
        let moment = self.live.load();
        let state = &moment.state;
        inner.resolved = resolved;
        let (pools, probes) = resolution::apply(state, &inner.resolved);
        let changed = resolution::changed(&inner.pools, &pools);
        if changed.is_empty() {
            return;
        }
        let is_probed_alike = inner.board.is_of(&probes);
        if !is_probed_alike {
            inner.board = std::mem::take(&mut inner.board).carry_over(state, &pools, &probes);
        }
        inner.pools = pools;
        let mut health = inner.board.health();
        let pools = inner.overrides.apply(state, &inner.pools, &mut health);
        // That the addresses changed is told by who found them.
        self.swap(&inner, moment.with_pools(pools, health, &changed), []);
        if !is_probed_alike {
            self.probe(&inner);
        }
    }
}
