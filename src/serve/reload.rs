//! A reload: builds the new state beside the old one and swaps it in whole, or keeps the old one and
//! says why.

mod settings;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::changes::Changes;
use crate::config::admin::Token;
use crate::config::files::{Paths, Secrets, load, read_secrets};
use crate::config::inputs::Input;
use crate::config::report::{Diagnostic, Report, Severity};
use crate::config::server::Server;
use crate::journal::entries;
use crate::serial::Serials;
use crate::serve::control::Control;
use crate::serve::notifier::Notifier;
use crate::serve::prober_of;
use crate::serve::secrets::Keeper;
use crate::serve::service_manager::ServiceManager;
use crate::serve::tls::CurrentCertificate;
use crate::state::State;

/// The most characters that are kept of the first mistake of a refused reload.
const LONGEST_REASON: usize = 300;

/// Makes states from the files, one after the other.
#[derive(Debug)]
pub struct Reloader {
    paths: Paths,
    server: Server,
    control: Arc<Control>,
    token: ArcSwapOption<Token>,
    followers: Followers,
    /// The certificate that clients are shown.
    certificate: Option<Arc<CurrentCertificate>>,
    /// What was looked at the last time.
    inputs: watch::Sender<Arc<[Input]>>,
    /// What is served. Held for the length of a reload: they follow one another.
    served: Mutex<Served>,
    /// The last reload, if it was refused.
    refused: ArcSwapOption<LastRefused>,
}

/// A refused reload that no other has made good since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastRefused {
    /// When it was, in seconds since 1970.
    pub at: u64,
    /// The first of the mistakes, cut to a length that can be shown anywhere.
    pub error: String,
}

/// Who else learns what a reload brings.
#[derive(Debug)]
pub struct Followers {
    /// Has the secrets of cookies.
    pub keeper: Arc<Keeper>,
    /// Tells secondaries.
    pub notifier: Notifier,
    /// Is told how reloads go.
    pub manager: Arc<ServiceManager>,
}

/// What a reload goes on from.
#[derive(Debug)]
struct Served {
    generation: u64,
    serials: Serials,
    /// The settings and secrets that were read with it.
    server: Server,
    secrets: Secrets,
}

/// How a reload went.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The new state is served.
    Reloaded(Box<Reloaded>),
    /// The old one is kept.
    Refused(Refused),
}

/// A new state is served.
#[derive(Clone, Debug)]
pub struct Reloaded {
    /// Its number.
    pub generation: u64,
    /// What is different.
    pub changes: Changes,
    /// What is probably not as it was meant.
    pub warnings: Vec<Diagnostic>,
    /// Settings that changed and wait for a restart.
    pub at_next_start: Vec<&'static str>,
}

/// The old state is kept.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Its number.
    pub generation: u64,
    /// The first of the mistakes.
    pub reason: String,
    /// All of them, and what is only probably wrong.
    pub diagnostics: Vec<Diagnostic>,
}

impl Reloader {
    /// For a server that runs with these settings and secrets, and serves generation 1 with these
    /// serials.
    pub fn new(
        paths: Paths,
        server: Server,
        control: Arc<Control>,
        serials: Serials,
        secrets: Secrets,
        followers: Followers,
    ) -> Self {
        let token = ArcSwapOption::from(secrets.token.clone().map(Arc::new));
        let certificate = secrets.certificate.as_ref().map(CurrentCertificate::new).map(Arc::new);
        let served = Served { generation: 1, serials, server: server.clone(), secrets };
        let served = Mutex::new(served);
        let inputs = watch::Sender::new(Arc::from([]));
        let refused = ArcSwapOption::empty();
        Self { paths, server, control, token, certificate, followers, inputs, served, refused }
    }

    /// Tells secondaries of the zones that are served.
    pub fn notify(&self) {
        self.followers.notifier.tell(&self.control.live().load().state);
    }

    /// Tells what was looked at, now by whoever read the files first, later by each reload.
    pub fn note_inputs(&self, inputs: Vec<Input>) {
        self.inputs.send_replace(Arc::from(inputs));
    }

    /// What was looked at the last time.
    pub fn inputs(&self) -> watch::Receiver<Arc<[Input]>> {
        self.inputs.subscribe()
    }

    /// The certificate that clients are shown, if TLS is served.
    pub fn certificate(&self) -> Option<&Arc<CurrentCertificate>> {
        self.certificate.as_ref()
    }

