//! The words of master-file text (RFC 1035 section 5.1): the first step from a zone's text to its
//! records, pure and linear in the text's length.
//!
//! A [`Lexer`] yields one [`Entry`] a record or directive: comments are gone, parentheses have
//! joined their lines, and each [`Token`] keeps the text as it was written, escapes included, so
//! that a name can tell `\.` from `.`; [`Token::octets`] resolves them. After a mistake it goes on
//! at the next entry, so that one run shows all mistakes.

use std::borrow::Cow;

/// How a token was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quoting {
    /// Without quotes.
    Bare,
    /// In quotes, which are no part of the token's text.
    Quoted,
    /// As `key="value"` (RFC 9460 section 2.1), the quotes a part of the token's text.
    Pair,
}

/// One character string of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    text: &'a str,
    quoting: Quoting,
    offset: usize,
}

impl<'a> Token<'a> {
    /// The text as it was written, escapes kept, quotes around it removed.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// How it was written.
    pub fn quoting(&self) -> Quoting {
        self.quoting
    }

    /// Where it begins in the text, in octets; a quoted one at its quote.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The octets that the text stands for, escapes resolved.
    pub fn octets(&self) -> Cow<'a, [u8]> {
        unescape(self.text)
    }

    /// The key and the value of a token of the form `key`, `key=value` or `key="value"`.
    pub fn key_and_value(&self) -> (&'a str, Option<&'a str>) {
        match self.text.split_once('=') {
            None => (self.text, None),
            Some((key, value)) if self.quoting == Quoting::Pair => (
                key,
                value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).or(Some(value)),
            ),
            Some((key, value)) => (key, Some(value)),
        }
    }
}

/// The tokens of one record or directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Where it begins in the text, in octets.
    pub offset: usize,
    /// True if the line begins with white space: the owner is that of the record before.
    pub blank: bool,
    /// The tokens, at least one.
    pub tokens: Vec<Token<'a>>,
    /// Where its first comment begins.
    pub comment: Option<usize>,
}

/// A mistake that keeps an entry from being split into tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LexError {
    /// Where it is in the text, in octets.
    pub offset: usize,
    /// What it is.
    pub kind: LexErrorKind,
}

/// What keeps an entry from being split into tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LexErrorKind {
    /// A parenthesis that is open at the next one, or at the end of the text.
    #[error("the parenthesis is never closed")]
    NotClosed,
    /// A closing parenthesis without an opening one.
    #[error("there is no parenthesis to close here")]
    NotOpened,
    /// A quote without a second one on its line.
    #[error("the quote is not closed on its line")]
    OpenQuote,
    /// A quote inside a word.
    #[error("a quote stands inside a word")]
    QuoteInWord,
    /// A backslash without three digits up to 255, or a character, behind it.
    #[error("the backslash is not followed by three digits (000 to 255) or one character")]
    BadEscape,
}

impl LexErrorKind {
    /// What would be right.
    pub fn help(self) -> &'static str {
        match self {
            Self::NotClosed => "close it with ) before the next record; they do not nest",
            Self::NotOpened => "remove the ), or open it with ( on the record's first line",
            Self::OpenQuote => r#"close it with " on the same line; a quote in the text is \""#,
            Self::QuoteInWord => r#"put white space before it, or write \" for a quote itself"#,
            Self::BadEscape => r"write \\ for a backslash itself, \007 for an octet by its number",
        }
    }
}

/// Iterates over the entries of a text.
#[derive(Debug)]
pub struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// Where the parenthesis that is open was opened.
    open: Option<usize>,
}

