//! Tells secondaries of new versions of their zones (RFC 1996): a task for each zone and secondary, which
//! says it again until there is a reply, six times at most. Nothing waits for it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

use crate::serve::outgoing::unix_seconds;
use crate::serve::secrets::fill_random;
use crate::state::State;
use crate::transfer::notice::{Failure, Notice, check};
use crate::tsig::Key;
use crate::tsig::stamp::Stamp;

/// How often a secondary is told, if it does not reply.
const TRIES: u32 = 6;
/// How long a reply is waited for at first; then twice as long each time, 63 s in all.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// How many secondaries are told at a time.
const AT_A_TIME: usize = 256;
/// The largest reply that is read.
const REPLY: usize = 4096;

/// One zone's news for one secondary.
#[derive(Clone, Debug)]
struct News {
    notice: Arc<Notice>,
    zone: String,
    secondary: SocketAddr,
    key: Option<Arc<Key>>,
}

/// A zone and a secondary.
type Pair = (Box<[u8]>, SocketAddr);

/// Where the news go.
#[derive(Clone, Debug)]
pub struct Notifier {
    news: UnboundedSender<Vec<News>>,
}

impl Notifier {
    /// Starts it on the runtime that this is called in.
    pub fn start() -> Self {
        let (news, received) = unbounded_channel();
        tokio::spawn(run(received));
        Self { news }
    }

    /// Tells the secondaries of a state's zones what they were not told yet.
    pub fn tell(&self, state: &State) {
        let mut all = Vec::new();
        for zone in state.zones.iter() {
            let Some(rules) = state.transfers.get(&zone.apex.to_key()) else { continue };
            if rules.notify.is_empty() {
                continue;
            }
            let Some(notice) = Notice::of(zone).map(Arc::new) else { continue };
            for secondary in &rules.notify {
                let key = secondary.key.as_ref().and_then(|name| state.keys.get(name).cloned());
                let (notice, zone) = (Arc::clone(&notice), zone.apex.to_string());
                all.push(News { notice, zone, secondary: secondary.address, key });
            }
        }
        // Its task ends with the server.
        let _ended = self.news.send(all);
    }
}

/// Follows the news: of each pair the last serial that was told, and who tells it.
async fn run(mut received: UnboundedReceiver<Vec<News>>) {
    let mut told: HashMap<Pair, (u32, AbortHandle)> = HashMap::new();
    let room = Arc::new(Semaphore::new(AT_A_TIME));
    while let Some(all) = received.recv().await {
        let pair = |news: &News| (news.notice.zone.clone(), news.secondary);
        let current: HashSet<Pair> = all.iter().map(pair).collect();
        told.retain(|pair, (_, task)| {
            let stays = current.contains(pair);
            if !stays {
                task.abort();
            }
            stays
        });
        for news in all {
            let (pair, serial) = (pair(&news), news.notice.serial);
            if let Some((last, task)) = told.get(&pair) {
                if *last == serial {
                    continue;
                }
                task.abort();
            }
            let room = Arc::clone(&room);
            let task = tokio::spawn(async move {
                // It is never closed.
                if let Ok(_permit) = room.acquire().await {
                    tell(news).await;
                }
            });
            told.insert(pair, (serial, task.abort_handle()));
        }
    }
}

/// Tells one secondary, and logs how it went.
async fn tell(news: News) {
    let News { notice, zone, secondary, key } = &news;
    let serial = notice.serial;
    match attempt(notice, *secondary, key.as_ref()).await {
        Ok(tries) => info!(zone, %secondary, serial, tries, "notified"),
        Err(reason) => {
            warn!(zone, %secondary, serial, reason, "a secondary could not be notified");
        }
    }
}

/// Sends the notification until it is taken; gives the number of tries, or what is wrong.
async fn attempt(
    notice: &Notice,
    secondary: SocketAddr,
    key: Option<&Arc<Key>>,
) -> Result<u32, String> {
    let socket = open(secondary).await.map_err(|error| error.to_string())?;
    let mut problem = None;
    let mut wait = FIRST_WAIT;
    for number in 1..=TRIES {
        let mut id = [0; 2];
        fill_random(&mut id).map_err(|error| format!("there is no random number: {error}"))?;
        let id = u16::from_be_bytes(id);
        let (message, stamp) = notice.message(id, key, unix_seconds());
        let until = Instant::now() + wait;
        wait *= 2;
        if let Err(error) = socket.send(&message).await {
            problem = Some(error.to_string());
        }
        let signed = key.map(AsRef::as_ref).zip(stamp.as_ref().map(Stamp::last_mac));
        let mut reply = [0; REPLY];
        while let Ok(received) = timeout_at(until, socket.recv(&mut reply)).await {
            let length = match received {
                Ok(length) => length,
                Err(error) => {
                    // Nobody listens there, yet: the next try is as late as after silence.
                    problem = Some(error.to_string());
                    continue;
                }
            };
            let reply = reply.get(..length).unwrap_or_default();
            match check(reply, id, signed, unix_seconds()) {
                Ok(()) => return Ok(number),
                Err(Failure::Unrelated) => {}
                // Without a signature anyone may have said it: it ends nothing.
                Err(failure) if signed.is_some() => problem = Some(failure.to_string()),
                Err(failure) => return Err(failure.to_string()),
            }
        }
    }
    Err(problem.unwrap_or_else(|| format!("there was no reply to {TRIES} messages")))
}

/// A socket that hears this secondary alone.
async fn open(secondary: SocketAddr) -> io::Result<UdpSocket> {
    let any = match secondary {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(secondary).await?;
    Ok(socket)
}