    /// The settings that the server runs with.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The token of the admin service, as of the last reload.
    pub fn token(&self) -> Option<Arc<Token>> {
        self.token.load_full()
    }

    /// The last reload, if it was refused.
    pub fn refused(&self) -> Option<Arc<LastRefused>> {
        self.refused.load_full()
    }

    /// Reads all files again, serves what they say, and logs how it went.
    pub fn reload(&self) -> Outcome {
        // A reload that broke off left what it had not replaced yet.
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        self.followers.manager.reloads();
        let outcome = self.try_reload(&mut served);
        // What the files were read with is free, whatever came of them.
        self.control.live().leave();
        let succeeded = matches!(outcome, Outcome::Reloaded(_));
        self.control.live().meters().count_reload(succeeded);
        self.refused.store(match &outcome {
            Outcome::Reloaded(_) => None,
            Outcome::Refused(Refused { reason, .. }) => Some(Arc::new(LastRefused::now(reason))),
        });
        log_outcome(&outcome);
        self.followers.manager.reloaded(&match &outcome {
            Outcome::Reloaded(reloaded) => format!("serving generation {}", reloaded.generation),
            Outcome::Refused(Refused { generation, reason, .. }) => {
                format!("serving generation {generation}; a reload was refused: {reason}")
            }
        });
        match &outcome {
            Outcome::Reloaded(_) => self.notify(),
            Outcome::Refused(Refused { generation, reason, diagnostics }) => {
                let told = entries::refused(*generation, reason, diagnostics);
                self.control.journal().record([told]);
            }
        }
        outcome
    }

    fn try_reload(&self, served: &mut Served) -> Outcome {
        let report = Report::default();
        let (server, state) = load(&self.paths, &report);
        let secrets = read_secrets(&server, &report);
        self.note_inputs(report.take_inputs());
        let state = state.filter(|_| !report.has_errors());
        let diagnostics = report.into_sorted();
        let generation = served.generation;
        let refused =
            |reason, diagnostics| Outcome::Refused(Refused { generation, reason, diagnostics });
        let Some(mut state) = state else {
            let errors = diagnostics.iter().filter(|d| d.severity == Severity::Error);
            let reason = errors.min_by_key(|d| d.position.is_some()).map(Diagnostic::headline);
            return refused(reason.unwrap_or_default(), diagnostics);
        };
        let prober = match prober_of(&server, &state) {
            Ok(prober) => Arc::new(prober),
            Err(error) => return refused(error.to_string(), diagnostics),
        };
        keep_serials(&server, &mut state, &mut served.serials);
        state.keys = secrets.keys.clone();
        let changes = Changes {
            settings: settings::changes((&served.server, &served.secrets), (&server, &secrets)),
            ..Changes::between(&self.control.live().load().state, &state)
        };
        let generation = generation + 1;
        let told = entries::reloaded(generation, &changes);
        self.control.adopt(generation, state, prober, told);
        self.control.resolve(&server.resolver, None);
        self.token.store(secrets.token.clone().map(Arc::new));
        self.followers.keeper.follow(secrets.cookies);
        if let (Some(current), Some(new)) = (&self.certificate, &secrets.certificate) {
            current.replace(new);
        }
        let at_next_start = settings::at_next_start(&self.server, &server);
        (served.generation, served.server, served.secrets) = (generation, server, secrets);
        let warnings = diagnostics;
        Outcome::Reloaded(Box::new(Reloaded { generation, changes, warnings, at_next_start }))
    }
}

impl LastRefused {
    fn now(reason: &str) -> Self {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut error: String = reason.chars().take(LONGEST_REASON).collect();
        if error.len() < reason.len() {
            error.push('…');
        }
        Self { at, error }
    }
}

fn log_outcome(outcome: &Outcome) {
    match outcome {
        Outcome::Refused(Refused { generation, reason, diagnostics }) => {
            log_diagnostics(diagnostics);
            // What no file is to blame for is an error too.
            let errors = diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
            error!(errors = errors.max(1), reason, generation, "reload refused");
        }
        Outcome::Reloaded(reloaded) => {
            let Reloaded { generation, changes, warnings, at_next_start } = reloaded.as_ref();
            log_diagnostics(warnings);
            info!(
                generation,
                zones = %changes.zones,
                names = %changes.names,
                pools = %changes.pools,
                origins = %changes.origins,
                location = %changes.location,
                settings = %changes.settings,
                "reloaded"
            );
            for key in at_next_start {
                warn!(key, "the setting takes effect at the next start");
            }
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