impl<'a> Lexer<'a> {
    /// Starts at the beginning of a text; a byte order mark there is skipped.
    pub fn new(text: &'a str) -> Self {
        let at = if text.starts_with('\u{feff}') { 3 } else { 0 };
        Self { text, at, open: None }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn error(&self, kind: LexErrorKind) -> LexError {
        let offset = self.at;
        LexError { offset, kind }
    }

    /// Reads up to the line end that closes the entry.
    fn entry(&mut self) -> Result<Entry<'a>, LexError> {
        let mut entry = Entry {
            offset: self.at,
            blank: matches!(self.peek(), Some(b' ' | b'\t')),
            tokens: Vec::new(),
            comment: None,
        };
        while let Some(octet) = self.peek() {
            match octet {
                b'\n' => {
                    self.at += 1;
                    if self.open.is_none() {
                        return Ok(entry);
                    }
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                b';' => {
                    entry.comment.get_or_insert(self.at);
                    self.skip_to_line_end();
                }
                // Nesting has no meaning, and refusing it finds a forgotten ) at the next record
                // that has parentheses, not only at the end of the text.
                b'(' if self.open.is_some() => break,
                b'(' => {
                    self.open = Some(self.at);
                    self.at += 1;
                }
                b')' => {
                    if self.open.take().is_none() {
                        return Err(self.error(LexErrorKind::NotOpened));
                    }
                    self.at += 1;
                }
                b'"' => entry.tokens.push(self.quoted()?),
                _ => entry.tokens.push(self.bare()?),
            }
        }
        match self.open {
            None => Ok(entry),
            Some(offset) => {
                let kind = LexErrorKind::NotClosed;
                Err(LexError { offset, kind })
            }
        }
    }

    /// Reads a token in quotes, from its first quote.
    fn quoted(&mut self) -> Result<Token<'a>, LexError> {
        let offset = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                None | Some(b'\n') => {
                    let kind = LexErrorKind::OpenQuote;
                    return Err(LexError { offset, kind });
                }
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(_) => self.at += 1,
            }
        }
        let text = self.text.get(offset + 1..self.at).unwrap_or_default();
        self.at += 1;
        let quoting = Quoting::Quoted;
        Ok(Token { text, quoting, offset })
    }

    /// Reads a token without quotes around it.
    fn bare(&mut self) -> Result<Token<'a>, LexError> {
        let offset = self.at;
        let mut quoting = Quoting::Bare;
        let mut before = 0;
        while let Some(octet) = self.peek() {
            match octet {
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'(' | b')' => break,
                b'"' if before == b'=' => {
                    self.quoted()?;
                    quoting = Quoting::Pair;
                    break;
                }
                b'"' => return Err(self.error(LexErrorKind::QuoteInWord)),
                b'\\' => self.escape()?,
                _ => self.at += 1,
            }
            before = octet;
        }
        let text = self.text.get(offset..self.at).unwrap_or_default();
        Ok(Token { text, quoting, offset })
    }

    /// Passes a backslash and what it escapes.
    fn escape(&mut self) -> Result<(), LexError> {
        let rest = self.text.as_bytes().get(self.at + 1..).unwrap_or_default();
        match rest {
            [b'0'..=b'9', ..] if decimal(rest).is_some() => self.at += 4,
            [] | [b'0'..=b'9' | b'\n' | b'\r', ..] => {
                return Err(self.error(LexErrorKind::BadEscape));
            }
            _ => self.at += 2,
        }
        Ok(())
    }

    fn skip_to_line_end(&mut self) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|&&octet| octet != b'\n').count();
    }

    /// Goes on after a mistake: at the next line, or where a parenthesis was open, at the next one
    /// that looks like the beginning of an entry.
    fn resume(&mut self, error: LexError) {
        if error.kind == LexErrorKind::NotClosed {
            self.at = error.offset;
        }
        let was_open = self.open.take().is_some();
        loop {
            self.skip_to_line_end();
            self.at += 1;
            let next = self.peek();
            let continues = matches!(next, Some(b' ' | b'\t' | b'\r' | b'\n' | b'"' | b')' | b';'));
            if !(was_open && continues) {
                break;
            }
        }
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Result<Entry<'a>, LexError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.text.len() {
            match self.entry() {
                Ok(entry) if entry.tokens.is_empty() => {}
                Ok(entry) => return Some(Ok(entry)),
                Err(error) => {
                    self.resume(error);
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// The octets that a text with `\DDD` and `\X` escapes stands for. A backslash that escapes
/// nothing, which the lexer lets through nowhere, stands for itself.
pub fn unescape(text: &str) -> Cow<'_, [u8]> {
    if !text.contains('\\') {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&octet, tail)) = rest.split_first() {
        rest = tail;
        let escape = (octet == b'\\').then_some(tail);
        match escape.and_then(<[u8]>::split_first) {
            None => octets.push(octet),
            Some((&escaped, after)) => match decimal(tail) {
                Some(value) => {
                    octets.push(value);
                    rest = tail.get(3..).unwrap_or_default();
                }
                None => {
                    octets.push(escaped);
                    rest = after;
                }
            },
        }
    }
    Cow::Owned(octets)
}

/// The value of the three digits that `octets` begins with.
fn decimal(octets: &[u8]) -> Option<u8> {
    let digits = octets.get(..3)?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(text: &str) -> Vec<Vec<&str>> {
        Lexer::new(text)
            .map(|entry| entry.unwrap().tokens.iter().map(Token::text).collect())
            .collect()
    }

    fn errors(text: &str) -> Vec<(usize, LexErrorKind)> {
        let errors = Lexer::new(text).filter_map(Result::err);
        errors.map(|error| (error.offset, error.kind)).collect()
    }

    #[test]
    fn comments_go_and_parentheses_join_lines() {
        assert_eq!(
            texts("; c\na b;c\n\n d ( e ; f )\n g)h\r\n\"i;(\" j"),
            [vec!["a", "b"], vec!["d", "e", "g", "h"], vec!["i;(", "j"]]
        );
    }

    #[test]
    fn a_blank_first_field_is_seen() {
        let blanks: Vec<_> =
            Lexer::new(" a\nb\n\tc\n(\n d)\n").map(|entry| entry.unwrap().blank).collect();
        assert_eq!(blanks, [true, false, true, false]);
    }

    #[test]
    fn tokens_know_how_and_where_they_were_written() {
        let entry = Lexer::new("\u{feff}a \"b\" c=\"d e\"").next().unwrap().unwrap();
        let found: Vec<_> = entry
            .tokens
            .iter()
            .map(|token| (token.text(), token.quoting(), token.offset()))
            .collect();
        assert_eq!(
            found,
            [("a", Quoting::Bare, 3), ("b", Quoting::Quoted, 5), ("c=\"d e\"", Quoting::Pair, 9)]
        );
        assert_eq!(entry.tokens[2].key_and_value(), ("c", Some("d e")));
        assert_eq!(entry.tokens[0].key_and_value(), ("a", None));
    }

    #[test]
    fn escapes_are_kept_in_the_text_and_resolved_in_the_octets() {
        let entry = Lexer::new(r#"a\.b\000\;\  "\"\255""#).next().unwrap().unwrap();
        assert_eq!(entry.tokens[0].text(), r"a\.b\000\;\ ");
        assert_eq!(entry.tokens[0].octets().as_ref(), b"a.b\0; ");
        assert_eq!(entry.tokens[1].octets().as_ref(), b"\"\xff");
        assert_eq!(unescape("\\é").as_ref(), "é".as_bytes());
    }

    #[test]
    fn mistakes_have_an_offset_and_the_next_entry_is_read() {
        use LexErrorKind::*;

        assert_eq!(errors("a )\nb"), [(2, NotOpened)]);
        assert_eq!(errors("a (\n b\nc\n"), [(2, NotClosed)]);
        assert_eq!(errors("a (\n b\nc ( d )\ne )\n"), [(2, NotClosed), (17, NotOpened)]);
        assert_eq!(errors("a \"b\n\"c\""), [(2, OpenQuote)]);
        assert_eq!(errors("a b\"c\"\n"), [(3, QuoteInWord)]);
        assert_eq!(
            errors("a \\25\n\\256\n\"\\"),
            [(2, BadEscape), (6, BadEscape), (12, BadEscape)]
        );
        let rest: Vec<_> = Lexer::new("a (\n b\n\nc d\n").filter_map(Result::ok).collect();
        assert_eq!(rest.len(), 1);
        assert_eq!(rest[0].offset, 8);
    }

    #[test]
    fn a_hostile_text_is_read_in_linear_time() {
        for text in ["(", "(\n", "a(\n", "\"", "\"\n", ")\n", "\\", " \n(", "a "] {
            let text = text.repeat(1 << 20);
            Lexer::new(&text).for_each(drop);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_split_without_a_panic(text in r#"([ \t\r\n\\"();=a1é]|\PC)*"#) {
            for entry in Lexer::new(&text).flatten() {
                for token in entry.tokens {
                    token.octets();
                    token.key_and_value();
                }
            }
        }
    }
}
