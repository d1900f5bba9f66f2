//! The resolver: a thread that finds the addresses of the host names that origins are given by, again
//! whenever their TTL is over, and passes them on. What a name is known by is `resolution::track`'s
//! business; nothing is decided here.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hickory_proto::rr::{Name as HickoryName, RData, RecordType as HickoryType};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ServerOrderingStrategy,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::system_conf::read_system_conf;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{Id, JoinError, JoinSet};
use tracing::{error, info, warn};

use crate::config::origins::is_of_a_server;
use crate::config::server::ResolverSettings;
use crate::journal::entries;
use crate::name::Name;
use crate::resolution::track::{Found, NameTrack, Said};
use crate::resolution::{Resolved, Wanted};
use crate::rr::Ttl;
use crate::serve::control::Control;
use crate::serve::meters::LookupResult;

/// How long a resolver may take to reply, and how often it is asked.
const TIMEOUT: Duration = Duration::from_secs(2);
const ATTEMPTS: usize = 2;
/// How long one name may take, whatever the resolvers do.
const WITHIN: Duration = Duration::from_secs(15);
/// How many names are asked for at the same time.
const AT_ONCE: usize = 32;
/// How often TTLs are counted down.
const COUNT_DOWN: Duration = Duration::from_secs(1);
/// How long results are gathered before they are passed on: each time costs a new moment.
const GATHER: Duration = Duration::from_millis(10);
/// The fractional part of the golden ratio, in 2^-64: its multiples fall evenly between 0 and 1.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What is to be resolved, and how.
#[derive(Clone, Debug)]
pub struct Names {
    /// The host names.
    pub wanted: Wanted,
    /// The settings.
    pub settings: ResolverSettings,
}

/// Starts the resolver, which is told what to resolve through `names` and ends when nobody can tell it
/// any more.
///
/// # Errors
/// What the system says if it refuses a thread.
pub fn start_resolver(
    names: UnboundedReceiver<Names>,
    control: Arc<Control>,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("resolver".to_owned()).spawn(move || {
        let resolving = runtime.spawn(Resolving::new(control).run(names));
        if let Err(fault) = runtime.block_on(resolving) {
            error!(%fault, "the resolver ended; addresses of host names stay as they are");
        }
    })
}

/// The state of the resolver's thread.
struct Resolving {
    control: Arc<Control>,
    settings: Option<ResolverSettings>,
    /// What asks; if it cannot be set up, why.
    resolver: Result<TokioResolver, String>,
    longest: Ttl,
    names: BTreeMap<Box<[u8]>, Entry>,
    /// What waits, by when it is due.
    queue: BTreeMap<Due, Box<[u8]>>,
    /// Tells what is due at the same time apart, and spreads it.
    queued: u64,
    /// Names that are asked for; the result is what was found, by family.
    running: JoinSet<[Found; 2]>,
    /// What each task asks for.
    asked: BTreeMap<Id, Box<[u8]>>,
    /// When what is known is passed on next.
    publish_at: Instant,
    published: Resolved,
    /// What is said once it is in the answers: of which name, and what was said before.
    unsaid: Vec<(Name, Option<Said>, Said)>,
}

/// When something is due, and its number in the queue.
type Due = (Instant, u64);

/// A host name.
struct Entry {
    name: Name,
    track: NameTrack,
    /// Its place in the queue; none while it is asked for.
    due: Option<Due>,
    /// True once there was a result.
    is_known: bool,
    /// Asked for again at once when the answer is there: it comes by old settings.
    again: bool,
}

impl Resolving {
    fn new(control: Arc<Control>) -> Self {
        Self {
            control,
            settings: None,
            resolver: Err("not set up".to_owned()),
            longest: Ttl::default(),
            names: BTreeMap::new(),
            queue: BTreeMap::new(),
            queued: 0,
            running: JoinSet::new(),
            asked: BTreeMap::new(),
            publish_at: Instant::now(),
            published: Resolved::default(),
            unsaid: Vec::new(),
        }
    }

