//! The state folder: what must outlast a restart, a JSON file for each kind. A file is replaced whole
//! or not at all, and a damaged one is set aside; serving goes on whatever happens here.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config::files::read_regular;

/// The file that [`check`] writes.
const CHECK: &str = "writable.json";

/// Why a file of the state folder cannot be used or kept.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// The file cannot be read or written.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The file is damaged, and was set aside.
    #[error("{path}: damaged, and renamed to {aside}: {error}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Its name from now on.
        aside: String,
        /// What is wrong with it.
        error: serde_json::Error,
    },
}

/// Reads a file of the folder; one that is not there is the default. A damaged one is renamed, so that
/// nothing overwrites it.
///
/// # Errors
/// [`StateFileError`] if there is one that cannot be read.
pub fn read<T: DeserializeOwned + Default>(folder: &Path, name: &str) -> Result<T, StateFileError> {
    let path = folder.join(name);
    let text = match read_regular(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
        Err(error) => return Err(StateFileError::Io { path, error }),
    };
    let damaged = match serde_json::from_slice(&text) {
        Ok(content) => return Ok(content),
        Err(error) => error,
    };
    let aside = format!("{name}.damaged");
    match fs::rename(&path, folder.join(&aside)) {
        Ok(()) => Err(StateFileError::Damaged { path, aside, error: damaged }),
        Err(error) => Err(StateFileError::Io { path, error }),
    }
}

/// Checks that files can be written to the folder; makes it if it is not there.
///
/// # Errors
/// [`StateFileError::Io`] if they cannot.
pub fn check(folder: &Path) -> Result<(), StateFileError> {
    write(folder, CHECK, &"written to see whether it can be")?;
    let path = folder.join(CHECK);
    fs::remove_file(&path).map_err(|error| StateFileError::Io { path, error })
}

/// Whether there is the folder, or a place to make it in, without making anything. Rights are left out: who
/// asks may have others than the server.
///
/// # Errors
/// [`StateFileError::Io`], with what is in the way.
pub fn look_at(folder: &Path) -> Result<(), StateFileError> {
    let mut path = folder;
    loop {
        let failed = |error| Err(StateFileError::Io { path: path.to_owned(), error });
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Ok(()),
            Ok(_) => return failed(Errno::NOTDIR.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if fs::symlink_metadata(path).is_ok() {
                    return failed(io::Error::other("it is a link to nothing"));
                }
            }
            // Of what is above it there is more to say.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
            // What cannot be seen into is the server's to see.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            Err(error) => return failed(error),
        }
        path = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => return Ok(()),
        };
    }
}

/// Writes a file of the folder, whole or not at all; makes the folder if it is not there.
///
/// # Errors
/// [`StateFileError::Io`] if that fails; the old file is then as it was.
pub fn write(folder: &Path, name: &str, content: &impl Serialize) -> Result<(), StateFileError> {
    write_as(folder, name, content, 0o666)
}

/// The same for a file that the server alone can read.
///
/// # Errors
/// As [`write()`].
pub fn write_private(
    folder: &Path,
    name: &str,
    content: &impl Serialize,
) -> Result<(), StateFileError> {
    write_as(folder, name, content, 0o600)
}

/// Writes a file with these permissions, as far as the process may give them.
fn write_as(
    folder: &Path,
    name: &str,
    content: &impl Serialize,
    mode: u32,
) -> Result<(), StateFileError> {
    let path = folder.join(name);
    let draft = folder.join(format!("{name}.new"));
    let write = || {
        fs::create_dir_all(folder)?;
        // Whatever stands under the draft's name, a pipe even, is not written to.
        if let Err(error) = fs::remove_file(&draft)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(mode).open(&draft)?;
        file.write_all(&serde_json::to_vec_pretty(content)?)?;
        file.sync_all()?;
        fs::rename(&draft, &path)
    };
    write().map_err(|error| {
        // What there is of it would take room where there is none.
        let _gone = fs::remove_file(&draft);
        StateFileError::Io { path, error }
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_are_replaced_whole_and_damaged_ones_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("state");
        assert_eq!(read::<Vec<u32>>(&folder, "a.json").unwrap(), Vec::<u32>::new());
        write(&folder, "a.json", &[1, 2]).unwrap();
        write(&folder, "a.json", &[3]).unwrap();
        assert_eq!(read::<Vec<u32>>(&folder, "a.json").unwrap(), [3]);
        check(&folder).unwrap();
        assert!(!folder.join(CHECK).exists());
        write_private(&folder, "secret.json", &[5]).unwrap();
        let mode = fs::metadata(folder.join("secret.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        fs::write(folder.join("a.json"), "[4,").unwrap();
        let error = read::<Vec<u32>>(&folder, "a.json").unwrap_err();
        assert!(matches!(error, StateFileError::Damaged { .. }), "{error}");
        assert_eq!(fs::read_to_string(folder.join("a.json.damaged")).unwrap(), "[4,");
        assert_eq!(read::<Vec<u32>>(&folder, "a.json").unwrap(), Vec::<u32>::new());
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_and_the_old_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.json", &[1]).unwrap();
        fs::create_dir(folder.path().join("a.json.new")).unwrap();
        assert!(matches!(write(folder.path(), "a.json", &[2]), Err(StateFileError::Io { .. })));
        assert_eq!(read::<Vec<u32>>(folder.path(), "a.json").unwrap(), [1]);
    }
}
