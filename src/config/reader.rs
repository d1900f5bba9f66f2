//! Reads TOML tables key by key, keeping positions and collecting every mistake.
//!
//! This stands where a serde mirror would: serde stops at the first mistake and reads decimals as
//! binary floating point, while the specification wants all mistakes of a run, and weights exactly
//! as written. A [`Table`] knows which keys were asked for; what is left at [`Table::finish`] is
//! an unknown key. A method that returns `None` has reported the reason.

use std::cell::RefCell;
use std::fmt;
use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};
use std::rc::Rc;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::decimal::Decimal;
use crate::config::duration::{parse_duration, show_duration};
use crate::config::report::{Position, Report, Source, nearest};
use crate::config::syntax::report_first;
use crate::name::Name;
use crate::rr::Ttl;

/// A TOML file: its text, and where to report.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// The file's name and text.
    pub source: &'a Source,
    /// Where mistakes go.
    pub report: &'a Report,
}

impl<'a> File<'a> {
    /// Parses a file's text, and returns what could be read. The first mistake of syntax is reported, and
    /// none of the mistakes that are found later in what was read.
    pub fn parse(source: &'a Source, report: &'a Report) -> Document<'a> {
        let (root, errors) = DeTable::parse_recoverable(source.text());
        report_first(source, &errors, report);
        Document { file: Self { source, report }, root }
    }
}

/// A parsed file, which owns the values that its tables lend.
#[derive(Debug)]
pub struct Document<'a> {
    file: File<'a>,
    root: Spanned<DeTable<'a>>,
}

impl<'a> Document<'a> {
    /// The file's outermost table.
    pub fn root(&self) -> Table<'_, 'a> {
        Table::new(self.file, KeyPath::default(), self.root.get_ref(), self.root.span())
    }
}

/// A place in a file to complain about: kept by what refers to other parts, so that a mistake that
/// shows later (an unknown pool) still names its own line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The key's path.
    pub key: String,
    /// Where it stands.
    pub position: Position,
    /// Which file, as the user would name it.
    pub file: std::path::PathBuf,
}

impl Place {
    /// The file and line, for a message about another place.
    pub fn line(&self) -> String {
        format!("{}:{}", self.file.display(), self.position.line)
    }

    /// Reports an error at this place.
    pub fn error(&self, report: &Report, message: impl Into<String>, help: impl Into<String>) {
        report.error(&self.file, Some(self.position), self.key.clone(), message, help);
    }

    /// Reports a warning at this place.
    pub fn warning(&self, report: &Report, message: impl Into<String>, help: impl Into<String>) {
        report.warning(&self.file, Some(self.position), self.key.clone(), message, help);
    }
}

/// The path of a value, which is written out where there is something to say of it only: most files
/// have very many values and no mistake.
#[derive(Clone, Debug, Default)]
struct KeyPath<'t>(Option<Rc<(Self, Step<'t>)>>);

/// How a value follows from the one that it is in.
#[derive(Clone, Copy, Debug)]
enum Step<'t> {
    /// By its key in a table.
    Key(&'t str),
    /// By its number in a list.
    Index(usize),
}

impl<'t> KeyPath<'t> {
    fn then(&self, step: Step<'t>) -> Self {
        Self(Some(Rc::new((self.clone(), step))))
    }
}

impl fmt::Display for KeyPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((before, step)) = self.0.as_deref() else { return Ok(()) };
        before.fmt(f)?;
        match step {
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => {
                if before.0.is_some() {
                    f.write_str(".")?;
                }
                let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                if !key.is_empty() && key.chars().all(bare) {
                    f.write_str(key)
                } else {
                    write!(f, "{key:?}")
                }
            }
        }
    }
}

/// A table that is being read.
#[derive(Debug)]
pub struct Table<'t, 'a> {
    file: File<'a>,
    path: KeyPath<'t>,
    span: Range<usize>,
    entries: &'t DeTable<'a>,
    known: RefCell<Vec<&'static str>>,
    /// Keys that are known to be wrong here: told when they stand, and never suggested.
    refused: RefCell<Vec<&'static str>>,
}

impl<'t, 'a> Table<'t, 'a> {
    fn new(
        file: File<'a>,
        path: KeyPath<'t>,
        entries: &'t DeTable<'a>,
        span: Range<usize>,
    ) -> Self {
        let (known, refused) = (RefCell::default(), RefCell::default());
        Self { file, path, span, entries, known, refused }
    }

