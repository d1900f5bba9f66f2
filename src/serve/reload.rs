//! A reload: builds the new state beside the old one and swaps it in whole, or keeps the old one and
//! says why.

use std::sync::{Arc, Mutex};

use tracing::{error, info, warn};

use crate::changes::Changes;
use crate::config::files::{Paths, load};
use crate::config::report::{Diagnostic, Report, Severity};
use crate::config::server::{Server, UdpSettings};
use crate::serial::Serials;
use crate::serve::control::Control;
use crate::serve::prober_of;
use crate::state::State;

/// Makes states from the files, one after the other.
#[derive(Debug)]
pub struct Reloader {
    paths: Paths,
    server: Server,
    control: Arc<Control>,
    /// What is served. Held for the length of a reload: they follow one another.
    served: Mutex<Served>,
}

/// What a reload goes on from.
#[derive(Debug)]
struct Served {
    generation: u64,
    serials: Serials,
}

impl Reloader {
    /// For a server that runs with these settings, and serves generation 1 with these serials.
    pub fn new(paths: Paths, server: Server, control: Arc<Control>, serials: Serials) -> Self {
        Self { paths, server, control, served: Mutex::new(Served { generation: 1, serials }) }
    }

    /// Reads all files again. True if the new state is served.
    pub fn reload(&self) -> bool {
        let Ok(mut served) = self.served.lock() else { return false };
        let Served { generation, serials } = &mut *served;
        let report = Report::default();
        let (server, state) = load(&self.paths, &report);
        let diagnostics = report.into_sorted();
        log_diagnostics(&diagnostics);
        let Some(mut state) = state else {
            let errors = || diagnostics.iter().filter(|d| d.severity == Severity::Error);
            let reason = errors().min_by_key(|d| d.position.is_some()).map(Diagnostic::headline);
            let reason = reason.unwrap_or_default();
            let errors = errors().count();
            error!(errors, reason, generation = *generation, "reload refused");
            return false;
        };
        let prober = match prober_of(&server, &state) {
            Ok(prober) => Arc::new(prober),
            Err(error) => {
                error!(errors = 1, reason = %error, generation = *generation, "reload refused");
                return false;
            }
        };
        keep_serials(&server, &mut state, serials);
        let changes = Changes::between(&self.control.live().load().state, &state);
        *generation += 1;
        self.control.adopt(*generation, state, prober);
        info!(
            generation = *generation,
            zones = %changes.zones,
            names = %changes.names,
            pools = %changes.pools,
            origins = %changes.origins,
            location = %changes.location,
            "reloaded"
        );
        self.warn_of_restart(&server);
        true
    }

    /// Some settings are read at start only.
    fn warn_of_restart(&self, server: &Server) {
        // `workers` is a setting of its own.
        let udp = |server: &Server| UdpSettings { workers: 0, ..server.udp };
        let settings = [
            ("listen", self.server.listen == server.listen),
            ("workers", self.server.workers == server.workers),
            ("log", self.server.log == server.log),
            ("udp", udp(&self.server) == udp(server)),
            ("max_sessions", self.server.max_sessions == server.max_sessions),
            ("freebind", self.server.freebind == server.freebind),
            ("state", self.server.state == server.state),
        ];
        for (key, _) in settings.into_iter().filter(|(_, same)| !same) {
            warn!(key, "the setting takes effect at the next start");
        }
    }
}

/// The serials that the state folder remembers. What fails is warned of: serving goes on.
pub fn remembered_serials(server: &Server) -> Serials {
    Serials::read(&server.state).unwrap_or_else(|error| {
        warn!(%error, "the serials of the state folder cannot be used; they are derived anew");
        Serials::default()
    })
}

/// Gives the state its serials, never lower than those that were served, and keeps them. What fails
/// is warned of: serving goes on.
pub fn keep_serials(server: &Server, state: &mut State, serials: &mut Serials) {
    if serials.assign(state)
        && let Err(error) = serials.write(&server.state)
    {
        warn!(%error, "the serials cannot be kept; after a restart they may be lower");
    }
}

/// Logs what was found in the files, a line each.
pub fn log_diagnostics(diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics {
        let Diagnostic { severity, file, position, key, message, help } = diagnostic;
        let (file, key, help) = (file.display(), key.as_str(), help.as_str());
        let (line, column) = position.map_or((0, 0), |position| (position.line, position.column));
        match severity {
            Severity::Error => {
                error!(%file, line, column, key, reason = message, help, "configuration error")
            }
            Severity::Warning => {
                warn!(%file, line, column, key, reason = message, help, "configuration warning")
            }
        }
    }
}
