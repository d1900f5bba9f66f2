//! Every key of every file of the configuration, as data: its name, its form, its default and what it
//! means. The JSON Schemas ([`schema`](crate::config::schema)) and docs/reference.md
//! ([`reference`](crate::config::reference)) are made of these tables.
//!
//! The tables do not read files: the parsers beside this module do. A test asks the parsers which keys
//! they know and tries values of each form on them, so that tables and parsers cannot differ. A key
//! is added to a table here and to its parser; CONTRIBUTING.md shows how.

mod geo;
mod monitors;
mod pools;
mod server;
#[cfg(test)]
mod tests;
mod zones;

/// A kind of file.
#[derive(Clone, Copy, Debug)]
pub struct FileKind {
    /// The word for it on the command line.
    pub word: &'static str,
    /// Which files are of this kind.
    pub files: &'static str,
    /// Its outermost table.
    pub root: &'static Section,
}

/// All kinds of files.
pub static FILES: [FileKind; 6] = [
    FileKind { word: "server", files: "meridian.toml", root: &server::FILE },
    FileKind { word: "zone", files: "zones/*.toml", root: &zones::FILE },
    FileKind { word: "shared", files: "zones/shared.toml", root: &zones::SHARED },
    FileKind { word: "regions", files: "geo/regions.toml", root: &geo::REGIONS },
    FileKind { word: "subnets", files: "geo/subnets.toml", root: &geo::SUBNETS },
    FileKind { word: "rtt", files: "geo/rtt.toml", root: &geo::RTT },
];

/// A table of a file.
#[derive(Debug)]
pub struct Section {
    /// Its name in the schemas, its own among all sections.
    pub id: &'static str,
    /// Its heading in the reference; empty where its keys stand among those of the table that it is in.
    pub heading: &'static str,
    /// What the table is for, in Markdown; links are relative to docs/.
    pub about: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What can stand there.
    pub form: Form,
    /// What holds where it is left out.
    pub default: Preset,
    /// Another key that decides whether this one can stand.
    pub only: Option<Only>,
    /// What it means, in Markdown; links are relative to docs/.
    pub meaning: &'static str,
}

/// A key that stands where it is said to, whatever other keys have.
const fn key(name: &'static str, form: Form, default: Preset, meaning: &'static str) -> Key {
    Key { name, form, default, only: None, meaning }
}

impl Key {
    /// The same key, which can only stand where `of` has one of these words.
    const fn only(self, of: &'static str, words: &'static [&'static str]) -> Self {
        Self { only: Some(Only { of, words, required: &[] }), ..self }
    }

    /// The same key, which must stand where the other key has one of these words.
    const fn and_required_for(self, required: &'static [&'static str]) -> Self {
        match self.only {
            Some(only) => Self { only: Some(Only { required, ..only }), ..self },
            None => self,
        }
    }

    /// The same key, which must stand where `of` has one of these words, and cannot elsewhere.
    const fn required_for(self, of: &'static str, words: &'static [&'static str]) -> Self {
        Self { only: Some(Only { of, words, required: words }), ..self }
    }
}

/// What holds where a key is left out.
#[derive(Clone, Copy, Debug)]
pub enum Preset {
    /// That is an error.
    Required,
    /// Nothing.
    Nothing,
    /// As if this value stood there, which is written alike in TOML and in JSON.
    Value(&'static str),
    /// What these words say, in Markdown.
    Words(&'static str),
}

/// When a key can stand: another key of the table has one of these words.
#[derive(Clone, Copy, Debug)]
pub struct Only {
    /// The other key.
    pub of: &'static str,
    /// Its words with which the key can stand.
    pub words: &'static [&'static str],
    /// Those with which it must.
    pub required: &'static [&'static str],
}

/// What can stand at a key.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// true or false.
    Boolean,
    /// A whole number in a range.
    Integer(u64, u64),
    /// A TTL in seconds.
    Ttl,
    /// A number in a range, with decimals.
    Number(u32, u32),
    /// A weight or ratio from 0 to 1.
    Ratio,
    /// A duration in a range of durations.
    Duration(&'static str, &'static str),
    /// A string.
    Text {
        /// What it says, in Markdown.
        what: &'static str,
        /// One that is right.
        example: &'static str,
    },
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// `[latitude, longitude]`.
    Coordinates,
    /// A value, or a list of such.
    OneOrMore(&'static Self),
    /// A list.
    List(&'static Self),
    /// A value of one of these forms.
    Either(&'static [Self]),
    /// A table with keys of its own.
    Table(&'static Section),
    /// A list of such tables.
    Tables(&'static Section),
    /// A table whose keys are names.
    Named {
        /// What the names are of, in Markdown.
        what: &'static str,
        /// A name that is right.
        example: &'static str,
        /// What stands at each.
        each: &'static Self,
    },
}

impl Form {
    /// The table that stands there, or that each entry is.
    pub fn section(&self) -> Option<&'static Section> {
        match self {
            Self::Table(section) | Self::Tables(section) => Some(section),
            Self::Named { each, .. } => each.section(),
            _ => None,
        }
    }
}

/// A file or folder; a relative path begins at the file that it stands in.
const fn path(what: &'static str, example: &'static str) -> Form {
    Form::Text { what, example }
}
