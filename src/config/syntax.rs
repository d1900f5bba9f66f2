//! What an operator is told of a text that is no TOML. One character that is missing makes the parser
//! complain of much that follows; only what stands first is sure to be a mistake.

use toml::de::Error;
use toml_parser::Source as Lexed;
use toml_parser::lexer::TokenKind;

use crate::config::report::{Report, Source};

/// What the parser says of a key that stands twice. It goes on as if the second were not there, so nothing
/// that follows is wrong because of it.
const TWICE: &str = "duplicate key";
/// What it begins with to say where the text ends within a list.
const UNCLOSED: &str = "unclosed array";

/// Reports the first mistake of syntax. What else is found in the file is not reported from then on: it
/// may only follow.
pub(super) fn report_first(source: &Source, errors: &[Error], report: &Report) {
    let mut errors: Vec<_> = errors.iter().map(|error| (error, start_of(error))).collect();
    errors.sort_by_key(|&(_, start)| start);
    for (error, start) in errors {
        if let Some(Unclosed { begins, bracket, outside }) = unclosed(source, error, start) {
            let (what, missing) = if bracket == '[' { ("list", ']') } else { ("table", '}') };
            let message = format!("not valid TOML: the {what} that begins here is not closed");
            let help = match outside {
                Some(line) => format!("add the missing {missing}; line {line} is no part of it"),
                None => format!("add the missing {missing}"),
            };
            report.error(source.path(), Some(source.position(begins)), "", message, help);
        } else {
            let position = error.span().map(|span| source.start_of(&span));
            let message = format!("not valid TOML: {}", error.message());
            report.error(source.path(), position, "", message, "correct the syntax at this place");
        }
        if error.message() != TWICE {
            report.silence(source.path());
            return;
        }
    }
}

fn start_of(error: &Error) -> usize {
    error.span().map_or(0, |span| span.start)
}

/// A list or an inline table that should have been closed.
struct Unclosed {
    /// Where it begins.
    begins: usize,
    /// What it begins with.
    bracket: char,
    /// The line that is no part of it; none at the end of the text.
    outside: Option<u32>,
}

/// What should have been closed before an error: it began in an earlier line, and this one is no part of it.
fn unclosed(source: &Source, error: &Error, start: usize) -> Option<Unclosed> {
    let text = source.text();
    let (begins, bracket) = innermost(text, start)?;
    if error.message().starts_with(UNCLOSED) {
        return Some(Unclosed { begins, bracket, outside: None });
    }
    let line = source.position(start).line;
    let is_outside = match line_at(text, start) {
        header if begins_table(header) => true,
        // In an inline table it may be the comma before it that is missing.
        other => bracket == '[' && gives_value(other),
    };
    let is_later = line > source.position(begins).line;
    (is_later && is_outside).then_some(Unclosed { begins, bracket, outside: Some(line) })
}

/// The innermost bracket that is open at an offset, and where.
fn innermost(text: &str, offset: usize) -> Option<(usize, char)> {
    let mut open = Vec::new();
    for token in Lexed::new(text).lex().take_while(|token| token.span().start() < offset) {
        let start = token.span().start();
        match token.kind() {
            TokenKind::LeftSquareBracket => open.push((start, '[')),
            TokenKind::LeftCurlyBracket => open.push((start, '{')),
            TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => _ = open.pop(),
            _ => {}
        }
    }
    open.pop()
}

fn line_at(text: &str, offset: usize) -> &str {
    let before = text.get(..offset).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default()
}

/// True for `[a.b]` and `[[a.b]]`, which a list of lists does not look like.
fn begins_table(line: &str) -> bool {
    let line = line.trim_start();
    let header = line.trim_start_matches('[');
    header.len() < line.len()
        && header.starts_with(|c: char| c.is_ascii_alphabetic())
        && header.split_inclusive([']', ',']).next().is_some_and(|part| part.ends_with(']'))
}

