//! Reads the configuration's files: the I/O in front of `build`, for `serve`, `check`, `explain` and
//! every reload alike.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::config::admin::{SHORTEST_TOKEN, Token, TokenError};
use crate::config::build::{Files, build};
use crate::config::cookies::parse_secrets;
use crate::config::inputs::{Input, InputKind, Mark};
use crate::config::privileges::Privileges;
use crate::config::reader::Place;
use crate::config::report::{Report, Source};
use crate::config::server::Server;
use crate::config::tls::{Certificate, CertificateError, Tls};
use crate::config::tsig_keys::{MAKE, SecretSource, TsigKey, parse_secret, warn_if_short};
use crate::cookies;
use crate::locate::mmdb::only_database;
use crate::state::State;
use crate::tsig::{Key, Keys};

/// The largest file that is read: a mistake shall not take all memory.
const LARGEST_FILE: u64 = 512 << 20;
/// The server's settings where no other file is named.
pub const DEFAULT_CONFIG: &str = "meridian.toml";

/// Which files to read, where not those of the defaults, and what the command line sets over them.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// The folder that the defaults below are in; the working directory if none.
    pub folder: Option<PathBuf>,
    /// The server's settings; `meridian.toml` if it is there.
    pub config: Option<PathBuf>,
    /// The folder of the zone files.
    pub zones: Option<PathBuf>,
    /// The folder of the location data.
    pub geo: Option<PathBuf>,
    /// The folder of what must outlast a restart.
    pub state: Option<PathBuf>,
    /// What to listen on; empty for what the settings say.
    pub listen: Vec<SocketAddr>,
    /// The user that the server becomes.
    pub user: Option<String>,
}

/// Reads everything and builds the state. Mistakes are reported; there is a state if there is no
/// error.
pub fn load(paths: &Paths, report: &Report) -> (Server, Option<State>) {
    let server = read_server(paths, report);
    // Where the rest is may be what could not be read of it.
    if report.is_silenced(&config_path(paths)) {
        return (server, None);
    }
    let files = Files { zones: read_zones(&server.zones, report), ..read_geo(&server, report) };
    let read = |path: &Path| {
        note(path, InputKind::File, report);
        read_text(path)
    };
    let state = build(&files, &server, &read, report);
    (server, state)
}

/// The file of the server's settings.
fn config_path(paths: &Paths) -> PathBuf {
    let folder = paths.folder.as_deref().unwrap_or_else(|| Path::new(""));
    paths.config.clone().unwrap_or_else(|| folder.join(DEFAULT_CONFIG))
}

/// Reads the server's settings alone.
pub fn read_server(paths: &Paths, report: &Report) -> Server {
    let path = config_path(paths);
    note(&path, InputKind::File, report);
    // The default file may be missing, a named one may not.
    let source =
        if paths.config.is_none() && is_absent(&path) { None } else { read_source(&path, report) };
    let mut server = match source {
        Some(source) => Server::parse(&source, report),
        None => Server::within(paths.folder.as_deref().unwrap_or_else(|| Path::new(""))),
    };
    if let Some(zones) = &paths.zones {
        server.zones.clone_from(zones);
    }
    if let Some(geo) = &paths.geo {
        server.geo.clone_from(geo);
        server.geo_is_named = true;
    }
    if let Some(state) = &paths.state {
        server.state.clone_from(state);
    }
    if let Some(user) = &paths.user {
        server.privileges = Some(Privileges { user: user.clone(), group: None });
    }
    if !paths.listen.is_empty() {
        server.listen.clone_from(&paths.listen);
        server.listen_is_default = false;
    }
    server
}

/// What is read of files that are kept from others.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// The token of the admin service, where a file is named.
    pub token: Option<Token>,
    /// The certificate of TLS, where files are named.
    pub certificate: Option<Certificate>,
    /// What cookies are made with, where a file is named.
    pub cookies: Option<cookies::Secrets>,
    /// The keys of transfers and notifications.
    pub keys: Keys,
}

/// Reads the secrets that the settings name. Mistakes are reported.
pub fn read_secrets(server: &Server, report: &Report) -> Secrets {
    Secrets {
        token: read_token(server, report),
        certificate: read_certificate(server, report),
        cookies: read_cookie_secrets(server, report),
        keys: server.tsig_keys.iter().filter_map(|key| read_key(key, report)).collect(),
    }
}

