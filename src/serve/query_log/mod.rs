//! The writer of the query log: a thread that takes records from the queue, and writes them to a file or
//! to a socket. It may wait for both; those that answer do not wait for it.

mod file;
mod reader;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::{info, warn};

use self::file::LogFile;
use self::reader::Reader;
use crate::query_log::line::Line;
use crate::query_log::{QueryLog, Record, Settings, Target, dnstap, frames};
use crate::serve::live::Live;
use crate::state::State;

/// How long the writer rests when there is nothing to write.
const REST: Duration = Duration::from_millis(20);
/// How often it is seen whether the target is still there.
const LOOK: Duration = Duration::from_secs(1);
/// After a warning there is none for so long, however often the target comes and goes.
const QUIET: Duration = Duration::from_secs(60);
/// How long the end of the server waits for what has not been written yet.
const LAST: Duration = Duration::from_millis(500);
/// How many octets are written together.
const TOGETHER: usize = 64 * 1024;

/// Why queries cannot be logged.
#[derive(Debug, thiserror::Error)]
pub enum QueryLogError {
    /// The file cannot be opened.
    #[error("cannot write the query log {path}: {error}; {remedy}")]
    File {
        /// The file.
        path: String,
        /// What the system says.
        error: io::Error,
        /// What to do.
        remedy: String,
    },
    /// The system gives no thread.
    #[error("cannot start the query log: {0}")]
    Thread(io::Error),
}

impl QueryLogError {
    fn new(path: &Path, user: Option<&str>, error: io::Error) -> Self {
        let remedy = match (error.kind(), user) {
            (io::ErrorKind::PermissionDenied, Some(user)) => {
                format!("let the user {user} write it and its folder")
            }
            (io::ErrorKind::PermissionDenied, None) => {
                "let the server's user write it and its folder".to_owned()
            }
            (io::ErrorKind::NotFound, _) => "make its folder".to_owned(),
            _ => "name another file in [query_log]".to_owned(),
        };
        Self::File { path: path.display().to_string(), error, remedy }
    }
}

/// Looks whether there could be a log where it is to go, without writing or connecting; `user` is whom the
/// server becomes.
///
/// # Errors
/// [`QueryLogError::File`], as it would come at start, or as a warning later.
pub fn look_at(target: &Target, user: Option<&str>) -> Result<(), QueryLogError> {
    let (path, outcome) = match target {
        Target::Lines(path) => (path, file::look_at(path)),
        Target::Dnstap(path) => (path, reader::look_at(path)),
    };
    outcome.map_err(|error| QueryLogError::new(path, user, error))
}

/// The writer, as long as it is to run.
#[derive(Debug)]
pub struct LogWriter {
    stop: Arc<AtomicBool>,
    /// Nothing is ever sent: it is over when the writer is.
    ended: Receiver<()>,
}

impl LogWriter {
    /// Starts the writer, and logs queries from now on; `user` is whom the server has become.
    ///
    /// # Errors
    /// [`QueryLogError`].
    pub fn start(
        settings: &Settings,
        user: Option<&str>,
        live: &Live,
    ) -> Result<Self, QueryLogError> {
        let out = match &settings.target {
            Target::Lines(path) => {
                let file = LogFile::open(path);
                Out::File(file.map_err(|error| QueryLogError::new(path, user, error))?)
            }
            Target::Dnstap(path) => Out::Reader(Reader::new(path)),
        };
        // Any number will do that clients do not know.
        let log = Arc::new(QueryLog::new(settings.one_in, RandomState::new().hash_one(0)));
        let (stop, (running, ended)) = (Arc::<AtomicBool>::default(), mpsc::channel());
        let writer = Writer {
            log: Arc::clone(&log),
            live: live.clone(),
            out,
            states: [None, None],
            looked: None,
            warned: None,
            is_failing: false,
        };
        let stops = Arc::clone(&stop);
        let run = move || {
            let _running: mpsc::Sender<()> = running;
            writer.run(&stops);
        };
        let thread = thread::Builder::new().name("query-log".to_owned()).spawn(run);
        thread.map_err(QueryLogError::Thread)?;
        live.log_to(log);
        Ok(Self { stop, ended })
    }

    /// Lets the writer write what has been answered by now, and end. It is not waited for long: a target
    /// that takes nothing does not hold up the end of the server.
    pub fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        if self.ended.recv_timeout(LAST) == Err(RecvTimeoutError::Timeout) {
            warn!("the last of the query log could not be written in time");
        }
    }
}

struct Writer {
    log: Arc<QueryLog>,
    live: Live,
    out: Out,
    /// The state that answers, and for a while the one before, with their numbers.
    states: [Option<(u64, Arc<State>)>; 2],
    /// When the target was last looked after.
    looked: Option<Instant>,
    /// When it was last warned of.
    warned: Option<Instant>,
    /// True from a warning to the word that it is over.
    is_failing: bool,
}