    /// Where mistakes of this table go.
    pub fn report(&self) -> &'a Report {
        self.file.report
    }

    /// The path of a key of this table.
    fn path_of(&self, key: &'t str) -> KeyPath<'t> {
        self.path.then(Step::Key(key))
    }

    /// Where the table stands.
    pub fn place(&self) -> Place {
        Place {
            key: self.path.to_string(),
            position: self.file.source.start_of(&self.span),
            file: self.file.source.path().to_owned(),
        }
    }

    /// The value of an optional key.
    pub fn optional(&self, key: &'static str) -> Option<Value<'t, 'a>> {
        if !self.known.borrow().contains(&key) {
            self.known.borrow_mut().push(key);
        }
        self.entry(key)
    }

    fn entry(&self, key: &'static str) -> Option<Value<'t, 'a>> {
        let (key_span, value) = self.entries.get_key_value(key)?;
        Some(Value { file: self.file, path: self.path_of(key), key: key_span.span(), value })
    }

    /// The value of a key that must be there.
    pub fn required(&self, key: &'static str, help: &str) -> Option<Value<'t, 'a>> {
        let value = self.optional(key);
        if value.is_none() {
            let mut place = self.place();
            place.key = self.path_of(key).to_string();
            place.error(self.file.report, "the key is missing", help);
        }
        value
    }

    /// A key that the specification has and this version does not offer: an error where it stands,
    /// because nothing is accepted and ignored.
    pub fn not_offered(&self, keys: &[&'static str]) {
        self.refuse(keys, "not offered by this version", "remove the key");
    }

    /// Keys that are an error where they stand, for a reason of their own.
    pub fn refuse(&self, keys: &[&'static str], message: &str, help: &str) {
        self.refused.borrow_mut().extend(keys);
        for value in keys.iter().filter_map(|key| self.entry(key)) {
            value.key_error(message, help);
        }
    }

    /// All entries of a table whose keys are names, in the order of the file.
    pub fn entries(&self) -> Vec<(String, Value<'t, 'a>)> {
        let mut entries: Vec<_> = self
            .entries
            .iter()
            .map(|(key, value)| {
                let name = key.get_ref().to_string();
                let path = self.path_of(key.get_ref());
                (name, Value { file: self.file, path, key: key.span(), value })
            })
            .collect();
        entries.sort_by_key(|(_, value)| value.key.start);
        entries
    }

    /// Reports every key that was not asked for, with the nearest one that exists.
    pub fn finish(&self) {
        let known = self.known.borrow();
        for (key, value) in self.entries() {
            let key_text = key.as_str();
            if !known.contains(&key_text) && !self.refused.borrow().contains(&key_text) {
                let help = match nearest(&key, known.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the keys here are {}", known.join(", ")),
                };
                value.key_error("unknown key", help);
            }
        }
    }
}

/// A value that is being read.
#[derive(Clone, Debug)]
pub struct Value<'t, 'a> {
    file: File<'a>,
    path: KeyPath<'t>,
    key: Range<usize>,
    value: &'t Spanned<DeValue<'a>>,
}

impl<'t, 'a> Value<'t, 'a> {
    /// Where mistakes of this value go.
    pub fn report(&self) -> &'a Report {
        self.file.report
    }

    /// The file that the value stands in.
    pub fn source(&self) -> &'a Source {
        self.file.source
    }

    /// The value's own place.
    pub fn place(&self) -> Place {
        self.place_at(self.value.span().start)
    }

    /// The place of the value's key (or, in a list, of the value).
    pub fn key_place(&self) -> Place {
        self.place_at(self.key.start)
    }

    fn place_at(&self, offset: usize) -> Place {
        Place {
            key: self.path.to_string(),
            position: self.file.source.position(offset),
            file: self.file.source.path().to_owned(),
        }
    }

    /// Reports an error at the value.
    pub fn error(&self, message: impl Into<String>, help: impl Into<String>) {
        self.place().error(self.file.report, message, help);
    }

    /// Reports an error at the key.
    pub fn key_error(&self, message: impl Into<String>, help: impl Into<String>) {
        self.key_place().error(self.file.report, message, help);
    }

    /// Reports a warning at the value.
    pub fn warning(&self, message: impl Into<String>, help: impl Into<String>) {
        self.place().warning(self.file.report, message, help);
    }

    /// Reports a warning at the key.
    pub fn key_warning(&self, message: impl Into<String>, help: impl Into<String>) {
        self.key_place().warning(self.file.report, message, help);
    }

    fn wrong_type(&self, wanted: &str) {
        let found = match self.value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a number with decimals",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.error(format!("{found} stands here"), format!("give {wanted}"));
    }

    /// True if the value is a string.
    pub fn is_string(&self) -> bool {
        self.value.get_ref().is_str()
    }

    /// True if the value is a list.
    pub fn is_list(&self) -> bool {
        self.value.get_ref().is_array()
    }

    /// A string; `wanted` says what it should be ("a path").
    pub fn string(&self, wanted: &str) -> Option<&'t str> {
        let text = self.value.get_ref().as_str();
        if text.is_none() {
            self.wrong_type(wanted);
        }
        text
    }

    /// true or false.
    pub fn boolean(&self) -> Option<bool> {
        let boolean = self.value.get_ref().as_bool();
        if boolean.is_none() {
            self.wrong_type("true or false");
        }
        boolean
    }

    /// A whole number in a range; `wanted` names it ("a number of seconds").
    pub fn integer(&self, range: RangeInclusive<u64>, wanted: &str) -> Option<u64> {
        let (low, high) = (range.start(), range.end());
        let remedy = format!("{wanted} from {low} to {high}");
        let Some(integer) = self.value.get_ref().as_integer() else {
            self.wrong_type(&remedy);
            return None;
        };
        let parsed = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let valid = parsed.filter(|number| range.contains(number));
        if valid.is_none() {
            self.error("the number is out of range", format!("give {remedy}"));
        }
        valid
    }

    /// A TTL in seconds.
    pub fn ttl(&self) -> Option<Ttl> {
        let seconds = self.integer(0..=u64::from(Ttl::MAX), "a number of seconds")?;
        u32::try_from(seconds).ok().and_then(Ttl::new)
    }

    /// The text of a number, as written.
    pub fn number_text(&self, wanted: &str) -> Option<String> {
        match self.value.get_ref() {
            DeValue::Integer(integer) if integer.radix() == 10 => Some(integer.as_str().to_owned()),
            DeValue::Float(float) => Some(float.as_str().to_owned()),
            _ => {
                self.wrong_type(wanted);
                None
            }
        }
    }

    /// A weight or ratio from 0 to 1 with at most 6 decimals, read exactly from the text.
    pub fn decimal(&self, wanted: &str) -> Option<Decimal> {
        let remedy = format!("{wanted} from 0 to 1 with at most 6 decimals, as 0.25");
        // A number's text loses its leading plus sign in the parser, so the file's own is read.
        let written = self.file.source.text().get(self.value.span()).unwrap_or_default();
        self.number_text(&remedy)?;
        match Decimal::parse(written) {
            Ok(decimal) => Some(decimal),
            Err(error) => {
                self.error(error.to_string(), format!("give {remedy}"));
                None
            }
        }
    }

    /// A duration with a unit ("30s", "10m") in a range.
    pub fn duration(&self, range: RangeInclusive<Duration>) -> Option<Duration> {
        let text = self.string("a duration with a unit, as \"10s\"")?;
        let Some(duration) = parse_duration(text) else {
            let help =
                "give a whole number and a unit, as \"500ms\", \"30s\", \"10m\", \"1h\" or \"1d\"";
            self.error(format!("{text:?} is not a duration"), help);
            return None;
        };
        if range.contains(&duration) {
            return Some(duration);
        }
        let (low, high) = (show_duration(*range.start()), show_duration(*range.end()));
        self.error("the duration is out of range", format!("give {low} to {high}"));
        None
    }

    /// An IP address.
    pub fn address(&self) -> Option<IpAddr> {
        let text = self.string("an IP address")?;
        let address = text.parse().ok();
        if address.is_none() {
            self.error(
                format!("{text:?} is not an IP address"),
                "give an address as \"192.0.2.10\" or \"2001:db8::10\"",
            );
        }
        address
    }

    /// A domain name, completed by `origin` where it has no final dot.
    pub fn name(&self, origin: &Name) -> Option<Name> {
        let text = self.string("a domain name")?;
        match Name::parse(text, Some(origin)) {
            Ok(name) => Some(name),
            Err(error) => {
                self.error(format!("{text:?} is not a domain name: {error}"), "correct the name");
                None
            }
        }
    }

    /// A list, each entry a value of its own.
    pub fn list(&self, wanted: &str) -> Option<Vec<Self>> {
        let Some(array) = self.value.get_ref().as_array() else {
            self.wrong_type(wanted);
            return None;
        };
        let entry = |(index, value): (usize, &'t Spanned<DeValue<'a>>)| Self {
            file: self.file,
            path: self.path.then(Step::Index(index)),
            key: value.span(),
            value,
        };
        Some(array.iter().enumerate().map(entry).collect())
    }

    /// True if the value is a list without entries.
    pub fn is_empty_list(&self) -> bool {
        self.value.get_ref().as_array().is_some_and(|array| array.is_empty())
    }

    /// A list, or a single value in its place.
    pub fn one_or_list(&self) -> Vec<Self> {
        if self.is_list() { self.list("a list").unwrap_or_default() } else { vec![self.clone()] }
    }

    /// A table.
    pub fn table(&self, wanted: &str) -> Option<Table<'t, 'a>> {
        let Some(entries) = self.value.get_ref().as_table() else {
            self.wrong_type(wanted);
            return None;
        };
        Some(Table::new(self.file, self.path.clone(), entries, self.key.clone()))
    }

    /// One of a few words, by their meaning.
    pub fn choice<T: Copy>(&self, choices: &[(&'static str, T)]) -> Option<T> {
        let words = || choices.iter().map(|&(word, _)| word);
        let list = words().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ");
        let text = self.string(&format!("one of {list}"))?;
        if let Some(&(_, meaning)) = choices.iter().find(|&&(word, _)| word == text) {
            return Some(meaning);
        }
        let help = match nearest(text, words()) {
            Some(near) => format!("did you mean {near:?}? The choices are {list}"),
            None => format!("the choices are {list}"),
        };
        self.error(format!("{text:?} is not a choice here"), help);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T>(text: &str, read: impl FnOnce(&Table<'_, '_>) -> T) -> (T, Vec<String>) {
        let source = Source::new("f.toml", text);
        let report = Report::default();
        let document = File::parse(&source, &report);
        let table = document.root();
        let result = read(&table);
        table.finish();
        drop(document);
        (result, report.into_sorted().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn unknown_keys_are_reported_with_the_nearest_known_one() {
        let (_, errors) = read("ttl = 1\nmonitr = 2\n", |table| {
            table.optional("ttl");
            table.optional("monitor");
        });
        assert_eq!(
            errors,
            ["f.toml:2:1: error: monitr: unknown key\n    help: did you mean `monitor`?"]
        );
    }

    #[test]
    fn every_mistake_of_a_file_is_reported() {
        let (_, errors) = read("a = \"x\"\nb = [1, \"y\"]\nc = 9\n", |table| {
            table.optional("a").unwrap().integer(0..=5, "a number");
            for entry in table.optional("b").unwrap().list("a list").unwrap() {
                entry.string("a name");
            }
            table.optional("c").unwrap().integer(0..=5, "a number");
            table.required("d", "give it");
        });
        assert_eq!(errors.len(), 4);
        assert!(errors[0].starts_with("f.toml:1:1: error: d: the key is missing"), "{errors:?}");
        assert!(errors[1].starts_with("f.toml:1:5: error: a: a string stands here"), "{errors:?}");
        assert!(errors[2].starts_with("f.toml:2:6: error: b[0]: an integer"), "{errors:?}");
        assert!(errors[3].contains("out of range"), "{errors:?}");
    }

    #[test]
    fn syntax_errors_have_a_position() {
        let (_, errors) = read("a = \nb = 1\n", |table| {
            table.optional("a");
            table.optional("b");
        });
        assert!(errors[0].starts_with("f.toml:1:"), "{errors:?}");
    }

    #[test]
    fn decimals_are_read_from_the_text_as_it_is_written() {
        let (value, errors) = read("a = 0.1", |t| t.optional("a").unwrap().decimal("a weight"));
        assert_eq!(value.unwrap().micros(), 100_000);
        assert!(errors.is_empty());
        for wrong in ["+0.5", "-0.5", "inf", "nan", "0.1234567", "1.1", "2", "1e-1", "\"0.5\""] {
            let (value, errors) =
                read(&format!("a = {wrong}"), |t| t.optional("a").unwrap().decimal("a weight"));
            assert_eq!(value, None, "{wrong}");
            assert_eq!(errors.len(), 1, "{wrong}");
        }
    }
}
