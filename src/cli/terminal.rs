//! How output is fitted to where it goes: as wide as the terminal, with colours on one only, and without what
//! a terminal would obey.

use std::io::{IsTerminal, stdout};

use clap::builder::styling::{AnsiColor, Effects, Style};

/// The width where it goes to no terminal.
const UNLIMITED: usize = usize::MAX;
/// A terminal counts as at least so wide: below that nothing can be read anyway.
const NARROWEST: usize = 40;

/// Where the output goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terminal {
    /// How many characters a line may have.
    pub(super) width: usize,
    has_colours: bool,
}

/// What a piece of text says, for its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// Nothing in particular.
    Plain,
    /// It is as it should be.
    Good,
    /// It is not.
    Bad,
    /// It is so on purpose, or not known.
    Odd,
    /// It is a heading.
    Heading,
    /// It matters less than the rest.
    Aside,
}

/// A line of pieces.
pub(super) type Pieces = Vec<(Tone, String)>;

/// A text of another machine, with all that a terminal would obey or that would reorder the text escaped as in
/// JSON. Line breaks and tabs stay.
pub(super) fn harmless(text: &str) -> String {
    escaped(text, |c| c != '\n' && c != '\t')
}

fn escaped(text: &str, also: impl Fn(char) -> bool) -> String {
    let mut harmless = String::with_capacity(text.len());
    for c in text.chars() {
        let is_obeyed = c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if is_obeyed && also(c) {
            harmless.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            harmless.push(c);
        }
    }
    harmless
}

impl Terminal {
    /// What standard output is.
    pub(super) fn of_output() -> Self {
        let size = rustix::termios::tcgetwinsize(stdout());
        // A terminal that does not know its width says 0.
        let width = size.ok().map(|size| usize::from(size.ws_col)).filter(|&width| width > 0);
        Self {
            width: width.map_or(UNLIMITED, |width| width.max(NARROWEST)),
            has_colours: stdout().is_terminal() && wants_colours(),
        }
    }

    #[cfg(test)]
    pub(super) fn plain(width: usize) -> Self {
        Self { width, has_colours: false }
    }

    /// A line as it is written: cut to the width, in its colours and no others.
    pub(super) fn line(self, pieces: &[(Tone, String)]) -> String {
        let harmless = |(tone, text): &(Tone, String)| (*tone, escaped(text, |_| true));
        let pieces: Pieces = pieces.iter().map(harmless).collect();
        let length: usize = pieces.iter().map(|(_, text)| text.chars().count()).sum();
        let is_cut = length > self.width;
        let mut room = if is_cut { self.width.saturating_sub(1) } else { length };
        let mut line = String::new();
        for (tone, text) in pieces {
            let kept: String = text.chars().take(room).collect();
            room -= kept.chars().count();
            line.push_str(&self.paint(tone, &kept));
        }
        if is_cut {
            line.push('…');
        }
        line
    }

    fn paint(self, tone: Tone, text: &str) -> String {
        let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
        let style = match tone {
            _ if !self.has_colours || text.is_empty() => return text.to_owned(),
            Tone::Plain => return text.to_owned(),
            Tone::Good => colour(AnsiColor::Green),
            Tone::Bad => colour(AnsiColor::Red),
            Tone::Odd => colour(AnsiColor::Yellow),
            Tone::Heading => Style::new().effects(Effects::BOLD),
            Tone::Aside => Style::new().effects(Effects::DIMMED),
        };
        format!("{style}{text}{style:#}")
    }
}

/// Unless the user wants none (no-color.org), or the terminal has none.
fn wants_colours() -> bool {
    let is_set = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !is_set && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces() -> Pieces {
        vec![(Tone::Good, "ams-1".to_owned()), (Tone::Plain, "  healthy".to_owned())]
    }

    #[test]
    fn lines_are_cut_to_the_width() {
        let line = |width| Terminal::plain(width).line(&pieces());
        assert_eq!(line(14), "ams-1  healthy");
        assert_eq!(line(13), "ams-1  healt…");
        assert_eq!(line(4), "ams…");
        assert_eq!(line(1), "…");
    }

    #[test]
    fn nothing_is_printed_that_a_terminal_obeys() {
        let text = "\u{1b}[2Ja\tb\r\u{9b}1m\u{202e}c é\n";
        assert_eq!(harmless(text), "\\u001b[2Ja\tb\\u000d\\u009b1m\\u202ec é\n");
        let line = Terminal::plain(80).line(&[(Tone::Plain, "a\u{1b}[31m\nb".to_owned())]);
        assert_eq!(line, "a\\u001b[31m\\u000ab");
    }

    #[test]
    fn colours_do_not_count_as_width() {
        let terminal = Terminal { width: 14, has_colours: true };
        assert_eq!(terminal.line(&pieces()), "\u{1b}[32mams-1\u{1b}[0m  healthy");
        let narrow = Terminal { width: 4, has_colours: true };
        assert_eq!(narrow.line(&pieces()), "\u{1b}[32mams\u{1b}[0m…");
    }
}