    async fn run(mut self, mut names: UnboundedReceiver<Names>) {
        loop {
            let first = self.queue.first_key_value().map(|(&(at, _), _)| at);
            let first = first.filter(|_| self.running.len() < AT_ONCE);
            let publish = (!self.names.is_empty()).then_some(self.publish_at);
            tokio::select! {
                new = names.recv() => match new {
                    Some(new) => self.adopt(new),
                    None => return,
                },
                Some(ended) = self.running.join_next_with_id() => self.finish(ended),
                () = at(first) => self.begin_due(),
                () = at(publish) => self.publish(),
            }
        }
    }

    /// Resolves these names from now on: new ones at once, all of them if the settings changed.
    fn adopt(&mut self, new: Names) {
        let Names { wanted, settings } = new;
        let is_changed = self.settings.as_ref() != Some(&settings);
        if !wanted.names.is_empty() && (is_changed || self.resolver.is_err()) {
            self.resolver = set_up(&settings).map_err(|error| error.to_string());
        }
        self.settings = Some(settings);
        self.longest = wanted.longest;
        let mut old = std::mem::take(&mut self.names);
        for name in wanted.names {
            let key = name.to_key();
            let mut entry = old.remove(&key).unwrap_or_else(|| Entry {
                name,
                track: NameTrack::default(),
                due: None,
                is_known: false,
                again: false,
            });
            let is_asked_for = self.asked.values().any(|asked| *asked == key);
            entry.again |= is_asked_for && is_changed;
            if !is_asked_for && (entry.due.is_none() || is_changed) {
                entry.due.take().map(|due| self.queue.remove(&due));
                entry.due = Some(self.enqueue(Instant::now(), &key));
            }
            self.names.insert(key, entry);
        }
        for due in old.into_values().filter_map(|entry| entry.due) {
            self.queue.remove(&due);
        }
        self.publish_at = Instant::now();
    }

    fn enqueue(&mut self, at: Instant, key: &[u8]) -> Due {
        self.queued += 1;
        let due = (at, self.queued);
        self.queue.insert(due, key.into());
        due
    }

    /// Asks for names that are due.
    fn begin_due(&mut self) {
        let now = Instant::now();
        while self.running.len() < AT_ONCE {
            let Some(first) = self.queue.first_entry().filter(|entry| entry.key().0 <= now) else {
                return;
            };
            let key = first.remove();
            let Some(entry) = self.names.get_mut(&key) else { continue };
            entry.due = None;
            let (name, resolver) = (entry.name.clone(), self.resolver.clone());
            let task = self.running.spawn(async move {
                match resolver {
                    Ok(resolver) => look_up(&resolver, &name).await,
                    Err(reason) => [Found::Failed(reason.clone()), Found::Failed(reason)],
                }
            });
            self.asked.insert(task.id(), key);
        }
    }

    /// Takes in what was found, and puts the name back into the queue.
    fn finish(&mut self, ended: Result<(Id, [Found; 2]), JoinError>) {
        let (id, found) = match ended {
            Ok(ended) => ended,
            Err(fault) => {
                error!(%fault, "resolving a name panicked; it is tried again");
                let failed = || Found::Failed("a fault of this program".to_owned());
                (fault.id(), [failed(), failed()])
            }
        };
        for found in &found {
            self.control.live().meters().count_lookup(match found {
                Found::Addresses(..) => LookupResult::Addresses,
                Found::NoName | Found::NoData => LookupResult::Empty,
                Found::Failed(_) => LookupResult::Failure,
            });
        }
        let Some(key) = self.asked.remove(&id) else { return };
        let (now, keep) = (Instant::now(), self.keep());
        let Some(entry) = self.names.get_mut(&key) else { return };
        let before = entry.track.said().cloned();
        if let Some(said) = entry.track.record(now, found, keep) {
            self.unsaid.push((entry.name.clone(), before, said));
        }
        entry.is_known = true;
        let pause = match std::mem::take(&mut entry.again) {
            true => Duration::ZERO,
            false => entry.track.pause(now, self.queued.wrapping_mul(GOLDEN)),
        };
        let due = self.enqueue(now + pause, &key);
        if let Some(entry) = self.names.get_mut(&key) {
            entry.due = Some(due);
        }
        self.publish_at = self.publish_at.min(now + GATHER);
    }

    fn keep(&self) -> Duration {
        self.settings.as_ref().map(|settings| settings.keep).unwrap_or_default()
    }

