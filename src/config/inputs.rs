//! What the configuration was read from: the files and folders that a run of loading looked at, each
//! with a mark by which a later change shows. [`files`](crate::config::files) takes the marks;
//! `serve::watch` waits for changes. What is not looked at is not here: the files of monitors, above all.

use std::path::PathBuf;

/// A file or folder that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name, as the configuration gives it.
    pub path: PathBuf,
    /// What was looked for there.
    pub kind: InputKind,
    /// What was found, before it was read.
    pub mark: Mark,
}

/// What is looked for under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// The content of a file.
    File,
    /// The names in a folder with an ending, hidden ones aside.
    Folder {
        /// The ending, without its dot.
        ending: &'static str,
    },
}

/// What tells one state of a file or folder from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It is not there, or cannot be looked at.
    Absent,
    /// Which file it is, its size, and when content and properties changed, in seconds and nanoseconds.
    File {
        /// The file system and the number of the file in it.
        identity: (u64, u64),
        /// Octets.
        size: u64,
        /// When its content changed.
        modified: (i64, i64),
        /// When its properties changed.
        changed: (i64, i64),
    },
    /// The files in the folder.
    Folder(Vec<PathBuf>),
}