/// True for `a = 1` and `"a" = 1`.
fn gives_value(line: &str) -> bool {
    let line = line.trim_start();
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let after_key = match line.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').map_or("", |(_, after)| after),
        None => line.trim_start_matches(is_bare),
    };
    after_key.trim_start().starts_with('=')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::reader::File;

    fn errors(text: &str) -> Vec<String> {
        let source = Source::new("f.toml", text);
        let report = Report::default();
        let document = File::parse(&source, &report);
        // Of a file that cannot be read nothing else is told.
        document.root().finish();
        drop(document);
        let shown = report.into_sorted().into_iter();
        shown.map(|found| found.headline()).filter(|line| !line.contains("unknown key")).collect()
    }

    #[test]
    fn one_missing_character_is_one_error_at_its_place() {
        for (text, place, says) in [
            ("a = [\"x\", \"y\"\nb = 1\nc = 2\n", "1:5", "not closed"),
            ("a = [\"x\", \"y\",\nb = 1\nc = 2\n", "1:5", "not closed"),
            ("a = [\"x\"\n\n[b.\"c d\"]\ne = 1\nf = [\"x\"]\n", "1:5", "not closed"),
            ("a = [\"x\"\n\n[b]   # and so on\ne = 1\nf = [\"x\"]\n", "1:5", "not closed"),
            ("a = [\"x\"\n[[b.c]]\ne = 1\nf = \"y\"\n", "1:5", "not closed"),
            ("b = 1\na = [\"x\", # [\n  \"y\",\n", "2:5", "not closed"),
            ("a = [{ b = [1, 2], c = 3 },\nd = 1\n", "1:5", "not closed"),
            ("a = [\n  \"x\"\n  \"y\"\n]\nb = 1\n", "3:3", "comma"),
            ("a = [\"x\",\n\"US-HI\" = 1\n", "1:5", "not closed"),
            ("a = [\n  \"v=1\"\n  \"x = 1\"\n]\nb = 1\n", "3:3", "comma"),
            ("a = [\n  [1, 2]\n  [3, 4]\n]\nb = 1\n", "3:3", "comma"),
            ("a = [\"x\" \"y\"]\nb = 1\n", "1:10", "comma"),
            ("a = [\"x, \"y\"]\nb = 1\n", "1:", ""),
            ("a = \"x\nb = 1\nc = \"y\"\n", "1:", "expected `\"`"),
            ("a = x\"\nb = 1\nc = \"y\"\n", "1:5", "missing opening quote"),
            ("[a\nb = 1\n[a.c]\nd = 1\n[[a]]\ne = 2\n", "1:3", "expected `]`"),
            ("[[a]\nb = 1\n[[a]]\nc = 1\n", "1:", ""),
            ("a = { b = 1, c = 2\n[e]\nf = 4\n", "1:5", "the table that begins here"),
            ("a = { b = 1, c = 2\nd = 3\n[e]\nf = 4\n", "", ""),
            ("a = \nb = 1\n", "1:", ""),
            ("a 1\nb = 1\n", "1:", ""),
        ] {
            let errors = errors(text);
            assert_eq!(errors.len(), 1, "{text}\n{errors:#?}");
            assert!(errors[0].starts_with(&format!("f.toml:{place}")), "{text}\n{errors:#?}");
            assert!(errors[0].contains(says), "{text}\n{errors:#?}");
        }
    }

    #[test]
    fn keys_that_stand_twice_are_all_told_up_to_another_mistake() {
        let twice = errors("a = 1\na = 2\nb = 1\nb = 2\n");
        assert_eq!(twice.len(), 2, "{twice:#?}");
        let broken = errors("a = 1\na = 2\nb = [1\nc = 1\nc = 2\n");
        assert_eq!(broken.len(), 2, "{broken:#?}");
        assert!(broken[1].contains("not closed"), "{broken:#?}");
    }

    #[test]
    fn nothing_else_is_told_of_a_file_that_is_no_toml() {
        let source = Source::new("f.toml", "a = [1\nb = 2\n");
        let report = Report::default();
        let document = File::parse(&source, &report);
        let root = document.root();
        root.required("c", "give it");
        root.finish();
        drop(document);
        assert!(report.is_silenced(source.path()));
        assert_eq!(report.into_sorted().len(), 1);
    }
}