fn read_certificate(server: &Server, report: &Report) -> Option<Certificate> {
    let Tls { cert: (cert, cert_place), key: (key, key_place), .. } = server.tls.as_ref()?;
    let read = |path: &Path, place: &Place| {
        note(path, InputKind::File, report);
        match read_regular(path) {
            Ok(content) => Some(content),
            Err(error) => {
                let message = format!("{} cannot be read: {error}", path.display());
                place.error(report, message, "name a file in PEM that the server can read");
                None
            }
        }
    };
    let (chain, secret) = (read(cert, cert_place), read(key, key_place));
    let wrong = |place: &Place, path: &Path, error: CertificateError, help| {
        place.error(report, format!("{}: {error}", path.display()), help);
    };
    let chain = Certificate::chain(&chain?).map_err(|error| {
        wrong(
            cert_place,
            cert,
            error,
            "give the certificate, then those that lead to an authority",
        );
    });
    let certificate = Certificate::new(chain.ok()?, &secret?).map_err(|error| {
        wrong(key_place, key, error, "give the private key of the certificate in PEM");
    });
    certificate.ok()
}

/// Reads the token of the admin service, where a file is named. None too if that is a mistake, which
/// is reported.
fn read_token(server: &Server, report: &Report) -> Option<Token> {
    let (path, place) = server.admin.as_ref()?.token_file.as_ref()?;
    let shown = path.display();
    let text = read_secret(path, place, "openssl rand -hex 32", report)?;
    match Token::parse(&text) {
        Ok(token) => Some(token),
        Err(error) => {
            let help = match error {
                TokenError::Short(_) => format!("give it at least {SHORTEST_TOKEN} characters"),
                TokenError::Long(_) => "give it 16 to 1024 characters".to_owned(),
                TokenError::Unprintable => "use letters and digits".to_owned(),
            };
            place.error(report, format!("{shown}: {error}"), help);
            None
        }
    }
}

/// Reads the secrets of cookies, where a file is named. None too if that is a mistake, which is reported.
fn read_cookie_secrets(server: &Server, report: &Report) -> Option<cookies::Secrets> {
    let (path, place) = server.cookies.secret_file.as_ref()?;
    let text = read_secret(path, place, "openssl rand -hex 16", report)?;
    match parse_secrets(&text) {
        Ok(secrets) => Some(secrets),
        Err(error) => {
            let help = "the first line is the secret, the second, which may be missing, the one before \
                        it: 32 hexadecimal digits each, as openssl rand -hex 16 prints them";
            place.error(report, format!("{}: {error}", path.display()), help);
            None
        }
    }
}

/// Reads the secret of a key. None if it is not there, which is reported.
fn read_key(key: &TsigKey, report: &Report) -> Option<Key> {
    let TsigKey { name, algorithm, secret, place } = key;
    let read;
    let octets = match secret {
        SecretSource::Inline(octets) => {
            warn_of_readers(&place.file, place, report);
            octets
        }
        SecretSource::File(path) => {
            let text = read_secret(path, place, MAKE, report)?;
            match parse_secret(&text) {
                Ok(octets) => {
                    warn_if_short(&octets, place, report);
                    read = octets;
                    &read
                }
                Err(error) => {
                    let help = format!("give it the secret in base64 alone, as {MAKE} prints it");
                    place.error(report, format!("{}: {error}", path.display()), help);
                    return None;
                }
            }
        }
    };
    Some(Key::new(name.clone(), *algorithm, octets))
}

/// Reads a file with a secret; `make` is a command that prints one.
fn read_secret(path: &Path, place: &Place, make: &str, report: &Report) -> Option<String> {
    let shown = path.display();
    note(path, InputKind::File, report);
    let text = match read_text(path) {
        Ok(text) => text,
        Err(error) => {
            let help = format!(
                "make it a file that the server alone can read, with a secret in it: (umask 077; \
                 {make} > FILE)"
            );
            place.error(report, format!("{shown} cannot be read: {error}"), help);
            return None;
        }
    };
    warn_of_readers(path, place, report);
    Some(text)
}

/// Warns of a file with a secret that everyone can read.
fn warn_of_readers(path: &Path, place: &Place, report: &Report) {
    let shown = path.display();
    let others_can_read = |metadata: fs::Metadata| metadata.permissions().mode() & 0o004 != 0;
    if fs::metadata(path).is_ok_and(others_can_read) {
        let help = format!("take that from them: chmod o-r {shown}");
        place.warning(report, format!("everyone on this machine can read {shown}"), help);
    }
}

