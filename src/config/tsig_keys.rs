//! `[tsig_keys]` of `meridian.toml`: the keys that transfers and notifications are signed with.

use std::path::{Path, PathBuf};

use data_encoding::BASE64;

use crate::config::reader::{Place, Table, Value};
use crate::name::Name;
use crate::tsig::Algorithm;

/// Secrets with fewer octets could be guessed.
const SHORT: usize = 16;
/// A command that makes a secret.
pub(super) const MAKE: &str = "openssl rand -base64 32";

/// A key as configured.
#[derive(Clone, Debug)]
pub struct TsigKey {
    /// Its name.
    pub name: Name,
    /// How it signs.
    pub algorithm: Algorithm,
    /// What it signs with.
    pub secret: SecretSource,
    /// Where the secret is given.
    pub place: Place,
}

/// Where a key's secret comes from. It is not shown.
#[derive(Clone)]
pub enum SecretSource {
    /// The table itself.
    Inline(Vec<u8>),
    /// A file.
    File(PathBuf),
}

impl std::fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inline(_) => f.write_str("Inline(…)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// Why a text is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// It is not in base64.
    #[error("the secret is not base64")]
    NotBase64,
    /// It has nothing in it.
    #[error("the secret is empty")]
    Empty,
}

/// Reads a secret in base64; white space around it does not count.
///
/// # Errors
/// [`SecretError`].
pub fn parse_secret(text: &str) -> Result<Vec<u8>, SecretError> {
    let secret = BASE64.decode(text.trim_ascii().as_bytes()).map_err(|_| SecretError::NotBase64)?;
    if secret.is_empty() { Err(SecretError::Empty) } else { Ok(secret) }
}

/// Warns of a secret that could be guessed.
pub(super) fn warn_if_short(secret: &[u8], place: &Place, report: &crate::config::report::Report) {
    let octets = secret.len();
    if octets < SHORT {
        let message = format!("the secret has only {octets} octets, and could be guessed");
        place.warning(report, message, format!("make another, with {MAKE}"));
    }
}

/// Reads the table; paths are relative to `folder`.
pub(super) fn parse_keys(table: &Table<'_, '_>, folder: &Path) -> Vec<TsigKey> {
    let mut keys: Vec<TsigKey> = Vec::new();
    for (name, value) in table.entries() {
        let Some(key) = parse_key(&name, &value, folder) else { continue };
        if keys.iter().any(|other| other.name == key.name) {
            let message = format!("there is a key {} already", key.name);
            value.key_error(message, "give each key one table");
        }
        keys.push(key);
    }
    keys
}

fn parse_key(name: &str, value: &Value<'_, '_>, folder: &Path) -> Option<TsigKey> {
    let parsed = Name::parse_absolute(name);
    if let Err(error) = &parsed {
        let help = "name it as the other side does: keys are named like domains";
        value.key_error(format!("{name:?} is not a key's name: {error}"), help);
    }
    let table = value.table("a table with secret_file, or secret")?;
    let algorithm = table.optional("algorithm");
    let algorithm = match algorithm {
        Some(value) => value.choice(&Algorithm::ALL),
        None => Some(Algorithm::default()),
    };
    let (secret, file) = (table.optional("secret"), table.optional("secret_file"));
    table.finish();
    let (secret, place) = match (secret, file) {
        (Some(_), Some(file)) => {
            file.key_error("there is a secret already", "keep one of secret and secret_file");
            return None;
        }
        (None, None) => {
            value.key_error(
                "the key has no secret",
                format!("add secret_file = \"FILE\"; {MAKE} prints a secret"),
            );
            return None;
        }
        (None, Some(file)) => {
            (SecretSource::File(folder.join(file.string("a path")?)), file.place())
        }
        (Some(secret), None) => match parse_secret(secret.string("a secret in base64")?) {
            Ok(octets) => {
                warn_if_short(&octets, &secret.place(), secret.report());
                (SecretSource::Inline(octets), secret.place())
            }
            Err(error) => {
                secret.error(error.to_string(), format!("give base64, as {MAKE} prints it"));
                return None;
            }
        },
    };
    Some(TsigKey { name: parsed.ok()?, algorithm: algorithm?, secret, place })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_base64() {
        assert_eq!(parse_secret(" AAEC\n"), Ok(vec![0, 1, 2]));
        assert_eq!(parse_secret("AAE"), Err(SecretError::NotBase64));
        assert_eq!(parse_secret(" \n"), Err(SecretError::Empty));
    }
}
