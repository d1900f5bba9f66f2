//! The folders that are watched, by inotify. Folders and not files are: an editor that puts a new file
//! in place of the old one changes the folder, and so does a file that is new. Of a folder's changes
//! only those of names that the configuration was read from count, so that neither the files of
//! monitors nor what an editor keeps beside a file lead to a reload.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::sync::mpsc;
use tracing::warn;

use crate::config::inputs::{Input, InputKind};
use crate::serve::watch::names::Way;

/// What is told of a folder: that names come, go and change. Reading is not told.
const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::ONLYDIR);

/// Room for some hundred changes at once.
const BUFFER: usize = 16 * 1024;
/// How many changes may wait until they are looked at.
const WAITING: usize = 1024;

/// What is watched.
#[derive(Debug)]
pub(super) struct Folders {
    inotify: Arc<OwnedFd>,
    told: mpsc::Receiver<io::Result<Told>>,
    /// What counts in each folder, by the number of its watch.
    watched: BTreeMap<i32, Names>,
    /// Folders that cannot be watched, which was said.
    unseen: BTreeSet<PathBuf>,
}

/// The names in a folder that count.
#[derive(Debug, Default)]
struct Names {
    single: BTreeSet<OsString>,
    endings: BTreeSet<&'static str>,
}

impl Names {
    fn hold(&self, name: &OsStr) -> bool {
        let ending = Path::new(name).extension().and_then(OsStr::to_str);
        let is_hidden = name.as_bytes().starts_with(b".");
        self.single.contains(name)
            || ending.is_some_and(|ending| !is_hidden && self.endings.contains(ending))
    }
}

/// A change that was told.
#[derive(Debug)]
struct Told {
    /// The number of the folder's watch; none where some changes could not be told.
    watch: Option<i32>,
    /// The name in it.
    name: OsString,
}

impl Folders {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// What the system says if it lets nothing be watched.
    pub(super) fn new() -> io::Result<Self> {
        let inotify = Arc::new(inotify::init(CreateFlags::CLOEXEC)?);
        // Where many changes wait the system waits with more of them, and then says that some are lost.
        let (tell, told) = mpsc::channel(WAITING);
        let from = Arc::clone(&inotify);
        thread::Builder::new().name("watch".to_owned()).spawn(move || listen(&from, &tell))?;
        Ok(Self { inotify, told, watched: BTreeMap::new(), unseen: BTreeSet::new() })
    }

    /// Watches for these inputs, and no longer for others. A change that comes meanwhile is not lost.
    pub(super) fn watch(&mut self, inputs: &[Input]) {
        let mut watched: BTreeMap<i32, Names> = BTreeMap::new();
        let mut unseen = BTreeSet::new();
        for (folder, names) in folders_of(inputs) {
            match inotify::add_watch(&self.inotify, &folder, CHANGES) {
                // Two paths may lead to one folder.
                Ok(number) => {
                    let known = watched.entry(number).or_default();
                    known.single.extend(names.single);
                    known.endings.extend(names.endings);
                }
                // That it comes is a change of the folder that it will be in.
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => {
                    if !self.unseen.contains(&folder) {
                        warn_of(&folder, error);
                    }
                    unseen.insert(folder);
                }
            }
        }
        for number in self.watched.keys().filter(|number| !watched.contains_key(number)) {
            // One whose folder was removed is gone already.
            let _gone = inotify::remove_watch(&self.inotify, *number);
        }
        (self.watched, self.unseen) = (watched, unseen);
    }

    /// Waits until something changes that counts.
    ///
    /// # Errors
    /// What the system says if it cannot tell.
    pub(super) async fn changed(&mut self) -> io::Result<()> {
        loop {
            let ended = || io::Error::other("the thread that listens has ended");
            let Told { watch, name } = self.told.recv().await.ok_or_else(ended)??;
            let Some(watch) = watch else { return Ok(()) };
            if self.watched.get(&watch).is_some_and(|names| names.hold(&name)) {
                return Ok(());
            }
        }
    }
}

/// Passes on what is told, as long as somebody takes it. A thread does that: the system's call waits.
fn listen(inotify: &OwnedFd, tell: &mpsc::Sender<io::Result<Told>>) {
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut reader = Reader::new(inotify, &mut buffer);
    loop {
        let told = match reader.next() {
            Ok(event) => {
                let is_whole = !event.events().contains(ReadFlags::QUEUE_OVERFLOW);
                let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                let name = name.unwrap_or_default().to_owned();
                Ok(Told { watch: is_whole.then_some(event.wd()), name })
            }
            Err(Errno::INTR) => continue,
            Err(error) => Err(error.into()),
        };
        let is_error = told.is_err();
        if tell.blocking_send(told).is_err() || is_error {
            return;
        }
    }
}

/// The folders that inputs are in, with the names that count there.
fn folders_of(inputs: &[Input]) -> BTreeMap<PathBuf, Names> {
    let mut folders: BTreeMap<PathBuf, Names> = BTreeMap::new();
    for input in inputs {
        let way = Way::of(&input.path);
        for (folder, name) in way.names {
            folders.entry(folder).or_default().single.insert(name);
        }
        if let InputKind::Folder { ending } = input.kind {
            folders.entry(way.end).or_default().endings.insert(ending);
        }
    }
    folders
}

fn warn_of(folder: &Path, error: Errno) {
    let folder = folder.display();
    let help = match error {
        Errno::NOSPC => "allow more with sysctl fs.inotify.max_user_watches",
        Errno::ACCESS => "let the server's user list the folder",
        _ => "reload with SIGHUP after changes there",
    };
    warn!(%folder, %error, help, "changes in the folder are not seen");
}