/// Reads a regular file. Others are refused without opening them: a pipe would be waited for.
///
/// # Errors
/// What the system says, or that it is no regular file, or a larger one than anybody writes.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    if found.len() > LARGEST_FILE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 512 MiB"));
    }
    fs::read(path)
}

/// Reads a regular text file.
///
/// # Errors
/// As [`read_regular`], and [`io::ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(read_regular(path)?).map_err(not_text)
}

/// True if there is nothing under the name, not even a link to nothing.
fn is_absent(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn unreadable(path: &Path, error: &io::Error, help: &str, report: &Report) {
    report.error(path, None, "", format!("cannot be read: {error}"), help);
}

/// Notes what is about to be read, as it is now: a change while it is read is then found later.
fn note(path: &Path, kind: InputKind, report: &Report) {
    report.note(Input { path: path.to_owned(), kind, mark: mark_of(path, kind) });
}

/// What tells the present state of a file or folder from others.
pub fn mark_of(path: &Path, kind: InputKind) -> Mark {
    match kind {
        InputKind::Folder { ending } => list(path, ending).map_or(Mark::Absent, Mark::Folder),
        InputKind::File => match fs::metadata(path) {
            Ok(found) => Mark::File {
                identity: (found.dev(), found.ino()),
                size: found.size(),
                modified: (found.mtime(), found.mtime_nsec()),
                changed: (found.ctime(), found.ctime_nsec()),
            },
            Err(_) => Mark::Absent,
        },
    }
}

/// The files of a folder with an ending, hidden ones aside, by name.
fn files_of(folder: &Path, ending: &'static str, report: &Report) -> io::Result<Vec<PathBuf>> {
    note(folder, InputKind::Folder { ending }, report);
    list(folder, ending)
}

fn list(folder: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        // What is no regular file, or a link to nothing, is found out by reading it, and said.
        if !hidden && path.extension().is_some_and(|e| e == ending) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read_zones(folder: &Path, report: &Report) -> Vec<Source> {
    let files = match files_of(folder, "toml", report) {
        Ok(files) => files,
        Err(error) => {
            let help = "make the folder, or name another with zones = \"DIR\" or --zones DIR";
            unreadable(folder, &error, help, report);
            return Vec::new();
        }
    };
    if files.is_empty() {
        let help = "add one file a zone, as zones/example.com.toml";
        report.error(folder, None, "", "the folder has no zone files (*.toml)", help);
    }
    files.iter().filter_map(|path| read_source(path, report)).collect()
}

fn read_source(path: &Path, report: &Report) -> Option<Source> {
    note(path, InputKind::File, report);
    match read_text(path) {
        Ok(text) => Some(Source::new(path, text)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            report.error(path, None, "", "the file is not UTF-8 text", "save it as UTF-8");
            None
        }
        Err(error) => {
            let help = "make it a file that the server can read, or name another";
            unreadable(path, &error, help, report);
            None
        }
    }
}

/// Reads the location data; the folder may be missing unless it was named.
fn read_geo(server: &Server, report: &Report) -> Files {
    let folder = &server.geo;
    let databases = match files_of(folder, "mmdb", report) {
        Ok(databases) => databases,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !server.geo_is_named => {
            let help = "make the folder and put a *.mmdb database or subnets.toml into it";
            let message = "there is no location data: every client is without a location";
            report.warning(folder, None, "", message, help);
            return Files::default();
        }
        Err(error) => {
            let help = "make the folder, or name another with geo = \"DIR\" or --geo DIR";
            unreadable(folder, &error, help, report);
            return Files::default();
        }
    };
    let optional = |name: &str| {
        let path = folder.join(name);
        note(&path, InputKind::File, report);
        if is_absent(&path) { None } else { read_source(&path, report) }
    };
    let database = only_database(&databases, report).and_then(|path| {
        note(path, InputKind::File, report);
        match read_regular(path) {
            Ok(data) => Some((path.to_owned(), data)),
            Err(error) => {
                unreadable(path, &error, "make the file readable for the server", report);
                None
            }
        }
    });
    Files {
        zones: Vec::new(),
        regions: optional("regions.toml"),
        subnets: optional("subnets.toml"),
        rtt: optional("rtt.toml"),
        database,
    }
}