enum Out {
    File(LogFile),
    Reader(Reader),
}

impl Writer {
    fn run(mut self, stop: &AtomicBool) {
        let mut buffer = Vec::new();
        loop {
            // Before the queue is emptied, so that nothing is left in it.
            let is_last = stop.load(Ordering::Relaxed);
            if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
                self.look_after();
            }
            if self.write(&mut buffer) {
                continue;
            }
            if is_last {
                break;
            }
            thread::sleep(REST);
        }
        if let Out::Reader(reader) = &mut self.out {
            reader.end();
        }
    }

    /// Opens the target where it is not open or not there any more, and lets go of an old state.
    fn look_after(&mut self) {
        let outcome = self.out.look_after();
        // After it: it may have taken long.
        self.looked = Some(Instant::now());
        match outcome {
            Ok(true) => self.succeeded(),
            Ok(false) => {}
            Err(error) => self.failed(&error),
        }
        if !self.follow() {
            self.states[1] = None;
        }
    }

    /// Writes what there is; false if that was nothing.
    fn write(&mut self, buffer: &mut Vec<u8>) -> bool {
        buffer.clear();
        let mut records = 0;
        while buffer.len() < TOGETHER
            && let Some(record) = self.log.pop()
        {
            records += 1;
            let whole = buffer.len();
            // A record that cannot be shown is not the end of the log.
            if catch_unwind(AssertUnwindSafe(|| self.put(&record, buffer))).is_err() {
                buffer.truncate(whole);
                records -= 1;
                self.log.lose(1);
            }
        }
        if buffer.is_empty() {
            return false;
        }
        let written = self.out.write(buffer);
        if !matches!(written, Ok(true)) {
            self.log.lose(records);
        }
        match written {
            Ok(true) => self.succeeded(),
            Ok(false) => {}
            Err(error) => self.failed(&error),
        }
        true
    }

    /// Warns that the log cannot be written.
    fn failed(&mut self, error: &io::Error) {
        let is_new = self.warned.is_none_or(|warned| warned.elapsed() >= QUIET);
        if !self.is_failing && is_new {
            let path = self.out.path().display();
            warn!(%path, %error, "the query log cannot be written; what it misses is counted");
            self.is_failing = true;
            self.warned = Some(Instant::now());
        }
    }

    /// Says that it can again, if it was warned of.
    fn succeeded(&mut self) {
        if self.is_failing {
            info!(path = %self.out.path().display(), "the query log is written again");
            self.is_failing = false;
        }
    }

    /// Puts a record behind what is to be written.
    fn put(&mut self, record: &Record, buffer: &mut Vec<u8>) {
        let state = self.state(record.generation);
        match &self.out {
            Out::File(_) => {
                // A line is made of strings and numbers: nothing of it cannot be written.
                if serde_json::to_writer(&mut *buffer, &Line::new(record, state.as_deref())).is_ok()
                {
                    buffer.push(b'\n');
                }
            }
            Out::Reader(_) => {
                let identity = state.as_ref().and_then(|state| state.identity.nsid.as_deref());
                frames::put_data(&dnstap::encode(record, identity), buffer);
            }
        }
    }

    /// The state of that number, if it is still known.
    fn state(&mut self, generation: u64) -> Option<Arc<State>> {
        if self.states[0].as_ref().is_none_or(|(newest, _)| *newest != generation) {
            self.follow();
        }
        let mut known = self.states.iter().flatten();
        known.find(|(number, _)| *number == generation).map(|(_, state)| Arc::clone(state))
    }

    /// Takes the state that answers; false if that is the one known.
    fn follow(&mut self) -> bool {
        let moment = self.live.load();
        let is_known = |(newest, _): &(u64, Arc<State>)| *newest == moment.generation;
        if self.states[0].as_ref().is_some_and(is_known) {
            return false;
        }
        self.states.swap(0, 1);
        self.states[0] = Some((moment.generation, Arc::clone(&moment.state)));
        true
    }
}

impl Out {
    fn path(&self) -> &Path {
        match self {
            Self::File(file) => file.path(),
            Self::Reader(reader) => reader.path(),
        }
    }

    /// Opens it where that is due; true if it was not open before.
    fn look_after(&mut self) -> io::Result<bool> {
        match self {
            Self::File(file) => file.look_after(),
            Self::Reader(reader) => reader.look_after(),
        }
    }

    /// Writes whole records; false if it is not open.
    fn write(&mut self, records: &[u8]) -> io::Result<bool> {
        match self {
            Self::File(file) => file.write(records),
            Self::Reader(reader) => reader.write(records),
        }
    }
}
