//! The file that the query log is written to. Whoever rotates it moves it away, and tells nobody: the path
//! is looked at now and then, and what is not there any more is begun anew.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// Who may read the file: its owner and its group.
const MODE: u32 = 0o640;

/// A file that is written to its end.
pub(super) struct LogFile {
    path: PathBuf,
    file: Option<File>,
}

impl LogFile {
    /// Opens the file, or makes it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), file: Some(open(path)?) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file again if its path leads elsewhere by now; true if it is open after it was not.
    pub(super) fn look_after(&mut self) -> io::Result<bool> {
        if self.file.as_ref().is_some_and(|file| is_at(file, &self.path)) {
            return Ok(false);
        }
        let was_open = self.file.take().is_some();
        self.file = Some(open(&self.path)?);
        Ok(!was_open)
    }

    /// Writes whole lines; false if there is no file.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<bool> {
        let Some(file) = &mut self.file else { return Ok(false) };
        let length = file.metadata()?.len();
        let written = file.write_all(lines);
        if written.is_err() {
            // No half line stays, so that the next one begins a line. What is no regular file keeps it.
            let _cut = file.set_len(length);
        }
        written.map(|()| true)
    }
}

/// Opens a file to write to its end. A pipe that nobody reads is an error, not a reason to wait.
fn open(path: &Path) -> io::Result<File> {
    let no_wait = OFlags::NONBLOCK.bits().cast_signed();
    let mut options = OpenOptions::new();
    let file = options.append(true).create(true).mode(MODE).custom_flags(no_wait).open(path)?;
    // From now on there is time to wait for a reader.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// What [`LogFile::open`] would say, as far as that shows without opening or making anything: whether a
/// file is there or has a folder to be made in. Rights are left out: who asks may have others than the server.
pub(super) fn look_at(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(found) if found.is_dir() => Err(Errno::ISDIR.into()),
        Ok(found) if found.file_type().is_socket() => Err(io::Error::other("it is a socket")),
        Ok(_) => Ok(()),
        Err(_) if path.as_os_str().as_encoded_bytes().ends_with(b"/") => Err(Errno::ISDIR.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => look_at_folder_of(path),
        Err(error) => Err(error),
    }
}

/// Whether there is a folder that something could be made in under this path.
pub(super) fn look_at_folder_of(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return Err(Errno::NOENT.into()),
    };
    if folder.metadata()?.is_dir() { Ok(()) } else { Err(Errno::NOTDIR.into()) }
}

/// True if a path leads to an open file.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), path.metadata()) {
        (Ok(file), Ok(path)) => identity(file) == identity(path),
        _ => false,
    }
}