    /// Passes on what is known, and says what is new of it.
    fn publish(&mut self) {
        let (now, keep) = (Instant::now(), self.keep());
        self.publish_at = now + COUNT_DOWN;
        let mut resolved = Resolved::default();
        for entry in self.names.values_mut().filter(|entry| entry.is_known) {
            let before = entry.track.said().cloned();
            if let Some(said) = entry.track.expire(now, keep) {
                self.unsaid.push((entry.name.clone(), before, said));
            }
            resolved.insert(&entry.name, entry.track.addresses(now, self.longest));
        }
        if resolved != self.published {
            self.published = resolved.clone();
            self.control.take_resolved(resolved);
        }
        for (name, before, said) in self.unsaid.drain(..) {
            say(&name, &said);
            let told = entries::resolution(&name, before.as_ref(), &said);
            self.control.journal().record([told]);
        }
    }
}

/// Waits for a time; for ever if there is none.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// One line for a change of a name's addresses, or of why there are no new ones.
fn say(name: &Name, said: &Said) {
    let addresses: Vec<_> = said.addresses.iter().map(IpAddr::to_string).collect();
    let addresses = addresses.join(" ");
    match &said.failure {
        None => info!(%name, addresses, "resolved"),
        Some(reason) => warn!(%name, addresses, reason, "cannot resolve"),
    }
}

/// What asks the resolvers of the settings, or those of the system.
fn set_up(settings: &ResolverSettings) -> Result<TokioResolver, NetError> {
    let server = |address: &SocketAddr| {
        let connections =
            [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
                connection.port = address.port();
                connection
            });
        // One that does not know a name may be behind another that does.
        NameServerConfig::new(address.ip(), false, connections.into())
    };
    let servers = match settings.servers.as_slice() {
        [] => read_system_conf()?.0.name_servers().to_vec(),
        servers => servers.iter().map(server).collect(),
    };
    // Host names are absolute: nothing is searched.
    let config = ResolverConfig::from_parts(None, Vec::new(), servers);
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    let options = builder.options_mut();
    options.timeout = TIMEOUT;
    options.attempts = ATTEMPTS;
    // When to ask again is decided here.
    options.cache_size = 0;
    options.use_hosts_file = ResolveHosts::Never;
    options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
    builder.build()
}

/// Asks for both families of a name.
async fn look_up(resolver: &TokioResolver, name: &Name) -> [Found; 2] {
    let Ok(mut name) = HickoryName::from_labels(name.labels()) else {
        let failed = || Found::Failed("the name cannot be asked for".to_owned());
        return [failed(), failed()];
    };
    name.set_fqdn(true);
    let (v4, v6) = tokio::join!(
        look_up_family(resolver, &name, HickoryType::A),
        look_up_family(resolver, &name, HickoryType::AAAA)
    );
    [v4, v6]
}

async fn look_up_family(
    resolver: &TokioResolver,
    name: &HickoryName,
    family: HickoryType,
) -> Found {
    let asked = tokio::time::timeout(WITHIN, resolver.lookup(name.clone(), family));
    let answers = match asked.await {
        Ok(Ok(lookup)) => lookup.answers().to_vec(),
        Ok(Err(error)) if error.is_nx_domain() => return Found::NoName,
        Ok(Err(error)) if error.is_no_records_found() => return Found::NoData,
        Ok(Err(error)) => return Found::Failed(reason(&error)),
        Err(_elapsed) => return Found::Failed("no reply from any resolver in time".to_owned()),
    };
    // An alias on the way holds no longer than its own TTL.
    let ttl = answers.iter().map(|record| record.ttl).min().unwrap_or(0);
    let address = |data: &RData| match data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    };
    let addresses: Vec<IpAddr> = answers
        .iter()
        .filter_map(|record| address(&record.data))
        .filter(|&address| is_of_a_server(address))
        .collect();
    match addresses.is_empty() {
        true => Found::NoData,
        false => Found::Addresses(addresses, Duration::from_secs(u64::from(ttl))),
    }
}

/// Why a name was not resolved, in plain words.
fn reason(error: &NetError) -> String {
    match error {
        NetError::Timeout | NetError::NoConnections => "no reply from any resolver".to_owned(),
        error => error.to_string(),
    }
}
