//! What is wrong with the configuration, for the person who must mend it.
//!
//! Every reader of a file adds to one [`Report`] and goes on, so that one run shows all mistakes of
//! all files: where (file, line, column), the key, what is wrong, and what would be right.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::config::inputs::Input;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The configuration is not usable.
    Error,
    /// It is usable, but probably not what was meant.
    Warning,
}

/// A line and a column in a file, both counted from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Error or warning.
    #[serde(skip)]
    pub severity: Severity,
    /// The file, as the user would name it.
    pub file: PathBuf,
    /// Where in it; none if the whole file is meant.
    #[serde(flatten)]
    pub position: Option<Position>,
    /// The key's path ("pools.weu.origins\[0\].weight"), empty if the whole file is meant.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: String,
}

impl Diagnostic {
    /// The first line: where, which key, what is wrong.
    pub fn headline(&self) -> String {
        let text = self.to_string();
        text.lines().next().unwrap_or_default().to_owned()
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(Position { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, ": {severity}: ")?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        if !self.help.is_empty() {
            write!(f, "\n    help: {}", self.help)?;
        }
        Ok(())
    }
}

/// A file's name and text, to turn offsets into positions.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    text: String,
    line_starts: Vec<usize>,
}

impl Source {
    /// Takes a text that was read from `path`.
    pub fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        let text = text.into();
        let ends = text.bytes().enumerate().filter(|&(_, octet)| octet == b'\n');
        let line_starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Self { path: path.into(), text, line_starts }
    }

    /// The file's name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The position of an offset in octets.
    pub fn position(&self, offset: usize) -> Position {
        let line = self.line_starts.partition_point(|&start| start <= offset).max(1);
        let start = self.line_starts.get(line - 1).copied().unwrap_or(0);
        let before = self.text.get(start..offset.min(self.text.len())).unwrap_or("");
        Position {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(before.chars().count() + 1).unwrap_or(u32::MAX),
        }
    }

    /// The position at which a span begins.
    pub fn start_of(&self, span: &Range<usize>) -> Position {
        self.position(span.start)
    }
}

/// What came of one run: all mistakes, and what it looked at. Readers share it, so it is written through
/// a shared reference.
#[derive(Debug, Default)]
pub struct Report {
    diagnostics: RefCell<Vec<Diagnostic>>,
    silenced: RefCell<Vec<PathBuf>>,
    inputs: RefCell<Vec<Input>>,
}

impl Report {
    /// Adds a mistake, unless its file is silenced.
    pub fn add(&self, diagnostic: Diagnostic) {
        if !self.is_silenced(&diagnostic.file) {
            self.diagnostics.borrow_mut().push(diagnostic);
        }
    }

    /// Takes no more mistakes of a file: there is one that others may only follow from.
    pub fn silence(&self, file: &Path) {
        self.silenced.borrow_mut().push(file.to_owned());
    }

    /// True if mistakes of a file are not taken any more; what it is to bring is then not all there.
    pub fn is_silenced(&self, file: &Path) -> bool {
        self.silenced.borrow().iter().any(|silenced| silenced == file)
    }

    /// Adds an error at a position of a file.
    pub fn error(
        &self,
        file: &Path,
        position: Option<Position>,
        key: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let (key, message, help) = (key.into(), message.into(), help.into());
        let (severity, file) = (Severity::Error, file.to_owned());
        self.add(Diagnostic { severity, file, position, key, message, help });
    }

    /// Adds a warning at a position of a file.
    pub fn warning(
        &self,
        file: &Path,
        position: Option<Position>,
        key: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let (key, message, help) = (key.into(), message.into(), help.into());
        let (severity, file) = (Severity::Warning, file.to_owned());
        self.add(Diagnostic { severity, file, position, key, message, help });
    }

    /// Notes a file or folder that is about to be read.
    pub fn note(&self, input: Input) {
        self.inputs.borrow_mut().push(input);
    }

    /// Takes out what was noted so far.
    pub fn take_inputs(&self) -> Vec<Input> {
        self.inputs.take()
    }

    /// True if there is an error, warnings aside.
    pub fn has_errors(&self) -> bool {
        self.error_count() > 0
    }

    /// How many errors there are.
    pub fn error_count(&self) -> usize {
        self.diagnostics.borrow().iter().filter(|d| d.severity == Severity::Error).count()
    }

    /// All of them, by file, line and column; equal ones once.
    pub fn into_sorted(self) -> Vec<Diagnostic> {
        let mut diagnostics = self.diagnostics.into_inner();
        diagnostics.sort_by(|a, b| (&a.file, a.position).cmp(&(&b.file, b.position)));
        diagnostics.dedup();
        diagnostics
    }
}

/// The candidate that `word` was probably meant to be, if one is near enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let score = |candidate: &str| {
        let (word, candidate) = (word.to_ascii_lowercase(), candidate.to_ascii_lowercase());
        strsim::damerau_levenshtein(&word, &candidate)
    };
    candidates
        .into_iter()
        .map(|candidate| (score(candidate), candidate))
        .filter(|&(distance, candidate)| {
            distance <= (candidate.chars().count().max(word.chars().count()) / 3).max(1)
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// The remedy for a name that is not among the known ones: the nearest of them, else all of them as
/// `nouns`, else `if_none` where there are none.
pub fn remedy_for_name<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a String>,
    nouns: &str,
    if_none: &str,
) -> String {
    let mut known: Vec<&str> = known.into_iter().map(String::as_str).collect();
    known.sort_unstable();
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean {near:?}?"),
        None if known.is_empty() => if_none.to_owned(),
        None => format!("the {nouns} are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let source = Source::new("f", "a\nbä = 1\n");
        assert_eq!(source.position(0), Position { line: 1, column: 1 });
        assert_eq!(source.position(2), Position { line: 2, column: 1 });
        assert_eq!(source.position(5), Position { line: 2, column: 3 });
        assert_eq!(source.position(99), Position { line: 3, column: 1 });
    }

    #[test]
    fn the_nearest_word_is_suggested_only_if_it_is_near() {
        let keys = ["minimum_origins", "monitor", "origins"];
        assert_eq!(nearest("mininum_origins", keys), Some("minimum_origins"));
        assert_eq!(nearest("moniter", keys), Some("monitor"));
        assert_eq!(nearest("zebra", keys), None);
    }

    #[test]
    fn a_diagnostic_says_where_what_and_the_remedy() {
        let report = Report::default();
        let position = Position { line: 3, column: 1 };
        report.error(Path::new("a.toml"), Some(position), "ttl", "is text", "write a number");
        assert!(report.has_errors());
        let text = report.into_sorted()[0].to_string();
        assert_eq!(text, "a.toml:3:1: error: ttl: is text\n    help: write a number");
    }
}
