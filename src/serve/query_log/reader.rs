//! A reader of dnstap, which listens on a Unix socket and takes frame streams. It may come and go as it likes,
//! and gets what is answered while it is there.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use crate::query_log::frames::{self, Control, FrameError};
use crate::serve::query_log::file::look_at_folder_of;

/// How long it may take to take something, or to say something.
const PATIENCE: Duration = Duration::from_secs(1);
/// How much is read at once; control frames are short.
const PART: usize = 256;

/// The reader at a path.
pub(super) struct Reader {
    path: PathBuf,
    stream: Option<Socket>,
}

impl Reader {
    /// One that is not connected to yet.
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), stream: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Connects to the reader if there is no connection; true if there is one from now on.
    pub(super) fn look_after(&mut self) -> io::Result<bool> {
        if self.stream.as_ref().is_some_and(|stream| !is_ended(stream)) {
            return Ok(false);
        }
        self.stream = None;
        self.stream = Some(greet(&self.path)?);
        Ok(true)
    }

    /// Writes whole frames; false if there is no connection.
    pub(super) fn write(&mut self, frames: &[u8]) -> io::Result<bool> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        let written = stream.write_all(frames);
        if written.is_err() {
            // Perhaps in the middle of a frame: nothing can follow.
            self.stream = None;
        }
        written.map(|()| true)
    }

    /// Tells the reader that nothing more comes, and waits for its word that it has all.
    pub(super) fn end(&mut self) {
        let Some(mut stream) = self.stream.take() else { return };
        // Whoever does not answer has lost what it did not read.
        let _told = stream
            .write_all(&frames::control(Control::Stop))
            .and_then(|()| expect(&mut stream, Control::Finish));
    }
}

/// Whether a reader could listen at a path, as far as that shows without connecting; it may come later.
pub(super) fn look_at(path: &Path) -> io::Result<()> {
    SockAddr::unix(path)?;
    match path.metadata() {
        Ok(found) if found.file_type().is_socket() => Ok(()),
        Ok(_) => Err(io::Error::other("it is not a socket")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => look_at_folder_of(path),
        Err(error) => Err(error),
    }
}

/// Connects to a reader, and agrees with it on dnstap.
fn greet(path: &Path) -> io::Result<Socket> {
    let mut stream = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // It bounds how long connecting takes, too.
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.connect(&SockAddr::unix(path)?)?;
    stream.write_all(&frames::control(Control::Ready))?;
    expect(&mut stream, Control::Accept)?;
    stream.write_all(&frames::control(Control::Start))?;
    Ok(stream)
}

/// Reads a control frame, which must be of this kind.
fn expect(stream: &mut Socket, wanted: Control) -> io::Result<()> {
    let (mut received, mut part) = (Vec::new(), [0; PART]);
    let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    loop {
        if let Some(kind) = frames::read_control(&received).map_err(malformed)? {
            return if kind == wanted { Ok(()) } else { Err(malformed(FrameError::Malformed)) };
        }
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => received.extend(part.iter().take(count)),
        }
    }
}

/// True if the other side has ended the connection. It says nothing between its greeting and the end.
fn is_ended(stream: &Socket) -> bool {
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    match stream.recv_with_flags(&mut [MaybeUninit::uninit()], flags) {
        Ok(received) => received == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}
