//! Giving privileges up, once everything is listened on and before anything is answered. User, groups and
//! capabilities belong to a thread: this runs while there is one, and those that come later inherit them.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::Path;

use nix::unistd::{Gid, Group, Uid, User, getegid, geteuid, initgroups, setgid, setuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
    set_no_new_privs,
};
use tracing::{info, warn};

use crate::config::inputs::{Input, Mark};
use crate::config::monitors::Monitor;
use crate::config::privileges::Privileges;

/// How many files are named in an error.
const MOST_NAMED: usize = 3;

/// Why privileges cannot be given up.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegesError {
    /// There is no such user.
    #[error(
        "there is no user {0:?} on this machine; make it (useradd --system {0}), or name another"
    )]
    NoUser(String),
    /// There is no such group.
    #[error(
        "there is no group {0:?} on this machine; make it (groupadd --system {0}), or name another"
    )]
    NoGroup(String),
    /// The user has all privileges.
    #[error("the user {0:?} is root, which gives nothing up; name another user")]
    Root(String),
    /// Only root can become somebody else.
    #[error(
        "cannot become the user {0}: the server was not started as root; start it as root, or as that user \
         without [privileges] and --user"
    )]
    NotRoot(String),
    /// The system refuses.
    #[error("cannot become the user {user}: {step}: {error}")]
    System {
        /// The user.
        user: String,
        /// What was tried.
        step: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// Root could be had again.
    #[error("the user {0} can become root again; privileges were not given up")]
    NotGivenUp(String),
    /// A reload or a monitor would fail.
    #[error(
        "the user {user} cannot read {files}, and a reload or a monitor has to; let it, as with \
         chgrp {group} and chmod g+r (g+rx for folders)"
    )]
    Unreadable {
        /// The user.
        user: String,
        /// Its group.
        group: String,
        /// The files and folders.
        files: String,
    },
}

/// The user and the group that the server becomes.
#[derive(Debug)]
pub struct Account {
    user: String,
    group: String,
    uid: Uid,
    gid: Gid,
}

impl Account {
    /// Looks the names up.
    ///
    /// # Errors
    /// [`PrivilegesError`] if that user cannot be become.
    pub fn find(privileges: &Privileges) -> Result<Self, PrivilegesError> {
        let name = &privileges.user;
        let failed = |step| failure(name, step);
        let user = User::from_name(name).map_err(failed("looking it up"))?;
        let user = user.ok_or_else(|| PrivilegesError::NoUser(name.clone()))?;
        let group = match &privileges.group {
            Some(group) => Group::from_name(group)
                .map_err(failed("looking its group up"))?
                .ok_or_else(|| PrivilegesError::NoGroup(group.clone()))
                .map(|group| (group.gid, group.name))?,
            None => {
                let group = Group::from_gid(user.gid).map_err(failed("looking its group up"))?;
                (user.gid, group.map_or_else(|| user.gid.to_string(), |group| group.name))
            }
        };
        let (gid, group) = group;
        if user.uid.is_root() {
            return Err(PrivilegesError::Root(name.clone()));
        }
        let is_other = user.uid != geteuid() || gid != getegid();
        if is_other && !geteuid().is_root() {
            return Err(PrivilegesError::NotRoot(name.clone()));
        }
        Ok(Self { user: name.clone(), group, uid: user.uid, gid })
    }

    /// Becomes this user for good, without any capability, and checks that what is read later can be read: by
    /// a reload, and by monitors. The state folder is made for it, if it is not there.
    ///
    /// # Errors
    /// [`PrivilegesError`].
    pub fn assume(
        &self,
        inputs: &[Input],
        monitors: &[Monitor],
        state: &Path,
    ) -> Result<(), PrivilegesError> {
        let Self { user, group, uid, gid } = self;
        if geteuid().is_root() {
            self.make_state_folder(state);
            let name = CString::new(user.as_str());
            let name = name.map_err(|_| PrivilegesError::NoUser(user.clone()))?;
            initgroups(&name, *gid).map_err(failure(user, "setting its groups"))?;
            setgid(*gid).map_err(failure(user, "setting the group"))?;
            setuid(*uid).map_err(failure(user, "setting the user"))?;
            if setuid(Uid::from_raw(0)).is_ok() {
                return Err(PrivilegesError::NotGivenUp(user.clone()));
            }
        }
        set_no_new_privs(true).map_err(failure(user, "PR_SET_NO_NEW_PRIVS"))?;
        drop_capabilities().map_err(failure(user, "giving capabilities up"))?;
        self.check(inputs, monitors)?;
        info!(user, group, "running without privileges");
        Ok(())
    }

    /// Makes the state folder for the user. What fails is warned of later, when the folder is used.
    fn make_state_folder(&self, folder: &Path) {
        let made = || {
            if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                fs::create_dir_all(parent)?;
            }
            fs::DirBuilder::new().mode(0o750).create(folder)?;
            chown(folder, Some(self.uid.as_raw()), Some(self.gid.as_raw()))
        };
        let _there_or_warned_of: Result<(), io::Error> = made();
    }

    /// Checks that files and folders can be read, as far as they are there.
    fn check(&self, inputs: &[Input], monitors: &[Monitor]) -> Result<(), PrivilegesError> {
        let inputs = inputs.iter().filter(|input| input.mark != Mark::Absent);
        let inputs = inputs.map(|input| input.path.as_path());
        let files: BTreeSet<_> = monitors.iter().filter_map(Monitor::file).collect();
        let refused: Vec<_> = inputs.chain(files).filter(|path| is_refused(path)).collect();
        if refused.is_empty() {
            return Ok(());
        }
        let named: Vec<_> =
            refused.iter().take(MOST_NAMED).map(|path| path.display().to_string()).collect();
        let mut files = named.join(", ");
        if refused.len() > MOST_NAMED {
            files += &format!(" and {} more", refused.len() - MOST_NAMED);
        }
        let (user, group) = (self.user.clone(), self.group.clone());
        Err(PrivilegesError::Unreadable { user, group, files })
    }

    /// Its name.
    pub fn user(&self) -> &str {
        &self.user
    }
}

fn failure<E: Into<io::Error>>(
    user: &str,
    step: &'static str,
) -> impl FnOnce(E) -> PrivilegesError {
    let user = user.to_owned();
    move |error| PrivilegesError::System { user, step, error: error.into() }
}

/// Gives up the capabilities that a server has that runs as an ordinary user: they were for the ports, and
/// programs of monitors are not to inherit them. Root keeps what it has: it was not asked to be less.
pub fn drop_spare_capabilities() {
    if geteuid().is_root() {
        return;
    }
    let has_some =
        capabilities(None).is_ok_and(|sets| !(sets.permitted | sets.inheritable).is_empty());
    if has_some && let Err(error) = drop_capabilities() {
        warn!(%error, "the capabilities of the process cannot be given up");
    }
}

fn drop_capabilities() -> rustix::io::Result<()> {
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// True if the system refuses to let the process read a file or a folder.
fn is_refused(path: &Path) -> bool {
    let outcome = match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::read_dir(path).map(drop),
        Ok(metadata) if metadata.is_file() => File::open(path).map(drop),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    outcome.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}
